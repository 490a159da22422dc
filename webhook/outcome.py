"""What a review comes to: let in, refused, or not recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from shared.core.refusal import Refusal


@dataclass(frozen=True, slots=True)
class Admitted:
    """The pod may be created, changed by the JSON Patch operations `ops`."""

    ops: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refused:
    """The pod is malformed or has no place."""

    refusal: Refusal


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """There may be a place, but it could not be recorded or looked up: never admit unrecorded."""

    why: str


Outcome: TypeAlias = Admitted | Refused | Unrecorded
