"""The table of what each open case taught: every case has its row, and what a row names exists."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = ROOT / "tests" / "cases"
LINES = [line for line in (CASES / "RULES.md").read_text().splitlines() if line.startswith("|")]
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in LINES[2:]]


def ids(folder: str) -> set[str]:
    return {path.stem for path in (CASES / folder).glob("*.yaml")}


def test_every_open_case_has_one_row() -> None:
    assert [row[0] for row in ROWS] == sorted(ids("open"))


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_a_row_tells_a_rule_and_what_it_names_exists(row: list[str]) -> None:
    _, rule, file, neighbours = row
    assert rule.endswith(".")
    assert (ROOT / file.strip("`")).exists(), file
    assert neighbours
    for neighbour in neighbours.split(", "):
        path, _, name = neighbour.strip("`").partition("::")
        if name:
            found = {getattr(each, "name", None) for each in ast.walk(ast.parse((ROOT / path).read_text()))}
            assert name in found, neighbour
        else:
            assert neighbour in ids("own"), neighbour


def test_no_rule_is_told_twice() -> None:
    rules = [row[1] for row in ROWS]
    assert len(set(rules)) == len(rules)
