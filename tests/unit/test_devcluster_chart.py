"""What a development cluster changes of the rendered chart, and what it takes from it."""

from __future__ import annotations

import pytest

from hack.devcluster.chart import ChartError, called_at, webhook_configurations, workloads

CONFIGURATION = {
    "kind": "ValidatingWebhookConfiguration",
    "metadata": {"name": "placement-operator"},
    "webhooks": [
        {
            "name": "a",
            "failurePolicy": "Fail",
            "clientConfig": {"service": {"name": "s", "namespace": "n", "port": 443, "path": "/validate"}},
        }
    ],
}


def deployment(program: str, *env: object) -> dict[str, object]:
    container = {"command": [f"placement-{program}"], "env": list(env)}
    pod = {"serviceAccountName": f"sa-{program}", "containers": [container]}
    return {"kind": "Deployment", "metadata": {"name": f"d-{program}"}, "spec": {"template": {"spec": pod}}}


def test_only_the_address_of_a_webhook_changes() -> None:
    changed = called_at(CONFIGURATION, "https://127.0.0.1:1234")

    assert changed["webhooks"] == [
        {"name": "a", "failurePolicy": "Fail", "clientConfig": {"url": "https://127.0.0.1:1234/validate"}}
    ]
    assert "service" in CONFIGURATION["webhooks"][0]["clientConfig"]  # type: ignore[index]


def test_other_objects_stay_as_they_are() -> None:
    role = {"kind": "ClusterRole", "metadata": {"name": "x"}}

    assert called_at(role, "https://127.0.0.1:1234") == role


def test_the_configurations_are_found_by_their_api_path() -> None:
    assert webhook_configurations([CONFIGURATION, {"kind": "ClusterRole"}]) == [
        "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/placement-operator"
    ]


def test_a_process_gets_the_environment_of_its_container() -> None:
    identity = {"name": "PLACEMENT_IDENTITY", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}
    namespace = {"name": "PLACEMENT_NAMESPACE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.namespace"}}}
    level = {"name": "PLACEMENT_LOG_LEVEL", "value": "info"}
    found = workloads([deployment("webhook"), deployment("controller", identity, namespace, level)])

    assert found["controller"].service_account == "sa-controller"
    assert found["controller"].environment("pod-7") == {
        "PLACEMENT_IDENTITY": "pod-7",
        "PLACEMENT_NAMESPACE": "placement-system",
        "PLACEMENT_LOG_LEVEL": "info",
    }


def test_an_environment_that_cannot_be_followed_is_named() -> None:
    secret = {"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    found = workloads([deployment("webhook", secret), deployment("controller")])

    with pytest.raises(ChartError, match=r"Deployment d-webhook: cannot follow .* of TOKEN"):
        found["webhook"].environment("pod")


def test_a_chart_without_a_workload_is_refused() -> None:
    with pytest.raises(ChartError, match="no Deployment that runs controller"):
        workloads([deployment("webhook")])
