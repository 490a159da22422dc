"""What the labels of vendors and clouds say of a node's cards."""

from __future__ import annotations

import pytest

from shared.core.unit_kinds import UnitKind
from shared.core.units import vendor_of
from shared.core.vendor_labels import LabelledCards, names_cards, read_labels
from tests.unit.units import AMD, GPU, SHARED, SLICE


def gfd(**labels: str) -> dict[str, str]:
    return {f"nvidia.com/gpu.{key}": value for key, value in labels.items()}


def read(labels: dict[str, str], **offered: int) -> LabelledCards:
    resources = {"gpu": GPU, "shared": SHARED, "amd": AMD, "slice": SLICE}
    return read_labels("n", labels, {resources[key]: amount for key, amount in offered.items()} | {"cpu": 4000})


@pytest.mark.parametrize(
    ("labels", "offered", "kinds"),
    [
        pytest.param(gfd(memory="23028", count="1"), {"gpu": 1}, [(GPU, 22, 1, False)], id="GFD, one whole GPU"),
        pytest.param(gfd(memory="42505273344"), {"gpu": 1}, [(GPU, 39, 1, False)], id="GFD in bytes"),
        pytest.param(gfd(memory="24576", replicas="4"), {"gpu": 8}, [(GPU, 6, 4, False)], id="time-slicing"),
        pytest.param(
            gfd(memory="24576", count="2", replicas="1"), {"gpu": 8}, [(GPU, 6, 4, False)], id="more than the cards"
        ),
        pytest.param(
            gfd(memory="24576", replicas="10"), {"shared": 10, "gpu": 0}, [(SHARED, 2, 10, False)], id="renamed"
        ),
        pytest.param(gfd(memory="24576"), {"shared": 6}, [(SHARED, 4, 6, False)], id="renamed, replicas not told"),
        pytest.param(gfd(memory="x"), {"gpu": 1}, [(GPU, None, 1, False)], id="a size that is no number"),
        pytest.param(gfd(memory="0"), {"gpu": 1}, [(GPU, None, 1, False)], id="a size of nothing"),
        pytest.param(gfd(product="NVIDIA-L4"), {"gpu": 1}, [(GPU, None, 1, False)], id="no size"),
        pytest.param({}, {"gpu": 1}, [(GPU, None, 1, False)], id="no label at all"),
        pytest.param(
            gfd(memory="4864", product="A100-SXM4-40GB-MIG-1g.5gb", replicas="0"),
            {"gpu": 7},
            [(GPU, 4, 1, True)],
            id="slices under the usual name",
        ),
        pytest.param(
            gfd(memory="81559", count="2", replicas="1") | {f"{SLICE}.memory": "9728"},
            {"gpu": 1, "slice": 7},
            [(GPU, 79, 1, False), (SLICE, 9, 1, True)],
            id="slices beside a whole card",
        ),
        pytest.param(gfd(memory="81559"), {"gpu": 0, "slice": 7}, [(SLICE, 9, 1, True)], id="a slice by its name"),
        pytest.param(gfd(memory="24576"), {"gpu": 2, "slice": 0}, [(GPU, 24, 1, False)], id="no slices any more"),
        pytest.param(gfd(memory="24576"), {}, [(GPU, 24, 1, False)], id="the plugin is away"),
        pytest.param(
            {"cloud.google.com/gke-accelerator": "nvidia-l4"}, {"gpu": 2}, [(GPU, 22, 1, False)], id="GKE by model"
        ),
        pytest.param(
            {
                "cloud.google.com/gke-accelerator": "nvidia-tesla-t4",
                "cloud.google.com/gke-max-shared-clients-per-gpu": "3",
                "cloud.google.com/gke-accelerator-count": "1",
            },
            {"gpu": 3},
            [(GPU, 5, 3, False)],
            id="GKE, shared",
        ),
        pytest.param(
            {
                "cloud.google.com/gke-accelerator": "nvidia-tesla-a100",
                "cloud.google.com/gke-gpu-partition-size": "1g.5gb",
            },
            {"gpu": 7},
            [(GPU, 4, 1, True)],
            id="GKE, partitioned",
        ),
        pytest.param(
            {
                "cloud.google.com/gke-accelerator": "nvidia-tesla-a100",
                "cloud.google.com/gke-gpu-partition-size": "half",
            },
            {"gpu": 2},
            [(GPU, None, 1, True)],
            id="GKE, an unknown partition",
        ),
        pytest.param(
            {"cloud.google.com/gke-accelerator": "nvidia-new"}, {"gpu": 1}, [(GPU, None, 1, False)], id="GKE, unknown"
        ),
        pytest.param(
            {"karpenter.k8s.aws/instance-gpu-memory": "22888", "karpenter.k8s.aws/instance-gpu-count": "4"},
            {"gpu": 4},
            [(GPU, 22, 1, False)],
            id="Karpenter",
        ),
        pytest.param(
            gfd(memory="23034") | {"karpenter.k8s.aws/instance-gpu-memory": "22888"},
            {"gpu": 1},
            [(GPU, 22, 1, False)],
            id="GFD before the cloud",
        ),
        pytest.param({"kubernetes.azure.com/accelerator": "nvidia"}, {}, [(GPU, None, 1, False)], id="AKS"),
        pytest.param({"eks.amazonaws.com/instance-gpu-manufacturer": "nvidia"}, {}, [(GPU, None, 1, False)], id="EKS"),
        pytest.param({"kubernetes.azure.com/accelerator": "amd"}, {}, [(AMD, None, 1, False)], id="AKS with AMD"),
        pytest.param({"amd.com/gpu.vram": "64G"}, {"amd": 8}, [(AMD, 64, 1, False)], id="AMD"),
        pytest.param({"beta.amd.com/gpu.vram": "192"}, {"amd": 8}, [(AMD, 192, 1, False)], id="AMD, old label"),
        pytest.param({"amd.com/gpu.vram": "16368M"}, {"amd": 1}, [(AMD, 15, 1, False)], id="AMD in MiB"),
        pytest.param({"amd.com/gpu.vram": "lots"}, {"amd": 1}, [(AMD, None, 1, False)], id="AMD, no size"),
        pytest.param(
            {"amd.com/gpu.vram.64G": "2", "amd.com/gpu.vram.32G": "1", "amd.com/gpu.vram.x": "1"},
            {"amd": 3},
            [(AMD, 32, 1, False)],
            id="AMD, cards that differ",
        ),
        pytest.param(
            {"amd.com/gpu.vram": "24G", "amd.com/gpu.compute-memory-partition": "CPX_NPS1"},
            {"amd": 8},
            [(AMD, 24, 1, True)],
            id="AMD, partitioned",
        ),
        pytest.param(
            gfd(memory="24576") | {"amd.com/gpu.vram": "64G"},
            {"gpu": 1, "amd": 1},
            [(AMD, 64, 1, False), (GPU, 24, 1, False)],
            id="both vendors",
        ),
    ],
)
def test_the_units_of_a_node(
    labels: dict[str, str], offered: dict[str, int], kinds: list[tuple[str, int | None, int, bool]]
) -> None:
    found = read(labels, **offered)
    assert found.kinds == tuple(UnitKind(*kind) for kind in kinds)
    for resource, _, per_card, _ in kinds:
        vendor = vendor_of(resource)
        amount = {"gpu": GPU, "shared": SHARED, "amd": AMD}
        offered_now = sum(count for key, count in offered.items() if amount.get(key) == resource)
        if resource != SLICE:
            assert len([card for card in found.cards if card.vendor is vendor]) == -(-offered_now // per_card)


def test_a_label_that_says_nothing_usable_is_named() -> None:
    found = read(gfd(memory="many", replicas="some") | {"amd.com/gpu.vram": "?"}, gpu=1, amd=1)
    assert found.unread == ("amd.com/gpu.vram", "nvidia.com/gpu.memory", "nvidia.com/gpu.replicas")


def test_cards_have_the_model_that_labels_tell_and_never_more_of_them_than_a_node_may_have() -> None:
    found = read(gfd(product="NVIDIA-A10G-SHARED", memory="23028"), gpu=100)
    assert len(found.cards) == 64
    assert {(card.model, card.budget_gb) for card in found.cards} == {("NVIDIA A10G", 22)}
    assert read({"amd.com/gpu.product-name": "AMD_Instinct"}, amd=1).cards[0].model == "AMD Instinct"


@pytest.mark.parametrize(
    ("labels", "cuda"),
    [
        ({"nvidia.com/cuda.runtime-version.full": "12.4"}, "12.4"),
        ({"nvidia.com/cuda.runtime-version.major": "13", "nvidia.com/cuda.runtime-version.minor": "0"}, "13.0"),
        ({"nvidia.com/cuda.runtime.major": "12"}, "12.0"),
        ({"nvidia.com/cuda.runtime-version.full": "?", "nvidia.com/cuda.driver-version.major": "550"}, "12.4"),
        ({"nvidia.com/cuda.driver.major": "551"}, "12.4"),
        ({"nvidia.com/cuda.driver-version.full": "580.95.05"}, "13.0"),
        ({"nvidia.com/cuda.driver-version.full": "new"}, None),
        ({"nvidia.com/cuda.driver-version.major": "300"}, None),
    ],
)
def test_the_cuda_version_of_the_driver(labels: dict[str, str], cuda: str | None) -> None:
    assert read(labels, gpu=1).accel == ({} if cuda is None else {"cuda": cuda})


@pytest.mark.parametrize(
    ("labels", "allocatable", "expected"),
    [
        ({}, {GPU: 1}, True),
        ({}, {SLICE: 1}, True),
        ({}, {GPU: 0, "cpu": 1}, False),
        (gfd(count="1"), {}, True),
        ({"accelerator": "nvidia"}, {}, True),
        ({"accelerator": "none"}, {}, False),
        ({"amd.com/gpu.vram": "64G"}, {}, True),
        ({"nvidia.com/gpu.deploy.driver": "true"}, {}, False),
    ],
)
def test_which_nodes_have_cards_at_all(labels: dict[str, str], allocatable: dict[str, int], *, expected: bool) -> None:
    assert names_cards(labels, allocatable) is expected
