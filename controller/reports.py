"""The `ModelPlacement`s as they are stored: what the webhooks reported and what the controller has made of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from shared.core.owners import OwnerRef
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.model_placements import placement_name
from shared.kube.reflector import Reflector

Refusals: TypeAlias = Mapping[str, Mapping[str, Any]]
"""By owner, as in the status."""

Workload: TypeAlias = tuple[str, OwnerRef]
"""Namespace and top owner."""


@dataclass(frozen=True, slots=True)
class Report:
    """One `ModelPlacement`: the workload that it is about and its status."""

    namespace: str
    uid: str
    resource_version: str
    workload: OwnerRef
    status: Mapping[str, Any]

    @property
    def refusals(self) -> Refusals:
        return self.status.get("refusals") or {}


Listener: TypeAlias = Callable[[Report | None, Report | None], None]
"""Called with a report as it is now and as it was; None where there is none."""


class Reports:
    """Every `ModelPlacement`, kept current."""

    def __init__(self, client: KubeClient) -> None:
        self.reflector = Reflector(client, paths.model_placements(), _report, self)
        self._listeners: list[Listener] = []

    async def run(self) -> None:
        """Watches until cancelled."""
        await self.reflector.run()

    async def listed(self) -> None:
        """Returns once all have been listed."""
        await self.reflector.synced.wait()

    def of(self, namespace: str, workload: OwnerRef) -> Report | None:
        """The report about a workload, or about an earlier one of its name."""
        return self.reflector.store.get(f"{namespace}/{placement_name(workload)}")

    def all(self) -> Iterable[Report]:
        return self.reflector.store.values()

    def on_change(self, listener: Listener) -> Callable[[], None]:
        """Calls `listener` after each change, until the returned function is called."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def upserted(self, _key: str, new: Report, old: Report | None) -> None:
        for listener in tuple(self._listeners):
            listener(new, old)

    def deleted(self, _key: str, old: Report) -> None:
        for listener in tuple(self._listeners):
            listener(None, old)

    def synced(self) -> None:
        pass


def _report(raw: Mapping[str, Any]) -> Report:
    metadata = raw["metadata"]
    return Report(
        namespace=metadata["namespace"],
        uid=metadata["uid"],
        resource_version=metadata["resourceVersion"],
        workload=_workload(metadata),
        status=raw.get("status") or {},
    )


def _workload(metadata: Mapping[str, Any]) -> OwnerRef:
    """The owner; one without a uid where there is none, as when a workload is deleted and what it owns left behind.

    That one has the object's name too, by which a later workload of that name finds what is in its place.
    """
    for owner in metadata.get("ownerReferences") or ():
        return OwnerRef(owner["apiVersion"], owner["kind"], owner["name"], owner["uid"])
    kind, _, name = metadata["name"].partition("-")
    return OwnerRef("", kind, name, "")
