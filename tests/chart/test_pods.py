"""How the workloads run: restricted, spread, probed, and found by their Services and budgets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.rendering import Helm, Manifest, Rendered
from webhook.__main__ import _LINGER_S

COMPONENTS = pytest.mark.parametrize("component", ["webhook", "controller"])


def _deployment(chart: Rendered, component: str) -> Manifest:
    return chart.one("Deployment", f"placement-operator-{component}")


def _pod(chart: Rendered, component: str) -> dict[str, Any]:
    pod = _deployment(chart, component)["spec"]["template"]["spec"]
    assert isinstance(pod, dict)
    return pod


@COMPONENTS
def test_the_pod_meets_the_restricted_pod_security_standard(chart: Rendered, component: str) -> None:
    pod = _pod(chart, component)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] > 0
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert [set(volume) - {"name"} for volume in pod["volumes"]] == [{"emptyDir"}]
    for container in pod["containers"]:
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }
        assert not any("hostPort" in port for port in container["ports"])


@COMPONENTS
def test_keys_that_python_wants_in_a_file_stay_in_memory(chart: Rendered, component: str) -> None:
    pod = _pod(chart, component)
    assert pod["containers"][0]["volumeMounts"] == [{"name": "tmp", "mountPath": "/tmp"}]
    assert pod["volumes"][0]["emptyDir"]["medium"] == "Memory"


@COMPONENTS
def test_the_token_is_mounted_by_the_pod_and_not_by_the_account(chart: Rendered, component: str) -> None:
    pod = _pod(chart, component)
    assert pod["automountServiceAccountToken"] is True
    assert pod["enableServiceLinks"] is False
    account = chart.one("ServiceAccount", f"placement-operator-{component}")
    assert account["automountServiceAccountToken"] is False


@COMPONENTS
def test_the_container_is_probed_on_the_plain_port_and_asks_for_what_it_needs(chart: Rendered, component: str) -> None:
    (container,) = _pod(chart, component)["containers"]
    assert container["command"] == [f"placement-{component}"]
    assert {"name": "health", "containerPort": 8081} in container["ports"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "health"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "health"}
    assert {"cpu", "memory"} <= set(container["resources"]["requests"])
    assert "memory" in container["resources"]["limits"]
    assert "cpu" not in container["resources"]["limits"]


@COMPONENTS
def test_replicas_are_spread_softly_and_drained_one_at_a_time(chart: Rendered, component: str) -> None:
    deployment = _deployment(chart, component)
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selector = deployment["spec"]["selector"]["matchLabels"]
    assert selector.items() <= labels.items()
    spread = _pod(chart, component)["topologySpreadConstraints"]
    assert {c["topologyKey"] for c in spread} == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}
    for constraint in spread:
        assert constraint["whenUnsatisfiable"] == "ScheduleAnyway"
        assert constraint["labelSelector"]["matchLabels"] == selector
    budget = chart.one("PodDisruptionBudget", f"placement-operator-{component}")["spec"]
    assert budget == {
        "maxUnavailable": 1,
        "unhealthyPodEvictionPolicy": "AlwaysAllow",
        "selector": {"matchLabels": selector},
    }


@COMPONENTS
def test_a_pod_has_time_to_finish_its_answers(chart: Rendered, component: str) -> None:
    assert _pod(chart, component)["terminationGracePeriodSeconds"] == 30


def test_a_webhook_serves_on_until_it_is_known_to_be_unready_and_ends_within_its_grace(chart: Rendered) -> None:
    pod = _pod(chart, "webhook")
    (container,) = pod["containers"]
    probe = container["readinessProbe"]
    assert _LINGER_S >= 5
    assert probe["periodSeconds"] * probe["failureThreshold"] < _LINGER_S
    # Reviews under way may take as long again once it has stopped listening.
    assert pod["terminationGracePeriodSeconds"] > 2 * _LINGER_S


def test_no_two_workloads_select_each_others_pods(chart: Rendered) -> None:
    selectors = [deployment["spec"]["selector"]["matchLabels"] for deployment in chart.all("Deployment")]
    for deployment in chart.all("Deployment"):
        labels = deployment["spec"]["template"]["metadata"]["labels"]
        assert sum(selector.items() <= labels.items() for selector in selectors) == 1


def test_the_service_leads_from_443_to_the_webhooks_port(chart: Rendered) -> None:
    service = chart.one("Service", "placement-operator-webhook")["spec"]
    (port,) = service["ports"]
    assert (port["port"], port["targetPort"]) == (443, "https")
    (container,) = _pod(chart, "webhook")["containers"]
    assert {"name": "https", "containerPort": 9443} in container["ports"]
    assert service["selector"] == _deployment(chart, "webhook")["spec"]["selector"]["matchLabels"]


def test_a_system_priority_class_comes_with_the_quota_that_some_providers_demand(helm: Helm, chart: Rendered) -> None:
    assert _pod(chart, "webhook")["priorityClassName"] == "system-cluster-critical"
    (quota,) = chart.all("ResourceQuota")
    (scope,) = quota["spec"]["scopeSelector"]["matchExpressions"]
    assert scope == {"scopeName": "PriorityClass", "operator": "In", "values": ["system-cluster-critical"]}
    other = helm.template({"priorityClassName": "ours"})
    assert other.all("ResourceQuota") == []


def test_both_accounts_have_their_own_share_of_the_api_server(chart: Rendered) -> None:
    schema = chart.one("FlowSchema", "placement-operator")["spec"]
    assert schema["priorityLevelConfiguration"]["name"] == "placement-operator"
    assert chart.one("PriorityLevelConfiguration", "placement-operator")["spec"]["type"] == "Limited"
    (rule,) = schema["rules"]
    assert {subject["serviceAccount"]["name"] for subject in rule["subjects"]} == {
        account["metadata"]["name"] for account in chart.all("ServiceAccount")
    }


def test_everything_is_labelled_as_part_of_the_product(chart: Rendered) -> None:
    for manifest in chart.manifests:
        labels = manifest["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "placement-operator", manifest["kind"]
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
