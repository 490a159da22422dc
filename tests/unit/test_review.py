"""The AdmissionReview envelope: what is read of it, and the form of the three answers."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from shared.core.invalid import InvalidRequest
from shared.core.refusal import CardAttempt, Excluded, Invalid, NoFit, Reason
from tests.builders import a_pod
from webhook.review import BadReviewError, allow, deny, parse_review, unavailable


def review(**changes: Any) -> dict[str, Any]:
    """An AdmissionReview of a pod's CREATE; `changes` are fields of its request, None takes one away."""
    request: dict[str, Any] = {
        "uid": "uid-1",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": "models",
        "dryRun": False,
        "object": a_pod().raw(),
        "oldObject": None,
        **changes,
    }
    kept = {key: value for key, value in request.items() if value is not None}
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": kept}


def answer(body: bytes) -> dict[str, Any]:
    """The response in an answer, whose envelope is checked."""
    decoded = orjson.loads(body)
    assert decoded.keys() == {"apiVersion", "kind", "response"}
    assert (decoded["apiVersion"], decoded["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response: dict[str, Any] = decoded["response"]
    return response


def test_a_review_is_read() -> None:
    request = parse_review(orjson.dumps(review()))
    assert request.uid == "uid-1"
    assert request.namespace == "models"
    assert request.pod == a_pod().raw()
    assert not request.dry_run
    assert request.creates_a_pod


def test_what_may_be_absent_is_absent() -> None:
    request = parse_review(orjson.dumps(review(dryRun=None, operation="DELETE", object=None)))
    assert not request.dry_run
    assert request.pod is None


@pytest.mark.parametrize(
    "changes",
    [
        pytest.param({"operation": "UPDATE"}, id="an-update"),
        pytest.param({"subResource": "binding"}, id="a-subresource"),
        pytest.param({"resource": {"group": "apps", "version": "v1", "resource": "pods"}}, id="another-group"),
        pytest.param({"resource": {"group": "", "version": "v2", "resource": "pods"}}, id="another-version"),
        pytest.param({"resource": {"group": "", "version": "v1", "resource": "services"}}, id="another-resource"),
    ],
)
def test_anything_but_a_pods_create_is_told_apart(changes: dict[str, Any]) -> None:
    assert not parse_review(orjson.dumps(review(**changes))).creates_a_pod


@pytest.mark.parametrize(
    ("body", "words"),
    [
        pytest.param(b"", "not JSON", id="empty"),
        pytest.param(b"{", "not JSON", id="cut-off"),
        pytest.param(b"\xff", "not JSON", id="not-utf-8"),
        pytest.param(b'{"request": NaN}', "not JSON", id="nan"),
        pytest.param(b"[]", "the body", id="a-list"),
        pytest.param(b"null", "the body", id="null"),
        pytest.param(orjson.dumps({**review(), "kind": "Pod"}), "kind", id="another-kind"),
        pytest.param(
            orjson.dumps({**review(), "apiVersion": "admission.k8s.io/v1beta1"}), "apiVersion", id="another-version"
        ),
        pytest.param(orjson.dumps({**review(), "request": None}), "request", id="no-request"),
        pytest.param(orjson.dumps(review(uid=None)), "request.uid", id="no-uid"),
        pytest.param(orjson.dumps(review(uid="")), "request.uid", id="an-empty-uid"),
        pytest.param(orjson.dumps(review(uid="x" * 129)), "request.uid", id="a-long-uid"),
        pytest.param(orjson.dumps(review(namespace=None)), "request.namespace", id="no-namespace"),
        pytest.param(orjson.dumps(review(namespace="")), "request.namespace", id="an-empty-namespace"),
        pytest.param(orjson.dumps(review(namespace="a/b")), "request.namespace", id="a-namespace-no-ledger-can-hold"),
        pytest.param(orjson.dumps(review(namespace="x" * 64)), "request.namespace", id="a-long-namespace"),
        pytest.param(orjson.dumps(review(resource="pods")), "request.resource", id="a-resource-in-short"),
        pytest.param(orjson.dumps(review(object=[])), "request.object", id="an-object-that-is-none"),
        pytest.param(orjson.dumps(review(object=None)), "request.object", id="no-object"),
        pytest.param(orjson.dumps(review(dryRun="maybe")), "request.dryRun", id="a-dry-run-that-is-no-flag"),
    ],
)
def test_what_is_no_review_of_a_pod_is_refused_with_the_field(body: bytes, words: str) -> None:
    with pytest.raises(BadReviewError, match=words):
        parse_review(body)


def test_an_unchanged_pod_is_let_in_without_a_patch() -> None:
    assert answer(allow("uid-1")) == {"uid": "uid-1", "allowed": True}


def test_a_patch_travels_as_base64_and_warnings_within_the_limit() -> None:
    ops = [{"op": "add", "path": "/metadata/labels", "value": {}}]
    response = answer(allow("uid-1", patch=ops, warnings=["short", "x" * 400]))
    assert response["patchType"] == "JSONPatch"
    assert orjson.loads(base64.b64decode(response["patch"])) == ops
    assert response["warnings"] == ["short", "x" * 250]


def test_a_refusal_is_forbidden_with_causes_for_machines() -> None:
    refusal = NoFit(Reason.INSUFFICIENT_CAPACITY, "6 GB", 1, excluded=(Excluded("2 cordoned", 2),), excluded_nodes=2)
    response = answer(deny("uid-1", refusal))
    assert response["uid"] == "uid-1"
    assert response["allowed"] is False
    status = response["status"]
    assert (status["code"], status["reason"]) == (403, "Forbidden")
    assert status["message"].startswith("insufficient_capacity: ")
    assert status["details"]["causes"][0]["reason"] == "insufficient_capacity"
    assert {"reason": "NodesExcluded", "message": "2 cordoned", "field": ""} in status["details"]["causes"]


def test_an_invalid_request_names_the_field_as_a_cause() -> None:
    refusal = Invalid.of(InvalidRequest("metadata.annotations[a]", "16GB", "is no amount", "write 16"))
    (cause,) = answer(deny("uid-1", refusal))["status"]["details"]["causes"]
    assert cause["reason"] == "invalid_request"
    assert cause["field"] == "metadata.annotations[a]"


def test_unavailable_is_another_code_and_says_that_it_may_be_tried_again() -> None:
    response = answer(unavailable("uid-1", "no answer in time"))
    assert response["allowed"] is False
    assert response["status"]["code"] == 503
    assert response["status"]["message"].startswith("unavailable: ")
    assert "(no answer in time); try again" in response["status"]["message"]
    assert "A reservation may remain for up to 20 s" in response["status"]["message"]
    assert "details" not in response["status"]


def test_a_refusal_in_a_large_cluster_stays_within_the_limits() -> None:
    refusal = NoFit(
        Reason.INSUFFICIENT_CAPACITY,
        "6 GB " * 40,
        1,
        attempts=tuple(CardAttempt(f"node-{number}", 0, "card", 6, 0, 16, healthy=True) for number in range(40)),
        excluded=tuple(Excluded(f"3 for reason {number}", 3) for number in range(20)),
        excluded_nodes=60,
        usable_nodes=40,
    )
    status = answer(deny("uid-1", refusal))["status"]
    assert len(status["details"]["causes"]) == 16
    assert len(status["message"]) < 900
    assert len(status["message"].splitlines()[0]) < 240


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(unavailable("uid-1", "why"), id="unavailable"),
        pytest.param(deny("uid-1", NoFit(Reason.INSUFFICIENT_CAPACITY, "6 GB", 1, can_wait=True)), id="refused"),
    ],
)
def test_no_answer_tells_a_client_to_try_again_by_itself(body: bytes) -> None:
    assert b"retryAfterSeconds" not in body
    assert b"429" not in body
