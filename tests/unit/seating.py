"""Two nodes, a controller that keeps their ledgers, and workloads whose pods come and go."""

from __future__ import annotations

from typing import Any

from controller.ledger_keeper import LedgerKeeper
from controller.seats import Seats
from shared.api import names
from shared.core.ledger import Entry, Mark, decode_all
from shared.core.nodes import node_facts
from shared.core.owners import OwnerRef
from shared.core.pods import PodFacts
from shared.kube import paths
from shared.kube.ledger import Ledger
from tests.builders import a_node, a_pod
from tests.fakes.apiserver import place_of
from tests.unit.admission import gpu_node, reservations, store
from tests.unit.controlling import Control, an_owner

IDS = ("aaaaaaaaaa", "bbbbbbbbbb", "cccccccccc")
NOW = 1_800_000_000


class Scene:
    """Two nodes of 40 GB, a controller's keeper, and the pods of workloads that come and go."""

    def __init__(self, control: Control) -> None:
        self.control = control
        self.cluster = control.cluster
        self.tops: dict[str, OwnerRef] = {}
        self.pods_are_known = True
        self.ledger = Ledger(control.served.client, self.cluster, exclusive=False)
        self.keeper = self.new_keeper()

    def new_keeper(self, kept_s: float = 1000.0, ttl_s: float = 1000.0) -> LedgerKeeper:
        """A leader that has seen nothing yet of what its own processes remember of ids."""
        seats = Seats(self.cluster, self.control.owners, self._pods_of, unix_time=lambda: NOW)
        return LedgerKeeper(self.control.served.client, self.cluster, self.ledger, seats, ttl_s=ttl_s, kept_s=kept_s)

    async def start(self) -> None:
        for name in ("n1", "n2"):
            self.cluster.node_upserted(node_facts(a_node(name).raw()))
            store(self.control.objects, paths.gpu_nodes(), gpu_node(name, 40))
            await self.ledger.refresh(name)

    def deployment(self, replicas: int = 1) -> OwnerRef:
        return an_owner(self.control.served, "Deployment", "chat", None, replicas=replicas)

    def replica_set(self, above: OwnerRef | None, replicas: int = 1, name: str = "chat-1") -> OwnerRef:
        return an_owner(self.control.served, "ReplicaSet", name, above, replicas=replicas)

    def stateful_set(self, replicas: int = 1) -> OwnerRef:
        return an_owner(self.control.served, "StatefulSet", "steady", None, replicas=replicas)

    def pod(self, number: int, owner: OwnerRef | None, top: OwnerRef | None = None, node: str = "n1") -> PodFacts:
        """The pod with the `number`th id, which runs."""
        share = {names.card_resource(0): "6"}
        pod = a_pod(f"pod-{number}").limited_to(share).label(names.RESERVATION, IDS[number]).on(node)
        if owner is not None:
            pod.owned_by(owner.kind, owner.name, owner.uid, owner.api_version)
        facts = pod.facts()
        if top is not None:
            self.tops[facts.key] = top
        self.cluster.pod_upserted(facts)
        return facts

    def gone(self, *pods: PodFacts) -> None:
        for pod in pods:
            self.cluster.pod_deleted(pod.key)

    async def settle(self) -> None:
        for node in ("n1", "n2"):
            await self.keeper.reconcile(node)

    def entries(self) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for node in ("n1", "n2"):
            found |= decode_all(reservations(self.control.objects, node))[0]
        return found

    def marks(self) -> dict[str, Mark]:
        return {reservation: entry.mark for reservation, entry in self.entries().items()}

    def _pods_of(self, namespace: str, top: OwnerRef) -> list[PodFacts] | None:
        if not self.pods_are_known:
            return None
        pods = (self.cluster.pod(key) for key, of in self.tops.items() if of == top)
        return [pod for pod in pods if pod is not None and pod.namespace == namespace]


def path_of(owner: OwnerRef) -> str:
    return paths.object_path(owner.api_version, owner.kind, "models", owner.name)


def change(scene: Scene, owner: OwnerRef, **spec: Any) -> None:
    """Changes the spec of an owner."""
    scene.control.objects.update(place_of(path_of(owner)), lambda old: {**old, "spec": {**old["spec"], **spec}})
