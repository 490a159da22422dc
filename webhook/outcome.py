"""What a review comes to: let in, refused, or not recorded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias

from shared.core.refusal import Refusal
from shared.kube.errors import ApiError


@dataclass(frozen=True, slots=True)
class Admitted:
    """The pod may be created, changed by the JSON Patch operations `ops`.

    `reservation` and `node` say where it is placed; both are None for a pod that this review did not place or check.
    """

    ops: tuple[Mapping[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()
    reservation: str | None = None
    node: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """The pod is malformed or has no place."""

    refusal: Refusal


class Cause(StrEnum):
    """What kept a decision from being recorded."""

    API_SERVER = "api_server"
    DEADLINE = "deadline"
    OVERTAKEN = "overtaken"
    OVERLOADED = "overloaded"


@dataclass(frozen=True, slots=True)
class Unrecorded:
    """There may be a place, but it could not be recorded or looked up: never admit unrecorded.

    `why` is for the pod's creator, `detail` for the log: it may name requests and accounts.
    """

    why: str
    detail: str = ""
    cause: Cause = Cause.API_SERVER

    @property
    def tried(self) -> bool:
        """Whether it may have been written all the same."""
        return self.cause is not Cause.OVERLOADED

    @classmethod
    def of(cls, error: ApiError) -> Unrecorded:
        what = f"answered {error.status} {error.reason}" if error.status else "gave no usable answer"
        return cls(f"the API server {what}", str(error))


OVERLOADED: Final = Unrecorded("too many reviews are under way", cause=Cause.OVERLOADED)
"""Not a NoFit: nothing was decided."""

Outcome: TypeAlias = Admitted | Refused | Unrecorded
