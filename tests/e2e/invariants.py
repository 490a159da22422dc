"""Whether what the pods hold, what the ledgers say and what the cards have agree: read from raw JSON.

It shares no code with the product, so that a mistake in how the product reads a cluster cannot hide itself. It holds
for nodes on which every pod with a share of a card was placed by the operator.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeAlias

from hack.devcluster.api import Api, Json
from shared.api import names

_PODS = "/api/v1/pods"
_NODES = "/api/v1/nodes"
_GPU_NODES = f"/apis/{names.API_VERSION}/gpunodes"
_HELD = r"(?:[0-9]+:[0-9]+|[a-z0-9.-]+/[A-Za-z0-9._-]+=[0-9]+)"
_ENTRY = re.compile(rf"([a-z0-9-]+)/([0-9a-f]{{8}});([0-9]+);({_HELD}(?:,{_HELD})*)(?:;[0-9]+)?(?:;(kept|preempting))?")
_UNITS = frozenset({"nvidia.com/gpu", "nvidia.com/gpu.shared", "amd.com/gpu"})
_SLICES = "nvidia.com/mig-"
_ID = re.compile(r"[a-z2-7]{10}")
_LONGEST_KEPT_S = 80.0
"""So old a kept seat may get: 30 s by one leader, as long again by the next, and what it takes to become that."""


Place: TypeAlias = int | str
"""What something is held of: a card, or all units of a vendor's resource on a node, which the kubelet gives out."""


class Kind(StrEnum):
    """What can be wrong."""

    OVER_COMMIT = "over-commit"
    """More is promised of a card than it has, or of a vendor's resource than its node offers."""
    MISSING = "missing reservation"
    """A live pod holds a share that is in no ledger."""
    LEAKED = "leaked reservation"
    """The ledger holds a share for which there is no live pod, and which is not kept for the next pod of its owner."""
    KEPT = "kept seat"
    """The ledger holds a share for an owner whose pod went a moment ago."""
    DISAGREES = "disagreement"
    """The ledger says something else than the pod, or than its own summary."""


NEVER = frozenset({Kind.OVER_COMMIT, Kind.MISSING})
"""What may not be seen at any moment. The others show while a pod comes or goes, and until a lost one is given up."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong with a card or with units; `card` is None where it cannot be said of which.

    `gb` is how much it is; of units their number, as a unit too may not be lost.
    """

    kind: Kind
    node: str
    card: Place | None
    what: str
    gb: int = 0

    def __str__(self) -> str:
        match self.card:
            case None:
                where = self.node
            case int(card):
                where = f"{self.node} gpu-{card}"
            case resource:
                where = f"{self.node} {resource}"
        return f"{self.kind} on {where}: {self.what}"


@dataclass(frozen=True, slots=True)
class _Holder:
    """A pod that holds shares: GB by card, and numbers of units by resource."""

    name: str
    node: str
    claim: str
    """What its entry should say of it: namespace and the hash of its owner."""
    reservation: str
    age: tuple[str, str]
    shares: Mapping[Place, int]
    bound: bool


@dataclass(frozen=True, slots=True)
class _Entry:
    claim: str
    since: int
    """When it was written, or its seat kept, in unix seconds."""
    shares: Mapping[Place, int]
    mark: str = ""


def findings(api: Api, nodes: Collection[str]) -> list[Finding]:
    """Everything that is wrong on `nodes` now.

    The pods are read before and after the ledgers: only one that is there both times was there in between.
    """
    before, ledgers, after = (api.get(path)["items"] for path in (_PODS, _GPU_NODES, _PODS))
    concerned = [raw for raw in api.get(_NODES)["items"] if raw["metadata"]["name"] in nodes]
    return compare(before, ledgers, after, concerned, time.time())


def compare(
    before: Iterable[Json], gpu_nodes: Iterable[Json], after: Iterable[Json], nodes: Iterable[Json], now: float
) -> list[Finding]:
    """What is wrong on `nodes`, given all pods `before` and `after` their GPUNodes were read. `now` is unix seconds."""
    ledgers = {raw["metadata"]["name"]: raw.get("status") or {} for raw in gpu_nodes}
    earlier, later = _holders(before), _holders(after)
    lasting = [holder for uid, holder in later.items() if uid in earlier]
    found: list[Finding] = []
    for raw in nodes:
        node = raw["metadata"]["name"]
        status = ledgers.get(node, {})
        here = _on(node, later.values())
        preempting = _preempting(status)
        # An unbound pod that came after its ledger was read may be one that waits for victims.
        counted = [each for each in here if each.bound or (each in lasting and each.reservation not in preempting)]
        found += _over_capacity(node, counted, raw["status"])
        nameless_gb = sum(_nameless_gb(each) for each in here)
        found += _over_budget(node, status, preempting, raw["status"].get("allocatable") or {}, nameless_gb)
        found += _unlike_pods(node, status, _on(node, lasting))
        found += _leaked(node, status, _on(node, (earlier | later).values()), now)
    return found


def over_budget(gpu_node: Json, allocatable: Mapping[str, str] | None) -> list[Finding]:
    """Where one version of a ledger promises more than the budgets beside it, or more units than its node offers: what
    it may not at any moment. Where nothing is known of the node, units are not judged.
    """
    status = gpu_node.get("status") or {}
    found = _over_budget(gpu_node["metadata"]["name"], status, _preempting(status), allocatable)
    return [each for each in found if each.kind is Kind.OVER_COMMIT]


def booked_gb(status: Mapping[str, Any], pods: Iterable[Json], node: str) -> tuple[Counter[int], Counter[int]]:
    """GB by card of one node: what its ledger has reserved, and what the pods on it or pinned to it hold."""
    reserved = _total(entry.shares for entry in _entries(status).values() if entry is not None)
    held = _total(holder.shares for holder in _on(node, _holders(pods).values()))
    return _in_gb(status, reserved), _in_gb(status, held)


def is_placed(pod: Json) -> bool:
    """Whether a pod holds shares of cards on a node, or is about to: one that has ended does not."""
    return _holder(pod) is not None


def entries_of(status: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Namespace with owner, and GB (units aside), of each entry of a ledger that can be read."""
    return [
        (entry.claim, sum(gb for card, gb in entry.shares.items() if isinstance(card, int)))
        for entry in _entries(status).values()
        if entry is not None
    ]


def _over_capacity(node: str, holders: Iterable[_Holder], status: Mapping[str, Any]) -> Iterator[Finding]:
    """As the scheduler and the kubelet count, with what a Node's `status` has."""
    for card, amount in _total(holder.shares for holder in holders).items():
        if isinstance(card, int):
            has = int(status["capacity"].get(f"{names.CARD_RESOURCE_PREFIX}{card}", "0"))
        else:
            has = int((status.get("allocatable") or {}).get(card, "0"))
        if amount > has:
            yield Finding(Kind.OVER_COMMIT, node, card, f"pods request {_amount(card, amount)} of {has}")


def _nameless_gb(holder: _Holder) -> int:
    """What a pod holds for which no entry can stand: it counts in the sums, once that is seen."""
    if _ID.fullmatch(holder.reservation):
        return 0
    return sum(gb for card, gb in holder.shares.items() if isinstance(card, int))


def _over_budget(
    node: str,
    status: Mapping[str, Any],
    preempting: Collection[str],
    allocatable: Mapping[str, str] | None,
    nameless_gb: int = 0,
) -> Iterator[Finding]:
    """Only entries of pods that wait for others to leave, or whose victims have just left, may stand above a budget.

    `nameless_gb` is what stands in the sums besides.
    """
    budgets = {card["index"]: card["budgetGB"] for card in status.get("cards") or ()}
    entries = {each: entry for each, entry in _entries(status).items() if entry is not None}
    booked = _total(entry.shares for entry in entries.values())
    for card, amount in _total(entry.shares for each, entry in entries.items() if each not in preempting).items():
        if isinstance(card, int):
            has = budgets.get(card, 0)
        elif allocatable is None:
            continue
        else:
            has = int(allocatable.get(card, "0"))
        if amount > has:
            yield Finding(Kind.OVER_COMMIT, node, card, f"{_amount(card, amount)} are reserved of {has}")
    said, sum_gb = (status.get("summary") or {}).get("reservedGB", 0), _in_gb(status, booked).total()
    described = {unit["resource"] for unit in status.get("units") or ()}
    agrees = sum_gb <= said <= sum_gb + nameless_gb
    if not agrees and all(isinstance(card, int) or card in described for card in booked):
        what = f"the summary says {said} GB, the entries add up to {sum_gb}"
        yield Finding(Kind.DISAGREES, node, None, what)


def _in_gb(status: Mapping[str, Any], booked: Mapping[Place, int]) -> Counter[int]:
    """GB by card. Units are told of the first cards of their vendor, as each of these has them; a slice has no card."""
    total = Counter({card: gb for card, gb in booked.items() if isinstance(card, int)})
    for unit in status.get("units") or ():
        left = 0 if unit.get("partition") else booked.get(unit["resource"], 0)
        of_amd = unit["resource"].startswith("amd.com/")
        for card in sorted(status.get("cards") or (), key=lambda card: int(card["index"])):
            here = min(left, unit.get("perCard") or 1) if (card.get("vendor") == "amd") == of_amd else 0
            whole = (unit.get("perCard") or 1) == 1
            total[card["index"]] += here * (card["budgetGB"] if whole else unit.get("gb") or 0)
            left -= here
    return total


def _amount(card: Place, amount: int) -> str:
    return f"{amount} GB" if isinstance(card, int) else f"{amount} units"


def _preempting(status: Mapping[str, Any]) -> set[str]:
    """The ids of the entries whose pods wait for others to leave."""
    return {each for each, entry in _entries(status).items() if entry and entry.mark == "preempting"}


def _unlike_pods(node: str, status: Mapping[str, Any], holders: Iterable[_Holder]) -> Iterator[Finding]:
    """Pods without an entry and entries unlike their pod. Of two pods with one id the older has the entry."""
    entries = _entries(status)
    carried: set[str] = set()
    for holder in sorted(holders, key=lambda holder: holder.age):
        if holder.reservation in entries and holder.reservation not in carried:
            carried.add(holder.reservation)
            entry = entries[holder.reservation]
            marked = entry is not None and (entry.mark == "kept" or (entry.mark == "preempting" and holder.bound))
            if entry is None or marked or (entry.claim, entry.shares) != (holder.claim, holder.shares):
                text = status["reservations"][holder.reservation]
                what = f"{holder.name} holds {holder.shares} for {holder.claim}, its entry says {text}"
                yield Finding(Kind.DISAGREES, node, None, what)
        else:
            for card, amount in holder.shares.items():
                what = f"{holder.name} ({holder.reservation}) holds {_amount(card, amount)}"
                yield Finding(Kind.MISSING, node, card, what, amount)


def _leaked(node: str, status: Mapping[str, Any], holders: Iterable[_Holder], now: float) -> Iterator[Finding]:
    known = {holder.reservation for holder in holders}
    for reservation, entry in _entries(status).items():
        if entry is None:
            text = status["reservations"][reservation]
            yield Finding(Kind.LEAKED, node, None, f"{reservation} cannot be read: {text!r}")
        elif reservation not in known:
            for card, amount in entry.shares.items():
                kind = Kind.KEPT if entry.mark == "kept" and now - entry.since <= _LONGEST_KEPT_S else Kind.LEAKED
                what = f"no pod carries {reservation}, which holds {_amount(card, amount)} for {entry.claim}"
                yield Finding(kind, node, card, what, amount)


def _holders(pods: Iterable[Json]) -> dict[str, _Holder]:
    """Every pod that holds shares, by uid."""
    return {pod["metadata"]["uid"]: holder for pod in pods if (holder := _holder(pod)) is not None}


def _holder(pod: Json) -> _Holder | None:
    metadata, spec = pod["metadata"], pod["spec"]
    node, shares = _node(spec), _shares(spec)
    if pod["status"].get("phase") in {"Succeeded", "Failed"} or not node or not shares:
        return None
    owner = next((ref["uid"] for ref in metadata.get("ownerReferences") or () if ref.get("controller")), "")
    return _Holder(
        name=f"{metadata['namespace']}/{metadata['name']}",
        node=node,
        claim=f"{metadata['namespace']}/{hashlib.sha256(owner.encode()).hexdigest()[:8]}",
        reservation=metadata.get("labels", {}).get(names.RESERVATION, ""),
        age=(metadata["creationTimestamp"], metadata["uid"]),
        shares=shares,
        bound=bool(spec.get("nodeName")),
    )


def _on(node: str, holders: Iterable[_Holder]) -> list[_Holder]:
    return [holder for holder in holders if holder.node == node]


def _node(spec: Mapping[str, Any]) -> str:
    """The node that the pod is on, or else the only one that it may go to; empty if it may go to several."""
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    nodes = {
        tuple(field["values"])
        for term in required.get("nodeSelectorTerms", ())
        for field in term.get("matchFields") or [{"values": ()}]
    }
    only = nodes.pop() if len(nodes) == 1 else ()
    return str(only[0]) if len(only) == 1 else ""


def _shares(spec: Mapping[str, Any]) -> dict[Place, int]:
    """By card the larger of what runs for good (with sidecars) and what an init container takes before."""
    lasting: Counter[Place] = Counter()
    peak: Counter[Place] = Counter()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            lasting += _asked(container)
        else:
            peak |= lasting + _asked(container)
    for container in spec["containers"]:
        lasting += _asked(container)
    return dict(lasting | peak)


def _asked(container: Mapping[str, Any]) -> Counter[Place]:
    requests = (container.get("resources") or {}).get("requests") or {}
    asked: Counter[Place] = Counter()
    for key, amount in requests.items():
        if key.startswith(names.CARD_RESOURCE_PREFIX):
            asked[int(key.removeprefix(names.CARD_RESOURCE_PREFIX))] = int(amount)
        elif key in _UNITS or key.startswith(_SLICES):
            asked[key] = int(amount)
    return +asked


def _entries(status: Mapping[str, Any]) -> dict[str, _Entry | None]:
    """The ledger by id; None for a text that cannot be read."""
    return {reservation: _entry(text) for reservation, text in (status.get("reservations") or {}).items()}


def _entry(text: str) -> _Entry | None:
    match = _ENTRY.fullmatch(text)
    if match is None:
        return None
    shares: dict[Place, int] = {}
    for held in match[4].split(","):
        resource, is_units, count = held.partition("=")
        card, _, gb = held.partition(":")
        place, amount = (resource, int(count)) if is_units else (int(card), int(gb))
        if place in shares:
            return None
        shares[place] = amount
    return _Entry(f"{match[1]}/{match[2]}", int(match[3]), shares, match[5] or "")


def _total(shares: Iterable[Mapping[Place, int]]) -> Counter[Place]:
    total: Counter[Place] = Counter()
    for one in shares:
        total.update(one)
    return total
