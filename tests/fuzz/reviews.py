"""What is sent to a webhook: reviews of pods, honest, copied and forged, and what is no review at all."""

from __future__ import annotations

from typing import Any

import orjson

from tests.fuzz import words
from tests.fuzz.answers import PLACED, RESERVATION
from tests.fuzz.any_json import any_json, deep, mutated
from tests.fuzz.dice import Dice
from tests.fuzz.words import Json, fresh

_POD_RESOURCE = {"group": "", "version": "v1", "resource": "pods"}
_TEXTS = (
    b"", b"null", b"[]", b"{}", b"NaN", b'{"request":NaN}', b'{"a":1', b"\xff\xfe{}", b"\xef\xbb\xbf{}", b'"\\ud800"',
    b"1e999", deep(300), deep(5000), deep(300, b"[", b"]"), b'{"kind":"AdmissionReview","request":{}} {}',
)  # fmt: skip
_ENVELOPE_FIELDS = ("apiVersion", "kind", "request")
_REQUEST_FIELDS = ("uid", "resource", "operation", "namespace", "dryRun", "subResource", "object")
_FORGED_RECORDS = (
    "", "{}", "[]", "null", "no JSON", '{"node":"n0"}',
    '{"changed":[{"path":"containers/main/env/CUDA_VISIBLE_DEVICES"}]}',
    '{"changed":[{"path":"containers/main/resources/limits/nvidia.com~1gpu","was":"1"}],"node":1}',
    '{"changed":[{"path":"affinity","was":[{}]}],"node":"n0"}', '{"shares":[{"container":"main","card":0,"gb":6}]}',
    '{"changed":[{"path":"containers/main/env/NVIDIA_VISIBLE_DEVICES","was":{"name":"NVIDIA_VISIBLE_DEVICES"}}]}',
    deep(300).decode(),
)  # fmt: skip


def a_review(pod: Any, uid: str, namespace: str, **more: Any) -> Json:
    """The envelope in which the API server sends the CREATE of a pod."""
    request = {
        "uid": uid,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": _POD_RESOURCE,
        "operation": "CREATE",
        "namespace": namespace,
        "userInfo": {"username": "system:serviceaccount:kube-system:replicaset-controller"},
        "object": pod,
        "oldObject": None,
        **more,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def no_review(dice: Dice, pod: Json) -> bytes:
    """A body that is no review, or is one by accident."""
    match dice.number(0, 4):
        case 0:
            return dice.one(_TEXTS)
        case 1:
            return orjson.dumps(any_json(dice))
        case 2:
            return orjson.dumps({**a_review(pod, "uid", "models"), dice.one(_ENVELOPE_FIELDS): any_json(dice)})
        case 3:
            more = {dice.one(_REQUEST_FIELDS): any_json(dice)}
            return orjson.dumps(a_review(pod, "uid", "models") | {"request": {**_request(pod), **more}})
    body = orjson.dumps(a_review(pod, "uid", "models"))
    cut = dice.number(0, len(body) - 1)
    return body[:cut] + dice.one((b"", b"}", b"\x00", b'"', b"\xf0\x9f")) + body[cut + 1 :]


def another_request(dice: Dice) -> Json:
    """What a request about a pod may be besides a CREATE."""
    return dice.one(
        (
            {"operation": "UPDATE"},
            {"operation": "DELETE", "object": None},
            {"operation": "CONNECT", "subResource": "exec"},
            {"subResource": "ephemeralcontainers", "operation": "UPDATE"},
            {"resource": {"group": "apps", "version": "v1", "resource": "deployments"}},
        )
    )


def forged(dice: Dice, pod: Json) -> Json:
    """A pod with marks that no placement of ours made, or with half of them."""
    made = fresh(pod)
    metadata = made["metadata"]
    if dice.chance(0.7):
        label = dice.one(("aaaaaaaaaa", "zzzzzzzzzz", "6", "", "AAAAAAAAAA"))
        metadata["labels"] = {**(metadata.get("labels") or {}), RESERVATION: label}
    if dice.chance(0.6):
        metadata["annotations"] = {**(metadata.get("annotations") or {}), PLACED: dice.one(_FORGED_RECORDS)}
    if dice.chance(0.4):
        pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n0"]}]}
        made["spec"]["affinity"] = {"nodeAffinity": {words.REQUIRED: {"nodeSelectorTerms": [pin]}}}
    if dice.chance(0.4):
        share = {words.CARD + dice.one(("0", "1", "63", "999")): dice.one(("6", "1", "0", "1k", "99999"))}
        made["spec"]["containers"][0]["resources"] = {"limits": share, "requests": dict(share)}
    return made


def copied(dice: Dice, stored: Json) -> Json:
    """A placed pod as somebody sends it again: as it is, without some of its marks, or changed in between."""
    made = fresh(stored)
    metadata = made["metadata"]
    for key in ("uid", "creationTimestamp", "deletionTimestamp"):
        metadata.pop(key, None)
    made.pop("status", None)
    metadata["name"] = f"copy-{dice.number(0, 9)}"
    match dice.number(0, 7):
        case 0:
            metadata["labels"] = None
        case 1:
            metadata["annotations"] = {k: v for k, v in (metadata.get("annotations") or {}).items() if k != PLACED}
        case 2:
            made["spec"].pop("affinity", None)
        case 3:
            metadata["annotations"] = {**(metadata.get("annotations") or {}), words.VRAM: dice.one(("1", "30", "auto"))}
        case 4:
            metadata.pop("ownerReferences", None)
        case 5:
            made["spec"]["containers"].insert(0, {"name": "istio-proxy", "image": "istio/proxyv2"})
        case 6:
            return dict(mutated(dice, made)) if dice.chance(0.5) else made
    made["spec"].pop("nodeName", None)
    return made


def hostile(dice: Dice, pod: Json) -> Json:
    """A pod in which something is what no pod has, or nothing like a pod. An object it is, for that much is checked."""
    made: Any = mutated(dice, pod)
    for _ in range(dice.number(0, 2)):
        made = mutated(dice, made)
    if dice.chance(0.1):
        made = any_json(dice)
    return made if isinstance(made, dict) else {"metadata": made, "spec": any_json(dice)}


def _request(pod: Json) -> Json:
    request: Json = a_review(pod, "uid", "models")["request"]
    return request
