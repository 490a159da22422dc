"""How the texts of refusals are put together: counts, lists, sentences, and texts that keep to a length."""

from __future__ import annotations

from collections.abc import Sequence

NAME_LIMIT = 50
"""How much of a name a text shows."""


def counted(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def join(items: Sequence[str], word: str) -> str:
    *head, last = items
    return f"{', '.join(head)} {word} {last}" if head else last


def sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def one_line(text: str) -> str:
    """A text that may hold what somebody wrote, without anything that ends a line or is no print."""
    return text if text.isprintable() else " ".join("".join(c if c.isprintable() else " " for c in text).split())


def cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3].rstrip() + "..."
