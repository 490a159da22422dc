"""The words of a shell text: quotes, escapes and expansions."""

from __future__ import annotations

import re
from collections.abc import Sequence

from shared.core.engines.shell_state import Pieces, Scope
from shared.core.engines.words import Word

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[0-9@*]")
_EXPANSION = re.compile(r"([A-Za-z_][A-Za-z0-9_]*|[0-9]+|[@*])(:?[-=+?])?")
_PLAIN = re.compile(r"[^ \t\r\n;&|()<>\"'\\$`#]+")
_IN_QUOTES = re.compile(r'[^"\\$`]+')

_DEEPEST = 8


class WordReader:
    """Reads words from a text. Every method leaves `at` behind what it has read."""

    def __init__(self, text: str, scope: Scope, depth: int = 0) -> None:
        self.at = 0
        self.text = text
        self.scope = scope
        self.unread: list[str] = []
        self._depth = depth

    def assign(self, name: str, word: Word) -> None:
        """Sets a variable. A reader of commands knows when that is uncertain."""
        self.scope.assign(name, word)

    def word(self, *, split: bool = True) -> list[Word]:
        """The words that the text at this point makes: one, several or none where an expansion is split."""
        pieces = Pieces()
        while self.at < len(self.text):
            char = self.text[self.at]
            if plain := _PLAIN.match(self.text, self.at):
                self.at = plain.end()
                pieces.add(plain[0], quoted=False)
            elif char == "\\":
                self._escape(pieces)
            elif char == "'":
                self._single_quoted(pieces)
            elif self.text.startswith('"$@"', self.at):
                self.at += 4
                self._add_arguments(pieces, self.at - 4)
            elif char == '"':
                self._double_quoted(pieces)
            elif char in "$`":
                self._dollar(pieces, quoted=not split)
            elif char == "#":
                self.at += 1
                pieces.add(char, quoted=False)
            else:
                break
        return pieces.end()

    def _escape(self, pieces: Pieces) -> None:
        escaped = self.text[self.at + 1 : self.at + 2]
        self.at += 2
        if escaped != "\n":
            pieces.add(escaped)

    def _single_quoted(self, pieces: Pieces) -> None:
        start = self.at + 1
        end = self.text.find("'", start)
        closed = end >= 0
        end = end if closed else len(self.text)
        pieces.add(self.text[start:end], known=closed)
        self.at = end + 1
        if not closed:
            self._unclosed("'")

    def _double_quoted(self, pieces: Pieces) -> None:
        self.at += 1
        pieces.add("")
        while self.at < len(self.text):
            char = self.text[self.at]
            following = self.text[self.at + 1 : self.at + 2]
            if char == '"':
                self.at += 1
                return
            if char == "\\":
                pieces.add(following if following in '$`"\\' else "" if following == "\n" else char + following)
                self.at += 2
            elif char == "`" or (char == "$" and following not in {'"', "'"}):
                self._dollar(pieces, quoted=True)
            else:
                literal = _IN_QUOTES.match(self.text, self.at)
                self.at = literal.end() if literal else self.at + 1
                pieces.add(literal[0] if literal else char)
        pieces.add("", known=False)
        self._unclosed('"')

    def _dollar(self, pieces: Pieces, *, quoted: bool) -> None:
        """An expansion, or a dollar sign that begins none."""
        start = self.at
        following = self.text[start + 1 : start + 2]
        if self.text[start] == "`":
            self.at += 1
            self.skip_to("`")
            self.at += 1
            self._add_unknown(pieces, start, quoted=quoted)
        elif following == "(":
            self.at += 2
            self.skip_balanced("(", ")")
            self._add_unknown(pieces, start, quoted=quoted)
        elif following == "{":
            self._braces(pieces, quoted=quoted)
        elif name := _NAME.match(self.text, start + 1):
            self.at = name.end()
            self._add_variable(pieces, name[0], start, quoted=quoted)
        elif following and following in "?!#$-":
            self.at += 2
            self._add_unknown(pieces, start, quoted=quoted)
        else:
            self.at += 1
            if following not in {"'", '"'}:  # $'...' and $"..." are quotes with more escapes
                pieces.add("$", quoted=False)

    def _braces(self, pieces: Pieces, *, quoted: bool) -> None:
        """`${NAME}` and its forms with a default. Every other form depends on what a shell would compute."""
        start = self.at
        self.at += 2
        self.skip_balanced("{", "}")
        inner = self.text[start + 2 : self.at - 1]
        match = _EXPANSION.match(inner)
        if match is None or (match[2] is None and match.end() != len(inner)):
            self._add_unknown(pieces, start, quoted=quoted)
            return
        name, operator, rest = match[1], match[2] or "", inner[match.end() :]
        missing = not self.scope.defines(name) or (operator.startswith(":") and self.scope.value(name) == "")
        if operator.endswith("+"):
            if not missing:
                pieces.add_expansion(self._inner_word(rest), quoted=quoted)
        elif missing and operator.endswith(("-", "=")):
            word = self._inner_word(rest)
            if operator.endswith("="):
                self.assign(name, word)
            pieces.add_expansion(word, quoted=quoted)
        else:
            self._add_variable(pieces, name, start, quoted=quoted)

    def _inner_word(self, text: str) -> Word:
        """The text behind `:-`, itself expanded. Its blanks are part of it."""
        if self._depth >= _DEEPEST:
            return Word(text, known=False)
        reader = WordReader(text, self.scope, self._depth + 1)
        pieces = Pieces()
        while reader.at < len(text):
            start = reader.at
            for word in reader.word(split=False):
                pieces.add(word.text, known=word.known)
            if reader.at == start:
                pieces.add(text[start])
                reader.at += 1
        self.unread.extend(reader.unread)
        return joined(pieces.end())

    def _add_variable(self, pieces: Pieces, name: str, start: int, *, quoted: bool) -> None:
        if name in {"@", "*"}:
            self._add_arguments(pieces, start)
            return
        value = self.scope.value(name)
        if value is None:
            self._add_unknown(pieces, start, quoted=quoted)
        else:
            pieces.add_expansion(Word(value), quoted=quoted)

    def _add_arguments(self, pieces: Pieces, start: int) -> None:
        arguments = self.scope.arguments()
        if arguments is None:
            self._add_unknown(pieces, start, quoted=False)
            return
        for index, word in enumerate(arguments):
            if index:
                pieces.end()
            pieces.add(word.text, known=word.known)

    def _add_unknown(self, pieces: Pieces, start: int, *, quoted: bool) -> None:
        pieces.add(self.text[start : self.at], known=False, quoted=quoted)

    def skip_to(self, stop: str) -> None:
        end = self.text.find(stop, self.at)
        self.at = end if end >= 0 else len(self.text)

    def skip_balanced(self, opening: str, closing: str) -> None:
        """Goes behind the sign that closes what was opened just before, past quotes and nested pairs."""
        level = 1
        while self.at < len(self.text):
            char = self.text[self.at]
            self.at += 1
            if char == "\\":
                self.at += 1
            elif char in "'\"":
                end = self.text.find(char, self.at)
                self.at = end + 1 if end >= 0 else len(self.text)
            elif char in {opening, closing}:
                level += 1 if char == opening else -1
                if level == 0:
                    return
        self.at = len(self.text) + 1
        self._unclosed(opening)

    def _unclosed(self, sign: str) -> None:
        self.unread.append(f"everything behind a {sign} that is not closed")


def joined(words: Sequence[Word]) -> Word:
    """One word of all of them: in an assignment nothing is split."""
    return Word(" ".join(word.text for word in words), all(word.known for word in words))
