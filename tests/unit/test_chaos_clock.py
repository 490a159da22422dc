"""Steps of the wall clock reach a running process, and there is no other way by which the product tells the time."""

from __future__ import annotations

import ast
import time
from pathlib import Path

import pytest

from hack.devcluster.cluster import ROOT
from tests.chaos import clock
from tests.chaos.clock import Clock

_PRODUCT = ("shared", "webhook", "controller")
_TRUE_TIME = ROOT / "shared" / "obs" / "logs.py"
"""Lines of the log keep the true time, so that those of several processes can be put in order."""
_OTHER_WAYS = frozenset({"now", "utcnow", "today", "time_ns", "localtime", "gmtime", "clock_gettime"})


@pytest.fixture
def hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr(time, "time", time.time)  # put back afterwards
    hand = Clock(tmp_path / "clock")
    clock.install(hand.path)
    return hand


@pytest.mark.parametrize("offset_s", [300.0, -300.0])
def test_a_step_is_seen_at_once_and_can_be_undone(hand: Clock, offset_s: float) -> None:
    before = time.time()
    hand.step(offset_s)
    assert time.time() - before == pytest.approx(offset_s, abs=60)
    hand.step(0.0)
    assert time.time() - before == pytest.approx(0, abs=60)


def test_the_product_reads_the_wall_clock_by_time_time_alone() -> None:
    others = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for folder in _PRODUCT
        for path in (ROOT / folder).rglob("*.py")
        if path != _TRUE_TIME
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in _OTHER_WAYS
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id in {"datetime", "date", "time"}
    ]
    assert others == []


def test_nobody_takes_time_time_before_it_can_be_stepped() -> None:
    """`from time import time` would keep the true clock."""
    taken = [
        str(path.relative_to(ROOT))
        for folder in _PRODUCT
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom) and node.module == "time"
    ]
    assert taken == []
