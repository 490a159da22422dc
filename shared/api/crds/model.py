"""What every CRD model here has in common: how fields are spelled, and the standard condition."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

_UNITS = {"gb": "GB", "mib": "MiB"}


def camel_case(name: str) -> str:
    """`largest_free_gb` as Kubernetes spells it: `largestFreeGB`. The first word stays small: `gb`, `uid`."""
    first, *rest = name.split("_")
    return first + "".join(_UNITS.get(word, word.capitalize()) for word in rest)


class CrdModel(BaseModel):
    """A part of a custom resource. Unknown fields are ignored, as the API server prunes them."""

    model_config = ConfigDict(
        alias_generator=camel_case,
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
        frozen=True,
        use_attribute_docstrings=True,
    )


def list_map(*keys: str) -> dict[str, Any]:
    """Schema marks of a list whose items are told apart by `keys`: each item can have its own writer."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


ATOMIC_LIST: dict[str, Any] = {"x-kubernetes-list-type": "atomic"}
ATOMIC_MAP: dict[str, Any] = {"x-kubernetes-map-type": "atomic"}

Slot = Annotated[int, Field(ge=0, le=999)]
GB = Annotated[int, Field(ge=0)]
ShortText = Annotated[str, Field(max_length=256)]


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(CrdModel):
    """One aspect of the object's state, in the form all of Kubernetes uses."""

    type: Annotated[str, Field(min_length=1, max_length=316)]
    """The aspect, in CamelCase."""
    status: ConditionStatus
    """Whether it holds."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """Why, as one word for programs."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """Why, as a sentence for people."""
    last_transition_time: datetime
    """When `status` last changed."""
    observed_generation: Annotated[int, Field(ge=0)] | None = None
    """The `metadata.generation` that this was derived from."""


Conditions = Annotated[list[Condition], Field(max_length=32, json_schema_extra=list_map("type"))]
