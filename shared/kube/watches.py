"""The watches that keep a `Cluster` current: pods, nodes, namespaces, GPUNodes, and besides storage, quotas and
disruption budgets.

Without the right to see one of the latter, as an older installation has it, decisions are made as if there were none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from shared.core.disruption import disruption_budget
from shared.core.nodes import node_facts
from shared.core.pod_fate import PodFate, pod_fate
from shared.core.pods import PodFacts, interned, pod_facts
from shared.core.rejected import RejectedPod, rejected_pod
from shared.core.volume_facts import claim_facts, storage_class_facts, volume_facts
from shared.kube import paths
from shared.kube.client import Json, KubeClient
from shared.kube.cluster import Cluster
from shared.kube.fates import Fates
from shared.kube.gpunodes import gpu_node
from shared.kube.quotas import limited_resources
from shared.kube.reflector import Feed, Reflector

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A pod as watched; `facts` is None once it takes nothing from any node: be it `succeeded` or `rejected`."""

    uid: str
    facts: PodFacts | None
    succeeded: bool = False
    rejected: RejectedPod | None = None
    fate: PodFate | None = None


class _Pods:
    def __init__(self, cluster: Cluster, fates: Fates | None) -> None:
        self._cluster = cluster
        self._fates = fates

    def upserted(self, _key: str, new: SeenPod, _old: SeenPod | None) -> None:
        if self._fates is not None:
            self._fates.seen(new.uid, new.fate)
        if new.facts is not None:
            self._cluster.pod_upserted(new.facts)
        else:
            self._cluster.pod_deleted(new.uid, leaves_seat=not new.succeeded and new.rejected is None)
        if new.rejected is not None:
            self._cluster.rejected.upserted(new.rejected)
        else:
            self._cluster.rejected.deleted(new.uid)

    def deleted(self, _key: str, old: SeenPod) -> None:
        if self._fates is not None:
            self._fates.gone(old.uid)
        self._cluster.pod_deleted(old.uid)
        self._cluster.rejected.deleted(old.uid)

    def synced(self) -> None:
        pass


class Watches:
    """Runs the reflectors that feed `cluster`, and `fates` where somebody tells of them."""

    def __init__(self, client: KubeClient, cluster: Cluster, *, exclusive: bool, fates: Fates | None = None) -> None:
        storage, quotas, budgets = cluster.storage, cluster.quotas, cluster.disruption_budgets

        def besides(path: str, project: Callable[[Json], T], feed: Feed[T]) -> Reflector[T]:
            return Reflector(client, path, project, feed, optional=True)

        self.reflectors: tuple[Reflector[Any], ...] = (
            besides(paths.storage_classes(), storage_class_facts, Feed(storage.class_upserted, storage.class_deleted)),
            besides(paths.volumes(), volume_facts, Feed(storage.volume_upserted, storage.volume_deleted)),
            besides(paths.volume_claims(), claim_facts, Feed(storage.claim_upserted, storage.claim_deleted)),
            besides(paths.resource_quotas(), limited_resources, Feed(quotas.upserted, quotas.deleted)),
            besides(paths.disruption_budgets(), disruption_budget, Feed(budgets.upserted, budgets.deleted)),
            Reflector(
                client,
                paths.nodes(),
                node_facts,
                Feed(lambda _name, node: cluster.node_upserted(node), cluster.node_deleted),
            ),
            Reflector(
                client,
                paths.gpu_nodes(),
                lambda raw: gpu_node(raw, exclusive=exclusive),
                Feed(lambda _name, node: cluster.gpu_node_upserted(node), cluster.gpu_node_deleted),
            ),
            Reflector(client, paths.namespaces(), _labels, Feed(cluster.namespace_upserted, cluster.namespace_deleted)),
            Reflector(client, paths.pods(), _seen_pod if fates is None else _told_pod, _Pods(cluster, fates)),
        )

    async def run(self) -> None:
        """Watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self.reflectors:
                group.create_task(reflector.run())

    async def synced(self) -> None:
        """Returns once every collection has been listed."""
        for reflector in self.reflectors:
            await reflector.synced.wait()


def _seen_pod(raw: Mapping[str, Any]) -> SeenPod:
    facts = pod_facts(raw)
    succeeded = (raw.get("status") or {}).get("phase") == "Succeeded"
    return SeenPod(raw["metadata"]["uid"], facts, succeeded, rejected_pod(raw) if facts is None else None)


def _told_pod(raw: Mapping[str, Any]) -> SeenPod:
    return replace(_seen_pod(raw), fate=pod_fate(raw))


def _labels(raw: Mapping[str, Any]) -> Mapping[str, str]:
    return interned(raw["metadata"].get("labels"))
