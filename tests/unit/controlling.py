"""The controller's surroundings: a fake API server with workloads, a live picture, and the reports that are stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from controller.reports import Reports
from shared.api import names
from shared.core.nodes import node_facts
from shared.core.owners import OwnerRef
from shared.core.pods import PodFacts
from shared.kube import paths
from shared.kube.cluster import Cluster
from shared.kube.fates import Fates
from shared.kube.gpunodes import gpu_node as read_gpu_node
from shared.kube.model_placements import patch_status, placement_name
from shared.kube.owners import Owners
from tests.builders import a_node, a_pod
from tests.fakes.apiserver import place_of
from tests.fakes.objects import Json, ObjectStore, RefusalError
from tests.fakes.selectors import Selector
from tests.fakes.serving import Served, eventually, serving
from tests.unit.admission import gpu_node, store

NOW = datetime(2026, 11, 30, 10, 0, tzinfo=UTC)


def an_owner(
    served: Served, kind: str, name: str, above: OwnerRef | None = None, api: str = "apps/v1", **spec: Any
) -> OwnerRef:
    """Stores an object that owns pods and returns the reference to it."""
    metadata: Json = {"name": name}
    if above is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": above.api_version,
                "kind": above.kind,
                "name": above.name,
                "uid": above.uid,
                "controller": True,
            }
        ]
    raw = {"apiVersion": api, "kind": kind, "metadata": metadata, "spec": spec}
    group = f"/apis/{api}" if "/" in api else f"/api/{api}"
    uid = store(served.server.objects, f"{group}/namespaces/models/{kind.lower()}s", raw)["metadata"]["uid"]
    return OwnerRef(api, kind, name, uid)


def adopted(served: Served, owner: OwnerRef, above: OwnerRef) -> OwnerRef:
    """`above` is deleted without what it owns, and another of its name adopts `owner`; the other one."""
    objects = served.server.objects
    path = paths.object_path(above.api_version, above.kind, "models", above.name)
    spec = objects.get(place_of(path))["spec"]
    objects.delete(place_of(path), {})
    new = an_owner(served, above.kind, above.name, None, above.api_version, **spec)
    adopt(served, paths.object_path(owner.api_version, owner.kind, "models", owner.name), new)
    return new


def adopt(served: Served, path: str, owner: OwnerRef) -> None:
    """The object at `path` gets an owner."""
    reference = {
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
        "controller": True,
    }
    served.server.objects.set_metadata(place_of(path), {"ownerReferences": [reference]})


def stored(objects: ObjectStore, path: str) -> Json | None:
    """The object at `path`, or None."""
    try:
        return objects.get(place_of(path))
    except RefusalError:
        return None


def a_refusal(owner: OwnerRef, **fields: Any) -> Json:
    """A refusal of an owner's pods as the webhook writes it."""
    return {
        "uid": owner.uid,
        "reason": "insufficient_capacity",
        "message": "insufficient_capacity: full",
        "demand": "6 GB",
        "priority": 0,
        "since": "2026-11-30T09:00:00Z",
        "last": "2026-11-30T09:59:00Z",
        "count": 1,
        "waitable": True,
        **fields,
    }


@dataclass(slots=True)
class Control:
    """What the reconcilers work on."""

    served: Served
    cluster: Cluster
    reports: Reports
    owners: Owners
    fates: Fates = field(default_factory=Fates)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def objects(self) -> ObjectStore:
        return self.served.server.objects

    def see_node(self, name: str, *gbs: int) -> None:
        """A node with cards of `gbs` GB comes into the picture."""
        raw = gpu_node(name, *gbs)
        metadata = {**raw["metadata"], "uid": f"uid-{name}", "resourceVersion": "1"}
        self.cluster.node_upserted(node_facts(a_node(name).raw()))
        self.cluster.gpu_node_upserted(read_gpu_node({**raw, "metadata": metadata}, exclusive=False))

    def see_pod(
        self,
        name: str,
        owner: OwnerRef | None,
        gb: int = 6,
        node: str = "t4",
        phase: str = "Running",
        created: str = "2026-11-30T09:30:00Z",
        warnings: Sequence[str] = (),
    ) -> PodFacts:
        """A placed pod comes into the picture, or comes again."""
        pod = a_pod(name).limited_to({names.card_resource(0): str(gb)}).on(node).in_phase(phase).created(created)
        if owner is not None:
            pod.owned_by(owner.kind, owner.name, owner.uid)
        if warnings:
            pod.annotated(names.WARNINGS, "\n".join(warnings))
        facts = pod.facts()
        self.cluster.pod_upserted(facts)
        return facts

    async def refuse(self, workload: OwnerRef, *owners: OwnerRef, **fields: Any) -> None:
        """Refusals of `owners` are reported to their workload, and are seen."""
        refusals = {f"{owner.kind}.{owner.name}": a_refusal(owner, **fields) for owner in owners}
        await patch_status(self.served.client, "models", workload, {"refusals": refusals})
        await self.seen(workload)

    async def says(self, owner: OwnerRef, **status: Any) -> None:
        """The controller of an owner writes its status."""
        path = paths.object_path(owner.api_version, owner.kind, "models", owner.name)
        await self.served.client.merge_patch(paths.status_of(path), {"status": status})

    def see_unplaced(self, name: str, owner: OwnerRef, node: str = "t4") -> None:
        """A pod that was created past the webhook comes into the picture."""
        self.cluster.pod_upserted(a_pod(name).owned_by(owner.kind, owner.name, owner.uid).on(node).facts())

    async def seen(self, workload: OwnerRef) -> None:
        """Waits until the report of a workload is as it is stored."""

        def current() -> bool:
            raw, report = self.placement(workload), self.reports.of("models", workload)
            version = None if raw is None else raw["metadata"]["resourceVersion"]
            return version == (None if report is None else report.resource_version)

        await eventually(current)

    def placement(self, workload: OwnerRef) -> Json | None:
        """The `ModelPlacement` of a workload as it is stored."""
        return stored(self.objects, paths.model_placements("models", placement_name(workload)))

    def status(self, workload: OwnerRef) -> Json:
        return (self.placement(workload) or {}).get("status") or {}

    def events(self) -> list[Json]:
        """Every event, in the order of their names."""
        return self.objects.select(place_of(paths.events("models")), Selector())

    def start(self, work: Any) -> asyncio.Task[None]:
        """Runs `work` until the end of the test."""
        task = asyncio.create_task(work)
        self.tasks.append(task)
        return task


@asynccontextmanager
async def controlling(folder: Path) -> AsyncIterator[Control]:
    """A controller's surroundings, empty, with the reports being watched."""
    async with serving(folder) as served:
        control = Control(served, Cluster(), Reports(served.client), Owners(served.client))
        control.start(control.reports.run())
        await control.reports.listed()
        try:
            yield control
        finally:
            for task in control.tasks:
                task.cancel()
            await asyncio.gather(*control.tasks, return_exceptions=True)
