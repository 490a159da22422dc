"""What is counted of the controller's own doing: entries that it changed, owners that it woke, terms as the leader."""

from __future__ import annotations

from collections.abc import Set
from enum import StrEnum

from controller.memory_trouble import CODES
from shared.core.ledger import Mark
from shared.kube.ledger import Changes
from shared.obs import metrics
from shared.obs.metrics import counter
from shared.obs.recorders import Recorder


class Repair(StrEnum):
    """Why the controller changes an entry of a ledger."""

    POD_GONE = "pod_gone"
    NO_POD = "no_pod"
    UNREADABLE = "unreadable"
    POD_DIFFERS = "pod_differs"
    KEPT = "kept"


class ControlRecorder(Recorder):
    """The reconcilers of one process, over all its terms."""

    def __init__(self) -> None:
        repairs = counter(metrics.LEDGER_REPAIRS)
        self.woken, self.terms = counter(metrics.OWNERS_WOKEN), counter(metrics.LEADER_TERMS)
        self.stuck_deleted, self.rejected_deleted = counter(metrics.STUCK_DELETED), counter(metrics.REJECTED_DELETED)
        memory = counter(metrics.OUT_OF_MEMORY)
        self._repairs = {repair: repairs.labels(repair) for repair in Repair}
        self._memory = {code: memory.labels(code) for code in CODES.values()}
        super().__init__(repairs, self.woken, self.terms, self.stuck_deleted, self.rejected_deleted, memory)

    def ran_out(self, code: str) -> None:
        """A container was found to have died for lack of memory; `code` says of which."""
        self._memory[code].inc()

    def repaired(self, written: Changes, *, unseen: Set[str], unreadable: Set[str]) -> None:
        """Changes of a ledger were written. No pod came for the entries in `unseen`."""
        for reservation, entry in written.items():
            if entry is not None:
                repair = Repair.KEPT if entry.mark is Mark.KEPT else Repair.POD_DIFFERS
            elif reservation in unreadable:
                repair = Repair.UNREADABLE
            else:
                repair = Repair.NO_POD if reservation in unseen else Repair.POD_GONE
            self._repairs[repair].inc()
