"""What is not described in a case is an error, never skipped."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cases.schema import CaseError, load
from tests.fakes.objects import Json
from tests.unit.casing import a_case, a_node, creates, holding, named

OPEN = Path(__file__).parents[1] / "cases" / "open"


def written(folder: Path, case: Json) -> Path:
    path = folder / "case.yaml"
    path.write_text(yaml.safe_dump(case))
    return path


def changed(*path: str | int, to: Any = "nonsense") -> Callable[[Json], None]:
    """Sets what stands at a path of the case."""

    def change(case: Json) -> None:
        at: Any = case
        for part in path[:-1]:
            at = at[part]
        at[path[-1]] = to

    return change


def test_every_open_case_is_one() -> None:
    cases = [load(path) for path in sorted(OPEN.glob("*.yaml"))]
    assert len({case["id"] for case in cases}) == len(cases) == 93


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param(changed("extra"), "extra: is not described", id="key of a case"),
        pytest.param(changed("given", "extra"), "given.extra: is not described", id="key of given"),
        pytest.param(changed("given", "cluster", "extra"), "given.cluster.extra: is not described", id="cluster"),
        pytest.param(changed("given", "nodes", 0, "extra"), "nodes[1].extra: is not described", id="node"),
        pytest.param(changed("given", "nodes", 0, "gpus", 0, "extra"), "gpus[1].extra: is not described", id="card"),
        pytest.param(changed("given", "nodes", 0, "gpus", 0, "vendor"), "'nonsense' is none of nvidia", id="vendor"),
        pytest.param(changed("given", "pods", 0, "extra"), "pods[1].extra: is not described", id="pod"),
        pytest.param(changed("given", "pods", 0, "phase"), "is none of Pending", id="phase"),
        pytest.param(changed("given", "nodes", 0, "inventoryAge", to="ten"), "is no Go duration", id="duration"),
        pytest.param(changed("when", "steps", 0, "action"), "action 'nonsense' is not described", id="action"),
        pytest.param(
            changed("when", "steps", 0, "seconds", to=3), "seconds: is not described", id="other action's key"
        ),
        pytest.param(changed("when", "steps", 0, "budget", to={"vram": 3}), "budget.vram: is not", id="budget"),
        pytest.param(changed("when", "steps", 1, "object"), "is no mapping", id="object"),
        pytest.param(changed("when", "steps", 0, "dryRun", to="yes"), "is no bool", id="text for a yes"),
        pytest.param(changed("when", "steps", 0, "objectFromStep", to=1), "either object or objectFromStep", id="both"),
        pytest.param(changed("when", "steps", 2, "of", to=3), "3 is no earlier step", id="a step that comes later"),
        pytest.param(changed("expect", "steps", 0, "extra"), "steps[1].extra: is not described", id="verdict"),
        pytest.param(changed("expect", "steps", 0, "reason"), "'nonsense' is none of", id="reason"),
        pytest.param(changed("expect", "steps", 0, "warning", to=False), "False is none of True", id="warning"),
        pytest.param(changed("expect", "steps", to=[]), "0 verdicts for 3 steps", id="a verdict for each step"),
        pytest.param(changed("expect", "final", to={"usedMB": {}}), "final.usedMB: is not described", id="final"),
        pytest.param(changed("expect", "webhookConfig", to={"x": 1}), "webhookConfig.x: is not described", id="config"),
        pytest.param(changed("expect", "acceptable", to=[{"x": 1}]), "acceptable[1].x: is not", id="alternative"),
        pytest.param(
            changed("expect", "steps", 0, "onlyIf", to={"step": 1, "allowed": True}),
            "steps[1].onlyIf.step: 1 is no earlier step",
            id="only if itself",
        ),
        pytest.param(
            changed("expect", "onlyIf", to={"step": 4, "allowed": True}), "onlyIf.step: 4 is no", id="only if nothing"
        ),
        pytest.param(changed("expect", "steps", 1, "sameCardAsStep", to=2), "sameCardAsStep: 2 is no", id="same card"),
        pytest.param(
            changed("expect", "steps", 1, "nodeCapacity", to={"n1": {"memory": "much"}}),
            "n1.memory: 'much' is no quantity",
            id="capacity",
        ),
        pytest.param(changed("given", "pods", 0, "node", to="n9"), "there is no node n9", id="node of a pod"),
        pytest.param(changed("given", "pods", 0, "uuids", to=["GPU-a", "GPU-b"]), "2 for 1 held cards", id="uuids"),
        pytest.param(
            changed("given", "pods", 0, to={"name": "a", "namespace": "models", "uuids": ["GPU-a"]}),
            "1 for 0 held cards",
            id="uuids of a pod that holds nothing",
        ),
        pytest.param(
            changed("given", "nodes", 0, "gpus", 0, "partitionMode", to="cpx_nps4"),
            "partitionMode: NVIDIA A10 has none",
            id="partition mode",
        ),
    ],
)
def test_a_case_with_something_else_in_it_is_none(change: Callable[[Json], None], problem: str, tmp_path: Path) -> None:
    steps = [creates(), {"action": "delete", "object": named()}, {"action": "validate", "of": 1}]
    case = copy.deepcopy(a_case(*steps, pods=[holding()], expect={"steps": [{}, {}, {}]}))
    load(written(tmp_path, case))
    change(case)
    with pytest.raises(CaseError) as caught:
        load(written(tmp_path, case))
    assert problem in str(caught.value)


@pytest.mark.parametrize("text", ["[", "- a list", ""])
def test_a_file_that_is_no_mapping_is_no_case(text: str, tmp_path: Path) -> None:
    path = tmp_path / "case.yaml"
    path.write_text(text)
    with pytest.raises(CaseError):
        load(path)


def test_the_products_namespace_has_a_name_of_its_own(tmp_path: Path) -> None:
    case = a_case(creates(namespace="x", metadata={"namespace": "PRODUCT-NAMESPACE"}))
    assert load(written(tmp_path, case))["when"]["object"]["metadata"]["namespace"] == "placement-system"


def test_a_pod_that_holds_cards_of_no_node_is_read_only_where_there_is_one(tmp_path: Path) -> None:
    pending = {**holding(), "node": None, "phase": "Pending"}
    load(written(tmp_path, a_case(creates(), pods=[pending])))
    with pytest.raises(CaseError, match="cards of which node"):
        load(written(tmp_path, a_case(creates(), pods=[pending], nodes=[a_node("n1"), a_node("n2")])))


def test_nobody_pins_to_a_card_that_somebody_else_manages(tmp_path: Path) -> None:
    with pytest.raises(CaseError, match="pins to no UUID"):
        load(written(tmp_path, a_case(creates(), pods=[holding(uuids=["GPU-a"])], managed=True)))
