"""The definitions of the metrics keep to the rules of Prometheus, and their page says what they say."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from hack.metrics_reference import DOCUMENT, render
from shared.core.refusal import Reason
from shared.obs.metrics import Definition, Kind, definitions
from webhook.review_recorder import ReviewRecorder

ROOT = Path(__file__).parents[2]
UNITS = ("_seconds", "_gb", "_total")
COUNTS_OF_THINGS = {
    "placement_build_info",
    "placement_ready",
    "placement_leader",
    "placement_reviews_in_flight",
    "placement_connections",
    "placement_ledger_write_entries",
    "placement_watch_objects",
    "placement_queue_depth",
    "placement_waiting_owners",
}
UNBOUNDED = {"pod", "namespace", "owner", "name", "uid", "reservation", "path", "container", "model", "user"}

each_definition = pytest.mark.parametrize("definition", definitions(), ids=lambda definition: definition.name)


def test_the_page_is_what_the_definitions_say() -> None:
    assert DOCUMENT.read_text() == render(), "run python -m hack.metrics_reference"


def test_no_name_is_used_twice() -> None:
    names = [definition.name for definition in definitions()]
    assert len(set(names)) == len(names) > 20


@each_definition
def test_a_name_says_whose_it_is_and_in_what_unit(definition: Definition) -> None:
    assert re.fullmatch(r"placement_[a-z_]+", definition.name)
    assert definition.name.endswith(UNITS) != (definition.name in COUNTS_OF_THINGS)
    assert definition.name.endswith("_total") == (definition.kind is Kind.COUNTER)
    assert bool(definition.buckets) == (definition.kind is Kind.HISTOGRAM)
    assert list(definition.buckets) == sorted(definition.buckets)


@each_definition
def test_no_label_is_of_a_kind_that_nobody_bounds(definition: Definition) -> None:
    assert not UNBOUNDED & set(definition.labels)


@each_definition
def test_the_help_explains_and_fits_a_table(definition: Definition) -> None:
    assert len(definition.help) > 10
    assert not re.search(r"[|\n]|\.$", definition.help)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_refusal_on_record_an_anchor_and_a_label_value(reason: Reason) -> None:
    """A new reason is not done before users can read, link and count it."""
    assert list((ROOT / "tests" / "unit" / "golden").glob(f"{reason}-*.txt"))
    assert f'| `{reason}` | <a id="{reason}"></a>' in (ROOT / "docs" / "reference.md").read_text()
    (reviews, *_) = ReviewRecorder().collect()
    refused = {sample.labels["reason"] for sample in reviews.samples if sample.labels["verdict"] == "refused"}
    assert reason in refused
