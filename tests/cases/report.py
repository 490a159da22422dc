"""Runs cases, some at a time, and tells of each whether it passes."""

from __future__ import annotations

import json
import logging
import os
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path

from tests.cases.chart import render, rendered
from tests.cases.expect import differences
from tests.cases.play import play
from tests.cases.schema import CaseError, load


@dataclass(frozen=True, slots=True)
class Told:
    """What came of one case. `differences` is empty if it passes."""

    id: str
    differences: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether everything is as the case expects it."""
        return not self.differences

    def line(self) -> str:
        """The line for people."""
        return f"pass  {self.id}" if self.passed else f"FAIL  {self.id}: {'; '.join(self.differences)}"


@dataclass(frozen=True, slots=True)
class Charts:
    """The chart as text, installed with sharing of cards and without."""

    sharing: str
    exclusive: str

    @classmethod
    def rendered(cls) -> Charts:
        """Both, rendered now."""
        return cls(render(sharing=True), render(sharing=False))


def run_case(path: Path, charts: Charts) -> Told:
    """Plays the case in a file and compares."""
    try:
        case = load(path)
    except CaseError as error:
        return Told(path.stem, (f"not a case: {error}",))
    try:
        chart = charts.sharing if case["given"]["cluster"]["gpuSharing"] else charts.exclusive
        return Told(case["id"], tuple(differences(case, play(case, chart), rendered(chart))))
    except Exception as error:  # noqa: BLE001 - whatever a case brings about is its own failure and not the others'
        logging.getLogger(__name__).info("%s", traceback.format_exc())
        return Told(case["id"], (f"could not be played: {type(error).__name__}: {error}",))


def run_all(paths: Sequence[Path], workers: int) -> Iterator[Told]:
    """Plays all cases, in their order, in `workers` processes."""
    charts = Charts.rendered()
    if workers <= 1 or len(paths) <= 1:
        for path in paths:
            yield run_case(path, charts)
        return
    # Every process the same, so that the same cases end the same way.
    os.environ["PYTHONHASHSEED"] = "0"
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=quiet) as pool:
        yield from pool.map(run_case, paths, [charts] * len(paths))


def quiet() -> None:
    """Keeps the product's logs out of the report."""
    logging.disable(logging.CRITICAL)


def as_json(told: Sequence[Told]) -> str:
    """The whole report for machines."""
    failed = sum(not one.passed for one in told)
    report = {"passed": len(told) - failed, "failed": failed, "cases": [asdict(one) for one in told]}
    return json.dumps(report, indent=2)
