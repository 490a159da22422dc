"""What a pod of the builders asks for, and how it is refused."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.asks import Ask
from shared.core.demand import Demand, read_pod
from shared.core.invalid import InvalidRequest
from tests.builders import PodBuilder


def demand_of(pod: PodBuilder) -> Demand:
    demand = read_pod(pod.raw()).demand
    assert demand is not None
    return demand


def ask_of(pod: PodBuilder) -> Ask:
    (ask,) = demand_of(pod).asks
    return ask


def refusal_of(pod: PodBuilder) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as refused:
        read_pod(pod.raw())
    return refused.value


def with_limits(resources: dict[str, Any]) -> dict[str, Any]:
    """The fields of a container with these limits."""
    return {"resources": {"limits": resources}}


def seeing(value: str) -> dict[str, Any]:
    """The fields of a container that sets the variable which shows it devices."""
    return {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": value}]}
