"""What a `ModelPlacement` should say: a pure function of the workload's pods and refusals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

from controller.placement_history import shown_cards
from shared.core.ledger import Shares
from shared.core.pods import PodFacts
from shared.core.units import Units, describe_units

NO_FIT_ERROR: Final = "NoFitError"
_OUT_OF: Final = {"OOM": "out_of_memory", "OOMKilled": "out_of_node_memory"}
"""The reason by the code of a death for lack of memory."""
MOST_PLACEMENTS: Final = 20
_SHOWN_PLACES: Final = 3
_LONGEST_WHERE: Final = 256


class Holder(Protocol):
    """Whoever holds something of a node: a pod, or one container of it."""

    @property
    def node(self) -> str: ...
    @property
    def shares(self) -> Shares: ...
    @property
    def units(self) -> Units: ...


@dataclass(frozen=True, slots=True)
class _Count:
    """How many pods a workload wants, and how many of its pods are how far. One that is `leaving` counts for nothing
    else, and one that is `preempting` has its cards only once others have left them. One that is `unplaced` was created
    past the webhook.
    """

    wanted: int
    refused: int
    placed: int
    running: int
    preempting: int
    leaving: int
    unplaced: int

    @property
    def is_idle(self) -> bool:
        return not (self.wanted or self.placed or self.preempting)

    @property
    def is_complete(self) -> bool:
        """Whether every wanted pod has its cards."""
        return self.placed >= self.wanted and not (self.refused or self.preempting or self.is_idle)

    @property
    def runs(self) -> bool:
        return self.is_complete and self.running == self.placed

    @property
    def phase(self) -> str:
        if self.refused:
            return "Failed"
        if self.is_idle:
            return "Idle"
        if not self.is_complete:
            return "Pending"
        return "Running" if self.runs else "Placed"


def placement_status(
    pods: Iterable[PodFacts],
    refusals: Mapping[str, Mapping[str, Any]],
    wanted: int,
    old: Mapping[str, Any],
    now: str,
    *,
    down: Collection[str] = (),
    preempting: Collection[str] = (),
    unplaced: int = 0,
    trouble: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The status of a workload that wants `wanted` pods, as a merge patch without its refusals and its history.

    `refusals` are those that still stand. `old` is the status so far: a condition keeps its time while it does not
    change. `down` are the uids of pods with a container that died and does not run again yet, `preempting` those of
    pods that wait until others have left their cards, `unplaced` is how many pods exist that nobody placed, and
    `trouble` is the last death for lack of memory that is still news.
    """
    shown = sorted((pod for pod in pods if pod.is_placed), key=lambda pod: pod.name)
    staying = [pod for pod in shown if not pod.terminating]
    placed = [pod for pod in staying if pod.key not in preempting]
    count = _Count(
        wanted=wanted,
        refused=len(refusals),
        placed=len(placed),
        running=sum(pod.running and pod.key not in down for pod in placed),
        preempting=len(staying) - len(placed),
        leaving=len(shown) - len(staying),
        unplaced=unplaced,
    )
    newest = max(refusals.values(), key=lambda refusal: str(refusal.get("since", "")), default=None)
    return {
        "phase": count.phase,
        **_error(newest, trouble),
        "wanted": wanted,
        "placed": count.placed,
        "where": _where(shown, count, preempting) or None,
        "ask": (newest.get("demand") or None) if newest else None,
        "placements": [_placement(pod, down, preempting) for pod in shown[:MOST_PLACEMENTS]],
        "outOfMemory": trouble,
        "conditions": _conditions(_state(count, refusals), old, now),
    }


def _error(newest: Mapping[str, Any] | None, trouble: Mapping[str, Any] | None) -> dict[str, str | None]:
    """The error that is shown: a pod without a place stands before one that died."""
    if newest is not None:
        code, reason, message = NO_FIT_ERROR, newest["reason"], newest["message"]
    elif trouble is not None:
        code, reason, message = trouble["code"], _OUT_OF[trouble["code"]], trouble["message"]
    else:
        code, reason, message = None, None, None
    return {"reason": reason, "lastErrorCode": code, "lastErrorMessage": message}


def card_words(holder: Holder) -> str:
    """Where it is, for a column: `t4 gpu-0 6 GB`, `twin gpu-0,1 20 GB each`, `eks 1 nvidia.com/gpu`."""
    if not holder.shares:
        return f"{holder.node} {describe_units(holder.units)}"
    slots = _equal_slots(holder)
    if slots is not None:
        return f"{holder.node} {slots} {_gb_words(holder)}"
    return f"{holder.node} " + ", ".join(f"gpu-{index} {gb} GB" for index, gb in holder.shares)


def card_phrase(holder: Holder) -> str:
    """Where it is, within a sentence: `gpu-0 of t4 with 6 GB`, `gpu-0,1 of twin with 20 GB each`."""
    if not holder.shares:
        return f"{describe_units(holder.units)} of {holder.node}"
    slots = _equal_slots(holder)
    if slots is not None:
        return f"{slots} of {holder.node} with {_gb_words(holder)}"
    (first, gb), *others = holder.shares
    return f"gpu-{first} of {holder.node} with {gb} GB" + "".join(f", gpu-{index} with {gb} GB" for index, gb in others)


def _equal_slots(holder: Holder) -> str | None:
    """`gpu-0,1`; None if the shares differ."""
    if len({gb for _, gb in holder.shares}) > 1:
        return None
    return "gpu-" + ",".join(str(index) for index, _ in holder.shares)


def _gb_words(holder: Holder) -> str:
    return f"{holder.shares[0][1]} GB" + (" each" if len(holder.shares) > 1 else "")


def _where(shown: Sequence[PodFacts], count: _Count, preempting: Collection[str]) -> str:
    first = sorted(shown, key=lambda pod: pod.terminating)[:_SHOWN_PLACES]
    places = "; ".join(card_words(pod) for pod in first)
    more = len(shown) - len(first)
    text = f"{places}; and {more} more" if more else places
    unbound = sum(not (pod.bound or pod.terminating or pod.key in preempting) for pod in shown)
    notes = (
        (unbound, "not scheduled"),
        (count.preempting, "waiting for others to leave"),
        (count.leaving, "leaving"),
        (count.unplaced, "without a place"),
    )
    words = ", ".join(f"{number} {what}" for number, what in notes if number)
    end = f" ({words})" if words else ""
    most = _LONGEST_WHERE - len(end)
    return ((text if len(text) <= most else text[: most - 3] + "...") + end).lstrip()


def _placement(pod: PodFacts, down: Collection[str], preempting: Collection[str]) -> dict[str, Any]:
    return {
        "pod": pod.name,
        "uid": pod.key,
        "node": pod.node,
        "cards": shown_cards(pod.shares),
        "since": pod.created,
        "running": pod.running and pod.key not in down,
        "preempting": pod.key in preempting,
        "leaving": pod.terminating,
    }


def _state(count: _Count, refusals: Mapping[str, Mapping[str, Any]]) -> Iterator[tuple[str, bool, str, str]]:
    """Type, whether it holds, reason and message of each condition."""
    of = f"{count.placed} of {count.wanted} pods have their cards"
    waits = f"; {count.preempting} wait until pods of lower priority have left" if count.preempting else ""
    # Of a rollout one more is wanted for a moment than the workload says.
    is_rollout = count.refused and count.placed >= count.wanted and not count.is_idle
    refused = "; one more, which a rollout needs first, is refused" if is_rollout else ""
    yield "Placed", count.is_complete, _why_placed(count), of + waits + refused + _unplaced_words(count.unplaced)
    yield (
        "Running",
        count.runs,
        "AllRunning" if count.runs else "NothingWanted" if count.is_idle else "NotAllRunning",
        f"{count.running} of {max(count.wanted, count.placed)} pods run",
    )
    if any(refusal.get("waitable") for refusal in refusals.values()):
        yield "Waiting", True, "WaitingForRoom", "a refused pod is placed once it fits and its owner creates it again"
    elif refusals:
        never = "what was refused fits nowhere, full or empty: ask for less, or change the cluster"
        yield "Waiting", False, "NothingToWaitFor", never
    else:
        yield "Waiting", False, "NothingToWaitFor", "no pod is refused"


def _unplaced_words(number: int) -> str:
    if not number:
        return ""
    pods, them = ("1 pod was", "it") if number == 1 else (f"{number} pods were", "them")
    return f"; {pods} created without a place: recreate {them} while the namespace is opted in"


def _why_placed(count: _Count) -> str:
    """The reason of the condition `Placed`."""
    if count.refused:
        return "Refused"
    if count.preempting:
        return "WaitsForOthersToLeave"
    if count.is_idle:
        return "NothingWanted"
    if count.unplaced:
        return "CreatedWithoutAPlace"
    return "AllPlaced" if count.is_complete else "Incomplete"


def _conditions(state: Iterable[tuple[str, bool, str, str]], old: Mapping[str, Any], now: str) -> list[dict[str, Any]]:
    before = {condition.get("type"): condition for condition in old.get("conditions") or ()}
    conditions = []
    for kind, holds, reason, message in state:
        status = "True" if holds else "False"
        same = before.get(kind, {}).get("status") == status
        conditions.append(
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": before[kind].get("lastTransitionTime", now) if same else now,
            }
        )
    return conditions
