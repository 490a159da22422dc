"""The chart as Helm installs, upgrades, rolls back and removes it on a real API server; the way out of an emergency.

Nothing runs here but the control plane: what is looked at is what a release leaves in the cluster.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from hack.devcluster.api import ApiError, Json
from hack.devcluster.chart import NAMESPACE, RELEASE
from hack.devcluster.cluster import ROOT, DevCluster
from shared.api import names
from tests.e2e.kube import Namespace, find, pod, until

pytestmark = pytest.mark.e2e

_CHART = ROOT / "charts" / "placement-operator"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
_CONFIGURATIONS = (
    f"{_ADMISSION}/mutatingwebhookconfigurations/zz-{RELEASE}",
    f"{_ADMISSION}/validatingwebhookconfigurations/{RELEASE}",
)
_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WEBHOOK = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{RELEASE}-webhook"


class Release:
    """Helm, on a cluster of the test's own."""

    def __init__(self, cluster: DevCluster) -> None:
        self.cluster = cluster
        self.api = cluster.api
        homes = {f"HELM_{kind}_HOME": str(cluster.state_dir / "helm") for kind in ("CACHE", "CONFIG", "DATA")}
        self._environment = {**os.environ, **homes, "KUBECONFIG": str(cluster.kubeconfig)}

    def helm(self, *arguments: str) -> str:
        """What helm prints; fails the test with its words if it refuses."""
        argv: list[str | Path] = [self.cluster.binaries.path("helm"), "--namespace", NAMESPACE, *arguments]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, env=self._environment)
        assert done.returncode == 0, f"helm {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def configurations(self) -> list[Json]:
        """The webhook configurations that are there."""
        return [found for path in _CONFIGURATIONS if (found := find(self.api, path)) is not None]

    def replicas(self) -> int:
        """How many webhooks the release asks for."""
        replicas: int = self.api.get(_WEBHOOK)["spec"]["replicas"]
        return replicas


@pytest.fixture(scope="module")
def release() -> Iterator[Release]:
    if os.environ.get("E2E_KUBECONFIG"):
        pytest.skip("E2E_KUBECONFIG is set: releases are not installed and removed on a cluster that is not ours")
    with DevCluster() as cluster:
        release = Release(cluster)
        release.helm("install", RELEASE, str(_CHART), "--create-namespace")
        yield release


@pytest.fixture
def tenant(release: Release) -> Namespace:
    labels = {names.NAMESPACE_LABEL: names.MODE_ENABLED}
    metadata = {"name": "tenant", "labels": labels}
    if find(release.api, "/api/v1/namespaces/tenant") is None:
        release.api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    return Namespace(release.api, "tenant")


def test_an_upgrade_and_a_rollback_leave_what_the_controller_wrote(release: Release) -> None:
    authority = base64.b64encode(release.cluster.ca_file.read_bytes()).decode()
    trusted = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": authority}]
    for path in _CONFIGURATIONS:
        kind, name = path.split("/")[-2:]
        release.cluster.kubectl("patch", kind, name, "--type=json", f"--patch={json.dumps(trusted)}")

    release.helm("upgrade", RELEASE, str(_CHART), "--set", "webhook.replicas=3")
    assert release.replicas() == 3
    assert [_bundle(each) for each in release.configurations()] == [authority] * 2

    release.helm("rollback", RELEASE, "1")
    assert release.replicas() == 2
    assert [_bundle(each) for each in release.configurations()] == [authority] * 2


def test_the_emergency_commands_of_the_notes_let_pods_in_and_an_upgrade_puts_the_webhooks_back(
    release: Release, tenant: Namespace
) -> None:
    model = pod("model", {names.VRAM: "6"})
    until("no webhook answers, so a model pod is refused", lambda: not _is_created(tenant, model))

    notes = release.helm("get", "notes", RELEASE)
    commands = [line.split() for line in notes.splitlines() if line.strip().startswith("kubectl delete")]
    assert len(commands) == 2
    for _, *command in commands:
        release.cluster.kubectl(*command)
    assert release.configurations() == []
    until("a model pod is created", lambda: _is_created(tenant, model))

    release.helm("upgrade", RELEASE, str(_CHART))
    assert len(release.configurations()) == 2
    until("and refused once more", lambda: not _is_created(tenant, model))


def test_a_removed_release_is_in_nobodys_way_and_keeps_what_is_recorded(release: Release, tenant: Namespace) -> None:
    release.helm("uninstall", RELEASE)
    assert release.configurations() == []
    left = release.cluster.kubectl(
        "get",
        "validatingadmissionpolicies,validatingadmissionpolicybindings,clusterroles,clusterrolebindings",
        f"--selector=app.kubernetes.io/instance={RELEASE}",
        "--output=name",
    )
    assert left.stdout == ""
    until("a model pod is created", lambda: _is_created(tenant, pod("model", {names.VRAM: "6"})))
    kept = {crd["metadata"]["name"] for crd in release.api.get(_CRDS)["items"]}
    assert {f"gpunodes.{names.GROUP}", f"modelplacements.{names.GROUP}"} <= kept

    release.helm("install", RELEASE, str(_CHART))
    assert len(release.configurations()) == 2


def _bundle(configuration: Json) -> str:
    bundle: str = configuration["webhooks"][0]["clientConfig"].get("caBundle", "")
    return bundle


def _is_created(tenant: Namespace, manifest: Json) -> bool:
    """Whether the API server would create it: a dry run, which passes admission as a create does."""
    try:
        tenant.create(manifest, dry_run=True)
    except ApiError:
        return False
    return True
