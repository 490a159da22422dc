"""Who holds GB of a card or units of a resource, as a caller may know it."""

from __future__ import annotations

from dataclasses import replace

from shared.core.holders import holders_of, unit_holders_of
from shared.core.ledger import Mark
from shared.core.refusal import Holders
from tests.builders import a_pod
from tests.unit.core_builders import card, cards, entry, holder, node
from tests.unit.units import GPU, SLICE, a10g, held, user


def test_pods_of_the_callers_namespace_are_named_the_largest_first_and_others_are_a_sum() -> None:
    pods = [
        holder("b", {0: 2}),
        holder("a", {0: 2, 1: 9}),
        holder("large", {0: 6}),
        holder("secret", {0: 4}, "other"),
        holder("hidden", {0: 3}, "third"),
    ]
    assert holders_of(node("n", cards(24, 24), pods=pods), 0, "models") == Holders(
        own=(("large", 6), ("a", 2), ("b", 2)), others_gb=7, others=2
    )


def test_who_holds_no_card_or_another_one_is_not_named() -> None:
    pods = [holder("a", {1: 9}), holder("web", {})]
    assert holders_of(node("n", cards(24, 24), pods=pods), 0, "models") == Holders()


def test_a_pod_and_its_reservation_are_one_holder() -> None:
    state = node("n", cards(24), ledger={"r": entry({0: 6})}, pods=[holder("a", {0: 6}, reservation="r")])
    assert holders_of(state, 0, "models") == Holders(own=(("a", 6),))


def test_a_reservation_whose_pod_is_not_there_yet_holds_too() -> None:
    ledger = {"r": entry({0: 6}), "s": entry({0: 5}, "other"), "t": entry({1: 9})}
    assert holders_of(node("n", cards(24, 24), ledger=ledger), 0, "models") == Holders(
        own=(("a pod being created", 6),), others_gb=5, others=1
    )


def test_a_kept_seat_is_held_for_a_pod_that_is_being_replaced() -> None:
    seat = replace(entry({0: 6}), mark=Mark.KEPT)
    elsewhere = replace(entry({0: 5}, "other"), mark=Mark.KEPT)
    assert holders_of(node("n", cards(24), ledger={"r": seat, "s": elsewhere}), 0, "models") == Holders(
        own=(("a pod being replaced", 6),), others_gb=5, others=1
    )


def test_a_pod_that_has_no_name_yet_is_being_created() -> None:
    state = node("n", cards(24), pods=[holder("", {0: 6})])
    assert holders_of(state, 0, "models").own == (("a pod being created", 6),)


def test_what_was_measured_beside_all_reservations_is_told() -> None:
    assert holders_of(node("n", [card(0, 24, foreign_gb=3)]), 0, "models") == Holders(foreign_gb=3)


def test_a_card_that_is_gone_has_the_holders_it_had() -> None:
    assert holders_of(node("n", ledger={"r": entry({4: 6})}), 4, "models").own == (("a pod being created", 6),)


def test_holders_of_units_are_pods_and_reservations_without_one() -> None:
    secret = a_pod("secret", "other").limited_to({GPU: "2"}).on("eks").facts()
    pods = [user("chat", {GPU: 1}, reservation="r"), user("web", {}), secret]
    state = a10g(gpus=8, pods=pods, ledger={"r": held({GPU: 1}), "s": held({GPU: 3}), "t": held({SLICE: 1})})
    assert unit_holders_of(state, GPU, "models") == Holders(
        own=(("a pod being created", 3), ("chat", 1)), others_gb=2, others=1
    )


def test_a_copy_in_another_namespace_does_not_hide_the_pod_that_is_being_created() -> None:
    copy = holder("copy", {0: 2}, "other", reservation="r")
    state = node("n", cards(24), ledger={"r": entry({0: 6})}, pods=[copy])
    assert holders_of(state, 0, "models") == Holders(own=(("a pod being created", 6),), others_gb=2, others=1)
    secret = replace(user("secret", {GPU: 2}, reservation="r"), namespace="other")
    assert unit_holders_of(a10g(gpus=8, pods=[secret], ledger={"r": held({GPU: 1})}), GPU, "models") == Holders(
        own=(("a pod being created", 1),), others_gb=2, others=1
    )
