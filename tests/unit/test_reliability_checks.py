"""The table of 40 checks in docs/reliability.md: complete, and each test that it names is there.

That a test of that name watches all that its row says is for whoever reads both: nothing here can tell.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

_ROOT = Path(__file__).parents[2]
_ROW = re.compile(r"\| (?P<number>[0-9]+) \| (?P<check>[^|]+) \| (?P<watched>[^|]+) \|\Z")
_TEST = re.compile(r"`(?P<file>tests/[a-z0-9_/]+\.py)::(?P<name>test_[a-z0-9_]+)`")
_TARGET = re.compile(r"`make (?P<target>[a-z-]+)`")


def _rows() -> dict[int, str]:
    """What watches each check."""
    text = (_ROOT / "docs" / "reliability.md").read_text(encoding="utf-8").partition("\n## The 40 checks\n")[2]
    rows = [match for line in text.splitlines() if (match := _ROW.match(line))]
    return {int(row["number"]): row["watched"] for row in rows}


@cache
def _tests_of(file: str) -> frozenset[str]:
    tree = ast.parse((_ROOT / file).read_text(encoding="utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def test_the_table_has_every_check_once() -> None:
    assert list(_rows()) == list(range(1, 41))


@pytest.mark.parametrize("number", range(1, 41))
def test_a_check_names_tests_that_are_there_or_says_why_there_is_none(number: int) -> None:
    watched = _rows()[number]
    named = [(match["file"], match["name"]) for match in _TEST.finditer(watched)]
    assert named or watched.startswith("Not built: ")
    assert [name for file, name in named if name not in _tests_of(file)] == []


@pytest.mark.parametrize("number", range(1, 41))
def test_a_command_that_it_names_is_a_target_of_the_makefile(number: int) -> None:
    targets = {match["target"] for match in _TARGET.finditer(_rows()[number])}
    makefile = (_ROOT / "Makefile").read_text(encoding="utf-8")
    assert {target for target in targets if f"\n{target}:" not in makefile} == set()
