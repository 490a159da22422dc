"""Shell text as the commands it starts. Nothing is run: what only a running shell can know is marked as not known.

The words follow POSIX sh (quotes, escapes, comments, here-documents, parameter expansion) with bash's redirections. A
text that no shell would accept still gives its words, and says what is wrong with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from shared.core.engines.shell_state import Scope
from shared.core.engines.shell_words import WordReader, joined
from shared.core.engines.words import LONGEST_TEXT, Variables, Word

_BLANK = " \t\r"
_ASSIGNMENT = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_HERE_DOCUMENT = re.compile(r"<<(?!<)-?[ \t]*(?:'([^'\n]+)'|\"([^\"\n]+)\"|\\?([^\s;&|()<>'\"\\]+))")
_REDIRECTION = re.compile(r"&>>?|<<<|<<|>>|[<>]&|>\||<>|[<>]")

_EXPORTS = frozenset({"export", "declare", "typeset", "readonly", "local"})
_FORGETS = frozenset({"read", "unset"})
_OPENS = frozenset({"if", "while", "until"})
_OPENS_LIST = frozenset({"for", "case", "select"})
_CLOSES = frozenset({"fi", "done", "esac"})
_GOES_ON = frozenset({"then", "else", "elif", "do", "{", "}", "!"})
_TESTS = frozenset({"[", "[[", "test"})


@dataclass(frozen=True, slots=True)
class Command:
    """One simple command: its words, and the variables that the text sets for it."""

    words: tuple[Word, ...]
    env: Mapping[str, Word]


@dataclass(frozen=True, slots=True)
class Script:
    """The commands of a shell text in order, and what of it could not be read."""

    commands: tuple[Command, ...]
    unread: tuple[str, ...]


def read_script(text: str, variables: Variables, parameters: Sequence[Word] = ()) -> Script:
    """The commands in `text`, which sees `variables` and, as `$0`, `$1`, ..., `parameters`. Never raises."""
    if len(text) > LONGEST_TEXT:
        return Script((), ("a shell text of more than 32 KiB",))
    reader = _CommandReader(text, Scope(variables, parameters))
    reader.read()
    return Script(tuple(reader.commands), tuple(reader.unread))


class _CommandReader(WordReader):
    """One pass over a shell text."""

    def __init__(self, text: str, scope: Scope) -> None:
        super().__init__(text, scope)
        self.commands: list[Command] = []
        self._words: list[Word] = []
        self._prefix: dict[str, Word] = {}
        self._branches = 0
        self._conditional = False
        self._here_documents: list[str] = []

    def read(self) -> None:
        while self.at < len(self.text):
            char = self.text[self.at]
            if self.text.startswith("\\\n", self.at):
                self.at += 2
            elif char == "\n":
                self.at += 1
                self._end_command("\n")
                self._skip_here_documents()
            elif char in _BLANK:
                self.at += 1
            elif char == "#":
                self.skip_to("\n")
            elif char in "<>" or self.text.startswith("&>", self.at):
                self._redirection()
            elif char in ";&|()":
                doubled = char in ";&|" and self.text.startswith(char * 2, self.at)
                self.at += 2 if doubled else 1
                self._end_command(char * 2 if doubled else char)
            else:
                self._read_word()
        self._end_command("\n")

    def _read_word(self) -> None:
        start = self.at
        exporting = bool(self._words) and self._words[0].text in _EXPORTS
        assignment = _ASSIGNMENT.match(self.text, start) if exporting or not self._words else None
        if assignment:
            self.at = assignment.end()
            self._assignment(assignment, exporting=exporting)
            return
        words = self.word()
        if self.text[start : self.at].isdigit() and self.text[self.at : self.at + 1] in {"<", ">"}:
            return  # the number of a file that is redirected
        if exporting:
            for word in words:
                self.scope.export(word.text)
        self._words.extend(words)
        if len(self._words) == len(words) and not self._prefix:
            self._reserved_word()

    def _assignment(self, match: re.Match[str], *, exporting: bool) -> None:
        if self.text.startswith("(", self.at):
            self.at += 1
            self.skip_balanced("(", ")")
            word = Word(self.text[match.start() : self.at], known=False)
        else:
            word = joined(self.word(split=False))
        if match[2]:
            before = self.scope.value(match[1])
            word = Word((before or "") + word.text, known=word.known and before is not None)
        if exporting:
            self.assign(match[1], word)
            self.scope.export(match[1])
        else:
            self._prefix[match[1]] = word

    def _reserved_word(self) -> None:
        """Drops a leading word of the grammar, so that the command behind it is seen."""
        first = self._words[0].text if self._words else ""
        if first in _OPENS:
            self._branches += 1
        elif first in _CLOSES:
            self._branches = max(0, self._branches - 1)
        elif first in _OPENS_LIST:
            self._branches += 1
            return  # `for x in a b` and `case x in` start nothing: they stand as a command that nobody knows
        elif first not in _GOES_ON:
            return
        self._words.clear()

    def _end_command(self, operator: str) -> None:
        first = self._words[0].text if self._words else ""
        if self._words:
            inherited = self.scope.environment
            env = {**inherited, **self._prefix} if self._prefix else inherited
            self.commands.append(Command(tuple(self._words), env))
        else:
            for name, word in self._prefix.items():
                self.assign(name, word)
        if first in _FORGETS:
            for word in self._words[1:]:
                self.scope.forget(word.text)
        self._conditional = operator == "||" or (operator == "&&" and (first in _TESTS or self._conditional))
        self._words.clear()
        self._prefix.clear()

    def assign(self, name: str, word: Word) -> None:
        """A variable that is set in a branch has that value or another one."""
        if self._branches or self._conditional:
            word = Word(word.text, known=False)
        self.scope.assign(name, word)

    def _redirection(self) -> None:
        if here := _HERE_DOCUMENT.match(self.text, self.at):
            self._here_documents.append(here[1] or here[2] or here[3])
            self.at = here.end()
            return
        operator = _REDIRECTION.match(self.text, self.at)
        assert operator is not None
        self.at = operator.end()
        if self.text.startswith("(", self.at):
            self.at += 1
            self.skip_balanced("(", ")")
            return
        while self.text[self.at : self.at + 1] in {" ", "\t"}:
            self.at += 1
        self.word(split=False)

    def _skip_here_documents(self) -> None:
        for delimiter in self._here_documents:
            end = re.compile(rf"^\t*{re.escape(delimiter)}$", re.MULTILINE).search(self.text, self.at)
            self.at = end.end() if end else len(self.text)
        self._here_documents.clear()
