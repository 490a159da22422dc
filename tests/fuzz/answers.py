"""What every answer has to be: the laws, each a check that raises `BrokenLawError`."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import jsonpatch
import orjson

from tests.fuzz.api import is_on, requested_of
from tests.fuzz.clusters import shares_of
from tests.fuzz.words import CARD, Json
from tests.scheduler_model import quantity

SAME_PATCH = "an independent JSON patch gives the same pod"
LONGEST_TEXT, LONGEST_FIRST_LINE, MOST_CAUSES, LONGEST_WARNING = 899, 239, 16, 250
PART_OF_TIMEOUT = 0.8

RESERVATION, PLACED = "kamiwaza.ai/reservation", "kamiwaza.ai/placed"

_LABEL_VALUE = re.compile(r"(?:[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?\Z")
_NATIVE = ("cpu", "memory", "ephemeral-storage", "hugepages-")


class BrokenLawError(AssertionError):
    """An answer that is not what it has to be."""


def require(kept: object, law: str, *about: object) -> None:
    """Raises `BrokenLawError` unless `kept`."""
    if not kept:
        raise BrokenLawError(": ".join([law, *map(str, about)]))


def check_refused_body(status: int, body: bytes) -> None:
    """The answer to what is no review of a pod: a client error that says what is wrong."""
    require(400 <= status < 500, "what is no review is a client error", status)
    answer = orjson.loads(body)
    require(isinstance(answer, dict) and answer.keys() == {"error"}, "an error is told as one text", answer)
    require(isinstance(answer["error"], str) and 0 < len(answer["error"]) < 1000, "the text is short", answer)


def check_answer(uid: object, status: int, body: bytes) -> Json:
    """The answer to a review: well-formed, for this request, and within the limits of its texts. Returns the
    response.
    """
    require(status == 200, "a review is answered with 200", status, body[:200])
    answer = orjson.loads(body)
    require(answer.keys() == {"apiVersion", "kind", "response"}, "an answer is a review", answer)
    require(
        (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview"), "of version v1", answer
    )
    response: Json = answer["response"]
    require(response.get("uid") == uid, "the uid is that of the request", response.get("uid"), uid)
    warnings = response.get("warnings", ["-"])
    fine = all(isinstance(each, str) and 0 < len(each) <= LONGEST_WARNING for each in warnings)
    require(bool(warnings) and fine, "warnings are short texts", warnings)
    if response.get("allowed") is True:
        known = {"uid", "allowed", "patch", "patchType", "warnings"}
        require(response.keys() <= known, "nothing else in a yes", response.keys())
        require(("patch" in response) == ("patchType" in response), "a patch has its type", response)
    else:
        require(response.get("allowed") is False, "allowed is true or false", response)
        _check_refusal(response)
    return response


def _check_refusal(response: Json) -> None:
    require(response.keys() <= {"uid", "allowed", "status", "warnings"}, "nothing else in a no", response.keys())
    status = response["status"]
    code, reason, message = status["code"], status["reason"], status["message"]
    require((code, reason) in {(403, "Forbidden"), (503, "ServiceUnavailable")}, "a no is 403 or 503", status)
    require(isinstance(message, str) and 0 < len(message) <= LONGEST_TEXT, "a refusal is short", message)
    require(len(message.partition("\n")[0]) <= LONGEST_FIRST_LINE, "its first line is shorter", message)
    if code == 503:
        require(status.keys() == {"code", "reason", "message"}, "unavailable asks for no repetition", status)
        require(message.startswith("unavailable: "), "unavailable says so", message)
        return
    causes = status["details"]["causes"]
    require(status["details"].keys() == {"kind", "causes"}, "details are causes, and ask for no repetition", status)
    require(1 <= len(causes) <= MOST_CAUSES, "a refusal has its causes", causes)
    for cause in causes:
        require(cause.keys() == {"reason", "message", "field"}, "a cause has three fields", cause)
        require(all(isinstance(value, str) for value in cause.values()), "a cause is made of texts", cause)
    require(message.startswith(causes[0]["reason"] + ": "), "text and causes give one reason", message, causes[0])


def ops_of(response: Json) -> list[Json]:
    """The operations of a response's patch."""
    if "patch" not in response:
        return []
    require(response["patchType"] == "JSONPatch", "a patch is a JSON patch", response["patchType"])
    ops: list[Json] = orjson.loads(base64.b64decode(response["patch"], validate=True))
    require(bool(ops), "no empty patch is sent", ops)
    return ops


def patched(pod: Json, ops: Sequence[Json]) -> Json:
    """What the API server makes of a pod. Knows what the webhook uses: add, replace and remove."""
    result = orjson.loads(orjson.dumps(pod))
    for op in ops:
        *way, last = (part.replace("~1", "/").replace("~0", "~") for part in op["path"].split("/")[1:])
        parent = result
        for part in way:
            parent = parent[int(part)] if isinstance(parent, list) else parent[part]
        key: Any = last
        if isinstance(parent, list):
            key = len(parent) if last == "-" else int(last)
        match op["op"]:
            case "add" if isinstance(parent, list):
                parent.insert(key, op["value"])
            case "add":
                parent[key] = op["value"]
            case "replace":
                require(key in parent if isinstance(parent, dict) else key < len(parent), "what is replaced stands", op)
                parent[key] = op["value"]
            case "remove":
                del parent[key]
            case other:
                raise BrokenLawError(f"an operation is add, replace or remove: {other}")
    final: Json = result
    return final


def check_by_library(pod: Json, ops: Sequence[Json], final: Json) -> None:
    """An independent implementation of JSON patch gives the same pod."""
    require(jsonpatch.apply_patch(pod, list(ops)) == final, SAME_PATCH, ops)


def reservation_of(pod: Json) -> object:
    """The id that a pod carries, None if it carries none. The pod may be anything."""
    metadata = pod.get("metadata")
    labels = metadata.get("labels") if isinstance(metadata, dict) else None
    return labels.get(RESERVATION) if isinstance(labels, dict) else None


def illegal(pod: Json) -> set[str]:
    """What the API server would refuse of a pod, as far as a placement could cause it."""
    problems = set()
    for key, value in (pod["metadata"].get("labels") or {}).items():
        if not isinstance(value, str) or not _LABEL_VALUE.match(value):
            problems.add(f"label {key}")
    if not all(isinstance(value, str) for value in (pod["metadata"].get("annotations") or {}).values()):
        problems.add("an annotation is no text")
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    if len({container["name"] for container in containers}) != len(containers):
        problems.add("two containers of one name")
    for container in containers:
        problems |= {f"{container['name']}: {problem}" for problem in _illegal_in(container)}
    required = ((pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}).get(
        "requiredDuringSchedulingIgnoredDuringExecution"
    )
    if required is not None and not required.get("nodeSelectorTerms"):
        problems.add("node affinity without terms")
    return problems


def _illegal_in(container: Json) -> set[str]:
    problems = set()
    for variable in container.get("env") or ():
        if not variable.get("name") or (variable.get("value") and variable.get("valueFrom")):
            problems.add(f"variable {variable}")
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    for resource in {*limits, *requests}:
        try:
            limit, request = (None if resource not in each else quantity(each[resource]) for each in (limits, requests))
        except (KeyError, ValueError):
            problems.add(f"{resource} is no quantity")
            continue
        if resource.startswith(_NATIVE):
            if limit is not None and request is not None and request > limit:
                problems.add(f"{resource} over its limit")
        elif limit is None or request not in (None, limit) or not _is_whole(limit):
            problems.add(f"{resource} is an extended resource: a whole limit, and a request that equals it")
    return problems


def _is_whole(amount: Fraction) -> bool:
    return amount.denominator == 1 and amount >= 0


def check_patch(pod: Json, final: Json) -> None:
    """A legal pod stays legal, and nothing that a placement does not consist of is touched."""
    added = illegal(final) - illegal(pod)
    require(not added, "a legal pod stays legal", sorted(added))
    for part in ("volumes", "tolerations", "nodeSelector", "topologySpreadConstraints", "nodeName", "schedulingGates"):
        require(pod["spec"].get(part) == final["spec"].get(part), "the rest of the spec stays", part)
    for kind in ("containers", "initContainers"):
        for before, after in zip(pod["spec"].get(kind) or (), final["spec"].get(kind) or (), strict=True):
            for part in (before.keys() | after.keys()) - {"resources", "env", "args", "command"}:
                require(before.get(part) == after.get(part), "the rest of a container stays", kind, part)


def check_placed(final: Json, entry: str | None, node: str) -> None:
    """Pod, pin and ledger say the same. `entry` is None for a dry run, which writes none."""
    require(is_on(final, node), "a placed pod is pinned to its node", node)
    if entry is None:
        return
    requested = {int(name.removeprefix(CARD)) for name in _card_resources(final)}
    booked = dict(shares_of(entry))
    wanted = {slot: requested_of(final, slot) for slot in requested}
    require(booked == wanted, "the ledger books what the pod requests", booked, wanted)


def _card_resources(pod: Json) -> set[str]:
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    return {
        name
        for container in containers
        for name in (container.get("resources") or {}).get("limits") or ()
        if name.startswith(CARD)
    }
