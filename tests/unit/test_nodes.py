"""What is kept of a node."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.nodes import NodeFacts, Taint, node_facts
from shared.core.quantity import QuantityError
from tests.builders import HOSTNAME, NodeBuilder, a_node


def test_the_facts_of_a_node() -> None:
    node = (
        a_node("node-a")
        .label("zone", "west")
        .tainted("gpu", "t4")
        .tainted("team", effect="NoExecute")
        .offering({"kamiwaza.ai/vram-gb-gpu-0": "16"}, cpu="3920m", memory="1Gi", pods="58")
    )
    assert node_facts(node.raw()) == NodeFacts(
        name="node-a",
        uid="uid-node-a",
        labels={HOSTNAME: "node-a", "zone": "west"},
        taints=(Taint("gpu", "t4", "NoSchedule"), Taint("team", "", "NoExecute")),
        allocatable={"cpu": 3920, "memory": 2**30, "pods": 58, "kamiwaza.ai/vram-gb-gpu-0": 16},
    )


@pytest.mark.parametrize(
    ("node", "ready"),
    [
        pytest.param(a_node(), True, id="ready"),
        pytest.param(a_node().not_ready(), False, id="not-ready"),
        pytest.param(a_node().not_ready("Unknown"), False, id="unreachable"),
    ],
)
def test_ready_is_the_condition(node: NodeBuilder, ready: bool) -> None:
    assert node_facts(node.raw()).ready is ready


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({"metadata": {"name": "new"}}, id="just-created"),
        pytest.param({"metadata": {"name": "new"}, "spec": {}, "status": {"conditions": []}}, id="no-conditions"),
        pytest.param(
            {"metadata": {"name": "new"}, "status": {"conditions": [{"type": "DiskPressure", "status": "True"}]}},
            id="other-conditions",
        ),
    ],
)
def test_a_node_that_has_not_reported_is_not_ready(raw: dict[str, Any]) -> None:
    assert node_facts(raw) == NodeFacts(name="new", ready=False)


def test_a_cordoned_node() -> None:
    assert node_facts(a_node().cordoned().raw()).unschedulable


def test_an_amount_that_is_no_quantity_is_refused() -> None:
    with pytest.raises(QuantityError):
        node_facts(a_node().offering(cpu="many").raw())
