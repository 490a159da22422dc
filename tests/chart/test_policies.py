"""The rules that hold without a server of ours: who may name a card, what the controller may change and delete."""

from __future__ import annotations

from typing import Any

import cel
import pytest

from shared.api import names
from tests.chart.rendering import NAMESPACE, Helm, Rendered, selects

Object = dict[str, Any]

SYSTEM = ["kube-system", "kube-node-lease", "kube-public", NAMESPACE]
CARD = {"limits": {"kamiwaza.ai/vram-gb-gpu-0": "6"}}


def _allows(chart: Rendered, policy: str, context: Object) -> bool:
    spec = chart.one("ValidatingAdmissionPolicy", policy)["spec"]
    variables = {v["name"]: cel.evaluate(v["expression"], context) for v in spec.get("variables", ())}
    return all(
        cel.evaluate(validation["expression"], {**context, "variables": variables}) is True
        for validation in spec["validations"]
    )


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        pytest.param({"containers": [{"name": "c"}]}, True, id="no resources"),
        pytest.param({"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}, True, id="cpu only"),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}, True, id="a whole GPU"
        ),
        pytest.param({"containers": [{"name": "c", "resources": CARD}]}, False, id="a card in limits"),
        pytest.param(
            {"containers": [{"name": "c", "resources": {"requests": CARD["limits"]}}]}, False, id="a card in requests"
        ),
        pytest.param(
            {"containers": [{"name": "c"}, {"name": "d", "resources": CARD}]},
            False,
            id="a card in the second container",
        ),
        pytest.param(
            {"containers": [{"name": "c"}], "initContainers": [{"name": "i", "resources": CARD}]},
            False,
            id="a card in an init container",
        ),
    ],
)
def test_the_guard_refuses_a_pod_that_names_a_card_itself(chart: Rendered, spec: Object, allowed: bool) -> None:
    assert _allows(chart, "placement-operator-guard", {"object": {"metadata": {}, "spec": spec}}) is allowed


def test_the_guards_refusal_names_the_fix(chart: Rendered) -> None:
    (validation,) = chart.one("ValidatingAdmissionPolicy", "placement-operator-guard")["spec"]["validations"]
    message = cel.evaluate(validation["messageExpression"], {"request": {"namespace": "team-b"}})
    assert "pods in namespace team-b are not placed" in message
    assert f"{names.NAMESPACE_LABEL}: {names.MODE_ENABLED}" in message
    assert f"the annotation {names.VRAM}" in message
    assert validation["reason"] == "Forbidden"


@pytest.mark.parametrize("name", ["team-a", *SYSTEM])
@pytest.mark.parametrize("label", [None, "", "other", names.MODE_ENABLED, names.MODE_AUTO])
def test_every_namespace_has_either_our_webhooks_or_the_guard(chart: Rendered, name: str, label: str | None) -> None:
    labels = {"kubernetes.io/metadata.name": name} | ({} if label is None else {names.NAMESPACE_LABEL: label})
    guards = [
        binding
        for binding in chart.all("ValidatingAdmissionPolicyBinding")
        if binding["spec"]["policyName"] == "placement-operator-guard"
        and selects(binding["spec"]["matchResources"]["namespaceSelector"], labels)
    ]
    (configuration,) = chart.all("ValidatingWebhookConfiguration")
    asked = [w for w in configuration["webhooks"] if selects(w["namespaceSelector"], labels)]
    assert len(guards) + len(asked) == 1


def _workload(**changes: Any) -> Object:
    metadata = {
        "name": "w",
        "labels": {"app": "chat"},
        "annotations": {"note": "1"},
        "finalizers": ["a/b"],
        "ownerReferences": [{"kind": "Deployment", "name": "chat", "uid": "u"}],
    }
    spec = {"replicas": 1, "template": {"spec": {"containers": [{"name": "c"}]}}}
    return {"metadata": {**metadata, **changes.get("metadata", {})}, "spec": {**spec, **changes.get("spec", {})}}


def _bare() -> Object:
    return {"metadata": {"name": "w"}, "spec": {"replicas": 1}}


def _woken(workload: Object) -> Object:
    return {**workload, "metadata": {**workload["metadata"], "annotations": {names.WOKEN: "1"}}}


@pytest.mark.parametrize(
    ("before", "after", "allowed"),
    [
        pytest.param(_workload(), _workload(), True, id="nothing"),
        pytest.param(
            _workload(), _workload(metadata={"annotations": {"note": "1", names.WOKEN: "1"}}), True, id="waking it"
        ),
        pytest.param(
            _workload(metadata={"annotations": {names.WOKEN: "1"}}),
            _workload(metadata={"annotations": {names.WOKEN: "2"}}),
            True,
            id="waking it again",
        ),
        pytest.param(
            _bare(),
            _woken(_bare()),
            True,
            id="waking a bare one",
        ),
        pytest.param(_workload(), _workload(spec={"replicas": 2}), False, id="scaling it"),
        pytest.param(_workload(), _workload(spec={"template": {"spec": {}}}), False, id="changing its template"),
        pytest.param(
            {"metadata": {"name": "w"}}, _woken({"metadata": {"name": "w"}}), True, id="waking one without a spec"
        ),
        pytest.param(_bare(), {"metadata": {"name": "w"}}, False, id="removing its spec"),
        pytest.param(_bare(), {**_bare(), "data": {}}, False, id="adding something beside its spec"),
        pytest.param(_workload(), _workload(metadata={"labels": {"app": "x"}}), False, id="changing a label"),
        pytest.param(_workload(), _workload(metadata={"finalizers": []}), False, id="removing a finalizer"),
        pytest.param(_workload(), _workload(metadata={"ownerReferences": []}), False, id="taking it from its owner"),
        pytest.param(_workload(), _workload(metadata={"annotations": {}}), False, id="removing an annotation"),
        pytest.param(
            _workload(), _workload(metadata={"annotations": {"note": "2"}}), False, id="changing an annotation"
        ),
        pytest.param(
            _workload(),
            _workload(metadata={"annotations": {"note": "1", "x": "y"}}),
            False,
            id="adding another annotation",
        ),
    ],
)
def test_the_controller_may_wake_an_owner_and_change_nothing_else(
    chart: Rendered, before: Object, after: Object, allowed: bool
) -> None:
    assert _allows(chart, "placement-operator-controller", {"oldObject": before, "object": after}) is allowed


@pytest.mark.parametrize(
    ("labels", "allowed"),
    [
        pytest.param({names.RESERVATION: "aaaaaaaaaa", "app": "chat"}, True, id="a placed one"),
        pytest.param({"app": "chat"}, False, id="one of somebody else"),
        pytest.param(None, False, id="one without labels"),
    ],
)
def test_the_controller_may_delete_no_pods_but_placed_ones(
    chart: Rendered, labels: Object | None, allowed: bool
) -> None:
    metadata: Object = {"name": "chat-0"} | ({} if labels is None else {"labels": labels})
    context = {"oldObject": {"metadata": metadata}, "object": None}
    assert _allows(chart, "placement-operator-deletions", context) is allowed


def test_every_kind_that_the_controller_may_delete_is_ours_or_has_a_rule(chart: Rendered) -> None:
    role = chart.one("ClusterRole", "placement-operator-controller")
    deletable = {each for rule in role["rules"] if "delete" in rule["verbs"] for each in rule["resources"]}
    (rule,) = chart.one("ValidatingAdmissionPolicy", "placement-operator-deletions")["spec"]["matchConstraints"][
        "resourceRules"
    ]
    assert rule["operations"] == ["DELETE"]
    assert deletable == {*rule["resources"], "modelplacements"}


@pytest.mark.parametrize("policy", ["placement-operator-controller", "placement-operator-deletions"])
def test_the_controllers_rule_is_about_its_account(chart: Rendered, policy: str) -> None:
    spec = chart.one("ValidatingAdmissionPolicy", policy)["spec"]
    (condition,) = spec["matchConditions"]
    for user, bound in (
        (f"system:serviceaccount:{NAMESPACE}:placement-operator-controller", True),
        (f"system:serviceaccount:{NAMESPACE}:placement-operator-webhook", False),
        ("system:serviceaccount:team-a:placement-operator-controller", False),
        ("admin", False),
    ):
        context = {"request": {"userInfo": {"username": user}}}
        assert cel.evaluate(condition["expression"], context) is bound


@pytest.mark.parametrize("wake", [False, True], ids=["custom kinds are read", "custom kinds are woken"])
def test_the_controllers_rule_is_about_all_workloads_that_it_may_patch(helm: Helm, wake: bool) -> None:
    kind = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "plural": "rayclusters", "wake": wake}
    chart = helm.template({"ownerKinds": [kind]})
    spec = chart.one("ValidatingAdmissionPolicy", "placement-operator-controller")["spec"]
    ruled = {
        (g, r)
        for rule in spec["matchConstraints"]["resourceRules"]
        for g in rule["apiGroups"]
        for r in rule["resources"]
    }
    role = chart.one("ClusterRole", "placement-operator-controller")
    patchable = {
        (g, r)
        for rule in role["rules"]
        if "patch" in rule["verbs"]
        for g in rule["apiGroups"]
        for r in rule["resources"]
    }
    own = {"placement.kamiwaza.ai", "admissionregistration.k8s.io"}
    assert ruled == {(group, each) for group, each in patchable if group not in own} - {("", "events")}
    assert (("ray.io", "rayclusters") in ruled) is wake


def test_all_rules_fail_closed_and_deny(chart: Rendered) -> None:
    assert {p["spec"]["failurePolicy"] for p in chart.all("ValidatingAdmissionPolicy")} == {"Fail"}
    bindings = chart.all("ValidatingAdmissionPolicyBinding")
    assert {tuple(b["spec"]["validationActions"]) for b in bindings} == {("Deny",)}
    policies = {p["metadata"]["name"] for p in chart.all("ValidatingAdmissionPolicy")}
    assert {b["spec"]["policyName"] for b in bindings} == policies
