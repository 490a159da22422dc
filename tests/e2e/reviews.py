"""AdmissionReviews sent to a webhook's own port, past the API server."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from dataclasses import dataclass
from typing import Any

import orjson

from hack.devcluster.api import Api, Json
from hack.devcluster.health import HOST
from hack.devcluster.operator import Operator
from hack.devcluster.processes import Process

_MUTATING = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/zz-placement-operator"
_TIMEOUT_S = 30.0
JSON = {"Content-Type": "application/json"}
NOWHERE = "no-such-namespace"
"""For a webhook that is asked past the API server: whether a namespace has opted in the API server decides."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a webhook answered: whether the pod may be created, the JSON Patch for it, and the status of a refusal."""

    allowed: bool
    patch: list[Json]
    status: Json


@dataclass(frozen=True, slots=True)
class WebhookPort:
    """The port of one webhook process, reached with the trust that the API server has."""

    process: Process
    _tls: ssl.SSLContext

    def send(
        self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None
    ) -> tuple[int, bytes]:
        """One HTTP request on a connection of its own: status code and body of the answer."""
        assert self.process.env is not None
        port = int(self.process.env["PLACEMENT_LISTEN_PORT"])
        connection = http.client.HTTPSConnection(HOST, port, context=self._tls, timeout=_TIMEOUT_S)
        try:
            connection.request(method, path, body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def mutate(self, pod: Json, namespace: str, **changes: Any) -> Verdict:
        """What the mutating webhook makes of creating `pod`."""
        return self._review("/mutate", pod, namespace, changes)

    def validate(self, pod: Json, namespace: str, **changes: Any) -> Verdict:
        """What the validating webhook makes of creating `pod`."""
        return self._review("/validate", pod, namespace, changes)

    def _review(self, path: str, pod: Json, namespace: str, changes: Json) -> Verdict:
        status, answer = self.send("POST", path, json.dumps(review(pod, namespace, **changes)).encode(), JSON)
        assert status == http.HTTPStatus.OK, answer
        response = orjson.loads(answer)["response"]
        patch = orjson.loads(base64.b64decode(response["patch"])) if "patch" in response else []
        return Verdict(response["allowed"], patch, response.get("status") or {})


def webhook_ports(api: Api, operator: Operator) -> list[WebhookPort]:
    """Every webhook of the operator."""
    configuration = api.get(_MUTATING)
    bundle = base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"]).decode()
    tls = ssl.create_default_context(cadata=bundle)
    return [WebhookPort(process, tls) for process in operator.webhooks]


def review(pod: Json, namespace: str, /, **changes: Any) -> Json:
    """An AdmissionReview of a pod's CREATE as the API server sends it; `changes` are to its request."""
    request = {
        "uid": "0a1b2c3d-review",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": namespace,
        "userInfo": {"username": "somebody"},
        "object": pod,
        "oldObject": None,
        "dryRun": False,
        "options": {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"},
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {**request, **changes}}
