"""The rights of our two accounts, written out. A right that is not in this list does not belong in the chart."""

from __future__ import annotations

from typing import Any

import pytest

from tests.chart.rendering import NAMESPACE, Helm, Rendered

Right = tuple[str, str, str, str]
"""API group, resource, object name (`*` for any) and verb."""

READ = ("get", "list", "watch")
TLS = "placement-operator-webhook-tls"

READS = {
    ("", "pods"): READ,
    ("", "nodes"): READ,
    ("", "namespaces"): READ,
    ("", "persistentvolumes"): READ,
    ("", "persistentvolumeclaims"): READ,
    ("", "resourcequotas"): READ,
    ("storage.k8s.io", "storageclasses"): READ,
    ("policy", "poddisruptionbudgets"): READ,
    ("placement.kamiwaza.ai", "gpunodes"): READ,
    ("", "replicationcontrollers"): ("get",),
    ("apps", "deployments"): ("get",),
    ("apps", "replicasets"): ("get",),
    ("apps", "statefulsets"): ("get",),
    ("apps", "daemonsets"): ("get",),
    ("batch", "jobs"): ("get",),
    ("batch", "cronjobs"): ("get",),
}

CLUSTER: dict[str, dict[tuple[str, ...], tuple[str, ...]]] = {
    "webhook": {
        ("placement.kamiwaza.ai", "gpunodes/status"): ("patch",),
        ("placement.kamiwaza.ai", "modelplacements"): ("get", "create"),
        ("placement.kamiwaza.ai", "modelplacements/status"): ("patch",),
    },
    "controller": {
        ("placement.kamiwaza.ai", "gpunodes"): ("create", "patch"),
        ("placement.kamiwaza.ai", "gpunodes/status"): ("patch",),
        ("placement.kamiwaza.ai", "modelplacements"): (*READ, "create", "delete"),
        ("placement.kamiwaza.ai", "modelplacements/status"): ("patch",),
        ("", "replicationcontrollers"): ("patch",),
        ("apps", "replicasets"): ("patch",),
        ("apps", "statefulsets"): ("patch",),
        ("apps", "daemonsets"): ("patch",),
        ("batch", "jobs"): ("patch",),
        ("", "pods"): ("delete",),
        ("", "events"): ("create", "patch"),
        ("admissionregistration.k8s.io", "mutatingwebhookconfigurations", "zz-placement-operator"): (*READ, "patch"),
        ("admissionregistration.k8s.io", "validatingwebhookconfigurations", "placement-operator"): (*READ, "patch"),
    },
}

OWN_NAMESPACE: dict[str, dict[tuple[str, ...], tuple[str, ...]]] = {
    "webhook": {("", "secrets", TLS): READ},
    "controller": {
        ("", "secrets", TLS): (*READ, "patch"),
        ("", "secrets"): ("create",),
        ("coordination.k8s.io", "leases", "placement-operator-controller"): ("get", "update"),
        ("coordination.k8s.io", "leases"): ("create",),
    },
}

COMPONENTS = pytest.mark.parametrize("component", ["webhook", "controller"])


@COMPONENTS
def test_the_rights_on_the_cluster_are_those_listed_and_no_more(chart: Rendered, component: str) -> None:
    role = chart.one("ClusterRole", f"placement-operator-{component}")
    assert _granted(role) == _listed(READS) | _listed(CLUSTER[component])


@COMPONENTS
def test_the_rights_in_the_operators_namespace_are_those_listed_and_no_more(chart: Rendered, component: str) -> None:
    role = chart.one("Role", f"placement-operator-{component}")
    assert role["metadata"]["namespace"] == NAMESPACE
    assert _granted(role) == _listed(OWN_NAMESPACE[component])


@COMPONENTS
def test_each_role_is_given_to_its_own_account_alone(chart: Rendered, component: str) -> None:
    name = f"placement-operator-{component}"
    for kind in ("ClusterRole", "Role"):
        binding = chart.one(f"{kind}Binding", name)
        assert binding["roleRef"] == {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}]
    deployment = chart.one("Deployment", name)
    assert deployment["spec"]["template"]["spec"]["serviceAccountName"] == name


def test_there_are_no_roles_besides(chart: Rendered) -> None:
    for kind in ("ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding", "ServiceAccount"):
        named = [manifest["metadata"]["name"] for manifest in chart.all(kind)]
        viewers = ["placement-operator-view"] if kind == "ClusterRole" else []
        assert named == ["placement-operator-controller", *viewers, "placement-operator-webhook"]


def test_who_may_view_a_namespace_may_view_its_placements_and_change_none(chart: Rendered) -> None:
    role = chart.one("ClusterRole", "placement-operator-view")
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    group = "placement.kamiwaza.ai"
    assert _granted(role) == _listed({(group, "modelplacements"): READ, (group, "gpunodes"): READ})


def test_logs_may_be_read_by_the_controller_alone_and_only_if_the_value_says_so(helm: Helm, chart: Rendered) -> None:
    custom = helm.template({"placement": {"readLogs": True}})
    added = {
        component: _granted(custom.one("ClusterRole", f"placement-operator-{component}"))
        - _granted(chart.one("ClusterRole", f"placement-operator-{component}"))
        for component in ("webhook", "controller")
    }
    assert added == {"webhook": set(), "controller": {("", "pods/log", "*", "get")}}


def test_owner_kinds_add_the_right_to_read_them_and_nothing_else(helm: Helm, chart: Rendered) -> None:
    kinds = {"PyTorchJob": "pytorchjobs", "MPIJob": "mpijobs"}
    custom = helm.template(
        {"ownerKinds": [{"apiVersion": "kubeflow.org/v1", "kind": kind, "plural": kinds[kind]} for kind in kinds]}
    )
    for component in ("webhook", "controller"):
        name = f"placement-operator-{component}"
        added = _granted(custom.one("ClusterRole", name)) - _granted(chart.one("ClusterRole", name))
        assert added == {("kubeflow.org", plural, "*", "get") for plural in kinds.values()}


def test_an_owner_kind_that_is_woken_may_be_patched_by_the_controller_alone(helm: Helm) -> None:
    kind = {"apiVersion": "ray.io/v1", "kind": "RayCluster", "plural": "rayclusters"}
    reading, waking = (helm.template({"ownerKinds": [{**kind, "wake": wake}]}) for wake in (False, True))
    for component, added in (("webhook", set()), ("controller", {("ray.io", "rayclusters", "*", "patch")})):
        name = f"placement-operator-{component}"
        assert _granted(waking.one("ClusterRole", name)) - _granted(reading.one("ClusterRole", name)) == added


def _listed(rights: dict[Any, tuple[str, ...]]) -> set[Right]:
    return {
        (group, resource, name[0] if name else "*", verb)
        for (group, resource, *name), verbs in rights.items()
        for verb in verbs
    }


def _granted(role: dict[str, Any]) -> set[Right]:
    return {
        (group, resource, name, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", ["*"])
        for verb in rule["verbs"]
    }
