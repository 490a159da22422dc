"""The serving certificate comes back when it is lost, and is renewed while pods are being created."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator

import pytest

from hack.devcluster.health import HOST
from shared.api import names
from tests.e2e.conftest import MakePool
from tests.e2e.creates import Outcome, create, steady_creates
from tests.e2e.kube import Namespace, pod, until
from tests.e2e.trouble import OwnStage, change_environment, own_stage
from tests.e2e.trust import (
    CONFIGURATIONS,
    SECRET,
    always_trusted,
    bundles,
    grow_old,
    issued,
    secret_entry,
    serves_everywhere,
)

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def stage() -> Iterator[OwnStage]:
    with own_stage() as stage:
        yield stage


def test_a_deleted_secret_is_made_anew_and_trusted(stage: OwnStage, pool: MakePool, namespace: Namespace) -> None:
    here = pool(24)
    old = secret_entry(stage.api, "ca.crt")
    stage.api.delete(SECRET)
    until("both configurations trust another authority", lambda: old not in bundles(stage.api))
    _wait_in_use(stage)
    _wait_placing(namespace, here.name)


@pytest.mark.parametrize(
    "bundle",
    [
        pytest.param(None, id="wiped"),
        pytest.param(base64.b64encode(issued(HOST).authority).decode(), id="somebody-elses"),
    ],
)
def test_a_spoilt_ca_bundle_is_repaired(
    stage: OwnStage, pool: MakePool, namespace: Namespace, bundle: str | None
) -> None:
    here = pool(24)
    for path in CONFIGURATIONS:
        webhooks = stage.api.get(path)["webhooks"]
        spoilt = [{**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": bundle}} for webhook in webhooks]
        stage.api.merge(path, {"webhooks": spoilt})
    _wait_in_use(stage)
    _wait_placing(namespace, here.name)


def _want_another_name(stage: OwnStage) -> str:
    """Restarts the controller with a name that the certificate does not hold yet; returns that certificate."""
    lacking = _stored(stage)
    controller = stage.operator.controller
    change_environment(controller, PLACEMENT_EXTRA_SANS=f"{HOST},placement.example")
    controller.restart()
    return lacking


@pytest.mark.parametrize(
    "cause", [pytest.param(grow_old, id="near-its-end"), pytest.param(_want_another_name, id="name-missing")]
)
def test_a_renewal_fails_no_create(
    stage: OwnStage, pool: MakePool, namespace: Namespace, cause: Callable[[OwnStage], str]
) -> None:
    here = pool(80, 80)
    with steady_creates(namespace, here.name) as stream, always_trusted(stage):
        old = cause(stage)
        until(
            "a successor is in use", lambda: _stored(stage) not in {"", old} and not secret_entry(stage.api, "next.crt")
        )
        _wait_in_use(stage)
        after_exchange = len(stream.creates)
        until("pods are created after the exchange", lambda: len(stream.creates) > after_exchange + 4)
    assert _stored(stage) != old
    assert stream.failed() == []
    assert stream.outcomes()[Outcome.ADMITTED]


def _wait_in_use(stage: OwnStage) -> None:
    """Waits until the webhooks serve what the Secret holds, and all configurations trust what it says."""
    operator = stage.operator
    until("every webhook serves the Secret's certificate", lambda: serves_everywhere(operator, _stored(stage)))
    until("all configurations hold the Secret's bundle", lambda: set(bundles(stage.api)) == {_trusted(stage)})


def _stored(stage: OwnStage) -> str:
    return secret_entry(stage.api, "tls.crt")


def _trusted(stage: OwnStage) -> str:
    return secret_entry(stage.api, "ca.crt")


def _wait_placing(namespace: Namespace, pool: str) -> None:
    """Waits until a model pod is let in."""
    manifest = pod("model", {names.VRAM: "6"}, pool=pool)
    until("a pod is placed", lambda: create(namespace, manifest).outcome is Outcome.ADMITTED)
    namespace.running("model")
