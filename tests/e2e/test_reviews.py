"""What the webhooks say to a pod that they have placed already, and to one that somebody changed after them."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial

import jsonpatch
import pytest

from hack.devcluster.api import Api, Json
from shared.api import names
from tests.e2e.conftest import MakeNamespace, MakePool, Pool
from tests.e2e.kube import (
    Namespace,
    booked,
    ledger,
    pod,
    reservation,
    until,
)
from tests.e2e.manifests import FORGED_ID, copied, pinned
from tests.e2e.reviews import WebhookPort

pytestmark = pytest.mark.e2e

_CARD_0 = names.card_resource(0)


@pytest.fixture(scope="module")
def spacious(module_pool: MakePool) -> Pool:
    """A node on which everybody has room."""
    return module_pool(400)


def test_a_second_run_on_its_own_output_changes_nothing(
    api: Api, pool: MakePool, namespace: Namespace, webhooks: list[WebhookPort]
) -> None:
    here = pool(16)
    sent = pod("chat", {names.VRAM: "6"}, pool=here.name)
    first = webhooks[0].mutate(sent, namespace.name)
    assert first.allowed
    output = jsonpatch.apply_patch(sent, first.patch)
    assert list(ledger(api, here.node)) == [reservation(output)]
    for webhook in webhooks:
        until("the webhook knows of the reservation", partial(_valid, webhook, output, namespace))
        again = webhook.mutate(output, namespace.name)
        assert (again.allowed, again.patch) == (True, [])
    assert list(ledger(api, here.node)) == [reservation(output)]


def test_output_meant_for_somebody_else_is_placed_anew(
    api: Api, pool: MakePool, make_namespace: MakeNamespace, webhooks: list[WebhookPort]
) -> None:
    here = pool(24)
    mine, theirs = make_namespace(), make_namespace()
    sent = pod("chat", {names.VRAM: "6"}, pool=here.name)
    output = jsonpatch.apply_patch(sent, webhooks[0].mutate(sent, mine.name).patch)
    assert not webhooks[0].validate(output, theirs.name).allowed
    again = webhooks[0].mutate(output, theirs.name)
    own = jsonpatch.apply_patch(output, again.patch)
    assert reservation(own) != reservation(output)
    assert set(ledger(api, here.node)) == {reservation(own), reservation(output)}
    assert booked(api, here.node) == {0: 12}


def _without_share(output: Json) -> Json:
    output["spec"]["containers"][0]["resources"] = {}
    return output


def _with_a_larger_share(output: Json) -> Json:
    resources = output["spec"]["containers"][0]["resources"]
    resources["limits"][_CARD_0] = resources["requests"][_CARD_0] = "8"
    return output


def _without_pin(output: Json) -> Json:
    del output["spec"]["affinity"]
    return output


def _pinned_elsewhere(output: Json) -> Json:
    output["spec"]["affinity"] = pinned("elsewhere")
    return output


def _without_marks(output: Json) -> Json:
    del output["metadata"]["labels"][names.RESERVATION]
    del output["metadata"]["annotations"][names.PLACED]
    return output


def _with_a_made_up_id(output: Json) -> Json:
    output["metadata"]["labels"][names.RESERVATION] = FORGED_ID
    return output


def _with_a_later_ask(output: Json) -> Json:
    output["spec"]["containers"][0]["resources"]["limits"][names.NVIDIA_GPU] = "1"
    return output


def _of_another_owner(output: Json) -> Json:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": "x", "controller": True}
    output["metadata"]["ownerReferences"] = [owner]
    return output


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(_without_share, "carries no share of a card", id="share-taken-away"),
        pytest.param(_with_a_larger_share, "is a reservation of other shares", id="share-raised"),
        pytest.param(_without_pin, "is not pinned to one node", id="pin-taken-away"),
        pytest.param(_pinned_elsewhere, "is a reservation on another node than elsewhere", id="pinned-elsewhere"),
        pytest.param(_without_marks, "is a share of one certain card", id="marks-taken-away"),
        pytest.param(_with_a_made_up_id, "is in no ledger", id="made-up-id"),
        pytest.param(_with_a_later_ask, "was added after the pod had been placed", id="ask-added-later"),
        pytest.param(_of_another_owner, "is the reservation of another workload", id="owner-changed"),
    ],
)
def test_validate_refuses_what_was_changed_after_the_placement(
    spacious: Pool,
    namespace: Namespace,
    webhooks: list[WebhookPort],
    change: Callable[[Json], Json],
    words: str,
) -> None:
    sent = pod("chat", {names.VRAM: "6"}, pool=spacious.name)
    output = jsonpatch.apply_patch(sent, webhooks[0].mutate(sent, namespace.name).patch)
    assert webhooks[0].validate(output, namespace.name).allowed
    verdict = webhooks[0].validate(change(copy.deepcopy(output)), namespace.name)
    assert (verdict.allowed, verdict.status["code"]) == (False, 403)
    assert verdict.status["message"].startswith("invalid_request: ")
    assert words in verdict.status["message"]


def test_validate_refuses_a_model_pod_that_was_not_placed(namespace: Namespace, webhooks: list[WebhookPort]) -> None:
    for manifest in (pod("chat", {names.VRAM: "6"}), pod("chat", limits={names.NVIDIA_GPU: "1"})):
        verdict = webhooks[0].validate(manifest, namespace.name)
        assert not verdict.allowed
        assert "a later webhook added the ask, or took the placement away" in verdict.status["message"]
        assert "zz-placement-operator" in verdict.status["message"]


def test_validate_refuses_the_id_of_a_pod_that_exists(
    spacious: Pool, namespace: Namespace, webhooks: list[WebhookPort]
) -> None:
    namespace.create(pod("chat", {names.VRAM: "6"}, pool=spacious.name))
    (placed,) = namespace.running("chat")
    copy_of_it = copied(placed, "copy")
    until("the webhook has heard of the pod", lambda: not _valid(webhooks[0], copy_of_it, namespace))
    verdict = webhooks[0].validate(copy_of_it, namespace.name)
    assert "is the reservation of a pod that exists" in verdict.status["message"]


def _valid(webhook: WebhookPort, output: Json, namespace: Namespace) -> bool:
    return webhook.validate(output, namespace.name).allowed
