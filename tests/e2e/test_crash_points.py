"""Processes kill themselves at the points that matter most; on a real control plane nothing is lost or promised twice.

`tests/unit/test_crash_points.py` tries all points in memory; here the real server, sockets and SIGKILL take part.
"""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator
from functools import partial

import pytest

from hack.devcluster.api import ApiError
from hack.devcluster.processes import Process
from shared.api import names
from tests.chaos.crash_points import CRASH_AT, CrashAt
from tests.e2e.conftest import MakePool
from tests.e2e.kube import Namespace, deployment, gpu_node, pod, until
from tests.e2e.trouble import (
    CONVERGED_S,
    OwnStage,
    change_environment,
    own_stage,
    revive,
    wait_true_to_pods,
    watched,
)

pytestmark = pytest.mark.e2e

_WEBHOOK_POINTS = {
    "before-the-ledger-is-written": "shared/kube/ledger.py:Ledger._write:await self._client.merge_patch:before",
    "between-ledger-and-answer": "shared/kube/ledger.py:Ledger._write:await self._client.merge_patch:after",
    "before-the-answer-is-sent": "webhook/app.py:Handlers.mutate:await self._answer:after",
    "between-answer-and-store": "webhook/app.py:Handlers.validate:await self._answer:before",
}
_CONTROLLER_POINTS = {
    "before-an-entry-is-looked-up": "controller/ledger_keeper.py:LedgerKeeper._if_it_has_a_pod:await has_pod:before",
    "between-look-up-and-drop": "controller/ledger_keeper.py:LedgerKeeper._if_it_has_a_pod:await has_pod:after",
    "before-the-ledger-is-amended": "shared/kube/ledger.py:Ledger._change:await self._write:before",
    "after-the-ledger-is-amended": "shared/kube/ledger.py:Ledger._change:await self._write:after",
}


@pytest.fixture(scope="module")
def stage() -> Iterator[OwnStage]:
    with own_stage(webhooks=1, via="tests.chaos.child") as stage:
        yield stage


@pytest.fixture(autouse=True)
def _all_alive(stage: OwnStage) -> Iterator[None]:
    yield
    for process in stage.operator.processes:
        change_environment(process, **{CRASH_AT: ""})
    revive(*stage.operator.processes)


def _to_die_at(process: Process, point: str) -> None:
    """Restarts a process as one that dies at a point."""
    CrashAt.parse(point)
    process.kill()
    change_environment(process, **{CRASH_AT: point})
    revive(process)


def _has_died(process: Process) -> None:
    """Waits until a process has killed itself, and starts one that does not."""
    until(f"{process.name} has died", lambda: not process.alive, within_s=CONVERGED_S)
    assert process.returncode == -signal.SIGKILL
    change_environment(process, **{CRASH_AT: ""})
    revive(process)


@pytest.mark.parametrize("point", _WEBHOOK_POINTS.values(), ids=_WEBHOOK_POINTS)
def test_a_webhook_that_dies_during_a_create(stage: OwnStage, pool: MakePool, namespace: Namespace, point: str) -> None:
    here = pool(12)
    (webhook,) = stage.operator.webhooks
    with watched(stage.api, here.nodes):
        _to_die_at(webhook, point)
        namespace.create(deployment("chat", {names.VRAM: "12"}, pool=here.name))
        _has_died(webhook)
        until("chat is placed", partial(namespace.pods, "chat"), within_s=CONVERGED_S)
        namespace.running("chat")
        wait_true_to_pods(stage.api, here.nodes)


@pytest.mark.parametrize("point", _CONTROLLER_POINTS.values(), ids=_CONTROLLER_POINTS)
def test_a_controller_that_dies_while_it_gives_a_lost_create_up(
    stage: OwnStage, pool: MakePool, namespace: Namespace, point: str
) -> None:
    here = pool(12)
    (webhook,), controller = stage.operator.webhooks, stage.operator.controller
    # Its first summary is an amendment of the ledger, too: the controller shall not die at that.
    until("the first summary is written", lambda: gpu_node(stage.api, here.node)["status"].get("summary"))
    with watched(stage.api, here.nodes):
        _to_die_at(webhook, _WEBHOOK_POINTS["between-ledger-and-answer"])
        _to_die_at(controller, point)
        with contextlib.suppress(ApiError, OSError):
            namespace.create(pod("lost", {names.VRAM: "12"}, pool=here.name))
        _has_died(webhook)
        _has_died(controller)
        wait_true_to_pods(stage.api, here.nodes)
        namespace.create(pod("next", {names.VRAM: "12"}, pool=here.name))
        namespace.running("next")
