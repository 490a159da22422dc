"""The owners that a case's pods name, and what clients fill into the objects that they send."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

from shared.api import names
from tests.cases.kinds import api_version_of
from tests.fakes.api import merged
from tests.fakes.objects import Json


def steps_of(when: Json) -> list[Json]:
    """The steps of a case; a single action is one."""
    return list(when["steps"]) if when["action"] == "sequence" else [when]


def fill_in(raw: Json, find: Callable[[Json], Json | None]) -> Json:
    """An object with what clients always fill in: API version and uid of its owners."""
    references = [
        {
            "apiVersion": api_version_of(reference["kind"]),
            **reference,
            "uid": _uid_of_owner(raw, reference, find),
        }
        for reference in raw["metadata"].get("ownerReferences") or ()
    ]
    return {**raw, "metadata": {**raw["metadata"], **({"ownerReferences": references} if references else {})}}


def owners_of(when: Json) -> Iterator[Json]:
    """The owners that a case's steps name, each wanting as many pods as the largest `count` of such a step."""
    found: dict[tuple[str, str, str], Json] = {}
    for step in steps_of(when):
        raw = step.get("object") or {}
        metadata = raw.get("metadata") or {}
        for reference in metadata.get("ownerReferences") or ():
            namespace = metadata.get("namespace") or "default"
            key = (reference["kind"], namespace, reference["name"])
            owner = found.setdefault(key, _owner(reference, namespace, with_wishes(raw, step)))
            _want(owner, int(step.get("count") or 1))
    yield from found.values()


Named: TypeAlias = tuple[str, str, str]
"""Kind, namespace and name of an object; that of a namespace is `default`."""


def named_by_steps(when: Json) -> set[Named]:
    """Everything that a step speaks of: its object, that one's owners and its namespace."""
    return {named for step in steps_of(when) for named in _named_by(step)}


def made_by_steps(when: Json) -> set[Named]:
    """What a step creates before any other speaks of it, so that it is not there from the beginning."""
    known: set[Named] = set()
    made: set[Named] = set()
    for step in steps_of(when):
        own, *others = _named_by(step) or [("", "", "")]
        if step["action"].startswith("create") and own not in known:
            made.add(own)
        known |= {own, *others}
    return made


def _named_by(step: Json) -> list[Named]:
    raw = step.get("object") or {}
    if not raw:
        return []
    metadata = raw.get("metadata") or raw
    namespace = metadata.get("namespace") or "default"
    owners = [(each["kind"], namespace, each["name"]) for each in metadata.get("ownerReferences") or ()]
    around = [] if raw["kind"] == "Namespace" else [("Namespace", "default", namespace)]
    return [(raw["kind"], namespace, str(metadata.get("name"))), *owners, *around]


def with_wishes(raw: Json, step: Json) -> Json:
    """The object with the step's `budget` and `requires` as the annotations that say so."""
    annotations: dict[str, str] = {}
    budget = step.get("budget") or {}
    if "vramGB" in budget:
        annotations[names.VRAM] = str(budget["vramGB"])
    if "gpus" in budget:
        annotations[names.GPUS] = str(budget["gpus"])
    for container, gb in (budget.get("perContainer") or {}).items():
        annotations[names.VRAM_OF_CONTAINER_PREFIX + container] = str(gb)
    for runtime, version in (step.get("requires") or {}).items():
        annotations[names.ACCEL_VERSION] = f"{runtime} {version}"
    return merged(raw, {"metadata": {"annotations": annotations}}) if annotations else raw


def _owner(reference: Json, namespace: str, pod: Json) -> Json:
    template = {
        "metadata": {key: pod["metadata"][key] for key in ("labels", "annotations") if key in pod["metadata"]},
        "spec": pod.get("spec") or {},
    }
    return {
        "apiVersion": reference.get("apiVersion") or api_version_of(reference["kind"]),
        "kind": reference["kind"],
        "metadata": {"name": reference["name"], "namespace": namespace},
        "spec": {"template": template},
        "status": {},
    }


def _want(owner: Json, pods: int) -> None:
    """Raises the number of pods that an owner wants."""
    match owner["kind"]:
        case "DaemonSet":
            status = owner["status"]
            status["desiredNumberScheduled"] = max(pods, status.get("desiredNumberScheduled", 0))
        case "Job":
            owner["spec"]["parallelism"] = max(pods, owner["spec"].get("parallelism", 0))
        case _:
            owner["spec"]["replicas"] = max(pods, owner["spec"].get("replicas", 0))


def _uid_of_owner(raw: Json, reference: Json, find: Callable[[Json], Json | None]) -> str:
    owner = find({
        "kind": reference["kind"],
        "name": reference["name"],
        "namespace": raw["metadata"].get("namespace"),
        **({"apiVersion": reference["apiVersion"]} if reference.get("apiVersion") else {}),
    })  # fmt: skip
    return str(reference.get("uid") or (owner["metadata"]["uid"] if owner is not None else "gone"))
