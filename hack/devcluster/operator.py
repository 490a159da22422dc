"""The operator on a development cluster: installed from its chart, run from this checkout with its rights."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hack.devcluster import chart
from hack.devcluster.api import ApiError, Json
from hack.devcluster.cluster import ROOT, DevCluster
from hack.devcluster.health import HOST, answers, listens
from hack.devcluster.kubeconfig import write_kubeconfig
from hack.devcluster.patience import looks
from hack.devcluster.processes import Process, ProcessError, free_ports, log_tail, stop_all
from shared.api.names import card_resource

_TOKEN_S = 30 * 24 * 3600
_READY_S = 60.0
_POLL_S = 0.1
_STOP_GRACE_S = 3.0


class Operator:
    """Controllers and webhooks as processes: `with Operator(cluster, webhooks=2) as operator`.

    `values` are chart values. With more than one webhook a forwarder spreads the calls over those that answer, as a
    Service would. The processes have fixed ports, so that each may be killed and restarted. With `via` they are started
    by that module, as `python -m <via> webhook`.
    """

    def __init__(
        self,
        cluster: DevCluster,
        *,
        webhooks: int = 1,
        controllers: int = 1,
        values: Mapping[str, Any] | None = None,
        via: str | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._cluster = cluster
        self._via = [via] if via else []
        self._say = say
        self._state = cluster.state_dir / "operator"
        self._state.mkdir(mode=0o700, exist_ok=True)
        self._objects = chart.render(cluster.binaries.path("helm"), values or {}, self._state)
        self._workloads = chart.workloads(self._objects)
        ports = iter(free_ports(2 * webhooks + controllers + 1))
        listening = list(itertools.islice(ports, webhooks))
        self.webhooks = [self._webhook(number, port, next(ports)) for number, port in enumerate(listening)]
        self.controllers = [self._process("controller", number, next(ports), {}) for number in range(controllers)]
        called = next(ports) if webhooks > 1 else listening[0]
        self.forwarder = self._forwarder(called, listening) if webhooks > 1 else None
        self.webhook_url = f"https://{HOST}:{called}"

    @property
    def controller(self) -> Process:
        """The only controller, or the first of several."""
        return self.controllers[0]

    @property
    def processes(self) -> tuple[Process, ...]:
        """Every process of the operator."""
        return (*([self.forwarder] if self.forwarder else []), *self.controllers, *self.webhooks)

    def install(self) -> None:
        """Apply the chart's objects and give each service account a kubeconfig; starts nothing."""
        chart.install(self._cluster, self._objects, self.webhook_url)
        for program, workload in self._workloads.items():
            self._write_kubeconfig(program, workload.service_account)
        self._say("the chart is installed")

    def start(self) -> Self:
        """Install, start everything and wait until pods are placed. On failure nothing keeps running."""
        try:
            self.install()
            for process in self.processes:
                process.start()
            for process in self.processes:
                process.wait_ready(_READY_S)
                self._say(f"{process.name} is ready")
            self._wait_until("the certificate's authority is in both webhook configurations", self._trusted)
            self._wait_until("the chart's policies are enforced", self._guarded)
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the operator's processes; what is installed stays."""
        stop_all(self.processes, _STOP_GRACE_S)

    def _webhook(self, number: int, port: int, health_port: int) -> Process:
        listen = {"PLACEMENT_LISTEN_HOST": HOST, "PLACEMENT_LISTEN_PORT": str(port)}
        return self._process("webhook", number, health_port, listen)

    def _process(self, program: str, number: int, health_port: int, overrides: Mapping[str, str]) -> Process:
        workload = self._workloads[program]
        name = f"{program}-{number}"
        inherited = {key: value for key, value in os.environ.items() if not key.startswith("PLACEMENT_")}
        environment = {
            **inherited,
            **workload.environment(f"{workload.name}-{number}"),
            "PLACEMENT_EXTRA_SANS": HOST,
            "PLACEMENT_HEALTH_HOST": HOST,
            "PLACEMENT_HEALTH_PORT": str(health_port),
            "KUBECONFIG": str(self._kubeconfig(program)),
            "PYTHONUNBUFFERED": "1",
            **overrides,
        }
        return Process(
            name,
            [sys.executable, "-m", *self._via, program],
            log=self._cluster.log_dir / f"{name}.log",
            env=environment,
            cwd=ROOT,
            ready=lambda: answers(health_port, "/readyz"),
        )

    def _forwarder(self, port: int, backends: list[int]) -> Process:
        ports = [str(number) for number in (port, *backends)]
        return Process(
            "forwarder",
            [sys.executable, "-m", "hack.devcluster.forwarder", *ports],
            log=self._cluster.log_dir / "forwarder.log",
            cwd=ROOT,
            ready=lambda: listens(port),
        )

    def _kubeconfig(self, program: str) -> Path:
        return self._state / f"{program}.kubeconfig"

    def _write_kubeconfig(self, program: str, service_account: str) -> None:
        path = f"/api/v1/namespaces/{chart.NAMESPACE}/serviceaccounts/{service_account}/token"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest"}
        answer = self._cluster.api.create(path, {**request, "spec": {"expirationSeconds": _TOKEN_S}})
        write_kubeconfig(
            self._kubeconfig(program),
            url=self._cluster.url,
            ca_file=self._cluster.ca_file,
            user=service_account,
            token=answer["status"]["token"],
        )

    def _wait_until(self, what: str, true: Callable[[], bool]) -> None:
        for _ in looks(_READY_S, _POLL_S):
            if true():
                self._say(what)
                return
        log = self.controller.log
        raise ProcessError(f"after {_READY_S:.0f} s it is not true that {what}; {log}:\n{log_tail(log)}")

    def _trusted(self) -> bool:
        configurations = [self._cluster.api.get(path) for path in chart.webhook_configurations(self._objects)]
        return all(
            webhook["clientConfig"].get("caBundle")
            for configuration in configurations
            for webhook in configuration["webhooks"]
        )

    def _guarded(self) -> bool:
        """Whether a hand-written per-card request is refused: a new policy takes a second to be enforced."""
        container = {"name": "probe", "image": "none", "resources": {"limits": {card_resource(0): "1"}}}
        pod: Json = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "probe"},
            "spec": {"containers": [container]},
        }
        try:
            self._cluster.api.create("/api/v1/namespaces/default/pods?dryRun=All", pod)
        except ApiError as error:
            return "ValidatingAdmissionPolicy" in error.message
        return False

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
