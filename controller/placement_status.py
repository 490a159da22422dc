"""What a `ModelPlacement` should say: a pure function of the workload's pods and refusals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from shared.core.pods import PodFacts
from shared.core.units import describe_units

NO_FIT_ERROR: Final = "NoFitError"
MOST_PLACEMENTS: Final = 20
_SHOWN_PLACES: Final = 3
_LONGEST_WHERE: Final = 256


def placement_status(
    pods: Iterable[PodFacts], refusals: Mapping[str, Mapping[str, Any]], wanted: int, old: Mapping[str, Any], now: str
) -> dict[str, Any]:
    """The status of a workload that wants `wanted` pods, as a merge patch without its refusals.

    `refusals` are those that still stand. `old` is the status so far: a condition keeps its time while it does not
    change.
    """
    placed = sorted((pod for pod in pods if pod.is_placed), key=lambda pod: pod.name)
    newest = max(refusals.values(), key=lambda refusal: str(refusal.get("since", "")), default=None)
    if newest is not None:
        phase = "Failed"
    elif placed and len(placed) >= wanted and all(pod.running for pod in placed):
        phase = "Running"
    else:
        phase = "Placed"
    return {
        "phase": phase,
        "reason": newest["reason"] if newest else None,
        "lastErrorCode": NO_FIT_ERROR if newest else None,
        "lastErrorMessage": newest["message"] if newest else None,
        "wanted": wanted,
        "placed": len(placed),
        "where": _where(placed) or None,
        "ask": (newest.get("demand") or None) if newest else None,
        "placements": [_placement(pod) for pod in placed[:MOST_PLACEMENTS]],
        "conditions": _conditions(len(placed), wanted, refusals, newest, old, now),
    }


def card_words(pod: PodFacts) -> str:
    """Where a pod is, for a column: `t4 gpu-0 6 GB`, `twin gpu-0,1 20 GB each`, `eks 1 nvidia.com/gpu`."""
    if not pod.shares:
        return f"{pod.node} {describe_units(pod.units)}"
    slots = _equal_slots(pod)
    if slots is not None:
        return f"{pod.node} {slots} {_gb_words(pod)}"
    return f"{pod.node} " + ", ".join(f"gpu-{index} {gb} GB" for index, gb in pod.shares)


def card_phrase(pod: PodFacts) -> str:
    """Where a pod is, within a sentence: `gpu-0 of t4 with 6 GB`, `gpu-0,1 of twin with 20 GB each`."""
    if not pod.shares:
        return f"{describe_units(pod.units)} of {pod.node}"
    slots = _equal_slots(pod)
    if slots is not None:
        return f"{slots} of {pod.node} with {_gb_words(pod)}"
    (first, gb), *others = pod.shares
    return f"gpu-{first} of {pod.node} with {gb} GB" + "".join(f", gpu-{index} with {gb} GB" for index, gb in others)


def _equal_slots(pod: PodFacts) -> str | None:
    """`gpu-0,1`; None if the pod's shares differ."""
    if len({gb for _, gb in pod.shares}) > 1:
        return None
    return "gpu-" + ",".join(str(index) for index, _ in pod.shares)


def _gb_words(pod: PodFacts) -> str:
    return f"{pod.shares[0][1]} GB" + (" each" if len(pod.shares) > 1 else "")


def _where(placed: Sequence[PodFacts]) -> str:
    shown = "; ".join(card_words(pod) for pod in placed[:_SHOWN_PLACES])
    more = len(placed) - _SHOWN_PLACES
    text = f"{shown}; and {more} more" if more > 0 else shown
    unbound = sum(not pod.bound for pod in placed)
    end = f" ({unbound} not scheduled)" if unbound else ""
    most = _LONGEST_WHERE - len(end)
    return (text if len(text) <= most else text[: most - 3] + "...") + end


def _placement(pod: PodFacts) -> dict[str, Any]:
    return {
        "pod": pod.name,
        "node": pod.node,
        "cards": [{"index": index, "gb": gb} for index, gb in pod.shares],
        "running": pod.running,
    }


def _conditions(
    placed: int,
    wanted: int,
    refusals: Mapping[str, Mapping[str, Any]],
    newest: Mapping[str, Any] | None,
    old: Mapping[str, Any],
    now: str,
) -> list[dict[str, Any]]:
    complete = placed >= wanted and newest is None
    waiting = any(refusal.get("waitable") for refusal in refusals.values())
    state = [
        (
            "Placed",
            complete,
            "AllPlaced" if complete else "Refused" if newest else "Incomplete",
            f"{placed} of {wanted} pods have their cards",
        ),
        (
            "Waiting",
            waiting,
            "WaitingForRoom" if waiting else "NothingToWaitFor",
            "a refused pod is placed by itself once it fits" if waiting else "no refusal that waiting could help",
        ),
    ]
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
