"""A pod being changed, and the JSON Patch (RFC 6902) that does the same to the API server's copy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, TypeAlias

import orjson

from shared.core.invalid import InvalidRequest

PathPart: TypeAlias = str | int
APPEND: Final = "-"
"""As the last part of a path: behind the last element of a list."""


class PodPatch:
    """Applies each change to its own copy of the pod, `pod`, and records it in `ops`.

    Raises `InvalidRequest` for something nested so deeply that it is no pod.
    """

    def __init__(self, pod: Mapping[str, Any]) -> None:
        try:
            self.pod: dict[str, Any] = orjson.loads(orjson.dumps(pod))
        except orjson.JSONEncodeError as error:
            raise InvalidRequest("object", "{...}", "is nested deeper than any pod", "send a pod") from error
        self.ops: list[dict[str, Any]] = []

    def set(self, value: Any, *path: PathPart) -> None:
        """Writes `value` at `path`, with whatever objects are missing on the way.

        No change if it stands there already.
        """
        parent: Any = self.pod
        for depth, part in enumerate(path[:-1]):
            child = _child(parent, part)
            if child is None:
                for missing in reversed(path[depth + 1 :]):
                    value = [value] if missing == APPEND else {missing: value}
                self._write(parent, part, value, path[: depth + 1])
                return
            parent = child
        if path[-1] != APPEND and _child(parent, path[-1]) == value:
            return
        self._write(parent, path[-1], value, path)

    def remove(self, *path: PathPart) -> None:
        """Takes away what stands at `path`; no change if nothing does."""
        parent: Any = self.pod
        for part in path[:-1]:
            parent = _child(parent, part)
            if parent is None:
                return
        if not _stands(parent, path[-1]):
            return
        del parent[path[-1]]
        self.ops.append({"op": "remove", "path": _pointer(path)})

    def get(self, *path: PathPart) -> Any:
        """What stands at `path` now, or None."""
        value: Any = self.pod
        for part in path:
            value = _child(value, part)
            if value is None:
                return None
        return value

    def _write(self, parent: Any, part: PathPart, value: Any, path: tuple[PathPart, ...]) -> None:
        # A copy: later changes below this path must not reach into the recorded operation.
        recorded = orjson.loads(orjson.dumps(value))
        op = "replace" if _stands(parent, part) else "add"
        self.ops.append({"op": op, "path": _pointer(path), "value": recorded})
        if isinstance(parent, list) and part == APPEND:
            parent.append(value)
        else:
            parent[part] = value


def _child(parent: Any, part: PathPart) -> Any:
    if isinstance(parent, dict):
        return parent.get(part)
    return parent[part] if isinstance(part, int) and part < len(parent) else None


def _stands(parent: Any, part: PathPart) -> bool:
    """Whether something stands at `part`, be it null."""
    return part in parent if isinstance(parent, dict) else isinstance(part, int) and part < len(parent)


def _pointer(path: tuple[PathPart, ...]) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)
