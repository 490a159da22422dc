"""Which objects the API server takes, judged by the very schema that the chart installs."""

from __future__ import annotations

import copy
import re
from typing import Any

import jsonschema
import pytest

from shared.api.crds.definitions import GPU_NODES, MODEL_PLACEMENTS, Definition
from shared.api.crds.gpunode import GPUNode
from shared.api.crds.modelplacement import ModelPlacement
from shared.core.cards import Card, CardClass, Vendor
from shared.core.ledger import Entry, owner_hash, summarise
from shared.kube.gpunodes import gpu_node, summary_json

Object = dict[str, Any]

CARD = Card(0, "GPU-6f0c", "Tesla T4", Vendor.NVIDIA, CardClass.DISCRETE, memory_mib=16384, budget_gb=16)
ENTRY = Entry("team-a", owner_hash("3b1c"), 1_796_000_000, ((0, 6),))
CONDITION = {
    "type": "Waiting",
    "status": "True",
    "reason": "insufficient_capacity",
    "message": "full now",
    "lastTransitionTime": "2026-11-30T12:00:00Z",
}

GPU_NODE: Object = {
    "apiVersion": "placement.kamiwaza.ai/v1alpha1",
    "kind": "GPUNode",
    "metadata": {"name": "t4", "uid": "u", "resourceVersion": "7"},
    "spec": {"mode": "shared", "cards": [{"index": 0, "headroomGB": 1, "vramGB": 16, "cordoned": False}]},
    "status": {
        "cards": [
            {
                "index": 0,
                "uuid": "GPU-6f0c",
                "model": "Tesla T4",
                "vendor": "nvidia",
                "class": "discrete",
                "memoryMiB": 16384,
                "budgetGB": 16,
                "healthy": True,
                "foreignGB": 0,
                "partitioned": False,
                "computeCapable": True,
                "onlinedAsSystemMemory": False,
            }
        ],
        "models": "Tesla T4",
        "accelVersions": {"cuda": "12.4"},
        "injection": "env",
        "reservations": {"abcdefgh23": ENTRY.encode()},
        "podDevices": {"0d2e-uid": "0,1"},
        "summary": summary_json(summarise([CARD], {"abcdefgh23": ENTRY})),
        "conditions": [{**CONDITION, "type": "VendorPluginPresent", "reason": "WholeCards"}],
    },
}

PLACEMENT: Object = {
    "pod": "chat-5d4f-x",
    "uid": "9c1e",
    "node": "t4",
    "cards": [{"index": 0, "gb": 6}],
    "since": "2026-11-30T12:00:00Z",
}

MODEL_PLACEMENT: Object = {
    "apiVersion": "placement.kamiwaza.ai/v1alpha1",
    "kind": "ModelPlacement",
    "metadata": {"name": "deployment-chat", "namespace": "team-a"},
    "status": {
        "phase": "Failed",
        "reason": "insufficient_capacity",
        "lastErrorCode": "NoFitError",
        "lastErrorMessage": "insufficient_capacity: asked 6 GB on 1 card",
        "refusals": {
            "ReplicaSet.chat-5d4f": {
                "uid": "0d2e",
                "reason": "insufficient_capacity",
                "message": "insufficient_capacity: asked 6 GB on 1 card",
                "demand": "6 GB on 1 card",
                "priority": -10,
                "preempts": False,
                "tolerations": [{"key": "gpu", "operator": "Equal", "value": "a", "effect": "NoSchedule"}],
                "since": "2026-11-30T12:00:00Z",
                "last": "2026-11-30T12:05:00Z",
                "waitable": True,
                "count": 3,
            }
        },
        "wanted": 2,
        "placed": 1,
        "where": "t4 gpu-0 6 GB",
        "ask": "6 GB on 1 card",
        "placements": [{**PLACEMENT, "running": True, "preempting": False, "leaving": True}],
        "history": [{**PLACEMENT, "until": "2026-11-30T12:04:00Z", "ended": "OOM"}],
        "outOfMemory": {
            "pod": "chat-5d4f-x",
            "uid": "9c1e",
            "container": "server",
            "at": "2026-11-30T12:04:00Z",
            "code": "OOM",
            "message": "container server of pod chat-5d4f-x ran out of GPU memory",
        },
        "conditions": [CONDITION],
    },
}


def _errors(definition: Definition, instance: Object) -> list[str]:
    validator = jsonschema.Draft202012Validator(definition.schema(), format_checker=jsonschema.FormatChecker())
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(instance)]


@pytest.mark.parametrize(
    ("definition", "instance"),
    [
        pytest.param(GPU_NODES, GPU_NODE, id="a GPUNode with all it can have"),
        pytest.param(GPU_NODES, {"metadata": {"name": "t4"}}, id="a GPUNode that somebody has just created"),
        pytest.param(GPU_NODES, {"status": {"reservations": {}}}, id="a GPUNode with an empty ledger and no cards yet"),
        pytest.param(MODEL_PLACEMENTS, MODEL_PLACEMENT, id="a ModelPlacement with all it can have"),
        pytest.param(MODEL_PLACEMENTS, {"metadata": {"name": "x"}}, id="a ModelPlacement that has just been created"),
        pytest.param(MODEL_PLACEMENTS, {"status": {"reason": ""}}, id="a ModelPlacement whose refusal is over"),
    ],
)
def test_what_the_product_writes_is_accepted_and_no_field_of_it_is_pruned(
    definition: Definition, instance: Object
) -> None:
    assert _errors(definition, instance) == []
    assert list(_unknown(definition.schema(), instance)) == []


@pytest.mark.parametrize(
    ("definition", "path", "value"),
    [
        pytest.param(GPU_NODES, "spec.mode", "whole", id="a mode that does not exist"),
        pytest.param(GPU_NODES, "spec.cards.0.headroomGB", -1, id="a negative headroom"),
        pytest.param(GPU_NODES, "spec.cards.0.headroomGB", "1", id="a headroom as text"),
        pytest.param(GPU_NODES, "status.cards.0.index", -1, id="a negative slot"),
        pytest.param(GPU_NODES, "status.cards.0.vendor", "matrox", id="an unknown vendor"),
        pytest.param(GPU_NODES, "status.cards.0.class", "virtual", id="an unknown class"),
        pytest.param(GPU_NODES, "status.cards.0.budgetGB", 15.5, id="a fraction of a GB"),
        pytest.param(GPU_NODES, "status.cards.0.healthy", None, id="a card of unknown health"),
        pytest.param(GPU_NODES, "status.accelVersions.cuda", 12.4, id="a version that YAML made a number"),
        pytest.param(GPU_NODES, "status.injection", "magic", id="an unknown injection mode"),
        pytest.param(GPU_NODES, "status.reservations.abcdefgh23", {"gb": 6}, id="a reservation as an object"),
        pytest.param(GPU_NODES, "status.reservations.abcdefgh23", "x" * 1025, id="a reservation without end"),
        pytest.param(MODEL_PLACEMENTS, "status.phase", "Lost", id="a phase that does not exist"),
        pytest.param(MODEL_PLACEMENTS, "status.lastErrorCode", "", id="an empty error code"),
        pytest.param(MODEL_PLACEMENTS, "status.lastErrorMessage", "x" * 1025, id="an error message that is too long"),
        pytest.param(MODEL_PLACEMENTS, "status.placed", -1, id="fewer than no pods"),
        pytest.param(MODEL_PLACEMENTS, "status.refusals.ReplicaSet/chat-5d4f.waitable", "yes", id="a flag as text"),
        pytest.param(MODEL_PLACEMENTS, "status.placements.0.cards.0.gb", 0, id="a share of nothing"),
        pytest.param(MODEL_PLACEMENTS, "status.placements", [{}], id="a placement without pod, node and cards"),
        pytest.param(
            MODEL_PLACEMENTS,
            "status.placements",
            MODEL_PLACEMENT["status"]["placements"] * 21,
            id="more placements than an object should carry",
        ),
        pytest.param(
            MODEL_PLACEMENTS,
            "status.history",
            MODEL_PLACEMENT["status"]["history"] * 11,
            id="a history that is too long",
        ),
        pytest.param(MODEL_PLACEMENTS, "status.history.0.ended", "Lost", id="an end that does not exist"),
        pytest.param(MODEL_PLACEMENTS, "status.conditions.0.status", "true", id="a condition with a small true"),
        pytest.param(MODEL_PLACEMENTS, "status.conditions.0.reason", "no fit", id="a condition reason of two words"),
    ],
)
def test_a_wrong_value_is_rejected_where_it_stands(definition: Definition, path: str, value: Any) -> None:
    instance = copy.deepcopy(GPU_NODE if definition is GPU_NODES else MODEL_PLACEMENT)
    *way, last = [int(step) if step.isdigit() else step.replace("/", ".") for step in path.split(".")]
    target: Any = instance
    for step in way:
        target = target[step]
    target[last] = value
    errors = _errors(definition, instance)
    assert len(errors) >= 1
    assert all(re.match(r"\$\.(spec|status)\.", error) for error in errors)


def test_the_models_read_the_objects_back_without_losing_anything() -> None:
    for model, instance in ((GPUNode, GPU_NODE), (ModelPlacement, MODEL_PLACEMENT)):
        dumped = model.model_validate(instance).model_dump(mode="json", by_alias=True, exclude_none=True)
        assert dumped == {part: instance[part] for part in ("spec", "status") if part in instance}


def test_the_operator_reads_its_cards_and_ledger_from_such_an_object() -> None:
    node = gpu_node(GPU_NODE, exclusive=False)
    assert node.inventory.cards[0].budget_gb == CARD.budget_gb - 1
    assert node.ledger == {"abcdefgh23": ENTRY}
    assert node.broken == ()


def _unknown(schema: Object, value: Any, path: str = "") -> list[str]:
    """Paths in `value` that `schema` does not know: the API server would drop them without a word."""
    if path == ".metadata":
        return []
    if isinstance(value, list):
        return [found for item in value for found in _unknown(schema["items"], item, f"{path}[]")]
    if not isinstance(value, dict):
        return []
    unknown = []
    for key, child in value.items():
        below = schema.get("properties", {}).get(key, schema.get("additionalProperties"))
        unknown += [f"{path}.{key}"] if below is None else _unknown(below, child, f"{path}.{key}")
    return unknown
