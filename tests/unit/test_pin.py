"""The pin: required affinity to one node that widens nothing, and its undoing."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.constraints import read_constraints
from shared.core.nodes import NodeFacts, node_facts
from shared.core.pods import pinned_node
from tests.builders import PodBuilder, a_node, a_pod, expressions, requirement
from webhook.patch import PodPatch
from webhook.pin import REQUIRED_TERMS, pin, unpin

WEST = node_facts(a_node("node-a").labelled(zone="west").raw())
BY_NAME = requirement("metadata.name", "In", "node-a")
IN_WEST = expressions(requirement("zone", "In", "west"))
IN_EAST = expressions(requirement("zone", "In", "east"))
NOT_B = requirement("metadata.name", "NotIn", "node-b")


def pinned(pod: PodBuilder) -> PodPatch:
    patch = PodPatch(pod.raw())
    pin(patch, WEST)
    return patch


@pytest.mark.parametrize(
    ("terms", "expected"),
    [
        pytest.param([IN_WEST], [{**IN_WEST, "matchFields": [BY_NAME]}], id="a-term-that-matches-gets-it"),
        pytest.param(
            [IN_WEST, IN_EAST], [{**IN_WEST, "matchFields": [BY_NAME]}], id="an-alternative-elsewhere-is-dropped"
        ),
        pytest.param([{}, IN_WEST], [{**IN_WEST, "matchFields": [BY_NAME]}], id="an-empty-term-matches-nothing"),
        pytest.param(
            [IN_WEST, expressions(requirement("kubernetes.io/hostname", "Exists"))],
            [
                {**IN_WEST, "matchFields": [BY_NAME]},
                {**expressions(requirement("kubernetes.io/hostname", "Exists")), "matchFields": [BY_NAME]},
            ],
            id="every-term-that-matches-gets-it",
        ),
        pytest.param(
            [{**IN_WEST, "matchFields": [NOT_B]}],
            [{**IN_WEST, "matchFields": [NOT_B, BY_NAME]}],
            id="fields-of-the-user-stay",
        ),
        pytest.param([{"matchFields": [BY_NAME]}], [{"matchFields": [BY_NAME]}], id="pinned-by-the-user"),
    ],
)
def test_every_term_that_is_left_names_the_node(terms: list[dict[str, Any]], expected: list[dict[str, Any]]) -> None:
    assert pinned(a_pod().node_affinity(*terms)).get(*REQUIRED_TERMS) == expected


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod(), id="no-affinity"),
        pytest.param(a_pod().spec(affinity=None), id="a-null"),
        pytest.param(a_pod().spec(affinity={"nodeAffinity": {}}), id="no-required-terms"),
        pytest.param(a_pod().away_from({"topologyKey": "zone"}), id="other-affinity"),
    ],
)
def test_a_pod_without_required_terms_gets_one(pod: PodBuilder) -> None:
    assert pinned(pod).get(*REQUIRED_TERMS) == [{"matchFields": [BY_NAME]}]


def test_preferences_and_pod_affinity_stay() -> None:
    preferred = [{"weight": 1, "preference": IN_EAST}]
    pod = a_pod().spec(
        affinity={
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred},
            "podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
        }
    )
    affinity = pinned(pod).pod["spec"]["affinity"]
    assert affinity["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] == preferred
    assert affinity["podAffinity"] == {"preferredDuringSchedulingIgnoredDuringExecution": []}


def test_pinning_twice_to_the_same_node_is_no_change() -> None:
    once = pinned(a_pod().node_affinity(IN_WEST))
    again = PodPatch(once.pod)
    pin(again, WEST)
    assert again.ops == []


@pytest.mark.parametrize("terms", [[IN_WEST, IN_EAST], [{}, IN_WEST], [{"matchFields": [NOT_B]}]], ids=str)
def test_nothing_is_widened(terms: list[dict[str, Any]]) -> None:
    pod = a_pod().node_affinity(*terms)
    before = read_constraints(pod.raw())
    after = read_constraints(pinned(pod).pod)
    others = [NodeFacts("node-b", labels={"zone": "west"}), NodeFacts("node-c", labels={"zone": "east"}), WEST]
    assert [node.name for node in others if after.select(node)] == ["node-a"]
    assert before.select(WEST)
    assert pinned_node(pinned(pod).pod["spec"]) == "node-a"


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(a_pod().node_affinity(IN_WEST, IN_EAST), id="terms"),
        pytest.param(a_pod().node_affinity({**IN_WEST, "matchFields": [NOT_B]}), id="fields"),
        pytest.param(a_pod().pinned_to("node-a"), id="pinned-by-the-user"),
        pytest.param(a_pod().spec(affinity={"nodeAffinity": {}}), id="no-terms"),
    ],
)
def test_unpinning_restores_just_what_was_there(pod: PodBuilder) -> None:
    patch = pinned(pod)
    unpin(patch, "node-a", PodPatch(pod.raw()).get(*REQUIRED_TERMS))
    assert patch.pod == pod.raw()


def test_what_was_is_not_put_back_over_affinity_that_is_not_ours() -> None:
    patch = PodPatch(a_pod().pinned_to("node-b").raw())
    unpin(patch, "node-a", [IN_EAST])
    unpin(PodPatch(a_pod().raw()), "node-a", [IN_EAST])
    assert patch.ops == []


def test_a_term_that_somebody_added_afterwards_keeps_the_affinity_as_it_is() -> None:
    patch = PodPatch(a_pod().node_affinity({"matchFields": [BY_NAME]}, IN_EAST).raw())
    unpin(patch, "node-a", None)
    assert patch.ops == []


def test_terms_that_the_user_emptied_are_not_taken_for_a_pin() -> None:
    patch = PodPatch(a_pod().node_affinity().raw())
    unpin(patch, "node-a", None)
    assert patch.ops == []
