"""The marks of a placement - label, record, per-card requests - decide nothing on their own, whoever wrote them."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import jsonpatch
import pytest

from hack.devcluster.api import Api, Json
from shared.api import names
from tests.e2e.conftest import AnyCluster, MakeNamespace, MakePool, Pool
from tests.e2e.kube import (
    IMAGE,
    Namespace,
    booked,
    gpu_node,
    ledger,
    pod,
    reservation,
    shares,
    until,
    wait_balanced,
)
from tests.e2e.reviews import WebhookPort

pytestmark = pytest.mark.e2e

_FORGED_ID = "a234567bcd"
_CARD_0 = names.card_resource(0)


@pytest.fixture(scope="module")
def bare(module_pool: MakePool) -> Pool:
    """A node on which nothing may ever be booked."""
    return module_pool(16)


@pytest.fixture(scope="module")
def spacious(module_pool: MakePool) -> Pool:
    """A node on which everybody has room."""
    return module_pool(400)


def _record(**changes: Any) -> str:
    record = {"v": 1, "id": _FORGED_ID, "node": "elsewhere", "shares": [], "from": "annotation", "changed": []}
    return json.dumps({**record, **changes})


def _pin(node: str) -> Json:
    fields = [{"key": names.NODE_NAME_FIELD, "operator": "In", "values": [node]}]
    required = {"nodeSelectorTerms": [{"matchFields": fields}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def _labelled(manifest: Json, **labels: str) -> Json:
    manifest["metadata"]["labels"].update(labels)
    return manifest


def _forged(here: Pool, *, asks: bool, label: bool, record: bool, requests: bool) -> Json:
    annotations = {names.VRAM: "6"} if asks else {}
    if record:
        annotations[names.PLACED] = _record(node=here.node)
    limits = {_CARD_0: "1"} if requests else None
    pinned = {"affinity": _pin(here.node)} if requests else {}
    manifest = pod("forged", annotations, pool=here.name, limits=limits, **pinned)
    return _labelled(manifest, **{names.RESERVATION: _FORGED_ID}) if label else manifest


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
    assert reservation(placed) != _FORGED_ID
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
    namespace.create(_copied(original, "copy"))
    pods = namespace.running("chat", 2)
    assert [shares(each) for each in pods] == [{0: 6}, {0: 6}]
    assert len({reservation(each) for each in pods}) == 2
    wait_balanced(api, here.nodes)

    error = namespace.refusal(_copied(original, "one-too-many"))
    assert "insufficient_capacity" in error.message
    wait_balanced(api, here.nodes)


def test_a_copy_of_a_copy_still_knows_its_ask(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(24)
    namespace.create(_ASKS["resource"](here.name))
    (original,) = namespace.running("chat")
    second = namespace.create(_copied(original, "second"))
    namespace.create(_copied(second, "third"))
    pods = namespace.running("chat", 3)
    assert [shares(each) for each in pods] == [{0: 6}] * 3
    wait_balanced(api, here.nodes)


def test_a_copy_whose_record_was_edited_books_what_it_then_requests(
    api: Api, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    namespace.create(_ASKS["resource"](here.name))
    (original,) = namespace.running("chat")
    edited = _copied(original, "edited")
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
    bare = _copied(original, "bare")
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
    error = plain.refusal(_copied(original, "copy"))
    assert "ValidatingAdmissionPolicy" in error.message
    wait_balanced(api, here.nodes)


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param({"labels": {names.RESERVATION: None}}, id="label-removed"),
        pytest.param({"labels": {names.RESERVATION: _FORGED_ID}}, id="label-changed"),
        pytest.param({"annotations": {names.PLACED: None}}, id="record-removed"),
        pytest.param({"annotations": {names.PLACED: _record()}}, id="record-changed"),
    ],
)
def test_editing_the_marks_of_a_running_pod_frees_nothing(
    api: Api, pool: MakePool, namespace: Namespace, edit: Json
) -> None:
    here = pool(16)
    namespace.create(pod("chat", {names.VRAM: "10"}, pool=here.name))
    namespace.create(pod("small", {names.VRAM: "4"}, pool=here.name))
    namespace.running("chat")
    wait_balanced(api, here.nodes)
    namespace.merge("Pod", "chat", {"metadata": edit})
    # Once the controller has seen this one go, it has seen the edit before it.
    small = reservation(namespace.get("Pod", "small"))
    namespace.delete("Pod", "small")
    until("the edit is seen", lambda: small not in ledger(api, here.node))
    error = namespace.refusal(pod("next", {names.VRAM: "10"}, pool=here.name))
    assert "has 6 of 16 GB free" in error.message


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
    output["spec"]["affinity"] = _pin("elsewhere")
    return output


def _without_marks(output: Json) -> Json:
    del output["metadata"]["labels"][names.RESERVATION]
    del output["metadata"]["annotations"][names.PLACED]
    return output


def _with_a_made_up_id(output: Json) -> Json:
    output["metadata"]["labels"][names.RESERVATION] = _FORGED_ID
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
    verdict = webhooks[0].validate(_copied(placed, "copy"), namespace.name)
    assert "is the reservation of a pod that exists" in verdict.status["message"]


def test_nothing_of_a_pod_is_touched_but_what_a_placement_needs(
    api: Api, pool: MakePool, make_namespace: MakeNamespace
) -> None:
    here = pool(24, 24, labels={"tier": "gold"})
    terms = [
        {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}]},
        {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["bronze"]}]},
    ]
    preferred = [{"weight": 5, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
    }
    server = {
        "name": "server",
        "image": IMAGE,
        "args": ["--model", "x"],
        "env": [{"name": "A", "value": "1"}, {"name": names.NVIDIA_VISIBLE_DEVICES, "value": "all"}],
        "resources": {"limits": {"cpu": "2", "memory": "8Gi", names.NVIDIA_GPU: "2"}, "requests": {"cpu": "1"}},
    }
    proxy = {"name": "proxy", "image": IMAGE, "env": [{"name": "B", "value": "2"}]}
    manifest = pod(
        "chat",
        {names.VRAM: "6", "example.com/note": "keep"},
        pool=here.name,
        containers=[proxy, server],
        initContainers=[{"name": "fetch", "image": IMAGE}],
        affinity=affinity,
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        terminationGracePeriodSeconds=7,
    )
    untouched = make_namespace(None).create(manifest)
    placed = make_namespace().create(manifest)

    expected = copy.deepcopy(untouched["spec"])
    expected_server = expected["containers"][1]
    cards = {names.card_resource(index): "6" for index in (0, 1)}
    for amounts in expected_server["resources"].values():
        amounts.pop(names.NVIDIA_GPU, None)
        amounts.update(cards)
    uuids = [card["uuid"] for card in gpu_node(api, here.node)["status"]["cards"]]
    expected_server["env"][1]["value"] = ",".join(uuids)
    pin = _pin(here.node)["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
    required = expected["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    required["nodeSelectorTerms"] = [{**terms[0], **pin}]
    assert _generic(placed["spec"]) == _generic(expected)

    metadata = placed["metadata"]
    record = json.loads(metadata["annotations"].pop(names.PLACED))
    assert metadata["annotations"] == untouched["metadata"]["annotations"]
    identity = metadata["labels"].pop(names.RESERVATION)
    assert metadata["labels"] == untouched["metadata"]["labels"]
    assert (record["id"], record["node"], record["from"]) == (identity, here.node, "annotation")
    assert record["shares"] == [
        {"container": "server", "card": index, "uuid": uuids[index], "gb": 6} for index in (0, 1)
    ]
    was = {change["path"]: change["was"] for change in record["changed"]}
    gpu = names.NVIDIA_GPU.replace("/", "~1")
    assert was[f"containers/server/resources/limits/{gpu}"] == "2"
    assert was[f"containers/server/env/{names.NVIDIA_VISIBLE_DEVICES}"]["value"] == "all"


def test_conflicting_device_variables_are_replaced_with_a_warning(
    cluster: AnyCluster, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    env = [
        {"name": names.NVIDIA_VISIBLE_DEVICES, "value": "all"},
        {"name": names.CUDA_VISIBLE_DEVICES, "value": "0,3"},
        {"name": "KEEP", "value": "me"},
    ]
    manifest = pod(
        "chat", {names.VRAM: "6"}, pool=here.name, containers=[{"name": "server", "image": IMAGE, "env": env}]
    )
    done = cluster.kubectl("create", "-n", namespace.name, "-f", "-", input=json.dumps(manifest))
    warnings = [line for line in done.stderr.splitlines() if line.startswith("Warning: ")]
    assert len(warnings) == 2
    assert f"{names.NVIDIA_VISIBLE_DEVICES} was 'all'" in done.stderr
    assert f"{names.CUDA_VISIBLE_DEVICES} was '0,3'" in done.stderr
    (uuid,) = [card["uuid"] for card in gpu_node(cluster.api, here.node)["status"]["cards"]]
    placed = namespace.get("Pod", "chat")
    assert {entry["name"]: entry["value"] for entry in placed["spec"]["containers"][0]["env"]} == {
        names.NVIDIA_VISIBLE_DEVICES: uuid,
        "KEEP": "me",
    }


def test_a_pod_of_zero_gpus_sees_none(spacious: Pool, namespace: Namespace) -> None:
    stored = namespace.create(pod("client", limits={names.NVIDIA_GPU: "0"}, pool=spacious.name))
    assert stored["spec"]["containers"][0]["env"] == [{"name": names.NVIDIA_VISIBLE_DEVICES, "value": "void"}]
    assert not reservation(stored)
    namespace.running("client")


def test_the_default_of_a_limit_range_does_not_come_back(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    default = {"type": "Container", "default": {names.NVIDIA_GPU: "1"}}
    limits = {"kind": "LimitRange", "metadata": {"name": "gpu"}, "spec": {"limits": [default]}}
    api.create(f"/api/v1/namespaces/{namespace.name}/limitranges", limits)
    until("the default is in force", lambda: shares(namespace.create(pod("any", pool=here.name), dry_run=True)))
    namespace.create(pod("chat", {names.VRAM: "6"}, pool=here.name))
    (placed,) = namespace.running("chat")
    resources = placed["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {_CARD_0: "6", names.NVIDIA_GPU: "0"}
    assert resources["requests"] == resources["limits"]
    wait_balanced(api, here.nodes)


def _valid(webhook: WebhookPort, output: Json, namespace: Namespace) -> bool:
    return webhook.validate(output, namespace.name).allowed


def _copied(stored: Json, name: str) -> Json:
    """What `kubectl get -o yaml`, another name and `kubectl create` make of a pod."""
    copied = copy.deepcopy(stored)
    for field in ("namespace", "resourceVersion", "uid", "creationTimestamp", "managedFields"):
        copied["metadata"].pop(field, None)
    copied["metadata"]["name"] = name
    return copied


def _generic(spec: Json) -> Json:
    """A pod's spec without the names of the token volume, which are random."""
    text = json.dumps(spec)
    for volume in spec["volumes"]:
        text = text.replace(volume["name"], "token")
    generic: Json = json.loads(text)
    return generic
