"""The form of a case. A key, an action or a value that is not described is an error, never something to skip."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from tests.cases.chart import NAMESPACE
from tests.cases.configuration import CONFIGURATION_KEYS
from tests.cases.expect import FINAL_KEYS, INVALID, NOFIT, UNAVAILABLE, VERDICT_KEYS
from tests.cases.parsing import KEYS as PARSED_KEYS
from tests.cases.podchecks import AFFINITY_KEYS, INJECTED_KEYS
from tests.fakes.objects import Json
from tests.fakes.pod_rules import amount

Check: TypeAlias = Callable[[Any, str], Iterator[str]]
"""Yields what is wrong with a value; the text is the way to it."""

_PRODUCT_NAMESPACE: Final = "PRODUCT-NAMESPACE"
_DURATION: Final = re.compile(r"(\d+(\.\d+)?(ms|h|m|s))+\Z")


class CaseError(ValueError):
    """A file that is no case; the text lists everything that is wrong with it."""


def load(path: Path) -> Json:
    """The case in a file. Raises `CaseError`."""
    try:
        text = path.read_text().replace(_PRODUCT_NAMESPACE, NAMESPACE)
        raw = yaml.load(text, yaml.CSafeLoader)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise CaseError(f"{path}: cannot be read: {error}") from error
    problems = list(_CASE(raw, "")) or list(_references(raw))
    if problems:
        raise CaseError("; ".join(problems))
    case: Json = raw
    for node in case["given"]["nodes"]:
        node.setdefault("gpus", [])
    return case


def _is(*types: type) -> Check:
    names = " or ".join("nothing" if each is type(None) else each.__name__ for each in types)

    def check(value: Any, where: str) -> Iterator[str]:
        wrong_bool = isinstance(value, bool) and bool not in types
        if not isinstance(value, types) or wrong_bool:
            yield f"{where}: {value!r} is no {names}"

    return check


def _one_of(*values: Any) -> Check:
    def check(value: Any, where: str) -> Iterator[str]:
        if not any(value is each if isinstance(each, bool) else value == each for each in values):
            yield f"{where}: {value!r} is none of {', '.join(map(str, values))}"

    return check


def _list_of(item: Check) -> Check:
    def check(value: Any, where: str) -> Iterator[str]:
        if not isinstance(value, list):
            yield f"{where}: {value!r} is no list"
            return
        for number, each in enumerate(value, 1):
            yield from item(each, f"{where}[{number}]")

    return check


def _map_of(item: Check) -> Check:
    def check(value: Any, where: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{where}: {value!r} is no mapping"
            return
        for key, each in value.items():
            yield from item(each, f"{where}.{key}")

    return check


def _either(*checks: Check) -> Check:
    def check(value: Any, where: str) -> Iterator[str]:
        found = [list(each(value, where)) for each in checks]
        if all(found):
            yield from found[0]

    return check


def _mapping(required: Mapping[str, Check], optional: Mapping[str, Check] = {}) -> Check:
    known = {**required, **optional}

    def check(value: Any, where: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{where or 'case'}: {value!r} is no mapping"
            return
        for key in required.keys() - value.keys():
            yield f"{where}.{key}: is missing".lstrip(".")
        for key, each in value.items():
            path = f"{where}.{key}".lstrip(".")
            if key in known:
                yield from known[key](each, path)
            else:
                yield f"{path}: is not described"

    return check


def _duration(value: Any, where: str) -> Iterator[str]:
    if not isinstance(value, str) or not _DURATION.match(value):
        yield f"{where}: {value!r} is no Go duration"


def _quantity(value: Any, where: str) -> Iterator[str]:
    try:
        amount(value)
    except ValueError:
        yield f"{where}: {value!r} is no quantity"


def _anything(_value: Any, _where: str) -> Iterator[str]:
    yield from ()


_TEXT, _WHOLE, _YES_OR_NO, _NUMBER = _is(str), _is(int), _is(bool), _is(int, float)
_TRUE, _FALSE = _one_of(True), _one_of(False)
_TEXTS, _AMOUNTS, _OBJECT = _list_of(_TEXT), _map_of(_is(str, int, float)), _is(dict)
_LABELS = _map_of(_is(str))
_SAID = _is(str, int, float)
_NAMED = _mapping({"kind": _TEXT, "name": _TEXT}, {"namespace": _TEXT, "uid": _TEXT, "apiVersion": _TEXT})

_GPU = _mapping(
    {
        "index": _WHOLE,
        "model": _TEXT,
        "vendor": _one_of("nvidia", "amd"),
        "vramGB": _is(int, type(None)),
        "memoryClass": _one_of("discrete", "unified", "mig"),
    },
    {
        "driver": _SAID,
        "cuda": _SAID,
        "uuid": _TEXT,
        "health": _one_of("unhealthy"),
        "memoryMiB": _is(int, type(None)),
        "migDevices": _TEXTS,
        "computeCapable": _YES_OR_NO,
        "headroomGB": _WHOLE,
        "carveOutMiB": _WHOLE,
        "gttMiB": _WHOLE,
        "hbmMiB": _WHOLE,
        "partitionMode": _TEXT,
        "onlinedAsSystemMemory": _YES_OR_NO,
    },
)
_NODE = _mapping(
    {"name": _TEXT},
    {
        "gpus": _list_of(_GPU),
        "labels": _LABELS,
        "taints": _list_of(_OBJECT),
        "unschedulable": _YES_OR_NO,
        "ready": _YES_OR_NO,
        "allocatable": _AMOUNTS,
        "capacity": _AMOUNTS,
        "sharing": _mapping({"strategy": _one_of("none", "time-slicing", "mps")}, {"replicas": _WHOLE}),
        "allocatableExtended": _AMOUNTS,
        "inventoryAge": _duration,
    },
)
_POD = _mapping(
    {"name": _TEXT, "namespace": _TEXT},
    {
        "phase": _one_of("Pending", "Running", "Succeeded", "Failed", "Unknown"),
        "node": _is(str, type(None)),
        "holds": _list_of(_mapping({"gpu": _WHOLE, "vramGB": _WHOLE})),
        "managed": _YES_OR_NO,
        "actualGpus": _list_of(_WHOLE),
        "resources": _AMOUNTS,
        "deletionTimestamp": _one_of("set"),
        "uid": _TEXT,
        "uuids": _TEXTS,
        "labels": _LABELS,
        "priority": _WHOLE,
        "reason": _TEXT,
        "containerState": _TEXT,
    },
)
_CLUSTER = _mapping(
    {"optedInNamespaces": _TEXTS, "managed": _YES_OR_NO, "gpuSharing": _YES_OR_NO},
    {
        "extendedResourceToleration": _FALSE,
        "persistentVolumes": _list_of(
            _mapping({"name": _TEXT, "claim": _TEXT}, {"nodeAffinity": _list_of(_OBJECT)}),
        ),
        "resourceQuota": _AMOUNTS,
        "podSecurity": _one_of("restricted"),
        "autoscaler": _OBJECT,
    },
)

_BUDGET = _mapping({}, {"vramGB": _SAID, "gpus": _SAID, "perContainer": _map_of(_SAID)})
_LATER = _mapping({}, {"refusedBy": _one_of("ResourceQuota", "PodSecurity", "other-webhook"), "lost": _TRUE})
_COMMON: Final[Mapping[str, Check]] = {"action": _TEXT, "afterSeconds": _NUMBER, "note": _anything, "notes": _anything}
_CREATE: Final[Mapping[str, Check]] = {
    "object": _OBJECT,
    "objectFromStep": _WHOLE,
    "budget": _BUDGET,
    "requires": _map_of(_SAID),
    "dryRun": _YES_OR_NO,
    "servedBy": _either(_TEXT, _TEXTS),
    "resultUid": _TEXT,
    "schedule": _YES_OR_NO,
    "laterAdmission": _LATER,
    "bookingCopiedFrom": _NAMED,
    "retriedByController": _YES_OR_NO,
}
_EVICTS = _mapping({}, {"resources": _TEXTS, "labels": _either(_TEXTS, _LABELS)})
_PATCHES: Final[Mapping[str, Check]] = {"jsonPatch": _list_of(_OBJECT)}
_FIELDS: Final[Mapping[str, tuple[Mapping[str, Check], Mapping[str, Check]]]] = {
    "create": ({}, _CREATE),
    "create-many": ({"count": _WHOLE}, _CREATE),
    "create-concurrent": ({"count": _WHOLE}, _CREATE),
    "apply-again": ({"object": _OBJECT}, {"budget": _BUDGET, "requires": _map_of(_SAID)}),
    "update": ({"object": _NAMED}, {"subresource": _TEXT, "mergePatch": _OBJECT, **_PATCHES}),
    "delete": ({"object": _NAMED}, {"gracePeriodSeconds": _WHOLE}),
    "finish-delete": ({"object": _NAMED}, {}),
    "force-delete": ({"object": _NAMED}, {}),
    "delete-unobserved": ({"object": _NAMED}, {}),
    "resync": ({}, {}),
    "late-event": (
        {"object": _NAMED, "event": _one_of("ADDED", "MODIFIED", "DELETED")},
        {"metadataStripped": _YES_OR_NO},
    ),
    "status-change": ({"object": _NAMED, "status": _OBJECT}, {}),
    "bind": ({"object": _NAMED, "node": _TEXT}, {}),
    "remove-gate": ({"object": _NAMED}, {}),
    "device-report": ({"node": _TEXT, "object": _NAMED, "uuids": _TEXTS}, {}),
    "label-namespace": ({"object": _NAMED, "optedIn": _YES_OR_NO}, {}),
    "wait": ({"seconds": _NUMBER}, {}),
    "reinvoke": ({"of": _WHOLE}, _PATCHES),
    "other-webhook": ({"of": _WHOLE}, _PATCHES),
    "validate": ({"of": _WHOLE}, {}),
    "failover": ({"to": _TEXT}, {}),
    "restart-controller": ({}, {}),
    "restart-webhook": ({}, {}),
    "stop-webhook": ({}, {}),
    "rotate-certificate": ({"newCa": _YES_OR_NO}, {}),
    "set-clock": ({"advanceSeconds": _NUMBER}, {}),
    "slow-api-server": ({"delaySeconds": _NUMBER}, {}),
    "node-change": ({"node": _TEXT, "gpus": _list_of(_GPU)}, {}),
    "node-delete": ({"node": _TEXT}, {}),
    "node-join": ({"node": _TEXT, "gpus": _list_of(_GPU)}, {}),
    "node-status-reset": ({"node": _TEXT, "extendedResources": _AMOUNTS}, {}),
    "node-status-sync": ({"node": _TEXT}, {}),
    "driver-upgrade": ({"node": _TEXT, "evicts": _EVICTS}, {}),
}

ACTION_NAMES: Final = frozenset(_FIELDS)


def _step(value: Any, where: str) -> Iterator[str]:
    action = value.get("action") if isinstance(value, dict) else None
    if not isinstance(action, str) or action not in _FIELDS:
        yield f"{where}: action {action!r} is not described"
        return
    required, optional = _FIELDS[action]
    yield from _mapping({"action": _TEXT, **required}, {**_COMMON, **optional})(value, where)
    if action.startswith("create") and ("object" in value) is ("objectFromStep" in value):
        yield f"{where}: give either object or objectFromStep"
    if action == "update" and ("mergePatch" in value) is ("jsonPatch" in value):
        yield f"{where}: give either mergePatch or jsonPatch"


def _when(value: Any, where: str) -> Iterator[str]:
    if isinstance(value, dict) and value.get("action") == "sequence":
        yield from _mapping({"action": _TEXT, "steps": _list_of(_step)}, {"note": _anything, "notes": _anything})(
            value, where
        )
    else:
        yield from _step(value, where)


_CAPACITY = _map_of(_map_of(_quantity))
_REASON = _one_of(*sorted(NOFIT), INVALID, UNAVAILABLE)
_FINAL = _mapping(
    {},
    {
        "usedGB": _map_of(_map_of(_WHOLE)),
        "usedByUuid": _map_of(_map_of(_WHOLE)),
        "totalUsedGB": _WHOLE,
        "nodeCapacity": _CAPACITY,
        "bookings": _TEXTS,
    },
)
_CONFIGURATION = _mapping(
    {},
    {
        "timeoutSecondsMax": _WHOLE,
        "failurePolicy": _one_of("Fail", "Ignore"),
        "sideEffectsAnyOf": _TEXTS,
        "onlyOptedInNamespaces": _TRUE,
        "mutatedResources": _TEXTS,
    },
)
_PLAIN_VERDICT: Final[Mapping[str, Check]] = {
    "allowed": _YES_OR_NO,
    "reason": _REASON,
    "by": _one_of("api-server", "ResourceQuota", "PodSecurity", "other-webhook"),
    "allowedCount": _WHOLE,
    "rejectedCount": _WHOLE,
    "reserved": _FALSE,
    "warning": _TRUE,
    "warningMust": _TEXTS,
    "messageMust": _list_of(_is(str, int, float)),
    "messageMaxChars": _WHOLE,
    "firstLineMaxChars": _WHOLE,
    "answeredWithinSeconds": _NUMBER,
    "maxLatencySeconds": _NUMBER,
    "patched": _YES_OR_NO,
    "sameCardAsStep": _WHOLE,
    "differentNodeFromStep": _WHOLE,
    "nodeCapacity": _CAPACITY,
    "podRunning": _mapping({"ownerKind": _TEXT, "ownerName": _TEXT, "namespace": _TEXT}),
    "podGone": _mapping({"name": _TEXT, "namespace": _TEXT}),
    "maxEventsWrittenByProduct": _WHOLE,
    "parsed": _mapping({}, dict.fromkeys(sorted(PARSED_KEYS), _is(str, int, float))),
    "node": _TEXT,
    "nodeAnyOf": _TEXTS,
    "gpuIndices": _list_of(_WHOLE),
    "gpuIndicesAnyOf": _list_of(_list_of(_WHOLE)),
    "gpuCount": _WHOLE,
    "requests": _map_of(_map_of(_quantity)),
    "vramGBPerGpu": _WHOLE,
    "container": _TEXT,
    "limitsEqualRequests": _TRUE,
    "resourcesKept": _TEXTS,
    "containersOnDifferentCards": _TRUE,
    "env": _map_of(_AMOUNTS),
    "envAbsent": _map_of(_TEXTS),
    "envMustNotMatch": _map_of(_TEXT),
    "args": _map_of(_map_of(_mapping({}, {"min": _NUMBER, "max": _NUMBER}))),
    "affinity": _mapping(
        {},
        {key: _WHOLE if key == "termCountMax" else _FALSE if key == "pinned" else _TRUE for key in AFFINITY_KEYS},
    ),
    "specKept": _map_of(_anything),
    "untouchedContainers": _TEXTS,
    "labelsPresent": _either(_TEXTS, _AMOUNTS),
    "injected": _mapping({}, dict.fromkeys(INJECTED_KEYS, _WHOLE)),
}
_ONLY_IF = _mapping({"step": _WHOLE, "allowed": _YES_OR_NO})
_NOTES: Final[Mapping[str, Check]] = {"note": _anything, "notes": _anything, "because": _anything}
_ALTERNATIVE: Final[Mapping[str, Check]] = {**_PLAIN_VERDICT, **_NOTES, "final": _FINAL, "onlyIf": _ONLY_IF}
_VERDICT: Final[Mapping[str, Check]] = {**_ALTERNATIVE, "acceptable": _list_of(_mapping({}, _ALTERNATIVE))}
_STEPS: Final[Mapping[str, Check]] = {"steps": _list_of(_mapping({}, _VERDICT)), "webhookConfig": _CONFIGURATION}
_EXPECT = _mapping({}, {**_VERDICT, **_STEPS, "acceptable": _list_of(_mapping({}, {**_ALTERNATIVE, **_STEPS}))})

_CASE = _mapping(
    {
        "id": _TEXT,
        "given": _mapping({"cluster": _CLUSTER, "nodes": _list_of(_NODE), "pods": _list_of(_POD)}),
        "when": _when,
        "expect": _EXPECT,
    },
    {"source": _anything, "area": _anything, "symptom": _anything, "note": _anything, "notes": _anything},
)

assert _PLAIN_VERDICT.keys() == VERDICT_KEYS.keys(), "every key that is described is checked, and no other"
assert CONFIGURATION_KEYS.keys() | FINAL_KEYS.keys(), "both are checked key by key"


def _references(case: Json) -> Iterator[str]:
    """What is wrong although each value by itself is right."""
    when, expect = case["when"], case["expect"]
    steps = when["steps"] if when["action"] == "sequence" else [when]
    for whole in (expect, *(expect.get("acceptable") or ())):
        if "steps" in whole and len(whole["steps"]) != len(steps):
            yield f"expect.steps: there are {len(whole['steps'])} verdicts for {len(steps)} steps"
        yield from _earlier_steps(whole, "expect", len(steps))
        for number, verdict in enumerate(whole.get("steps") or (), 1):
            yield from _earlier_steps(verdict, f"expect.steps[{number}]", number)
            for other in verdict.get("acceptable") or ():
                yield from _earlier_steps(other, f"expect.steps[{number}].acceptable", number)
    for number, step in enumerate(steps, 1):
        for key in ("of", "objectFromStep"):
            if key in step and not 1 <= step[key] < number:
                yield f"when.steps[{number}].{key}: {step[key]} is no earlier step"
    yield from _given_pods(case["given"])
    for gpu in _all_gpus(case["given"], steps):
        if "partitionMode" in gpu and gpu["vendor"] != "amd":
            yield f"partitionMode: {gpu['model']} has none; the partitions of an NVIDIA card are its migDevices"


def _earlier_steps(verdict: Json, where: str, number: int) -> Iterator[str]:
    """The steps that the verdict of step `number` speaks of have to come before it."""
    named: dict[str, int] = {key: verdict[key] for key in ("sameCardAsStep", "differentNodeFromStep") if key in verdict}
    if "onlyIf" in verdict:
        named["onlyIf.step"] = verdict["onlyIf"]["step"]
    for key, step in named.items():
        if not 1 <= step < number:
            yield f"{where}.{key}: {step} is no earlier step"


def _given_pods(given: Json) -> Iterator[str]:
    nodes = [node["name"] for node in given["nodes"]]
    for number, pod in enumerate(given["pods"], 1):
        where, holds = f"given.pods[{number}]", pod.get("holds") or []
        if pod.get("node") is not None and pod["node"] not in nodes:
            yield f"{where}.node: there is no node {pod['node']}"
        if holds and pod.get("node") is None and len(nodes) != 1:
            yield f"{where}.holds: cards of which node?"
        if "uuids" not in pod:
            continue
        if given["cluster"]["managed"]:
            yield f"{where}.uuids: the product pins to no UUID where somebody else manages the cards"
        if len(pod["uuids"]) != len(holds):
            yield f"{where}.uuids: {len(pod['uuids'])} for {len(holds)} held cards"


def _all_gpus(given: Json, steps: Iterable[Json]) -> Iterator[Json]:
    for each in (*given["nodes"], *steps):
        yield from each.get("gpus") or ()
