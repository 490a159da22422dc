"""Every key that a case may expect is a check that can fail."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from tests.cases.configuration import CONFIGURATION_KEYS
from tests.cases.expect import FINAL_KEYS, VERDICT_KEYS, differences
from tests.cases.play import Played
from tests.cases.podchecks import AFFINITY_KEYS, INJECTED_KEYS
from tests.fakes.objects import Json
from tests.unit.casing import a_case, a_gpu, a_node, chart, creates, holding, played

TERMS = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["x"]}]}]
PREFERRED = [{"weight": 1, "preference": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}}]
NODE_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": TERMS},
    "preferredDuringSchedulingIgnoredDuringExecution": PREFERRED,
}

CASES: dict[str, Json] = {
    "placed": a_case(
        creates(
            container={
                "args": ["--gpu-memory-utilization", "0.3"],
                "env": [{"name": "PLAIN", "value": "yes"}, {"name": "CUDA_VISIBLE_DEVICES", "value": "5"}],
                "resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}},
            },
            metadata={"labels": {"app": "llm"}},
            spec={
                "affinity": {"nodeAffinity": NODE_AFFINITY},
                "initContainers": [{"name": "first", "image": "i"}],
                "priority": 7,
            },
        ),
        nodes=[a_node("n1", a_gpu(), a_gpu(1), labels={"zone": "x"}), a_node("n2", labels={"zone": "y"})],
        pods=[holding(gb=4)],
    ),
    "refused": a_case(creates(gb=20), pods=[holding(gb=16)]),
    "many": a_case(creates(action="create-many", count=4, metadata={"name": None, "generateName": "m-"})),
    "two": a_case(creates("a"), creates("b"), nodes=[a_node("n1"), a_node("n2")]),
    "owned": a_case(creates(owner=("ReplicaSet", "rs"))),
    "parsed": a_case(creates(container={"command": ["vllm", "serve", "m", "--tensor-parallel-size=1"]})),
    "quota": a_case(creates(gb=20), resourceQuota={"requests.kamiwaza.ai/vram-gb-gpu-0": "10"}),
    "untouched": a_case(creates(gb=None)),
}


@cache
def outcome(name: str) -> Played:
    return played(CASES[name])


def judged(name: str, expect: Json) -> list[str]:
    return differences({**CASES[name], "expect": expect}, outcome(name), chart())


VERDICTS = [
    ("placed", "allowed", True, False),
    ("refused", "reason", "insufficient_capacity", "insufficient_gpu_count"),
    ("refused", "reason", "insufficient_capacity", "invalid_request"),
    ("refused", "reason", "insufficient_capacity", "unavailable"),
    ("quota", "by", "ResourceQuota", "api-server"),
    ("many", "allowedCount", 3, 4),
    ("many", "rejectedCount", 1, 0),
    ("placed", "node", "n1", "n2"),
    ("placed", "nodeAnyOf", ["n1", "n2"], ["n2"]),
    ("placed", "gpuIndices", [0], [1]),
    ("placed", "gpuIndicesAnyOf", [[1], [0]], [[1], [0, 1]]),
    ("placed", "gpuCount", 1, 2),
    ("placed", "requests", {"server": {"kamiwaza.ai/vram-gb-gpu-0": 8}}, {}),
    ("placed", "vramGBPerGpu", 8, 9),
    ("placed", "container", "server", "other"),
    ("placed", "resourcesKept", ["cpu"], ["memory"]),
    ("two", "sameCardAsStep", 1, None),
    ("two", "differentNodeFromStep", None, 1),
    ("placed", "env", {"server": {"PLAIN": "yes"}}, {"server": {"PLAIN": "no"}}),
    ("placed", "envAbsent", {"server": ["CUDA_VISIBLE_DEVICES"]}, {"server": ["PLAIN"]}),
    ("placed", "envMustNotMatch", {"PLAIN": "^no"}, {"PLAIN": "^y"}),
    ("placed", "args", {"server": {"--gpu_memory_utilization": {"max": 1}}}, {"server": {"--port": {"min": 0}}}),
    ("placed", "specKept", {"priority": 7}, {"priority": 8}),
    ("placed", "untouchedContainers", ["first"], ["server"]),
    ("placed", "labelsPresent", ["app"], ["tier"]),
    ("placed", "labelsPresent", {"app": "llm"}, {"app": "other"}),
    ("placed", "patched", True, False),
    ("untouched", "patched", False, True),
    ("untouched", "reserved", False, None),
    ("placed", "reserved", None, False),
    ("placed", "warning", True, None),
    ("untouched", "warning", None, True),
    ("placed", "warningMust", ["CUDA_VISIBLE_DEVICES"], ["something else"]),
    ("refused", "messageMust", ["INSUFFICIENT", "20"], ["21"]),
    ("refused", "messageMaxChars", 1024, 20),
    ("refused", "firstLineMaxChars", 240, 20),
    ("placed", "answeredWithinSeconds", 60, 0),
    ("placed", "maxLatencySeconds", 60, 0),
    ("owned", "maxEventsWrittenByProduct", 1, 0),
    ("placed", "nodeCapacity", {"n1": {"kamiwaza.ai/vram-gb-gpu-0": 24}}, {"n1": {"kamiwaza.ai/vram-gb-gpu-0": 0}}),
    (
        "owned",
        "podRunning",
        {"ownerKind": "ReplicaSet", "ownerName": "rs", "namespace": "models"},
        {"ownerKind": "ReplicaSet", "ownerName": "other", "namespace": "models"},
    ),
    ("owned", "podGone", {"name": "b", "namespace": "models"}, {"name": "a", "namespace": "models"}),
    ("untouched", "limitsEqualRequests", True, None),
    ("placed", "containersOnDifferentCards", True, None),
    *(
        ("placed", "affinity", {key: True}, None)
        for key in ("everyTermPinsChosenNode", "originalExpressionsKept", "matchFieldsKept", "preferredKept")
    ),
    ("placed", "affinity", {"termCountMax": 1}, {"termCountMax": 0}),
    ("placed", "affinity", None, {"pinned": False}),
    ("untouched", "affinity", {"pinned": False}, {"everyTermPinsChosenNode": True}),
    *(("placed", "injected", {key: 0}, {key: 1}) for key in INJECTED_KEYS),
]


@pytest.mark.parametrize(("name", "key", "right", "wrong"), VERDICTS)
def test_a_verdict_that_is_right_passes_and_one_that_is_wrong_fails(
    name: str, key: str, right: object, wrong: object
) -> None:
    steps = 2 if name == "two" else 1
    for value, passes in ((right, True), (wrong, False)):
        if value is not None:
            verdict = {key: value}
            found = judged(name, verdict if steps == 1 else {"steps": [{}, verdict]})
            assert (not found) is passes, found
            assert passes or key in found[0]


def test_every_key_is_in_the_table_or_needs_a_product_part_of_its_own() -> None:
    assert VERDICT_KEYS.keys() - {key for _, key, _, _ in VERDICTS} == {"parsed"}
    assert {next(iter(right)) for _, key, right, _ in VERDICTS if key == "affinity" and isinstance(right, dict)} == set(
        AFFINITY_KEYS
    )


def test_a_client_waits_by_the_wall_clock_and_a_burst_works_by_the_processors() -> None:
    case, play = CASES["placed"], outcome("placed")
    (result,) = play.results
    slow = replace(result, answers=[replace(result.answers[0], waited_s=9.0, worked_s=3.0)])
    for key, passes in (("answeredWithinSeconds", False), ("maxLatencySeconds", True)):
        found = differences({**case, "expect": {key: 8}}, replace(play, results=(slow,)), chart())
        assert (not found) is passes, found


def test_a_wrong_answer_of_the_parser_fails() -> None:
    assert "parsed.engine" in judged("parsed", {"parsed": {"engine": "none of ours"}})[0]


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        ("usedGB", {"n1": {"0": 12, "1": 0}}, {"n1": {"0": 8}}),
        ("usedGB", {"n1": {"0": 12}}, {"n1": {"7": 0}}),
        ("usedByUuid", {"n1": {"GPU-n1-0": 12}}, {"n1": {"GPU-other": 12}}),
        ("totalUsedGB", 12, 8),
        ("nodeCapacity", {"n1": {"kamiwaza.ai/vram-gb-gpu-1": 24}}, {"n1": {"kamiwaza.ai/vram-gb-gpu-2": 24}}),
        ("bookings", None, []),
    ],
)
def test_the_final_state_is_compared(key: str, right: object, wrong: object) -> None:
    if right is not None:
        assert judged("placed", {"final": {key: right}}) == []
    assert key in judged("placed", {"final": {key: wrong}})[0]
    assert key in FINAL_KEYS


@pytest.mark.parametrize(
    ("key", "right", "wrong"),
    [
        ("timeoutSecondsMax", 10, 1),
        ("failurePolicy", "Fail", "Ignore"),
        ("sideEffectsAnyOf", ["NoneOnDryRun"], ["None"]),
        ("mutatedResources", ["pods"], ["deployments"]),
        ("onlyOptedInNamespaces", True, None),
    ],
)
def test_the_shipped_configuration_is_compared(key: str, right: object, wrong: object) -> None:
    assert judged("placed", {"webhookConfig": {key: right}}) == []
    if wrong is not None:
        assert key in judged("placed", {"webhookConfig": {key: wrong}})[0]
    assert key in CONFIGURATION_KEYS


def test_limits_are_held_to_requests_wherever_a_place_is_expected() -> None:
    case = a_case(creates("a"))
    play = played(case)
    (answer,) = play.results[0].answers
    answer.after["spec"]["containers"][0]["resources"]["limits"] = {}
    found = differences({**case, "expect": {"node": "n1"}}, play, chart())
    assert "limitsEqualRequests" in found[0]


@pytest.mark.parametrize("key", ["originalExpressionsKept", "matchFieldsKept", "preferredKept"])
def test_an_affinity_that_lost_something_fails(key: str) -> None:
    fields = [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]
    required = {"nodeSelectorTerms": [{**TERMS[0], "matchFields": fields}]}
    affinity = {**NODE_AFFINITY, "requiredDuringSchedulingIgnoredDuringExecution": required}
    case = a_case(creates(spec={"affinity": {"nodeAffinity": affinity}}), nodes=[a_node(labels={"zone": "x"})])
    play = played(case)
    expected = {**case, "expect": {"affinity": {key: True}}}
    assert differences(expected, play, chart()) == []
    (answer,) = play.results[0].answers
    answer.after["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{}]}}
    }
    assert key in differences(expected, play, chart())[0]


def test_two_containers_on_one_card_are_not_on_different_cards() -> None:
    two = [{"name": "a", "image": "i"}, {"name": "b", "image": "i"}]
    case = a_case(creates(gb=None, spec={"containers": two}, budget={"perContainer": {"a": 4, "b": 4}}))
    found = differences({**case, "expect": {"containersOnDifferentCards": True}}, played(case), chart())
    assert "containersOnDifferentCards" in found[0]


EITHER_WAY = {"allowed": False, "acceptable": [{"allowed": True}]}
WRONG = {"allowed": True}
RIGHT = {"allowed": False, "because": "no room"}


@pytest.mark.parametrize(
    ("expect", "passes"),
    [
        pytest.param({**WRONG, "acceptable": [RIGHT]}, True, id="an alternative stands in for the verdict"),
        pytest.param({**WRONG, "acceptable": [{"node": "n9"}]}, False, id="not just any alternative"),
        pytest.param(
            {**WRONG, "acceptable": [RIGHT], "final": {"totalUsedGB": 1}}, False, id="the case's final state holds"
        ),
        pytest.param(
            {**WRONG, "final": {"totalUsedGB": 1}, "acceptable": [{**RIGHT, "final": {"totalUsedGB": 16}}]},
            True,
            id="an alternative has a final state of its own",
        ),
        pytest.param(
            {"allowed": False, "final": {"totalUsedGB": 1}, "acceptable": [{**WRONG, "final": {"totalUsedGB": 16}}]},
            False,
            id="a final state belongs to its alternative",
        ),
    ],
)
def test_alternatives(expect: Json, passes: bool) -> None:
    assert (not judged("refused", expect)) is passes


@pytest.mark.parametrize(
    ("verdicts", "final", "passes"),
    [
        pytest.param([{}, {"allowed": False, "acceptable": [{"allowed": True}]}], {"totalUsedGB": 16}, True, id="step"),
        pytest.param(
            [{}, {"allowed": False, "acceptable": [{"allowed": True}]}], {"totalUsedGB": 8}, False, id="final"
        ),
        pytest.param(
            [{"allowed": True}, {"allowed": False, "acceptable": [{"allowed": True, "final": {"totalUsedGB": 16}}]}],
            {"totalUsedGB": 8},
            True,
            id="a step's alternative has a final state of its own",
        ),
        pytest.param([{}, {"allowed": False, "onlyIf": {"step": 1, "allowed": False}}], {}, True, id="not asked for"),
        pytest.param([{}, {"allowed": False, "onlyIf": {"step": 1, "allowed": True}}], {}, False, id="asked for"),
        pytest.param(
            [{}, {"allowed": False, "acceptable": [{"allowed": True, "onlyIf": {"step": 1, "allowed": True}}]}],
            {},
            True,
            id="an alternative that is asked for",
        ),
        pytest.param(
            [{}, {"allowed": False, "acceptable": [{"allowed": True, "onlyIf": {"step": 1, "allowed": False}}]}],
            {},
            False,
            id="an alternative that is not asked for",
        ),
    ],
)
def test_alternatives_of_steps(verdicts: list[Json], final: Json, passes: bool) -> None:
    assert (not judged("two", {"steps": verdicts, "final": final})) is passes


ASKED_FOR = {"step": 1, "allowed": True}
NOT_ASKED_FOR = {"step": 1, "allowed": False}


@pytest.mark.parametrize(
    ("expect", "passes"),
    [
        pytest.param({"allowed": True, "onlyIf": ASKED_FOR}, True, id="right"),
        pytest.param({"allowed": False, "onlyIf": ASKED_FOR}, False, id="wrong"),
        pytest.param({"allowed": False, "onlyIf": NOT_ASKED_FOR}, True, id="not asked for"),
        pytest.param(
            {"allowed": False, "onlyIf": NOT_ASKED_FOR, "final": {"totalUsedGB": 1}},
            False,
            id="final state all the same",
        ),
        pytest.param(
            {"allowed": False, "acceptable": [{"allowed": True, "onlyIf": ASKED_FOR}]}, True, id="alternative"
        ),
        pytest.param(
            {"allowed": False, "acceptable": [{"allowed": True, "onlyIf": NOT_ASKED_FOR}]}, False, id="no alternative"
        ),
        pytest.param({"steps": [{}, {}], "allowed": False, "onlyIf": ASKED_FOR}, False, id="beside steps"),
    ],
)
def test_a_verdict_of_the_whole_case_may_hang_on_a_step(expect: Json, passes: bool) -> None:
    assert (not judged("two", expect)) is passes


@pytest.mark.parametrize(
    ("wanted", "passes"),
    [
        ({"memory": "256Gi", "cpu": 32, "kamiwaza.ai/vram-gb-gpu-0": "24"}, True),
        ({"memory": "262144Mi", "cpu": "32000m"}, True),
        ({"memory": "255Gi"}, False),
        ({"cpu": "31500m"}, False),
        ({"kamiwaza.ai/vram-gb-gpu-0": 0.5}, False),
    ],
)
def test_capacity_is_compared_as_a_quantity(wanted: Json, passes: bool) -> None:
    assert (not judged("placed", {"nodeCapacity": {"n1": wanted}})) is passes


def test_a_difference_names_its_step_and_both_sides() -> None:
    assert judged("two", {"steps": [{}, {"node": "n2"}]}) == ["step 2: node: expected n2, got n1"]
