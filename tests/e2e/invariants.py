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
from typing import Any

from hack.devcluster.api import Api, Json
from shared.api import names

_PODS = "/api/v1/pods"
_NODES = "/api/v1/nodes"
_GPU_NODES = f"/apis/{names.API_VERSION}/gpunodes"
_ENTRY = re.compile(
    r"([a-z0-9-]+)/([0-9a-f]{8});([0-9]+);([0-9]+:[0-9]+(?:,[0-9]+:[0-9]+)*)(?:;[0-9]+)?(?:;(kept|preempting))?"
)
_LONGEST_KEPT_S = 80.0
"""So old a kept seat may get: 30 s by one leader, as long again by the next, and what it takes to become that."""


class Kind(StrEnum):
    """What can be wrong."""

    OVER_COMMIT = "over-commit"
    """More is promised of a card than it has."""
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
    """One thing that is wrong with a card; `card` is None where it cannot be said of which; `gb` is how much it is."""

    kind: Kind
    node: str
    card: int | None
    what: str
    gb: int = 0

    def __str__(self) -> str:
        where = self.node if self.card is None else f"{self.node} gpu-{self.card}"
        return f"{self.kind} on {where}: {self.what}"


@dataclass(frozen=True, slots=True)
class _Holder:
    """A pod that holds shares: GB by card."""

    name: str
    node: str
    claim: str
    """What its entry should say of it: namespace and the hash of its owner."""
    reservation: str
    age: tuple[str, str]
    shares: Mapping[int, int]
    bound: bool


@dataclass(frozen=True, slots=True)
class _Entry:
    claim: str
    since: int
    """When it was written, or its seat kept, in unix seconds."""
    shares: Mapping[int, int]
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
        found += _over_capacity(node, counted, raw["status"]["capacity"])
        found += _over_budget(node, status, preempting)
        found += _unlike_pods(node, status, _on(node, lasting))
        found += _leaked(node, status, _on(node, (earlier | later).values()), now)
    return found


def over_budget(gpu_node: Json) -> list[Finding]:
    """Where one version of a ledger promises more than the budgets beside it: what it may not at any moment."""
    status = gpu_node.get("status") or {}
    found = _over_budget(gpu_node["metadata"]["name"], status, _preempting(status))
    return [each for each in found if each.kind is Kind.OVER_COMMIT]


def booked_gb(status: Mapping[str, Any], pods: Iterable[Json], node: str) -> tuple[Counter[int], Counter[int]]:
    """GB by card of one node: what its ledger has reserved, and what the pods on it or pinned to it hold."""
    reserved = _total(entry.shares for entry in _entries(status).values() if entry is not None)
    return reserved, _total(holder.shares for holder in _on(node, _holders(pods).values()))


def is_placed(pod: Json) -> bool:
    """Whether a pod holds shares of cards on a node, or is about to: one that has ended does not."""
    return _holder(pod) is not None


def entries_of(status: Mapping[str, Any]) -> list[tuple[str, int]]:
    """Namespace with owner, and GB, of each entry of a ledger that can be read."""
    return [(entry.claim, sum(entry.shares.values())) for entry in _entries(status).values() if entry is not None]


def _over_capacity(node: str, holders: Iterable[_Holder], capacity: Mapping[str, str]) -> Iterator[Finding]:
    """As the scheduler and the kubelet count."""
    for card, gb in _total(holder.shares for holder in holders).items():
        has = int(capacity.get(f"{names.CARD_RESOURCE_PREFIX}{card}", "0"))
        if gb > has:
            yield Finding(Kind.OVER_COMMIT, node, card, f"pods request {gb} GB of {has}")


def _over_budget(node: str, status: Mapping[str, Any], preempting: Collection[str]) -> Iterator[Finding]:
    """Only entries of pods that wait for others to leave, or whose victims have just left, may stand above a budget."""
    budgets = {card["index"]: card["budgetGB"] for card in status.get("cards") or ()}
    entries = {each: entry for each, entry in _entries(status).items() if entry is not None}
    booked = _total(entry.shares for entry in entries.values())
    for card, gb in _total(entry.shares for each, entry in entries.items() if each not in preempting).items():
        if gb > budgets.get(card, 0):
            yield Finding(Kind.OVER_COMMIT, node, card, f"{gb} GB are reserved of {budgets.get(card, 0)}")
    said = (status.get("summary") or {}).get("reservedGB", 0)
    if said != booked.total():
        what = f"the summary says {said} GB, the entries add up to {booked.total()}"
        yield Finding(Kind.DISAGREES, node, None, what)


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
            for card, gb in holder.shares.items():
                yield Finding(Kind.MISSING, node, card, f"{holder.name} ({holder.reservation}) holds {gb} GB", gb)


def _leaked(node: str, status: Mapping[str, Any], holders: Iterable[_Holder], now: float) -> Iterator[Finding]:
    known = {holder.reservation for holder in holders}
    for reservation, entry in _entries(status).items():
        if entry is None:
            text = status["reservations"][reservation]
            yield Finding(Kind.LEAKED, node, None, f"{reservation} cannot be read: {text!r}")
        elif reservation not in known:
            for card, gb in entry.shares.items():
                kind = Kind.KEPT if entry.mark == "kept" and now - entry.since <= _LONGEST_KEPT_S else Kind.LEAKED
                what = f"no pod carries {reservation}, which holds {gb} GB for {entry.claim}"
                yield Finding(kind, node, card, what, gb)


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


def _shares(spec: Mapping[str, Any]) -> dict[int, int]:
    """By card the larger of what runs for good (with sidecars) and what an init container takes before."""
    lasting: Counter[int] = Counter()
    peak: Counter[int] = Counter()
    for container in spec.get("initContainers") or ():
        if container.get("restartPolicy") == "Always":
            lasting += _asked(container)
        else:
            peak |= lasting + _asked(container)
    for container in spec["containers"]:
        lasting += _asked(container)
    return dict(lasting | peak)


def _asked(container: Mapping[str, Any]) -> Counter[int]:
    requests = (container.get("resources") or {}).get("requests") or {}
    prefix = names.CARD_RESOURCE_PREFIX
    return Counter({int(key.removeprefix(prefix)): int(gb) for key, gb in requests.items() if key.startswith(prefix)})


def _entries(status: Mapping[str, Any]) -> dict[str, _Entry | None]:
    """The ledger by id; None for a text that cannot be read."""
    return {reservation: _entry(text) for reservation, text in (status.get("reservations") or {}).items()}


def _entry(text: str) -> _Entry | None:
    match = _ENTRY.fullmatch(text)
    if match is None:
        return None
    pairs = (pair.split(":") for pair in match[4].split(","))
    shares = {int(card): int(gb) for card, gb in pairs}
    return _Entry(f"{match[1]}/{match[2]}", int(match[3]), shares, match[5] or "")


def _total(shares: Iterable[Mapping[int, int]]) -> Counter[int]:
    total: Counter[int] = Counter()
    for one in shares:
        total.update(one)
    return total
