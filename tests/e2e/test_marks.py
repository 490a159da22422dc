"""The marks of a placement - label, record, per-card requests - decide nothing on their own, whoever wrote them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from hack.devcluster.api import Api, Json
from shared.api import names
from tests.e2e.conftest import MakeNamespace, MakePool, Pool
from tests.e2e.kube import (
    IMAGE,
    Namespace,
    booked,
    ledger,
    pod,
    refused,
    reservation,
    shares,
    until,
    wait_balanced,
)
from tests.e2e.manifests import FORGED_ID, copied, pinned

pytestmark = pytest.mark.e2e

_CARD_0 = names.card_resource(0)


@pytest.fixture(scope="module")
def bare(module_pool: MakePool) -> Pool:
    """A node on which nothing may ever be booked."""
    return module_pool(16)


def _record(**changes: Any) -> str:
    record = {"v": 1, "id": FORGED_ID, "node": "elsewhere", "shares": [], "from": "annotation", "changed": []}
    return json.dumps({**record, **changes})


def _labelled(manifest: Json, **labels: str) -> Json:
    manifest["metadata"]["labels"].update(labels)
    return manifest


def _forged(here: Pool, *, asks: bool, label: bool, record: bool, requests: bool) -> Json:
    annotations = {names.VRAM: "6"} if asks else {}
    if record:
        annotations[names.PLACED] = _record(node=here.node)
    limits = {_CARD_0: "1"} if requests else None
    affinity = {"affinity": pinned(here.node)} if requests else {}
    manifest = pod("forged", annotations, pool=here.name, limits=limits, **affinity)
    return _labelled(manifest, **{names.RESERVATION: FORGED_ID}) if label else manifest


@pytest.mark.parametrize(
    "marks",
    [
        pytest.param({"label": True, "record": False, "requests": False}, id="label"),
        pytest.param({"label": False, "record": True, "requests": False}, id="record"),
        pytest.param({"label": True, "record": True, "requests": True}, id="label-record-requests-and-pin"),
    ],
)
def test_forged_marks_are_taken_off_and_the_ask_is_placed(
    api: Api, pool: MakePool, namespace: Namespace, marks: dict[str, bool]
) -> None:
    here = pool(16)
    namespace.create(_forged(here, asks=True, **marks))
    (placed,) = namespace.running("forged")
    assert reservation(placed) != FORGED_ID
    assert shares(placed) == {0: 6}
    assert list(ledger(api, here.node)) == [reservation(placed)]
    wait_balanced(api, here.nodes)


@pytest.mark.parametrize(
    "marks",
    [
        pytest.param({"label": True, "record": False, "requests": False}, id="label"),
        pytest.param({"label": False, "record": True, "requests": False}, id="record"),
        pytest.param({"label": True, "record": True, "requests": True}, id="label-record-requests-and-pin"),
        pytest.param({"label": False, "record": False, "requests": True}, id="requests-and-pin"),
    ],
)
def test_forged_marks_without_an_ask_are_refused(
    api: Api, bare: Pool, namespace: Namespace, marks: dict[str, bool]
) -> None:
    error = namespace.refusal(_forged(bare, asks=False, **marks))
    assert (error.status, error.details["causes"][0]["reason"]) == (403, "invalid_request")
    assert namespace.find("Pod", "forged") is None
    assert ledger(api, bare.node) == {}


@pytest.mark.parametrize("asks", [True, False], ids=["beside-an-ask", "alone"])
@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_a_share_of_a_certain_card_cannot_be_asked_by_hand(
    api: Api, bare: Pool, namespace: Namespace, kind: str, asks: bool
) -> None:
    by_hand = {"name": "by-hand", "image": IMAGE, "resources": {"limits": {_CARD_0: "6"}}}
    manifest = pod("chat", {names.VRAM: "6", names.CONTAINER: "server"} if asks else {}, pool=bare.name)
    manifest["spec"].setdefault(kind, []).append(by_hand)
    error = namespace.refusal(manifest)
    assert f"containers[by-hand].resources[{_CARD_0}] is '6'" in error.message
    assert names.VRAM in error.message
    assert ledger(api, bare.node) == {}


_ASKS: dict[str, Callable[[str], Json]] = {
    "annotation": lambda pool: pod("chat", {names.VRAM: "6"}, pool=pool),
    "resource": lambda pool: pod("chat", limits={names.VRAM: "6"}, pool=pool),
    "vendor-count": lambda pool: pod("chat", {names.VRAM: "6"}, limits={names.NVIDIA_GPU: "1"}, pool=pool),
}


@pytest.mark.parametrize("manifest", _ASKS.values(), ids=_ASKS.keys())
def test_a_copied_manifest_is_placed_anew_under_its_own_id(
    api: Api, pool: MakePool, namespace: Namespace, manifest: Callable[[str], Json]
) -> None:
    here = pool(16)
    namespace.create(manifest(here.name))
    (original,) = namespace.running("chat")
    namespace.create(copied(original, "copy"))
    pods = namespace.running("chat", 2)
    assert [shares(each) for each in pods] == [{0: 6}, {0: 6}]
    assert len({reservation(each) for each in pods}) == 2
    wait_balanced(api, here.nodes)

    error = namespace.refusal(copied(original, "one-too-many"))
    assert "insufficient_capacity" in error.message
    wait_balanced(api, here.nodes)


def test_a_copy_of_a_copy_still_knows_its_ask(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(24)
    namespace.create(_ASKS["resource"](here.name))
    (original,) = namespace.running("chat")
    second = namespace.create(copied(original, "second"))
    namespace.create(copied(second, "third"))
    pods = namespace.running("chat", 3)
    assert [shares(each) for each in pods] == [{0: 6}] * 3
    wait_balanced(api, here.nodes)


def test_a_copy_whose_record_was_edited_books_what_it_then_requests(
    api: Api, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    namespace.create(_ASKS["resource"](here.name))
    (original,) = namespace.running("chat")
    edited = copied(original, "edited")
    record = json.loads(edited["metadata"]["annotations"][names.PLACED])
    for change in record["changed"]:
        if change["path"].endswith("vram-gb") and "limits" in change["path"]:
            change["was"] = "2"
        if change["path"].endswith("vram-gb") and "requests" in change["path"]:
            change["was"] = "2"
    record["shares"][0]["gb"] = 1
    edited["metadata"]["annotations"][names.PLACED] = json.dumps(record)
    namespace.create(edited)
    assert shares(namespace.get("Pod", "edited")) == {0: 2}
    wait_balanced(api, here.nodes)


def test_a_copy_whose_record_was_removed_is_refused_when_its_ask_is_lost(
    api: Api, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    namespace.create(_ASKS["resource"](here.name))
    (original,) = namespace.running("chat")
    bare = copied(original, "bare")
    del bare["metadata"]["annotations"][names.PLACED]
    error = namespace.refusal(bare)
    assert error.details["causes"][0]["reason"] == "invalid_request"
    assert namespace.find("Pod", "bare") is None
    wait_balanced(api, here.nodes)


def test_a_copy_into_a_namespace_that_did_not_opt_in_is_refused(
    api: Api, pool: MakePool, make_namespace: MakeNamespace
) -> None:
    here = pool(16)
    opted_in, plain = make_namespace(), make_namespace(None)
    opted_in.create(_ASKS["annotation"](here.name))
    (original,) = opted_in.running("chat")
    error = plain.refusal(copied(original, "copy"))
    assert "ValidatingAdmissionPolicy" in error.message
    wait_balanced(api, here.nodes)


@pytest.mark.parametrize(
    ("edit", "subresource"),
    [
        pytest.param({"labels": {names.RESERVATION: None}}, "", id="label-removed"),
        pytest.param({"labels": {names.RESERVATION: FORGED_ID}}, "", id="label-changed"),
        pytest.param({"annotations": {names.PLACED: None}}, "", id="record-removed"),
        pytest.param({"annotations": {names.PLACED: _record()}}, "", id="record-changed"),
        pytest.param({"labels": {names.RESERVATION: None}}, "/status", id="label-removed-with-the-status"),
    ],
)
def test_editing_the_marks_of_a_running_pod_frees_nothing(
    api: Api, pool: MakePool, namespace: Namespace, edit: Json, subresource: str
) -> None:
    here = pool(16)
    namespace.create(pod("chat", {names.VRAM: "10"}, pool=here.name))
    namespace.create(pod("small", {names.VRAM: "4"}, pool=here.name))
    namespace.running("chat")
    wait_balanced(api, here.nodes)
    edited = api.merge(namespace.path("Pod", "chat") + subresource, {"metadata": edit})
    for kind, values in edit.items():
        assert {key: edited["metadata"][kind].get(key) for key in values} == values
    # Once the controller has seen this one go, it has seen the edit before it.
    small = reservation(namespace.get("Pod", "small"))
    namespace.delete("Pod", "small")
    until("the edit is seen", lambda: small not in ledger(api, here.node))
    # Refused all the time, and in the end for the right number: a webhook may hear of the ledger later than we.
    until(
        "only the other one's share is free",
        lambda: "has 6 of 16 GB free" in namespace.refusal(pod("next", {names.VRAM: "10"}, pool=here.name)).message,
    )


def _resized(pod: Json, gb: str) -> Json:
    (container,) = pod["spec"]["containers"]
    amounts = {kind: {**container["resources"][kind], _CARD_0: gb} for kind in ("limits", "requests")}
    return {"spec": {"containers": [{**container, "resources": amounts}]}}


def _debugged(_pod: Json) -> Json:
    by_hand = {"name": "debug", "image": IMAGE, "resources": {"limits": {_CARD_0: "6"}}}
    return {"spec": {"ephemeralContainers": [by_hand]}}


@pytest.mark.parametrize(
    ("subresource", "change"),
    [
        pytest.param("resize", lambda pod: _resized(pod, "16"), id="resized-to-more"),
        pytest.param("resize", lambda pod: _resized(pod, "1"), id="resized-to-less"),
        pytest.param("ephemeralcontainers", _debugged, id="a-debug-container-with-a-share"),
    ],
)
def test_the_api_server_itself_keeps_the_shares_of_a_running_pod_as_they_are(
    api: Api, pool: MakePool, namespace: Namespace, subresource: str, change: Callable[[Json], Json]
) -> None:
    here = pool(16)
    namespace.create(pod("chat", {names.VRAM: "10"}, pool=here.name))
    (running,) = namespace.running("chat")
    path = f"{namespace.path('Pod', 'chat')}/{subresource}"
    assert refused(lambda: api.merge(path, change(running))).status == 422
    assert shares(namespace.get("Pod", "chat")) == {0: 10}
    wait_balanced(api, here.nodes)


def test_the_id_of_another_pod_on_a_running_pod_frees_nothing(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    namespace.create(pod("first", {names.VRAM: "6"}, pool=here.name))
    namespace.create(pod("second", {names.VRAM: "6"}, pool=here.name))
    namespace.running("second")
    wait_balanced(api, here.nodes)
    stolen = reservation(namespace.get("Pod", "first"))
    namespace.merge("Pod", "second", {"metadata": {"labels": {names.RESERVATION: stolen}}})

    def refusal() -> str:
        return namespace.refusal(pod("next", {names.VRAM: "6"}, pool=here.name)).message

    # Refused all the time, and in the end for the right number: the entry that lost its pod counts until it is dropped.
    until("the ledger is right again", lambda: "has 4 of 16 GB free" in refusal())
    namespace.delete("Pod", "second")
    until("what it held is free", lambda: booked(api, here.node) == {0: 6})
    assert list(ledger(api, here.node)) == [stolen]
    wait_balanced(api, here.nodes)
