"""Which cards of one node serve a demand."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from shared.core.amounts import WHOLE, Amount
from shared.core.card_choice import MOST_STEPS, CardSearch, accel_met
from shared.core.cards import Card, CardClass, Vendor
from shared.core.demand import Demand, Policy
from shared.core.snapshot import NodeState
from tests.unit.core_builders import ask, card, cards, demand, entry, node

HALF = Amount(percent=Fraction(50))
EIGHT_EQUAL_CARDS = node("node-a", cards(*[80] * 8), ledger={"r": entry(dict.fromkeys(range(8), 1))})

Chosen = list[tuple[str, int, int, int]]
"""Container, card, GB requested, GB of its own."""


def choice(state: NodeState, wanted: Demand) -> Chosen | None:
    shares = CardSearch(wanted).choose(state)
    return None if shares is None else [(s.container, s.card.index, s.gb, s.own_gb) for s in shares]


@pytest.mark.parametrize(
    ("state", "wanted", "chosen"),
    [
        pytest.param(node("n", cards(8, 24)), demand(ask(10)), [("main", 1, 10, 10)], id="one-that-is-large-enough"),
        pytest.param(node("n", cards(24, 16)), demand(ask(10)), [("main", 1, 10, 10)], id="the-tightest-that-fits"),
        pytest.param(
            node("n", cards(24, 24), ledger={"r": entry({1: 8})}),
            demand(ask(10)),
            [("main", 1, 10, 10)],
            id="the-fuller-of-two-equal-cards",
        ),
        pytest.param(
            node("n", cards(24, 24)), demand(ask(10)), [("main", 0, 10, 10)], id="the-first-of-two-equal-cards"
        ),
        pytest.param(
            node("n", cards(24, 16)),
            demand(ask(10), policy=Policy.SPREAD),
            [("main", 0, 10, 10)],
            id="the-emptiest-where-spread-is-wanted",
        ),
        pytest.param(node("n", cards(24)), demand(ask(24)), [("main", 0, 24, 24)], id="to-the-last-gb"),
        pytest.param(
            node("n", cards(16, 24)), demand(ask(HALF)), [("main", 0, 8, 8)], id="half-of-the-card-it-lands-on"
        ),
        pytest.param(
            node("n", cards(24, 16), ledger={"r": entry({1: 1})}),
            demand(ask(WHOLE)),
            [("main", 0, 24, 24)],
            id="a-whole-card-is-an-empty-one",
        ),
        pytest.param(
            node("n", cards(24, 16), ledger={"r": entry({1: 1})}),
            demand(ask(4), policy=Policy.EXCLUSIVE),
            [("main", 0, 24, 24)],
            id="exclusive-policy-takes-an-empty-card-whole",
        ),
        pytest.param(
            node("n", cards(8, 24)),
            demand(ask(10), policy=Policy.EXCLUSIVE),
            [("main", 1, 24, 24)],
            id="exclusive-policy-takes-a-card-that-is-large-enough",
        ),
        pytest.param(
            node("n", cards(24, 16), exclusive=True),
            demand(ask(4)),
            [("main", 1, 16, 16)],
            id="exclusive-cards-are-given-whole",
        ),
        pytest.param(
            node("n", cards(24, 24, 24)),
            demand(ask(10, 2)),
            [("main", 0, 10, 10), ("main", 1, 10, 10)],
            id="two-cards-are-two-different-ones",
        ),
        pytest.param(
            node("n", cards(16, 24)),
            demand(ask(WHOLE, 2)),
            [("main", 0, 16, 16), ("main", 1, 24, 24)],
            id="whole-cards-of-different-size",
        ),
        pytest.param(
            node("n", cards(24)),
            demand(ask(10, container="a"), ask(6, container="b")),
            [("a", 0, 10, 10), ("b", 0, 6, 6)],
            id="two-containers-may-share-a-card",
        ),
        pytest.param(
            node("n", cards(24, 24)),
            demand(ask(WHOLE, container="a"), ask(WHOLE, container="b")),
            [("a", 1, 24, 24), ("b", 0, 24, 24)],
            id="two-containers-with-whole-cards-have-one-each",
        ),
        pytest.param(
            node("n", cards(16, 24)),
            demand(ask(6, container="small"), ask(20, container="large")),
            [("small", 0, 6, 6), ("large", 1, 20, 20)],
            id="the-largest-ask-is-served-first",
        ),
        pytest.param(
            node("n", cards(10, 16)),
            demand(ask(8, container="a"), ask(8, container="b"), ask(8, container="c")),
            [("a", 1, 8, 8), ("b", 1, 8, 8), ("c", 0, 8, 8)],
            id="three-containers-on-two-cards",
        ),
        pytest.param(
            node("n", cards(24)),
            demand(ask(8, init=[20, HALF])),
            [("main", 0, 20, 8)],
            id="the-peak-of-init-containers-is-requested-and-not-the-containers-own",
        ),
        pytest.param(
            node("n", cards(48)),
            demand(ask(8, init=[20, HALF])),
            [("main", 0, 24, 8)],
            id="which-init-container-is-the-peak-depends-on-the-card",
        ),
    ],
)
def test_the_cards_are(state: NodeState, wanted: Demand, chosen: Chosen) -> None:
    assert choice(state, wanted) == chosen


@pytest.mark.parametrize(
    ("state", "wanted"),
    [
        pytest.param(node("n"), demand(ask(1)), id="no-card"),
        pytest.param(node("n", cards(8)), demand(ask(10)), id="too-small"),
        pytest.param(node("n", cards(7, 7)), demand(ask(8)), id="free-memory-in-two-halves"),
        pytest.param(node("n", cards(24), ledger={"r": entry({0: 20})}), demand(ask(5)), id="too-full"),
        pytest.param(node("n", [card(0, 24, healthy=False)]), demand(ask(1)), id="unhealthy"),
        pytest.param(node("n", [card(0, 24, foreign_gb=20)]), demand(ask(5)), id="foreign-use"),
        pytest.param(node("n", [card(0, 24, foreign_gb=1)]), demand(ask(WHOLE)), id="whole-beside-foreign-use"),
        pytest.param(node("n", cards(24)), demand(ask(1, 2)), id="one-card-is-not-two"),
        pytest.param(node("n", cards(24)), demand(ask(1), vendor=Vendor.AMD), id="another-vendor"),
        pytest.param(
            node("n", [card(0, 24), card(1, 24, Vendor.AMD)]), demand(ask(1, 2)), id="two-cards-of-two-vendors"
        ),
        pytest.param(
            node("n", cards(24)),
            demand(ask(WHOLE, container="a"), ask(WHOLE, container="b")),
            id="one-card-cannot-be-given-whole-twice",
        ),
        pytest.param(
            node("n", cards(24), exclusive=True),
            demand(ask(1, container="a"), ask(1, container="b")),
            id="exclusive-cards-are-not-shared-within-a-pod",
        ),
        pytest.param(
            node("n", cards(24), exclusive=True, ledger={"r": entry({0: 1})}), demand(ask(1)), id="exclusive-and-used"
        ),
        pytest.param(
            node("n", cards(24), exclusive=True), demand(ask(30)), id="larger-than-the-card-that-is-given-whole"
        ),
        pytest.param(
            node("n", cards(8, 24), ledger={"r": entry({1: 1})}),
            demand(ask(10), policy=Policy.EXCLUSIVE),
            id="exclusive-policy-and-only-a-card-that-is-too-small-empty",
        ),
        pytest.param(node("n", cards(0), exclusive=True), demand(ask(WHOLE)), id="a-card-without-budget"),
        pytest.param(node("n", cards(24)), demand(ask(8, init=[30])), id="a-peak-that-does-not-fit"),
    ],
)
def test_there_are_no_cards(state: NodeState, wanted: Demand) -> None:
    assert choice(state, wanted) is None


def test_a_choice_is_changed_where_it_leaves_no_room_for_a_later_container() -> None:
    # The two tightest cards for a, 6 and 7, would leave b only the two of 11, and it needs three cards.
    state = node("n", cards(6, 7, 11, 11))
    assert choice(state, demand(ask(6, 2, "a"), ask(5, 3, "b"))) == [
        ("a", 0, 6, 6),
        ("a", 2, 6, 6),
        ("b", 1, 5, 5),
        ("b", 2, 5, 5),
        ("b", 3, 5, 5),
    ]


def test_the_search_ends_on_a_node_of_many_unlike_cards_where_the_containers_nearly_fit() -> None:
    # Each card has room for one share of 60 GB: four containers with four cards each fit, and five do not.
    state = node("n", cards(*range(100, 116)))
    asks = [ask(60, 4, f"c{number}") for number in range(5)]
    assert CardSearch(demand(*asks[:4])).choose(state) is not None
    assert CardSearch(demand(*asks)).choose(state) is None


def test_many_equal_cards_are_one_choice() -> None:
    chosen = CardSearch(demand(*(ask(39, 4, f"c{number}") for number in range(4)))).choose(EIGHT_EQUAL_CARDS)
    assert chosen is not None
    assert len(chosen) == 16
    assert CardSearch(demand(*(ask(39, 4, f"c{number}") for number in range(5)))).choose(EIGHT_EQUAL_CARDS) is None


NEARLY_FIT = [ask(20 + number, container=f"c{number:02}") for number in range(12)]
"""306 GB in pieces of 20 to 31 GB."""


def nearly_full(name: str, of: int) -> NodeState:
    """A node of eight cards of 80 GB on which `NEARLY_FIT` is hard to pack, unlike any other with another `of`."""
    return node(name, cards(*[80] * 8), ledger={"r": entry({slot: 30 + (of * (slot + 1)) % 19 for slot in range(8)})})


def test_the_work_for_a_whole_cluster_is_bounded() -> None:
    search = CardSearch(demand(*NEARLY_FIT))
    for number in range(500):
        search.choose(nearly_full("n", number))
    assert search.gave_up
    assert search.steps <= MOST_STEPS


def test_the_bound_is_hit_at_the_same_node_every_time() -> None:
    states = [nearly_full(f"n{number:03}", number) for number in range(60)]
    runs = []
    for _ in range(2):
        search = CardSearch(demand(*NEARLY_FIT))
        runs.append(([search.choose(state) for state in states], search.steps))
    assert runs[0] == runs[1]


def test_a_node_like_one_that_was_searched_in_vain_costs_nothing() -> None:
    # Beside the 6 GB there is no room for another share, and the other card has room for two of the three.
    state = node("n", cards(9, 9, 3))
    search = CardSearch(demand(ask(6, 1, "a"), *(ask(4, 1, name) for name in "bcd")))
    assert search.choose(state) is None
    spent = search.steps
    assert spent > 0
    assert search.choose(node("another", cards(9, 3, 9))) is None
    assert search.steps == spent
    assert search.choose(node("roomy", cards(24, 24))) is not None


@pytest.mark.parametrize(
    "wanted",
    [
        pytest.param(demand(ask(11, container="a"), ask(11, container="b"), ask(11, container="c")), id="sum"),
        pytest.param(demand(ask(9, container="a"), ask(9, container="b"), ask(9, container="c")), id="pieces"),
    ],
)
def test_what_a_count_rules_out_is_not_searched(wanted: Demand) -> None:
    search = CardSearch(wanted)
    assert search.choose(node("n", cards(16, 16))) is None
    assert search.steps == 0


@pytest.mark.parametrize(
    "never",
    [
        pytest.param(card(0, 24, Vendor.INTEL), id="intel"),
        pytest.param(card(0, 24, partitioned=True), id="with-mig-partitions"),
    ],
)
def test_cards_that_this_version_does_not_place_are_passed_over(never: Card) -> None:
    assert choice(node("n", [never]), demand(ask(6))) is None
    assert choice(node("n", [never, card(1, 80)]), demand(ask(6))) == [("main", 1, 6, 6)]


def test_a_pool_of_unified_memory_is_chosen_like_a_card() -> None:
    state = node("n", [card(0, 120, card_class=CardClass.UNIFIED)])
    assert choice(state, demand(ask(6))) == [("main", 0, 6, 6)]


@pytest.mark.parametrize(
    ("accel", "met"),
    [
        pytest.param({"cuda": (12, 4)}, True, id="served"),
        pytest.param({"cuda": (12, 2)}, False, id="older"),
        pytest.param({"rocm": (12, 4)}, False, id="another-runtime"),
        pytest.param({}, False, id="a-node-that-does-not-say-is-not-used"),
    ],
)
def test_a_node_must_serve_the_accelerator_version(accel: dict[str, tuple[int, ...]], met: bool) -> None:
    state = node("n", cards(24), accel=accel)
    assert accel_met(state.inventory, demand(ask(1), accel="cuda>=12.4")) is met


def test_a_pod_without_a_version_runs_anywhere() -> None:
    assert accel_met(node("n", cards(24)).inventory, demand(ask(1)))


def test_the_slot_number_is_the_cards_own_and_not_its_position() -> None:
    state = node("n", [card(3, 8), card(7, 24)])
    assert choice(state, demand(ask(10))) == [("main", 7, 10, 10)]
    assert choice(node("n", [replace(card(3, 24), healthy=False), card(7, 24)]), demand(ask(10))) == [
        ("main", 7, 10, 10)
    ]
