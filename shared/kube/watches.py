"""The watches that keep a `Cluster` current: pods, nodes, namespaces, GPUNodes, and besides storage and quotas.

Without the right to see storage or quotas, as an older installation has it, decisions are made as if there were none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from shared.core.nodes import NodeFacts, node_facts
from shared.core.pods import PodFacts, interned, pod_facts
from shared.core.volume_facts import claim_facts, storage_class_facts, volume_facts
from shared.kube import paths
from shared.kube.client import Json, KubeClient
from shared.kube.cluster import Cluster
from shared.kube.gpunodes import GpuNode, gpu_node
from shared.kube.quotas import limited_resources
from shared.kube.reflector import Pace, Reflector

T = TypeVar("T")

FRESH_S: Final = 150.0
"""A watch that heard nothing for this long is behind; a healthy one hears a renewal every 75 s at most."""


@dataclass(frozen=True, slots=True)
class SeenPod:
    """A pod as watched; `facts` is None once it takes nothing from any node, if only because it has `succeeded`."""

    uid: str
    facts: PodFacts | None
    succeeded: bool = False


@dataclass(frozen=True, slots=True)
class _Namespace:
    name: str
    labels: Mapping[str, str]


class _Pods:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def upserted(self, _key: str, new: SeenPod, _old: SeenPod | None) -> None:
        if new.facts is not None:
            self._cluster.pod_upserted(new.facts)
        else:
            self._cluster.pod_deleted(new.uid, succeeded=new.succeeded)

    def deleted(self, _key: str, old: SeenPod) -> None:
        self._cluster.pod_deleted(old.uid)

    def synced(self) -> None:
        pass


class _Nodes:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def upserted(self, _key: str, new: NodeFacts, _old: NodeFacts | None) -> None:
        self._cluster.node_upserted(new)

    def deleted(self, key: str, _old: NodeFacts) -> None:
        self._cluster.node_deleted(key)

    def synced(self) -> None:
        pass


class _Namespaces:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def upserted(self, _key: str, new: _Namespace, _old: _Namespace | None) -> None:
        self._cluster.namespace_upserted(new.name, new.labels)

    def deleted(self, key: str, _old: _Namespace) -> None:
        self._cluster.namespace_deleted(key)

    def synced(self) -> None:
        pass


class _GpuNodes:
    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def upserted(self, _key: str, new: GpuNode, _old: GpuNode | None) -> None:
        self._cluster.gpu_node_upserted(new)

    def deleted(self, key: str, _old: GpuNode) -> None:
        self._cluster.gpu_node_deleted(key)

    def synced(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class _Feed(Generic[T]):
    """Hands on what there is now, whatever there was before."""

    put: Callable[[str, T], None]
    drop: Callable[[str], None]

    def upserted(self, key: str, new: T, _old: T | None) -> None:
        self.put(key, new)

    def deleted(self, key: str, _old: T) -> None:
        self.drop(key)

    def synced(self) -> None:
        pass


class Watches:
    """Runs the reflectors that feed `cluster`."""

    def __init__(self, client: KubeClient, cluster: Cluster, *, exclusive: bool, pace: Pace = Pace()) -> None:
        storage, quotas = cluster.storage, cluster.quotas

        def besides(path: str, project: Callable[[Json], T], feed: _Feed[T]) -> Reflector[T]:
            return Reflector(client, path, project, feed, optional=True, pace=pace)

        self._reflectors: tuple[Reflector[Any], ...] = (
            besides(paths.storage_classes(), storage_class_facts, _Feed(storage.class_upserted, storage.class_deleted)),
            besides(paths.volumes(), volume_facts, _Feed(storage.volume_upserted, storage.volume_deleted)),
            besides(paths.volume_claims(), claim_facts, _Feed(storage.claim_upserted, storage.claim_deleted)),
            besides(paths.resource_quotas(), limited_resources, _Feed(quotas.upserted, quotas.deleted)),
            Reflector(client, paths.nodes(), node_facts, _Nodes(cluster), pace=pace),
            Reflector(
                client,
                paths.gpu_nodes(),
                lambda raw: gpu_node(raw, exclusive=exclusive),
                _GpuNodes(cluster),
                pace=pace,
            ),
            Reflector(client, paths.namespaces(), _namespace, _Namespaces(cluster), pace=pace),
            Reflector(client, paths.pods(), _seen_pod, _Pods(cluster), pace=pace),
        )

    async def run(self) -> None:
        """Watches until cancelled."""
        async with asyncio.TaskGroup() as group:
            for reflector in self._reflectors:
                group.create_task(reflector.run())

    async def synced(self) -> None:
        """Returns once every collection has been listed."""
        for reflector in self._reflectors:
            await reflector.synced.wait()

    def behind(self, now: float) -> Iterator[str]:
        """What is not listed yet or has not been heard of for too long, at `now` of `time.monotonic`.

        Empty if all is well.
        """
        for reflector in self._reflectors:
            if not reflector.synced.is_set():
                yield f"{reflector.path} is not listed yet"
            elif (age_s := reflector.age_s(now)) > FRESH_S:
                yield f"{reflector.path} was last heard {age_s:.0f} s ago"


def _seen_pod(raw: Mapping[str, Any]) -> SeenPod:
    return SeenPod(raw["metadata"]["uid"], pod_facts(raw), (raw.get("status") or {}).get("phase") == "Succeeded")


def _namespace(raw: Mapping[str, Any]) -> _Namespace:
    metadata = raw["metadata"]
    return _Namespace(metadata["name"], interned(metadata.get("labels")))
