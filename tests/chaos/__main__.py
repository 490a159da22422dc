"""`python -m tests.chaos`: breaks every part of the operator on a real control plane, and counts what is lost."""

from __future__ import annotations

import argparse
import itertools
import secrets
import sys
import time
from collections.abc import Iterator

from tests.chaos.report import HEADER, explain, keep
from tests.chaos.run import chaos_stage, play
from tests.chaos.scenarios import SCENARIOS, Scenario
from tests.chaos.soak import soak

_SOAK_MINUTES = 60


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 if every scenario ended well, 1 if one did not."""
    options = parser().parse_args(arguments)
    seed = options.seed if options.seed is not None else secrets.randbelow(10**6)
    began = time.monotonic()
    failed = []
    _say(f"seed {seed}")
    with chaos_stage(_say) as stage:
        _say(HEADER)
        for scenario, seconds, turn in _program(options, began):
            row, injected = play(stage, scenario, seed + turn, seconds, _say)
            path = keep(row, seed + turn, injected)
            _say(str(row))
            if row.failures:
                failed.append(scenario.name)
                _say(explain(row, again(options, scenario.name, seed + turn), path))
    minutes = (time.monotonic() - began) / 60
    _say(f"{minutes:.1f} minutes, seed {seed}: " + (f"FAILED: {', '.join(failed)}" if failed else "nothing was lost"))
    return 1 if failed else 0


def again(options: argparse.Namespace, scenario: str, seed: int) -> str:
    """The arguments that play one scenario as these options did. A further round is the first one of its own seed."""
    if options.mode == "soak":
        return f"soak --minutes {options.minutes or _SOAK_MINUTES:g} --seed {seed}"
    return f"--scenario {scenario} --seed {seed}" + (" --short" if options.short else "")


def _program(options: argparse.Namespace, began: float) -> Iterator[tuple[Scenario, float, int]]:
    """Scenario, seconds of trouble, and round. With `--minutes` rounds go on until these have passed."""
    if options.mode == "soak":
        seconds = 60 * (options.minutes or _SOAK_MINUTES)
        yield soak(seconds), seconds, 0
        return
    chosen = [SCENARIOS[name] for name in options.scenario or SCENARIOS]
    if options.short:
        chosen = [scenario for scenario in chosen if scenario.short_s is not None]
    for turn in itertools.count():
        for scenario in chosen:
            if turn and (time.monotonic() - began) / 60 > options.minutes:
                return
            yield scenario, (scenario.short_s or scenario.seconds) if options.short else scenario.seconds, turn
        if (time.monotonic() - began) / 60 > options.minutes:
            return


def parser() -> argparse.ArgumentParser:
    """What the command takes."""
    command = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    command.add_argument("mode", nargs="?", choices=("soak",), help="one long run instead, of 60 minutes if not told")
    command.add_argument("--seed", type=int, help="what decides every fault (default: another one each time)")
    command.add_argument("--scenario", action="append", choices=SCENARIOS, help="only this one; may be repeated")
    command.add_argument("--minutes", type=float, default=0.0, help="go on with further rounds for so long")
    command.add_argument("--short", action="store_true", help="the part of about three minutes")
    return command


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
