"""What a placement writes into a pod, and that it touches nothing else."""

from __future__ import annotations

import copy
import json

import pytest

from hack.devcluster.api import Api, Json
from shared.api import names
from tests.e2e.conftest import AnyCluster, MakeNamespace, MakePool
from tests.e2e.kube import (
    IMAGE,
    Namespace,
    gpu_node,
    pod,
    reservation,
    shares,
    until,
    wait_balanced,
)
from tests.e2e.manifests import pinned

pytestmark = pytest.mark.e2e

_CARD_0 = names.card_resource(0)


def test_nothing_of_a_pod_is_touched_but_what_a_placement_needs(
    api: Api, pool: MakePool, make_namespace: MakeNamespace
) -> None:
    here = pool(24, 24, labels={"tier": "gold"})
    terms = [
        {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["gold", "silver"]}]},
        {"matchExpressions": [{"key": "tier", "operator": "In", "values": ["bronze"]}]},
    ]
    preferred = [{"weight": 5, "preference": {"matchExpressions": [{"key": "x", "operator": "Exists"}]}}]
    affinity = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
            "preferredDuringSchedulingIgnoredDuringExecution": preferred,
        }
    }
    server = {
        "name": "server",
        "image": IMAGE,
        "args": ["--model", "x"],
        "env": [{"name": "A", "value": "1"}, {"name": names.NVIDIA_VISIBLE_DEVICES, "value": "all"}],
        "resources": {"limits": {"cpu": "2", "memory": "8Gi", names.NVIDIA_GPU: "2"}, "requests": {"cpu": "1"}},
    }
    proxy = {"name": "proxy", "image": IMAGE, "env": [{"name": "B", "value": "2"}]}
    manifest = pod(
        "chat",
        {names.VRAM: "6", "example.com/note": "keep"},
        pool=here.name,
        containers=[proxy, server],
        initContainers=[{"name": "fetch", "image": IMAGE}],
        affinity=affinity,
        tolerations=[{"key": "gpu", "operator": "Exists"}],
        terminationGracePeriodSeconds=7,
    )
    untouched = make_namespace(None).create(manifest)
    placed = make_namespace().create(manifest)

    expected = copy.deepcopy(untouched["spec"])
    expected_server = expected["containers"][1]
    cards = {names.card_resource(index): "6" for index in (0, 1)}
    for amounts in expected_server["resources"].values():
        amounts.pop(names.NVIDIA_GPU, None)
        amounts.update(cards)
    uuids = [card["uuid"] for card in gpu_node(api, here.node)["status"]["cards"]]
    expected_server["env"][1]["value"] = ",".join(uuids)
    expected_server["args"] += ["--gpu-memory-utilization", "0.187"]  # 6 GB less a quarter for the rest, of 24 GB
    pin = pinned(here.node)["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"][0]
    required = expected["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    required["nodeSelectorTerms"] = [{**terms[0], **pin}]
    assert _generic(placed["spec"]) == _generic(expected)

    metadata = placed["metadata"]
    record = json.loads(metadata["annotations"].pop(names.PLACED))
    warned = metadata["annotations"].pop(names.WARNINGS)
    assert names.NVIDIA_VISIBLE_DEVICES in warned
    assert "--gpu-memory-utilization" in warned
    assert metadata["annotations"] == untouched["metadata"]["annotations"]
    identity = metadata["labels"].pop(names.RESERVATION)
    assert metadata["labels"] == untouched["metadata"]["labels"]
    assert (record["id"], record["node"], record["from"]) == (identity, here.node, "annotation")
    assert record["shares"] == [
        {"container": "server", "card": index, "uuid": uuids[index], "gb": 6} for index in (0, 1)
    ]
    was = {change["path"]: change["was"] for change in record["changed"]}
    gpu = names.NVIDIA_GPU.replace("/", "~1")
    assert was[f"containers/server/resources/limits/{gpu}"] == "2"
    assert was[f"containers/server/env/{names.NVIDIA_VISIBLE_DEVICES}"]["value"] == "all"


def test_conflicting_device_variables_are_replaced_with_a_warning(
    cluster: AnyCluster, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    env = [
        {"name": names.NVIDIA_VISIBLE_DEVICES, "value": "all"},
        {"name": names.CUDA_VISIBLE_DEVICES, "value": "0,3"},
        {"name": "KEEP", "value": "me"},
    ]
    manifest = pod(
        "chat", {names.VRAM: "6"}, pool=here.name, containers=[{"name": "server", "image": IMAGE, "env": env}]
    )
    done = cluster.kubectl("create", "-n", namespace.name, "-f", "-", input=json.dumps(manifest))
    warnings = [line for line in done.stderr.splitlines() if line.startswith("Warning: ")]
    assert len(warnings) == 3
    assert "--gpu-memory-utilization is not set" in done.stderr
    assert f"{names.NVIDIA_VISIBLE_DEVICES} was 'all'" in done.stderr
    assert f"{names.CUDA_VISIBLE_DEVICES} was '0,3'" in done.stderr
    (uuid,) = [card["uuid"] for card in gpu_node(cluster.api, here.node)["status"]["cards"]]
    placed = namespace.get("Pod", "chat")
    assert {entry["name"]: entry["value"] for entry in placed["spec"]["containers"][0]["env"]} == {
        names.NVIDIA_VISIBLE_DEVICES: uuid,
        "KEEP": "me",
    }


def test_a_pod_of_zero_gpus_sees_none(pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    stored = namespace.create(pod("client", limits={names.NVIDIA_GPU: "0"}, pool=here.name))
    assert stored["spec"]["containers"][0]["env"] == [{"name": names.NVIDIA_VISIBLE_DEVICES, "value": "void"}]
    assert not reservation(stored)
    namespace.running("client")


def test_the_default_of_a_limit_range_does_not_come_back(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    default = {"type": "Container", "default": {names.NVIDIA_GPU: "1"}}
    limits = {"kind": "LimitRange", "metadata": {"name": "gpu"}, "spec": {"limits": [default]}}
    api.create(f"/api/v1/namespaces/{namespace.name}/limitranges", limits)
    until("the default is in force", lambda: shares(namespace.create(pod("any", pool=here.name), dry_run=True)))
    namespace.create(pod("chat", {names.VRAM: "6"}, pool=here.name))
    (placed,) = namespace.running("chat")
    resources = placed["spec"]["containers"][0]["resources"]
    assert resources["limits"] == {_CARD_0: "6", names.NVIDIA_GPU: "0"}
    assert resources["requests"] == resources["limits"]
    wait_balanced(api, here.nodes)


def _generic(spec: Json) -> Json:
    """A pod's spec without the names of the token volume, which are random."""
    text = json.dumps(spec)
    for volume in spec["volumes"]:
        text = text.replace(volume["name"], "token")
    generic: Json = json.loads(text)
    return generic
