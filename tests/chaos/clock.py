"""Steps of the wall clock of a running process: the offset is in a file that both sides have mapped.

The product reads the wall clock by `time.time` alone, which `tests/unit/test_chaos_clock.py` holds it to.
"""

from __future__ import annotations

import mmap
import struct
import time
from pathlib import Path

VARIABLE = "CHAOS_CLOCK"
"""The environment variable that names the file."""

_OFFSET = struct.Struct("d")


class Clock:
    """The hand that turns the clock of one process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.write_bytes(_OFFSET.pack(0.0))

    def step(self, offset_s: float) -> None:
        """From now on the process' wall clock is so many seconds ahead of the true one, or behind it."""
        with self.path.open("r+b") as file:
            file.write(_OFFSET.pack(offset_s))


def install(path: Path) -> None:
    """Makes `time.time` of this process follow the file."""
    with path.open("rb") as file:
        shared = mmap.mmap(file.fileno(), _OFFSET.size, access=mmap.ACCESS_READ)
    true_time = time.time

    def stepped_time() -> float:
        (offset_s,) = _OFFSET.unpack(shared)
        return true_time() + float(offset_s)

    time.time = stepped_time
