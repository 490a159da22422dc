"""Refusals whose `ModelPlacement` was deleted while their workload lives: they are written again.

The objects are the list of who waits for room. Whoever deletes one, or installs the CRD anew, does not mean to take a
workload off it; its own controller may not try again for a quarter of an hour.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from controller.reports import Refusals, Report, Workload
from shared.core.owners import controller_of

_NONE: Refusals = {}
_NOTHING: Mapping[str, Any] = {}


class LostRefusals:
    """What deleted reports said, by workload, until that stands in its report again or is over."""

    def __init__(self) -> None:
        self._lost: dict[Workload, Refusals] = {}

    def deleted(self, report: Report) -> None:
        """A report is gone; the workload has to be looked at."""
        if report.refusals:
            workload = (report.namespace, report.workload)
            self._lost[workload] = {**self._lost.get(workload, {}), **report.refusals}

    def of(self, workload: Workload, owner: Mapping[str, Any] | None) -> Refusals:
        """What is to be written again, given the top owner as it is now; None if it cannot be read.

        A workload that goes takes its report with it, and whether one goes that cannot be read nobody knows: it would
        be written and deleted again and again. What was adopted is told of the one above.
        """
        if owner is not None and controller_of(owner) is None and not owner["metadata"].get("deletionTimestamp"):
            return self._lost.get(workload, _NONE)
        self._lost.pop(workload, None)
        return _NONE

    def settled(self, workload: Workload, lost: Refusals) -> None:
        """What `of` gave stands in the report, or nowhere any more. What was lost since then is kept."""
        if self._lost.get(workload) is lost:
            del self._lost[workload]


def with_lost(stored: Refusals, lost: Refusals) -> Refusals:
    """What is stored and what was lost. An owner that was refused anew since has waited since its first refusal."""
    return {**lost, **{key: _since_the_first(refusal, lost.get(key, _NOTHING)) for key, refusal in stored.items()}}


def _since_the_first(refusal: Mapping[str, Any], lost: Mapping[str, Any]) -> Mapping[str, Any]:
    is_older = refusal.get("uid") == lost.get("uid") and str(lost.get("since")) < str(refusal.get("since"))
    return {**refusal, "since": lost["since"]} if is_older and "since" in lost else refusal
