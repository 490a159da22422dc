"""What the API server makes of a pod and refuses in one: its defaults, and its rules for resources and for updates.

Only what placements meet. `tests/contract` holds it to what the real server does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from tests.fakes.objects import Json, copied

_QUANTITY = re.compile(r"(?P<number>[+-]?(\d+\.?\d*|\.\d+))(?P<suffix>[numkMGTPE]|[KMGTPE]i|[eE][+-]?\d+)?\Z")
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = "KMGTPE"
_STANDARD: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_RESIZABLE: Final = frozenset({"cpu", "memory"})
_MUTABLE: Final = frozenset({"activeDeadlineSeconds", "terminationGracePeriodSeconds", "tolerations"})
_LISTS: Final = ("initContainers", "containers")


def amount(text: object) -> Fraction:
    """A Kubernetes quantity. ValueError for what is none."""
    match = _QUANTITY.match(str(text))
    if match is None:
        raise ValueError(f"{text!r} is no quantity")
    number: Fraction = Fraction(match["number"])
    suffix: str = match["suffix"] or ""
    if suffix in _DECIMAL:
        return number * Fraction(f"1e{_DECIMAL[suffix]}")
    if suffix.endswith("i"):
        return number * Fraction(1024 ** (_BINARY.index(suffix[0]) + 1))
    return number * Fraction(f"1{suffix}") if suffix else number


def containers_of(pod: Mapping[str, Any]) -> Iterator[Json]:
    """Init containers, then the others."""
    for kind in _LISTS:
        yield from (pod.get("spec") or {}).get(kind) or ()


def with_defaults(pod: Json) -> Json:
    """The pod as the API server reads it: amounts as texts, requests filled in from limits, nulls gone."""
    read = copied(pod)
    for container in containers_of(read):
        resources = container.get("resources")
        if not isinstance(resources, dict):
            container.pop("resources", None)
            continue
        for kind in ("limits", "requests"):
            if resources.get(kind) is None:
                resources.pop(kind, None)
            else:
                resources[kind] = {name: str(value) for name, value in resources[kind].items()}
        if resources.get("limits"):
            resources["requests"] = {**resources["limits"], **resources.get("requests", {})}
    return read


def requests_of(pod: Mapping[str, Any]) -> dict[str, Fraction]:
    """What a pod requests in all: the larger of its init containers and of the sum of the others."""
    together: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in (pod.get("spec") or {}).get("initContainers") or ():
        always = container.get("restartPolicy") == "Always"
        for name, value in _amounts(container, "requests"):
            if always:
                together[name] = together.get(name, Fraction()) + value
            peak[name] = max(peak.get(name, Fraction()), together.get(name, Fraction()) + (0 if always else value))
    for container in (pod.get("spec") or {}).get("containers") or ():
        for name, value in _amounts(container, "requests"):
            together[name] = together.get(name, Fraction()) + value
    return {name: max(together.get(name, Fraction()), peak.get(name, Fraction())) for name in together | peak}


def problems_of_new(pod: Json) -> list[str]:
    """Why the API server does not store a new pod, with its defaults filled in; empty if it does."""
    spec = pod.get("spec") or {}
    problems = [] if spec.get("containers") else ["spec.containers: Required value"]
    seen = set()
    for container in containers_of(pod):
        name = container.get("name")
        if not name:
            problems.append("spec.containers[].name: Required value")
        elif name in seen:
            problems.append(f"spec.containers[{name}]: Duplicate value")
        seen.add(name)
        problems += _resource_problems(container)
    return problems


def problems_of_update(old: Json, new: Json, subresource: str) -> list[str]:
    """Why the API server does not change a pod so; empty if it does."""
    match subresource:
        case "status":
            return []
        case "ephemeralcontainers":
            kept = {**old["spec"], "ephemeralContainers": None} == {**new["spec"], "ephemeralContainers": None}
            return [] if kept else ["spec: Forbidden: only ephemeralContainers may be changed"]
        case "resize":
            return _resize_problems(old["spec"], new["spec"])
    return _plain_update_problems(copied(old["spec"]), copied(new["spec"]))


def _plain_update_problems(was: Json, wanted: Json) -> list[str]:
    """What a plain update may not change. Takes both specs apart."""
    problems = []
    gated = bool(was.get("schedulingGates"))
    gates, left = was.pop("schedulingGates", None) or [], wanted.pop("schedulingGates", None) or []
    if [gate for gate in left if gate not in gates]:
        problems.append("spec.schedulingGates: Forbidden: only deletion is allowed")
    if gated:
        problems += _widening(was, wanted)
        for spec in (was, wanted):
            spec.pop("nodeSelector", None)
            spec.pop("affinity", None)
    if [each for each in was.get("tolerations") or () if each not in (wanted.get("tolerations") or ())]:
        problems.append("spec.tolerations: Forbidden: existing toleration can not be modified")
    for spec in (was, wanted):
        for key in _MUTABLE:
            spec.pop(key, None)
        for kind in _LISTS:
            for container in spec.get(kind) or ():
                container.pop("image", None)
    if was != wanted:
        problems.append("spec: Forbidden: pod updates may not change fields other than image, tolerations, deadlines")
    return problems


def _amounts(container: Mapping[str, Any], kind: str) -> Iterator[tuple[str, Fraction]]:
    for name, value in ((container.get("resources") or {}).get(kind) or {}).items():
        yield name, amount(value)


def _resource_problems(container: Json) -> list[str]:
    where = f"spec.containers[{container.get('name')}].resources"
    try:
        limits, requests = dict(_amounts(container, "limits")), dict(_amounts(container, "requests"))
    except ValueError as error:
        return [f"{where}: Invalid value: {error}"]
    problems = []
    for kind, amounts in (("limits", limits), ("requests", requests)):
        for name, value in amounts.items():
            if "/" not in name and name not in _STANDARD and not name.startswith("hugepages-"):
                problems.append(f"{where}.{kind}[{name}]: Invalid value: must be a standard resource for containers")
            if value < 0:
                problems.append(f"{where}.{kind}[{name}]: Invalid value: must be greater than or equal to 0")
            if is_extended(name) and value.denominator != 1:
                problems.append(f"{where}.{kind}[{name}]: Invalid value: must be an integer")
    for name, value in requests.items():
        fixed = is_extended(name) or name.startswith("hugepages-")
        if name in limits and (value != limits[name] if fixed else value > limits[name]):
            must = "equal to" if fixed else "less than or equal to"
            problems.append(f"{where}.requests[{name}]: Invalid value: must be {must} {name} limit")
        elif fixed and name not in limits:
            problems.append(
                f"{where}.limits[{name}]: Required value: Limit must be set for non overcommitable resources"
            )
    return problems


def is_extended(name: str) -> bool:
    """Whether a resource is one that a device plugin or an admin advertises."""
    return "/" in name and "kubernetes.io/" not in name


def _resize_problems(old: Json, new: Json) -> list[str]:
    was, wanted = copied(old), copied(new)
    for spec in (was, wanted):
        for kind in _LISTS:
            for container in spec.get(kind) or ():
                container.pop("resizePolicy", None)
                for amounts in (container.get("resources") or {}).values():
                    for name in _RESIZABLE:
                        amounts.pop(name, None)
    return [] if was == wanted else ["spec: Forbidden: only cpu and memory resources are mutable"]


def _widening(old: Json, new: Json) -> list[str]:
    """A gated pod may only be narrowed to fewer nodes."""
    problems = []
    for key, value in (old.get("nodeSelector") or {}).items():
        if (new.get("nodeSelector") or {}).get(key) != value:
            problems.append("spec.nodeSelector: Invalid value: only additions are allowed")
    was, wanted = _required_terms(old), _required_terms(new)
    if was and len(was) != len(wanted):
        problems.append("nodeSelectorTerms: Invalid value: no additions/deletions to non-empty list are allowed")
    for before, after in zip(was, wanted, strict=False):
        problems += [
            f"nodeSelectorTerms.{kind}: Invalid value: only additions are allowed"
            for kind in ("matchExpressions", "matchFields")
            if [each for each in before.get(kind) or () if each not in (after.get(kind) or ())]
        ]
    return problems


def _required_terms(spec: Json) -> list[Json]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    return required.get("nodeSelectorTerms") or []
