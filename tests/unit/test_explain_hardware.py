"""The texts of refusals on pools, partitions and cards that are not given away, word by word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from shared.core.amounts import WHOLE
from shared.core.cards import Vendor
from shared.core.constraints import read_constraints
from shared.core.demand import Demand
from shared.core.explain import causes, explain
from shared.core.placement import place
from shared.core.refusal import NoFit
from shared.core.snapshot import NodeState
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.core_builders import ask, card, cards, cluster, demand, entry, holder, node, partition, pool
from tests.unit.units import GPU, managed

GIB = 2**30
OWN = a_pod().requesting(memory="4Gi")
UNKNOWN = card(0, 0, memory_mib=0)
DB = holder("db", {}, "data", requests={"memory": 64 * GIB})
FOREIGN = a_pod("train", "team-b").limited_to({"nvidia.com/gpu": "1"}).on("n").facts()
SOON = "Full now: it is placed by itself as soon as there is room. To be placed sooner,"
LESS = "ask for less (kamiwaza.ai/vram-gb)"
USUAL = f"{SOON} {LESS}, stop a model that is no longer used, or add a card."


def refusal(states: Sequence[NodeState], of: Demand, pod: PodBuilder) -> NoFit:
    verdict = place(cluster(*states), of, read_constraints(pod.raw()))
    assert isinstance(verdict, NoFit), verdict
    return verdict


def spark(*pods: object, gib: int = 119, gb: int = 111) -> NodeState:
    return node("spark", [pool(gb)], a_node("spark").offering(memory=f"{gib}Gi"), pods=pods)  # type: ignore[arg-type]


CASES = [
    pytest.param(
        [spark(DB)],
        demand(ask(60)),
        OWN,
        "insufficient_system_memory: needs 60 GB on one card; the best memory pool, gpu-0 of spark, has 111 of 111 GB "
        "free, but its node has memory for 51 GB only: 9 GB short.\n"
        "Memory of spark, 119 GB: 64 GB requested by pods, 4 GB requested by this pod.\n"
        f"{SOON} {LESS}, lower the pod's own memory request, stop or shrink other pods of that node, or use a node "
        "with more memory.",
        id="memory-that-others-request",
    ),
    pytest.param(
        [spark(DB, holder("llm", {0: 40}))],
        demand(ask(60)),
        a_pod(),
        "insufficient_system_memory: needs 60 GB on one card; the best memory pool, gpu-0 of spark, has 71 of 111 GB "
        "free, but its node has memory for 15 GB only: 45 GB short.\n"
        "Held on gpu-0 of spark: 40 GB by llm.\n"
        "Memory of spark, 119 GB: 64 GB requested by pods, 40 GB booked for models.\n"
        f"{SOON} {LESS}, stop or shrink other pods of that node, or use a node with more memory.",
        id="memory-that-others-request-and-models-hold",
    ),
    pytest.param(
        [spark(holder("llm", {0: 100}))],
        demand(ask(12)),
        a_pod(),
        "insufficient_system_memory: needs 12 GB on one card; the best memory pool, gpu-0 of spark, has 11 of 111 GB "
        "free and is 1 GB short.\n"
        "Held on gpu-0 of spark: 100 GB by llm.\n"
        f"{USUAL}",
        id="a-full-pool",
    ),
    pytest.param(
        [node("halo", [pool(31, vendor=Vendor.AMD)], a_node("halo").offering(memory="62Gi"))],
        demand(ask(40)),
        a_pod().requesting(memory="2Gi"),
        "insufficient_system_memory: needs 40 GB on one card; the best memory pool, gpu-0 of halo, has 31 GB in all "
        "and is 9 GB too small.\n"
        f"Larger than any card it may use, so waiting does not help. {LESS.capitalize()}, or add a larger card.",
        id="a-pool-that-is-too-small",
    ),
    pytest.param(
        [spark()],
        demand(ask(WHOLE)),
        a_pod().requesting(memory="16Gi"),
        "insufficient_system_memory: needs a whole card; the best memory pool, gpu-0 of spark, has 111 GB, but its "
        "node's memory would do for 103 GB at most.\n"
        "Memory of spark, 119 GB: 16 GB requested by this pod.\n"
        f"More than its nodes have memory for, so waiting does not help. {LESS.capitalize()}, lower the pod's own "
        "memory request, or use a node with more memory.",
        id="a-pool-and-the-pods-own-request",
    ),
    pytest.param(
        [
            node(
                "gh200",
                [card(0, 96, onlined=True)],
                a_node("gh200").offering(memory="560Gi"),
                pods=[holder("db", {}, requests={"memory": 470 * GIB})],
            )
        ],
        demand(ask(60)),
        a_pod(),
        "insufficient_system_memory: needs 60 GB on one card; the best card, gpu-0 of gh200, has 96 of 96 GB free, but "
        "its node has memory for 0 GB only: 60 GB short.\n"
        "Memory of gh200, 560 GB: 470 GB requested by pods, 96 GB kept for cards.\n"
        f"{SOON} {LESS}, stop or shrink other pods of that node, or use a node with more memory.",
        id="a-card-whose-memory-the-kernel-adds",
    ),
    pytest.param(
        [node("dgx", [card(0, 0, partitioned=True, memory_mib=81920), partition(1, 39), partition(2, 39)])],
        demand(ask(36, 2)),
        a_pod(),
        "insufficient_gpu_count: needs 36 GB on each of 2 cards; no node with cards is left; 1 node is excluded: with "
        "MIG partitions only.\n"
        "Excluded: dgx (with MIG partitions only).\n"
        "Waiting does not help. Ask for one card (kamiwaza.ai/gpus) with the GB of one partition "
        "(kamiwaza.ai/vram-gb), since partitions are never joined, or add a node with cards that have none.",
        id="partitions-are-not-cards",
    ),
    pytest.param(
        [node("dgx", [partition(1, 39)], ledger={"r": entry({1: 39})})],
        demand(ask(10)),
        a_pod(),
        "insufficient_capacity: needs 10 GB on one card; the best partition, gpu-1 of dgx, has 0 of 39 GB free and is "
        "only given away whole.\n"
        "Held on gpu-1 of dgx: 39 GB by a pod being created.\n"
        f"{SOON} stop a model that is no longer used, or add a card.",
        id="a-partition-in-use",
    ),
    pytest.param(
        [node("dgx", [partition(1, 39, model="NVIDIA A100-SXM4-80GB MIG 3g.40gb")])],
        demand(ask(60)),
        a_pod(),
        "insufficient_capacity: needs 60 GB on one card; the best partition, gpu-1 (3g.40gb) of dgx, has 39 GB in all "
        "and is 21 GB too small.\n"
        f"Larger than any card it may use, so waiting does not help. {LESS.capitalize()}, or add a larger card.",
        id="a-partition-by-its-profile",
    ),
    pytest.param(
        [node("a", cards(24), ledger={"r": entry({0: 12}), "s": entry({0: 12})})],
        demand(ask(6)),
        a_pod(),
        "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of a, has 0 of 24 GB free and is 6 GB "
        "short.\n"
        "Held on gpu-0 of a: 24 GB by 2 pods being created.\n"
        f"{USUAL}",
        id="pods-that-are-not-there-yet",
    ),
    pytest.param(
        [managed("aks", {GPU: 1}, {"kubernetes.azure.com/accelerator": "nvidia"})],
        demand(ask(6)),
        a_pod(),
        "insufficient_capacity: needs 6 GB on one card; no node with cards is left; 1 node is excluded: with GPUs of "
        "unknown size (no label nvidia.com/gpu.memory).\n"
        "Excluded: aks (with GPUs of unknown size (no label nvidia.com/gpu.memory)).\n"
        "Waiting does not help. Have a node labelled nvidia.com/gpu.memory (MiB), ask for whole GPUs without an "
        "amount, or add a node.",
        id="units-of-unknown-size",
    ),
    pytest.param(
        [node("dgx", [partition(1, 39)])],
        demand(ask(60)),
        a_pod(),
        "insufficient_capacity: needs 60 GB on one card; the best partition, gpu-1 of dgx, has 39 GB in all and is 21 "
        "GB too small.\n"
        f"Larger than any card it may use, so waiting does not help. {LESS.capitalize()}, or add a larger card.",
        id="a-partition-that-is-too-small",
    ),
    pytest.param(
        [node("a", [UNKNOWN]), node("b", [UNKNOWN])],
        demand(ask(6)),
        a_pod(),
        "insufficient_capacity: needs 6 GB on one card; no node with cards is left; 2 nodes are excluded: with cards "
        "of unknown size.\n"
        "Excluded: a (with cards of unknown size), b (with cards of unknown size).\n"
        "Waiting does not help. Declare the size of its cards, or add a node with a card that this version places.\n"
        "a has cards of unknown size: declare it in spec.cards[].vramGB of GPUNode a.",
        id="cards-of-unknown-size",
    ),
    pytest.param(
        [node("a", cards(4)), node("b", [UNKNOWN])],
        demand(ask(6)),
        a_pod(),
        "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of a, has 4 GB in all and is 2 GB too "
        "small; 1 node is excluded: with cards of unknown size.\n"
        "Excluded: b (with cards of unknown size).\n"
        f"Larger than any card it may use, so waiting does not help. {LESS.capitalize()}, or add a larger card.\n"
        "b has cards of unknown size: declare it in spec.cards[].vramGB of GPUNode b.",
        id="a-small-card-and-one-of-unknown-size",
    ),
    pytest.param(
        [node("a", [replace(UNKNOWN, compute_capable=False)])],
        demand(ask(6)),
        a_pod(),
        "insufficient_capacity: needs 6 GB on one card; no node with cards is left; 1 node is excluded: with display "
        "adapters only.\n"
        "Excluded: a (with display adapters only).\n"
        "Waiting does not help. Add a node with a card that this version places.",
        id="a-display-adapter",
    ),
    pytest.param(
        [node("a", cards(24), pods=[FOREIGN])],
        demand(ask(6)),
        a_pod(),
        "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of a, has 0 of 24 GB free and is 6 GB "
        "short; 1 node is excluded: where a pod of another device plugin holds a card that is not known yet.\n"
        "Excluded: a (where a pod of another device plugin holds a card that is not known yet).\n"
        "Held on gpu-0 of a: 24 GB by 1 pod in another namespace.\n"
        f"{USUAL}",
        id="a-card-that-another-plugin-gave-away",
    ),
]


@pytest.mark.parametrize(("states", "wanted", "pod", "text"), CASES)
def test_the_text_tells_what_is_short_and_what_would_help(
    states: list[NodeState], wanted: Demand, pod: PodBuilder, text: str
) -> None:
    assert explain(refusal(states, wanted, pod)) == text
    assert len(text.partition("\n")[0]) < 240


def test_the_text_at_thousands_of_pools_names_the_nearest_and_is_the_same_whatever_their_order() -> None:
    states = [
        node(
            f"spark-{number:04}",
            [pool(111)],
            a_node(f"spark-{number:04}").offering(memory="119Gi"),
            pods=[holder("db", {}, "data", requests={"memory": (64 + number % 7) * GIB})],
        )
        for number in range(2000)
    ]
    verdict = refusal(states, demand(ask(60)), OWN)
    assert explain(verdict).startswith(
        "insufficient_system_memory: needs 60 GB on one card; the best memory pool, gpu-0 of spark-0000, has 111 of "
        "111 GB free, but its node has memory for 51 GB only: 9 GB short.\n"
    )
    assert explain(refusal(states[::-1], demand(ask(60)), OWN)) == explain(verdict)
    assert len(causes(verdict)) == 16
    assert causes(verdict)[1].reason == "CardTooFull"
