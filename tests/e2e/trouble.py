"""A cluster of one's own to break things in, and who looks meanwhile whether they hold."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass

import pytest

from hack.devcluster.api import Api, ApiError
from hack.devcluster.cluster import DevCluster
from hack.devcluster.operator import Operator
from hack.devcluster.patience import looks
from hack.devcluster.processes import Process, stop_all
from tests.e2e.conftest import PATIENT, Stage
from tests.e2e.invariants import NEVER, Kind, findings

CONVERGED_S = 60.0
"""In this time after trouble is over, the ledgers say what the pods do."""

_LOOK_S = 0.2
_JOIN_S = 60.0
_NODE_LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"


@dataclass(frozen=True, slots=True)
class OwnStage(Stage):
    """A stage whose processes may be killed, frozen and restarted. Whoever does so puts them right again."""

    cluster: DevCluster
    operator: Operator


@contextlib.contextmanager
def own_stage(
    *, webhooks: int = 2, controllers: int = 1, ttl_s: float = 10.0, via: str | None = None
) -> Iterator[OwnStage]:
    """A cluster with an operator that gives a lost create up after `ttl_s`, so that tests need not wait long.

    `via` is the module that starts its processes, if not they themselves.
    """
    if os.environ.get("E2E_KUBECONFIG"):
        pytest.skip("E2E_KUBECONFIG is set: these tests kill and restart processes of a cluster of their own")
    with DevCluster() as cluster:
        operator = Operator(cluster, webhooks=webhooks, controllers=controllers, via=via, values=PATIENT)
        for process in operator.controllers:
            change_environment(process, PLACEMENT_UNCONFIRMED_TTL_SECONDS=str(ttl_s))
        with operator:
            yield OwnStage(cluster, operator)
            for process in operator.processes:
                process.kill()  # nobody is served any more, so nobody has to wait for a graceful end


def change_environment(process: Process, **variables: str) -> None:
    """Environment variables for the next start of a process."""
    process.env = {**(process.env or {}), **variables}


def revive(*processes: Process) -> None:
    """Starts those that do not run, and waits until all are ready."""
    for process in processes:
        if not process.alive:
            process.start()
    for process in processes:
        process.wait_ready()


def start_api_server(cluster: DevCluster) -> None:
    """Starts an API server that was killed, and restarts what comes back late by itself: kwok and the controllers."""
    server = cluster.process("kube-apiserver")
    server.start()
    server.wait_ready()
    cluster.api.close()
    others = [cluster.process(name) for name in ("kube-scheduler", "kube-controller-manager", "kwok")]
    stop_all(others)
    cluster.api.delete(_NODE_LEASES)  # by which a kwok that has ended keeps its nodes from the next
    revive(*others)


@contextlib.contextmanager
def watched(api: Api, nodes: Collection[str]) -> Iterator[None]:
    """Looks all the time while the context lasts; fails the test if a budget was exceeded or a pod unrecorded."""
    found: set[str] = set()
    looks = 0

    def look() -> None:
        nonlocal looks
        with contextlib.suppress(ApiError, OSError):  # the API server may be what is in trouble
            found.update(str(finding) for finding in findings(api, nodes) if finding.kind in NEVER)
            looks += 1

    with repeatedly(look, _LOOK_S):
        yield
    if found or not looks:
        pytest.fail(f"seen in {looks} looks meanwhile: {'; '.join(sorted(found))}")


@contextlib.contextmanager
def repeatedly(action: Callable[[], None], pause_s: float) -> Iterator[None]:
    """Does `action` again and again in another thread while the context lasts. What it raises fails the test."""
    ended = threading.Event()
    errors: list[Exception] = []

    def work() -> None:
        while not ended.wait(pause_s):
            try:
                action()
            except Exception as error:  # noqa: BLE001 - raised again in the test's own thread
                errors.append(error)
                return

    thread = threading.Thread(target=work)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join(_JOIN_S)
    if errors:
        raise errors[0]
    if thread.is_alive():
        pytest.fail(f"one action has taken more than {_JOIN_S:.0f} s")


def wait_true_to_pods(api: Api, nodes: Collection[str], *, within_s: float = CONVERGED_S) -> None:
    """Waits until nothing is wrong on `nodes`, seats that are kept for a moment aside.

    Fails the test with what still is wrong after `within_s`.
    """
    for _ in looks(within_s, _LOOK_S):
        if not (found := [each for each in findings(api, nodes) if each.kind is not Kind.KEPT]):
            return
    pytest.fail(f"after {within_s:.0f} s or more: " + "; ".join(map(str, found)))
