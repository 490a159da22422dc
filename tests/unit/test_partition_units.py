"""Nodes with an agent all of whose cards are cut into partitions that the vendor's device plugin gives away."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from shared.core.cards import Card, Inventory
from shared.core.constraints import Constraints
from shared.core.nodes import node_facts
from shared.core.placement import Placed, place
from shared.core.refusal import NoFit, Reason
from shared.core.snapshot import NodeState
from shared.core.units import kinds_of
from tests.builders import a_node
from tests.unit.core_builders import ask, card, cluster, demand
from tests.unit.units import SLICE, user

A100 = card(0, 0, partitioned=True, memory_mib=81920, model="NVIDIA A100-SXM4-80GB")
ANYWHERE = Constraints(namespace="models")
LARGE = "nvidia.com/mig-3g.40gb"


def state(*cards: Card, offered: Mapping[str, int], **fields: Any) -> NodeState:
    facts = node_facts(a_node("n").offering({resource: str(amount) for resource, amount in offered.items()}).raw())
    return NodeState.of(facts, Inventory(cards, served_by_us=True), **fields)


def test_an_amount_gets_the_tightest_slice_that_holds_it() -> None:
    node = state(A100, offered={SLICE: 1, LARGE: 1})
    placed = place(cluster(node), demand(ask(8)), ANYWHERE)
    assert isinstance(placed, Placed)
    assert [(share.resource, share.count) for share in placed.unit_shares] == [(SLICE, 1)]
    refused = place(cluster(node), demand(ask(50)), ANYWHERE)
    assert isinstance(refused, NoFit)
    assert (refused.reason, refused.unit and refused.unit.gb) == (Reason.INSUFFICIENT_CAPACITY, 39)


def test_a_whole_card_beside_partitioned_ones_keeps_the_node_in_shares() -> None:
    assert state(A100, card(1, 80), offered={SLICE: 2}).kinds == ()


@pytest.mark.parametrize(
    ("model", "resource", "gb"),
    [
        pytest.param("NVIDIA A100-SXM4-80GB", SLICE, 9, id="by-card-and-profile"),
        pytest.param("NVIDIA A100-SXM4-80GB", "nvidia.com/mig-1g.10gb.me", 9, id="with-media-engines"),
        pytest.param("NVIDIA Unheard-Of", SLICE, 9, id="by-the-name-of-the-profile"),
        pytest.param("NVIDIA Unheard-Of", "nvidia.com/mig-whatever", None, id="not-at-all"),
    ],
)
def test_what_a_slice_holds_is_told(model: str, resource: str, gb: int | None) -> None:
    one = card(0, 0, partitioned=True, memory_mib=81920, model=model)
    (kind,) = state(one, offered={resource: 1}).kinds
    assert (kind.resource, kind.gb, kind.partition) == (resource, gb, True)


def test_slices_that_are_offered_no_more_are_there_as_long_as_a_pod_has_one() -> None:
    inventory = Inventory((A100,), served_by_us=True)
    assert kinds_of(inventory, {SLICE: 0}, lambda _resource: False) == ()
    assert [kind.resource for kind in kinds_of(inventory, {SLICE: 0}, lambda _resource: True)] == [SLICE]
    pod = user("p", {SLICE: 1}, "n")
    assert state(A100, offered={SLICE: 1}, pods={pod.key: pod}).free_units(SLICE) == 0
