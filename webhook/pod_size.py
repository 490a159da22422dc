"""How large a pod may be to be read: what reads it takes time by its size, and the event loop has none to give away.

A real pod has some hundred values. The worst pod within the limits takes the event loop some tenths of a second, in
which no other review is answered.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import orjson

from shared.core.containers import mapping, sequence
from shared.core.engines.words import LONGEST_TEXT
from shared.core.invalid import InvalidRequest
from shared.core.model_pods import names_a_gpu
from webhook.container_edits import CONTAINER_LISTS

MOST_BYTES: Final = 3 * 2**19
"""What etcd stores of one object."""
MOST_VALUES: Final = 10_000
"""Texts, numbers, lists and objects in all."""
MOST_RULES: Final = 500
"""The same of the rules that are compared with every node. A list of texts, in which one is looked up, counts once."""
MOST_TEXT: Final = 4 * LONGEST_TEXT
"""Characters that may be command lines: words and variables, without those that are too long to be read as such."""

_RULES: Final = ("affinity", "nodeSelector", "tolerations", "topologySpreadConstraints")

_Sized = tuple[str, int]
"""A field and how much stands there."""


def passes_unread(pod: Mapping[str, Any]) -> bool:
    """Whether `pod` is too large to be read and asks for nothing. Raises `InvalidRequest` where it may ask."""
    too_large = _too_large(pod)
    if too_large is not None and names_a_gpu(pod):
        raise too_large
    return too_large is not None


def _too_large(pod: Mapping[str, Any]) -> InvalidRequest | None:
    spec = mapping(pod.get("spec"), "spec")
    for parts, most, unit, fix in (
        (_values(pod, spec), MOST_VALUES, "values", "leave them to the image, a ConfigMap or a file"),
        (_rules(spec), MOST_RULES, "values of scheduling rules", "label the nodes and select that label"),
        (_texts(spec), MOST_TEXT, "characters of command lines", "move scripts into the image or a ConfigMap"),
    ):
        largest = _beyond(parts, most)
        if largest is not None:
            field, size = largest
            problem = f"is too much: a pod that asks for a card is read up to {most} {unit}"
            return InvalidRequest(field, f"{size} {unit}", problem, fix)
    size = len(orjson.dumps(pod))
    if size <= MOST_BYTES:
        return None
    problem = f"is too much: a pod of more than {MOST_BYTES} bytes cannot be stored"
    return InvalidRequest("object", f"{size} bytes", problem, "move long texts into a ConfigMap")


def _beyond(parts: Iterable[_Sized], most: int) -> _Sized | None:
    """The largest of `parts` up to where they are more than `most` together, None if they are not."""
    total, largest = 0, ("", 0)
    for field, size in parts:
        total += size
        if size > largest[1]:
            largest = field, size
        if total > most:
            return largest
    return None


def _values(pod: Mapping[str, Any], spec: Mapping[str, Any]) -> Iterator[_Sized]:
    for key, value in mapping(pod.get("metadata"), "metadata").items():
        if key != "managedFields":  # which nobody reads, and which has an entry for each other field
            yield f"metadata.{key}", _count(value)
    for key, value in spec.items():
        if key not in CONTAINER_LISTS:
            yield f"spec.{key}", _count(value)
    for kind in CONTAINER_LISTS:
        yield f"spec.{kind}", len(sequence(spec.get(kind), f"spec.{kind}"))
    for where, container in _containers(spec):
        for key, value in container.items():
            yield f"{where}.{key}", _count(value)


def _rules(spec: Mapping[str, Any]) -> Iterator[_Sized]:
    for key in _RULES:
        yield f"spec.{key}", _count(spec.get(key), lists_of_texts=False)


def _texts(spec: Mapping[str, Any]) -> Iterator[_Sized]:
    for where, container in _containers(spec):
        for key in ("command", "args"):
            yield f"{where}.{key}", _length(sequence(container.get(key), f"{where}.{key}"))
        variables = sequence(container.get("env"), f"{where}.env")
        yield f"{where}.env", _length(mapping(variable, f"{where}.env").get("value") for variable in variables)


def _containers(spec: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for kind in CONTAINER_LISTS:
        for index, container in enumerate(sequence(spec.get(kind), f"spec.{kind}")):
            where = f"spec.{kind}[{index}]"
            yield where, mapping(container, where)


def _count(value: Any, *, lists_of_texts: bool = True) -> int:
    """How many values `value` holds, itself included. Of more than `MOST_VALUES` it is not all of them."""
    count, rest = 1, [value]
    while rest:
        each = rest.pop()
        inner = each.values() if isinstance(each, Mapping) else each if isinstance(each, list) else ()
        if not lists_of_texts and isinstance(each, list) and all(isinstance(text, str) for text in each):
            continue
        count += len(inner)
        if count > MOST_VALUES:
            break
        rest.extend(inner)
    return count


def _length(texts: Iterable[Any]) -> int:
    return sum(len(each) for each in texts if isinstance(each, str) and len(each) <= LONGEST_TEXT)
