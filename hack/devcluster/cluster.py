"""A real control plane on this machine, with kwok for the nodes."""

from __future__ import annotations

import os
import secrets
import shutil
import ssl
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

from hack.devcluster.api import Api
from hack.devcluster.binaries import Binaries, find_binaries
from hack.devcluster.components import Identity, Layout, components
from hack.devcluster.kubeconfig import write_kubeconfig
from hack.devcluster.pki import create_pki
from hack.devcluster.processes import Process, ProcessError, free_ports, runs, start_time, stop_all

ROOT = Path(__file__).resolve().parent.parent.parent
DEV = ROOT / ".dev"
"""Where clusters keep their state; git ignores it."""

_TEMPORARY_PREFIX = "cluster-"
_STOP_GRACE_S = 3.0


class KubectlError(Exception):
    """kubectl ended with an error; the text is what it printed."""


class DevCluster:
    """One control plane with its own ports, keys and state folder: `with DevCluster() as cluster`.

    Everything runs on loopback, dies with this process, and leaves other clusters and ~/.kube alone.
    A state folder that is given is kept by `stop`, and must be empty; the default one is removed.
    """

    def __init__(
        self,
        *,
        state_dir: Path | None = None,
        binaries: Binaries | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.binaries = binaries or find_binaries()
        self._temporary = state_dir is None
        self.state_dir = state_dir or _temporary_state()
        self.state_dir.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._say = say
        pki = create_pki(self.state_dir)
        self.ca_file = pki.ca
        self.kubeconfig = self.state_dir / "kubeconfig"
        self.log_dir = self.state_dir / "logs"
        self.log_dir.mkdir()
        layout = Layout(self.binaries, self.state_dir, self.log_dir, pki, *free_ports(6))
        self.url = layout.api_url
        identities = [Identity(user, group, secrets.token_urlsafe(24)) for user, group in _USERS]
        self.admin_token = identities[0].token
        self._write_credentials(layout, identities)
        self.api = Api(self.url, self.ca_file, self.admin_token)
        self._processes = {process.name: process for process in components(layout, self.api)}

    def start(self) -> Self:
        """Start everything and wait until the cluster takes pods. On failure nothing keeps running."""
        try:
            self._start_named("etcd", "kube-apiserver")
            self._start_named("kube-scheduler", "kube-controller-manager", "kwok")
        except BaseException:
            self._end_processes()
            raise
        return self

    def _start_named(self, *names: str) -> None:
        for name in names:
            self._processes[name].start()
        for name in names:
            self._processes[name].wait_ready()
            self._say(f"{name} is ready")

    @property
    def processes(self) -> tuple[Process, ...]:
        """Every process of the control plane."""
        return tuple(self._processes.values())

    def process(self, name: str) -> Process:
        """etcd, kube-apiserver, kube-scheduler, kube-controller-manager or kwok, to kill or restart."""
        try:
            return self._processes[name]
        except KeyError:
            raise ProcessError(f"the cluster runs no {name}; it runs {', '.join(self._processes)}") from None

    def kubectl(
        self,
        *arguments: str | Path,
        input: str | None = None,  # noqa: A002 - as subprocess has it
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Run kubectl as the cluster's admin. KubectlError with its words unless `check` is False."""
        argv = [self.binaries.path("kubectl"), f"--cache-dir={self.state_dir}/kubectl-cache", *arguments]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(argv, input=input, capture_output=True, text=True, check=False, env=environment)
        if check and done.returncode != 0:
            command = " ".join(str(argument) for argument in arguments)
            raise KubectlError(f"kubectl {command}: {done.stderr.strip() or done.stdout.strip()}")
        return done

    def ssl_context(self) -> ssl.SSLContext:
        """Trusts this cluster's authority, for clients of one's own."""
        return ssl.create_default_context(cafile=str(self.ca_file))

    def stop(self) -> None:
        """End every process, and remove the state folder if it is a temporary one."""
        self._end_processes()
        if self._temporary:
            shutil.rmtree(self.state_dir, ignore_errors=True)

    def _end_processes(self) -> None:
        self.api.close()
        *core, scheduler, controllers, kwok = self.processes
        stop_all([scheduler, controllers, kwok], _STOP_GRACE_S)
        for process in reversed(core):
            process.stop(_STOP_GRACE_S)

    def _write_credentials(self, layout: Layout, identities: list[Identity]) -> None:
        layout.tokens.touch(mode=0o600)
        lines = [f'{identity.token},{identity.user},{identity.user},"{identity.group}"' for identity in identities]
        layout.tokens.write_text("\n".join(lines) + "\n")
        for identity in identities:
            path = layout.kubeconfig_of(identity.user)
            write_kubeconfig(path, url=self.url, ca_file=self.ca_file, user=identity.user, token=identity.token)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


_USERS = (
    ("admin", "system:masters"),
    ("system:kube-scheduler", "system:authenticated"),
    ("system:kube-controller-manager", "system:authenticated"),
    ("kwok", "system:masters"),
)
"""User and group. The scheduler and the controllers have the rights of any other cluster's, no more."""


def _temporary_state() -> Path:
    """A new folder for a temporary cluster. Those that killed processes left behind are removed here."""
    DEV.mkdir(exist_ok=True)
    for stale in DEV.glob(f"{_TEMPORARY_PREFIX}*"):
        pid, _, began = stale.name.removeprefix(_TEMPORARY_PREFIX).partition("-")[0].partition(".")
        if not pid.isdigit() or not runs(int(pid), began):
            shutil.rmtree(stale, ignore_errors=True)
    pid_now = os.getpid()
    return Path(tempfile.mkdtemp(prefix=f"{_TEMPORARY_PREFIX}{pid_now}.{start_time(pid_now)}-", dir=DEV))
