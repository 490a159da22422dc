"""`python -m tests.fuzz`: sends generated reviews to the webhook's handlers until one is answered wrongly."""

from __future__ import annotations

import argparse
import secrets
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path

from tests.fuzz.run import Failure, Outcome, replay, run_episode
from tests.fuzz.tally import Tally

FOLDER = Path("build/fuzz")
_REVIEWS_A_CLUSTER = 400
_PROGRESS_S = 5.0


def main(arguments: list[str] | None = None) -> int:
    """The exit code: 0 if every answer was right, 1 if one was not."""
    options = _parser().parse_args(arguments)
    if options.replay is not None:
        return _replay(options.replay)
    seed = options.seed if options.seed is not None else secrets.randbelow(10**9)
    print(f"seed {seed}, {options.workers} workers, {options.reviews} reviews", flush=True)
    episodes = count() if options.episode is None else iter([options.episode])
    tally, began, shown = Tally(), time.monotonic(), time.monotonic()
    for outcome in _outcomes(seed, episodes, options.workers):
        tally.add(outcome.tally)
        now = time.monotonic()
        if outcome.failure is not None:
            print(_summary(tally, now - began))
            _tell(outcome.failure)
            return 1
        if tally.reviews >= options.reviews or (options.seconds is not None and now - began >= options.seconds):
            break
        if now - shown >= _PROGRESS_S:
            shown = now
            print(_line(tally, now - began), flush=True)
    print(_summary(tally, time.monotonic() - began))
    return 0


def _tell(failure: Failure) -> None:
    path = failure.write(FOLDER)
    print(f"FAILED: {failure.law}\n{failure.trace}")
    print(f"Its cluster and reviews are in {path}. To see it again:")
    print(f"  python -m tests.fuzz --seed {failure.seed} --episode {failure.episode}    exactly, as long as nothing")
    print("                              that makes the reviews is changed")
    print(f"  python -m tests.fuzz --replay {path}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--reviews", type=int, default=1_000_000, help="end after so many (default: a million)")
    parser.add_argument("--seconds", type=float, help="end after so many seconds, if that is earlier")
    parser.add_argument("--seed", type=int, help="what decides every review (default: another one each time)")
    parser.add_argument("--workers", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--episode", type=int, help="only this cluster of the seed")
    parser.add_argument("--replay", type=Path, metavar="FILE", help="send the reviews of a failure once more")
    return parser


def _outcomes(seed: int, episodes: Iterator[int], workers: int) -> Iterator[Outcome]:
    """Outcomes as they come. A few more episodes wait than there are workers, so that none of them is ever idle."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        under_way: set[Future[Outcome]] = set()
        while True:
            for number in islice(episodes, 2 * workers - len(under_way)):
                under_way.add(pool.submit(run_episode, seed, number, _REVIEWS_A_CLUSTER))
            if not under_way:
                return
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()


def _replay(path: Path) -> int:
    told, broken = replay(path)
    for answer in told:
        print(answer)
    print(f"FAILED: {broken}" if broken else "Every answer is right.")
    return 1 if broken else 0


def _line(tally: Tally, seconds: float) -> str:
    shares = ", ".join(f"{verdict} {number / tally.reviews:.1%}" for verdict, number in tally.verdicts.most_common(8))
    return f"{seconds:5.0f} s  {tally.reviews:>9} reviews  {tally.reviews / seconds:6.0f}/s  {shares}"


def _summary(tally: Tally, seconds: float) -> str:
    times = ", ".join(
        f"{name} {value * 1000:.1f} ms"
        for name, value in (
            ("half within", tally.percentile_s(0.5)),
            ("99 % within", tally.percentile_s(0.99)),
            ("slowest", tally.slowest_s),
        )
    )
    lines = [f"{tally.reviews} reviews in {seconds:.0f} s ({tally.reviews / max(seconds, 0.001):.0f}/s): {times}"]
    lines += [f"  {number:>9}  {verdict}" for verdict, number in tally.verdicts.most_common()]
    lines += [f"  {number:>9}  looked at: {check}" for check, number in tally.checks.most_common()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
