"""What scenes are made of: model pods and their owners, and what disturbs the requests of a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from shared.api import names
from shared.kube import paths
from tests.builders import PodBuilder, a_pod
from tests.chaos.crash_stage import Stage
from tests.fakes.api import ApiRequest
from tests.fakes.objects import Json, RefusalError

_TEMPLATE: Final = {
    "metadata": {"annotations": {names.VRAM: "6"}},
    "spec": {"containers": [{"name": "main"}]},
}


def chat(gb: int = 6, owner: Json | None = None) -> PodBuilder:
    """A model pod that asks for `gb` GB, of an owner if there is one."""
    pod = a_pod("chat").annotated(names.VRAM, str(gb)).unstored()
    if owner is not None:
        pod.owned_by(owner["kind"], owner["name"], owner["uid"], owner["apiVersion"])
    return pod


def once(method: str, path: str, act: Callable[[], object], *, number: int = 1) -> Callable[[ApiRequest], None]:
    """A disturbance: does `act` at the `number`th request to what begins with `path`."""
    seen = 0

    def disturb(request: ApiRequest) -> None:
        nonlocal seen
        if request.method == method and request.path.startswith(path):
            seen += 1
            if seen == number:
                act()

    return disturb


def fails(code: int, reason: str, message: str) -> Callable[[], None]:
    """An act by which a request is refused."""

    def refuse() -> None:
        raise RefusalError(code, reason, message)

    return refuse


def touched(stage: Stage, path: str) -> Callable[[], None]:
    """An act by which somebody else changes the object at a path, so that a write based on it conflicts."""

    def touch() -> None:
        stage.change(path, {"metadata": {"annotations": {"touched": str(stage.objects.version)}}})

    return touch


def agent_restarts(stage: Stage, name: str, *gbs: int) -> Callable[[], None]:
    """An act by which a `GPUNode` goes; its agent makes another one a second later."""

    def remove() -> None:
        stage.delete(paths.gpu_nodes(name))
        asyncio.get_running_loop().call_later(1.0, lambda: stage.node(name, *gbs))

    return remove


def deployment(stage: Stage, replicas: int = 1, name: str = "chat") -> Json:
    """A Deployment of so many pods, new or as it is from now on; the reference to it."""
    return stage.owner("Deployment", name, replicas=replicas, template=_TEMPLATE)


def replica_set(stage: Stage, above: Json, replicas: int = 1, *, number: int = 1) -> Json:
    """The `number`th ReplicaSet of a Deployment, new or as it is from now on; the reference to it."""
    name = f"{above['name']}-{number}"
    return stage.owner("ReplicaSet", name, above, replicas=replicas, template=_TEMPLATE)


def on_card(node: str, gb: int) -> Json:
    amounts = {names.card_resource(0): str(gb)}
    container = {"name": "main", "resources": {"limits": amounts, "requests": amounts}}
    pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    terms = {"nodeSelectorTerms": [pin]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}
    return {"containers": [container], "affinity": affinity}
