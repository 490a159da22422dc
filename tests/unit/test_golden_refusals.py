"""What a person on call reads, and what a machine does: every reason at one node, at three unlike and at 5,000.

The files in `golden/` are the texts and causes as they are to be. After a change that is meant, write them anew
and read the difference aloud:

    PLACEMENT_WRITE_GOLDEN=1 python -m pytest tests/unit/test_golden_refusals.py
    git diff tests/unit/golden
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from shared.core.explain import causes, explain
from shared.core.refusal import NoFit, Reason, Refusal
from tests.unit.refusal_scenes import ALL, SCENES, refusal_of

GOLDEN = Path(__file__).parent / "golden"
SIZES = ("1-node", "3-nodes", "5000-nodes")
REWRITE = "PLACEMENT_WRITE_GOLDEN"


def told(refusal: Refusal) -> str:
    """A refusal as the golden files hold it: the text, and a line for each cause."""
    listed = [f"{cause.reason} [{cause.field}] {cause.message}" for cause in causes(refusal)]
    return "\n".join((explain(refusal), "", "causes:", *listed, ""))


@pytest.mark.parametrize(("reason", "size"), ALL)
def test_a_refusal_reads_as_it_is_to_be(reason: Reason, size: str) -> None:
    refusal = SCENES[reason][size].refusal()
    file = GOLDEN / f"{reason}-{size}.txt"
    if os.environ.get(REWRITE):
        file.write_text(told(refusal))
    assert refusal.reason is reason
    assert told(refusal) == file.read_text()


@pytest.mark.parametrize(("reason", "size"), ALL)
def test_it_keeps_to_the_limits(reason: Reason, size: str) -> None:
    refusal = SCENES[reason][size].refusal()
    first, *_ = explain(refusal).splitlines()
    assert first.startswith(f"{reason}: ")
    assert len(first) < 240
    assert len(explain(refusal)) < 900
    assert 1 <= len(causes(refusal)) <= 16


@pytest.mark.parametrize(("reason", "size"), ALL)
def test_it_is_the_same_whatever_the_order_of_the_nodes(reason: Reason, size: str) -> None:
    scene = SCENES[reason][size]
    assert told(refusal_of(scene.pod, scene.nodes()[::-1])) == told(scene.refusal())


def test_every_reason_has_a_text_at_every_size_and_no_file_is_left_over() -> None:
    assert set(SCENES) == set(Reason)
    assert {tuple(sizes) for sizes in SCENES.values()} == {SIZES}
    files = {f"{reason}-{size}.txt" for reason, size in ALL}
    assert {file.name for file in GOLDEN.iterdir()} == files


def test_every_text_says_whether_waiting_helps_and_what_to_do() -> None:
    for reason, size in ALL:
        refusal = SCENES[reason][size].refusal()
        if isinstance(refusal, NoFit):
            text = explain(refusal)
            assert ("as soon as" in text) is refusal.can_wait
            assert ("aiting does not help" in text) is not refusal.can_wait
