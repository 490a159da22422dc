"""Laws of what a refusal says, whatever the cluster, the pod and the names that people give to things."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import event, given, settings
from hypothesis import strategies as st

from shared.core.card_filter import CardFilter
from shared.core.cards import CardClass, Vendor
from shared.core.constraints import Constraints, read_constraints
from shared.core.demand import Demand, Policy
from shared.core.explain import causes, explain
from shared.core.owners import OwnerRef
from shared.core.placement import place
from shared.core.pods import PodFacts
from shared.core.refusal import Invalid, NoFit
from shared.core.remedies import with_remedies
from shared.core.snapshot import NodeState, Snapshot
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod
from tests.unit.causes_schema import violations
from tests.unit.core_builders import ask, card, cluster, demand, entry, holder, node
from tests.unit.units import AMD, GPU, SHARED, SLICE, managed, slices, user

SECRET = "zq-secret-"
"""Begins every name that a caller in `models` must not read."""

names = st.one_of(
    st.from_regex(r"[a-z]([a-z0-9.-]{0,40}[a-z0-9])?", fullmatch=True),
    st.sampled_from(["n" * 253, "ip-10-0-131-27.eu-central-1.compute.internal"]),
)
texts = st.text(max_size=300)
vendors = st.sampled_from([Vendor.NVIDIA, Vendor.NVIDIA, Vendor.AMD, Vendor.INTEL])
classes = st.sampled_from([CardClass.DISCRETE, CardClass.DISCRETE, CardClass.UNIFIED, CardClass.MIG])
sizes = st.sampled_from([0, 4, 16, 24, 80, 191, 999_999])


@st.composite
def builders(draw: st.DrawFn, name: str) -> NodeBuilder:
    builder = a_node(name).offering(
        cpu=draw(st.sampled_from(["1", "64"])),
        memory=draw(st.sampled_from(["8Gi", "256Gi"])),
        pods=draw(st.sampled_from(["0", "110", "110"])),
    )
    if draw(st.booleans()):
        builder.tainted(draw(names), draw(st.sampled_from(["", "v" * 63])))
    if draw(st.sampled_from([True, False, False, False])):
        builder.cordoned()
    if draw(st.sampled_from([True, False, False, False])):
        builder.not_ready()
    return builder.labelled(pool=draw(st.sampled_from(["a", "b"])))


@st.composite
def node_states(draw: st.DrawFn, name: str) -> NodeState:
    inventory = [
        card(
            slot,
            gb := draw(sizes),
            draw(vendors),
            memory_mib=gb * 1024,
            healthy=draw(st.sampled_from([True, True, False])),
            foreign_gb=draw(st.sampled_from([0, 0, 7])),
            card_class=draw(classes),
        )
        for slot in draw(st.lists(st.integers(0, 99), max_size=9, unique=True))
    ]
    held = st.dictionaries(st.sampled_from([card.index for card in inventory] or [0]), st.integers(1, 99), max_size=3)
    pods: list[PodFacts] = []
    for number, pod in enumerate(draw(st.lists(names, max_size=5))):
        own = draw(st.booleans())
        pods.append(
            holder(
                f"{number}-{pod}" if own else f"{SECRET}{number}",
                draw(held),
                "models" if own else f"{SECRET}team",
                labels={"pod-template-hash": "v1"},
                owner=OwnerRef("apps/v1", "ReplicaSet", draw(st.sampled_from(["llm-v1", f"{SECRET}v1"])), "uid"),
                node=name,
                requests={"cpu": 1000, "memory": draw(st.integers(0, 300)) * 2**30},
            )
        )
    ledger = {
        f"r{number}": entry(draw(held), draw(st.sampled_from(["models", f"{SECRET}team"])))
        for number in range(draw(st.integers(0, 2)))
    }
    return node(name, inventory, draw(builders(name)), accel=draw(accels), ledger=ledger, pods=pods)


accels = st.sampled_from([{}, {"cuda": (12, 2)}, {"cuda": (13, 0), "rocm": (6, 4)}])


@st.composite
def managed_states(draw: st.DrawFn, name: str) -> NodeState:
    """A node whose GPUs a vendor's own plugin gives away."""
    offered = draw(st.dictionaries(st.sampled_from([GPU, AMD, SHARED, SLICE]), st.integers(0, 8), min_size=1))
    users = [
        replace(user(f"chat-{number}" if own else f"{SECRET}{number}", held, name), namespace=namespace)
        for number, (own, held) in enumerate(
            draw(st.lists(st.tuples(st.booleans(), st.dictionaries(st.sampled_from(list(offered)), st.integers(0, 4)))))
        )
        if (namespace := "models" if own else f"{SECRET}team")
    ]
    labels = draw(st.sampled_from([{}, {"memory": "23028"}, {"memory": "24576", "replicas": "4"}]))
    return managed(name, offered, {f"nvidia.com/gpu.{key}": value for key, value in labels.items()}, pods=users)


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    kinds = st.sampled_from([node_states, node_states, managed_states])
    return cluster(*[draw(draw(kinds)(name)) for name in draw(st.lists(names, max_size=4, unique=True))])


@st.composite
def demands(draw: st.DrawFn) -> Demand:
    amounts = st.sampled_from([1, 6, 20, 80, 5000])
    # Container names are whatever a caller writes: they are checked after admission only.
    words = st.lists(st.one_of(texts, st.just(f"kamiwaza.ai/vram-gb.{'n' * 300}")), min_size=1, max_size=3).map(tuple)
    asks = [
        replace(
            ask(draw(amounts), draw(st.sampled_from([1, 1, 1, 2, 64])), f"c{number}"),
            amount_words=draw(words),
            count_words=draw(words),
        )
        for number in range(draw(st.sampled_from([1, 1, 1, 2, 16])))
    ]
    accel = draw(st.sampled_from([None, None, "cuda>=12.4", "cuda 13.1"]))
    vendor = Vendor.NVIDIA if accel else draw(st.none() | vendors)
    wanted = demand(*asks, vendor=vendor, accel=accel, policy=draw(st.sampled_from(Policy)))
    if draw(st.sampled_from([True, False, False, False])):
        return replace(
            wanted, asks=(), units=(slices(draw(st.sampled_from([SLICE, SHARED])), draw(st.integers(1, 9))),)
        )
    types = tuple(draw(st.lists(texts.filter(bool), max_size=5)))
    return replace(wanted, only=CardFilter(types=types)) if types else wanted


@st.composite
def pods(draw: st.DrawFn) -> PodBuilder:
    pod = a_pod("new").label("pod-template-hash", "v2")
    if draw(st.booleans()):
        pod.owned_by("ReplicaSet", "llm-v2", "uid-new")
    if draw(st.booleans()):
        pod.requesting(cpu="2", memory="4Gi")
    if draw(st.booleans()):
        pod.selecting(pool="a")
    if draw(st.sampled_from([True, False, False])):
        pod.host_port(80).spec(nodeName=draw(names))
    return pod


def refused(snapshot: Snapshot, wanted: Demand, pod: PodBuilder) -> NoFit | None:
    """How a pod is refused, if it is."""
    raw = pod.raw()
    constraints: Constraints = read_constraints(raw)
    verdict = place(snapshot, wanted, constraints)
    if not isinstance(verdict, NoFit):
        return None
    event(verdict.reason)
    facts = a_pod().on("later").facts()
    owner = OwnerRef("apps/v1", "ReplicaSet", "llm-v2", "uid") if "ownerReferences" in raw["metadata"] else None
    new = replace(facts, labels=raw["metadata"]["labels"], owner=owner)
    return with_remedies(verdict, snapshot, new, wanted, constraints)


def keeps_to_the_limits(refusal: NoFit | Invalid) -> None:
    text, listed = explain(refusal), causes(refusal)
    first, *more = text.split("\n")
    assert len(first) < 240
    assert len(text) < 900
    assert all(line.isprintable() and line for line in (first, *more))
    assert 1 <= len(listed) <= 16
    assert all(len(cause.message) <= 500 and len(cause.field) <= 400 for cause in listed)
    assert first.partition(":")[0] == listed[0].reason == refusal.reason
    assert violations(refusal) == []


@settings(max_examples=300)
@given(snapshots(), demands(), pods())
def test_a_refusal_is_short_and_of_one_mind_whatever_the_cluster(
    snapshot: Snapshot, wanted: Demand, pod: PodBuilder
) -> None:
    refusal = refused(snapshot, wanted, pod)
    if refusal is not None:
        keeps_to_the_limits(refusal)
        text = explain(refusal)
        # What helps is never cut off.
        assert ("as soon as" in text) is refusal.can_wait
        assert ("aiting does not help" in text) is not refusal.can_wait


@settings(max_examples=200)
@given(snapshots(), demands(), pods())
def test_no_name_of_another_namespace_is_told(snapshot: Snapshot, wanted: Demand, pod: PodBuilder) -> None:
    refusal = refused(snapshot, wanted, pod)
    if refusal is not None:
        assert SECRET not in explain(refusal)
        assert all(SECRET not in f"{cause.message}{cause.field}" for cause in causes(refusal))


@settings(max_examples=200)
@given(snapshots(), demands(), pods(), st.randoms(use_true_random=False), st.integers(0, 10**6))
def test_it_is_the_same_bytes_in_any_order_and_at_any_time(
    snapshot: Snapshot, wanted: Demand, pod: PodBuilder, random: Random, later: int
) -> None:
    refusal = refused(snapshot, wanted, pod)
    if refusal is None:
        return
    states = list(snapshot)
    random.shuffle(states)
    again = refused(cluster(*(aged(state, later) for state in states)), wanted, pod)
    assert again is not None
    assert explain(again) == explain(refusal)
    assert causes(again) == causes(refusal)


def aged(state: NodeState, seconds: int) -> NodeState:
    """The same node with reservations that were made at another time."""
    ledger = {key: replace(each, since=each.since + seconds) for key, each in state.ledger.items()}
    return state.with_inventory(state.inventory, ledger)


@settings(max_examples=300)
@given(st.lists(texts, min_size=4, max_size=4))
def test_a_malformed_ask_is_short_and_of_one_mind_whatever_it_holds(parts: Sequence[str]) -> None:
    field, value, problem, fix = parts
    keeps_to_the_limits(Invalid(f"f{field}", value, f"is wrong {problem}", f"write {fix}"))
