"""A model that restarts has its memory again, whoever waits for it; a workload that is gone keeps nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

import pytest

from hack.devcluster.api import Api, Json
from shared.api import names
from shared.core.ledger import Mark
from tests.e2e.conftest import MakePool, Pool, Stage, wait_heard
from tests.e2e.creates import Outcome, create
from tests.e2e.kube import (
    Namespace,
    booked,
    deployment,
    ledger,
    node_of,
    pod,
    reservation,
    template,
    until,
    wait_balanced,
    workload,
)
from tests.e2e.trouble import repeatedly

pytestmark = pytest.mark.e2e

_WHOLE = {names.VRAM: "16"}
_SOON_S = 15.0
"""Well before a seat runs out."""


def _waiter(namespace: Namespace, here: Pool) -> None:
    """A Deployment that waits for the card."""
    namespace.create(deployment("waiter", _WHOLE, pool=here.name))
    namespace.waiting("waiter", "insufficient_capacity")


def _seats(api: Api, here: Pool) -> list[str]:
    return [seat for node in here.nodes for seat, entry in ledger(api, node).items() if entry.mark is Mark.KEPT]


@contextlib.contextmanager
def _greedy(namespace: Namespace, here: Pool) -> Iterator[list[Outcome]]:
    """Somebody who tries to create a pod for the whole card all the time; what came of the tries."""
    outcomes: list[Outcome] = []

    def take() -> None:
        outcomes.append(create(namespace, pod("greedy", _WHOLE, pool=here.name)).outcome)

    with repeatedly(take, 0.001):
        yield outcomes


def _assert_left_out(outcomes: list[Outcome]) -> None:
    """On a busy machine a try may run out of time instead of being refused."""
    assert Outcome.ADMITTED not in outcomes
    assert Outcome.REFUSED in outcomes


def _another(namespace: Namespace, app: str, old: Json) -> Callable[[], bool]:
    """Whether one pod of `app` runs, and it is another than `old`."""

    def look() -> bool:
        pods = namespace.pods(app)
        return [each["status"].get("phase") for each in pods] == ["Running"] and reservation(pods[0]) != reservation(
            old
        )

    return look


def _cordon(stage: Stage, node: str) -> None:
    """Before a webhook knows of it, it may place the next pod there."""
    stage.api.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    wait_heard(stage)


def test_a_rollout_with_recreate_has_the_card_again_though_another_waits_for_it(
    api: Api, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    namespace.create(deployment("chat", _WHOLE, pool=here.name, strategy={"type": "Recreate"}))
    (old,) = namespace.running("chat")
    _waiter(namespace, here)
    with _greedy(namespace, here) as outcomes:
        for revision in ("1", "2", "3"):
            change = {"spec": {"template": {"metadata": {"annotations": {"revision": revision}}}}}
            namespace.merge("Deployment", "chat", change)
            until("the new pod runs", _another(namespace, "chat", old), within_s=_SOON_S)
            (old,) = namespace.pods("chat")
            assert namespace.pods("waiter") == []
    _assert_left_out(outcomes)
    wait_balanced(api, here.nodes)


def test_a_pod_of_a_stateful_set_that_is_deleted_has_its_seat_again(
    api: Api, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    namespace.create(workload("StatefulSet", "chat", template("chat", _WHOLE, here.name)))
    (old,) = namespace.running("chat")
    _waiter(namespace, here)
    with _greedy(namespace, here) as outcomes:
        namespace.delete("Pod", "chat-0")
        until("chat-0 runs again", _another(namespace, "chat", old), within_s=_SOON_S)
    assert namespace.pods("waiter") == []
    _assert_left_out(outcomes)
    wait_balanced(api, here.nodes)


def test_a_workload_that_is_scaled_to_nothing_makes_room_at_once(
    api: Api, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    namespace.create(deployment("chat", _WHOLE, pool=here.name))
    namespace.running("chat")
    _waiter(namespace, here)
    namespace.merge("Deployment", "chat", {"spec": {"replicas": 0}})
    until("the waiter has it", lambda: bool(namespace.pods("waiter")), within_s=_SOON_S)
    wait_balanced(api, here.nodes)


def test_a_workload_that_is_deleted_makes_room_at_once(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    namespace.create(deployment("chat", _WHOLE, pool=here.name))
    namespace.running("chat")
    _waiter(namespace, here)
    namespace.delete("Deployment", "chat")
    until("the waiter has it", lambda: bool(namespace.pods("waiter")), within_s=_SOON_S)
    wait_balanced(api, here.nodes)


def test_a_seat_on_a_drained_node_is_kept_until_its_workload_is_gone(
    stage: Stage, pool: MakePool, namespace: Namespace
) -> None:
    api, here = stage.api, pool(16)
    namespace.create(deployment("chat", {names.VRAM: "10"}, pool=here.name))
    (old,) = namespace.running("chat")
    _cordon(stage, here.node)
    namespace.delete("Pod", old["metadata"]["name"])
    until("its seat is kept", lambda: _seats(api, here) == [reservation(old)])
    api.merge(f"/api/v1/nodes/{here.node}", {"spec": {"unschedulable": None}})
    until("it has its seat again", _another(namespace, "chat", old), within_s=_SOON_S)
    (again,) = namespace.pods("chat")

    _cordon(stage, here.node)
    namespace.delete("Pod", again["metadata"]["name"])
    until("its seat is kept again", lambda: _seats(api, here) == [reservation(again)])
    tolerant = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
    other = pod("other", _WHOLE, pool=here.name, tolerations=tolerant)
    until("others are told of it", lambda: "10 GB kept for a pod being replaced" in namespace.refusal(other).message)
    namespace.delete("Deployment", "chat")
    until("nothing is booked", lambda: booked(api, here.node) == {}, within_s=_SOON_S)


def test_a_drained_model_moves_and_leaves_no_seat_behind(stage: Stage, pool: MakePool, namespace: Namespace) -> None:
    api, here = stage.api, pool(16, nodes=2)
    namespace.create(deployment("chat", _WHOLE, pool=here.name))
    (old,) = namespace.running("chat")
    _cordon(stage, node_of(old))
    namespace.delete("Pod", old["metadata"]["name"])
    until("it runs on the other node", _another(namespace, "chat", old), within_s=_SOON_S)
    (moved,) = namespace.pods("chat")
    assert node_of(moved) != node_of(old)
    until("nothing is booked there", lambda: booked(api, node_of(old)) == {})
    _waiter(namespace, here)
    api.merge(f"/api/v1/nodes/{node_of(old)}", {"spec": {"unschedulable": None}})
    until("the waiter has it", lambda: bool(namespace.pods("waiter")), within_s=_SOON_S)
    wait_balanced(api, here.nodes)


def test_a_rolling_update_that_waits_for_its_own_old_pod_is_told_how_it_would_not(
    stage: Stage, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    surge = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    namespace.create(deployment("chat", _WHOLE, pool=here.name, strategy=surge))
    (old,) = namespace.running("chat")
    wait_heard(stage)
    namespace.merge("Deployment", "chat", {"spec": {"template": {"metadata": {"annotations": {"revision": "1"}}}}})
    message = namespace.waiting("chat", "insufficient_capacity")["lastErrorMessage"]
    assert f"update of Deployment chat, whose old pod {old['metadata']['name']} keeps the room" in message
    remedy = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}
    assert "maxSurge 0 with maxUnavailable 1" in message
    namespace.merge("Deployment", "chat", {"spec": {"strategy": remedy}})
    until("the rollout goes on", _another(namespace, "chat", old), within_s=_SOON_S)
