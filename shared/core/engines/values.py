"""Texts of flags and variables as numbers. Each reader raises `NotUnderstood` rather than assume."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

Value: TypeAlias = int | float | str | bool | None
"""None is a text that is understood and names no value, such as `auto`."""
Reader: TypeAlias = Callable[[str], Value]

_WHOLE = re.compile(r"[0-9]{1,9}\Z")
_HUMAN = re.compile(r"([0-9]{1,15})(\.[0-9]{1,9})?([kKmMgGtT])?\Z")
_FRACTION = re.compile(r"(?:[0-9]{1,4}(?:\.[0-9]{0,17})?|\.[0-9]{1,17})\Z")
_PARALLEL_SIZES = re.compile(r"(?:^|[-_.])(tp|pp)([0-9]{1,4})(?=[-_.]|\Z)")

_SCALE = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
_YES = frozenset({"true", "1", "yes", "on", "t", "y"})
_NO = frozenset({"false", "0", "no", "off", "f", "n"})
_NO_DEVICE = frozenset({"", "-1", "none", "void", "NoDevFiles"})
_BY_ITSELF = frozenset({"auto", "-1", "0"})


class NotUnderstood(ValueError):
    """A text that is not a value of its flag."""


def name(text: str) -> Value:
    """A model name or path."""
    if not text.strip():
        raise NotUnderstood
    return text


def count(text: str) -> Value:
    """A whole number of at least 1."""
    number = count_or_none(text)
    if number == 0:
        raise NotUnderstood
    return number


def count_or_none(text: str) -> Value:
    """A whole number of at least 0."""
    if not _WHOLE.match(text):
        raise NotUnderstood
    return int(text)


def human(text: str) -> Value:
    """A whole number with an optional suffix: `32k` is 32,000 and `32K` 32,768, as vLLM reads them."""
    match = _HUMAN.match(text)
    if match is None or (match[2] and not (match[3] or "").islower()):
        raise NotUnderstood
    return int(Fraction(match[1] + (match[2] or "")) * _SCALE.get(match[3] or "", 1))


def tokens(text: str) -> Value:
    """A context length. `auto`, -1 and 0 leave it to the engine."""
    return None if text.lower() in _BY_ITSELF else human(text)


def fraction(text: str) -> Value:
    """A decimal number, such as `0.9` or `.9`."""
    if not _FRACTION.match(text):
        raise NotUnderstood
    return float(text)


def fraction_not_blocks(text: str) -> Value:
    """A decimal number of at most 1: for LMDeploy a larger one is a number of blocks."""
    number = fraction(text)
    assert isinstance(number, float)
    if number > 1:
        raise NotUnderstood
    return number


def present(_text: str) -> Value:
    """That the flag stands there is what it says."""
    return True


def boolean(text: str) -> Value:
    """`true`, `1`, `yes`, `on`, or the opposite."""
    word = text.lower()
    if word not in _YES | _NO:
        raise NotUnderstood
    return word in _YES


def negated(text: str) -> Value:
    """The opposite of `boolean`."""
    return not boolean(text)


def is_the_word_none(text: str) -> Value:
    """Whether a mode is `none`."""
    return text.lower() == "none"


def split_length(text: str) -> Value:
    """How many cards a split such as `24,16` gives something to. None if the text names no part."""
    return sum(1 for part in text.split(",") if part.strip(" 0.")) or None


def devices_length(text: str) -> Value:
    """How many devices a list such as `0,1` or `CUDA0,CUDA1` names. None for an empty list."""
    return sum(1 for device in text.split(",") if device.strip() not in _NO_DEVICE) or None


def tensor_size_in_name(text: str) -> Value:
    """The tensor-parallel size in a profile name such as `tensorrt_llm-h100-fp8-tp2-pp1-latency`."""
    return _sizes(text)["tp"]


def pipeline_size_in_name(text: str) -> Value:
    """The pipeline-parallel size in a profile name, 1 where the name tells only the tensor-parallel one."""
    return _sizes(text).get("pp", 1)


def _sizes(text: str) -> dict[str, int]:
    sizes = {match[1]: int(match[2]) for match in _PARALLEL_SIZES.finditer(text.lower()) if int(match[2])}
    if "tp" not in sizes:
        raise NotUnderstood
    return sizes
