"""What a user may set, what it changes, and what is refused."""

from __future__ import annotations

import json
import re
from typing import Any

import jsonschema
import pytest
import yaml

from shared.settings import common_settings, controller_settings
from tests.chart.rendering import CHART, ChartError, Helm, Rendered, paths_of

Values = dict[str, Any]

RAY_CLUSTER: Values = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "plural": "rayclusters"}

EVERYTHING: Values = {
    "image": {"repository": "registry:5000/ai/placement", "tag": "1.2.3", "digest": "sha256:" + "a" * 64},
    "imagePullSecrets": [{"name": "registry"}],
    "placement": {
        "vramPluginV2": {"enabled": False},
        "runtimeClassName": "nvidia",
        "stuckAfterSeconds": 90,
        "replaceStuck": False,
        "readLogs": True,
        "preemption": "enabled",
        "keptSeatSeconds": 0,
    },
    "webhook": {"replicas": 3, "timeoutSeconds": 5, "resources": {"requests": {"cpu": 1, "memory": "1Gi"}}},
    "controller": {"replicas": 1},
    "ownerKinds": [RAY_CLUSTER],
    "logLevel": "debug",
    "metrics": {"podMonitor": {"enabled": True}, "alerts": {"enabled": True}},
    "networkPolicy": {"enabled": True, "apiServerCIDRs": ["10.0.0.10/32"]},
    "priorityClassName": "",
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "node-role.kubernetes.io/control-plane", "operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
    "podLabels": {"team": "ai"},
    "podAnnotations": {"note": "1"},
    "crds": {"install": False},
}


def _container(chart: Rendered, component: str) -> Values:
    deployment = chart.one("Deployment", f"placement-operator-{component}")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def _environment(chart: Rendered, component: str) -> dict[str, Any]:
    return {v["name"]: v.get("value", v.get("valueFrom")) for v in _container(chart, component)["env"]}


@pytest.mark.parametrize("component", ["webhook", "controller"])
def test_large_blocks_of_memory_are_given_back(helm: Helm, component: str) -> None:
    assert _environment(helm.template({}), component)["MALLOC_MMAP_THRESHOLD_"] == "131072"


def test_lint_has_nothing_to_say(helm: Helm) -> None:
    assert "0 chart(s) failed" in helm.lint()


def test_every_value_can_be_set(helm: Helm) -> None:
    chart = helm.template(EVERYTHING)
    webhook = chart.one("Deployment", "placement-operator-webhook")["spec"]
    pod = webhook["template"]["spec"]
    container = _container(chart, "webhook")
    assert webhook["replicas"] == 3
    assert container["image"] == f"registry:5000/ai/placement:1.2.3@sha256:{'a' * 64}"
    assert container["resources"]["requests"] == {"cpu": 1, "memory": "1Gi"}
    assert webhook["template"]["metadata"]["labels"]["team"] == "ai"
    assert webhook["template"]["metadata"]["annotations"] == {"note": "1"}
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    assert pod["nodeSelector"] == {"kubernetes.io/os": "linux"}
    assert pod["tolerations"] == EVERYTHING["tolerations"]
    assert pod["affinity"] == {"nodeAffinity": {}}
    assert "priorityClassName" not in pod
    assert chart.all("ResourceQuota") == []
    assert chart.all("CustomResourceDefinition") == []
    assert [len(chart.all(kind)) for kind in ("PodMonitor", "PrometheusRule", "NetworkPolicy")] == [1, 1, 2]
    assert _environment(chart, "webhook")["PLACEMENT_RUNTIME_CLASS"] == "nvidia"
    assert [_environment(chart, each)["PLACEMENT_PREEMPTION"] for each in ("webhook", "controller")] == ["enabled"] * 2
    assert _environment(chart, "controller")["PLACEMENT_LOG_LEVEL"] == "debug"
    assert _environment(chart, "controller")["PLACEMENT_READ_LOGS"] == "true"
    assert _environment(chart, "controller")["PLACEMENT_KEPT_SEAT_SECONDS"] == "0"


def test_the_values_file_and_this_test_know_every_value_of_the_schema() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    of_helm = {"global"}
    assert set(defaults) == set(EVERYTHING) == set(schema["properties"]) - of_helm


def test_the_schema_is_one_itself_and_closes_every_object_of_ours() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    jsonschema.Draft7Validator.check_schema(schema)
    for path, part in paths_of(schema):
        if isinstance(part, dict) and "properties" in part and not path.endswith(".properties"):
            assert part.get("additionalProperties") is False, path
    described = [path for path, part in schema["properties"].items() if "description" not in part]
    assert described == []


@pytest.mark.parametrize(
    ("enabled", "exclusive"),
    [pytest.param(True, "false", id="shared cards"), pytest.param(False, "true", id="whole cards")],
)
def test_the_vram_plugin_value_decides_whether_both_programs_share_cards(
    helm: Helm, enabled: bool, exclusive: str
) -> None:
    chart = helm.template({"placement": {"vramPluginV2": {"enabled": enabled}}})
    for component in ("webhook", "controller"):
        assert _environment(chart, component)["PLACEMENT_EXCLUSIVE"] == exclusive


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"webhok": {"replicas": 2}}, "additional properties 'webhok' not allowed"),
        ({"webhook": {"replica": 2}}, "at '/webhook': additional properties 'replica' not allowed"),
        ({"webhook": {"replicas": 0}}, "at '/webhook/replicas': minimum: got 0, want 1"),
        ({"webhook": {"timeoutSeconds": 30}}, "at '/webhook/timeoutSeconds': maximum: got 30, want 10"),
        ({"webhook": {"resources": {"limits": {"cpu": "lots"}}}}, "at '/webhook/resources/limits/cpu'"),
        (
            {"placement": {"vramPluginV2": {"enabled": "yes"}}},
            "at '/placement/vramPluginV2/enabled': got string, want boolean",
        ),
        ({"placement": {"stuckAfterSeconds": 0}}, "at '/placement/stuckAfterSeconds'"),
        ({"placement": {"replaceStuck": "no"}}, "at '/placement/replaceStuck'"),
        ({"ownerKinds": [{**RAY_CLUSTER, "wake": "yes"}]}, "at '/ownerKinds/0/wake'"),
        ({"placement": {"runtimeClassName": "Nvidia!"}}, "at '/placement/runtimeClassName'"),
        ({"placement": {"readLogs": "yes"}}, "at '/placement/readLogs': got string, want boolean"),
        ({"placement": {"preemption": True}}, "at '/placement/preemption'"),
        ({"placement": {"keptSeatSeconds": -1}}, "at '/placement/keptSeatSeconds': minimum: got -1, want 0"),
        ({"image": {"digest": "latest"}}, "at '/image/digest'"),
        ({"image": {"repository": ""}}, "at '/image/repository'"),
        ({"logLevel": "loud"}, "'debug', 'info', 'warning', 'error'"),
        ({"podLabels": {"app.kubernetes.io/name": "x"}}, "at '/podLabels/app.kubernetes.io~1name'"),
        ({"ownerKinds": [{**RAY_CLUSTER, "apiVersion": "*/v1"}]}, "at '/ownerKinds/0/apiVersion'"),
        ({"ownerKinds": [{**RAY_CLUSTER, "apiVersion": "v1"}]}, "at '/ownerKinds/0/apiVersion'"),
        ({"ownerKinds": [{**RAY_CLUSTER, "kind": "rayclusters"}]}, "at '/ownerKinds/0/kind'"),
        ({"ownerKinds": [{**RAY_CLUSTER, "plural": "*"}]}, "at '/ownerKinds/0/plural'"),
        ({"ownerKinds": [{"apiVersion": "ray.io/v1", "kind": "RayCluster"}]}, "missing property 'plural'"),
        ({"metrics": {"podMonitor": {"interval": "often"}}}, "at '/metrics/podMonitor/interval'"),
        ({"metrics": {"alerts": {"labels": {"helm.sh/chart": "x"}}}}, "at '/metrics/alerts/labels/helm.sh~1chart'"),
        ({"networkPolicy": {"apiServerCIDRs": ["10.0.0.10"]}}, "at '/networkPolicy/apiServerCIDRs/0'"),
        ({"crds": {"install": None}}, "at '/crds'"),
    ],
    ids=lambda value: json.dumps(value) if isinstance(value, dict) else "",
)
def test_a_wrong_value_is_refused_and_the_message_says_where_it_stands(
    helm: Helm, values: Values, message: str
) -> None:
    with pytest.raises(ChartError) as refusal:
        helm.template(values)
    assert message in str(refusal.value)


@pytest.mark.parametrize("namespace", ["default", "kube-system", "kube-public", "kube-node-lease"])
def test_a_namespace_of_kubernetes_itself_is_refused_with_the_command_that_works(helm: Helm, namespace: str) -> None:
    with pytest.raises(ChartError) as refusal:
        helm.template(namespace=namespace)
    text = str(refusal.value)
    assert f'cannot run in the namespace "{namespace}"' in text
    assert "--namespace placement-system --create-namespace" in text


@pytest.mark.parametrize("component", ["webhook", "controller"])
def test_a_single_replica_has_no_disruption_budget_and_the_notes_warn(helm: Helm, component: str) -> None:
    values = {component: {"replicas": 1}}
    assert f"placement-operator-{component}" not in {
        budget["metadata"]["name"] for budget in helm.template(values).all("PodDisruptionBudget")
    }
    assert f"WARNING: {component}.replicas is 1" in helm.notes(values)
    assert "WARNING" not in helm.notes()


def test_the_notes_give_the_first_commands(helm: Helm) -> None:
    notes = helm.notes()
    for command in (
        "kubectl label namespace <namespace> kamiwaza.ai/placement=enabled",
        "kubectl get gpunodes",
        "kubectl get modelplacements",
    ):
        assert command in notes
    assert "{{" not in notes


def test_owner_kinds_reach_both_programs_in_the_form_that_they_read(helm: Helm, chart: Rendered) -> None:
    kinds = [RAY_CLUSTER, {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "plural": "pytorchjobs"}]
    given = helm.template({"ownerKinds": kinds})
    for component in ("webhook", "controller"):
        assert "PLACEMENT_OWNER_KINDS" not in _environment(chart, component)
        env = _environment(given, component) | {"PLACEMENT_NAMESPACE": "placement-system"}
        assert common_settings(env).owner_kinds == {
            ("ray.io/v1", "RayCluster"): "rayclusters",
            ("kubeflow.org/v1", "PyTorchJob"): "pytorchjobs",
        }


def test_of_the_owner_kinds_the_controller_is_told_which_it_may_touch(helm: Helm) -> None:
    other = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "plural": "pytorchjobs"}
    given = helm.template({"ownerKinds": [other, {**RAY_CLUSTER, "wake": True}]})
    assert "PLACEMENT_WAKE_KINDS" not in _environment(helm.template({"ownerKinds": [other]}), "controller")
    assert "PLACEMENT_WAKE_KINDS" not in _environment(given, "webhook")
    assert controller_settings(_controllers(given)).wake_kinds == {("ray.io/v1", "RayCluster"): "rayclusters"}


@pytest.mark.parametrize(("seconds", "replace"), [(60, True), (5, False)])
def test_what_is_done_about_stuck_pods_reaches_the_controller(helm: Helm, seconds: int, replace: bool) -> None:
    given = helm.template({"placement": {"stuckAfterSeconds": seconds, "replaceStuck": replace}})
    settings = controller_settings(_controllers(given))
    assert (settings.stuck_after_s, settings.replace_stuck) == (seconds, replace)


def _controllers(chart: Rendered) -> dict[str, str]:
    """The controller's environment, with what only a cluster knows."""
    env = _environment(chart, "controller")
    return env | {"PLACEMENT_NAMESPACE": "placement-system", "PLACEMENT_IDENTITY": "controller-0"}


def test_every_setting_of_the_environment_is_one_that_the_programs_read(chart: Rendered) -> None:
    source = (CHART.parents[1] / "shared" / "settings.py").read_text()
    read = set(re.findall(r'"(PLACEMENT_[A-Z_]+)"', source))
    for component in ("webhook", "controller"):
        assert set(_environment(chart, component)) - {"MALLOC_MMAP_THRESHOLD_"} <= read  # that one is for the C library
