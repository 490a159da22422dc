"""Reported cases on the real control plane: real admission, the real scheduler, two webhooks.

The cases are those of the case runner, and so is what judges them.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.devcluster.cluster import ROOT
from tests.cases.chart import Chart
from tests.cases.expect import differences
from tests.cases.owners import steps_of
from tests.cases.schema import load
from tests.e2e.case_play import play
from tests.e2e.case_world import RealWorld
from tests.fakes.objects import Json

pytestmark = pytest.mark.e2e

_CASES = ROOT / "tests" / "cases"
_MOST_TELLING = (
    # Cards without partitions; the words of the product; affinity that the scheduler reads after us.
    "open/or-terms-each-get-the-pin",
    "open/multi-card-needs-room-on-every-card",
    # A pool that graphics and pods share.
    "open/unified-budget-and-memory-limit-add-up",
    # Partitions, and their own resource as a word.
    "open/mig-slice-request-passes-through",
    "open/tensor-parallel-not-on-slices",
    # Cards that are not shared.
    "own/exclusive-card-is-taken-whole",
    # Nodes whose vendor gives the cards away.
    "open/sharing-not-configured-on-managed-cluster",
    # The words of other systems.
    "open/hami-gpumem-per-card",
    "own/hami-memory-on-an-amd-card",
    "open/kai-half-fraction",
    # Counts of the vendor's resource.
    "open/quantity-forms-of-one",
    "open/two-containers-two-cards",
    # Devices named by variables, also beside a pod that holds a card already.
    "open/user-cvd-index-does-not-exist",
    "open/zero-gpus-is-not-all-gpus",
    "open/visible-devices-all-without-request",
    # A model server's own arguments.
    "open/args-shell-one-string",
)


@pytest.mark.parametrize("name", _MOST_TELLING, ids=lambda name: Path(name).name)
def test_a_case_comes_out_as_with_the_case_runner(name: str, world: RealWorld, chart: Chart) -> None:
    case = load(_CASES / f"{name}.yaml")
    try:
        world.build(case["given"], _namespaces(case))
        found = differences(case, play(case, world), chart)
    finally:
        world.clear()
    assert not found, "\n".join(found)


def _namespaces(case: Json) -> set[str]:
    objects = [step["object"] for step in steps_of(case["when"])]
    return {str(raw["metadata"].get("namespace") or "default") for raw in objects}
