"""What became of a placed pod that did not simply run on: it ended, was evicted, or a container of it died.

Of the many pods that run as they should there is nothing to tell, so nothing is kept. What is kept is small, and holds
none of the words of the programs themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final, TypeAlias

from shared.api import names
from shared.core.ledger import Shares
from shared.core.oom import OOM_KILLED, Shortage, card_shortage
from shared.core.owners import OwnerRef, controller_of
from shared.core.pod_requests import is_sidecar, pod_requests
from shared.core.pods import card_shares, pinned_node
from shared.core.quantity import QuantityError
from shared.core.units import Units, units_among

Raw: TypeAlias = Mapping[str, Any]

_NOTHING: Final[Raw] = {}
_OVER: Final = frozenset({"Succeeded", "Failed"})
_DISRUPTED: Final = "DisruptionTarget"
"""The condition of a pod that the eviction API, the scheduler, the kubelet or a controller removes."""
_EVICTED: Final = frozenset(
    {"Evicted", "Preempted", "Preempting", "NodeLost", "NodeShutdown", "Shutdown", "Terminated"}
)
"""What the kubelet and the node controller write as a failed pod's reason where they set no condition."""


class Ending(StrEnum):
    """How the placement of a pod ended."""

    FINISHED = "Finished"
    FAILED = "Failed"
    OOM = "OOM"
    EVICTED = "Evicted"
    DELETED = "Deleted"


@dataclass(frozen=True, slots=True)
class Place:
    """What somebody holds of a node."""

    node: str
    shares: Shares
    units: Units


@dataclass(frozen=True, slots=True)
class Crash:
    """The last death of a container that holds something of a card. Times are Kubernetes' texts."""

    container: str
    place: Place
    at: str
    """When; where the kubelet lost track of it, when the pod was created."""
    restarted: bool
    """Whether another instance has begun since, or is about to."""
    running_since: str
    """When that one began to run; empty unless it runs now."""
    ready: bool
    shortage: Shortage | None
    """The memory that it lacked, where the container's status says so."""

    @property
    def key(self) -> tuple[str, str]:
        """Tells the deaths of a pod's containers apart."""
        return self.container, self.at


@dataclass(frozen=True, slots=True)
class PodFate:
    """What is to be told of a placed pod. `key` is its uid."""

    key: str
    namespace: str
    name: str
    owner: OwnerRef | None
    created: str
    place: Place
    phase: str
    evicted: bool
    changed: str
    """When the last of it happened; for an ended pod, when it ended."""
    crashes: tuple[Crash, ...]

    @property
    def is_over(self) -> bool:
        """Whether it no longer takes what it was given."""
        return self.phase in _OVER

    @property
    def is_down(self) -> bool:
        """Whether a container that died does not run again."""
        return any(not crash.running_since for crash in self.crashes)

    @property
    def ending(self) -> Ending:
        """How it ended; of one that is not over, how it would be told if it went now."""
        if self.phase == "Succeeded":
            return Ending.FINISHED
        if self.evicted:
            return Ending.EVICTED
        if any(crash.shortage is not None and not crash.ready for crash in self.crashes):
            return Ending.OOM
        return Ending.FAILED if self.is_over else Ending.DELETED

    def with_shortage(self, crash: tuple[str, str], shortage: Shortage) -> PodFate:
        """The same, with the cause of a crash that was found elsewhere."""
        crashes = tuple(replace(each, shortage=shortage) if each.key == crash else each for each in self.crashes)
        return replace(self, crashes=crashes)


def pod_fate(raw: Raw) -> PodFate | None:
    """The fate of a stored pod; None if it has no placement or there is nothing to tell."""
    metadata, spec, status = raw["metadata"], raw["spec"], raw.get("status") or _NOTHING
    phase = str(status.get("phase") or "")
    disruption = _disruption(status)
    deaths = list(_deaths(status))
    if phase not in _OVER and disruption is None and not deaths:
        return None
    node = spec.get("nodeName") or pinned_node(spec)
    created = str(metadata.get("creationTimestamp") or "")
    try:
        place = _place(node or "", pod_requests(spec, status))
        crashes = tuple(_crashes(spec, place.node, deaths, created))
    except QuantityError:
        return None
    is_ours = place.shares or (names.RESERVATION in (metadata.get("labels") or _NOTHING) and place.units)
    if not node or not is_ours or (not crashes and disruption is None and phase not in _OVER):
        return None
    return PodFate(
        key=str(metadata["uid"]),
        namespace=str(metadata.get("namespace") or ""),
        name=str(metadata.get("name") or ""),
        owner=controller_of(raw),
        created=created,
        place=place,
        phase=phase,
        evicted=disruption is not None or status.get("reason") in _EVICTED,
        changed=max((created, disruption or "", *(str(ended.get("finishedAt") or "") for _, ended, _ in deaths))),
        crashes=crashes,
    )


def _disruption(status: Raw) -> str | None:
    """When somebody chose the pod to go; None if nobody did."""
    for condition in status.get("conditions") or ():
        if condition.get("type") == _DISRUPTED and condition.get("status") == "True":
            return str(condition.get("lastTransitionTime") or "")
    return None


def _deaths(status: Raw) -> Iterator[tuple[Raw, Raw, bool]]:
    """Each container that ended: its status, how it ended, and whether another instance came after that."""
    for each in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        ended = (each.get("state") or _NOTHING).get("terminated")
        if ended:
            yield each, ended, False
        elif ended := (each.get("lastState") or _NOTHING).get("terminated"):
            yield each, ended, True


def _crashes(spec: Raw, node: str, deaths: list[tuple[Raw, Raw, bool]], created: str) -> Iterator[Crash]:
    places = {
        container["name"]: _place(node, pod_requests({"containers": [container]}))
        for container in (*spec["containers"], *filter(is_sidecar, spec.get("initContainers") or ()))
    }
    for status, ended, restarted in deaths:
        place = places.get(status["name"])
        if ended.get("exitCode") and place is not None and (place.shares or place.units):
            running = (status.get("state") or _NOTHING).get("running") or _NOTHING
            yield Crash(
                container=str(status["name"]),
                place=place,
                at=str(ended.get("finishedAt") or created),
                restarted=restarted,
                running_since=str(running.get("startedAt") or ""),
                ready=bool(status.get("ready")),
                shortage=_shortage(ended),
            )


def _shortage(ended: Raw) -> Shortage | None:
    if ended.get("reason") == OOM_KILLED.said:
        return OOM_KILLED
    return card_shortage(str(ended.get("message") or ""))


def _place(node: str, requests: Mapping[str, int]) -> Place:
    return Place(node, card_shares(requests), units_among(requests))
