"""The causes of refusals are as `docs/causes.schema.json` says, and it says no less than they hold."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from shared.core.constraints import read_constraints
from shared.core.demand import Demand, Policy
from shared.core.explain import causes
from shared.core.placement import place
from shared.core.refusal import NoFit, Reason
from tests.builders import a_pod
from tests.unit.causes_schema import SCHEMA, VALIDATOR, as_json, violations
from tests.unit.core_builders import ask, cards, cluster, demand, entry, node
from tests.unit.refusal_scenes import ALL, SCENES
from tests.unit.units import SHARED, managed, slices


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(("reason", "size"), ALL)
def test_the_causes_of_every_reason_hold_to_the_schema(reason: Reason, size: str) -> None:
    assert violations(SCENES[reason][size].refusal()) == []


def test_the_schema_knows_the_reasons_in_their_order() -> None:
    listed = SCHEMA["$defs"]["noFit"]["properties"]["reason"]["enum"]
    assert ["invalid_request", *listed] == list(Reason)


def test_every_cause_says_what_it_means() -> None:
    kinds = [each["$ref"].rpartition("/")[2] for each in SCHEMA["items"]["oneOf"]]
    assert all(SCHEMA["$defs"][kind]["description"] for kind in kinds)
    assert sorted(SCHEMA["$defs"][kind]["properties"]["reason"]["const"].lower() for kind in kinds) == sorted(
        kind.lower() for kind in kinds
    )


def test_a_program_reads_the_numbers_of_a_card_by_the_pattern() -> None:
    (full,) = [each for each in causes(SCENES[Reason.INSUFFICIENT_CAPACITY]["1-node"].refusal()) if each.field]
    pattern = SCHEMA["$defs"]["cardTooFull"]["properties"]["message"]["pattern"]
    found = re.match(pattern, full.message)
    assert found is not None
    assert (full.field, found[1], found[2], found[5]) == ("t4/0", "4", "16", "2")


def test_a_full_card_that_is_only_given_away_whole_is_one_of_the_causes() -> None:
    full = node("node-a", cards(24), exclusive=True, ledger={"r": entry({0: 24})})
    refusal = place(cluster(full), demand(ask(6)), read_constraints(a_pod().raw()))
    assert isinstance(refusal, NoFit)
    assert "only given away whole" in causes(refusal)[1].message
    assert violations(refusal) == []


def test_parts_of_cards_are_causes_whyever_cards_were_wanted() -> None:
    parts = managed("eks", {SHARED: 4}, memory="24576", count="1", replicas="4")
    over_two = replace(slices(SHARED), cards=2)
    for wanted in (demand(ask(2, 2)), demand(ask(2), policy=Policy.EXCLUSIVE), Demand((), units=(over_two,))):
        refusal = place(cluster(parts), wanted, read_constraints(a_pod().raw()))
        assert isinstance(refusal, NoFit)
        assert causes(refusal)[1].reason == "UnitsShareCards"
        assert violations(refusal) == []


GOOD = as_json(causes(SCENES[Reason.INSUFFICIENT_CAPACITY]["1-node"].refusal()))
CARD = GOOD[1]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param([], id="no-cause"),
        pytest.param([CARD], id="a-fact-first"),
        pytest.param([GOOD[0], GOOD[0]], id="two-refusals"),
        pytest.param([GOOD[0], *[CARD] * 16], id="too-many"),
        pytest.param([GOOD[0], {**CARD, "field": "t4"}], id="a-card-without-its-slot"),
        pytest.param([GOOD[0], {**CARD, "message": "it is full"}], id="words-of-another-form"),
        pytest.param([GOOD[0], {**CARD, "reason": "CardOnFire"}], id="an-unknown-reason"),
        pytest.param([GOOD[0], {**CARD, "more": ""}], id="a-field-too-many"),
        pytest.param([{"reason": "invalid_request", "message": "'x' is wrong: y", "field": ""}], id="no-field"),
        pytest.param(
            [{"reason": "invalid_request", "message": "'x' is wrong: y", "field": "f"}, CARD], id="facts-of-no-use"
        ),
        pytest.param([{**GOOD[0], "message": GOOD[0]["message"] * 3}], id="too-long"),
    ],
)
def test_anything_else_does_not(bad: list[dict[str, Any]]) -> None:
    assert VALIDATOR.is_valid(GOOD)
    assert not VALIDATOR.is_valid(bad)
