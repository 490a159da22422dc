"""Laws of the decision for whole pods in whole clusters, as the API server has them.

`test_placement_laws` holds the core against a second reading of it; here the way from the raw objects counts too.
"""

from __future__ import annotations

from copy import deepcopy

from hypothesis import HealthCheck, assume, event, given, settings

from shared.core.constraints import Constraints, read_constraints
from shared.core.demand import REPLACED_RESOURCES, Demand, read_pod
from shared.core.explain import causes, explain
from shared.core.invalid import InvalidRequest
from shared.core.nodes import node_facts
from shared.core.placement import Placed, Verdict, place
from shared.core.pods import pod_facts
from shared.core.refusal import NoFit
from shared.kube.cluster import Cluster
from shared.kube.gpunodes import gpu_node
from tests.fuzz.clusters import STORAGE, ClusterJson, a_cluster, a_node
from tests.fuzz.dice import DICE, Dice
from tests.fuzz.pods import a_pod
from tests.fuzz.words import Json
from tests.scheduler_model import Model
from tests.storage_builders import fill

NAMESPACE = "models"


def picture(cluster: ClusterJson) -> Cluster:
    """What a webhook knows of a cluster."""
    known = Cluster()
    fill(known.storage, *STORAGE)
    for name, labels in cluster.namespaces.items():
        known.namespace_upserted(name, labels)
    for node in cluster.nodes.values():
        known.node_upserted(node_facts(node))
    for raw in cluster.gpu_nodes.values():
        known.gpu_node_upserted(gpu_node(raw, exclusive=cluster.exclusive))
    for pod in cluster.pods.values():
        facts = pod_facts(pod)
        assert facts is not None
        known.pod_upserted(facts)
    return known


def asking(dice: Dice) -> tuple[Json, Demand, Constraints]:
    """A pod that asks for something that can be read."""
    pod = a_pod(dice, NAMESPACE)
    pod["metadata"]["namespace"] = NAMESPACE
    try:
        demand = read_pod(pod).demand
        constraints = read_constraints(pod, without=REPLACED_RESOURCES.__contains__)
    except InvalidRequest:
        demand = None
    assume(demand is not None)
    assert demand is not None
    return pod, demand, constraints


def decided(cluster: ClusterJson, demand: Demand, constraints: Constraints) -> Verdict:
    verdict = place(picture(cluster).snapshot(), demand, constraints)
    event("placed" if isinstance(verdict, Placed) else verdict.reason)
    return verdict


def mixed(dice: Dice, cluster: ClusterJson) -> ClusterJson:
    """The same cluster, told in another order."""
    other = deepcopy(cluster)
    for objects in (other.nodes, other.gpu_nodes, other.pods):
        items = dice.shuffled(list(objects.items()))
        objects.clear()
        objects.update(items)
    for raw in other.gpu_nodes.values():
        status = raw["status"]
        status["cards"] = dice.shuffled(status["cards"])
        status["reservations"] = dict(dice.shuffled(list(status["reservations"].items())))
    for node in other.nodes.values():
        node["metadata"]["labels"] = dict(dice.shuffled(list(node["metadata"]["labels"].items())))
    return other


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(DICE)
def test_the_answer_does_not_depend_on_the_order_in_which_a_cluster_is_told(dice: Dice) -> None:
    cluster = a_cluster(dice)
    _, demand, constraints = asking(dice)
    verdict = decided(cluster, demand, constraints)
    again = decided(mixed(dice, cluster), demand, constraints)
    assert again == verdict
    if isinstance(verdict, NoFit) and isinstance(again, NoFit):
        assert (explain(again), causes(again)) == (explain(verdict), causes(verdict))


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(DICE)
def test_one_more_free_card_never_turns_a_yes_into_a_no(dice: Dice) -> None:
    cluster = a_cluster(dice)
    _, demand, constraints = asking(dice)
    verdict = decided(cluster, demand, constraints)
    assume(isinstance(verdict, Placed))
    assert isinstance(verdict, Placed)
    grown = deepcopy(cluster)
    raw = dice.one([each for each in grown.gpu_nodes.values() if "source" not in each["status"]] or [None])
    assume(raw is not None)
    assert raw is not None
    like = dice.one(raw["status"]["cards"])
    # Memory of its own: a card whose memory the kernel adds to the node's would come with more of that.
    free = {"index": 60, "uuid": "GPU-new", "healthy": True, "foreignGB": 0, "onlinedAsSystemMemory": False}
    raw["status"]["cards"].append({**like, **free})
    assert isinstance(decided(grown, demand, constraints), Placed)


@settings(max_examples=100, suppress_health_check=list(HealthCheck))
@given(DICE)
def test_one_more_node_with_free_cards_never_turns_a_yes_into_a_no(dice: Dice) -> None:
    cluster = a_cluster(dice)
    _, demand, constraints = asking(dice)
    # Skew and domains are counted over all nodes: there one more node may rightly make the difference.
    assume(not constraints.topology_spread)
    verdict = decided(cluster, demand, constraints)
    assume(isinstance(verdict, Placed))
    assert isinstance(verdict, Placed)
    grown = deepcopy(cluster)
    grown.nodes["new"] = a_node(dice, "new")
    raw = deepcopy(grown.gpu_nodes[verdict.node])
    raw["metadata"] |= {"name": "new", "uid": "uid-gpu-new"}
    raw["status"]["reservations"] = {}
    grown.gpu_nodes["new"] = raw
    assert isinstance(decided(grown, demand, constraints), Placed)


@settings(max_examples=150, suppress_health_check=list(HealthCheck))
@given(DICE)
def test_the_node_that_is_chosen_passes_an_independent_schedulers_filters(dice: Dice) -> None:
    cluster = a_cluster(dice)
    pod, demand, constraints = asking(dice)
    verdict = decided(cluster, demand, constraints)
    assume(isinstance(verdict, Placed))
    assert isinstance(verdict, Placed)
    for container in [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]:
        for amounts in (container.get("resources") or {}).values():
            for resource in REPLACED_RESOURCES & (amounts or {}).keys():
                del amounts[resource]
    model = Model(list(cluster.nodes.values()), list(cluster.pods.values()), pod, cluster.namespaces)
    assert model.reasons(cluster.nodes[verdict.node]) == set()
