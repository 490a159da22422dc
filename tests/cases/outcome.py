"""What came of a step: the answers to its requests, and the state of the cluster after it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from shared.api import names
from shared.core.snapshot import NodeState
from shared.kube.cluster import Cluster
from tests.cases import books
from tests.cases.admission import Passage, Refusal
from tests.fakes.objects import Json, copied


@dataclass(frozen=True, slots=True)
class Answer:
    """What a client was told. `before` is the object that our webhooks saw first, `after` what became of it.

    How long it took: `worked_s` by the processor's clock (see `creates`), `waited_s` by the wall's, `waited_virtual_s`
    by the case's.
    """

    refusal: Refusal | None
    ops: tuple[Json, ...]
    warnings: tuple[str, ...]
    before: Json
    after: Json
    worked_s: float
    waited_virtual_s: float
    waited_s: float

    @property
    def allowed(self) -> bool:
        """Whether the client got what it wanted."""
        return self.refusal is None

    @classmethod
    def of(cls, passage: Passage, before: Json, worked_s: float, waited_virtual_s: float, waited_s: float) -> Answer:
        """The answer to a request as it stands now."""
        return cls(
            passage.refusal,
            tuple(passage.ops),
            tuple(passage.warnings),
            before,
            copied(passage.object),
            worked_s,
            waited_virtual_s,
            waited_s,
        )


@dataclass(frozen=True, slots=True)
class UsedCard:
    """A card in the books: `used_gb` is its budget less what is free of it."""

    index: int
    uuid: str
    used_gb: int


@dataclass(frozen=True, slots=True)
class State:
    """The cluster at one moment. `bookings` are reservation ids, `booked_pods` the uids of the pods that carry them.

    `used` is what the product makes of the stored objects, `summed` what `books` does.
    """

    capacity: Mapping[str, Mapping[str, str]]
    running_owners: frozenset[tuple[str, str, str]]
    pods: frozenset[tuple[str, str]]
    bookings: frozenset[str]
    booked_pods: frozenset[str]
    used: Mapping[str, tuple[UsedCard, ...]]
    summed: Mapping[str, Mapping[int, int]]
    events_written: int

    @property
    def total_used_gb(self) -> int:
        """GB in use of all cards."""
        return sum(card.used_gb for cards in self.used.values() for card in cards)


@dataclass(slots=True)
class Result:
    """A step that was played. `virtual` says that its times count by the case's clock, `missing` is the kind and name
    of the object that it was to act on and that was not there.
    """

    step: Json
    before: State
    after: State
    answers: list[Answer] = field(default_factory=list)
    virtual: bool = False
    missing: tuple[str, str] | None = None


class Objects(Protocol):
    """The objects of a cluster, whoever keeps them."""

    def pods(self) -> list[Json]:
        """Every pod."""

    def nodes(self) -> list[Json]:
        """Every node."""

    def all(self, path: str) -> list[Json]:
        """Every object of a collection."""

    def find(self, raw: Mapping[str, Any]) -> Json | None:
        """An object, given whole or by kind, namespace and name."""


def state_of(world: Objects, cluster: Cluster, events_written: int) -> State:
    """What the product has written and what it makes of it, as `cluster` sees it through the product's watches."""
    pods = world.pods()
    gpu_nodes = world.all(f"/apis/{names.API_VERSION}/gpunodes")
    bookings = {
        reservation: gpu_node["metadata"]["name"]
        for gpu_node in gpu_nodes
        for reservation in (gpu_node.get("status") or {}).get("reservations") or {}
    }
    live = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}]
    carriers = {
        (pod["metadata"].get("labels") or {}).get(names.RESERVATION): str(pod["metadata"]["uid"]) for pod in live
    }
    nobody = {f"nobody (entry {reservation})" for reservation in bookings.keys() - carriers.keys()}
    return State(
        capacity=_capacity(world),
        running_owners=frozenset(
            owner for pod in live if pod["status"].get("phase") == "Running" for owner in _owners(world, pod)
        ),
        pods=frozenset((pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods),
        bookings=frozenset(bookings),
        booked_pods=frozenset({uid for reservation, uid in carriers.items() if reservation in bookings} | nobody),
        used={state.name: _used(state) for state in cluster.snapshot()},
        summed=books.used_of(gpu_nodes, pods),
        events_written=events_written,
    )


def _used(state: NodeState) -> tuple[UsedCard, ...]:
    cards = []
    for card, free_gb in zip(state.inventory.cards, state.free_gb, strict=True):
        if not card.healthy or card.unsupported:
            # Nothing of it may be given away, which says nothing about what is in use.
            used = min(card.budget_gb, state.used_gb.get(card.index, 0) + card.foreign_gb)
        else:
            used = card.budget_gb - free_gb
        cards.append(UsedCard(card.index, card.uuid, used))
    return tuple(cards)


def _capacity(world: Objects) -> dict[str, dict[str, str]]:
    """What each node advertises: its Node's allocatable, and for our own resources the budgets of its `GPUNode`."""
    found = {
        node["metadata"]["name"]: {
            resource: amount
            for resource, amount in node["status"]["allocatable"].items()
            if names.card_index(resource) is None
        }
        for node in world.nodes()
    }
    for gpu_node in world.all(f"/apis/{names.API_VERSION}/gpunodes"):
        wishes = {wish["index"]: wish for wish in (gpu_node.get("spec") or {}).get("cards") or ()}
        for card in (gpu_node.get("status") or {}).get("cards") or ():
            budget = card["budgetGB"] - wishes.get(card["index"], {}).get("headroomGB", 0)
            found.setdefault(gpu_node["metadata"]["name"], {})[names.card_resource(card["index"])] = str(budget)
    return found


def _owners(world: Objects, pod: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Kind, namespace and name of everything above a pod."""
    found: list[tuple[str, str, str]] = []
    raw: Mapping[str, Any] | None = pod
    namespace = pod["metadata"]["namespace"]
    while raw is not None:
        reference = next(
            (each for each in raw["metadata"].get("ownerReferences") or () if each.get("controller")), None
        )
        if reference is None or len(found) > 5:
            break
        found.append((reference["kind"], namespace, reference["name"]))
        raw = world.find({**reference, "namespace": namespace})
    return found
