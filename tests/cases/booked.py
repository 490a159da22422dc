"""Pods that exist already, as the product would have left them: its own code puts them on the cards they hold."""

from __future__ import annotations

from shared.api import names
from shared.core.card_choice import Share
from shared.core.demand import read_pod
from shared.core.ledger import ID_ALPHABET, ID_LENGTH, Entry, owner_hash
from shared.core.nodes import node_facts
from shared.core.placement import Placed
from shared.core.snapshot import NodeState
from shared.kube.gpunodes import gpu_node as read_gpu_node
from tests.cases.given import SERVER
from tests.fakes.api import merged
from tests.fakes.objects import Json
from webhook.patch import PodPatch
from webhook.rewrite import rewrite


def reservation_id(number: int) -> str:
    """An id that no other number has."""
    letters = ""
    for _ in range(ID_LENGTH):
        number, letter = divmod(number, len(ID_ALPHABET))
        letters = ID_ALPHABET[letter] + letters
    return letters


def on_own_node(pod: Json, given: Json, node: Json, gpu_node: Json, reservation: str, since: int) -> tuple[Json, str]:
    """The pod on the cards of `given`, and its ledger entry."""
    holds = given["holds"]
    known = read_gpu_node(gpu_node, exclusive=False)
    state = NodeState.of(node_facts(node), known.inventory)
    shares = []
    uuids = given.get("uuids") or [None] * len(holds)
    for hold, uuid in zip(holds, uuids, strict=True):
        card = known.inventory.card(hold["gpu"])
        assert card is not None, f"pod {given['name']} holds card {hold['gpu']}, which its node has not"
        assert uuid in {None, card.uuid}, f"pod {given['name']} holds card {hold['gpu']}, which was never {uuid}"
        shares.append(Share(SERVER, card, hold["vramGB"], hold["vramGB"]))
    wish = {names.VRAM: str(max(hold["vramGB"] for hold in holds)), names.GPUS: str(len(holds))}
    asking = merged(pod, {"metadata": {"annotations": wish}, "spec": {"nodeName": None}})
    patch = PodPatch(asking)
    placed = Placed(given["node"], tuple(shares))
    rewrite(patch, read_pod(asking), placed, state, reservation, None)
    entry = Entry(given["namespace"], owner_hash(""), since, placed.booking)
    bound = {"nodeName": pod["spec"]["nodeName"]} if pod["spec"].get("nodeName") else {}
    return {**patch.pod, "spec": {**patch.pod["spec"], **bound}}, entry.encode()


def asking_for_units(pod: Json, holds: list[Json], given_node: Json) -> Json:
    """The pod as it asked for a place on a node whose vendor's own resource does the booking: a unit for each hold."""
    offered = given_node.get("allocatableExtended") or {}
    vendors = {gpu["index"]: gpu["vendor"] for gpu in given_node["gpus"]}
    resource = names.AMD_GPU if vendors.get(holds[0]["gpu"]) == "amd" else names.NVIDIA_GPU
    if resource not in offered and names.NVIDIA_GPU_SHARED in offered:
        resource = names.NVIDIA_GPU_SHARED
    (container,) = pod["spec"]["containers"]
    own = container.get("resources") or {}
    count = {resource: str(len(holds))}
    resources = {kind: {**count, **(own.get(kind) or {})} for kind in ("limits", "requests")}
    return {**pod, "spec": {**pod["spec"], "containers": [{**container, "resources": resources}]}}
