"""Whatever is sent to whatever cluster, in whatever order: every answer keeps the laws that `tests.fuzz` checks.

The same episodes as those of `make fuzz`, a few reviews long, so that hypothesis can shrink what breaks a law.
"""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, given, settings

from tests.fuzz.clock import JumpingLoop
from tests.fuzz.clusters import a_cluster
from tests.fuzz.dice import DICE, Dice
from tests.fuzz.episode import Episode


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(DICE)
def test_every_answer_to_a_sequence_of_reviews_keeps_the_laws(dice: Dice) -> None:
    episode = Episode(dice, a_cluster(dice, most_nodes=2))
    with asyncio.Runner(loop_factory=JumpingLoop) as runner:
        runner.run(episode.run(6))
