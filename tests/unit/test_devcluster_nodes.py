"""Simulated nodes: their capacity, and the inventory as the node agent would publish it."""

from __future__ import annotations

from hack.devcluster.nodes import inventory, node_manifest
from hack.devcluster.spec import NodeSpec, parse_spec
from shared.api.crds.gpunode import GPUNode


def node(**fields: object) -> NodeSpec:
    return parse_spec({"nodes": [{"name": "n", **fields}]}, source="test").nodes[0]


def test_each_card_is_one_resource_of_whole_gb_rounded_down() -> None:
    cards = [
        {"model": "Tesla T4", "vendor": "nvidia", "memoryMiB": 15360},
        {"model": "NVIDIA H100", "vendor": "nvidia", "memoryMiB": 81559},
    ]
    status = node_manifest(node(gpus=cards, pods=20))["status"]

    assert status["capacity"]["kamiwaza.ai/vram-gb-gpu-0"] == "15"
    assert status["capacity"]["kamiwaza.ai/vram-gb-gpu-1"] == "79"
    assert status["capacity"]["pods"] == "20"
    assert status["allocatable"] == status["capacity"]


def test_labels_and_taints_are_the_described_ones_beside_those_of_every_node() -> None:
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    manifest = node_manifest(node(labels={"pool": "x"}, taints=[taint]))

    assert manifest["metadata"]["labels"]["pool"] == "x"
    assert manifest["metadata"]["labels"]["kubernetes.io/hostname"] == "n"
    assert manifest["spec"]["taints"] == [taint]


def test_the_inventory_is_what_the_gpunode_resource_defines() -> None:
    described = node(
        rocm="6.2", gpus=[{"model": "AMD Radeon PRO W7900", "vendor": "amd", "vramGB": 48, "uuid": "GPU-1"}]
    )
    status = inventory(described)

    GPUNode.model_validate({"status": status})
    assert status["accelVersions"] == {"rocm": "6.2"}
    assert status["cards"] == [
        {
            "index": 0,
            "uuid": "GPU-1",
            "model": "AMD Radeon PRO W7900",
            "vendor": "amd",
            "class": "discrete",
            "memoryMiB": 49152,
            "budgetGB": 48,
            "healthy": True,
        }
    ]
