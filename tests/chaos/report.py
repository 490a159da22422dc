"""What is printed of a scenario, and what is kept of one that failed."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.rules import Injected
from tests.e2e.creates import Outcome, few_are_late
from tests.e2e.trouble import CONVERGED_S

FOLDER = Path("build/chaos")
_SHOWN = 5
HEADER = f"{'scenario':<22} {'faults':>6} {'creates':>8} {'over-commit':>11} {'leaked GB':>9} {'converged':>10}"


@dataclass(frozen=True, slots=True)
class Row:
    """One scenario's figures, and everything that speaks against it."""

    scenario: str
    faults: Counter[str]
    created: Counter[str]
    looks: int
    ledgers: int
    """How many versions of ledgers were judged."""
    over_commit: frozenset[str]
    leaked_gb: int
    converged_s: float
    wrong: tuple[str, ...] = ()
    least_admitted: int = 0
    answers_all: bool = False
    whole: bool = True
    """Whether times are judged. The short run is a part of the tests, which judge none."""
    unrecorded: frozenset[str] = frozenset()
    figures: dict[str, str] = field(default_factory=dict)

    @property
    def failures(self) -> list[str]:
        """Why the scenario failed; empty if it did not."""
        found = [f"seen meanwhile: {each}" for each in sorted(self.over_commit)]
        if self.leaked_gb:
            found.append(f"{self.leaked_gb} GB are reserved for nobody")
        if self.whole and self.converged_s >= CONVERGED_S:
            found.append(f"not right again after {self.converged_s:.0f} s")
        if not self.looks:
            found.append("nobody has looked")
        if not self.ledgers:
            found.append("no version of a ledger was judged")
        if (admitted := self.created[Outcome.ADMITTED]) < self.least_admitted:
            found.append(f"{admitted} creates were admitted, of {self.least_admitted} at least")
        if self.answers_all:
            forgiven = not self.whole and few_are_late(self.created)
            never = (Outcome.FAILED, Outcome.UNAVAILABLE, *(() if forgiven else (Outcome.LATE,)))
            if unwanted := [f"{self.created[each]} {each}" for each in never if self.created[each]]:
                found.append(f"each create was to be admitted or refused: {', '.join(unwanted)}")
        return [*found, *self.wrong]

    def __str__(self) -> str:
        cells = f"{self.scenario:<22} {self.faults.total():>6} {self.created.total():>8} {len(self.over_commit):>11}"
        return f"{cells} {self.leaked_gb:>9} {self.converged_s:>8.1f} s  {self._remarks()}"

    def _remarks(self) -> str:
        came = ", ".join(f"{number} {outcome}" for outcome, number in self.created.most_common())
        more = [f"{name} {value}" for name, value in self.figures.items()]
        passing = [f"{len(self.unrecorded)} pods unrecorded for a moment"] if self.unrecorded else []
        seen = f"{self.looks} looks, {self.ledgers} versions of ledgers judged"
        return "; ".join(filter(None, [came, *more, *passing, seen, "FAILED" if self.failures else ""]))


def keep(row: Row, seed: int, injected: list[Injected], folder: Path = FOLDER) -> Path:
    """A file with the schedule of faults and what went wrong."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{row.scenario}-{seed}.txt"
    lines = [f"scenario {row.scenario}, seed {seed}", str(row), *row.failures, "", "faults:", *map(str, injected)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def explain(row: Row, again: str, path: Path) -> str:
    """What a person needs to see it again: with the arguments `again`."""
    failures = row.failures
    shown = [f"  {each}" for each in failures[:_SHOWN]]
    left = [f"  and {len(failures) - _SHOWN} more"] if len(failures) > _SHOWN else []
    how = f"  again: python -m tests.chaos {again}    faults and times: {path}"
    return "\n".join([f"FAILED {row.scenario}:", *shown, *left, how])
