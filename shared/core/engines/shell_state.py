"""What a shell knows while it reads: its variables, and the word it is putting together."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from shared.core.engines.words import LONGEST_TEXT, Variables, Word

_FIELD = re.compile(r"[^ \t\n]+")


class Scope:
    """The variables at one point of a shell text, and the parameters `$0`, `$1`, ... that it was called with."""

    def __init__(self, variables: Variables, parameters: Sequence[Word]) -> None:
        self._values: dict[str, str | None] = dict(variables)
        self._parameters = tuple(parameters)
        self._exported = set(variables)
        self._set_here: dict[str, Word] = {}
        self._environment: Mapping[str, Word] = {}
        self._put_in = 0

    def arguments(self) -> tuple[Word, ...] | None:
        """What `$@` stands for, None if it cannot be known. Bounded as `value` is."""
        found = self._parameters[1:]
        self._put_in += sum(len(word.text) + 1 for word in found) if self._put_in <= LONGEST_TEXT else 0
        return None if self._put_in > LONGEST_TEXT else found

    @property
    def environment(self) -> Mapping[str, Word]:
        """What a program started now finds in its environment because of this text. It stays as it is."""
        return self._environment

    def defines(self, name: str) -> bool:
        return name in self._values or self._parameter(name) is not None

    def value(self, name: str) -> str | None:
        """The value of a variable, None if it cannot be known. Bounded, since references multiply texts."""
        parameter = self._parameter(name)
        found = self._values.get(name)
        if parameter is not None:
            found = parameter.text if parameter.known else None
        self._put_in += len(found or "")
        return None if self._put_in > LONGEST_TEXT else found

    def assign(self, name: str, word: Word) -> None:
        self._values[name] = word.text if word.known else None
        self._set_here[name] = word
        self._show(name)

    def export(self, name: str) -> None:
        self._exported.add(name)
        self._show(name)

    def forget(self, name: str) -> None:
        """The variable has a value that only a running shell knows."""
        self._values[name] = None

    def _show(self, name: str) -> None:
        if name in self._exported and name in self._set_here:
            self._environment = {**self._environment, name: self._set_here[name]}

    def _parameter(self, name: str) -> Word | None:
        if not name.isdigit() or len(name) > 3 or int(name) >= len(self._parameters):
            return None
        return self._parameters[int(name)]


class Pieces:
    """A word being put together. An unquoted expansion may end it and begin others."""

    def __init__(self) -> None:
        self._done: list[Word] = []
        self._parts: list[str] = []
        self._begun = False
        self._known = True
        self._single = True

    def add(self, text: str, *, known: bool = True, quoted: bool = True) -> None:
        """Adds to the word. Quotes make a word even of nothing."""
        self._begun = self._begun or quoted or bool(text)
        self._parts.append(text)
        self._known = self._known and known
        self._single = self._single and (known or quoted)

    def add_expansion(self, word: Word, *, quoted: bool) -> None:
        """Adds the value of an expansion, which the shell splits at blanks where no quotes stand around it."""
        if quoted or not word.known:
            self.add(word.text, known=word.known, quoted=quoted)
            return
        fields = _FIELD.findall(word.text)
        if word.text[:1] in {" ", "\t", "\n"}:
            self.end()
        for index, text in enumerate(fields):
            if index:
                self.end()
            self.add(text, quoted=False)
        if fields and word.text[-1] in " \t\n":
            self.end()

    def end(self) -> list[Word]:
        """Closes the word, if one was begun, and gives all there are."""
        if self._begun:
            self._done.append(Word("".join(self._parts), self._known, self._single))
        self._parts = []
        self._begun = False
        self._known = True
        self._single = True
        return self._done
