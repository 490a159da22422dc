"""A webhook without its HTTP side, before a fake API server: pods go in, outcomes come out.

webhook = Webhook(served)
await webhook.see(a_node("t4"), gpu_node("t4", 16))
outcome = await webhook.mutate(a_pod().annotated(names.VRAM, "6"))
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from itertools import count
from typing import Any

import jsonpatch

from shared.api import names
from shared.core.ledger import Mark
from shared.core.nodes import node_facts
from shared.core.pods import pod_facts
from shared.kube import paths
from shared.kube.cluster import Cluster
from shared.kube.ledger import Ledger
from shared.kube.owners import Owners
from tests.builders import NodeBuilder, PodBuilder
from tests.fakes.apiserver import place_of
from tests.fakes.objects import Json, ObjectStore, RefusalError
from tests.fakes.serving import Served
from webhook.mutate import Mutator
from webhook.outcome import Admitted, Outcome, Refused
from webhook.review import Request
from webhook.take_over import TakeOver
from webhook.take_seat import TakeSeat
from webhook.validate import Validator

NOW = 1_800_000_000
PATIENCE_S = 120.0
"""For looking up and for answering: whether a pod is placed is no question of how fast this machine is."""


def reservation_id(number: int) -> str:
    """The `number`th id that a `Webhook` makes: `aaaaaaaaaa`, `aaaaaaaaab`, ..."""
    digits = []
    for _ in range(10):
        number, digit = divmod(number, 26)
        digits.append(chr(ord("a") + digit))
    return "".join(reversed(digits))


def gpu_node(name: str, *gbs: int, vendor: str = "nvidia", **status: Any) -> Json:
    """A `GPUNode` with healthy discrete cards of `gbs` GB, as the API server stores it."""
    cards = [
        {
            "index": index,
            "uuid": f"GPU-{name}-{index}",
            "model": "card",
            "vendor": vendor,
            "class": "discrete",
            "memoryMiB": gb * 1024,
            "budgetGB": gb,
            "healthy": True,
        }
        for index, gb in enumerate(gbs)
    ]
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.GPU_NODE,
        "metadata": {"name": name},
        "spec": {},
        "status": {"cards": cards, **status},
    }


def store(objects: ObjectStore, path: str, raw: Json) -> Json:
    """Stores an object in the collection at `path` with its status, over one of its name; the uid is the server's."""
    body = {**raw, "metadata": {key: value for key, value in raw["metadata"].items() if key != "uid"}}
    place = f"{path}/{raw['metadata']['name']}"
    try:
        objects.create(place_of(path), body)
    except RefusalError:
        objects.update(place_of(place), lambda _old: body)
    return objects.update(place_of(f"{place}/status"), lambda old: {**old, **_status(raw)})


def reservations(objects: ObjectStore, node: str) -> dict[str, str]:
    """The ledger of a node as the API server holds it."""
    raw = objects.get(place_of(paths.gpu_nodes(node)))
    found: dict[str, str] = (raw.get("status") or {}).get("reservations") or {}
    return found


def request(pod: PodBuilder | Mapping[str, Any], **fields: Any) -> Request:
    """A CREATE of a pod in the namespace `models`."""
    raw = pod.raw() if isinstance(pod, PodBuilder) else pod
    return Request.model_validate(
        {
            "uid": "review",
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
            "namespace": "models",
            "object": raw,
            **fields,
        }
    )


async def keep_seat_of(process: Webhook, reservation: str) -> None:
    """The pod of an entry is gone, and the controller keeps its seat."""
    located = process.cluster.locate(reservation)
    assert located is not None
    seat = replace(located.entry, mark=Mark.KEPT)
    await process.ledger.amend(located.node, lambda _node: {reservation: seat})


def patched(pod: PodBuilder | Mapping[str, Any], outcome: Outcome) -> dict[str, Any]:
    """The pod as the API server has it after an admitting outcome."""
    assert isinstance(outcome, Admitted), outcome
    raw = pod.raw() if isinstance(pod, PodBuilder) else pod
    result: dict[str, Any] = jsonpatch.apply_patch(raw, list(outcome.ops))
    return result


def reason(outcome: Outcome) -> str:
    """The reason code of a refusing outcome."""
    assert isinstance(outcome, Refused), outcome
    return str(outcome.refusal.reason)


class Webhook:
    """One webhook process. `time` is its wall clock; the ids that it makes begin with `first_id`."""

    def __init__(
        self, served: Served, *, first_id: int = 0, runtime_class: str | None = None, preemption: bool = False
    ) -> None:
        self.time = NOW
        self.cluster = Cluster(lambda: self.time)
        self.ledger = Ledger(served.client, self.cluster, exclusive=False)
        self._objects = served.server.objects
        self._ids = count(first_id)
        owners = Owners(served.client)
        self.mutator = Mutator(
            self.cluster,
            self.ledger,
            TakeOver(served.client, self.cluster, owners),
            TakeSeat(served.client, self.cluster, owners),
            new_id=lambda: reservation_id(next(self._ids)),
            unix_time=lambda: self.time,
            runtime_class=runtime_class,
            preemption=preemption,
            patience_s=PATIENCE_S,
        )
        self.validator = Validator(self.cluster, self.ledger)

    async def see(self, node: NodeBuilder, gpu_node: Json) -> None:
        """Stores a node's cards in the API server and takes them over, as the watches would."""
        store(self._objects, paths.gpu_nodes(), gpu_node)
        await self.see_stored(node)

    async def see_stored(self, node: NodeBuilder) -> None:
        """Takes over a node whose cards are stored already."""
        facts = node_facts(node.raw())
        self.cluster.node_upserted(facts)
        await self.ledger.refresh(facts.name)

    def see_pod(self, raw: Mapping[str, Any], uid: str = "uid-stored") -> None:
        """Takes over a pod that was created meanwhile."""
        facts = pod_facts({**raw, "metadata": {**raw["metadata"], "uid": uid}})
        assert facts is not None
        self.cluster.pod_upserted(facts)

    async def mutate(
        self, pod: PodBuilder | Mapping[str, Any], *, patience_s: float = PATIENCE_S, **fields: Any
    ) -> Outcome:
        """What the mutating webhook says of a pod's CREATE."""
        deadline = asyncio.get_running_loop().time() + patience_s
        return await self.mutator.review(request(pod, **fields), deadline)

    async def place(self, pod: PodBuilder | Mapping[str, Any], **fields: Any) -> dict[str, Any]:
        """The pod as the mutating webhook makes it, which must admit it."""
        return patched(pod, await self.mutate(pod, **fields))

    async def validate(self, pod: PodBuilder | Mapping[str, Any], **fields: Any) -> Outcome:
        """What the validating webhook says of a pod's CREATE."""
        return await self.validator.review(request(pod, **fields))

    def free_gb(self, node: str) -> tuple[int, ...]:
        """Free GB of each card of a node, as this process sees it."""
        state = self.cluster.node(node)
        assert state is not None
        return state.free_gb


def _status(raw: Json) -> Json:
    return {"status": raw["status"]} if "status" in raw else {}
