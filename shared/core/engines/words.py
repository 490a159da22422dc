"""The words of a command line, and Kubernetes' `$(NAME)` references in them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shared.core.containers import Container

Variables: TypeAlias = Mapping[str, str | None]
"""Environment variables by name. None is one that is set, with a value that cannot be known here."""

LONGEST_TEXT = 32768
"""Characters of one text that are read. References may multiply each other; a longer text counts as not known."""
_LONGEST_IN_ALL = 8 * LONGEST_TEXT
"""Characters that the references of one container may put in."""

_REFERENCE = re.compile(r"\$(?:\$|\(([^()$]*)\))")


@dataclass(frozen=True, slots=True)
class Word:
    """One word. `known` is false if a part of it comes from elsewhere; that part then stands as written.

    `single` is false for a word that the shell may split into several, or drop, once it knows the value.
    """

    text: str
    known: bool = True
    single: bool = True


def variables_of(container: Container) -> dict[str, str | None]:
    """The variables of a container, with references to earlier ones put in."""
    found: dict[str, str | None] = dict.fromkeys(container.env_from_elsewhere)
    room = _LONGEST_IN_ALL
    for name, value in container.env.items():
        word = expand(value, found, room)
        room -= _put_in(word.text, value)
        found[name] = word.text if word.known else None
    return found


def expand_all(texts: Sequence[str], variables: Variables) -> list[Word]:
    """Every one of `texts` with its references put in."""
    words: list[Word] = []
    room = _LONGEST_IN_ALL
    for text in texts:
        words.append(expand(text, variables, room))
        room -= _put_in(words[-1].text, text)
    return words


def expand(text: str, variables: Variables, room: int = LONGEST_TEXT) -> Word:
    """`text` with its `$(NAME)` references put in. `$$` is a dollar sign; an undefined name stays as it is written.

    References beyond `room` characters stay as written too.
    """
    if len(text) > LONGEST_TEXT:
        return Word(text[:LONGEST_TEXT], known=False)
    room = min(room, LONGEST_TEXT)
    parts: list[str] = []
    known = True
    last = 0
    for match in _REFERENCE.finditer(text):
        parts.append(text[last : match.start()])
        last = match.end()
        value = "$" if match[1] is None else variables.get(match[1])
        if value is None or len(value) > room:
            value, known = match[0], False
        else:
            room -= len(value)
        parts.append(value)
    return Word("".join((*parts, text[last:])), known)


def _put_in(expanded: str, text: str) -> int:
    return max(0, len(expanded) - len(text))
