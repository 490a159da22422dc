"""What a `ModelPlacement` should say: a pure function of the workload's pods and refusals."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
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


def placement_status(
    pods: Iterable[PodFacts],
    refusals: Mapping[str, Mapping[str, Any]],
    wanted: int,
    old: Mapping[str, Any],
    now: str,
    *,
    down: Collection[str] = (),
    trouble: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The status of a workload that wants `wanted` pods, as a merge patch without its refusals and its history.

    `refusals` are those that still stand. `old` is the status so far: a condition keeps its time while it does not
    change. `down` are the uids of pods with a container that died and does not run again yet, and `trouble` is the last
    death for lack of memory that is still news.
    """
    placed = sorted((pod for pod in pods if pod.is_placed), key=lambda pod: pod.name)
    running = sum(pod.running and pod.key not in down for pod in placed)
    newest = max(refusals.values(), key=lambda refusal: str(refusal.get("since", "")), default=None)
    if newest is not None:
        phase = "Failed"
    elif placed and len(placed) >= wanted and running == len(placed):
        phase = "Running"
    else:
        phase = "Placed"
    return {
        "phase": phase,
        **_error(newest, trouble),
        "wanted": wanted,
        "placed": len(placed),
        "where": _where(placed) or None,
        "ask": (newest.get("demand") or None) if newest else None,
        "placements": [_placement(pod, pod.running and pod.key not in down) for pod in placed[:MOST_PLACEMENTS]],
        "outOfMemory": trouble,
        "conditions": _conditions(_state(len(placed), running, wanted, refusals), old, now),
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


def _where(placed: Sequence[PodFacts]) -> str:
    shown = "; ".join(card_words(pod) for pod in placed[:_SHOWN_PLACES])
    more = len(placed) - _SHOWN_PLACES
    text = f"{shown}; and {more} more" if more > 0 else shown
    unbound = sum(not pod.bound for pod in placed)
    end = f" ({unbound} not scheduled)" if unbound else ""
    most = _LONGEST_WHERE - len(end)
    return (text if len(text) <= most else text[: most - 3] + "...") + end


def _placement(pod: PodFacts, running: bool) -> dict[str, Any]:  # noqa: FBT001
    return {
        "pod": pod.name,
        "uid": pod.key,
        "node": pod.node,
        "cards": shown_cards(pod.shares),
        "since": pod.created,
        "running": running,
    }


def _state(
    placed: int, running: int, wanted: int, refusals: Mapping[str, Mapping[str, Any]]
) -> Iterator[tuple[str, bool, str, str]]:
    """Type, whether it holds, reason and message of each condition."""
    complete = placed >= wanted and not refusals
    yield (
        "Placed",
        complete,
        "AllPlaced" if complete else "Refused" if refusals else "Incomplete",
        f"{placed} of {wanted} pods have their cards",
    )
    runs = complete and 0 < placed == running
    yield (
        "Running",
        runs,
        "AllRunning" if runs else "NothingWanted" if not wanted and not placed else "NotAllRunning",
        f"{running} of {max(wanted, placed)} pods run",
    )
    if any(refusal.get("waitable") for refusal in refusals.values()):
        yield "Waiting", True, "WaitingForRoom", "a refused pod is placed by itself once it fits"
    elif refusals:
        never = "what was refused fits nowhere, full or empty: ask for less, or change the cluster"
        yield "Waiting", False, "NothingToWaitFor", never
    else:
        yield "Waiting", False, "NothingToWaitFor", "no pod is refused"


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
