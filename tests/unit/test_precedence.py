"""Which reason is given where several hold: vendor, version, count, system memory, capacity."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from shared.core.amounts import WHOLE
from shared.core.cards import Card, Vendor
from shared.core.constraints import Constraints
from shared.core.demand import Demand
from shared.core.placement import Placed, place
from shared.core.refusal import NoFit, Reason
from shared.core.snapshot import NodeState
from tests.unit.core_builders import ask, card, cards, cluster, demand, entry, node, partition, pool

NVIDIA, AMD = Vendor.NVIDIA, Vendor.AMD
BOTH = (card(0, 24), card(1, 192, AMD))
DRIVERS = {"cuda": (12, 2), "rocm": (6, 2)}


def reason(states: Sequence[NodeState], of: Demand) -> Reason:
    verdict = place(cluster(*states), of, Constraints(namespace="models"))
    assert isinstance(verdict, NoFit), verdict
    return verdict.reason


def slots(states: Sequence[NodeState], of: Demand) -> list[tuple[str, int]]:
    verdict = place(cluster(*states), of, Constraints(namespace="models"))
    assert isinstance(verdict, Placed), verdict
    return [(verdict.node, share.card.index) for share in verdict.shares]


@pytest.mark.parametrize(
    ("states", "of", "expected"),
    [
        pytest.param(
            [node("a", cards(24))], demand(ask(30, 2), vendor=AMD), Reason.VENDOR_MISMATCH, id="vendor-before-count"
        ),
        pytest.param(
            [node("a", cards(24), accel={"cuda": (12, 2)})],
            demand(ask(30), vendor=AMD, accel="rocm>=6.0"),
            Reason.VENDOR_MISMATCH,
            id="vendor-before-version",
        ),
        pytest.param(
            [node("a", cards(24), accel={"cuda": (12, 2)})],
            demand(ask(2, 2), vendor=NVIDIA, accel="cuda 13.0"),
            Reason.ACCEL_VERSION_UNMET,
            id="version-before-count",
        ),
        pytest.param(
            [node("a", [pool(111)], accel={"cuda": (12, 2)}, ledger={"r": entry({0: 111})})],
            demand(ask(2), vendor=NVIDIA, accel="cuda 13.0"),
            Reason.ACCEL_VERSION_UNMET,
            id="version-before-memory",
        ),
        pytest.param(
            [node("a", [pool(111)], ledger={"r": entry({0: 111})})],
            demand(ask(2, 2)),
            Reason.INSUFFICIENT_GPU_COUNT,
            id="count-before-memory",
        ),
        pytest.param(
            [node("a", [partition(0, 39), partition(1, 39)])],
            demand(ask(2, 2), vendor=AMD),
            Reason.VENDOR_MISMATCH,
            id="vendor-before-partitions",
        ),
        pytest.param(
            [node("a", [card(0, 0, memory_mib=0)])],
            demand(ask(2), vendor=AMD),
            Reason.INSUFFICIENT_CAPACITY,
            id="cards-that-are-never-given-away-tell-of-no-vendor",
        ),
        pytest.param(
            [node("a", [card(0, 24, compute_capable=False), card(1, 24, AMD)])],
            demand(ask(2), vendor=NVIDIA),
            Reason.VENDOR_MISMATCH,
            id="a-display-adapter-makes-no-nvidia-node",
        ),
    ],
)
def test_the_first_reason_that_holds_is_given(states: list[NodeState], of: Demand, expected: Reason) -> None:
    assert reason(states, of) is expected


class TestNodesOfTwoVendors:
    """The version of the runtime that the pod needs is what counts, and the cards of that vendor."""

    @pytest.mark.parametrize(
        ("accel", "vendor", "slot"),
        [
            pytest.param("rocm>=6.0", AMD, 1, id="rocm"),
            pytest.param("rocm>=6.2.4", AMD, 1, id="a-patch-that-the-driver-leaves-open"),
            pytest.param("rocm 6.2", AMD, 1, id="rocm-of-an-image"),
            pytest.param("cuda>=12.0", NVIDIA, 0, id="cuda"),
            pytest.param("cuda 12.9", NVIDIA, 0, id="cuda-of-an-image"),
        ],
    )
    def test_a_version_that_is_served_leads_to_the_card(self, accel: str, vendor: Vendor, slot: int) -> None:
        mixed = node("a", BOTH, accel=DRIVERS)
        assert slots([mixed], demand(ask(2), vendor=vendor, accel=accel)) == [("a", slot)]

    @pytest.mark.parametrize(
        ("accel", "vendor"),
        [
            pytest.param("rocm>=6.3", AMD, id="rocm"),
            pytest.param("rocm 7.0", AMD, id="rocm-of-an-image-is-no-matter-of-the-major-alone"),
            pytest.param("cuda>=12.4", NVIDIA, id="cuda"),
        ],
    )
    @pytest.mark.parametrize("count", [1, 2])
    def test_a_version_that_is_not_is_told_whatever_the_other_runtime_serves(
        self, accel: str, vendor: Vendor, count: int
    ) -> None:
        of = demand(ask(2, count), vendor=vendor, accel=accel)
        assert reason([node("a", BOTH, accel=DRIVERS)], of) is Reason.ACCEL_VERSION_UNMET

    def test_cards_of_two_vendors_are_no_pair(self) -> None:
        assert reason([node("a", BOTH)], demand(ask(2, 2))) is Reason.INSUFFICIENT_GPU_COUNT


class TestExclusive:
    """A card held whole is taken whole: by GB, by count, by percentage, on every class of card."""

    @pytest.mark.parametrize(
        ("of", "held", "expected"),
        [
            pytest.param(cards(24), {0: 24}, Reason.INSUFFICIENT_CAPACITY, id="card"),
            pytest.param((partition(0, 9),), {0: 9}, Reason.INSUFFICIENT_CAPACITY, id="partition"),
            pytest.param((pool(111),), {0: 111}, Reason.INSUFFICIENT_SYSTEM_MEMORY, id="pool"),
        ],
    )
    def test_the_second_model_is_refused(self, of: tuple[Card, ...], held: dict[int, int], expected: Reason) -> None:
        empty = node("a", of, exclusive=True)
        assert slots([empty], demand(ask(1))) == [("a", 0)]
        full = node("a", of, exclusive=True, ledger={"r": entry(held)})
        assert reason([full], demand(ask(1))) is expected

    def test_several_cards_are_whole_each(self) -> None:
        state = node("a", cards(24, 24, 24), exclusive=True, ledger={"r": entry({1: 1})})
        assert slots([state], demand(ask(1, 2))) == [("a", 0), ("a", 2)]
        assert reason([state], demand(ask(1, 3))) is Reason.INSUFFICIENT_GPU_COUNT
        assert reason([state], demand(ask(WHOLE, 3))) is Reason.INSUFFICIENT_GPU_COUNT


def test_a_node_that_lists_no_card_any_more_keeps_its_bookings_and_gives_nothing() -> None:
    lost = node("a", (), ledger={"r": entry({0: 6})})
    assert lost.used_gb == {0: 6}
    verdict = place(cluster(lost), demand(ask(1)), Constraints(namespace="models"))
    assert isinstance(verdict, NoFit)
    assert (verdict.reason, verdict.can_wait, verdict.excluded) == (Reason.INSUFFICIENT_CAPACITY, False, ())
