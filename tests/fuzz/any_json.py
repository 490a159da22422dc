"""Any JSON at all: what a hostile client may put where a pod, or a part of one, belongs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

from tests.fuzz import words
from tests.fuzz.dice import Dice
from tests.fuzz.words import fresh

Spot: TypeAlias = tuple[str | int, ...]

SCALARS: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**53 + 1, -(2**63), 2**64 - 1, 0.5, -0.0, 1e308, 5e-324,
    "", "1", "6", "main", "In", "Always", "all", "aaaaaaaaaa", "metadata.name", '{"changed":[{}]}', "n0", "n0/../n1",
    *words.WRONG_VALUES,
)  # fmt: skip
KEYS = (
    "apiVersion", "kind", "request", "uid", "object", "metadata", "labels", "annotations", "spec", "containers",
    "initContainers", "name", "env", "value", "valueFrom", "resources", "limits", "requests", "affinity",
    "nodeAffinity", words.REQUIRED, "nodeSelectorTerms", "matchFields", "key", "operator", "values",
    "ownerReferences", "nodeName",
    words.VRAM, words.CARD + "0", "kamiwaza.ai/reservation", "kamiwaza.ai/placed", "nvidia.com/gpu", "a/b~0", "", "-",
)  # fmt: skip
_DEPTH = 4


def any_json(dice: Dice, depth: int = _DEPTH) -> Any:
    """A value of any kind, nested a little."""
    match dice.number(0, 5) if depth else 0:
        case 4:
            return [any_json(dice, depth - 1) for _ in range(dice.number(0, 3))]
        case 5:
            return {dice.one(KEYS): any_json(dice, depth - 1) for _ in range(dice.number(0, 3))}
    return dice.one(SCALARS)


def spots(value: Any, at: Spot = ()) -> Iterator[Spot]:
    """Every path in a value but the root."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*at, key)
        yield from spots(item, (*at, key))


def replaced(value: Any, spot: Spot, by: Any) -> Any:
    """A copy of `value` with something else at one spot."""
    result = fresh(value)
    parent = result
    for part in spot[:-1]:
        parent = parent[part]
    parent[spot[-1]] = by
    return result


def mutated(dice: Dice, value: Any) -> Any:
    """A copy of `value` in which one thing is replaced by anything, is gone, or stands twice."""
    spot = dice.one(list(spots(value)) or [()])
    if not spot:
        return any_json(dice)
    if dice.chance(0.7):
        return replaced(value, spot, any_json(dice))
    parent = result = fresh(value)
    for part in spot[:-1]:
        parent = parent[part]
    if isinstance(parent, list) and dice.chance(0.5):
        parent.append(fresh(parent[int(spot[-1])]))
    else:
        del parent[spot[-1]]
    return result


def deep(levels: int, opening: bytes = b'{"spec":', closing: bytes = b"}") -> bytes:
    """JSON text that is nested `levels` deep."""
    return opening * levels + b"{}" + closing * levels
