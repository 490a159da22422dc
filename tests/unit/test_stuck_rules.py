"""Which pods are stuck, in whose words, and when placing them anew helps."""

from __future__ import annotations

from typing import Any

import pytest

from controller.room import Needs
from controller.stuck_rules import (
    better_node,
    is_of_present_template,
    made_again,
    says_it_lacks,
    waits_for_node,
    why_unbound,
)
from shared.api import names
from shared.core.nodes import node_facts
from shared.core.snapshot import NodeState
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.core_builders import cards, cluster, entry, node

ID = "aaaaaaaaaa"
CARD = names.card_resource(0)
SAID = "0/2 nodes are available: 1 node(s) were unschedulable, 1 node(s) didn't match the pod's node affinity."


def placed(name: str = "chat-0") -> PodBuilder:
    """A pod with 6 GB of the first card of node-a, not bound."""
    return a_pod(name).limited_to({CARD: "6"}).label(names.RESERVATION, ID).pinned_to("node-a")


def unschedulable(pod: PodBuilder, message: str = SAID) -> PodBuilder:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod.status(conditions=[{"type": "Ready", "status": "False"}, condition])


@pytest.mark.parametrize(
    ("pod", "waits"),
    [
        pytest.param(placed(), True, id="placed-and-not-bound"),
        pytest.param(placed().on("node-a"), False, id="bound"),
        pytest.param(placed().terminating(), False, id="on-its-way-out"),
        pytest.param(placed().spec(schedulingGates=[{"name": "quota"}]), False, id="gated"),
        pytest.param(a_pod().pinned_to("node-a"), False, id="pinned-by-its-user"),
        pytest.param(
            a_pod().limited_to({names.NVIDIA_GPU: "1"}).label(names.RESERVATION, ID).pinned_to("node-a"),
            True,
            id="placed-by-units",
        ),
    ],
)
def test_which_pods_wait_for_the_scheduler(pod: PodBuilder, waits: bool) -> None:
    assert waits_for_node(pod.facts()) is waits


@pytest.mark.parametrize(
    ("pod", "builder", "words"),
    [
        pytest.param(unschedulable(placed()), a_node(), SAID, id="the-schedulers-own"),
        pytest.param(unschedulable(placed()), a_node().cordoned(), SAID, id="the-schedulers-before-ours"),
        pytest.param(unschedulable(placed(), ""), a_node(), "the scheduler gives no reason", id="none-given"),
        pytest.param(placed(), a_node(), None, id="nothing-wrong"),
        pytest.param(placed(), None, "node node-a is gone", id="gone"),
        pytest.param(placed(), a_node().cordoned(), "node node-a is cordoned", id="cordoned"),
        pytest.param(placed(), a_node().not_ready(), "node node-a is not ready", id="not-ready"),
        pytest.param(
            placed(), a_node().tainted("team"), "node node-a has a taint that the pod does not tolerate", id="tainted"
        ),
        pytest.param(placed().tolerating("team"), a_node().tainted("team"), None, id="tainted-and-tolerated"),
        pytest.param(
            placed().selecting(disk="fast"),
            a_node().cordoned(),
            "node node-a is cordoned and has no longer the labels that the pod selects",
            id="several",
        ),
        pytest.param(placed().spec(tolerations=7), a_node().cordoned(), None, id="a-pod-that-cannot-be-read"),
    ],
)
def test_why_it_is_not_bound(pod: PodBuilder, builder: Any, words: str | None) -> None:
    facts = None if builder is None else node_facts(builder.raw())
    assert why_unbound(pod.raw(), "node-a", facts) == words


def owner(kind: str = "ReplicaSet", *, status: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    template = {"metadata": {"annotations": {names.VRAM: "6"}}, "spec": {"containers": [{"name": "main"}]}}
    return {"kind": kind, "metadata": {"name": "chat"}, "spec": {"template": template, **spec}, "status": status}


@pytest.mark.parametrize(
    ("of", "again"),
    [
        pytest.param(owner(), True, id="replica-set"),
        pytest.param(owner("StatefulSet"), True, id="stateful-set"),
        pytest.param(owner("DaemonSet"), False, id="daemon-set-whose-pods-belong-to-their-node"),
        pytest.param({**owner(), "metadata": {"deletionTimestamp": "2026-11-30T10:00:00Z"}}, False, id="going"),
        pytest.param(owner(template=None), False, id="without-a-template"),
        pytest.param(owner("Job"), True, id="job"),
        pytest.param(owner("Job", status={"failed": 5}), True, id="job-with-a-failure-to-spare"),
        pytest.param(owner("Job", status={"failed": 6}), False, id="job-without-a-failure-to-spare"),
        pytest.param(owner("Job", backoffLimit=0), False, id="job-that-may-not-fail"),
        pytest.param(owner("Job", backoffLimitPerIndex=3), False, id="job-that-counts-failures-by-index"),
    ],
)
def test_whether_another_is_created_that_could_go_elsewhere(of: dict[str, Any], again: bool) -> None:
    assert (made_again(of, placed().raw()) is not None) is again


def test_what_is_created_again_is_the_template_with_the_volumes_of_the_pod() -> None:
    again = made_again(owner("StatefulSet"), placed().claiming("data-chat-0").raw())
    assert again is not None
    assert again["metadata"] == {"annotations": {names.VRAM: "6"}, "namespace": "models"}
    volumes = [{"name": "data-chat-0", "persistentVolumeClaim": {"claimName": "data-chat-0"}}]
    assert again["spec"] == {"containers": [{"name": "main"}], "volumes": volumes}


def found(*states: NodeState, pod: PodBuilder | None = None) -> str | None:
    again = made_again(owner(), placed().raw())
    assert again is not None
    needs = Needs.of(again)
    assert needs is not None
    return better_node(cluster(*states), (pod or placed()).facts(), needs)


def holding(*gbs: int, builder: Any = None) -> NodeState:
    """node-a with the pod on it and in its ledger."""
    return node("node-a", cards(*gbs), builder, ledger={ID: entry({0: 6})}, pods=[placed().facts()])


@pytest.mark.parametrize(
    ("pool", "better"), [pytest.param("gpu", "node-b", id="selected"), pytest.param("cpu", None, id="not-selected")]
)
def test_what_admission_added_to_a_pod_but_not_its_pin_is_as_good_as_in_the_template(
    pool: str, better: str | None
) -> None:
    needs = Needs.of(a_pod().annotated(names.VRAM, "6").selecting(disk="fast").raw())
    assert needs is not None
    live = placed().tolerating("gpu").selecting(disk="slow", pool="gpu")
    nodes = cluster(node("node-b", cards(16), a_node("node-b").tainted("gpu").labelled(disk="fast", pool=pool)))
    assert better_node(nodes, live.facts(), needs) is None
    assert better_node(nodes, live.facts(), needs.admitted_like(live.raw())) == better


def test_another_node_with_room_is_better_than_one_that_is_closed() -> None:
    assert found(holding(16, builder=a_node("node-a").cordoned()), node("node-b", cards(16))) == "node-b"
    assert found(holding(16, builder=a_node("node-a").tainted("team")), node("node-b", cards(16))) == "node-b"


def test_another_node_is_better_than_one_that_is_gone() -> None:
    assert found(node("node-b", cards(16))) == "node-b"


def test_without_room_elsewhere_there_is_nothing_better() -> None:
    assert found(holding(16, builder=a_node("node-a").cordoned()), node("node-b", cards(4))) is None


def test_going_back_to_the_same_cards_is_nothing_better() -> None:
    assert found(holding(6), node("node-b", cards(4))) is None
    assert found(holding(8), node("node-b", cards(16))) is None


def test_another_card_of_its_node_is_better_than_one_that_is_not_good_enough_any_more() -> None:
    assert found(holding(4, 16)) == "node-a"


@pytest.mark.parametrize(
    ("words", "lacks"),
    [
        ("0/1 nodes are available: 1 Insufficient kamiwaza.ai/vram-gb-gpu-0, 1 node(s) were unschedulable.", True),
        ("0/1 nodes are available: 1 Insufficient kamiwaza.ai/vram-gb-gpu-0.", True),
        ("0/1 nodes are available: 1 Insufficient kamiwaza.ai/vram-gb-gpu-1.", False),
        ("0/1 nodes are available: 1 Insufficient kamiwaza.ai/vram-gb-gpu-01.", False),
        ("0/1 nodes are available: 1 Insufficient memory.", False),
    ],
)
def test_whether_the_scheduler_says_that_a_card_lacks_room(words: str, lacks: bool) -> None:
    assert says_it_lacks(words, placed().facts()) is lacks


def test_it_lacks_units_where_it_was_given_those() -> None:
    pod = a_pod().limited_to({names.NVIDIA_GPU: "1"}).label(names.RESERVATION, ID).pinned_to("node-a").facts()
    assert says_it_lacks("0/1 nodes are available: 1 Insufficient nvidia.com/gpu.", pod)
    assert not says_it_lacks("0/1 nodes are available: 1 Insufficient kamiwaza.ai/vram-gb-gpu-0.", pod)


@pytest.mark.parametrize(
    ("kind", "revision", "is_present"),
    [("StatefulSet", "chat-2", True), ("StatefulSet", "chat-1", False), ("ReplicaSet", "chat-1", True)],
)
def test_only_a_stateful_set_has_pods_of_an_earlier_template(kind: str, revision: str, is_present: bool) -> None:
    owner = {"kind": kind, "status": {"updateRevision": "chat-2"}}
    pod = {"metadata": {"labels": {names.CONTROLLER_REVISION_HASH: revision}}}
    assert is_of_present_template(owner, pod) is is_present
