"""The texts of refusals, word by word: what a person on call reads at one node, at a few and at thousands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from shared.core.amounts import WHOLE
from shared.core.cards import Vendor
from shared.core.constraints import read_constraints
from shared.core.demand import Demand, Policy
from shared.core.explain import causes, explain
from shared.core.ledger import Mark
from shared.core.placement import place
from shared.core.refusal import NoFit, Reason
from shared.core.snapshot import NodeState
from tests.builders import PodBuilder, a_node, a_pod, labels, requirement, term
from tests.unit.core_builders import ask, card, cards, cluster, demand, entry, holder, node, pool
from tests.unit.units import GPU, a10g, user

ANY = a_pod()
CPU = a_pod().requesting(cpu="2")
NVIDIA = Vendor.NVIDIA
ASK_LESS = "ask for less (kamiwaza.ai/vram-gb), stop a model that is no longer used, or add a card."
ASK_FEWER = "ask for fewer cards (kamiwaza.ai/gpus), for less on each (kamiwaza.ai/vram-gb), or"


def refusal(states: Sequence[NodeState], of: Demand, pod: PodBuilder = ANY) -> NoFit:
    verdict = place(cluster(*states), of, read_constraints(pod.raw()))
    assert isinstance(verdict, NoFit), verdict
    return verdict


def t4(name: str = "node-a") -> NodeState:
    """A 16 GB card with 12 GB booked, half of it by another namespace."""
    return node(name, cards(16), pods=[holder("chat", {0: 6}), holder("embed", {0: 6}, "other")])


ONE_NODE = [
    pytest.param(
        [t4()],
        demand(ask(6)),
        ANY,
        "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of node-a, has 4 of 16 GB free and is 2 "
        "GB short.\n"
        "Held on gpu-0 of node-a: 6 GB by chat, 6 GB by 1 pod in another namespace.\n"
        f"Full now: it is placed by itself as soon as there is room. To be placed sooner, {ASK_LESS}",
        id="full",
    ),
    pytest.param(
        [a10g("node-a", pods=[user("chat", {GPU: 1}, "node-a")])],
        demand(ask(6)),
        ANY,
        "sharing_not_configured: needs 6 GB on one card; the best node, node-a, has 0 of 1 nvidia.com/gpu of 22 GB "
        "free and gives whole ones only.\n"
        "Held on node-a: 1 nvidia.com/gpu by chat.\n"
        "Full now: it is placed by itself as soon as there is room. To be placed sooner, ask the admin to share the "
        "GPUs (time-slicing or MPS in the device plugin's configuration), or stop a model that holds a whole one.",
        id="not-shared",
    ),
    pytest.param(
        [node("node-a", cards(16, 24))],
        demand(ask(30)),
        ANY,
        "insufficient_capacity: needs 30 GB on one card; the best card, gpu-1 of node-a, has 24 GB in all and is 6 GB "
        "too small.\n"
        "Larger than any card it may use, so waiting does not help. Ask for less (kamiwaza.ai/vram-gb), split it over "
        "several cards (kamiwaza.ai/gpus), or add a larger card.",
        id="too-large",
    ),
    pytest.param(
        [node("node-a", cards(16)), node("node-b", cards(16))],
        demand(ask(6)),
        a_pod().on("nope"),
        "insufficient_capacity: needs 6 GB on one card; spec.nodeName is nope, which is no node with cards; 2 nodes "
        "are excluded: not named by spec.nodeName.\n"
        "Excluded: node-a (not named by spec.nodeName), node-b (not named by spec.nodeName).\n"
        "Waiting does not help. Remove spec.nodeName or name a node with cards.",
        id="a-node-name-that-no-node-with-cards-has",
    ),
    pytest.param(
        [node("node-a", cards(16), a_node("node-a").cordoned()), node("node-b", cards(16))],
        demand(ask(6)),
        a_pod().on("node-a"),
        "insufficient_capacity: needs 6 GB on one card; node-a, the node of spec.nodeName, is not left; 2 nodes are "
        "excluded: 1 cordoned, 1 not named by spec.nodeName.\n"
        "Excluded: node-a (cordoned), node-b (not named by spec.nodeName).\n"
        "It is placed by itself as soon as an excluded node that suits it is back. To be placed sooner, bring an "
        "excluded node back, or add a node that it may use.",
        id="a-node-name-of-a-cordoned-node",
    ),
    pytest.param(
        [node("node-a", cards(80))],
        demand(ask(6)),
        a_pod().requesting({"example.com/hca": "1"}),
        "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of node-a, has 80 of 80 GB free, but its "
        "node cannot take the pod; 1 node is excluded: short of example.com/hca.\n"
        "Excluded: node-a (short of example.com/hca).\n"
        "Waiting does not help. Ask for less of what its nodes lack, or add a node.",
        id="a-resource-that-no-node-offers",
    ),
    pytest.param(
        [node("node-a", cards(24), ledger={"r": replace(entry({0: 20}), mark=Mark.KEPT)})],
        demand(ask(6)),
        ANY,
        "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of node-a, has 4 of 24 GB free and is "
        "2 GB short.\n"
        "Held on gpu-0 of node-a: 20 GB kept for a pod being replaced.\n"
        "Full now: it is placed by itself as soon as there is room. To be placed sooner, ask for less "
        "(kamiwaza.ai/vram-gb), stop a model that is no longer used, or add a card.",
        id="a-kept-seat-in-the-way",
    ),
    pytest.param(
        [node("node-a", cards(24), exclusive=True, ledger={"r": entry({0: 24})})],
        demand(ask(6)),
        ANY,
        "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of node-a, has 0 of 24 GB free and is "
        "only given away whole.\n"
        "Held on gpu-0 of node-a: 24 GB by a pod being created.\n"
        "Full now: it is placed by itself as soon as there is room. To be placed sooner, stop a model that is no "
        "longer used, or add a card.",
        id="a-card-that-is-not-shared",
    ),
    pytest.param(
        [node("node-a", cards(24), ledger={"r": entry({0: 4})})],
        demand(ask(6), policy=Policy.EXCLUSIVE),
        ANY,
        "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of node-a, has 20 of 24 GB free and is "
        "wanted whole (kamiwaza.ai/policy: exclusive).\n"
        "Held on gpu-0 of node-a: 4 GB by a pod being created.\n"
        "Full now: it is placed by itself as soon as there is room. To be placed sooner, do without "
        "kamiwaza.ai/policy: exclusive, stop a model that is no longer used, or add a card.",
        id="a-card-that-the-pod-will-not-share",
    ),
    pytest.param(
        [node("node-a", cards(24), ledger={"r": entry({0: 20})})],
        demand(ask(6), policy=Policy.EXCLUSIVE),
        ANY,
        "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of node-a, has 4 of 24 GB free and is "
        "wanted whole (kamiwaza.ai/policy: exclusive).\n"
        "Held on gpu-0 of node-a: 20 GB by a pod being created.\n"
        "Full now: it is placed by itself as soon as there is room. To be placed sooner, stop a model that is no "
        "longer used, or add a card.",
        id="a-card-that-would-be-too-full-to-share",
    ),
    pytest.param(
        [node("node-a", cards(24), exclusive=True, ledger={"r": entry({0: 4})})],
        demand(ask(6), policy=Policy.EXCLUSIVE),
        ANY,
        "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of node-a, has 0 of 24 GB free and is "
        "only given away whole.\n"
        "Held on gpu-0 of node-a: 4 GB by a pod being created.\n"
        "Full now: it is placed by itself as soon as there is room. To be placed sooner, stop a model that is no "
        "longer used, or add a card.",
        id="a-card-that-neither-shares",
    ),
    pytest.param(
        [node("node-a", cards(24, 24), ledger={"r": entry({0: 4})})],
        demand(ask(6, 2), policy=Policy.EXCLUSIVE),
        ANY,
        "insufficient_gpu_count: needs 6 GB on each of 2 cards; the best node, node-a, has room on 1 of its 2 cards.\n"
        "Held on gpu-0 of node-a: 4 GB by a pod being created.\n"
        "Full now: it is placed by itself as soon as there is room. To be placed sooner, do without "
        "kamiwaza.ai/policy: exclusive, ask for fewer cards (kamiwaza.ai/gpus), or free cards of one node.",
        id="several-cards-of-which-the-pod-will-share-none",
    ),
    pytest.param(
        [node("node-a", cards(24, 24), ledger={"r": entry({0: 4, 1: 4})})],
        demand(ask(6, 2), policy=Policy.EXCLUSIVE),
        ANY,
        "insufficient_gpu_count: needs 6 GB on each of 2 cards; the best card, gpu-0 of node-a, has 20 of 24 GB free "
        "and is wanted whole (kamiwaza.ai/policy: exclusive).\n"
        "Held on gpu-0 of node-a: 4 GB by a pod being created.\n"
        "Full now: it is placed by itself as soon as there is room. To be placed sooner, do without "
        "kamiwaza.ai/policy: exclusive, or free cards of one node.",
        id="several-cards-in-use-of-which-the-pod-will-share-none",
    ),
    pytest.param(
        [node("node-a", cards(24))],
        demand(ask(6, container="a"), ask(6, container="b"), policy=Policy.EXCLUSIVE),
        ANY,
        "insufficient_capacity: needs 6 GB on one card and 6 GB on one card; the best card, gpu-0 of node-a, has 24 of "
        "24 GB free, but not for all containers at once.\n"
        "No node it may use can hold all its containers, so waiting does not help. Do without kamiwaza.ai/policy: "
        "exclusive, move a container to a pod of its own, or add a larger node.",
        id="containers-that-will-not-share-with-each-other",
    ),
    pytest.param(
        [node("node-a", cards(24, 24), exclusive=True, ledger={"r": entry({0: 24})})],
        demand(ask(6, 2)),
        ANY,
        "insufficient_gpu_count: needs 6 GB on each of 2 cards; the best node, node-a, has room on 1 of its 2 cards.\n"
        "Held on gpu-0 of node-a: 24 GB by a pod being created.\n"
        "Full now: it is placed by itself as soon as there is room. To be placed sooner, ask for fewer cards "
        "(kamiwaza.ai/gpus), or free cards of one node.",
        id="several-cards-that-are-not-shared",
    ),
    pytest.param(
        [node("node-a", cards(16, vendor=Vendor.INTEL))],
        demand(ask(6)),
        ANY,
        "insufficient_capacity: needs 6 GB on one card; no node with cards is left; 1 node is excluded: Intel.\n"
        "Excluded: node-a (Intel).\n"
        "Waiting does not help. Add a node with a card that this version places.",
        id="only-cards-that-are-not-placed",
    ),
    pytest.param(
        [node("node-a", [card(0, 16, healthy=False)])],
        demand(ask(6)),
        ANY,
        "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of node-a, is unhealthy or cordoned "
        "(16 GB).\n"
        "It is placed by itself as soon as a card that would do is in service again. To be placed sooner, bring that "
        "card back, or add one.",
        id="out-of-service",
    ),
    pytest.param(
        [node("node-a", [card(0, 16, foreign_gb=12)])],
        demand(ask(6)),
        ANY,
        "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of node-a, has 4 of 16 GB free and is 2 "
        "GB short.\n"
        "Held on gpu-0 of node-a: 12 GB by programs that no reservation stands for.\n"
        f"Full now: it is placed by itself as soon as there is room. To be placed sooner, {ASK_LESS}",
        id="held-by-foreign-programs",
    ),
    pytest.param(
        [node("node-a", cards(16), a_node("node-a").offering(cpu="2"), pods=[holder("w", {}, requests={"cpu": 1000})])],
        demand(ask(6)),
        CPU,
        "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of node-a, has 16 of 16 GB free, but its "
        "node cannot take the pod; 1 node is excluded: short of cpu.\n"
        "Excluded: node-a (short of cpu).\n"
        "It is placed by itself as soon as a node with room can take it. To be placed sooner, free what its nodes "
        "lack, or add a node.",
        id="cpu-in-use",
    ),
    pytest.param(
        [node("node-a", cards(16), a_node("node-a").offering(cpu="1"))],
        demand(ask(6)),
        CPU,
        "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of node-a, has 16 of 16 GB free, but its "
        "node cannot take the pod; 1 node is excluded: short of cpu.\n"
        "Excluded: node-a (short of cpu).\n"
        "Waiting does not help. Ask for less of what its nodes lack, or add a node.",
        id="more-cpu-than-there-is",
    ),
    pytest.param(
        [node("node-a", cards(16))],
        demand(ask(6)),
        a_pod().near(term("kubernetes.io/hostname", labels(app="cache"))),
        "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of node-a, has 16 of 16 GB free, but its "
        "node cannot take the pod; 1 node is excluded: away from the pods of its pod affinity.\n"
        "Excluded: node-a (away from the pods of its pod affinity).\n"
        "It is placed by itself as soon as a node with room can take it. To be placed sooner, "
        "change its pod affinity, or add a node.",
        id="away-from-the-pods-it-wants",
    ),
    pytest.param(
        [node("node-a", cards(16), a_node("node-a").cordoned())],
        demand(ask(6)),
        ANY,
        "insufficient_capacity: needs 6 GB on one card; no node with cards is left; 1 node is excluded: cordoned.\n"
        "Excluded: node-a (cordoned).\n"
        "It is placed by itself as soon as an excluded node that suits it is back. To be placed sooner, bring an "
        "excluded node back, or add a node that it may use.",
        id="cordoned",
    ),
    pytest.param(
        [node("node-a", cards(16))],
        demand(ask(6)),
        a_pod().selecting(zone="b"),
        "insufficient_capacity: needs 6 GB on one card; no node with cards is left; 1 node is excluded: not selected "
        "by nodeSelector or node affinity.\n"
        "Excluded: node-a (not selected by nodeSelector or node affinity).\n"
        "Waiting does not help. Let the pod tolerate and select an excluded node, or add a node that it may use.",
        id="not-selected",
    ),
    pytest.param(
        [node("node-a", [pool(24)], a_node("node-a").offering(memory="32Gi"), pods=[holder("chat", {0: 20})])],
        demand(ask(6)),
        ANY,
        "insufficient_system_memory: needs 6 GB on one card; the best memory pool, gpu-0 of node-a, has 4 of 24 GB "
        "free and is 2 GB short.\n"
        "Held on gpu-0 of node-a: 20 GB by chat.\n"
        f"Full now: it is placed by itself as soon as there is room. To be placed sooner, {ASK_LESS}",
        id="a-full-pool-of-memory",
    ),
    pytest.param(
        [node("node-a")],
        demand(ask(6)),
        ANY,
        "insufficient_capacity: needs 6 GB on one card; no node of the cluster has a card.\n"
        "Waiting does not help. Add a node with a card.",
        id="no-card-at-all",
    ),
    pytest.param(
        [node("node-a", cards(24), pods=[holder("chat", {0: 10})])],
        demand(ask(10, container="llm"), ask(8, container="embed")),
        ANY,
        "insufficient_capacity: needs 10 GB on one card and 8 GB on one card; the best card, gpu-0 of node-a, has 14 "
        "of 24 GB free, but not for all containers at once.\n"
        f"Full now: it is placed by itself as soon as there is room. To be placed sooner, {ASK_LESS}",
        id="two-containers-now",
    ),
    pytest.param(
        [node("node-a", cards(24))],
        demand(ask(WHOLE, container="llm"), ask(WHOLE, container="embed"), vendor=NVIDIA),
        ANY,
        "insufficient_capacity: needs a whole NVIDIA card and a whole NVIDIA card; the best card, gpu-0 of node-a, has "
        "24 of 24 GB free, but not for all containers at once.\n"
        "No node it may use can hold all its containers, so waiting does not help. Ask for less (kamiwaza.ai/vram-gb), "
        "move a container to a pod of its own, or add a larger node.",
        id="two-containers-ever",
    ),
    pytest.param(
        [node("node-a", cards(16, 16), pods=[holder("chat", {0: 12})])],
        demand(ask(8, 2)),
        ANY,
        "insufficient_gpu_count: needs 8 GB on each of 2 cards; the best node, node-a, has room on 1 of its 2 cards.\n"
        "Held on gpu-0 of node-a: 12 GB by chat.\n"
        f"Full now: it is placed by itself as soon as there is room. To be placed sooner, {ASK_FEWER} free cards of "
        "one node.",
        id="too-few-free-cards",
    ),
    pytest.param(
        [node("node-a", cards(16))],
        demand(ask(8, 4)),
        ANY,
        "insufficient_gpu_count: needs 8 GB on each of 4 cards; the best node, node-a, has room on its only card.\n"
        f"No node it may use has that many such cards, so waiting does not help. A{ASK_FEWER[1:]} add a node with more "
        "of them.",
        id="too-few-cards",
    ),
    pytest.param(
        [node("node-a", cards(16, 16), a_node("node-a").offering(pods="0"))],
        demand(ask(8, 2)),
        ANY,
        "insufficient_gpu_count: needs 8 GB on each of 2 cards; the best node, node-a, has room on 2 of its 2 cards, "
        "but cannot take the pod; 1 node is excluded: without a free pod slot.\n"
        "Excluded: node-a (without a free pod slot).\n"
        "It is placed by itself as soon as a node with room can take it. To be placed sooner, free what its nodes "
        "lack, or add a node.",
        id="enough-cards-on-a-node-that-is-closed",
    ),
    pytest.param(
        [node("node-a", cards(16, vendor=Vendor.AMD))],
        demand(ask(6), vendor=NVIDIA),
        ANY,
        "vendor_mismatch: needs 6 GB on one NVIDIA card; the only node it may use has AMD cards.\n"
        "Waiting does not help. Use an image for the cards that are there and ask for those (kamiwaza.ai/vendor), or "
        "add a node with the cards it needs.",
        id="vendor",
    ),
    pytest.param(
        [node("node-a", cards(16), accel={"cuda": (12, 2)})],
        demand(ask(6), vendor=NVIDIA, accel="cuda>=12.4"),
        ANY,
        "accel_version_unmet: needs 6 GB on one NVIDIA card with CUDA 12.4 or newer; the only node it may use has CUDA "
        "12.2 at most.\n"
        "Waiting does not help. Update a node's driver, or use an image for an older version and say so "
        "(kamiwaza.ai/accel-version).",
        id="version",
    ),
    pytest.param(
        [node("node-a", cards(80, 80, 80, 80))],
        demand(ask(90, 2)),
        ANY,
        "insufficient_gpu_count: needs 90 GB on each of 2 cards; the best card, gpu-0 of node-a, has 80 GB in all and "
        "is 10 GB too small.\n"
        "Larger than any card it may use, so waiting does not help. Ask for less on each (kamiwaza.ai/vram-gb), or add "
        "a node with larger cards.",
        id="several-cards-that-are-too-small",
    ),
    pytest.param(
        [node("node-a", cards(80, 80), pods=[holder("chat", {0: 60, 1: 60})])],
        demand(ask(25, 2)),
        ANY,
        "insufficient_gpu_count: needs 25 GB on each of 2 cards; the best card, gpu-0 of node-a, has 20 of 80 GB free "
        "and is 5 GB short.\n"
        "Held on gpu-0 of node-a: 60 GB by chat.\n"
        "Full now: it is placed by itself as soon as there is room. To be placed sooner, ask for less on each "
        "(kamiwaza.ai/vram-gb), or free cards of one node.",
        id="several-cards-of-which-none-has-room",
    ),
    pytest.param(
        [node("node-a", cards(80), pods=[holder("chat", {0: 60})])],
        demand(ask(25, 2)),
        ANY,
        "insufficient_gpu_count: needs 25 GB on each of 2 cards; the best card, gpu-0 of node-a, has 20 of 80 GB free "
        "and is 5 GB short.\n"
        "Held on gpu-0 of node-a: 60 GB by chat.\n"
        "No node it may use has that many such cards, so waiting does not help. Ask for fewer cards "
        "(kamiwaza.ai/gpus) and for less on each (kamiwaza.ai/vram-gb), or add a node with more of them.",
        id="too-few-cards-of-which-none-has-room",
    ),
    pytest.param(
        [node("node-a", [card(0, 80, healthy=False), card(1, 80, healthy=False)])],
        demand(ask(25, 2)),
        ANY,
        "insufficient_gpu_count: needs 25 GB on each of 2 cards; the best card, gpu-0 of node-a, is unhealthy or "
        "cordoned (80 GB).\n"
        "It is placed by itself as soon as a card that would do is in service again. To be placed sooner, bring those "
        "cards back, or add a node with more of them.",
        id="several-cards-out-of-service",
    ),
    pytest.param(
        [node("node-a", [card(0, 24), card(1, 24, healthy=False)])],
        demand(ask(6, 2)),
        ANY,
        "insufficient_gpu_count: needs 6 GB on each of 2 cards; the best node, node-a, has room on 1 of its 2 cards, "
        "and 1 is unhealthy or cordoned.\n"
        "It is placed by itself as soon as a card that would do is in service again. To be placed sooner, bring that "
        "card back, ask for fewer cards (kamiwaza.ai/gpus), or add a node with enough of them.",
        id="one-of-several-out-of-service",
    ),
    pytest.param(
        [node("node-a", [card(0, 24), card(1, 24, healthy=False), card(2, 24, healthy=False), card(3, 4)])],
        demand(ask(6, 4)),
        ANY,
        "insufficient_gpu_count: needs 6 GB on each of 4 cards; the best node, node-a, has room on 1 of its 4 cards, "
        "and 2 are unhealthy or cordoned.\n"
        f"No node it may use has that many such cards, so waiting does not help. A{ASK_FEWER[1:]} add a node with more "
        "of them.",
        id="too-few-even-with-those-out-of-service",
    ),
    pytest.param(
        [node("node-a", cards(24, 24), exclusive=True, ledger={"r": entry({0: 24, 1: 24})})],
        demand(ask(6, 2)),
        ANY,
        "insufficient_gpu_count: needs 6 GB on each of 2 cards; the best card, gpu-0 of node-a, has 0 of 24 GB free "
        "and is only given away whole.\n"
        "Held on gpu-0 of node-a: 24 GB by a pod being created.\n"
        "Full now: it is placed by itself as soon as there is room. To be placed sooner, free cards of one node.",
        id="several-cards-that-are-given-away-whole",
    ),
    pytest.param(
        [node("node-a", cards(24, 24), pods=[holder("chat", {0: 20})])],
        demand(ask(30)),
        ANY,
        "insufficient_capacity: needs 30 GB on one card; the best card, gpu-0 of node-a, has 24 GB in all and is 6 GB "
        "too small.\n"
        "Larger than any card it may use, so waiting does not help. Ask for less (kamiwaza.ai/vram-gb), or add a "
        "larger card.",
        id="too-large-and-together-too-full",
    ),
    pytest.param(
        [node("node-a", cards(16), accel={}), node("node-b", cards(16, vendor=Vendor.AMD))],
        demand(ask(6), vendor=Vendor.AMD, accel="rocm>=6.0"),
        ANY,
        "accel_version_unmet: needs 6 GB on one AMD card with ROCm 6.0 or newer; the only node it may use has no known "
        "ROCm version; 1 node is excluded: NVIDIA.\n"
        "Excluded: node-a (NVIDIA).\n"
        "Waiting does not help. Let a node tell its ROCm version (status.accelVersions of its GPUNode).",
        id="no-version",
    ),
]

THREE_NODES = [
    pytest.param(
        [
            t4(),
            node("node-b", cards(80), a_node("node-b").cordoned()),
            node("node-c", cards(80), a_node("node-c").tainted("gpu")),
            node("node-d", cards(80, vendor=Vendor.AMD)),
        ],
        demand(ask(6), vendor=NVIDIA),
        ANY,
        "insufficient_capacity: needs 6 GB on one NVIDIA card; the best card, gpu-0 of node-a, has 4 of 16 GB free and "
        "is 2 GB short; 3 nodes are excluded: 1 AMD, 1 cordoned, 1 untolerated taint.\n"
        "Excluded: node-b (cordoned), node-c (untolerated taint), node-d (AMD).\n"
        "Held on gpu-0 of node-a: 6 GB by chat, 6 GB by 1 pod in another namespace.\n"
        f"Full now: it is placed by itself as soon as there is room. To be placed sooner, {ASK_LESS}",
        id="full",
    ),
    pytest.param(
        [node("node-a", cards(16)), node("node-b", cards(80), a_node("node-b").cordoned())],
        demand(ask(40)),
        ANY,
        "insufficient_capacity: needs 40 GB on one card; the best card, gpu-0 of node-a, has 16 GB in all and is 24 GB "
        "too small; 1 node is excluded: cordoned.\n"
        "Excluded: node-b (cordoned).\n"
        "It is placed by itself as soon as an excluded node that suits it is back. To be placed sooner, ask for less "
        "(kamiwaza.ai/vram-gb), or add a larger card.",
        id="too-large-for-the-node-that-is-left",
    ),
    pytest.param(
        [
            node("node-a", cards(16, 16, 16), ledger={"r": entry({0: 12, 1: 12}, "other")}),
            node("node-b", cards(16)),
            node("node-c", cards(16, 16), a_node("node-c").not_ready()),
        ],
        demand(ask(8, 3), vendor=NVIDIA),
        ANY,
        "insufficient_gpu_count: needs 8 GB on each of 3 NVIDIA cards; the best node, node-a, has room on 1 of its 3 "
        "cards; 1 node is excluded: not ready.\n"
        "Excluded: node-c (not ready).\n"
        "Held on gpu-0 of node-a: 12 GB by 1 pod in another namespace.\n"
        f"Full now: it is placed by itself as soon as there is room. To be placed sooner, {ASK_FEWER} free cards of "
        "one node.",
        id="too-few-free-cards",
    ),
    pytest.param(
        [node("node-a", cards(16)), node("node-b", cards(16, 16), a_node("node-b").cordoned())],
        demand(ask(8, 2)),
        ANY,
        "insufficient_gpu_count: needs 8 GB on each of 2 cards; the best node, node-a, has room on its only card; 1 "
        "node is excluded: cordoned.\n"
        "Excluded: node-b (cordoned).\n"
        f"It is placed by itself as soon as an excluded node that suits it is back. To be placed sooner, {ASK_FEWER} "
        "free cards of one node.",
        id="the-node-with-enough-cards-is-away",
    ),
    pytest.param(
        [
            node("node-a", cards(16, vendor=Vendor.AMD)),
            node("node-b", cards(16, vendor=Vendor.INTEL)),
            node("node-c", cards(16), a_node("node-c").cordoned()),
        ],
        demand(ask(6), vendor=NVIDIA),
        ANY,
        "vendor_mismatch: needs 6 GB on one NVIDIA card; the only node it may use has AMD cards; 2 nodes are excluded: "
        "1 Intel, 1 cordoned.\n"
        "Excluded: node-b (Intel), node-c (cordoned).\n"
        "It is placed by itself as soon as an excluded node that suits it is back. To be placed sooner, use an image "
        "for the cards that are there and ask for those (kamiwaza.ai/vendor), or add a node with the cards it needs.",
        id="vendor",
    ),
    pytest.param(
        [
            node("node-a", cards(16), accel={"cuda": (12, 2)}),
            node("node-b", cards(16)),
            node("node-c", cards(16, vendor=Vendor.AMD)),
        ],
        demand(ask(6), vendor=NVIDIA, accel="cuda 13.0"),
        ANY,
        "accel_version_unmet: needs 6 GB on one NVIDIA card with CUDA 13.0; the 2 nodes it may use have CUDA 12.2 at "
        "most or no known CUDA version; 1 node is excluded: AMD.\n"
        "Excluded: node-c (AMD).\n"
        "Waiting does not help. Update a node's driver, or use an image for an older version and say so "
        "(kamiwaza.ai/accel-version).",
        id="version",
    ),
]


@pytest.mark.parametrize(("states", "wanted", "pod", "text"), ONE_NODE)
def test_the_text_at_one_node(states: list[NodeState], wanted: Demand, pod: PodBuilder, text: str) -> None:
    assert explain(refusal(states, wanted, pod)) == text


@pytest.mark.parametrize(("states", "wanted", "pod", "text"), THREE_NODES)
def test_the_text_at_a_few_nodes(states: list[NodeState], wanted: Demand, pod: PodBuilder, text: str) -> None:
    assert explain(refusal(states, wanted, pod)) == text


LONG_NAME = "ip-10-0-131-27.eu-central-1.compute.internal"
"""As long as nodes are named on the clouds."""


@pytest.fixture(scope="module")
def thousands() -> list[NodeState]:
    """5,000 nodes of eight 80 GB cards: a fifth each full, cordoned, not ready, of another pool, and of AMD."""
    return [_one_of_thousands(number) for number in range(5000)]


def _one_of_thousands(number: int) -> NodeState:
    name = f"{number:04}.{LONG_NAME}"
    kind = number % 5
    builder = a_node(name)
    if kind == 1:
        builder.cordoned()
    if kind == 2:
        builder.not_ready()
    if kind == 3:
        builder.labelled(pool="training")
    of = cards(*[80] * 8, vendor=Vendor.AMD if kind == 4 else NVIDIA)
    return node(name, of, builder, ledger={"r": entry(dict.fromkeys(range(8), 70 + number % 7), "other")})


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        pytest.param(
            demand(ask(40), vendor=NVIDIA),
            "insufficient_capacity: needs 40 GB on one NVIDIA card; the best card, gpu-0 of "
            f"0000.{LONG_NAME}, has 10 of 80 GB free and is 30 GB short; 4000 nodes are excluded: 1000 AMD, "
            "1000 cordoned, ...\n"
            "Further exclusions: 1000 not ready, 1000 not selected by nodeSelector or node affinity.\n"
            f"Held on gpu-0 of 0000.{LONG_NAME}: 70 GB by 1 pod in another namespace.\n"
            f"Full now: it is placed by itself as soon as there is room. To be placed sooner, {ASK_LESS}",
            id="full",
        ),
        pytest.param(
            demand(ask(40, 2), vendor=NVIDIA),
            f"insufficient_gpu_count: needs 40 GB on each of 2 NVIDIA cards; the best card, gpu-0 of 0000.{LONG_NAME}, "
            "has 10 of 80 GB free and is 30 GB short; 4000 nodes are excluded: 1000 AMD, 1000 cordoned, ...\n"
            "Further exclusions: 1000 not ready, 1000 not selected by nodeSelector or node affinity.\n"
            f"Held on gpu-0 of 0000.{LONG_NAME}: 70 GB by 1 pod in another namespace.\n"
            f"Full now: it is placed by itself as soon as there is room. To be placed sooner, ask for less on "
            "each (kamiwaza.ai/vram-gb), or free cards of one node.",
            id="too-few-free-cards",
        ),
        pytest.param(
            demand(ask(400), vendor=NVIDIA),
            "insufficient_capacity: needs 400 GB on one NVIDIA card; the best card, gpu-0 of "
            f"0000.{LONG_NAME}, has 80 GB in all and is 320 GB too small; 4000 nodes are excluded: 1000 AMD, "
            "1000 cordoned, ...\n"
            "Further exclusions: 1000 not ready, 1000 not selected by nodeSelector or node affinity.\n"
            "Larger than any card it may use, so waiting does not help. Ask for less (kamiwaza.ai/vram-gb), or add a "
            "larger card.",
            id="too-large",
        ),
        pytest.param(
            demand(ask(4), vendor=Vendor.INTEL),
            "vendor_mismatch: needs 4 GB on one Intel card; the 2000 nodes it may use have AMD and NVIDIA cards; 3000 "
            "nodes are excluded: 1000 cordoned, 1000 not ready, 1000 not selected by nodeSelector or node affinity.\n"
            "Waiting does not help. Use an image for the cards that are there and ask for those (kamiwaza.ai/vendor), "
            "or add a node with the cards it needs.",
            id="vendor",
        ),
        pytest.param(
            demand(ask(4), vendor=NVIDIA, accel="cuda>=12.4"),
            "accel_version_unmet: needs 4 GB on one NVIDIA card with CUDA 12.4 or newer; the 1000 nodes it may use "
            "have no known CUDA version; 4000 nodes are excluded: 1000 AMD, 1000 cordoned, 1000 not ready, ...\n"
            "Further exclusions: 1000 not selected by nodeSelector or node affinity.\n"
            "Waiting does not help. Let a node tell its CUDA version (the label nvidia.com/cuda.runtime-version.full "
            "or status.accelVersions of its GPUNode).",
            id="version",
        ),
    ],
)
def test_the_text_at_thousands_of_nodes_is_short_and_the_same_whatever_their_order(
    thousands: list[NodeState], wanted: Demand, text: str
) -> None:
    pod = a_pod().node_affinity({"matchExpressions": [requirement("pool", "DoesNotExist")]})
    verdict = refusal(thousands, wanted, pod)
    mirrored = refusal(thousands[::-1], wanted, pod)
    assert explain(verdict) == text
    assert explain(mirrored) == text
    assert causes(mirrored) == causes(verdict)
    assert len(text.partition("\n")[0]) < 240
    assert len(text) < 900
    assert len(causes(verdict)) <= 16


def test_every_reason_of_a_refusal_has_a_text_of_its_own() -> None:
    reasons = {refusal(*case.values[:3]).reason for case in ONE_NODE}  # type: ignore[arg-type]
    assert reasons == set(Reason) - {Reason.INVALID_REQUEST}


@pytest.mark.parametrize(
    ("pod", "other", "told"),
    [
        pytest.param(
            a_pod().away_from(term("kubernetes.io/hostname", labels(app="web"))),
            a_pod("w").labelled(app="web"),
            "change its pod anti-affinity, or add a node.",
            id="its-own-anti-affinity",
        ),
        pytest.param(
            a_pod().labelled(app="llm"),
            a_pod("w").away_from(term("kubernetes.io/hostname", labels(app="llm"))),
            "stop the pods whose anti-affinity keeps it away, or add a node.",
            id="that-of-others",
        ),
        pytest.param(
            a_pod().away_from(term("kubernetes.io/hostname", labels(app="web"))).host_port(80),
            a_pod("w").labelled(app="web").host_port(80),
            "free what its nodes lack, change its pod anti-affinity, or add a node.",
            id="both",
        ),
        pytest.param(
            a_pod().host_port(80),
            a_pod("w").host_port(80),
            "free what its nodes lack, or add a node.",
            id="what-is-taken",
        ),
    ],
)
def test_what_keeps_a_pod_from_a_node_with_room_is_what_to_change(
    pod: PodBuilder, other: PodBuilder, told: str
) -> None:
    state = node("node-a", cards(16), a_node("node-a"), pods=[other.on("node-a").facts()])
    verdict = place(cluster(state), demand(ask(6)), read_constraints(pod.raw()))
    assert isinstance(verdict, NoFit), verdict
    assert explain(verdict).endswith(f"To be placed sooner, {told}")


def test_a_topology_spread_that_keeps_it_away_is_what_to_change() -> None:
    pod = a_pod().labelled(app="llm").spread_over("zone", labels(app="llm"))
    running = [a_pod("w").labelled(app="llm").on("a").facts()]
    states = [
        node("a", cards(16), a_node("a").labelled(zone="a"), pods=running),
        node("b", (), a_node("b").labelled(zone="b")),
    ]
    verdict = place(cluster(*states), demand(ask(6)), read_constraints(pod.raw()))
    assert isinstance(verdict, NoFit), verdict
    assert "change its topology spread" in explain(verdict)
