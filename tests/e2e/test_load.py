"""Many creates at once, through two webhook processes: exactly as many pods get in as there is room for."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Sequence
from functools import partial

import pytest

from shared.api import names
from tests.e2e.conftest import MakePool, Pool, Stage
from tests.e2e.creates import Created, Outcome, create_all
from tests.e2e.kube import Namespace, holding_pods, phase, pod, until
from tests.e2e.trouble import wait_true_to_pods, watched

pytestmark = pytest.mark.e2e


def test_200_creates_on_many_nodes_fill_the_room_for_100_exactly(
    stage: Stage, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(26, 26, 26, 26, 26, nodes=5)  # four pods of 6 GB on each card, and 2 GB that nobody can use
    _fill(stage, here, namespace, creates=200, room=100)


def test_60_creates_on_one_node_fill_the_room_for_30_exactly(
    stage: Stage, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(26, 26, 26, 26, 26, 26, 19, 19)  # all of them write the same ledger
    _fill(stage, here, namespace, creates=60, room=30)


def _fill(stage: Stage, here: Pool, namespace: Namespace, *, creates: int, room: int) -> None:
    pods = [pod(f"model-{number}", {names.VRAM: "6"}, pool=here.name) for number in range(creates)]
    with watched(stage.api, here.nodes):
        created = create_all(namespace, pods, partial(wait_true_to_pods, stage.api, here.nodes))
    _tell(created)
    admitted = {one.name for one in created if one.outcome is Outcome.ADMITTED}
    others = [one for one in created if one.name not in admitted]
    assert {one.outcome for one in others} == {Outcome.REFUSED}
    assert [one.said for one in others if "insufficient_capacity" not in one.said] == []
    assert len(admitted) == room
    until(
        "every admitted pod runs",
        lambda: (
            {one["metadata"]["name"] for one in holding_pods(stage.api, here.nodes) if phase(one) == "Running"}
            == admitted
        ),
    )
    wait_true_to_pods(stage.api, here.nodes)


def _tell(created: Sequence[Created]) -> None:
    """Figures for people, never asserted."""
    median, slowest = statistics.median(one.seconds for one in created), max(one.seconds for one in created)
    outcomes = dict(Counter(str(one.outcome) for one in created))
    print(f"median {median:.2f} s, slowest {slowest:.2f} s, {outcomes}")  # noqa: T201 - pytest -rP shows it
