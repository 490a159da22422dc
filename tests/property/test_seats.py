"""However a workload restarts and whoever waits, no card is promised twice and only what the workload lacks is kept."""

from __future__ import annotations

import asyncio
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from hypothesis import example, given, settings
from hypothesis import strategies as st

from controller.ledger_keeper import LedgerKeeper
from controller.seats import Seats
from shared.api import names
from shared.core.ledger import decode_all
from shared.core.owners import OwnerRef
from shared.core.pods import PodFacts
from shared.kube import paths
from shared.kube.owners import Owners
from tests.builders import a_node, a_pod
from tests.fakes.apiserver import place_of
from tests.fakes.serving import Served, serving
from tests.unit.admission import Webhook, gpu_node, patched, reservations, store
from tests.unit.controlling import an_owner
from webhook.outcome import Admitted

_BUDGET_GB, _POD_GB = 18, 6
Event: TypeAlias = Callable[[Webhook], None]

_STEPS = (
    *("create", "create", "delete", "delete", "wait", "scale up", "scale down"),
    *("tell webhook", "tell webhook", "tell controller", "tell controller", "look", "look"),
)


@settings(max_examples=40)
@example(
    wanted=2,
    steps=["create"] * 2 + ["delete"] + ["tell webhook"] * 3 + ["create", "wait", "tell controller", "look"],
)
@example(
    wanted=2,
    steps=["create"] * 2
    + [
        "delete",
        "wait",
        "tell webhook",
        "tell webhook",
        "tell webhook",
        "create",
        "scale up",
        "tell controller",
        "look",
    ],
)
@given(wanted=st.integers(1, 3), steps=st.lists(st.sampled_from(_STEPS), min_size=20, max_size=40))
def test_restarts(wanted: int, steps: list[str]) -> None:
    """Each step is something that happens to the workload, or one of the processes notices something."""
    asyncio.run(_play(wanted, steps))


async def _play(wanted: int, steps: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        async with serving(Path(folder)) as served:
            world = _World(served, wanted)
            await world.start()
            for step in steps:
                await world.act(step)
                world.check()
            await world.settle()
            world.check()
            kept, free = world.kept(), world.wanted - len(world.pods)
            assert kept <= max(0, free), "no more is kept than the workload lacks"
            assert world.entries() - kept == len(world.pods) + world.waiters, "and what is not kept has a pod"
            for _ in range(kept):
                assert await world.create(), "a seat that is kept is one for the workload"


class _World:
    """A card, a webhook and a controller that each hear of pods with a delay, and a Deployment that is restarted."""

    def __init__(self, served: Served, wanted: int) -> None:
        self.served = served
        self.wanted = wanted
        self.pods: dict[str, str] = {}
        """The ids of the workload's pods by name, the oldest first."""
        self.waiters = 0
        self._made = 0
        self._webhook, self._controller = Webhook(served), Webhook(served)
        self._untold: dict[int, deque[Event]] = {id(each): deque() for each in (self._webhook, self._controller)}

    async def start(self) -> None:
        self._top = an_owner(self.served, "Deployment", "chat", None, replicas=self.wanted)
        self._owner = an_owner(self.served, "ReplicaSet", "chat-1", self._top, replicas=9)
        await self._webhook.see(a_node("n1"), gpu_node("n1", _BUDGET_GB))
        await self._controller.see_stored(a_node("n1"))
        seats = Seats(self._controller.cluster, Owners(self.served.client), self._pods_of, unix_time=lambda: 1)
        cluster, ledger = self._controller.cluster, self._controller.ledger
        self._keeper = LedgerKeeper(self.served.client, cluster, ledger, seats, ttl_s=1000.0, kept_s=1000.0)

    async def act(self, step: str) -> None:
        match step:
            case "create" if len(self.pods) < self.wanted:
                await self.create()
            case "delete" if self.pods:
                name = next(iter(self.pods))
                del self.pods[name]
                await self.served.client.delete(paths.pods("models", name))
                self._tell_all(lambda process: process.cluster.pod_deleted(f"uid-{name}"))
            case "wait":
                self.waiters += await self._place(a_pod("").annotated(names.VRAM, str(_POD_GB)).raw()) is not None
            case "scale up" | "scale down":
                self._scale(min(3, self.wanted + 1) if step == "scale up" else max(0, self.wanted - 1))
            case "tell webhook":
                await self._hear(self._webhook)
            case "tell controller":
                await self._hear(self._controller)
            case "look":
                await self._keeper.reconcile("n1")

    async def create(self) -> bool:
        """A pod of the workload is created, if it is let in."""
        owner = self._owner
        pod = a_pod("").annotated(names.VRAM, str(_POD_GB)).owned_by(owner.kind, owner.name, owner.uid).raw()
        placed = await self._place(pod)
        if placed is not None:
            self.pods[placed["metadata"]["name"]] = placed["metadata"]["labels"][names.RESERVATION]
        return placed is not None

    async def settle(self) -> None:
        """Everybody hears of everything, and the controller has looked."""
        for process in (self._webhook, self._controller):
            while self._untold[id(process)]:
                await self._hear(process)
        for _ in range(2):
            await self._keeper.reconcile("n1")
        await self._webhook.ledger.refresh("n1")

    def check(self) -> None:
        entries, broken = decode_all(reservations(self.served.server.objects, "n1"))
        assert not broken
        assert sum(gb for entry in entries.values() for _, gb in entry.shares) <= _BUDGET_GB
        assert set(self.pods.values()) <= entries.keys(), "no pod that exists loses its entry"

    def kept(self) -> int:
        return sum(";kept" in text for text in reservations(self.served.server.objects, "n1").values())

    def entries(self) -> int:
        return len(reservations(self.served.server.objects, "n1"))

    async def _place(self, pod: dict[str, Any]) -> dict[str, Any] | None:
        outcome = await self._webhook.mutate(pod)
        if not isinstance(outcome, Admitted):
            return None
        self._made += 1
        name = f"pod-{self._made}"
        placed = patched(pod, outcome)
        placed["metadata"]["name"] = name
        store(self.served.server.objects, paths.pods("models"), placed)
        self._tell_all(lambda process: process.see_pod(placed, uid=f"uid-{name}"))
        return placed

    def _scale(self, wanted: int) -> None:
        self.wanted = wanted
        path = paths.object_path("apps/v1", "Deployment", "models", "chat")
        self.served.server.objects.update(place_of(path), lambda old: {**old, "spec": {"replicas": wanted}})

    def _tell_all(self, event: Event) -> None:
        for events in self._untold.values():
            events.append(event)

    async def _hear(self, process: Webhook) -> None:
        await process.ledger.refresh("n1")
        if self._untold[id(process)]:
            self._untold[id(process)].popleft()(process)

    def _pods_of(self, _namespace: str, _top: OwnerRef) -> list[PodFacts]:
        return [pod for pod in self._controller.cluster.placed_pods() if pod.owner is not None]
