"""The webhooks and policies that an API server has been told of, and which requests they are about."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import cel

from tests.fakes.api import place_of
from tests.fakes.objects import Json, ObjectStore
from tests.fakes.selectors import Selector
from tests.scheduler_model import is_met

_UNSEEN = frozenset({"object", "oldObject", "options"})
_ADMISSION = "/apis/admissionregistration.k8s.io/v1/"


@dataclass(frozen=True, slots=True)
class Review:
    """A request as admission sees it. `groups` are those of who sends it."""

    uid: str
    operation: str
    api_version: str
    kind: str
    plural: str
    namespace: str
    name: str
    object: Json
    old: Json | None = None
    subresource: str = ""
    dry_run: bool = False
    user: str = "user"
    groups: tuple[str, ...] = ("system:authenticated",)

    def as_json(self) -> Json:
        """The `request` of an AdmissionReview."""
        group, _, version = self.api_version.rpartition("/")
        kind = {"group": group, "version": version, "kind": self.kind}
        resource = {"group": group, "version": version, "resource": self.plural}
        return {
            "uid": self.uid,
            "kind": kind,
            "resource": resource,
            "requestKind": kind,
            "requestResource": resource,
            **({"subResource": self.subresource, "requestSubResource": self.subresource} if self.subresource else {}),
            "namespace": self.namespace,
            **({"name": self.name} if self.name else {}),
            "operation": self.operation,
            "userInfo": {"username": self.user, "groups": list(self.groups)},
            "object": self.object,
            "oldObject": self.old,
            "dryRun": self.dry_run,
            "options": {"apiVersion": "meta.k8s.io/v1", "kind": f"{self.operation.capitalize()}Options"},
        }


@dataclass(frozen=True, slots=True)
class Hook:
    """One webhook of a configuration, as JSON, with the name by which it is told apart from all others."""

    name: str
    raw: Json = field(hash=False)

    @property
    def host(self) -> str:
        """The name that its certificate must be good for."""
        service = self.raw["clientConfig"]["service"]
        return f"{service['name']}.{service['namespace']}.svc"

    @property
    def ca_bundle(self) -> bytes:
        """The authorities that are trusted; empty as long as nobody has written them."""
        return base64.b64decode(self.raw["clientConfig"].get("caBundle") or "")

    @property
    def fails_closed(self) -> bool:
        """Whether a request is refused when the webhook cannot be asked."""
        return bool(self.raw.get("failurePolicy", "Fail") == "Fail")

    def concerns(self, review: Review, namespace_labels: Mapping[str, str]) -> bool:
        """Whether the webhook is to be asked about a request. Raises `cel` errors of its conditions."""
        return (
            any(_rule_matches(rule, review) for rule in self.raw.get("rules") or ())
            and selects(self.raw.get("namespaceSelector"), namespace_labels)
            and selects(self.raw.get("objectSelector"), review.object["metadata"].get("labels") or {})
            and all(_condition(each["expression"], review) for each in self.raw.get("matchConditions") or ())
        )


def hooks(store: ObjectStore, *, mutating: bool) -> list[Hook]:
    """All webhooks of a sort, in the order in which they are asked."""
    plural = "mutatingwebhookconfigurations" if mutating else "validatingwebhookconfigurations"
    found = []
    for configuration in store.select(place_of(_ADMISSION + plural), Selector()):
        name = configuration["metadata"]["name"]
        found += [Hook(f"{name}/{raw['name']}", raw) for raw in configuration.get("webhooks") or ()]
    return found


def policy_refusals(store: ObjectStore, review: Review, namespace_labels: Mapping[str, str]) -> Iterator[str]:
    """What the bound ValidatingAdmissionPolicies have against a request."""
    policies = {
        policy["metadata"]["name"]: policy["spec"]
        for policy in store.select(place_of(_ADMISSION + "validatingadmissionpolicies"), Selector())
    }
    for binding in store.select(place_of(_ADMISSION + "validatingadmissionpolicybindings"), Selector()):
        spec = policies.get(binding["spec"]["policyName"])
        resources = (binding["spec"].get("matchResources") or {}).get("namespaceSelector")
        if spec is None or not selects(resources, namespace_labels):
            continue
        rules = (spec.get("matchConstraints") or {}).get("resourceRules") or ()
        conditions = spec.get("matchConditions") or ()
        if not any(_rule_matches(rule, review) for rule in rules):
            continue
        if not all(_condition(each["expression"], review) for each in conditions):
            continue
        for validation in spec.get("validations") or ():
            if not _condition(validation["expression"], review):
                told = validation.get("messageExpression")
                yield str(_evaluate(told, review)) if told else str(validation.get("message"))


def _rule_matches(rule: Json, review: Review) -> bool:
    group, _, version = review.api_version.rpartition("/")
    resource = f"{review.plural}/{review.subresource}" if review.subresource else review.plural
    resources = {resource, "*/*", *(["*"] if not review.subresource else [f"*/{review.subresource}"])}
    if review.subresource:
        resources.add(f"{review.plural}/*")
    return (
        bool({group, "*"} & set(rule.get("apiGroups") or ()))
        and bool({version, "*"} & set(rule.get("apiVersions") or ()))
        and bool({review.operation, "*"} & set(rule.get("operations") or ()))
        and bool(resources & set(rule.get("resources") or ()))
        and rule.get("scope", "*") in {"*", "Namespaced" if review.namespace else "Cluster"}
    )


def selects(selector: Json | None, labels: Mapping[str, str]) -> bool:
    """Whether a label selector, if there is one, selects these labels."""
    wanted = selector or {}
    return all(labels.get(key) == value for key, value in (wanted.get("matchLabels") or {}).items()) and all(
        is_met(each, labels) for each in wanted.get("matchExpressions") or ()
    )


def _condition(expression: str, review: Review) -> bool:
    return _evaluate(expression, review) is True


def _evaluate(expression: str, review: Review) -> object:
    # Expressions do not see objects and options through the request.
    request = {key: value for key, value in review.as_json().items() if key not in _UNSEEN}
    context = {"object": review.object, "oldObject": review.old, "request": request}
    return _compiled(expression).execute(context)


@cache
def _compiled(expression: str) -> Any:
    return cel.compile(expression)
