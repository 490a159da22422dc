"""The AdmissionReview envelope: what the API server sends, and the three answers it can get."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from shared.core.explain import causes, explain
from shared.core.ledger import UNCONFIRMED_TTL_S
from shared.core.pod_warnings import LONGEST
from shared.core.refusal import Refusal

_API_VERSION: Final = "admission.k8s.io/v1"


class BadReviewError(ValueError):
    """A request body that is no AdmissionReview of a pod: answered with HTTP 400."""


class _GroupVersionResource(BaseModel):
    group: str
    version: str
    resource: str


class Request(BaseModel):
    """The part of an AdmissionReview's request that decides. `pod` is the object as raw JSON."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    uid: Annotated[str, Field(min_length=1, max_length=128)]
    resource: _GroupVersionResource
    operation: str
    namespace: Annotated[str, Field(max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")]
    sub_resource: Annotated[str, Field(alias="subResource")] = ""
    dry_run: Annotated[bool | None, Field(alias="dryRun")] = None
    pod: Annotated[dict[str, Any] | None, Field(alias="object")] = None

    @property
    def creates_a_pod(self) -> bool:
        gvr = self.resource
        return (
            (gvr.group, gvr.version, gvr.resource) == ("", "v1", "pods")
            and not self.sub_resource
            and self.operation == "CREATE"
        )


class _Review(BaseModel):
    api_version: Annotated[Literal["admission.k8s.io/v1"], Field(alias="apiVersion")]
    kind: Literal["AdmissionReview"]
    request: Request


def parse_review(body: bytes | bytearray) -> Request:
    """The request of the AdmissionReview in `body`. Raises `BadReviewError`, which says what is wrong with it."""
    try:
        # Not pydantic's own JSON reader: it would let NaN through, which is no JSON.
        review = _Review.model_validate(orjson.loads(body))
    except orjson.JSONDecodeError as error:
        raise BadReviewError(f"the body is not JSON: {error}") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the body"
        raise BadReviewError(f"not an {_API_VERSION} AdmissionReview: {where}: {first['msg']}") from error
    if review.request.creates_a_pod and review.request.pod is None:
        raise BadReviewError("request.object is missing: a CREATE carries the pod")
    try:
        orjson.dumps(review.request.pod)
    except TypeError as error:
        # Nested more deeply than a patch can be written, and so than anything that walks through it can follow.
        raise BadReviewError("request.object is nested too deeply") from error
    return review.request


def allow(uid: str, *, patch: Sequence[Mapping[str, Any]] = (), warnings: Sequence[str] = ()) -> bytes:
    """The answer that lets the pod in, changed by the JSON Patch operations of `patch`."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(orjson.dumps(patch)).decode()
    if warnings:
        response["warnings"] = [warning[:LONGEST] for warning in warnings]
    return _encode(response)


def deny(uid: str, refusal: Refusal) -> bytes:
    """The answer that refuses the pod: 403 with the text for people and the causes for machines.

    Never 429, which clients take as a request to try again at once, and never reason `Invalid`, of which kubectl shows
    only the causes.
    """
    details = {
        "kind": "pods",
        "causes": [
            {"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in causes(refusal)
        ],
    }
    status = {"code": 403, "reason": "Forbidden", "message": explain(refusal), "details": details}
    return _encode({"uid": uid, "allowed": False, "status": status})


def unavailable(uid: str, why: str, *, tried: bool = True) -> bytes:
    """The answer when a decision could not be recorded. Not a NoFit: the same create may succeed in a moment.

    A write that got no answer may have happened all the same; nobody takes such an entry back but the controller.
    `tried` is False where it did not come to a write.
    """
    message = f"unavailable: the placement could not be recorded ({why}); try again."
    if tried:
        message += f" A reservation may remain for up to {UNCONFIRMED_TTL_S} s."
    status = {"code": 503, "reason": "ServiceUnavailable", "message": message}
    return _encode({"uid": uid, "allowed": False, "status": status})


def _encode(response: Mapping[str, Any]) -> bytes:
    return orjson.dumps({"apiVersion": _API_VERSION, "kind": "AdmissionReview", "response": response})
