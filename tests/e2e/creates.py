"""Pods created by many callers at once or one after another, and what came of each create."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum
from random import Random

from hack.devcluster.api import ApiError, Json
from shared.api import names
from tests.e2e.kube import Namespace, pod

_JOIN_S = 60.0
_REFUSED_PAUSE_S = 0.1
_DELETED = 0.5
_ROUNDS = 3
_FEW = 0.1
_LATE = ("(no time was left", "context deadline exceeded", "in the time allotted")
"""What the webhook and the API server say then."""


class Outcome(StrEnum):
    """What a create came to."""

    ADMITTED = "admitted"
    REFUSED = "refused"
    """The webhook said no."""
    UNAVAILABLE = "unavailable"
    """The webhook could not record a placement."""
    LATE = "late"
    """The time that the API server waits for a webhook was over first. On a machine that other tests keep busy, and
    that stands still for seconds, this says nothing about the product."""
    FAILED = "failed"
    """Anything else, such as a webhook that could not be called, or no answer."""


_LOST = {Outcome.UNAVAILABLE, Outcome.LATE}


@dataclass(frozen=True, slots=True)
class Created:
    """One pod that was to be created."""

    name: str
    outcome: Outcome
    said: str
    seconds: float


def create_at_once(namespace: Namespace, pods: Sequence[Json]) -> list[Created]:
    """Creates all `pods` at the same moment, each by a caller of its own."""
    start = threading.Barrier(len(pods))

    def call(manifest: Json) -> Created:
        start.wait()
        return create(namespace, manifest)

    with ThreadPoolExecutor(len(pods)) as callers:
        return list(callers.map(call, pods))


def create_all(namespace: Namespace, pods: Sequence[Json], settle: Callable[[], None]) -> list[Created]:
    """Creates all `pods` at the same moment. One that could not be recorded or answered in time, as on a slow machine,
    may leave a reservation without a pod: it is repeated after `settle`, which waits until that was given back.
    """
    created: dict[str, Created] = {}
    lost = list(pods)
    for _ in range(_ROUNDS):
        created.update({one.name: one for one in create_at_once(namespace, lost)})
        lost = [each for each in lost if created[each["metadata"]["name"]].outcome in _LOST]
        if not lost:
            break
        settle()
    return list(created.values())


def create(namespace: Namespace, manifest: Json) -> Created:
    """Creates one pod; never raises."""
    began = time.monotonic()
    outcome, said = _try(namespace, manifest)
    return Created(manifest["metadata"]["name"], outcome, said, time.monotonic() - began)


def _try(namespace: Namespace, manifest: Json) -> tuple[Outcome, str]:
    try:
        namespace.create(manifest)
    except ApiError as error:
        return _outcome(error), error.message
    except OSError as error:
        return Outcome.FAILED, repr(error)
    return Outcome.ADMITTED, ""


def _outcome(error: ApiError) -> Outcome:
    if error.reason == "AlreadyExists":
        # A try whose answer was lost had made it.
        return Outcome.ADMITTED
    if any(late in error.message for late in _LATE):
        return Outcome.LATE
    if "denied the request: unavailable" in error.message:
        return Outcome.UNAVAILABLE
    return Outcome.REFUSED if "denied the request" in error.message else Outcome.FAILED


def few_are_late(outcomes: Mapping[Outcome, int] | Mapping[str, int]) -> bool:
    """Whether so few of the creates were late that a busy machine explains it."""
    return outcomes.get(Outcome.LATE, 0) <= _FEW * sum(outcomes.values())


@dataclass(slots=True, eq=False)
class Stream:
    """Creates of a steady stream so far."""

    creates: list[Created] = field(default_factory=list)

    def outcomes(self) -> Counter[Outcome]:
        """How many creates came to what."""
        return Counter(one.outcome for one in tuple(self.creates))

    def failed(self) -> list[Created]:
        """Those that were neither admitted nor, where these are few, late."""
        fine = {Outcome.ADMITTED, Outcome.LATE} if few_are_late(self.outcomes()) else {Outcome.ADMITTED}
        return [one for one in self.creates if one.outcome not in fine]


@contextlib.contextmanager
def steady_creates(namespace: Namespace, pool: str, *, callers: int = 2, pause_s: float = 0.3) -> Iterator[Stream]:
    """While the context lasts, callers create a pod of 1 GB each and delete it, again and again."""
    stream, ended = Stream(), threading.Event()

    def call(caller: int) -> None:
        for number in itertools.count():
            if ended.wait(pause_s):
                return
            name = f"steady-{caller}-{number}"
            stream.creates.append(create(namespace, pod(name, {names.VRAM: "1"}, pool=pool)))
            with contextlib.suppress(ApiError, OSError):
                namespace.delete("Pod", name)

    threads = [threading.Thread(target=call, args=(number,)) for number in range(callers)]
    for thread in threads:
        thread.start()
    try:
        yield stream
    finally:
        ended.set()
        for thread in threads:
            thread.join(_JOIN_S)


@contextlib.contextmanager
def churn(
    namespace: Namespace,
    pool: str,
    seed: int,
    *,
    gb: int | None = None,
    limits: Mapping[str, str] | None = None,
    callers: int = 6,
    pause_s: float = 0.0,
) -> Iterator[Stream]:
    """While the context lasts, callers create models of `gb` GB or with `limits`, and delete some as the seed has it.

    Each waits `pause_s` between two creates, and a little longer after one that was not admitted.
    """
    stream, ended = Stream(), threading.Event()
    asks = None if gb is None else {names.VRAM: str(gb)}

    def call(number: int) -> None:
        chance = Random(f"{seed}/{number}")
        mine: list[str] = []
        for count in itertools.count():
            if ended.wait(pause_s):
                return
            created = create(namespace, pod(f"model-{number}-{count}", asks, pool=pool, limits=limits))
            stream.creates.append(created)
            if created.outcome is Outcome.ADMITTED:
                mine.append(created.name)
            else:
                ended.wait(_REFUSED_PAUSE_S)
            if mine and chance.random() < _DELETED:
                with contextlib.suppress(ApiError, OSError):
                    namespace.delete("Pod", mine.pop(chance.randrange(len(mine))))

    with ThreadPoolExecutor(callers) as pool_of_callers:
        calls = [pool_of_callers.submit(call, number) for number in range(callers)]
        try:
            yield stream
        finally:
            ended.set()
    for done in calls:
        done.result()
