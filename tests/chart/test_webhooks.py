"""When the API server asks us about a pod, and what happens when it cannot."""

from __future__ import annotations

from typing import Any

import cel
import pytest

from shared.api import names
from shared.core.model_pods import names_a_gpu
from tests.chart.rendering import CHART, NAMESPACE, Helm, Manifest, Rendered, selects

CONFIGURATIONS = {
    "MutatingWebhookConfiguration": ("zz-placement-operator", "/mutate"),
    "ValidatingWebhookConfiguration": ("placement-operator", "/validate"),
}
SYSTEM = ("kube-system", "kube-node-lease", "kube-public", NAMESPACE)


def _webhooks(chart: Rendered) -> list[Manifest]:
    return [webhook for kind, (name, _) in CONFIGURATIONS.items() for webhook in chart.one(kind, name)["webhooks"]]


def test_every_webhook_fails_closed_asks_briefly_and_only_about_new_pods(chart: Rendered) -> None:
    webhooks = _webhooks(chart)
    assert len(webhooks) == 4
    for webhook in webhooks:
        assert webhook["failurePolicy"] == "Fail"
        assert webhook["timeoutSeconds"] == 3
        assert webhook["sideEffects"] == "NoneOnDryRun"
        assert webhook["matchPolicy"] == "Equivalent"
        assert webhook["admissionReviewVersions"] == ["v1"]
        assert webhook["rules"] == [
            {
                "apiGroups": [""],
                "apiVersions": ["v1"],
                "resources": ["pods"],
                "operations": ["CREATE"],
                "scope": "Namespaced",
            }
        ]


def test_the_mutating_ones_are_asked_again_after_later_changes(chart: Rendered) -> None:
    policies = {webhook["name"]: webhook.get("reinvocationPolicy") for webhook in _webhooks(chart)[:2]}
    assert set(policies.values()) == {"IfNeeded"}


def test_the_mutating_configuration_runs_after_those_of_others(chart: Rendered) -> None:
    (configuration,) = chart.all("MutatingWebhookConfiguration")
    assert configuration["metadata"]["name"].startswith("zz-")


@pytest.mark.parametrize("kind", CONFIGURATIONS)
def test_each_webhook_leads_to_its_path_of_the_service(chart: Rendered, kind: str) -> None:
    name, path = CONFIGURATIONS[kind]
    webhooks = chart.one(kind, name)["webhooks"]
    assert [webhook["name"] for webhook in webhooks] == ["enabled.placement.kamiwaza.ai", "auto.placement.kamiwaza.ai"]
    for webhook in webhooks:
        assert webhook["clientConfig"] == {
            "service": {"namespace": NAMESPACE, "name": "placement-operator-webhook", "path": path, "port": 443}
        }


def test_the_timeout_is_a_value(helm: Helm) -> None:
    assert {w["timeoutSeconds"] for w in _webhooks(helm.template({"webhook": {"timeoutSeconds": 7}}))} == {7}


def test_no_template_speaks_of_the_authority_that_the_controller_writes() -> None:
    for path in CHART.rglob("*"):
        if path.is_file():
            assert "cabundle" not in path.read_text(encoding="utf-8").lower(), path


def test_no_certificate_is_made_while_rendering() -> None:
    for path in (CHART / "templates").rglob("*"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            assert not any(
                function in text for function in ("genCA", "genSignedCert", "genSelfSignedCert", "lookup")
            ), path


@pytest.mark.parametrize("mode", [names.MODE_ENABLED, names.MODE_AUTO])
def test_a_labelled_namespace_is_the_business_of_exactly_one_webhook_of_each_configuration(
    chart: Rendered, mode: str
) -> None:
    labels = {names.NAMESPACE_LABEL: mode, "kubernetes.io/metadata.name": "team-a"}
    matching = [w["name"] for w in _webhooks(chart) if selects(w["namespaceSelector"], labels)]
    assert matching == [f"{mode}.placement.kamiwaza.ai"] * 2


@pytest.mark.parametrize("label", [None, "", "false", "disabled", "Enabled"])
def test_a_namespace_without_a_known_label_is_never_matched(chart: Rendered, label: str | None) -> None:
    labels = {"kubernetes.io/metadata.name": "team-a"} | ({} if label is None else {names.NAMESPACE_LABEL: label})
    assert not any(selects(webhook["namespaceSelector"], labels) for webhook in _webhooks(chart))


@pytest.mark.parametrize("namespace", SYSTEM)
@pytest.mark.parametrize("mode", [names.MODE_ENABLED, names.MODE_AUTO])
def test_system_namespaces_and_our_own_are_never_matched_whatever_their_labels(
    chart: Rendered, namespace: str, mode: str
) -> None:
    labels = {names.NAMESPACE_LABEL: mode, "kubernetes.io/metadata.name": namespace}
    assert not any(selects(webhook["namespaceSelector"], labels) for webhook in _webhooks(chart))


def test_our_own_namespace_is_left_out_wherever_the_release_lives(helm: Helm) -> None:
    labels = {names.NAMESPACE_LABEL: "enabled", "kubernetes.io/metadata.name": "gpu-ops"}
    assert not any(selects(w["namespaceSelector"], labels) for w in _webhooks(helm.template(namespace="gpu-ops")))


def test_both_configurations_ask_under_the_same_conditions(chart: Rendered) -> None:
    mutating, validating = (chart.one(kind, name)["webhooks"] for kind, (name, _) in CONFIGURATIONS.items())
    for ours, theirs in zip(mutating, validating, strict=True):
        assert ours["matchConditions"] == theirs["matchConditions"]
        assert ours["namespaceSelector"] == theirs["namespaceSelector"]
    enabled, auto = mutating
    assert [condition["name"] for condition in enabled["matchConditions"]] == ["not-a-mirror-pod", "names-a-gpu"]
    assert [condition["name"] for condition in auto["matchConditions"]] == ["not-a-mirror-pod"]


def _condition(chart: Rendered, name: str) -> str:
    (enabled, _) = chart.one("MutatingWebhookConfiguration", "zz-placement-operator")["webhooks"]
    (expression,) = (c["expression"] for c in enabled["matchConditions"] if c["name"] == name)
    assert isinstance(expression, str)
    return expression


MIRROR = {"kubernetes.io/config.mirror": "0c1d"}


@pytest.mark.parametrize(
    ("annotations", "groups", "asked"),
    [
        pytest.param(None, ["system:authenticated"], True, id="a user's pod"),
        pytest.param(MIRROR, ["system:nodes"], False, id="a node's mirror of a static pod"),
        pytest.param(MIRROR, ["system:authenticated"], True, id="a user's pod that poses as a mirror"),
        pytest.param({"a": "b"}, ["system:nodes"], True, id="a node's pod that mirrors nothing"),
    ],
)
def test_only_a_node_can_keep_a_mirror_pod_away_from_us(
    chart: Rendered, annotations: dict[str, str] | None, groups: list[str], asked: bool
) -> None:
    metadata = {"name": "p"} | ({} if annotations is None else {"annotations": annotations})
    context = {"object": {"metadata": metadata, "spec": {}}, "request": {"userInfo": {"groups": groups}}}
    assert cel.evaluate(_condition(chart, "not-a-mirror-pod"), context) is asked


def _pod(container: dict[str, Any] | None = None, **rest: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i", **(container or {})}], **rest.pop("spec", {})}
    return {"metadata": {"name": "p", **rest}, "spec": spec}


def _env(**variable: Any) -> dict[str, Any]:
    return {"env": [{"name": "HOME", "value": "/"}, {"name": "NVIDIA_VISIBLE_DEVICES", **variable}]}


PODS = {
    "nothing at all": (_pod(), False),
    "no resources but cpu": (_pod({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}), False),
    "foreign annotations and labels": (_pod(annotations={"a": "b"}, labels={"nvidia.com/gpu": "x"}), False),
    "no devices": (_pod(_env(value="none")), False),
    "void devices": (_pod(_env(value="void")), False),
    "an empty list of devices": (_pod(_env(value="")), False),
    "devices without a value": (_pod(_env()), False),
    "a key that only looks like ours": (_pod(annotations={"x.kamiwaza.ai/vram-gb": "6"}), False),
    "null containers": ({"metadata": {}, "spec": {"containers": None}}, False),
    "all devices": (_pod(_env(value="all")), True),
    "devices from a field": (_pod(_env(valueFrom={"fieldRef": {"fieldPath": "metadata.name"}})), True),
    "our annotation": (_pod(annotations={"kamiwaza.ai/vram-gb": "6"}), True),
    "our label": (_pod(labels={"kamiwaza.ai/reservation": "abcdefgh23"}), True),
    "a HAMi annotation": (_pod(annotations={"nvidia.com/use-gputype": "A100"}), True),
    "a KAI annotation": (_pod(annotations={"gpu-memory": "2000"}), True),
    "whole NVIDIA GPUs": (_pod({"resources": {"limits": {"nvidia.com/gpu": "1"}}}), True),
    "zero GPUs": (_pod({"resources": {"limits": {"nvidia.com/gpu": "0"}}}), True),
    "AMD in requests only": (_pod({"resources": {"requests": {"amd.com/gpu": "1"}}}), True),
    "Intel": (_pod({"resources": {"limits": {"gpu.intel.com/i915": "1"}}}), True),
    "a per-card request": (_pod({"resources": {"limits": {"kamiwaza.ai/vram-gb-gpu-0": "6"}}}), True),
    "an init container": (
        _pod(spec={"initContainers": [{"name": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}]}),
        True,
    ),
}


@pytest.mark.parametrize("case", PODS)
def test_pods_that_name_a_gpu_are_asked_about_and_no_others(chart: Rendered, case: str) -> None:
    pod, want = PODS[case]
    assert cel.evaluate(_condition(chart, "names-a-gpu"), {"object": pod}) is want
    assert names_a_gpu(pod) is want
