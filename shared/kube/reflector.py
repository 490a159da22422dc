"""A local copy of one collection, kept true by list and watch."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from types import MappingProxyType
from typing import Generic, Protocol, TypeVar

from shared.kube.backoff import backoff_s, jittered
from shared.kube.client import Json, KubeClient
from shared.kube.errors import ApiError, Forbidden, Gone, Throttled, Unavailable, from_status
from shared.obs.logs import get_logger

log = get_logger(__name__)

T = TypeVar("T")
T_contra = TypeVar("T_contra", contravariant=True)

_BREATHER = 500
"""Items compared before other tasks get a turn."""
_GATEWAY_TIMEOUT = 504


class Handler(Protocol[T_contra]):
    """Who is told about changes, on the event loop, in the order in which they happened.

    The calls describe the store's way from empty to what it holds now. An object that was deleted and created
    again under its name is told as `deleted`, then as `upserted` without `old`.
    """

    def upserted(self, key: str, new: T_contra, old: T_contra | None) -> None:
        """`key` is new (`old` is None) or its projection changed; not called when only other fields did."""

    def deleted(self, key: str, old: T_contra) -> None:
        """`key` is gone; `old` is the last that was seen of it."""

    def synced(self) -> None:
        """The store has just been compared with a full list; the first call means that it is complete."""


@dataclass(frozen=True, slots=True)
class Feed(Generic[T]):
    """A handler that hands on what there is now, whatever there was before."""

    put: Callable[[str, T], None]
    drop: Callable[[str], None]

    def upserted(self, key: str, new: T, _old: T | None) -> None:
        self.put(key, new)

    def deleted(self, key: str, _old: T) -> None:
        self.drop(key)

    def synced(self) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Pace:
    """How long things may take, in seconds; watches and lists are spread by chance around it.

    A watch is renewed every `watch_s`, and one that is silent for `grace_s` longer is taken for dead, so that
    a connection whose other end vanished is noticed. A list every `relist_s` repairs what no watch can show.
    Retries are `longest_retry_s` apart at most: for so long decisions rest on an old picture once the server is back.
    """

    watch_s: float = 60.0
    grace_s: float = 5.0
    relist_s: float = 600.0
    first_retry_s: float = 0.5
    longest_retry_s: float = 5.0


@dataclass(frozen=True, slots=True)
class _Item(Generic[T]):
    """An object as it came: `value` is None where the projection failed."""

    key: str
    uid: str
    value: T | None


class Reflector(Generic[T]):
    """Keeps `store` equal to the collection at `path`, reduced to what `project` takes from each object.

    Keys are `namespace/name`, or `name` for objects without a namespace. An object that `project` fails on is
    logged and left as it was last known. The selectors narrow the collection on the server. An `optional` collection
    that this account has no right to counts as synced, empty, and is asked for again now and then.

    `lists` counts the full lists, `interruptions` the lists and watches that failed.
    """

    def __init__(
        self,
        client: KubeClient,
        path: str,
        project: Callable[[Json], T],
        handler: Handler[T],
        *,
        label_selector: str = "",
        field_selector: str = "",
        optional: bool = False,
        pace: Pace = Pace(),
    ) -> None:
        self.path = path
        self.synced = asyncio.Event()
        self.last_contact: float | None = None
        self.lists = 0
        self.interruptions = 0
        self._client = client
        self._project = project
        self._handler = handler
        self._selectors = {
            key: value for key, value in (("labelSelector", label_selector), ("fieldSelector", field_selector)) if value
        }
        self._optional = optional
        self._pace = pace
        self._values: dict[str, T] = {}
        self._uids: dict[str, str] = {}
        self._version: str | None = None
        self._reached: str | None = None
        """The last version that was told, also where a watch cannot go on from there."""
        self._relist_at = 0.0

    @property
    def collection(self) -> str:
        """The kind of objects, as Kubernetes spells it in paths: `pods`."""
        return self.path.rpartition("/")[2]

    @property
    def store(self) -> Mapping[str, T]:
        """The collection as last seen: a live, read-only view."""
        return MappingProxyType(self._values)

    def age_s(self, now: float) -> float:
        """Seconds since the server was last heard, at `now` of `time.monotonic`; infinite before that.

        With a healthy server it stays below about 1.25 times `watch_s`, also when nothing changes.
        """
        return float("inf") if self.last_contact is None else now - self.last_contact

    async def run(self) -> None:
        """Lists and watches until cancelled. No answer of the server ends it."""
        failures = 0
        error: Exception | None
        while True:
            resumes = self._version is not None and time.monotonic() < self._relist_at
            try:
                if not resumes:
                    await self._relist()
                healthy, error = await self._watch(self._version or ""), None
            except ApiError as caught:
                # A position that grew too old while the server was away needs a list, and no pause before it.
                healthy, error = resumes and isinstance(caught, Gone), caught
                if not _position_survives(caught):
                    self._version = None
            except Exception as caught:
                # JSON that is no Kubernetes object, or an error of ours: the others still need their events.
                log.exception("answer not understood", path=self.path)
                healthy, error, self._version = False, caught, None
            if healthy:
                failures = 0
                continue
            if isinstance(error, Throttled):
                # It is there and says itself how long to wait, however long it was away before.
                failures = 0
            delay_s = backoff_s(failures, self._pace.first_retry_s, self._pace.longest_retry_s)
            if isinstance(error, Throttled):
                delay_s = max(delay_s, error.retry_after)
            if self._optional and isinstance(error, Forbidden):
                self._contact()
                self.synced.set()
                delay_s = max(delay_s, jittered(self._pace.watch_s))
            failures += 1
            self.interruptions += 1
            log.info("watch interrupted", path=self.path, error=error, failures=failures, retry_s=delay_s)
            await asyncio.sleep(delay_s)

    async def _relist(self) -> None:
        # A consistent read: with resourceVersion=0 a server may answer from a cache that is behind what was
        # seen before, and a restarted process would take an old ledger for the current one.
        listing = await self._client.list_as(self._convert, self.path, self._selectors)
        present = {item.key for item in listing.items}
        # A consistent list of an earlier time: the store was restored from a backup, and what is known of an object is
        # newer than what there is.
        was_set_back = _is_before(listing.resource_version, self._reached)
        self._reached = listing.resource_version
        # Additions first: while the two are mixed, memory counts as used rather than as free.
        for count, item in enumerate(listing.items, 1):
            if was_set_back:
                self._delete(item.key)
            self._upsert(item)
            if count % _BREATHER == 0:
                await asyncio.sleep(0)
        for key in self._values.keys() - present:
            self._delete(key)
        self._version = listing.resource_version
        self._relist_at = time.monotonic() + jittered(self._pace.relist_s)
        self.lists += 1
        self._contact()
        self.synced.set()
        self._tell("synced", self._handler.synced)

    async def _watch(self, version: str) -> bool:
        """Follows the collection from `version` on, and says whether that went well.

        A busy server ends the watches of whoever cannot keep up with it, so one that brought us forward may be short.
        """
        watch_s = max(1, round(jittered(self._pace.watch_s, 0.75, 1.25)))
        params = {
            **self._selectors,
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": version,
            "timeoutSeconds": str(watch_s),
        }
        opened = time.monotonic()
        stream = self._client.stream(self.path, params, read_timeout_s=watch_s + self._pace.grace_s)
        count = 0
        async with aclosing(stream) as events:
            async for event in events:
                self._apply(event)
                self._contact()
                count += 1
                if count % _BREATHER == 0:
                    await asyncio.sleep(0)
        lived_s = time.monotonic() - opened
        if lived_s < watch_s / 2 and self._version == version:
            return False
        self._contact()
        return True

    def _apply(self, event: Json) -> None:
        kind, raw = event.get("type"), event.get("object")
        if not isinstance(raw, dict):
            raise Unavailable(0, "NotKubernetes", f"watch event {kind!r} without an object")
        if kind == "ERROR":
            raise from_status(raw)
        version = (raw.get("metadata") or {}).get("resourceVersion")
        if not isinstance(version, str):
            raise Unavailable(0, "NotKubernetes", f"watch event {kind!r} without a resourceVersion")
        if _is_known(version, self._version):
            return  # late word of something that is past
        if kind in {"ADDED", "MODIFIED"}:
            self._upsert(self._convert(raw))
        elif kind == "DELETED":
            key = _key(raw["metadata"])
            # Word of an earlier object of this name may come late; its successor is there all the same.
            if self._uids.get(key) == str(raw["metadata"].get("uid")):
                self._delete(key)
        elif kind != "BOOKMARK":
            raise Unavailable(0, "NotKubernetes", f"watch event of unknown type {kind!r}")
        self._version = self._reached = version

    def _convert(self, raw: Json) -> _Item[T]:
        metadata = raw.get("metadata") or {}
        key = _key(metadata)
        try:
            value = self._project(raw)
        except Exception:
            log.exception("object not understood", path=self.path, key=key)
            return _Item(key, str(metadata.get("uid")), None)
        return _Item(key, str(metadata.get("uid")), value)

    def _upsert(self, item: _Item[T]) -> None:
        if self._uids.get(item.key, item.uid) != item.uid:
            self._delete(item.key)
        if item.value is None:
            return
        old = self._values.get(item.key)
        if old == item.value:
            return
        self._values[item.key] = item.value
        self._uids[item.key] = item.uid
        self._tell(item.key, self._handler.upserted, item.key, item.value, old)

    def _delete(self, key: str) -> None:
        self._uids.pop(key, None)
        old = self._values.pop(key, None)
        if old is not None:
            self._tell(key, self._handler.deleted, key, old)

    def _tell(self, key: str, listener: Callable[..., None], *args: object) -> None:
        try:
            listener(*args)
        except Exception:
            # One object that a consumer stumbles over must not blind every process to all others.
            log.exception("change not handled", path=self.path, key=key)

    def _contact(self) -> None:
        self.last_contact = time.monotonic()


def _key(metadata: Json) -> str:
    namespace, name = metadata.get("namespace"), metadata.get("name")
    return f"{namespace}/{name}" if namespace else str(name)


def _is_known(version: str, position: str | None) -> bool:
    """Whether an event tells of a time that the store has gone beyond. Versions are numbers that only grow."""
    return position is not None and version.isdecimal() and position.isdecimal() and int(version) <= int(position)


def _is_before(version: str, reached: str | None) -> bool:
    return reached is not None and version.isdecimal() and reached.isdecimal() and int(version) < int(reached)


def _position_survives(error: ApiError) -> bool:
    """Whether a watch may go on where it was.

    Not so when the server refused, since the resourceVersion may be the reason, nor after a 504, by which a
    server says that it has not got that far, as when it was restored from a backup.
    """
    return isinstance(error, Throttled | Unavailable) and error.status != _GATEWAY_TIMEOUT
