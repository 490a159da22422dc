"""The operator's own chart, rendered and applied, so that what is tested is what is shipped."""

from __future__ import annotations

import copy
import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from hack.devcluster.api import Json
from hack.devcluster.binaries import KUBERNETES_VERSION
from hack.devcluster.cluster import ROOT, DevCluster

RELEASE = "placement-operator"
NAMESPACE = "placement-system"
_CHART = ROOT / "charts" / "placement-operator"
_FIELD_MANAGER = "helm"
_WEBHOOK_KINDS = frozenset({"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"})
_RUN_BY_US = frozenset({"Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"})
"""Kinds that only make sense where the operator runs in pods; here it runs as processes."""


class ChartError(Exception):
    """The chart does not render, or does not contain what the processes are started from."""


@dataclass(frozen=True, slots=True)
class Workload:
    """One of the chart's Deployments, as far as a process on this machine can follow it."""

    name: str
    program: str
    service_account: str
    env: tuple[Json, ...]

    def environment(self, pod: str) -> dict[str, str]:
        """The container's environment, for a pod of this name."""
        fields = {"metadata.name": pod, "metadata.namespace": NAMESPACE}
        return {entry["name"]: self._value(entry, fields) for entry in self.env}

    def _value(self, entry: Json, fields: Mapping[str, str]) -> str:
        if "valueFrom" not in entry:
            return str(entry.get("value", ""))
        field = entry["valueFrom"].get("fieldRef", {}).get("fieldPath")
        if field not in fields:
            raise ChartError(f"Deployment {self.name}: cannot follow {entry['valueFrom']} of {entry['name']} here")
        return fields[field]


def render(helm: Path, values: Mapping[str, Any], scratch: Path) -> list[Json]:
    """Every object that `helm template` makes of the chart. ChartError with helm's words if it refuses."""
    values_file = scratch / "values.json"
    values_file.write_text(json.dumps(values))
    homes = {f"HELM_{kind}_HOME": str(scratch / "helm") for kind in ("CACHE", "CONFIG", "DATA")}
    argv: list[str | Path] = [
        helm,
        "template",
        RELEASE,
        _CHART,
        "--namespace",
        NAMESPACE,
        "--values",
        values_file,
    ]
    done = subprocess.run(
        [*argv, "--kube-version", KUBERNETES_VERSION],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **homes},
    )
    if done.returncode != 0:
        raise ChartError(f"helm cannot render {_CHART}: {done.stderr.strip()}")
    return [document for document in yaml.load_all(done.stdout, yaml.CSafeLoader) if document]


def workloads(objects: list[Json]) -> dict[str, Workload]:
    """The Deployments by the program they run: `webhook` and `controller`."""
    found = [_workload(document) for document in objects if document["kind"] == "Deployment"]
    by_program = {workload.program: workload for workload in found}
    missing = {"webhook", "controller"} - by_program.keys()
    if missing:
        raise ChartError(f"the chart has no Deployment that runs {' or '.join(sorted(missing))}")
    return by_program


def _workload(deployment: Json) -> Workload:
    pod = deployment["spec"]["template"]["spec"]
    container = pod["containers"][0]
    program = container["command"][0].removeprefix("placement-")
    environment = tuple(container.get("env", ()))
    return Workload(deployment["metadata"]["name"], program, pod["serviceAccountName"], environment)


def install(cluster: DevCluster, objects: list[Json], webhook_url: str) -> None:
    """Apply what the chart renders, custom resources first, with the webhooks called at `webhook_url`."""
    crds = [document for document in objects if document["kind"] == "CustomResourceDefinition"]
    others = [document for document in objects if document not in crds and document["kind"] not in _RUN_BY_US]
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    _apply(cluster, [namespace, *crds])
    names = [f"crd/{document['metadata']['name']}" for document in crds]
    if names:
        cluster.kubectl("wait", "--for=condition=Established", "--timeout=120s", *names)
    _apply(cluster, [called_at(document, webhook_url) for document in others])


def called_at(document: Json, webhook_url: str) -> Json:
    """A webhook configuration with every Service replaced by a URL; any other object as it is."""
    if document["kind"] not in _WEBHOOK_KINDS:
        return document
    changed = copy.deepcopy(document)
    for webhook in changed["webhooks"]:
        service = webhook["clientConfig"].pop("service")
        webhook["clientConfig"]["url"] = webhook_url + service["path"]
    return changed


def webhook_configurations(objects: list[Json]) -> list[str]:
    """API paths of the webhook configurations."""
    plurals = {kind: f"{kind.lower()}s" for kind in _WEBHOOK_KINDS}
    group = "/apis/admissionregistration.k8s.io/v1"
    return [
        f"{group}/{plurals[document['kind']]}/{document['metadata']['name']}"
        for document in objects
        if document["kind"] in _WEBHOOK_KINDS
    ]


def _apply(cluster: DevCluster, documents: list[Json]) -> None:
    text = yaml.dump_all(documents, Dumper=yaml.CSafeDumper)
    cluster.kubectl("apply", "--server-side", f"--field-manager={_FIELD_MANAGER}", "-f", "-", input=text)
