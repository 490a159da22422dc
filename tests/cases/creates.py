"""Requests of clients: creates and updates on their way through admission, and what comes back.

A create that later steps come back to is not stored before the last of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from tests.cases.admission import API_SERVER, RESOURCE_QUOTA, Admission, Passage
from tests.cases.kinds import api_version_of, namespace_of, plural_of
from tests.cases.outcome import Answer
from tests.cases.owners import fill_in, steps_of, with_wishes
from tests.cases.registered import Review
from tests.cases.stages import quota_refusal
from tests.cases.world import World
from tests.fakes.api import json_patched, merged
from tests.fakes.objects import Json, RefusalError, copied
from tests.fakes.pod_rules import with_defaults

_FIRST_RETRY_S: Final = 0.005
_LONGEST_RETRY_S: Final = 1000.0
_MIRROR: Final = "kubernetes.io/config.mirror"


@dataclass(slots=True)
class _Held:
    """A request that later steps come back to, so that it is not stored before the last of them, `until`."""

    passage: Passage
    step: Json
    until: int


@dataclass(slots=True)
class Requests:
    """Sends requests. `scheduled` are the uids of pods that may be bound, `retries` run in the background."""

    case: Json
    world: World
    admission: Admission
    patched: dict[int, Json] = field(default_factory=dict)
    scheduled: set[str] = field(default_factory=set)
    retries: list[asyncio.Task[None]] = field(default_factory=list)
    _held: dict[int, _Held] = field(default_factory=dict)
    _sent: int = 0

    async def create(self, number: int, step: Json, replica: str | None) -> Answer:
        """Sends one create; where the step says so, its owner's controller repeats it after a refusal."""
        answer = await self._create_once(number, step, replica)
        if step.get("retriedByController") and not answer.allowed:
            self.retries.append(asyncio.create_task(self._retry(number, step, replica)))
        return answer

    async def booked(self, pod: Json) -> Json:
        """A pod as the product lets it in; as it was if the product will not have it."""
        passage = self._passage({"object": {key: value for key, value in pod.items() if key != "status"}}, None)
        await self.admission.mutate(passage)
        return pod if passage.refused else {**passage.object, "status": pod["status"]}

    async def _create_once(self, number: int, step: Json, replica: str | None) -> Answer:
        timer = _Timer.start()
        passage = self._passage(step, replica)
        before = _as_sent(passage)
        await self.admission.mutate(passage)
        self.patched[number] = copied(passage.object)
        until = self._last_mention(number)
        if until is not None:
            self._held[number] = _Held(passage, step, until)
        else:
            await self._store(passage, step)
        return timer.answer(passage, before)

    async def _retry(self, number: int, step: Json, replica: str | None) -> None:
        """Repeats a refused create as the owner's controller does, until it is let in or the owner is gone."""
        pause_s, known = _FIRST_RETRY_S, self._owner_version(step)
        while known is not None:
            await self._until_owner_changes(step, known, pause_s)
            pause_s, known = min(2 * pause_s, _LONGEST_RETRY_S), self._owner_version(step)
            replica = self.admission.living(replica)
            if known is not None and (await self._create_once(number, step, replica)).allowed:
                return

    async def _until_owner_changes(self, step: Json, known: str, at_most_s: float) -> None:
        try:
            async with asyncio.timeout(at_most_s):
                while self._owner_version(step) == known:
                    await self.world.store.wait_beyond(self.world.store.version)
        except TimeoutError:
            pass

    def _owner_version(self, step: Json) -> str | None:
        metadata = (step.get("object") or self.patched[step["objectFromStep"]])["metadata"]
        for reference in metadata.get("ownerReferences") or ():
            owner = self.world.find({**reference, "namespace": metadata.get("namespace")})
            return str(owner["metadata"]["resourceVersion"]) if owner is not None else None
        return ""

    def _passage(self, step: Json, replica: str | None) -> Passage:
        """The request that a create sends."""
        if "objectFromStep" in step:
            raw = copied(self.patched[step["objectFromStep"]])
            for key in ("uid", "creationTimestamp"):
                raw["metadata"].pop(key, None)
            if raw["metadata"].get("generateName"):
                raw["metadata"].pop("name", None)
        else:
            raw = copied(step["object"])
        raw = fill_in(with_wishes(raw, step), self.world.find)
        raw.setdefault("apiVersion", api_version_of(raw["kind"]))
        namespace = namespace_of(raw)
        if namespace:
            raw["metadata"]["namespace"] = namespace
        if step.get("bookingCopiedFrom"):
            raw = merged(raw, {"metadata": self._written_on(step["bookingCopiedFrom"])})
        user, groups = _sender(raw)
        review = Review(
            uid=self._request_uid(),
            operation="CREATE",
            api_version=raw["apiVersion"],
            kind=raw["kind"],
            plural=plural_of(raw["kind"]),
            namespace=namespace,
            name=raw["metadata"].get("name") or "",
            object=raw,
            dry_run=bool(step.get("dryRun")),
            user=user,
            groups=groups,
        )
        return Passage(review, raw, replica)

    async def _store(self, passage: Passage, step: Json) -> None:
        """The stages after mutation, and the object is stored if all let it pass."""
        if passage.refused:
            return
        review, sent = passage.review, passage.review.object
        metadata = passage.object["metadata"]
        if not metadata.get("name"):
            metadata["name"] = f"{metadata.get('generateName', '')}{self.world.new_suffix()}"
        uid = step.get("resultUid") or self.world.new_uid()
        metadata["uid"] = uid
        passage.review = replace(review, name=metadata["name"])
        if not await self._validated(passage) or step.get("laterAdmission"):
            return
        if self.world.find(passage.object) is not None:
            text = f'{review.plural} "{metadata["name"]}" already exists'
            passage.refuse(API_SERVER, text, {"code": 409, "reason": "AlreadyExists", "message": text})
            return
        quota = self.world.cluster.get("resourceQuota")
        if quota and review.kind == "Pod" and review.namespace in self.world.cluster["optedInNamespaces"]:
            here = [pod for pod in self.world.pods() if pod["metadata"]["namespace"] == review.namespace]
            exceeded = quota_refusal(quota, here, passage.object)
            if exceeded is not None:
                passage.refuse(RESOURCE_QUOTA, exceeded)
                return
        if review.dry_run:
            return
        pending = {"status": {"phase": "Pending"}} if review.kind == "Pod" else {}
        if step.get("schedule", True):
            self.scheduled.add(uid)
        self.world.originals[uid] = sent
        self.world.put({**passage.object, **pending}, uid)

    async def _validated(self, passage: Passage) -> bool:
        await self.admission.validate(passage)
        return not passage.refused

    async def update(self, step: Json, change: Callable[[Json], Json], subresource: str) -> Answer:
        """Sends an update of the step's object to what `change` makes of it."""
        timer, stored = _Timer.start(), self.world.existing(step["object"])
        try:
            wanted = change(copied(stored))
        except RefusalError as refusal:
            raise ValueError(f"the patch does not fit the stored object: {refusal}") from refusal
        user, groups = _sender(stored)
        review = Review(
            uid=self._request_uid(),
            operation="UPDATE",
            api_version=stored["apiVersion"],
            kind=stored["kind"],
            plural=plural_of(stored["kind"]),
            namespace=stored["metadata"].get("namespace") or "",
            name=stored["metadata"]["name"],
            object=wanted,
            old=stored,
            subresource=subresource,
            user=user,
            groups=groups,
        )
        passage = Passage(review, wanted, replica_of(step, 0))
        before = _as_sent(passage)
        await self.admission.mutate(passage)
        if not passage.refused:
            await self.admission.validate(passage)
        if not passage.refused:
            self.world.change(stored, lambda old: passage.object, subresource)
        return timer.answer(passage, before)

    async def resume(self, number: int, step: Json, *, again: bool) -> Answer:
        """Goes on with the request of an earlier step: our mutating webhooks are asked once more."""
        held = self._held_by(step)
        timer, passage = _Timer.start(), held.passage
        passage.ops, passage.warnings = [], []
        if step.get("jsonPatch"):
            passage.object = json_patched(passage.object, step["jsonPatch"])
        before = _as_sent(passage)
        if not passage.refused:
            await self.admission.mutate(passage, again=again)
        if held.until == number:
            await self._store(passage, held.step)
        return timer.answer(passage, before)

    async def validate(self, number: int, step: Json) -> Answer:
        """Has the validating webhooks look at the request of an earlier step."""
        held = self._held_by(step)
        before, timer = copied(held.passage.object), _Timer.start()
        held.passage.ops = []
        held.passage.warnings = []
        if held.until == number:
            await self._store(held.passage, held.step)
        else:
            await self.admission.validate(held.passage)
        return timer.answer(held.passage, before)

    def _held_by(self, step: Json) -> _Held:
        held = self._held.get(step["of"])
        if held is None:
            raise ValueError(f"{step['action']}: step {step['of']} is no create that came before")
        held.passage.replica = self.admission.living(held.passage.replica)
        return held

    def _last_mention(self, number: int) -> int | None:
        """The last step that comes back to step `number` before its object is stored."""
        steps = steps_of(self.case["when"])
        return max((later for later, step in enumerate(steps, 1) if step.get("of") == number), default=None)

    def _written_on(self, named: Json) -> Json:
        """What the product wrote into the metadata of a pod."""
        stored = self.world.existing(named)
        sent = self.world.originals[stored["metadata"]["uid"]]["metadata"]
        return {
            kind: {
                key: value
                for key, value in (stored["metadata"].get(kind) or {}).items()
                if (sent.get(kind) or {}).get(key) != value
            }
            for kind in ("labels", "annotations")
        }

    def _request_uid(self) -> str:
        self._sent += 1
        return f"request-{self._sent}"


@dataclass(slots=True)
class _Timer:
    """How long a request takes, by three clocks.

    The processor's is for requests that are under way together: everything runs in one thread and what waits does so on
    the case's clock, so on a machine that has nothing else to do it is the wall clock, and on a busy one it is not the
    others' work. The wall clock is what the client of a single request looks at.
    """

    started_wall: float
    started: float
    started_virtual: float

    @classmethod
    def start(cls) -> _Timer:
        """One that runs from now on."""
        return cls(time.perf_counter(), time.process_time(), time.monotonic())

    def answer(self, passage: Passage, before: Json) -> Answer:
        """The answer that has just come."""
        return Answer.of(
            passage,
            before,
            time.process_time() - self.started,
            time.monotonic() - self.started_virtual,
            time.perf_counter() - self.started_wall,
        )


def replica_of(step: Json, number: int) -> str | None:
    """The replica that serves the `number`th request of a step; None: whichever lives."""
    served_by = step.get("servedBy")
    if not served_by:
        return None
    return str(served_by) if isinstance(served_by, str) else str(served_by[number % len(served_by)])


def _as_sent(passage: Passage) -> Json:
    """The object as the webhooks see it first."""
    return with_defaults(passage.object) if passage.review.kind == "Pod" else copied(passage.object)


def _sender(raw: Json) -> tuple[str, tuple[str, ...]]:
    """Who sends an object: a node its mirror pods, a controller what it owns, else a person."""
    metadata = raw["metadata"]
    node = raw.get("spec", {}).get("nodeName")
    if node and _MIRROR in (metadata.get("annotations") or {}):
        return f"system:node:{node}", ("system:nodes", "system:authenticated")
    for reference in metadata.get("ownerReferences") or ():
        if reference.get("controller"):
            name = f"system:serviceaccount:kube-system:{reference['kind'].lower()}-controller"
            return name, ("system:serviceaccounts", "system:authenticated")
    return "user", ("system:authenticated",)
