"""Looks at the cluster all the time while things break, and says afterwards when all was right again."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field

from hack.devcluster.api import Api, ApiError, Json
from hack.devcluster.patience import looks
from tests.chaos.every_ledger import EveryLedger
from tests.chaos.reported import misreported
from tests.chaos.rules import Schedule
from tests.chaos.standstill import standstills
from tests.chaos.told import faults_of_controllers, told_too_often, told_twice
from tests.e2e.invariants import Kind, findings, over_budget
from tests.e2e.trouble import CONVERGED_S, repeatedly

_LOOK_S = 0.25
_FOLLOW_S = 0.05


@dataclass(slots=True)
class Checker:
    """What was seen on the nodes that `nodes` names at the time."""

    api: Api
    nodes: Callable[[], Collection[str]]
    looks: int = 0
    ledgers: int = 0
    """Versions of ledgers that were judged: every one that was written while somebody looked."""
    over_commit: set[str] = field(default_factory=set)
    unrecorded: set[str] = field(default_factory=set)
    """Pods that were seen without a reservation: a create that was stored after its entry was given up has none for a
    moment. Told, and wrong only if it lasts."""

    @contextlib.contextmanager
    def looking(self) -> Iterator[None]:
        """Looks again and again while the context lasts, and at every version of a ledger."""
        watch = EveryLedger(self.api, self._judge)

        def follow() -> None:
            with contextlib.suppress(ApiError, OSError):
                watch.follow()

        with repeatedly(self._look, _LOOK_S), repeatedly(follow, _FOLLOW_S):
            yield
        self.ledgers += watch.judged

    def wrong(self) -> list[str]:
        """Everything that is not as it should be at this moment."""
        nodes = self.nodes()
        found = [*findings(self.api, nodes), *standstills(self.api, nodes), *misreported(self.api)]
        return list(map(str, found))

    def converge(self, faults_ended: float) -> tuple[float, list[str]]:
        """Waits until nothing is wrong; how many seconds after `faults_ended` (as `time.monotonic` says), and what
        still was wrong after `CONVERGED_S`, or later on a busy machine.
        """
        wrong: list[str] = []
        for _ in looks(CONVERGED_S, _LOOK_S):
            try:
                wrong = self.wrong()
            except (ApiError, OSError) as error:
                wrong = [f"the API server does not answer: {error}"]
            if not wrong:
                break
        return time.monotonic() - faults_ended, wrong

    def leaked_gb(self) -> int:
        """GB, and units of a vendor's resource, that are reserved for nobody."""
        lost = (Kind.LEAKED, Kind.KEPT)
        return sum(finding.gb for finding in findings(self.api, self.nodes()) if finding.kind in lost)

    def repeated_events(self, schedule: Schedule) -> list[str]:
        """What the operator told more often than it should in the whole cluster, given the faults so far."""
        events = self.api.get("/api/v1/events")["items"]
        began = time.time() - (time.monotonic() - schedule.began)
        faults = faults_of_controllers(schedule.injected, began)
        return [*told_twice(events), *told_too_often(events, began, faults)]

    def _judge(self, gpu_node: Json, allocatable: Mapping[str, str] | None) -> None:
        if gpu_node["metadata"]["name"] in self.nodes():
            self.over_commit |= set(map(str, over_budget(gpu_node, allocatable)))

    def _look(self) -> None:
        with contextlib.suppress(ApiError, OSError):  # the API server may be what is in trouble
            for finding in findings(self.api, self.nodes()):
                if finding.kind is Kind.OVER_COMMIT:
                    self.over_commit.add(str(finding))
                elif finding.kind is Kind.MISSING:
                    self.unrecorded.add(str(finding))
            self.looks += 1
