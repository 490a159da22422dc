"""How each program of the control plane is started: its flags, its files, and how to see that it is ready."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hack.devcluster.api import Api
from hack.devcluster.binaries import Binaries
from hack.devcluster.health import HOST, answers
from hack.devcluster.pki import Pki
from hack.devcluster.processes import Process

_STAGES = Path(__file__).with_name("stages.yaml")
_QPS, _BURST = 500, 1000
"""Client limits of scheduler and controllers, so high that a bench measures the product and not them."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A user of the cluster, known by a token."""

    user: str
    group: str
    token: str


@dataclass(frozen=True, slots=True)
class Layout:
    """Where one cluster's programs, files and ports are."""

    binaries: Binaries
    state: Path
    logs: Path
    pki: Pki
    etcd_port: int
    peer_port: int
    api_port: int
    scheduler_port: int
    controllers_port: int
    kwok_port: int

    @property
    def api_url(self) -> str:
        """The API server's address."""
        return f"https://{HOST}:{self.api_port}"

    @property
    def tokens(self) -> Path:
        """The API server's token file."""
        return self.state / "tokens.csv"

    def kubeconfig_of(self, user: str) -> Path:
        """The kubeconfig of one user; the admin's is the one people are told of."""
        return self.state / ("kubeconfig" if user == "admin" else f"{user.removeprefix('system:')}.kubeconfig")

    def process(self, name: str, *flags: str, ready: Callable[[], bool]) -> Process:
        """A program of the control plane with its flags."""
        argv: list[str | Path] = [self.binaries.path(name), *flags]
        return Process(name, argv, log=self.logs / f"{name}.log", cwd=self.state, ready=ready)


def components(layout: Layout, api: Api) -> list[Process]:
    """The five processes, not started, in the order in which they depend on each other."""
    return [
        _etcd(layout),
        _kube_apiserver(layout, api),
        _kube_scheduler(layout),
        _kube_controller_manager(layout, api),
        _kwok(layout),
    ]


def _etcd(layout: Layout) -> Process:
    client, peer = f"http://{HOST}:{layout.etcd_port}", f"http://{HOST}:{layout.peer_port}"
    return layout.process(
        "etcd",
        f"--data-dir={layout.state}/etcd",
        f"--listen-client-urls={client}",
        f"--advertise-client-urls={client}",
        f"--listen-peer-urls={peer}",
        f"--initial-advertise-peer-urls={peer}",
        f"--initial-cluster=default={peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
        ready=lambda: answers(layout.etcd_port, "/health"),
    )


def _kube_apiserver(layout: Layout, api: Api) -> Process:
    pki = layout.pki
    return layout.process(
        "kube-apiserver",
        f"--etcd-servers=http://{HOST}:{layout.etcd_port}",
        f"--bind-address={HOST}",
        f"--advertise-address={HOST}",
        f"--secure-port={layout.api_port}",
        f"--tls-cert-file={pki.server_certificate}",
        f"--tls-private-key-file={pki.server_key}",
        f"--token-auth-file={layout.tokens}",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        f"--service-account-issuer={layout.api_url}",
        f"--service-account-key-file={pki.token_key}",
        f"--service-account-signing-key-file={pki.token_key}",
        "--service-cluster-ip-range=10.0.0.0/24",
        "--endpoint-reconciler-type=none",
        "--allow-privileged=true",
        ready=api.is_ready,
    )


def _kube_scheduler(layout: Layout) -> Process:
    kubeconfig = layout.kubeconfig_of("system:kube-scheduler")
    config = layout.state / "scheduler.json"
    settings = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"kubeconfig": str(kubeconfig), "qps": _QPS, "burst": _BURST},
    }
    config.write_text(json.dumps(settings))
    return layout.process(
        "kube-scheduler",
        f"--config={config}",
        *_serving(layout, layout.scheduler_port, kubeconfig),
        ready=lambda: answers(layout.scheduler_port, "/readyz", layout.pki.ca),
    )


def _kube_controller_manager(layout: Layout, api: Api) -> Process:
    kubeconfig = layout.kubeconfig_of("system:kube-controller-manager")

    def ready() -> bool:
        # Pods are refused in a namespace until its service account is there.
        service_account = "/api/v1/namespaces/default/serviceaccounts/default"
        return answers(layout.controllers_port, "/healthz", layout.pki.ca) and api.exists(service_account)

    return layout.process(
        "kube-controller-manager",
        f"--kubeconfig={kubeconfig}",
        "--leader-elect=false",
        "--use-service-account-credentials=true",
        f"--service-account-private-key-file={layout.pki.token_key}",
        f"--root-ca-file={layout.pki.ca}",
        f"--kube-api-qps={_QPS}",
        f"--kube-api-burst={_BURST}",
        *_serving(layout, layout.controllers_port, kubeconfig),
        ready=ready,
    )


def _kwok(layout: Layout) -> Process:
    return layout.process(
        "kwok",
        f"--kubeconfig={layout.kubeconfig_of('kwok')}",
        f"--config={_STAGES}",
        "--manage-all-nodes",
        "--node-lease-duration-seconds=40",
        "--node-ip=10.0.1.1",
        "--cidr=10.64.0.0/10",
        f"--server-address={HOST}:{layout.kwok_port}",
        ready=lambda: answers(layout.kwok_port, "/healthz"),
    )


def _serving(layout: Layout, port: int, kubeconfig: Path) -> tuple[str, ...]:
    """Flags for the health and metrics port of the scheduler and the controller manager."""
    return (
        f"--bind-address={HOST}",
        f"--secure-port={port}",
        f"--tls-cert-file={layout.pki.server_certificate}",
        f"--tls-private-key-file={layout.pki.server_key}",
        f"--authentication-kubeconfig={kubeconfig}",
        f"--authorization-kubeconfig={kubeconfig}",
        "--authentication-skip-lookup=true",
    )
