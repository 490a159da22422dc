"""A pod's own choice among cards, by whole words of the model's name and by UUID."""

from __future__ import annotations

import pytest

from shared.core.card_filter import CardFilter, read_card_filters
from shared.core.cards import Card, Vendor
from shared.core.constraints import Constraints
from shared.core.explain import explain
from shared.core.placement import Placed, place
from shared.core.refusal import NoFit, Reason
from shared.core.snapshot import NodeState
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.asking import demand_of
from tests.unit.core_builders import card, cluster, node

USE_TYPE, NO_USE_TYPE = "nvidia.com/use-gputype", "nvidia.com/nouse-gputype"
USE_UUID, NO_USE_UUID = "nvidia.com/use-gpuuuid", "nvidia.com/nouse-gpuuuid"


def admits(key: str, value: str, model: str, uuid: str = "GPU-0") -> bool:
    vendor = Vendor.AMD if key.startswith("amd.com/") else Vendor.NVIDIA
    return read_card_filters({key: value})[vendor].admits(card(0, 16, model=model, uuid=uuid))


@pytest.mark.parametrize(
    ("kind", "model", "is_one"),
    [
        ("A10", "NVIDIA A10", True),
        ("A10", "NVIDIA A100-SXM4-80GB", False),
        ("A10", "NVIDIA A10G", False),
        ("A100", "NVIDIA A100-SXM4-80GB", True),
        ("a100", "NVIDIA A100-SXM4-80GB", True),
        ("A100", "nvidia a100 80gb pcie", True),
        ("A100-SXM4", "NVIDIA A100-SXM4-80GB", True),
        ("A100-SXM4-80GB", "NVIDIA A100 SXM4 80GB", True),
        ("A100-PCIE", "NVIDIA A100-SXM4-80GB", False),
        ("NVIDIA A100", "NVIDIA A100-SXM4-80GB", True),
        ("NVIDIA-NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", True),
        ("NVIDIA-Tesla T4", "Tesla T4", True),
        ("T4", "Tesla T4", True),
        ("T4", "NVIDIA T400", False),
        ("RTX 3090", "NVIDIA GeForce RTX 3090", True),
        ("3090", "NVIDIA GeForce RTX 3090 Ti", True),
        ("RTX Ti", "NVIDIA GeForce RTX 3090 Ti", False),
        ("L40", "NVIDIA L40S", False),
        ("NVIDIA", "Tesla T4", True),
        ("A10,L4", "NVIDIA L4", True),
        (" A10 , ,L4 ", "NVIDIA A10", True),
        ("A10,L4", "NVIDIA L40", False),
    ],
)
def test_a_type_is_matched_by_whole_words(kind: str, model: str, is_one: bool) -> None:
    assert admits(USE_TYPE, kind, model) is is_one
    assert admits(NO_USE_TYPE, kind, model) is not is_one


@pytest.mark.parametrize(
    ("uuids", "is_one"),
    [("GPU-1", True), ("gpu-1", True), ("GPU-2,GPU-1", True), ("GPU-10", False), ("GPU-", False), ("1", False)],
)
def test_a_uuid_is_matched_as_a_whole(uuids: str, is_one: bool) -> None:
    assert admits(USE_UUID, uuids, "any", "GPU-1") is is_one
    assert admits(NO_USE_UUID, uuids, "any", "GPU-1") is not is_one


def test_amd_has_words_of_its_own() -> None:
    assert admits("amd.com/use-gputype", "MI300X", "AMD Instinct MI300X")
    assert not admits("amd.com/nouse-gputype", "MI300X", "AMD Instinct MI300X OAM")
    assert admits("amd.com/use-gpu-uuid", "GPU-0", "any")
    assert not admits("amd.com/nouse-gpu-uuid", "GPU-0", "any")


def test_uuids_are_shown_as_they_were_written() -> None:
    only = read_card_filters({USE_UUID: "GPU-1a, gpu-2B", NO_USE_UUID: "GPU-3C"})[Vendor.NVIDIA]
    assert str(only) == "with UUID GPU-1a or gpu-2B and without UUID GPU-3C"
    assert only.admits(card(0, 16, uuid="gpu-1A"))
    assert not only.admits(card(0, 16, uuid="GPU-3c"))


@pytest.mark.parametrize("value", ["", " ", ",", " , "])
@pytest.mark.parametrize("key", [USE_TYPE, NO_USE_TYPE, USE_UUID, NO_USE_UUID])
def test_an_empty_list_chooses_nothing(key: str, value: str) -> None:
    assert read_card_filters({key: value}) == {}
    assert demand_of(a_pod().limited_to({"nvidia.com/gpu": 1}).annotated(key, value)).only is None


def test_all_lists_hold_together() -> None:
    only = CardFilter(types=("A100",), no_uuids=("gpu-1",))
    assert only.admits(card(0, 80, model="NVIDIA A100", uuid="GPU-0"))
    assert not only.admits(card(0, 80, model="NVIDIA A100", uuid="GPU-1"))


@pytest.mark.parametrize(
    ("only", "words"),
    [
        (CardFilter(types=("A10",)), "of type A10"),
        (CardFilter(types=("A10", "L4")), "of type A10 or L4"),
        (CardFilter(types=tuple("ABCDE")), "of type A, B, C or 2 more"),
        (CardFilter(types=("A10",), no_types=("A100",)), "of type A10 and not of type A100"),
        (CardFilter(uuids=("gpu-1",), no_uuids=("gpu-2",)), "with UUID gpu-1 and without UUID gpu-2"),
    ],
)
def test_a_choice_is_told_in_words(only: CardFilter, words: str) -> None:
    assert str(only) == words


def asking(value: str, key: str = USE_TYPE) -> PodBuilder:
    return a_pod().annotated("kamiwaza.ai/vram-gb", "6").annotated(key, value)


def a_card(index: int, model: str, gb: int = 16) -> Card:
    return card(index, gb, model=model, uuid=f"GPU-{model}-{index}")


def placed_on(pod: PodBuilder, *states: NodeState) -> tuple[str, list[int]]:
    verdict = place(cluster(*states), demand_of(pod), Constraints())
    assert isinstance(verdict, Placed), verdict
    return verdict.node, [share.card.index for share in verdict.shares]


def refused(pod: PodBuilder, *states: NodeState) -> NoFit:
    verdict = place(cluster(*states), demand_of(pod), Constraints())
    assert isinstance(verdict, NoFit), verdict
    return verdict


def test_cards_of_one_size_are_told_apart_by_their_model() -> None:
    mixed = node("mixed", [a_card(0, "NVIDIA T1000"), a_card(1, "NVIDIA A100"), a_card(2, "NVIDIA A10")])
    assert placed_on(asking("A100"), mixed) == ("mixed", [1])
    assert placed_on(asking("A100,T1000", NO_USE_TYPE), mixed) == ("mixed", [2])
    assert placed_on(asking("gpu-nvidia a10-2", USE_UUID), mixed) == ("mixed", [2])


def test_nodes_that_look_alike_but_for_the_model_are_told_apart() -> None:
    first, second = node("a", [a_card(0, "NVIDIA A10")]), node("b", [a_card(0, "NVIDIA L4")])
    assert placed_on(asking("L4"), first, second) == ("b", [0])


def test_several_cards_of_the_type_are_needed_on_one_node() -> None:
    mixed = node("mixed", [a_card(0, "NVIDIA A10"), a_card(1, "NVIDIA L4"), a_card(2, "NVIDIA A10")])
    assert placed_on(asking("A10").annotated("kamiwaza.ai/gpus", "2"), mixed) == ("mixed", [0, 2])
    verdict = refused(asking("L4").annotated("kamiwaza.ai/gpus", "2"), mixed)
    assert (verdict.reason, verdict.can_wait) == (Reason.INSUFFICIENT_GPU_COUNT, False)
    assert verdict.best_node is not None
    assert (verdict.best_node.fitting, verdict.best_node.cards) == (1, 1)


def test_nodes_without_such_a_card_are_counted_as_excluded() -> None:
    verdict = refused(asking("H100"), node("a", [a_card(0, "NVIDIA A10")]), node("b", [a_card(0, "NVIDIA L4")]))
    assert (verdict.reason, verdict.can_wait) == (Reason.INSUFFICIENT_CAPACITY, False)
    assert explain(verdict).splitlines()[0] == (
        "insufficient_capacity: needs 6 GB on one NVIDIA card of type H100; no node with cards is left; 2 nodes are "
        "excluded: without a card of type H100."
    )
    assert explain(verdict).splitlines()[-1] == (
        "Waiting does not help. Let the pod have other cards (nvidia.com/use-gputype), or add one that suits it."
    )


def test_a_cordoned_node_with_such_a_card_is_worth_waiting_for() -> None:
    other, cordoned = node("a", [a_card(0, "NVIDIA A10")]), node("b", [a_card(0, "H100")], a_node("b").cordoned())
    verdict = refused(asking("H100"), other, cordoned)
    assert verdict.can_wait
    assert [item.words for item in verdict.excluded] == ["1 cordoned", "1 without a card of type H100"]
    assert "as soon as an excluded node that suits it is back" in explain(verdict)


def test_a_card_of_the_type_that_is_full_is_the_best_card_there_is() -> None:
    verdict = refused(asking("L4"), node("a", [a_card(0, "NVIDIA A10")]), node("b", [a_card(0, "NVIDIA L4", 4)]))
    assert [attempt.node for attempt in verdict.attempts] == ["b"]
    assert "1 without a card of type L4" in [item.words for item in verdict.excluded]


def test_another_vendor_is_told_before_the_type() -> None:
    amd = node("amd", [card(0, 64, Vendor.AMD, model="AMD Instinct MI300X")])
    assert refused(asking("H100"), amd).reason is Reason.VENDOR_MISMATCH


def test_the_version_is_told_before_the_type() -> None:
    old = node("old", [a_card(0, "NVIDIA A10")], accel={"cuda": (12, 2)})
    pod = asking("H100").annotated("kamiwaza.ai/accel-version", "cuda>=12.4")
    assert refused(pod, old).reason is Reason.ACCEL_VERSION_UNMET


def test_an_amd_card_needs_no_type_of_nvidia() -> None:
    amd = node("amd", [card(0, 64, Vendor.AMD, model="AMD Instinct MI300X")])
    assert placed_on(a_pod().limited_to({"amd.com/gpu": 1}).annotated(USE_TYPE, "A10"), amd) == ("amd", [0])


def test_the_words_of_a_choice_end_those_of_the_ask() -> None:
    pod = a_pod().annotated("kamiwaza.ai/vram-gb.main", "6").annotated("kamiwaza.ai/vram-gb.b", "4").container("b")
    demand = demand_of(pod.annotated(USE_TYPE, "A10"))
    assert str(demand) == "6 GB on one NVIDIA card and 4 GB on one NVIDIA card, each of type A10"
