"""What an API server does with a request before it stores the object, stage by stage.

Mutating webhooks, then its own rules, Pod Security, policies, validating webhooks, quota. What is asked of the product
goes through its own HTTP handlers.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from tests.cases import calls
from tests.cases.harness import Product
from tests.cases.registered import Hook, Review, hooks, policy_refusals
from tests.cases.stages import pod_security_refusal
from tests.fakes.api import json_patched, place_of
from tests.fakes.objects import Json, ObjectStore, RefusalError
from tests.fakes.pod_rules import problems_of_new, problems_of_update, with_defaults

PRODUCT = "product"
API_SERVER = "api-server"
POD_SECURITY = "PodSecurity"
RESOURCE_QUOTA = "ResourceQuota"
OTHER_WEBHOOK = "other-webhook"


@dataclass(frozen=True, slots=True)
class Refusal:
    """`by` is the stage that refuses, `status` what the client is sent."""

    by: str
    status: Json

    @property
    def message(self) -> str:
        """The text for people."""
        return str(self.status.get("message") or "")


@dataclass(slots=True)
class Passage:
    """A request on its way. `object` is as the stages so far have left it, `ops` what our webhooks changed."""

    review: Review
    object: Json
    replica: str | None
    ops: list[Json] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    asked: set[str] = field(default_factory=set)
    refusal: Refusal | None = None

    @property
    def refused(self) -> bool:
        """Whether a stage has refused it."""
        return self.refusal is not None

    def refuse(self, by: str, message: str, status: Json | None = None) -> None:
        """Ends the request; the first refusal counts."""
        if self.refusal is None:
            self.refusal = Refusal(by, status or {"code": 403, "reason": "Forbidden", "message": message})


class Admission:
    """The stages. `pod_security` says whether the level `restricted` is enforced in opted-in namespaces."""

    def __init__(self, store: ObjectStore, product: Product, secured: frozenset[str]) -> None:
        self._store = store
        self._product = product
        self._secured = secured
        self._connections = calls.Connections()

    def hang_up(self) -> None:
        """Ends its connections to the webhooks, so that the next calls look at the certificates again."""
        self._connections.hang_up()

    def living(self, replica: str | None) -> str | None:
        """The replica that goes on with a request: the one that served it so far, or any other if that is dead."""
        return replica if self._product.webhook(replica) is not None else None

    async def mutate(self, passage: Passage, *, again: bool = False) -> None:
        """Asks the mutating webhooks; `again` only those that were asked before and want to be asked once more."""
        passage.object = self._defaulted(passage)
        for hook in hooks(self._store, mutating=True):
            wants_again = hook.raw.get("reinvocationPolicy") == "IfNeeded" and hook.name in passage.asked
            if again and not wants_again:
                continue
            response = await self._ask(hook, passage)
            if response is None:
                if passage.refused:
                    return
                continue
            passage.asked.add(hook.name)
            if not self._allowed(passage, response):
                return
            if response.get("patch"):
                ops = orjson.loads(base64.b64decode(response["patch"]))
                passage.ops += ops
                try:
                    passage.object = json_patched(passage.object, ops)
                except RefusalError as refusal:
                    passage.refuse(API_SERVER, str(refusal), refusal.status)
                    return
                passage.object = self._defaulted(passage)

    async def validate(self, passage: Passage) -> None:
        """Its own rules, Pod Security, policies and the validating webhooks."""
        review = replace(passage.review, object=passage.object)
        if review.kind == "Pod":
            old = review.old
            problems = (
                problems_of_new(passage.object)
                if old is None
                else problems_of_update(with_defaults(old), passage.object, review.subresource)
            )
            if problems:
                text = f'Pod "{review.name}" is invalid: {"; ".join(problems)}'
                passage.refuse(API_SERVER, text, {"code": 422, "reason": "Invalid", "message": text})
                return
            insecure = pod_security_refusal(passage.object) if review.namespace in self._secured else None
            if insecure is not None and old is None:
                passage.refuse(POD_SECURITY, insecure)
                return
        for message in policy_refusals(self._store, review, self._namespace_labels(review.namespace)):
            passage.refuse(PRODUCT, message)
            return
        for hook in hooks(self._store, mutating=False):
            response = await self._ask(hook, passage)
            if passage.refused or (response is not None and not self._allowed(passage, response)):
                return

    def _allowed(self, passage: Passage, response: Json) -> bool:
        passage.warnings += response.get("warnings") or []
        if not response.get("allowed"):
            status = response.get("status") or {}
            passage.refuse(PRODUCT, str(status.get("message")), status)
        return bool(response.get("allowed"))

    async def _ask(self, hook: Hook, passage: Passage) -> Json | None:
        """The webhook's response; None if it is not concerned, or cannot be asked and need not be."""
        review = replace(passage.review, object=passage.object)
        try:
            if not hook.concerns(review, self._namespace_labels(review.namespace)):
                return None
        except (ValueError, RuntimeError, TypeError, LookupError) as error:
            passage.refuse(API_SERVER, f"match conditions of {hook.name}: {error}")
            return None
        try:
            return await self._post(hook, review, passage.replica)
        except calls.UnreachableError as error:
            if hook.fails_closed:
                text = f'Internal error occurred: failed calling webhook "{hook.name}": {error}'
                passage.refuse(API_SERVER, text, {"code": 500, "reason": "InternalError", "message": text})
            return None

    async def _post(self, hook: Hook, review: Review, replica: str | None) -> Json:
        webhook = self._product.webhook(replica)
        if webhook is None or webhook.server is None or webhook.certificate is None:
            raise calls.UnreachableError("connect: connection refused")
        timeout_s = int(hook.raw.get("timeoutSeconds", 10))
        path = f"{hook.raw['clientConfig']['service']['path']}?timeout={timeout_s}s"
        body = orjson.dumps(
            {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": review.as_json()}
        )
        try:
            async with asyncio.timeout(timeout_s):
                answer = await self._connections.post(
                    webhook.server,
                    webhook.certificate.context,
                    path,
                    body,
                    host=hook.host,
                    ca_bundle=hook.ca_bundle,
                )
        except TimeoutError as error:
            raise calls.UnreachableError("context deadline exceeded") from error
        return _response(answer, review.uid)

    def _defaulted(self, passage: Passage) -> Json:
        return with_defaults(passage.object) if passage.review.kind == "Pod" else passage.object

    def _namespace_labels(self, namespace: str) -> dict[str, str]:
        try:
            labels = self._store.get(place_of(f"/api/v1/namespaces/{namespace}"))["metadata"].get("labels") or {}
        except RefusalError:
            return {}
        return dict(labels)


def _response(answer: bytes, uid: str) -> Json:
    """The `response` of an AdmissionReview, held to what the API server demands of one."""
    try:
        review: Any = orjson.loads(answer)
        response: Json = review["response"]
        good = review["kind"] == "AdmissionReview" and response["uid"] == uid and response["allowed"] in (True, False)
    except (ValueError, KeyError, TypeError) as error:
        raise calls.UnreachableError(f"received invalid webhook response: {error}") from error
    if not good:
        raise calls.UnreachableError("received invalid webhook response: expected an AdmissionReview for this uid")
    return response
