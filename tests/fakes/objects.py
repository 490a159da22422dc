"""The memory of the fake API server: objects with resource versions, and the history for watches."""

from __future__ import annotations

import asyncio
import bisect
import secrets
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar

import orjson

from tests.fakes.selectors import Selector

Json: TypeAlias = dict[str, Any]
T = TypeVar("T")

_KEEPS_STATUS_ON_CREATE = frozenset({"nodes"})


class RefusalError(Exception):
    """A request that the API server answers with a failure `Status`."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": code,
        }
        self.code = code


def copied(raw: T) -> T:
    """A copy of JSON, several times faster than `copy.deepcopy`."""
    copy: T = orjson.loads(orjson.dumps(raw))
    return copy


@dataclass(frozen=True, slots=True)
class Place:
    """What a URL path points at: a collection or, with `name`, one object, or its subresource."""

    prefix: str
    plural: str
    namespace: str | None = None
    name: str = ""
    subresource: str = ""

    def holds(self, key: tuple[str, str, str, str]) -> bool:
        """Whether the object stored at `key` is in this collection."""
        prefix, plural, namespace, _ = key
        return (prefix, plural) == (self.prefix, self.plural) and self.namespace in {None, namespace}

    def key(self, name: str | None = None) -> tuple[str, str, str, str]:
        """Where an object of this collection is stored."""
        return (self.prefix, self.plural, self.namespace or "", name or self.name)


@dataclass(frozen=True, slots=True)
class Change:
    """A write: the object before (None when it is new) and after (None when it is deleted).

    With an `event` it is no write: watches are told `event` about the object `after`, whatever is stored.
    """

    version: int
    key: tuple[str, str, str, str]
    before: Json | None
    after: Json | None
    event: str | None = None


class ObjectStore:
    """Objects of any kind. Every write gets the next resource version and goes into the history."""

    def __init__(self, new_uid: Callable[[], str] = lambda: str(uuid.uuid4())) -> None:
        self.version = 100
        self._new_uid = new_uid
        self._objects: dict[tuple[str, str, str, str], Json] = {}
        self._last_seen: dict[str, Json] = {}
        self._history: list[Change] = []
        self._oldest = self.version
        self._waiting: dict[asyncio.Future[None], Place | None] = {}

    def get(self, place: Place) -> Json:
        """The object at `place`; 404 if there is none."""
        found = self._objects.get(place.key())
        if found is None:
            raise RefusalError(404, "NotFound", f'{place.plural} "{place.name}" not found')
        return found

    def select(self, place: Place, selector: Selector) -> list[Json]:
        """The objects of a collection by namespace and name."""
        return [
            self._objects[key]
            for key in sorted(self._objects)
            if place.holds(key) and selector.matches(self._objects[key])
        ]

    def create(self, place: Place, body: Json, *, dry_run: bool = False, uid: str | None = None) -> Json:
        """Stores a new object under its name, or one made from its generateName."""
        new = copied(body)
        metadata = new.setdefault("metadata", {})
        if not metadata.get("name") and metadata.get("generateName"):
            metadata["name"] = metadata["generateName"] + generated_suffix()
        if not metadata.get("name"):
            raise RefusalError(422, "Invalid", "metadata.name: Required value: name or generateName is required")
        if place.key(metadata["name"]) in self._objects:
            raise RefusalError(409, "AlreadyExists", f'{place.plural} "{metadata["name"]}" already exists')
        if place.namespace is not None:
            metadata["namespace"] = place.namespace
        if place.plural not in _KEEPS_STATUS_ON_CREATE:
            new.pop("status", None)
        metadata["uid"] = uid or self._new_uid()
        metadata["creationTimestamp"] = timestamp(time.time())
        metadata["generation"] = 1
        metadata.pop("resourceVersion", None)
        return new if dry_run else self._write(place.key(metadata["name"]), None, new)

    def update(self, place: Place, change: Callable[[Json], Json], *, dry_run: bool = False) -> Json:
        """Stores what `change` makes of the object, if that is based on its current state.

        The status subresource changes nothing but `status`, everything else leaves it alone. A write that
        changes nothing makes no new version, as on the real server.
        """
        old = self.get(place)
        wanted = change(copied(old))
        _check_preconditions(place, old, wanted.get("metadata") or {})
        if place.subresource == "status":
            new = {**copied(old), "status": wanted.get("status")}
        else:
            new = {**wanted, "status": old.get("status")}
            fixed = ("name", "namespace", "uid", "creationTimestamp", "generation", "resourceVersion")
            new["metadata"] = {
                **(wanted.get("metadata") or {}),
                **{key: old["metadata"][key] for key in fixed if key in old["metadata"]},
            }
        if new.get("status") is None:
            new.pop("status", None)
        if new == old or dry_run:
            return new
        ignored = {"metadata", "status"}
        if any(new.get(key) != old.get(key) for key in (new.keys() | old.keys()) - ignored):
            new["metadata"]["generation"] = old["metadata"].get("generation", 1) + 1
        return self._write(place.key(), old, new)

    def delete(self, place: Place, preconditions: Json, *, dry_run: bool = False) -> None:
        """Removes the object at once: no grace period, no finalizers."""
        old = self.get(place)
        _check_preconditions(place, old, preconditions)
        if not dry_run:
            self._write(place.key(), old, None)

    def forget_history(self) -> None:
        """Makes every watch from an earlier version on end with 410, as after a compaction."""
        self._history.clear()
        self._oldest = self.version

    def backup(self) -> tuple[int, Mapping[tuple[str, str, str, str], Json]]:
        """All objects as they are now, for `restore`."""
        return self.version, dict(self._objects)

    def restore(self, backup: tuple[int, Mapping[tuple[str, str, str, str], Json]]) -> None:
        """Sets everything back to a backup, the versions too."""
        self.version, self._objects = backup[0], dict(backup[1])
        self.forget_history()

    def changes_after(self, version: int, place: Place) -> Iterator[Change]:
        """What happened to a collection since `version`; 410 if that is longer ago than the history."""
        if version < self._oldest:
            raise RefusalError(410, "Expired", f"too old resource version: {version} ({self._oldest})")
        start = bisect.bisect_right(self._history, version, key=lambda change: change.version)
        return (change for change in self._history[start:] if place.holds(change.key))

    def everything(self, place: Place) -> list[Json]:
        """Every object of a collection."""
        return self.select(place, Selector())

    def owned_by(self, uid: str) -> list[Json]:
        """The objects that name `uid` as an owner."""
        return [
            raw
            for raw in self._objects.values()
            if any(each.get("uid") == uid for each in raw["metadata"].get("ownerReferences") or ())
        ]

    def set_metadata(self, place: Place, metadata: Json) -> Json:
        """Writes metadata that only the server itself writes, such as times and the uid."""
        old = self.get(place)
        return self._write(place.key(), old, {**old, "metadata": {**old["metadata"], **metadata}})

    def last_seen(self, uid: str) -> Json | None:
        """The object of a uid as it was last stored, also when it is gone; None if there never was one."""
        return self._last_seen.get(uid)

    def vanish(self, place: Place) -> Json:
        """Removes the object without telling any watch, as if the event were lost; the next list is right again."""
        old = self.get(place)
        del self._objects[place.key()]
        return old

    def tell(self, place: Place, event: str, raw: Json) -> None:
        """Has every watch of the collection told `event` about `raw` as it is, whatever is stored."""
        self.version += 1
        self._append(Change(self.version, place.key(raw["metadata"]["name"]), None, raw, event))

    def end_watches(self) -> None:
        """Ends every watch with 410, so that all collections are listed again."""
        self.version += 1
        self.forget_history()
        self._wake(lambda _place: True)

    async def wait_beyond(self, version: int, place: Place | None = None) -> None:
        """Until there is a write after `version`, to the collection at `place` if there is one, or watches are ended.

        Of the writes so far those to any collection count.
        """
        if self.version > version:
            return
        changed = asyncio.get_running_loop().create_future()
        self._waiting[changed] = place
        try:
            await changed
        finally:
            del self._waiting[changed]

    def _write(self, key: tuple[str, str, str, str], before: Json | None, after: Json | None) -> Json:
        self.version += 1
        written = copied(after if after is not None else before or {})
        written["metadata"]["resourceVersion"] = str(self.version)
        self._last_seen[written["metadata"]["uid"]] = written
        if after is None:
            del self._objects[key]
        else:
            self._objects[key] = written
        self._append(Change(self.version, key, before, None if after is None else written))
        return written

    def _append(self, change: Change) -> None:
        self._history.append(change)
        self._wake(lambda place: place is None or place.holds(change.key))

    def _wake(self, concerns: Callable[[Place | None], bool]) -> None:
        for waiting, place in self._waiting.items():
            if concerns(place) and not waiting.done():
                waiting.set_result(None)


def timestamp(unix_s: float) -> str:
    """A moment as Kubernetes writes it."""
    return datetime.fromtimestamp(unix_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def generated_suffix() -> str:
    """What completes a `generateName`."""
    return secrets.token_hex(3)[:5]


def _check_preconditions(place: Place, old: Json, wanted: Json) -> None:
    for field in ("resourceVersion", "uid"):
        if wanted.get(field) not in {None, "", old["metadata"][field]}:
            text = "the object has been modified; please apply your changes to the latest version and try again"
            raise RefusalError(
                409, "Conflict", f'Operation cannot be fulfilled on {place.plural} "{place.name}": {text}'
            )
