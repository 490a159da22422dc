"""`python -m tests.cases`: what it prints and how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from tests.cases import report
from tests.cases.__main__ import main
from tests.cases.report import Charts
from tests.fakes.objects import Json
from tests.unit.casing import a_case, chart_text, creates


@pytest.fixture(autouse=True)
def _rendered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """One rendering for all tests, and logs as they were."""
    charts = Charts(chart_text(), chart_text(sharing=False))
    monkeypatch.setattr(Charts, "rendered", classmethod(lambda cls: charts))
    monkeypatch.setattr("tests.cases.__main__.quiet", lambda: None)


def put(folder: Path, name: str, case: Json) -> Path:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**case, "id": name}))
    return path


def run(*arguments: str | Path) -> int:
    return main(["run", *map(str, arguments)])


GOOD = a_case(creates(), expect={"allowed": True, "node": "n1"})
BAD = a_case(creates(), expect={"allowed": True, "node": "n2"})


def test_one_line_a_case_then_the_sum(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "bad", BAD)
    put(tmp_path, "good", GOOD)
    assert run(tmp_path, "--workers", "1") == 1
    assert capsys.readouterr().out.splitlines() == [
        "FAIL  bad: node: expected n2, got n1",
        "pass  good",
        "1 passed, 1 failed",
    ]


def test_it_ends_well_if_all_pass(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(put(tmp_path, "good", GOOD)) == 0
    assert capsys.readouterr().out == "pass  good\n1 passed, 0 failed\n"


def test_a_word_chooses_cases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "bad", BAD)
    put(tmp_path, "good", GOOD)
    assert run(tmp_path, "-k", "goo") == 0
    assert run(tmp_path, "-k", "nothing") == 2
    assert "no case" in capsys.readouterr().err


def test_the_report_for_machines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put(tmp_path, "bad", BAD)
    put(tmp_path, "good", GOOD)
    assert run(tmp_path, "--json", "--workers", "1") == 1
    assert json.loads(capsys.readouterr().out) == {
        "passed": 1,
        "failed": 1,
        "cases": [
            {"id": "bad", "differences": ["node: expected n2, got n1"]},
            {"id": "good", "differences": []},
        ],
    }


def test_what_is_no_case_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(put(tmp_path, "odd", a_case({"action": "dance"}))) == 1
    assert "FAIL  odd: not a case: when: action 'dance' is not described" in capsys.readouterr().out


def test_what_cannot_be_played_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    nobody = {"action": "delete", "object": {"kind": "Pod", "name": "x", "namespace": "models"}}
    assert run(put(tmp_path, "odd", a_case(nobody))) == 1
    assert "FAIL  odd: could not be played: ValueError: Pod x: nothing in this case makes it" in capsys.readouterr().out


def test_cases_run_at_the_same_time_and_are_told_in_their_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(4):
        put(tmp_path, f"case-{number}", GOOD)
    assert run(tmp_path, "--workers", "2") == 0
    assert capsys.readouterr().out.splitlines()[:4] == [f"pass  case-{number}" for number in range(4)]


def test_the_chart_is_installed_as_the_case_says(tmp_path: Path) -> None:
    shared = a_case(creates(gb=4), creates("b", 4), expect={"steps": [{}, {"allowed": True}]})
    whole = a_case(creates(gb=4), creates("b", 4), expect={"steps": [{}, {"allowed": False}]}, gpuSharing=False)
    charts = Charts.rendered()
    assert report.run_case(put(tmp_path, "shared", shared), charts).passed
    assert report.run_case(put(tmp_path, "whole", whole), charts).passed
