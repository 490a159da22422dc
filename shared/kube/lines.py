"""A stream of bytes cut into lines of JSON, however the network chopped it up."""

from __future__ import annotations

from typing import Any, Final

import orjson

from shared.kube.errors import Unavailable

LONGEST_LINE: Final = 32 * 2**20
"""Bytes. An object has 3 MiB at most; what is longer than this is not from an API server."""


class LineCutter:
    """Gets the bytes of a stream piece by piece and gives back the lines that are complete."""

    def __init__(self, longest: int = LONGEST_LINE) -> None:
        self._longest = longest
        self._pending = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that `chunk` completes, but empty ones. Raises `Unavailable` for one that never ends."""
        self._pending += chunk
        whole: list[bytearray] = []
        if b"\n" in chunk:
            *whole, self._pending = self._pending.split(b"\n")
        if len(self._pending) > self._longest:
            raise Unavailable(0, "EndlessLine", f"no line end within {self._longest} bytes")
        return [bytes(line) for line in whole if line.strip()]

    def finish(self) -> None:
        """To be called at the stream's end. Raises `Unavailable` when that was in the middle of a line."""
        if self._pending.strip():
            raise Unavailable(0, "Truncated", "the stream ended in the middle of a line")


def json_object(text: bytes) -> dict[str, Any]:
    """`text` as a JSON object. Raises `Unavailable`: an API server sends nothing else."""
    try:
        decoded = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Unavailable(0, "NotKubernetes", "the answer is not JSON") from error
    if not isinstance(decoded, dict):
        raise Unavailable(0, "NotKubernetes", "the answer is JSON, but no object")
    return decoded
