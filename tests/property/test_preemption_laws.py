"""Laws of preemption on made-up nodes: held against a second reading of what kube-scheduler evicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hypothesis import event, given
from hypothesis import strategies as st

from shared.api import names
from shared.core.cards import Inventory
from shared.core.constraints import read_constraints
from shared.core.demand import is_booked, read_pod
from shared.core.nodes import node_facts
from shared.core.placement import find_place
from shared.core.pods import pod_facts
from shared.core.preemption import Preemption, find_preemption
from shared.core.snapshot import NodeState
from tests.builders import a_node, a_pod
from tests.scheduler_model import evicted
from tests.unit.core_builders import cards, cluster

Json = dict[str, Any]

_PRIORITIES = st.sampled_from([-10, 0, 0, 5, 100, 1000])
_BUDGET = 24


@dataclass(frozen=True, slots=True)
class Scene:
    """A node with its pods as they are stored, and a pod that looks for a place there."""

    node: Json
    cards: int
    running: list[Json]
    pod: Json

    @property
    def state(self) -> NodeState:
        facts = [pod_facts(raw) for raw in self.running]
        inventory = Inventory(cards(*[_BUDGET] * self.cards))
        return NodeState.of(node_facts(self.node), inventory, pods={each.key: each for each in facts if each})

    def find(self) -> Preemption | None:
        """The place of the pod that has none without preemption; None also where it has one."""
        demand = read_pod(self.pod).demand
        assert demand is not None
        constraints, snapshot = read_constraints(self.pod, without=is_booked), cluster(self.state)
        if find_place(snapshot, demand, constraints) is not None:
            return None
        return find_preemption(snapshot, demand, constraints, self.pod["spec"]["priority"])

    def on(self, booking: Mapping[int, int]) -> Json:
        """The pod as the scheduler gets it, on these cards."""
        main = self.pod["spec"]["containers"][0]
        shares = {names.card_resource(slot): str(gb) for slot, gb in booking.items()}
        requests = {**main["resources"]["requests"], **shares}
        return {**self.pod, "spec": {**self.pod["spec"], "containers": [{**main, "resources": {"requests": requests}}]}}


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    number = draw(st.integers(1, 3))
    offered = {names.card_resource(slot): str(_BUDGET) for slot in range(number)}
    node = a_node().offering(offered, cpu="16", pods=str(draw(st.sampled_from([6, 20])))).raw()
    running = []
    for place in range(draw(st.integers(1, 8))):
        # Cards are full, or nearly so: only then it is of interest who leaves.
        held = {place % number: draw(st.sampled_from([6, 10, 12, 12]))} if draw(st.integers(0, 9)) else {}
        limits = {names.card_resource(slot): str(gb) for slot, gb in held.items()}
        pod = a_pod(f"pod-{place}").limited_to(limits).requesting(cpu=draw(st.sampled_from(["100m", "1", "3"])))
        began = f"2026-11-30T10:00:{draw(st.integers(0, 59)):02}.{place}Z"
        pod.spec(priority=draw(_PRIORITIES)).status(startTime=began)
        if draw(st.integers(0, 9)) == 0:
            pod.host_port(8000)
        pod = pod.pinned_to("node-a") if draw(st.integers(0, 19)) == 0 else pod.on("node-a")
        running.append(pod.raw())
    new = a_pod("new").annotated(names.VRAM, str(draw(st.sampled_from([8, 12, 20, 24]))))
    new.annotated(names.GPUS, str(draw(st.integers(1, number)))).requesting(cpu=draw(st.sampled_from(["1", "8"])))
    if draw(st.booleans()):
        new.host_port(8000)
    return Scene(node, number, running, new.spec(priority=draw(st.sampled_from([0, 50, 50, 500, 5000]))).raw())


@given(scenes())
def test_the_scheduler_evicts_those_that_were_counted(scene: Scene) -> None:
    found = scene.find()
    event("found" if found else "none")
    if found is not None:
        named = [victim.name for victim in found.victims]
        assert evicted(scene.node, scene.running, scene.on(dict(found.placed.booking))) == named


@given(scenes())
def test_only_pods_of_lower_priority_that_run_there_are_victims(scene: Scene) -> None:
    found = scene.find()
    if found is not None:
        assert found.victims
        assert all(victim.bound and victim.priority < scene.pod["spec"]["priority"] for victim in found.victims)


@given(scenes())
def test_without_them_there_is_room_and_with_any_one_of_them_there_is_not(scene: Scene) -> None:
    found = scene.find()
    if found is None:
        return
    demand = read_pod(scene.pod).demand
    assert demand is not None
    constraints, keys = read_constraints(scene.pod, without=is_booked), found.keys
    left = scene.state.without_pods(keys)
    booked = dict(found.placed.booking)
    free = {card.index: free for card, free in zip(left.inventory.cards, left.free_gb, strict=True)}
    assert all(gb <= free[slot] for slot, gb in booked.items())
    assert find_place(cluster(left), demand, constraints) is not None
    for key in keys:
        assert find_place(cluster(scene.state.without_pods(keys - {key})), demand, constraints) is None


@given(scenes())
def test_where_the_scheduler_would_help_a_place_is_found(scene: Scene) -> None:
    """Of pods that want one card, where nothing is under way."""
    demand = read_pod(scene.pod).demand
    assert demand is not None
    constraints = read_constraints(scene.pod, without=is_booked)
    under_way = any("nodeName" not in raw["spec"] for raw in scene.running)
    if demand.cards > 1 or under_way or find_place(cluster(scene.state), demand, constraints) is not None:
        return
    gb = int(scene.pod["metadata"]["annotations"][names.VRAM])
    helps = any(evicted(scene.node, scene.running, scene.on({slot: gb})) for slot in range(scene.cards))
    holding = [raw for raw in scene.running if raw["spec"]["containers"][0].get("resources", {}).get("limits")]
    lowest = min((raw["spec"]["priority"] for raw in holding), default=10**9)
    # Where nobody of lower priority is on a card, the node is not looked at.
    assert (scene.find() is not None) == (helps and lowest < scene.pod["spec"]["priority"])
