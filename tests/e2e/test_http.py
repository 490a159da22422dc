"""What comes to a webhook's port may be anything: it gets a clean answer, and the process lives on."""

from __future__ import annotations

import json
import socket
from dataclasses import dataclass, field
from typing import Any

import pytest

from hack.devcluster.health import HOST
from shared.api import names
from tests.e2e.conftest import MakePool
from tests.e2e.kube import Namespace, pod, shares
from tests.e2e.reviews import JSON, NOWHERE, WebhookPort, review

pytestmark = pytest.mark.e2e


@dataclass(frozen=True, slots=True)
class Sent:
    """A request and the status code it gets."""

    status: int
    body: bytes | None = None
    method: str = "POST"
    path: str = "/mutate"
    headers: dict[str, str] = field(default_factory=lambda: dict(JSON))


def _review(**changes: Any) -> bytes:
    return json.dumps({**review(pod("p"), NOWHERE), **changes}).encode()


def _request(**changes: Any) -> bytes:
    return json.dumps(review(pod("p"), NOWHERE, **changes)).encode()


_CASES = {
    "not-json": Sent(400, b"{"),
    "empty-body": Sent(400, b""),
    "no-utf8": Sent(400, b'{"kind": "\xff"}'),
    "not-a-number": Sent(400, b'{"kind": NaN}'),
    "a-list": Sent(400, b"[]"),
    "another-kind": Sent(400, _review(kind="Pod")),
    "another-version": Sent(400, _review(apiVersion="admission.k8s.io/v1beta1")),
    "no-request": Sent(400, b'{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}'),
    "request-is-null": Sent(400, _review(request=None)),
    "no-uid": Sent(400, _request(uid="")),
    "no-namespace": Sent(400, _request(namespace="")),
    "no-object": Sent(400, _request(object=None)),
    "object-is-a-list": Sent(400, _request(object=[])),
    "resource-is-a-text": Sent(400, _request(resource="pods")),
    "nested-beyond-reason": Sent(400, b'{"a":' * 100_000 + b"1" + b"}" * 100_000),
    "over-the-limit": Sent(413, b" " * (9 * 2**20)),
    "text": Sent(415, b"hello", headers={"Content-Type": "text/plain"}),
    "no-content-type": Sent(415, _request(), headers={}),
    "get": Sent(405, method="GET", headers={}),
    "unknown-path": Sent(404, _request(), path="/unknown"),
    "path-outside": Sent(404, _request(), path="/../../etc/passwd"),
}


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize("sent", _CASES.values(), ids=_CASES.keys())
def test_a_bad_request_gets_a_clean_4xx(webhooks: list[WebhookPort], sent: Sent, path: str) -> None:
    webhook = webhooks[0]
    pid = webhook.process.pid
    where = sent.path if sent.path != "/mutate" else path
    status, answer = webhook.send(sent.method, where, sent.body, sent.headers)
    assert status == sent.status
    assert answer
    assert b"Traceback" not in answer
    assert (webhook.process.alive, webhook.process.pid) == (True, pid)
    assert webhook.mutate(pod("p"), NOWHERE, dryRun=True).allowed


_NESTED: Any = []
for _ in range(500):
    _NESTED = [_NESTED]

_HOSTILE_PODS = {
    "no-spec": {"metadata": {"annotations": {names.VRAM: "6"}}},
    "spec-is-a-list": {"metadata": {"annotations": {names.VRAM: "6"}}, "spec": []},
    "metadata-is-a-number": {"metadata": 5, "spec": {"containers": []}},
    "annotations-are-a-list": {"metadata": {"annotations": [names.VRAM]}, "spec": {"containers": []}},
    "an-amount-is-a-number": {"metadata": {"annotations": {names.VRAM: 6}}, "spec": {"containers": [{"name": "c"}]}},
    "no-containers": {"metadata": {"annotations": {names.VRAM: "6"}}, "spec": {"containers": None}},
    "containers-are-a-map": {"metadata": {"annotations": {names.VRAM: "6"}}, "spec": {"containers": {"a": 1}}},
    "a-container-is-null": {"metadata": {"annotations": {names.VRAM: "6"}}, "spec": {"containers": [None]}},
    "a-container-without-a-name": {"metadata": {"annotations": {names.VRAM: "6"}}, "spec": {"containers": [{}]}},
    "limits-are-a-list": {"metadata": {}, "spec": {"containers": [{"name": "c", "resources": {"limits": [1]}}]}},
    "env-is-a-text": {
        "metadata": {"annotations": {names.VRAM: "6"}},
        "spec": {"containers": [{"name": "c", "env": "x"}]},
    },
    "labels-are-a-text": {"metadata": {"labels": "x"}, "spec": {"containers": [{"name": "c"}]}},
    "mark-is-a-list": {"metadata": {"labels": {names.RESERVATION: []}}, "spec": {"containers": [{"name": "c"}]}},
    "affinity-is-a-text": {**pod("p", {names.VRAM: "6"}, affinity="everywhere")},
    "terms-are-a-text": {
        **pod(
            "p",
            {names.VRAM: "6"},
            affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": "x"}}},
        )
    },
    "tolerations-are-numbers": {**pod("p", {names.VRAM: "6"}, tolerations=[1, 2])},
    "node-selector-is-a-list": {**pod("p", {names.VRAM: "6"}, nodeSelector=["a"])},
    "owner-is-a-text": {
        "metadata": {"annotations": {names.VRAM: "6"}, "ownerReferences": "x"},
        "spec": {"containers": [{"name": "c"}]},
    },
    "nested-500-deep": {**pod("p", {names.VRAM: "6"}), "status": _NESTED},
    "record-is-no-json": {
        "metadata": {"annotations": {names.VRAM: "6", names.PLACED: "{{{"}},
        "spec": {"containers": [{"name": "c"}]},
    },
    "record-of-other-types": {
        "metadata": {"annotations": {names.VRAM: "6", names.PLACED: '{"changed": [{"path": "affinity", "was": 3}]}'}},
        "spec": {"containers": [{"name": "c"}]},
    },
}


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize("hostile", _HOSTILE_PODS.values(), ids=_HOSTILE_PODS.keys())
def test_a_pod_that_no_api_server_would_send_does_no_harm(webhooks: list[WebhookPort], hostile: Any, path: str) -> None:
    webhook = webhooks[0]
    pid = webhook.process.pid
    body = json.dumps(review(hostile, NOWHERE, dryRun=True)).encode()
    status, answer = webhook.send("POST", path, body, JSON)
    assert status < 500, answer
    if status == 200:
        assert isinstance(json.loads(answer)["response"]["allowed"], bool)
    assert (webhook.process.alive, webhook.process.pid) == (True, pid)


def test_other_reviews_than_creates_of_pods_pass(webhooks: list[WebhookPort]) -> None:
    asks = pod("p", {names.VRAM: "16GB"})
    services = {"group": "", "version": "v1", "resource": "services"}
    for changes in (
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"subResource": "binding"},
        {"resource": services},
    ):
        verdict = webhooks[0].mutate(asks, NOWHERE, **changes)
        assert (verdict.allowed, verdict.patch) == (True, [])


def test_speech_that_is_not_tls_ends_a_connection_only(
    webhooks: list[WebhookPort], pool: MakePool, namespace: Namespace
) -> None:
    webhook = webhooks[0]
    pid = webhook.process.pid
    assert webhook.process.env is not None
    with socket.create_connection((HOST, int(webhook.process.env["PLACEMENT_LISTEN_PORT"])), timeout=10) as plain:
        plain.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"200" not in plain.recv(1024)
    here = pool(16)
    namespace.create(pod("chat", {names.VRAM: "6"}, pool=here.name))
    assert shares(namespace.running("chat")[0]) == {0: 6}
    assert (webhook.process.alive, webhook.process.pid) == (True, pid)
