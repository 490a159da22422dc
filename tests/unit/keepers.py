"""The controller's ledger keeper where no workload has a pod to come, so that no seat is kept for long."""

from __future__ import annotations

from controller.control_recorder import ControlRecorder
from controller.ledger_keeper import LedgerKeeper
from controller.seats import Seats
from shared.kube.client import KubeClient
from shared.kube.cluster import Cluster
from shared.kube.ledger import Ledger
from shared.kube.owners import Owners


def a_keeper(
    client: KubeClient,
    cluster: Cluster,
    ledger: Ledger,
    *,
    ttl_s: float = 1000.0,
    kept_s: float = 1000.0,
    recorder: ControlRecorder | None = None,
) -> LedgerKeeper:
    """Entries wait for their pods for `ttl_s`."""
    seats = Seats(cluster, Owners(client), lambda _namespace, _top: (), unix_time=lambda: 0)
    return LedgerKeeper(client, cluster, ledger, seats, ttl_s=ttl_s, kept_s=kept_s, recorder=recorder)
