"""Every version of every ledger, by a watch on the API server itself, past all proxies.

Who looks now and then sees a budget exceeded only if it lasts until then. A watch tells of each write.
"""

from __future__ import annotations

import http
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from hack.devcluster.api import Api, ApiError, Json
from shared.api import names

_GPU_NODES = f"/apis/{names.API_VERSION}/gpunodes"
_NODES = "/api/v1/nodes"
_ONE_WATCH_S = 2
"""The server ends each watch after this time, and the next goes on from where it was."""

Judge: TypeAlias = Callable[[Json, Mapping[str, str] | None], None]
"""Takes a GPUNode and what its node has allocatable, None of a node that was never seen."""


@dataclass(slots=True)
class EveryLedger:
    """Tells `judge` of each GPUNode as it was after each write, from the first `follow` on.

    What a node offers is read after the writes: of one that is gone by then, what it offered last.
    """

    api: Api
    judge: Judge
    judged: int = 0
    _version: str = ""
    _allocatable: dict[str, Mapping[str, str]] = field(default_factory=dict)

    def follow(self) -> None:
        """Goes on for a moment. `ApiError` or OSError if the server cannot be asked: nothing is missed by it."""
        if not self._version:
            listed = self.api.get(_GPU_NODES)
            self._look_at_nodes()
            self._take(listed["items"])
            self._version = listed["metadata"]["resourceVersion"]
        query = f"watch=true&resourceVersion={self._version}&timeoutSeconds={_ONE_WATCH_S}"
        reply = self.api.send("GET", f"{_GPU_NODES}?{query}")
        if reply.status != http.HTTPStatus.OK:
            self._failed(reply.status)
        self._look_at_nodes()
        self._take(self._objects(reply.body))

    def _look_at_nodes(self) -> None:
        for node in self.api.get(_NODES)["items"]:
            self._allocatable[node["metadata"]["name"]] = node["status"].get("allocatable") or {}

    def _objects(self, told: bytes) -> Iterator[Json]:
        """The objects of a watch's events. One that is deleted is told of once more, as it was."""
        for line in told.splitlines():
            event = json.loads(line)
            if event["type"] == "ERROR":
                self._failed(int(event["object"]["code"]))
            self._version = event["object"]["metadata"]["resourceVersion"]
            yield event["object"]

    def _failed(self, code: int) -> None:
        """What a watch ended with. The versions that the server has forgotten are lost: it begins anew with a list."""
        if code == http.HTTPStatus.GONE:
            self._version = ""
        raise ApiError("watch of the ledgers", code, "", "the watch has ended")

    def _take(self, objects: Iterator[Json] | list[Json]) -> None:
        for each in objects:
            self.judge(each, self._allocatable.get(each["metadata"]["name"]))
            self.judged += 1
