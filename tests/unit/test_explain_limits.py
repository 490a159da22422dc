"""Refusals keep to their limits whatever the names and values, and tell machines the same facts."""

from __future__ import annotations

import pytest

from shared.core.cards import Vendor
from shared.core.constraints import Constraints
from shared.core.demand import Demand
from shared.core.explain import Cause, causes, explain
from shared.core.invalid import InvalidRequest
from shared.core.placement import place
from shared.core.refusal import (
    CardAttempt,
    Elsewhere,
    Excluded,
    Holders,
    Invalid,
    NoFit,
    Reason,
    RollingUpdate,
)
from shared.core.snapshot import NodeState
from tests.builders import a_node
from tests.unit.core_builders import ask, card, cards, cluster, demand, entry, holder, node

NVIDIA = Vendor.NVIDIA


def refusal(states: list[NodeState], of: Demand) -> NoFit:
    verdict = place(cluster(*states), of, Constraints(namespace="models"))
    assert isinstance(verdict, NoFit), verdict
    return verdict


class TestLimits:
    def test_many_holders_are_summed_up(self) -> None:
        pods = [holder(f"model-{number:02}", {0: 1}) for number in range(16)]
        text = explain(refusal([node("a", cards(16), pods=pods)], demand(ask(2))))
        assert (
            "Held on gpu-0 of a: 1 GB by model-00, 1 GB by model-01, 1 GB by model-02, 1 GB by model-03, "
            "12 GB by 12 more in this namespace.\n"
        ) in text

    def test_holders_in_other_namespaces_are_a_number(self) -> None:
        pods = [holder(f"secret-{number}", {0: 2}, f"team-{number}") for number in range(3)]
        text = explain(refusal([node("a", cards(8), pods=pods)], demand(ask(4))))
        assert "Held on gpu-0 of a: 6 GB by 3 pods in other namespaces.\n" in text
        assert "secret" not in text
        assert "team" not in text

    def test_the_longest_names_and_asks_keep_to_the_limits(self) -> None:
        pods = [holder(f"{number}{'p' * 250}", {0: 100}) for number in range(6)]
        states = [
            node("n" * 253, cards(*[800] * 3), pods=pods),
            *(node(f"x{number}", cards(24), a_node(f"x{number}").cordoned().tainted("x")) for number in range(2000)),
        ]
        asks = [ask(200 + number, 3, f"c{number}", init=[9]) for number in range(20)]
        for wanted in (demand(*asks, vendor=NVIDIA), demand(ask(780, container="a"), ask(1, container="b"), asks[0])):
            first, second, *_ = explain(refusal(states, wanted)).splitlines()
            assert "needs 2" in first or "needs 7" in first
            assert first.endswith("; 2000 nodes are excluded.") or "; 2000 nodes are excluded: " in first
            assert "2000 untolerated taints" in first + second
            assert len(first) < 240
            assert len(explain(refusal(states, wanted))) < 900

    def test_the_ask_is_cut_before_what_was_found(self) -> None:
        asks = [ask(8, container=f"c{number}") for number in range(9)]
        states = [node("n" * 60, cards(8)), node("z", cards(8), a_node("z").cordoned())]
        first, second, *_ = explain(refusal(states, demand(*asks))).splitlines()
        assert "8 GB on one card and 8 GB on one..." in first
        assert first.endswith(", has 8 of 8 GB free, but not for all containers at once; 1 node is excluded.")
        assert second == "Excluded: z (cordoned)."

    def test_excluded_nodes_are_named_where_they_are_few_and_counted_where_they_are_many(self) -> None:
        names = [f"{'n' * 60}{number}" for number in range(4)]
        away = [node(name, cards(8), a_node(name).cordoned().tainted("x")) for name in names]
        few = explain(refusal([*away[:2], node("a", cards(4))], demand(ask(6)))).splitlines()
        shown = f"{'n' * 47}... (cordoned, untolerated taint)"
        assert few[1] == f"Excluded: {shown}, {shown}."
        assert "Excluded" not in explain(refusal([*away, node("a", cards(4))], demand(ask(6))))


class TestInvalid:
    def test_it_names_field_value_and_the_right_form(self) -> None:
        error = InvalidRequest("metadata.annotations[kamiwaza.ai/vram-gb]", "16GB", "is no amount", 'write "16"')
        assert explain(Invalid.of(error)) == (
            "invalid_request: metadata.annotations[kamiwaza.ai/vram-gb] is '16GB', which is no amount: write \"16\"."
        )
        assert causes(Invalid.of(error)) == (
            Cause("invalid_request", "'16GB' is no amount: write \"16\"", "metadata.annotations[kamiwaza.ai/vram-gb]"),
        )

    def test_the_right_form_goes_to_a_second_line_where_the_first_would_be_too_long(self) -> None:
        refused = Invalid("field", "value", "contradicts " + "x" * 150, "keep one of the two, " + "y" * 80)
        assert explain(refused) == (
            f"invalid_request: field is 'value', which contradicts {'x' * 150}.\nKeep one of the two, {'y' * 80}."
        )

    @pytest.mark.parametrize("value", ["v" * 100_000, "\x00" * 100_000, "é" * 5000, "'\"" * 5000])
    def test_hostile_values_keep_to_the_limits(self, value: str) -> None:
        refused = Invalid("f" * 5000, value, "is wrong", "write something else")
        text = explain(refused)
        assert len(text.partition("\n")[0]) < 240
        assert len(text) < 900
        assert len(causes(refused)[0].message) < 240

    def test_a_line_end_in_a_value_makes_no_new_line(self) -> None:
        assert "\n" not in explain(Invalid("field", "a\nb", "is wrong", "write b"))


class TestCauses:
    def test_they_are_the_reason_the_exclusions_and_the_nearest_cards(self) -> None:
        states = [
            node("a", [card(0, 24), card(1, 4), card(2, 24, healthy=False)], ledger={"r": entry({0: 20})}),
            node("b", cards(24), a_node("b").cordoned()),
        ]
        assert causes(refusal(states, demand(ask(6)))) == (
            Cause(
                "insufficient_capacity",
                "insufficient_capacity: needs 6 GB on one card; the best card, gpu-0 of a, has 4 of 24 GB free and is "
                "2 GB short; 1 node is excluded: cordoned.",
                "",
            ),
            Cause("NodesExcluded", "1 cordoned", ""),
            Cause("CardTooFull", "gpu-0 of a has 4 of 24 GB free and is 2 GB short", "a/0"),
            Cause("CardTooSmall", "gpu-1 of a has 4 GB in all and is 2 GB too small", "a/1"),
            Cause("CardOutOfService", "gpu-2 of a is unhealthy or cordoned (24 GB)", "a/2"),
        )

    def test_a_card_with_room_on_a_closed_node_is_told_as_such(self) -> None:
        state = node("a", cards(24), a_node("a").offering(pods="0"))
        assert causes(refusal([state], demand(ask(6))))[-1] == Cause(
            "CardHasRoom", "gpu-0 of a has 24 of 24 GB free", "a/0"
        )

    def test_they_are_sixteen_at_most(self) -> None:
        states = [node(f"n{number}", cards(*[4] * 8)) for number in range(4)]
        assert len(causes(refusal(states, demand(ask(6))))) == 16


def test_with_everything_to_be_said_at_once_what_to_do_comes_before_the_facts() -> None:
    long = "n" * 253
    refused = NoFit(
        Reason.INSUFFICIENT_CAPACITY,
        "6 GB on one card",
        1,
        attempts=(CardAttempt(long, 0, "model", 6, 2, 16, healthy=True),),
        usable_nodes=1,
        excluded_nodes=19,
        excluded=tuple(Excluded(f"1 {'w' * 300}{number}", 1) for number in range(19)),
        undeclared=long,
        holders=Holders(tuple((f"{number}{long}", 9) for number in range(9)), 9, 9, 9),
        can_wait=True,
        update=RollingUpdate("Deployment", long, long),
        elsewhere=Elsewhere(long, long, unnamed=True, unselected=True),
    )
    first, *lines = explain(refused).splitlines()
    assert len(first) < 240
    assert len(explain(refused)) < 900
    assert [line.partition(" ")[0] for line in lines] == ["This", "Full", "Node"]
    assert lines[0].endswith("maxSurge 0 with maxUnavailable 1.")
    listed = causes(refused)
    assert len(listed) == 16
    assert all(len(cause.message) <= 239 for cause in listed)
