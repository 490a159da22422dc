"""Dead pods that kubelets rejected: explained on their workload, and cleared away where that creates others."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web

from controller import rejected as rejected_module
from controller.control_recorder import ControlRecorder
from controller.events import Events
from controller.rejected import Rejected
from shared.api import names
from shared.core.owners import OwnerRef
from shared.kube import paths
from shared.kube.ledger import Ledger
from shared.kube.watches import Watches
from tests.builders import PodBuilder, a_node, a_pod
from tests.fakes import faults
from tests.fakes.apiserver import place_of
from tests.fakes.serving import eventually
from tests.unit.admission import gpu_node, reservations, store
from tests.unit.controlling import NOW, Control, an_owner, controlling
from tests.unit.keepers import a_keeper
from tests.unit.scraping import value

CARD = names.card_resource(0)
SAID = f"Pod was rejected: Allocate failed for {CARD}."


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Control]:
    """A node with one card of 16 GB, and the watches at work."""
    async with controlling(tmp_path) as control:
        store(control.objects, paths.nodes(), a_node("t4").raw())
        store(control.objects, paths.gpu_nodes(), gpu_node("t4", 16))
        watches = Watches(control.served.client, control.cluster, exclusive=False)
        control.start(watches.run())
        await watches.synced()
        yield control


def start(control: Control) -> ControlRecorder:
    events, recorder = Events(control.served.client, lambda: NOW), ControlRecorder()
    control.start(Rejected(control.served.client, control.cluster, control.owners, events, recorder).run())
    return recorder


def placed(name: str, owner: OwnerRef | None = None, number: int = 0) -> PodBuilder:
    """A running pod; pods with higher numbers are younger."""
    pod = a_pod(name).limited_to({CARD: "2"}).label(names.RESERVATION, f"aaaaaaaaa{'abcdefghij'[number]}").on("t4")
    if owner is not None:
        pod.owned_by(owner.kind, owner.name, owner.uid, owner.api_version)
    return pod.created(f"2026-11-30T09:00:0{number}Z")


def reject(control: Control, pod: PodBuilder, said: str = SAID) -> None:
    pod.in_phase("Failed").status(reason="UnexpectedAdmissionError", message=said)
    store(control.objects, paths.pods("models"), pod.raw())


def left(control: Control) -> list[str]:
    return [each["metadata"]["name"] for each in control.objects.everything(place_of(paths.pods("models")))]


def deletions(control: Control) -> list[str]:
    return [each for each in control.served.server.requests if each.startswith("DELETE")]


def told(control: Control) -> list[tuple[str, str, str]]:
    """Type and reason of each event, the kind that it is about, and what it says."""
    return [
        (f"{each['type']} {each['reason']}", each["involvedObject"]["kind"], each["message"])
        for each in control.events()
    ]


async def test_the_workload_is_told_what_the_kubelet_said_and_what_to_do(control: Control) -> None:
    deployment = an_owner(control.served, "Deployment", "chat")
    owner = an_owner(control.served, "ReplicaSet", "chat-5d4f", deployment)
    reject(control, placed("chat-0", owner))
    start(control)
    await eventually(lambda: bool(control.events()))
    message = (
        f"the kubelet of node t4 rejected a pod (UnexpectedAdmissionError): Pod was rejected: Allocate failed for "
        f"{CARD}; for five minutes pods go there only where no other node has room; its owner creates another if "
        f"it still wants one; if that goes on, see whether the node's device plugin runs and whether pods get to the "
        f"node past the scheduler"
    )
    assert told(control) == [("Warning Rejected", "Deployment", message)]


async def test_a_bare_pod_is_told_itself_and_stays(control: Control) -> None:
    reject(control, placed("bare"), "")
    start(control)
    await eventually(lambda: bool(control.events()))
    assert left(control) == ["bare"]
    ((reason, kind, message),) = told(control)
    assert (reason, kind) == ("Warning Rejected", "Pod")
    assert "no reason given; for five minutes" in message
    assert message.endswith("; it will not start again: delete it and create it anew")


async def test_those_of_owners_go_once_they_are_explained_and_equal_words_are_said_once(control: Control) -> None:
    owner, other = (an_owner(control.served, "ReplicaSet", name) for name in ("chat", "other"))
    for number in range(3):
        reject(control, placed(f"chat-{number}", owner, number))
    reject(control, placed("other-0", other))
    store(control.objects, paths.pods("models"), placed("chat-running", owner, 3).raw())
    recorder = start(control)
    await eventually(lambda: left(control) == ["chat-running"])
    await eventually(lambda: value(recorder, "placement_rejected_pods_deleted_total") == 4)
    assert [each["count"] for each in control.events()] == [1, 1]
    reject(control, placed("chat-4", owner, 4))
    await eventually(lambda: left(control) == ["chat-running"])
    reject(control, placed("chat-5", owner, 5), "other words")
    await eventually(lambda: len(control.events()) == 3)
    assert [each["count"] for each in control.events()] == [1, 1, 1]


async def test_of_a_custom_kind_the_newest_stays_since_it_may_create_no_other(control: Control) -> None:
    owner = OwnerRef("argoproj.io/v1alpha1", "Workflow", "steps", "uid-of-steps")
    for number in range(3):
        reject(control, placed(f"step-{number}", owner, number))
    recorder = start(control)
    await eventually(lambda: value(recorder, "placement_rejected_pods_deleted_total") == 2)
    await eventually(lambda: len(control.events()) == 1)
    assert left(control) == ["step-2"]


async def test_equal_words_are_said_again_after_some_minutes(control: Control, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rejected_module, "_EQUAL_S", 0.0)
    owner = an_owner(control.served, "ReplicaSet", "chat")
    start(control)
    for number in range(2):
        reject(control, placed(f"chat-{number}", owner, number))
        await eventually(lambda: not left(control))
    (event,) = control.events()
    assert event["count"] > 1


async def test_one_that_could_not_be_explained_yet_stays_until_it_is(
    control: Control, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_back = 0

    async def emit(*_: object) -> bool:
        nonlocal held_back
        assert left(control) == ["chat-0"]
        held_back += 1
        return held_back > 2

    monkeypatch.setattr(rejected_module, "_HELD_BACK_S", 0.01)
    monkeypatch.setattr(Events, "emit", emit)
    reject(control, placed("chat-0", an_owner(control.served, "ReplicaSet", "chat")))
    start(control)
    await eventually(lambda: not left(control))
    assert held_back == 3


async def test_one_that_is_gone_already_is_passed_over(control: Control) -> None:
    owner = an_owner(control.served, "ReplicaSet", "chat")
    for number in range(2):
        reject(control, placed(f"chat-{number}", owner, number))
    control.served.server.fail(faults.respond(404, '{"reason":"NotFound"}'), method="DELETE", path="chat-0")
    start(control)
    await eventually(lambda: left(control) == ["chat-0"])


async def test_the_next_pod_of_its_name_is_not_deleted_for_it(control: Control) -> None:
    owner = an_owner(control.served, "StatefulSet", "chat")
    for number in range(2):
        reject(control, placed(f"chat-{number}", owner, number))

    async def come_first(request: web.Request, proceed: faults.Proceed) -> web.StreamResponse:
        await control.served.client.delete(paths.pods("models", "chat-0"))
        store(control.objects, paths.pods("models"), placed("chat-0", owner, 2).raw())
        return await proceed(request)

    control.served.server.fail(come_first, method="DELETE", path="chat-0")
    recorder = start(control)
    await eventually(lambda: len(deletions(control)) == 2)
    await eventually(lambda: [each.name for each in control.cluster.rejected.of(owner.uid)] == ["chat-1"])
    assert left(control) == ["chat-0", "chat-1"]
    assert value(recorder, "placement_rejected_pods_deleted_total") == 0


async def test_there_is_a_pause_between_two_deletions(control: Control) -> None:
    owner = an_owner(control.served, "ReplicaSet", "chat")
    for number in range(4):
        reject(control, placed(f"chat-{number}", owner, number))
    start(control)
    times: list[float] = []
    while len(times) < 3:
        await eventually(lambda: len(deletions(control)) > len(times))
        times.append(time.monotonic())
    assert times[-1] - times[0] > 0.3


async def test_a_server_that_is_away_is_asked_again(control: Control) -> None:
    owner = an_owner(control.served, "ReplicaSet", "chat")
    for number in range(2):
        reject(control, placed(f"chat-{number}", owner, number))
    control.served.server.fail(faults.respond(503, "?"), method="DELETE", path="chat-0")
    start(control)
    await eventually(lambda: not left(control))


async def test_a_namespace_that_goes_does_not_end_the_work(control: Control) -> None:
    first, second = (an_owner(control.served, "ReplicaSet", name) for name in ("first", "second"))
    reject(control, placed("first-0", first))
    control.served.server.fail(faults.respond(403, '{"reason":"Forbidden"}'), method="POST", path="events")
    start(control)
    await eventually(lambda: any("POST" in each for each in control.served.server.requests))
    reject(control, placed("second-0", second))
    await eventually(lambda: bool(control.events()))
    assert [each["involvedObject"]["name"] for each in control.events()] == ["second"]


async def test_what_a_rejected_pod_held_is_free_at_once(control: Control) -> None:
    ledger = Ledger(control.served.client, control.cluster, exclusive=False)
    control.start(a_keeper(control.served.client, control.cluster, ledger).run())
    pod = placed("chat-0", an_owner(control.served, "ReplicaSet", "chat"))
    store(control.objects, paths.pods("models"), pod.raw())
    await eventually(lambda: len(reservations(control.objects, "t4")) == 1)
    reject(control, pod)
    await eventually(lambda: not reservations(control.objects, "t4"))


async def test_one_that_is_deleted_by_somebody_else_is_forgotten(control: Control) -> None:
    reject(control, placed("chat-0"))
    await eventually(lambda: len(list(control.cluster.rejected)) == 1)
    await control.served.client.delete(paths.pods("models", "chat-0"))
    await eventually(lambda: not list(control.cluster.rejected))
    reject(control, placed("chat-1"))
    await eventually(lambda: len(list(control.cluster.rejected)) == 1)
    store(control.objects, paths.pods("models"), placed("chat-1").in_phase("Failed").terminating().raw())
    await eventually(lambda: not list(control.cluster.rejected))
