"""What a pod takes from its node, by kube-scheduler's counting rule (`k8s.io/component-helpers/resource`).

App containers run together, so their requests add up. Init containers run one after the other before them,
each beside the sidecars that were started earlier, so of those the largest counts. Amounts are added in
thousandths and rounded up once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from shared.api import names
from shared.core.quantity import millis, units_of_millis

Json: TypeAlias = Mapping[str, Any]
Millis: TypeAlias = dict[str, int]

_NOTHING: Json = {}


def pod_requests(spec: Json, status: Json = _NOTHING) -> dict[str, int]:
    """The effective requests of a pod: cpu in millicores, everything else in its base unit.

    `status` is that of a stored pod: while the pod is being resized it holds the larger of what it has and
    what it asks. A pod that is not stored yet is read as the API server will complete it, limits standing in
    for requests. Raises `QuantityError` where an amount is no quantity.
    """
    total = _container_level(spec, status)
    total.update(_pod_level(spec, status, total))
    _add(total, _amounts(spec.get("overhead")))
    return {name: in_base_units(name, amount) for name, amount in total.items()}


def in_base_units(resource: str, amount: int) -> int:
    """Thousandths of a resource in the unit that counts it: millicores of cpu, else base units, rounded up."""
    return amount if resource == names.CPU else units_of_millis(amount)


def is_sidecar(init_container: Json) -> bool:
    """Whether an init container keeps running beside the others."""
    return init_container.get("restartPolicy") == "Always"


def _container_level(spec: Json, status: Json) -> Millis:
    """What the containers take: of a pod that is being resized the largest of wish, promise and reality."""
    wanted = _aggregate(spec, _wanted)
    infeasible = _is_resize_infeasible(status)
    statuses = _container_statuses(status)
    if "allocatedResources" in status and "requests" in (status.get("resources") or _NOTHING):
        promised, actual = _amounts(status["allocatedResources"]), _amounts(status["resources"]["requests"])
    elif infeasible or any("resources" in each or "allocatedResources" in each for each in statuses.values()):
        promised = _aggregate(spec, partial(_promised, statuses, infeasible))
        actual = _aggregate(spec, partial(_actual, statuses, infeasible))
    else:
        return wanted
    return _largest(promised, actual) if infeasible else _largest(wanted, promised, actual)


def _aggregate(spec: Json, requests_of: Callable[[Json], Millis]) -> Millis:
    total: Millis = {}
    for container in spec.get("containers") or ():
        _add(total, requests_of(container))
    sidecars: Millis = {}
    peak: Millis = {}
    for container in spec.get("initContainers") or ():
        requests = requests_of(container)
        if is_sidecar(container):
            _add(total, requests)
            _add(sidecars, requests)
            _raise_to(peak, sidecars)
        else:
            _add(requests, sidecars)
            _raise_to(peak, requests)
    _raise_to(total, peak)
    return total


def _wanted(container: Json) -> Millis:
    """What the spec asks for; a limit stands in for a request that is not given."""
    resources = container.get("resources") or _NOTHING
    return _amounts({**(resources.get("limits") or _NOTHING), **(resources.get("requests") or _NOTHING)})


def _promised(statuses: Mapping[str, Json], infeasible: bool, container: Json) -> Millis:  # noqa: FBT001
    """What the kubelet has set aside for a container."""
    status = statuses.get(container["name"], _NOTHING)
    if "allocatedResources" in status:
        return _amounts(status["allocatedResources"])
    return {} if infeasible else _wanted(container)


def _actual(statuses: Mapping[str, Json], infeasible: bool, container: Json) -> Millis:  # noqa: FBT001
    """What a container runs with."""
    status = statuses.get(container["name"], _NOTHING)
    resources = status.get("resources") or _NOTHING
    if "requests" in resources:
        return _amounts(resources["requests"])
    return _promised(statuses, infeasible, container)


def _pod_level(spec: Json, status: Json, containers: Millis) -> Millis:
    """The pod's own `resources`, which stand above those of its `containers`."""
    resources = spec.get("resources") or _NOTHING
    requests = _pod_level_amounts(resources.get("requests"))
    for name, limit in _pod_level_amounts(resources.get("limits")).items():
        # The API server completes the requests from the containers where it can, otherwise from the limits.
        if name not in containers or name.startswith(names.HUGEPAGES_PREFIX):
            requests.setdefault(name, limit)
    if not requests or "resources" not in status:
        return requests
    actual = _pod_level_amounts((status["resources"] or _NOTHING).get("requests"))
    promised = _pod_level_amounts(status.get("allocatedResources"))
    return _largest({} if _is_resize_infeasible(status) else requests, actual, promised)


def _pod_level_amounts(raw: Json | None) -> Millis:
    return {
        name: amount
        for name, amount in _amounts(raw).items()
        if name in (names.CPU, names.MEMORY) or name.startswith(names.HUGEPAGES_PREFIX)
    }


def _container_statuses(status: Json) -> dict[str, Json]:
    init = status.get("initContainerStatuses") or ()
    return {each["name"]: each for each in (*init, *(status.get("containerStatuses") or ()))}


def _is_resize_infeasible(status: Json) -> bool:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _amounts(raw: Json | None) -> Millis:
    return {name: millis(amount) for name, amount in (raw or _NOTHING).items()}


def _add(total: Millis, more: Millis) -> None:
    for name, amount in more.items():
        total[name] = total.get(name, 0) + amount


def _raise_to(total: Millis, other: Millis) -> None:
    for name, amount in other.items():
        total[name] = max(total.get(name, amount), amount)


def _largest(*each: Millis) -> Millis:
    largest: Millis = {}
    for amounts in each:
        _raise_to(largest, amounts)
    return largest
