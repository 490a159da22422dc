"""Child processes that are ready when we say so, write to a log file each, and never outlive us."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from hack.devcluster.patience import looks

_TETHER = Path(__file__).with_name("tether.py")
_POLL_S = 0.05
_PORTS = range(20000, 32000)
"""Below the range that Linux takes for outgoing connections, so that none of those takes one of ours."""


class ProcessError(Exception):
    """A process ended, or did not get ready in time; the text carries the last lines of its log."""


class Process:
    """One child process in a process group of its own, which the kernel kills when we die.

    After a start `ready` is asked again and again until it returns True; an OSError counts as no.
    """

    def __init__(
        self,
        name: str,
        argv: Sequence[str | Path],
        *,
        log: Path,
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        ready: Callable[[], bool] | None = None,
    ) -> None:
        self.name = name
        self.log = log
        self.env = env
        self._argv = [str(part) for part in argv]
        self._cwd = cwd
        self._ready = ready
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Process id of the present or the last run; ProcessError if it was never started."""
        if self._child is None:
            raise ProcessError(f"{self.name} was never started")
        return self._child.pid

    @property
    def alive(self) -> bool:
        """True while the process runs."""
        return self._child is not None and self._child.poll() is None

    @property
    def returncode(self) -> int | None:
        """Exit status, minus the signal's number if one ended it; None while it runs."""
        return self._child.poll() if self._child else None

    @property
    def cpu_seconds(self) -> float:
        """Processor time that the process has used so far."""
        return cpu_seconds(self.pid)

    def start(self) -> None:
        """Start it without waiting. Main thread only: a child dies with the *thread* that started it."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(f"{self.name} must be started from the main thread; only waiting may happen elsewhere")
        if self.alive:
            raise RuntimeError(f"{self.name} runs already as process {self.pid}")
        command = [sys.executable, "-I", "-S", str(_TETHER), str(os.getpid()), *self._argv]
        with self.log.open("ab") as log:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=None if self.env is None else dict(self.env),
                cwd=self._cwd,
                process_group=0,
            )

    def wait_ready(self, timeout: float = 60.0) -> None:
        """Block until the process is ready; ProcessError when it ends before, or after `timeout` seconds, later where
        the machine is busy.
        """
        for _ in looks(timeout, _POLL_S):
            if self._is_ready():
                return
            if not self.alive:
                raise ProcessError(f"{self.name} {self._ending()}{self._last_words()}")
        raise ProcessError(f"{self.name} was not ready after {timeout:.0f} s{self._last_words()}")

    def _is_ready(self) -> bool:
        if not self.alive:
            return False
        if self._ready is None:
            return True
        try:
            return self._ready()
        except OSError:
            return False

    def kill(self, sig: signal.Signals = signal.SIGKILL) -> None:
        """Send a signal. After SIGKILL it waits for the end, so that the ports are free when this returns."""
        if self._child is None or not self.alive:
            return
        self._child.send_signal(sig)
        if sig == signal.SIGKILL:
            self._child.wait()

    def stop(self, grace: float = 10.0) -> None:
        """SIGTERM, and SIGKILL if it still runs `grace` seconds later. Nothing happens if it does not run."""
        stop_all([self], grace)

    def restart(self, timeout: float = 60.0) -> None:
        """Stop it if it runs, start it with the same command line, and wait until it is ready."""
        self.stop()
        self.start()
        self.wait_ready(timeout)

    def wait_ended(self, timeout: float) -> bool:
        """True when the process has ended within `timeout` seconds."""
        if self._child is None:
            return True
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._child.wait(timeout)
        return not self.alive

    def _ending(self) -> str:
        code = self.returncode
        if code is not None and code < 0:
            return f"was ended by {signal.Signals(-code).name}"
        return f"ended with code {code}"

    def _last_words(self) -> str:
        return f"; last lines of {self.log}:\n{log_tail(self.log)}"


def stop_all(processes: Iterable[Process], grace: float = 10.0) -> None:
    """Stop several processes at once: SIGTERM, then SIGKILL to those that still run `grace` seconds later."""
    processes = list(processes)
    for process in processes:
        process.kill(signal.SIGTERM)
    deadline = time.monotonic() + grace
    for process in processes:
        if not process.wait_ended(max(0.0, deadline - time.monotonic())):
            process.kill(signal.SIGKILL)


def log_tail(path: Path, lines: int = 20) -> str:
    """The last lines of a log file, indented; a remark when there are none."""
    try:
        with path.open(encoding="utf-8", errors="replace") as log:
            tail = deque(log, maxlen=lines)
    except FileNotFoundError:
        tail = deque()
    return "".join(f"    {line.rstrip()}\n" for line in tail) or "    (nothing was written)\n"


def free_ports(count: int) -> list[int]:
    """`count` different TCP ports that are free on 127.0.0.1 now."""
    ports: list[int] = []
    for port in random.sample(_PORTS, len(_PORTS)):
        if len(ports) == count:
            return ports
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            ports.append(port)
    raise ProcessError(f"no {count} free ports between {_PORTS.start} and {_PORTS.stop} on 127.0.0.1")


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, from /proc."""
    user, system = _stat_fields(pid)[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def runs(pid: int, started: str | None) -> bool:
    """Whether the very process that started then still runs, and not a later one with its pid."""
    try:
        return start_time(pid) == started and _stat_fields(pid)[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def start_time(pid: int) -> str | None:
    """When a process started, in ticks since boot: None if there is no such process."""
    try:
        return _stat_fields(pid)[19]
    except (FileNotFoundError, ProcessLookupError):
        return None


def _stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat from the third on; the second, the name, may contain anything."""
    return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
