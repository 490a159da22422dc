"""However pods end, and whatever of it the watch loses, repeats or mixes up, the ledger equals the pods afterwards."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import count
from typing import Any, Final, TypeAlias

from hypothesis import example, given, settings
from hypothesis import strategies as st

from shared.api import names
from shared.core.ledger import Mark, decode
from shared.kube import paths
from shared.kube.cluster import Cluster
from shared.kube.ledger import Ledger
from shared.kube.watches import Watches
from tests.builders import a_node, a_pod
from tests.fakes.api import Api, ApiRequest, merged, place_of
from tests.fakes.inprocess import Network, in_process_client
from tests.fakes.objects import Json, ObjectStore, RefusalError, copied
from tests.fakes.serving import eventually
from tests.unit.admission import gpu_node, store
from tests.unit.core_builders import entry
from tests.unit.keepers import a_keeper

NODES: Final = ("t4", "a10")
CARD: Final = names.card_resource(0)
PODS: Final = paths.pods("models")
TTL_S: Final = 0.05
LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"


class Fate(Enum):
    """What becomes of one event of the watch."""

    TOLD = "told"
    LOST = "lost"
    TWICE = "told twice"
    LATE = "told after the next one"


class LossyApi(Api):
    """Tells watches of pods what `fates` have in store for each event, and then the truth."""

    def __init__(self, objects: ObjectStore, fates: Sequence[Fate]) -> None:
        super().__init__(objects)
        self._fates = iter(fates)

    def be_honest(self) -> None:
        """Loses nothing any more, and has everything listed again."""
        self._fates = iter(())
        self.objects.end_watches()

    async def watch(self, request: ApiRequest) -> AsyncIterator[Json]:
        late: list[Json] = []
        async for event in super().watch(request):
            is_of_pod = request.path == paths.pods() and event["type"] not in {"BOOKMARK", "ERROR"}
            fate = next(self._fates, Fate.TOLD) if is_of_pod else Fate.TOLD
            if fate is Fate.LATE:
                late.append(event)
                continue
            if fate is not Fate.LOST:
                yield event
            if fate is Fate.TWICE:
                yield self._as_new(event)
            while is_of_pod and late:
                yield self._as_new(late.pop())

    def _as_new(self, event: Json) -> Json:
        """The event as if it had happened just now: by its old version it would be known for what it is."""
        self.objects.version += 1
        again = copied(event)
        again["object"]["metadata"]["resourceVersion"] = str(self.objects.version)
        return again


@dataclass(slots=True)
class World:
    """Two nodes with a large card each, and pods of one name after another in a few places."""

    objects: ObjectStore = field(default_factory=ObjectStore)
    numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        for name in NODES:
            self.node_back(name)

    def node_back(self, name: str) -> None:
        for path, raw in ((paths.nodes(), a_node(name).raw()), (paths.gpu_nodes(), gpu_node(name, 640))):
            if name not in {each["metadata"]["name"] for each in self.objects.everything(place_of(path))}:
                store(self.objects, path, raw)

    def node_gone(self, name: str) -> None:
        self._delete(paths.nodes(name))

    def cards_gone(self, name: str) -> None:
        self._delete(paths.gpu_nodes(name))

    def promise(self, node: str) -> str:
        """An entry is written for a pod that may come; its id."""
        number = next(self.numbers)
        reservation = "aaaaaaaa" + LETTERS[number // 26 % 26] + LETTERS[number % 26]
        patch = {"status": {"reservations": {reservation: entry({0: 6}).encode()}}}
        self._update(paths.status_of(paths.gpu_nodes(node)), patch)
        return reservation

    def forget_entries(self) -> None:
        """Somebody empties every ledger."""
        for name in NODES:
            self._update(paths.status_of(paths.gpu_nodes(name)), {"status": {"reservations": None}})

    def create(self, slot: int, node: str) -> None:
        """A pod in the place of whatever stood there, as a StatefulSet does it."""
        reservation = self.promise(node)
        self.force_delete(slot)
        pod = a_pod(f"chat-{slot}").limited_to({CARD: "6"}).label(names.RESERVATION, reservation).pinned_to(node)
        created = f"2026-11-30T09:{next(self.numbers) % 60:02}:00Z"
        raw = pod.owned_by("StatefulSet", "chat", "uid-chat").created(created).raw()
        store(self.objects, PODS, raw)

    def bind(self, slot: int) -> None:
        self._update(self._path(slot), lambda raw: {"spec": {"nodeName": _pinned(raw)}})

    def end(self, slot: int, phase: str, reason: str = "") -> None:
        self._set_status(slot, {"phase": phase, "reason": reason})

    def crash(self, slot: int) -> None:
        waiting = {"name": "main", "restartCount": 7, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
        self._set_status(slot, {"phase": "Running", "containerStatuses": [waiting]})

    def terminate(self, slot: int) -> None:
        """It is asked to go, and stays: its node does not answer."""
        self._set_metadata(slot, {"deletionTimestamp": "2026-11-30T10:00:00Z"})

    def orphan(self, slot: int) -> None:
        self._set_metadata(slot, {"ownerReferences": []})

    def force_delete(self, slot: int) -> None:
        self._delete(self._path(slot))

    def namespace_gone(self) -> None:
        for raw in self.pods():
            self._delete(paths.pods("models", raw["metadata"]["name"]))

    def pods(self) -> list[Json]:
        return self.objects.everything(place_of(PODS))

    def ledgers(self) -> dict[str, dict[str, Any]]:
        """By node and id what each holds. A seat that is kept for an owner stands for no pod."""
        found = {}
        for raw in self.objects.everything(place_of(paths.gpu_nodes())):
            texts = (raw.get("status") or {}).get("reservations") or {}
            entries = {reservation: decode(text) for reservation, text in texts.items()}
            found[raw["metadata"]["name"]] = {
                key: each.shares for key, each in entries.items() if each.mark is not Mark.KEPT
            }
        return found

    def expected(self) -> dict[str, dict[str, Any]]:
        """What the pods that exist and have not finished hold."""
        held: dict[str, dict[str, Any]] = {name: {} for name in self.ledgers()}
        for raw in self.pods():
            if not _has_ended(raw) and _pinned(raw) in held:
                held[_pinned(raw)][raw["metadata"]["labels"][names.RESERVATION]] = ((0, 6),)
        return held

    def _path(self, slot: int) -> str:
        return paths.pods("models", f"chat-{slot}")

    def _update(self, path: str, patch: Json | Callable[[Json], Json]) -> None:
        with contextlib.suppress(RefusalError):
            self.objects.update(place_of(path), lambda old: merged(old, patch(old) if callable(patch) else patch))

    def _set_status(self, slot: int, status: Json) -> None:
        """A pod that has ended does not begin again."""
        path = f"{self._path(slot)}/status"
        self._update(path, lambda old: {} if _has_ended(old) else {"status": status})

    def _set_metadata(self, slot: int, metadata: Json) -> None:
        with contextlib.suppress(RefusalError):
            self.objects.set_metadata(place_of(self._path(slot)), metadata)

    def _delete(self, path: str) -> None:
        with contextlib.suppress(RefusalError):
            self.objects.delete(place_of(path), {})


def _has_ended(raw: Json) -> bool:
    return (raw.get("status") or {}).get("phase") in {"Succeeded", "Failed"}


def _pinned(raw: Json) -> str:
    (term,) = raw["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return str(term["matchFields"][0]["values"][0])


Act: TypeAlias = tuple[Any, ...]
"""What happens: the name of a method of `World` and its arguments, or `restart` of the controller."""

slots = st.integers(0, 2)
nodes = st.sampled_from(NODES)
ENDS: Final[tuple[Act, ...]] = (
    ("end", "Succeeded"),
    ("end", "Failed"),
    ("end", "Failed", "Evicted"),
    ("end", "Failed", "UnexpectedAdmissionError"),
    ("terminate",),
    ("force_delete",),
    ("orphan",),
    ("crash",),
    ("bind",),
)
acts = st.one_of(
    st.tuples(st.just("create"), slots, nodes),
    st.builds(lambda end, slot: (end[0], slot, *end[1:]), st.sampled_from(ENDS), slots),
    st.tuples(st.sampled_from(["node_gone", "node_back", "cards_gone", "promise"]), nodes),
    st.sampled_from([("namespace_gone",), ("restart",), ("forget_entries",)]),
)


async def play(story: Sequence[tuple[Act, bool]], fates: Sequence[Fate]) -> None:
    """Has a story happen to a controller and checks that it comes to the truth.

    After each act with a True the watches and the keeper may get on before the next.
    """
    world = World()
    api = LossyApi(world.objects, fates)
    client, _ = in_process_client(Network(api))
    cluster = Cluster()
    watches = Watches(client, cluster, exclusive=False)

    def keep() -> asyncio.Task[None]:
        return asyncio.create_task(
            a_keeper(client, cluster, Ledger(client, cluster, exclusive=False), ttl_s=TTL_S).run()
        )

    watching = asyncio.create_task(watches.run())
    await watches.synced()
    keeping = keep()
    try:
        for (name, *arguments), pause in story:
            if name == "restart":
                await _end(keeping)
                keeping = keep()
            else:
                getattr(world, name)(*arguments)
            if pause:
                for _ in range(20):
                    await asyncio.sleep(0)
        api.be_honest()
        await eventually(lambda: world.ledgers() == world.expected())
        booked = {
            name: sum(gb for shares in held.values() for _, gb in shares) for name, held in world.expected().items()
        }
        await eventually(
            lambda: all(
                sum(state.used_gb.values()) == gb
                for name, gb in booked.items()
                if (state := cluster.node(name)) is not None
            )
        )
    finally:
        await _end(keeping)
        await _end(watching)


async def _end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def told(*story: Act) -> list[tuple[Act, bool]]:
    return [(act, True) for act in story]


@settings(max_examples=60)
@given(
    st.lists(st.tuples(acts, st.booleans()), max_size=14),
    st.lists(st.sampled_from(Fate), max_size=20),
)
@example(told(("create", 0, "t4"), ("end", 0, "Failed", "Evicted")), [Fate.TOLD, Fate.LOST])
@example(told(("create", 0, "t4"), ("create", 0, "a10"), ("create", 0, "t4")), [Fate.TOLD, Fate.LATE, Fate.LOST])
@example(told(("create", 0, "t4"), ("node_gone", "t4"), ("terminate", 0)), [])
@example(told(("create", 0, "t4"), ("cards_gone", "t4"), ("node_gone", "t4"), ("node_back", "t4")), [])
@example(told(("create", 0, "t4"), ("create", 1, "t4"), ("namespace_gone",)), [Fate.TOLD, Fate.TOLD, Fate.LOST])
@example(told(("create", 0, "t4"), ("force_delete", 0)), [Fate.LATE, Fate.TWICE])
def test_the_ledger_equals_the_pods_once_the_watch_tells_the_truth(
    story: list[tuple[Act, bool]], fates: list[Fate]
) -> None:
    asyncio.run(play(story, fates))
