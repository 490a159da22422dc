"""What is in use of each card by the stored objects alone: a second, plain sum, to hold the product's own against.

It reads nothing of the product's code but the names of its resources. A node is left out where what is in use is more
than the sum of shares: where a vendor's own resource books the cards, where cards take their memory from the node's,
where they are partitions or handed out whole, and where the kubelet tells which pod has which card.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from shared.api import names
from tests.cases.scheduler import chosen_node
from tests.fakes.objects import Json

_FOREIGN = (names.NVIDIA_GPU, names.NVIDIA_GPU_SHARED, names.AMD_GPU)


def used_of(gpu_nodes: Iterable[Json], pods: Iterable[Json]) -> dict[str, dict[int, int]]:
    """GB in use by node and index of the card."""
    live = [pod for pod in pods if (pod.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}]
    found = {}
    for gpu_node in gpu_nodes:
        name = gpu_node["metadata"]["name"]
        here = [pod for pod in live if chosen_node(pod) == name]
        if _is_a_sum(gpu_node, here):
            cards = {card["index"]: card for card in gpu_node["status"].get("cards") or ()}
            wishes = {wish["index"]: wish for wish in (gpu_node.get("spec") or {}).get("cards") or ()}
            shares = _shares((gpu_node["status"].get("reservations") or {}), here)
            found[name] = {
                index: min(
                    max(0, card["budgetGB"] - (wishes.get(index, {}).get("headroomGB") or 0)),
                    shares.get(index, 0) + (card.get("foreignGB") or 0),
                )
                for index, card in cards.items()
                if card.get("healthy", True) and not wishes.get(index, {}).get("cordoned")
            }
    return found


def _is_a_sum(gpu_node: Json, pods: Iterable[Json]) -> bool:
    spec, status = gpu_node.get("spec") or {}, gpu_node.get("status") or {}
    plain = all(
        card.get("class") != "unified" and not card.get("partitioned") and not card.get("onlinedAsSystemMemory")
        for card in status.get("cards") or ()
    )
    handed_out = any(resource in each for pod in pods for each in _requests(pod) for resource in _FOREIGN)
    return bool(
        status.get("source") == "agent"
        and spec.get("mode") == "shared"
        and plain
        and not status.get("podDevices")
        and not handed_out
    )


def _shares(reservations: Mapping[str, str], pods: Iterable[Json]) -> dict[int, int]:
    """The entries and the pods together. An entry and the oldest pod that carries its id are one, at the larger."""
    total: dict[int, int] = {}
    left = {reservation: _of_entry(text) for reservation, text in reservations.items()}
    for pod in sorted(
        pods, key=lambda each: (each["metadata"].get("creationTimestamp") or "", each["metadata"]["uid"])
    ):
        own = _of_pod(pod)
        entry = left.pop(str((pod["metadata"].get("labels") or {}).get(names.RESERVATION)), {}) if own else {}
        for index in own.keys() | entry.keys():
            total[index] = total.get(index, 0) + max(own.get(index, 0), entry.get(index, 0))
    for entry in left.values():
        for index, gb in entry.items():
            total[index] = total.get(index, 0) + gb
    return total


def _of_entry(text: str) -> dict[int, int]:
    """`<namespace>/<owner>;<seconds>;<slot>:<GB>,...`"""
    shares = {}
    for share in text.split(";")[2].split(","):
        slot, _, gb = share.partition(":")
        if gb:
            shares[int(slot)] = int(gb)
    return shares


def _of_pod(pod: Json) -> dict[int, int]:
    """GB by card. Init containers run one after the other, beside the sidecars that were started before them."""
    spec = pod["spec"]
    running: dict[int, int] = {}
    peak: dict[int, int] = {}
    for container in spec.get("initContainers") or ():
        own = _of_container(container)
        both = {index: running.get(index, 0) + own.get(index, 0) for index in running.keys() | own.keys()}
        if container.get("restartPolicy") == "Always":
            running = both
        peak = {index: max(peak.get(index, 0), both.get(index, 0)) for index in peak.keys() | both.keys()}
    for container in spec["containers"]:
        for index, gb in _of_container(container).items():
            running[index] = running.get(index, 0) + gb
    found = {index: max(peak.get(index, 0), running.get(index, 0)) for index in peak.keys() | running.keys()}
    return {index: gb for index, gb in found.items() if gb}


def _of_container(container: Mapping[str, Any]) -> dict[int, int]:
    prefix = names.card_resource(0).removesuffix("0")
    requests = (container.get("resources") or {}).get("requests") or {}
    return {
        int(resource.removeprefix(prefix)): int(amount)
        for resource, amount in requests.items()
        if resource.startswith(prefix)
    }


def _requests(pod: Json) -> list[Mapping[str, Any]]:
    containers = [*(pod["spec"].get("initContainers") or ()), *pod["spec"]["containers"]]
    return [(container.get("resources") or {}).get("requests") or {} for container in containers]
