"""Processes that end, in good order or not, leave their work to the others."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator

import pytest

from hack.devcluster.api import Json
from hack.devcluster.chart import NAMESPACE
from hack.devcluster.health import answers
from hack.devcluster.processes import Process
from shared.api import names
from tests.e2e.conftest import MakePool, Pool
from tests.e2e.creates import Outcome, steady_creates
from tests.e2e.kube import Namespace, deployment, pod, until
from tests.e2e.reviews import NOWHERE, WebhookPort
from tests.e2e.trouble import CONVERGED_S, OwnStage, own_stage, revive, wait_true_to_pods

pytestmark = pytest.mark.e2e

_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/placement-operator-controller"
_GRACE_S = 30.0
"""The chart's terminationGracePeriodSeconds."""
_ROUNDS = 3


@pytest.fixture(scope="module")
def stage() -> Iterator[OwnStage]:
    with own_stage(controllers=2) as stage:
        yield stage


@pytest.fixture(autouse=True)
def _all_alive(stage: OwnStage) -> Iterator[None]:
    yield
    revive(*stage.operator.processes)


def test_the_other_controller_goes_on_after_kill_9_of_the_leader(
    stage: OwnStage, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(12)
    _hold_and_wait(namespace, here)
    leader = _leader(stage)
    leader.kill()
    namespace.delete("Deployment", "holds")
    until("another one leads", lambda: _leads(stage) not in {"", _identity(leader)}, within_s=CONVERGED_S)
    until("the waiting model is placed", lambda: namespace.pods("waits"), within_s=CONVERGED_S)
    namespace.running("waits")
    wait_true_to_pods(stage.api, here.nodes)


def test_a_leader_that_is_told_to_end_gives_the_lease_up(stage: OwnStage, pool: MakePool, namespace: Namespace) -> None:
    here = pool(12)
    _hold_and_wait(namespace, here)
    leader = _leader(stage)
    before = leader.log.stat().st_size
    leader.stop(_GRACE_S)
    assert leader.returncode == 0
    if _leads(stage) == _identity(leader):  # others wait until its lease runs out
        ends = leader.log.read_text()[before:].splitlines()
        assert [line for line in ends if "lease not released" in line and "no answer in time" in line]
    namespace.delete("Deployment", "holds")
    until("the waiting model is placed", lambda: namespace.pods("waits"), within_s=CONVERGED_S)
    namespace.running("waits")
    wait_true_to_pods(stage.api, here.nodes)


def test_webhooks_restarted_one_after_the_other_fail_no_create(
    stage: OwnStage, pool: MakePool, namespace: Namespace, webhooks: list[WebhookPort]
) -> None:
    here = pool(80, 80)
    with steady_creates(namespace, here.name) as stream:
        for webhook in webhooks:
            _restart(webhook, pod("probe", {names.VRAM: "1"}, pool=here.name))
        after = len(stream.creates)
        until("pods are created after the restarts", lambda: len(stream.creates) > after + 4)
    assert stream.failed() == []
    assert stream.outcomes()[Outcome.ADMITTED]


def _restart(webhook: WebhookPort, probe: Json) -> None:
    """As the kubelet does it: told to end, a webhook turns unready first, and answers what still comes to it.

    A machine that stands still for as long as the webhook lingers sees neither, so it may take a few rounds.
    """
    process, answered = webhook.process, False
    for _ in range(_ROUNDS):
        process.kill(signal.SIGTERM)
        with contextlib.suppress(OSError):
            until(f"{process.name} is unready", lambda: not _is_ready(process))
            assert webhook.mutate(probe, NOWHERE, dryRun=True).allowed
            answered = True
        assert process.wait_ended(_GRACE_S)
        assert process.returncode == 0
        revive(process)
        if answered:
            return
    pytest.fail(f"{process.name} was told to end {_ROUNDS} times and never answered once it was unready")


def _is_ready(process: Process) -> bool:
    assert process.env is not None
    return answers(int(process.env["PLACEMENT_HEALTH_PORT"]), "/readyz")


def _hold_and_wait(namespace: Namespace, here: Pool) -> None:
    """One model fills the pool's card, another waits for it."""
    namespace.create(deployment("holds", {names.VRAM: "12"}, pool=here.name))
    namespace.running("holds")
    namespace.create(deployment("waits", {names.VRAM: "12"}, pool=here.name))
    namespace.waiting("waits", "insufficient_capacity")


def _leader(stage: OwnStage) -> Process:
    leader = until("a controller leads", lambda: _leads(stage))
    return next(process for process in stage.operator.controllers if _identity(process) == leader)


def _leads(stage: OwnStage) -> str:
    """The identity of the leader; empty while there is none."""
    return str(stage.api.get(_LEASE)["spec"].get("holderIdentity") or "")


def _identity(process: Process) -> str:
    assert process.env is not None
    return process.env["PLACEMENT_IDENTITY"]
