"""The record of a placement: written for people and tools, read back without trusting it."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from shared.core.card_choice import Share
from tests.builders import a_pod
from tests.unit.core_builders import card
from webhook.placed_record import Change, Record, RecordedShare, read_record, write_record


def on_pod(text: Any) -> dict[str, Any]:
    return {"metadata": {"annotations": {"kamiwaza.ai/placed": text}}}


def test_what_is_written_can_be_read_back() -> None:
    changes = (
        Change(("containers", "a~b", "resources", "limits", "nvidia.com/gpu"), "1"),
        Change(("affinity",), [{"matchExpressions": []}]),
        Change(("runtimeClassName",), None),
    )
    text = write_record("abcdefghij", "node-a", [Share("main", card(1, 16), 6, 6)], "annotation", changes)
    record = read_record(a_pod().annotated("kamiwaza.ai/placed", text).raw())
    assert record.node == "node-a"
    assert record.shares == (RecordedShare("main", 1, 6),)
    assert record.changed == changes


def test_the_text_is_the_documented_form() -> None:
    text = write_record("abcdefghij", "node-a", [Share("main", card(1, 16), 6, 6)], "annotation", ())
    assert orjson.loads(text) == {
        "v": 1,
        "id": "abcdefghij",
        "node": "node-a",
        "shares": [{"container": "main", "card": 1, "uuid": "GPU-1", "gb": 6}],
        "from": "annotation",
        "changed": [],
    }


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param({}, id="no-metadata"),
        pytest.param({"metadata": {}}, id="no-annotations"),
        pytest.param(on_pod(""), id="an-empty-text"),
        pytest.param(on_pod("{"), id="not-json"),
        pytest.param(on_pod("[1]"), id="not-an-object"),
        pytest.param(on_pod(7), id="not-a-text"),
        pytest.param(on_pod({"node": "node-a"}), id="an-object-in-place-of-a-text"),
        pytest.param(on_pod('{"node":"node-a","changed":' + "[" * 300 + "]" * 300 + "}"), id="too-deep-to-write-again"),
    ],
)
def test_a_record_that_cannot_be_read_is_an_empty_one(pod: dict[str, Any]) -> None:
    record = read_record(pod)
    assert record == Record("", (), ())


def test_changes_of_another_form_are_passed_over() -> None:
    text = '{"node":7,"changed":[1,null,{"was":1},{"path":7},{"path":"affinity"}]}'
    record = read_record(on_pod(text))
    assert record.node == "7"
    assert record.changed == (Change(("affinity",), None),)
    assert read_record(on_pod('{"changed":{"path":"affinity"}}')).changed == ()


def test_shares_of_another_form_are_passed_over() -> None:
    share = '{"container":"main","card":0,"uuid":"GPU-0","gb":6}'
    others = '1,null,{},{"container":7,"card":0,"gb":6},{"container":"main","card":"0","gb":6}'
    assert read_record(on_pod(f'{{"shares":[{others},{share}]}}')).shares == (RecordedShare("main", 0, 6),)
    assert read_record(on_pod('{"shares":7}')).shares == ()
