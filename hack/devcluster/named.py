"""Clusters that outlive the command that made them, known by a name: `up` and `down`."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from hack.devcluster.binaries import find_binaries
from hack.devcluster.cluster import DEV, ROOT
from hack.devcluster.longrun import Heartbeat
from hack.devcluster.processes import log_tail, runs, start_time
from hack.devcluster.spec import load_spec
from hack.devcluster.supervisor import READY

_END_S = 30.0
_LOG_LINES = 40


class NamedClusterError(Exception):
    """A named cluster cannot be brought up or taken down."""


@dataclass(frozen=True, slots=True)
class NamedCluster:
    """Where one named cluster keeps its things, and which process is its supervisor."""

    name: str

    @property
    def folder(self) -> Path:
        """Everything of this cluster."""
        return DEV / self.name

    @property
    def state(self) -> Path:
        """The control plane's files."""
        return self.folder / "cluster"

    @property
    def kubeconfig(self) -> Path:
        """The admin's kubeconfig."""
        return self.state / "kubeconfig"

    @property
    def log(self) -> Path:
        """What the supervisor writes."""
        return self.folder / "supervisor.log"

    @property
    def _record(self) -> Path:
        return self.folder / "supervisor.json"

    def record(self, pid: int) -> None:
        """Write down which process supervises it."""
        self._record.write_text(json.dumps({"pid": pid, "started": start_time(pid)}))

    def supervisor(self) -> int | None:
        """Pid of the supervisor if it runs."""
        try:
            recorded = json.loads(self._record.read_text())
        except FileNotFoundError:
            return None
        pid = int(recorded["pid"])
        return pid if runs(pid, recorded["started"]) else None


def up(name: str, description: Path, webhooks: int) -> None:
    """Bring a cluster up and leave it running; says each step, and at the end how to use it."""
    load_spec(description)
    cluster = NamedCluster(name)
    if cluster.supervisor() is not None:
        raise NamedClusterError(
            f"cluster {name} is up already. Use it: export KUBECONFIG={cluster.kubeconfig}\n"
            f"End it: make down NAME={name}. Have another beside it: make up NAME=<another name>"
        )
    find_binaries()
    shutil.rmtree(cluster.folder, ignore_errors=True)
    cluster.folder.mkdir(parents=True)
    reading, writing = os.pipe()
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "hack.devcluster",
        "supervise",
        description.resolve(),
        cluster.state,
    ]
    with cluster.log.open("wb") as log:
        supervisor = subprocess.Popen(
            [*command, str(webhooks), str(writing)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            pass_fds=[writing],
            start_new_session=True,
        )
    os.close(writing)
    cluster.record(supervisor.pid)
    try:
        ready = _follow(reading, name)
    except BaseException:
        supervisor.terminate()
        supervisor.wait()
        shutil.rmtree(cluster.folder, ignore_errors=True)
        raise
    if not ready:
        supervisor.wait()
        said = log_tail(cluster.log, _LOG_LINES)
        raise NamedClusterError(f"cluster {name} did not come up; last lines of {cluster.log}:\n{said}")
    # It is meant to outlive us; without this Python would remark that it still runs.
    supervisor.returncode = 0
    print(f"Cluster {name} is up. Logs: {cluster.state}/logs. End it with: make down NAME={name}")
    print(f"export KUBECONFIG={cluster.kubeconfig}")


def _follow(pipe: int, name: str) -> bool:
    """Print what the supervisor says until it closes the pipe; whether its last word was that all is up."""
    heartbeat = Heartbeat(f"cluster {name}", "starting")
    said = b""
    with os.fdopen(pipe, "rb", buffering=0) as stream:
        while True:
            if not select.select([stream], [], [], 1.0)[0]:
                heartbeat.beat()
                continue
            news = stream.read(4096)
            if not news:
                break
            *lines, said = (said + news).split(b"\n")
            for line in lines:
                if line == READY.encode():
                    heartbeat.done("up")
                    return True
                heartbeat.note(line.decode())
    heartbeat.done("failed")
    return False


def down(name: str) -> None:
    """End a named cluster and remove its files."""
    cluster = NamedCluster(name)
    if not cluster.folder.is_dir():
        raise NamedClusterError(f"there is no cluster {name}; {_existing()}")
    pid = cluster.supervisor()
    if pid is not None:
        _end(pid, name)
    shutil.rmtree(cluster.folder)
    print(f"Cluster {name} is gone")


def _end(pid: int, name: str) -> None:
    """SIGTERM, and SIGKILL to a supervisor that does not end; the kernel then kills what it owns."""
    heartbeat = Heartbeat(f"cluster {name}", "ending")
    deadline = time.monotonic() + _END_S
    began = start_time(pid)
    os.kill(pid, signal.SIGTERM)
    while runs(pid, began):
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        heartbeat.beat()
        time.sleep(0.1)
    heartbeat.done()


def _existing() -> str:
    names = sorted(record.parent.name for record in DEV.glob("*/supervisor.json"))
    return f"there are: {', '.join(names)}" if names else "there is none at all"
