"""Cards, nodes with cards and demands for tests of the core, written as a user would say them.

cluster(node("node-a", cards(16, 24)), node("node-b", cards(80), a_node("node-b").cordoned()))
demand(ask(10), policy=Policy.SPREAD)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from shared.core.accel import AccelRequirement, Version, parse_requirement
from shared.core.amounts import Amount
from shared.core.asks import Ask
from shared.core.cards import Card, CardClass, Inventory, Vendor
from shared.core.demand import Demand, Policy
from shared.core.found import Source
from shared.core.ledger import Entry, Shares, owner_hash
from shared.core.nodes import node_facts
from shared.core.pods import PodFacts
from shared.core.snapshot import NodeState, Snapshot
from tests.builders import NodeBuilder, a_node

NAMESPACE = "models"


def card(index: int, gb: int, vendor: Vendor = Vendor.NVIDIA, **fields: Any) -> Card:
    """A discrete card with a budget of `gb` GB in slot `index`."""
    made = Card(index, f"GPU-{index}", f"card of {gb} GB", vendor, CardClass.DISCRETE, gb * 1024, gb)
    return replace(made, **fields)


def pool(gb: int, index: int = 0, vendor: Vendor = Vendor.NVIDIA, **fields: Any) -> Card:
    """A pool of `gb` GB of its node's memory."""
    return card(index, gb, vendor, card_class=CardClass.UNIFIED, **fields)


def partition(index: int, gb: int, **fields: Any) -> Card:
    """A MIG partition of `gb` GB in slot `index`."""
    return card(index, gb, card_class=CardClass.MIG, uuid=f"MIG-{index}", **fields)


def cards(*gbs: int, vendor: Vendor = Vendor.NVIDIA) -> tuple[Card, ...]:
    return tuple(card(index, gb, vendor) for index, gb in enumerate(gbs))


def node(
    name: str,
    of: Sequence[Card] = (),
    builder: NodeBuilder | None = None,
    *,
    accel: Mapping[str, Version] | None = None,
    exclusive: bool = False,
    pod_devices: Mapping[str, tuple[int, ...]] | None = None,
    ledger: Mapping[str, Entry] | None = None,
    pods: Sequence[PodFacts] = (),
) -> NodeState:
    """A node with cards; `builder` says what else is to be said of it."""
    listed = tuple(sorted((pod_devices or {}).items()))
    inventory = Inventory(tuple(of), tuple(sorted((accel or {}).items())), exclusive=exclusive, pod_devices=listed)
    facts = node_facts((builder or a_node(name)).raw())
    return NodeState.of(facts, inventory, ledger, {pod.key: pod for pod in pods})


def cluster(*states: NodeState) -> Snapshot:
    return Snapshot({state.name: state for state in states})


def ask(amount: Amount | int, count: int = 1, container: str = "main", init: Sequence[Amount | int] = ()) -> Ask:
    return Ask(container, _amount(amount), count, Source.ANNOTATION, "field", init=tuple(map(_amount, init)))


def demand(
    *asks: Ask, vendor: Vendor | None = None, accel: str | None = None, policy: Policy = Policy.BINPACK
) -> Demand:
    requirement: AccelRequirement | None = None if accel is None else parse_requirement(accel, "field")
    return Demand(asks, vendor, requirement, policy)


def entry(
    shares: Mapping[int, int], namespace: str = NAMESPACE, owner: str = "owner", since: int = 1_800_000_000
) -> Entry:
    return Entry(namespace, owner_hash(owner), since, _shares(shares))


def holder(
    name: str, shares: Mapping[int, int], namespace: str = NAMESPACE, reservation: str | None = None, **fields: Any
) -> PodFacts:
    """A pod that holds GB of the cards of its node."""
    made = PodFacts(f"uid-{namespace}-{name}", namespace, name, "node", True, shares=_shares(shares))
    return replace(made, reservation=reservation, **fields)


def _amount(amount: Amount | int) -> Amount:
    return Amount(gb=amount) if isinstance(amount, int) else amount


def _shares(shares: Mapping[int, int]) -> Shares:
    return tuple(sorted(shares.items()))
