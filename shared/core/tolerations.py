"""Which taints a pod tolerates."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from shared.core.nodes import Taint
from shared.core.selectors import int64


class TolerationOperator(StrEnum):
    """How a toleration compares its value with a taint's; with `Gt` the taint's number is the larger one."""

    EQUAL = "Equal"
    EXISTS = "Exists"
    GT = "Gt"
    LT = "Lt"


BLOCKING_EFFECTS = frozenset({"NoSchedule", "NoExecute"})
"""Effects that keep a new pod away; `PreferNoSchedule` only ranks."""

# Kubernetes compares numbers only where both are written without a plus sign or leading zeros.
_DECIMAL = re.compile(r"(?:0|-?[1-9][0-9]*)\Z")


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration. An empty `key` stands for every key, an empty `effect` for every effect."""

    key: str = ""
    operator: str = TolerationOperator.EQUAL
    value: str = ""
    effect: str = ""

    def tolerates(self, taint: Taint) -> bool:
        if self.effect and self.effect != taint.effect:
            return False
        if self.key and self.key != taint.key:
            return False
        match self.operator:
            case TolerationOperator.EQUAL:
                return self.value == taint.value
            case TolerationOperator.EXISTS:
                return True
            case TolerationOperator.GT | TolerationOperator.LT:
                return self._compares(taint.value)
        return False

    def _compares(self, text: str) -> bool:
        taint, bound = _decimal(text), _decimal(self.value)
        if taint is None or bound is None:
            return False
        return taint > bound if self.operator == TolerationOperator.GT else taint < bound


def read_tolerations(raw: Iterable[Mapping[str, Any]] | None) -> tuple[Toleration, ...]:
    """The `tolerations` of a pod."""
    return tuple(
        Toleration(
            item.get("key") or "",
            item.get("operator") or TolerationOperator.EQUAL,
            item.get("value") or "",
            item.get("effect") or "",
        )
        for item in raw or ()
    )


def untolerated(taints: Iterable[Taint], tolerations: Iterable[Toleration]) -> Iterator[Taint]:
    """The taints that keep a pod with `tolerations` away."""
    return (
        taint
        for taint in taints
        if taint.effect in BLOCKING_EFFECTS and not any(each.tolerates(taint) for each in tolerations)
    )


def _decimal(text: str) -> int | None:
    return int64(text) if _DECIMAL.match(text) else None
