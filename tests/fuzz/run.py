"""Runs episodes, and keeps what is needed to see a failure again."""

from __future__ import annotations

import asyncio
import traceback
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random

import orjson

from tests.fuzz.answers import BrokenLawError
from tests.fuzz.clock import JumpingLoop
from tests.fuzz.clusters import ClusterJson, a_cluster
from tests.fuzz.dice import Dice
from tests.fuzz.episode import Episode
from tests.fuzz.tally import Tally
from tests.fuzz.world import MutatorClass
from webhook.mutate import Mutator


@dataclass(frozen=True, slots=True)
class Failure:
    """A law that was broken: by which answers, in which cluster, and in which episode of which seed."""

    law: str
    seed: int
    episode: int
    sent: list[tuple[str, str]]
    """The reviews that were under way, path and body."""
    cluster: ClusterJson
    """The cluster before they were sent."""
    trace: str

    def write(self, folder: Path) -> Path:
        """A file from which `replay` sees it again."""
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"failure-{self.seed}-{self.episode}.json"
        path.write_bytes(orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2))
        return path


@dataclass(slots=True)
class Outcome:
    """What became of an episode."""

    tally: Tally = field(default_factory=Tally)
    failure: Failure | None = None


def run_episode(seed: int, number: int, least: int, make_mutator: MutatorClass = Mutator) -> Outcome:
    """Runs the episode of this seed and number, of at least so many reviews."""
    episode, error = _run(seed, number, least, make_mutator)
    if error is None:
        return Outcome(episode.tally)
    # The same episode once more, up to there: that costs less than a copy of the cluster before every review.
    before, _ = _run(seed, number, least, make_mutator, until=episode.batches - 1)
    broken = isinstance(error, BrokenLawError)
    failure = Failure(
        law=str(error) if broken else f"no handler raises: {error!r}",
        seed=seed,
        episode=number,
        sent=[(path, body.decode(errors="backslashreplace")) for path, body in episode.sent],
        cluster=before.cluster,
        trace="" if broken else "".join(traceback.format_exception(error)),
    )
    return Outcome(episode.tally, failure)


def replay(path: Path, make_mutator: MutatorClass = Mutator) -> tuple[list[str], str]:
    """The answers to the reviews of a failure, sent one by one to its cluster, and the law they break, if any."""
    recorded = orjson.loads(path.read_bytes())
    episode = Episode(Dice(Random(0)), ClusterJson(**recorded["cluster"]), make_mutator)
    sent = [(path, body.encode()) for path, body in recorded["sent"]]
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        try:
            return runner.run(episode.play(sent)), ""
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is what is looked for
            return [], f"{error!r}"


def _run(
    seed: int, number: int, least: int, make_mutator: MutatorClass, until: int | None = None
) -> tuple[Episode, Exception | None]:
    dice = Dice(Random(f"{seed}/{number}"))
    episode = Episode(dice, a_cluster(dice), make_mutator)
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        try:
            runner.run(episode.run(least, until=until))
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is what is looked for
            return episode, error
    return episode, None
