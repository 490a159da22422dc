"""What is in use of each card, by the stored objects alone, and how it is held against what the product says."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.cases.books import used_of
from tests.cases.expect import differences
from tests.fakes.objects import Json
from tests.unit.casing import a_case, a_gpu, a_node, chart, creates, holding, played

RESOURCE = "kamiwaza.ai/vram-gb-gpu-"
ENTRY = "models/00000000;1;0:8"


def gpu_node(*entries: str, card: Json | None = None, **fields: Any) -> Json:
    spec = {"mode": fields.pop("mode", "shared"), **fields.pop("spec", {})}
    cards = [{"index": 0, "budgetGB": 24, **(card or {})}, {"index": 1, "budgetGB": 24}]
    reservations = {f"id{number}": text for number, text in enumerate(entries)}
    status = {"source": "agent", "cards": cards, "reservations": reservations, **fields}
    return {"metadata": {"name": "n1"}, "spec": spec, "status": status}


def pod(uid: str = "a", node: str | None = "n1", carries: str = "", **parts: Any) -> Json:
    """`app`, `init` and `sidecar` are GB of card 0, or GB by index."""
    containers: dict[str, list[Json]] = {"init": [], "app": []}
    for part, gb in parts.items():
        if part in {"init", "sidecar", "app"}:
            by_index = gb if isinstance(gb, dict) else {0: gb}
            requests = {f"{RESOURCE}{index}": str(each) for index, each in by_index.items()}
            always = {"restartPolicy": "Always"} if part == "sidecar" else {}
            containers["app" if part == "app" else "init"].append({"resources": {"requests": requests}, **always})
    return {
        "metadata": {
            "uid": uid,
            "creationTimestamp": parts.get("created", "2026"),
            "labels": {"kamiwaza.ai/reservation": carries} if carries else {},
        },
        "spec": {
            "initContainers": containers["init"],
            "containers": containers["app"] or [{}],
            **({"nodeName": node} if node else {}),
        },
        "status": {"phase": parts.get("phase", "Running")},
    }


@pytest.mark.parametrize(
    ("node", "pods", "gb"),
    [
        (gpu_node(), [], 0),
        (gpu_node(), [pod(app=8), pod("b", app=4)], 12),
        (gpu_node(), [pod(app=8, phase="Failed"), pod("b", "n2", app=4), pod("c", None, app=4)], 0),
        (gpu_node(ENTRY, ENTRY), [], 16),
        (gpu_node(f"{ENTRY};kept", f"{ENTRY};4096;preempting"), [], 16),
        (gpu_node(ENTRY), [pod(app=8, carries="id0")], 8),
        (gpu_node(ENTRY), [pod(app=10, carries="id0")], 10),
        (gpu_node(ENTRY), [pod(app=6, carries="id0")], 8),
        (gpu_node(ENTRY), [pod(app={1: 8}, carries="id0")], 8),
        (gpu_node(ENTRY), [pod(app=8, carries="id9")], 16),
        (gpu_node(ENTRY), [pod(app=8, carries="id0"), pod("b", app=4, carries="id0", created="2025")], 16),
        (gpu_node(), [pod(sidecar=4, init=10, app=5)], 14),
        (gpu_node(), [pod(init=10, sidecar=4, app=5)], 10),
        (gpu_node("models/00000000;1;0:8,nvidia.com/gpu=1;512"), [], 8),
        (gpu_node(card={"foreignGB": 3}), [pod(app=8)], 11),
        (gpu_node(card={"budgetGB": 6}), [pod(app=8)], 6),
        (gpu_node(spec={"cards": [{"index": 0, "headroomGB": 20}]}), [pod(app=8)], 4),
        (gpu_node(card={"healthy": False}), [pod(app=8)], None),
        (gpu_node(spec={"cards": [{"index": 0, "cordoned": True}]}), [pod(app=8)], None),
        (gpu_node(card={"class": "unified"}), [], None),
        (gpu_node(card={"partitioned": True}), [], None),
        (gpu_node(card={"onlinedAsSystemMemory": True}), [], None),
        (gpu_node(podDevices={"a": "0"}), [], None),
        (gpu_node(source="labels"), [], None),
        (gpu_node(mode="exclusive"), [], None),
        (gpu_node(), [pod(app={"x": 1}) | {"spec": {"nodeName": "n1", "containers": [
            {"resources": {"requests": {"nvidia.com/gpu": "1"}}}]}}], None),
    ],
)  # fmt: skip
def test_entries_and_pods_are_counted_once(node: Json, pods: list[Json], gb: int | None) -> None:
    assert used_of([node], pods).get("n1", {}).get(0) == gb


def test_a_product_that_counts_otherwise_fails() -> None:
    case = a_case(creates(gb=8), nodes=[a_node("n1", a_gpu())], pods=[holding(gb=4)])
    play = played(case)
    assert play.final.summed == {"n1": {0: 12}}
    for summed, used, told in (
        (8, 12, ["final: usedGB: n1 card 0: the product says 12, the stored objects 8"]),
        (12, 12, []),
    ):
        final = replace(play.final, summed={"n1": {0: summed}})
        expect = {"final": {"usedGB": {"n1": {"0": used}}}}
        assert differences({**case, "expect": expect}, replace(play, final=final), chart()) == told
