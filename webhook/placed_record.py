"""The `kamiwaza.ai/placed` annotation: what was decided and what was changed, for people and tools.

It decides nothing, since anybody may edit it. It serves to show a placement, and to undo one on a copied manifest,
where the worst that an edited record can do is to change what its own author's pod asks for. It also tells a pod that
another webhook has changed since from one that is as it was placed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import orjson

from shared.api import names
from shared.core.card_choice import Share
from shared.core.unit_choice import UnitShare

_RECORD_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that was taken from the pod: where it stood, as parts of a path, and what it was.

    A container is named, never counted: other webhooks put containers in front of it.
    """

    path: tuple[str, ...]
    was: Any

    def as_json(self) -> dict[str, Any]:
        return {
            "path": "/".join(part.replace("~", "~0").replace("/", "~1") for part in self.path),
            "was": self.was,
        }


@dataclass(frozen=True, slots=True)
class RecordedShare:
    """GB of the card in slot `index` for one container, as a record tells it."""

    container: str
    index: int
    gb: int


@dataclass(frozen=True, slots=True)
class Record:
    """A `kamiwaza.ai/placed` annotation as far as it can be read.

    `demands` is a digest of what the pod demanded of its node when it was placed.
    """

    node: str
    shares: tuple[RecordedShare, ...]
    changed: tuple[Change, ...]
    units: tuple[UnitShare, ...] = ()
    demands: str = ""

    @property
    def containers(self) -> frozenset[str]:
        """The containers that were given something."""
        return frozenset(share.container for share in self.shares) | {unit.container for unit in self.units}


def write_record(
    reservation: str,
    node: str,
    shares: Sequence[Share],
    source: str,
    changed: Sequence[Change],
    units: Sequence[UnitShare] = (),
    demands: str = "",
) -> str:
    """The annotation's text."""
    record = {
        "v": _RECORD_VERSION,
        "id": reservation,
        "node": node,
        "shares": [
            {"container": share.container, "card": share.card.index, "uuid": share.card.uuid, "gb": share.gb}
            for share in shares
        ],
        **({"units": [_unit_json(unit) for unit in units]} if units else {}),
        "from": source,
        **({"demands": demands} if demands else {}),
        "changed": [change.as_json() for change in changed],
    }
    return orjson.dumps(record).decode()


def read_record(pod: Mapping[str, Any]) -> Record:
    """The record on `pod`; an empty one where it is missing or not readable."""
    annotations = (pod.get("metadata") or {}).get("annotations") or {}
    try:
        record = orjson.loads(annotations.get(names.PLACED) or "{}")
        orjson.dumps(record)  # what is nested too deep to be written again is no record
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        record = {}
    if not isinstance(record, dict):
        record = {}
    return Record(
        str(record.get("node", "")),
        tuple(_shares(record)),
        tuple(_changes(record)),
        tuple(_units(record)),
        str(record.get("demands", "")),
    )


def _unit_json(unit: UnitShare) -> dict[str, Any]:
    return {"container": unit.container, "resource": unit.resource, "count": unit.count}


def _units(record: Mapping[str, Any]) -> Iterator[UnitShare]:
    for item in _list(record, "units"):
        match item:
            case {"container": str(container), "resource": str(resource), "count": int(count)}:
                yield UnitShare(container, resource, count)


def _shares(record: Mapping[str, Any]) -> Iterator[RecordedShare]:
    for item in _list(record, "shares"):
        match item:
            case {"container": str(container), "card": int(index), "gb": int(gb)}:
                yield RecordedShare(container, index, gb)


def _changes(record: Mapping[str, Any]) -> Iterator[Change]:
    for item in _list(record, "changed"):
        match item:
            case {"path": str(path)}:
                parts = (part.replace("~1", "/").replace("~0", "~") for part in path.split("/"))
                yield Change(tuple(parts), item.get("was"))


def _list(record: Mapping[str, Any], key: str) -> Sequence[Any]:
    value = record.get(key)
    return value if isinstance(value, list) else ()
