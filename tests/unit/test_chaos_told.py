"""Events that are told too often are found, and those that may be told again are not."""

from __future__ import annotations

from typing import Any

import pytest

from hack.devcluster.api import Json
from shared.api import names
from tests.chaos.rules import Injected
from tests.chaos.told import faults_of_controllers, told_too_often, told_twice

_AT = 1796032800.0
"""When the events below were told."""


def an_event(
    message: str = "no room",
    *,
    about: str = "chat",
    uid: str = "1",
    source: str = names.PRODUCT,
    kind: str = "Deployment",
    reason: str = "NoFit",
    **fields: Any,
) -> Json:
    involved = {"kind": kind, "namespace": "models", "name": about, "uid": uid}
    metadata = {"creationTimestamp": "2026-11-30T10:00:00Z"}
    told = {"involvedObject": involved, "reason": reason, "message": message, "source": {"component": source}}
    return {"metadata": metadata, **told, **fields}


def test_an_event_told_in_two_objects_is_found() -> None:
    assert told_twice([an_event(), an_event()]) == ["2 events NoFit on Deployment models/chat (1): no room"]


def test_other_events_are_not_called_repeated() -> None:
    others = [an_event(), an_event("other"), an_event(about="code"), an_event(uid="2")]
    assert told_twice([*others, an_event("x", source="kubelet"), an_event("x", source="kubelet")]) == []


def _placed(count: int = 1, **fields: Any) -> Json:
    return an_event("pod chat-5d4f-x is placed on gpu-0", **{"reason": "Placed", "count": count, **fields})


@pytest.mark.parametrize(
    ("event", "faults"),
    [
        pytest.param(_placed(2), [], id="twice"),
        pytest.param(_placed(2, reason="Preempting"), [], id="twice-that-it-waits"),
        pytest.param(_placed(2, kind="Pod"), [], id="twice-of-a-bare-pod"),
        pytest.param(_placed(3), [_AT + 5], id="more-often-than-something-broke"),
        pytest.param(_placed(2), [_AT - 60], id="something-broke-long-before"),
    ],
)
def test_a_placement_that_is_told_again_without_need_is_found(event: Json, faults: list[float]) -> None:
    (found,) = told_too_often([event], _AT - 100, faults)
    assert found.startswith(f"told {event['count']} times, of ")


@pytest.mark.parametrize(
    ("event", "faults"),
    [
        pytest.param(_placed(), [], id="once"),
        pytest.param(_placed(2), [_AT + 5], id="another-led-since"),
        pytest.param(_placed(2), [_AT - 5], id="something-was-broken-then"),
        pytest.param(_placed(9, kind="StatefulSet"), [], id="names-that-come-again"),
        pytest.param(_placed(9, reason="NoFit"), [], id="as-many-creates-were-refused"),
        pytest.param(_placed(9, source="kubelet"), [], id="of-somebody-else"),
        pytest.param(
            _placed(9, metadata={"creationTimestamp": "2026-11-30T09:00:00Z"}), [], id="of-an-earlier-scenario"
        ),
    ],
)
def test_a_placement_is_told_once_and_again_after_a_fault(event: Json, faults: list[float]) -> None:
    assert list(told_too_often([event], _AT - 100, faults)) == []


def test_faults_of_controllers_and_of_what_they_write_to_count() -> None:
    where = ["controller-1", "webhook-0", "etcd", "node-a", "kube-apiserver", "api server"]
    injected = [Injected(float(number), each, "any", "") for number, each in enumerate(where)]
    assert faults_of_controllers(injected, 100.0) == [100.0, 102.0, 104.0]
