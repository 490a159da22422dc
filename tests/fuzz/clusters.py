"""Whole clusters as the API server holds them: nodes, their cards and ledgers, and the pods that run there."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.builders import expressions, requirement
from tests.fuzz import words
from tests.fuzz.dice import Dice
from tests.fuzz.words import CARD, Json, fresh
from tests.storage_builders import a_claim, a_class, a_volume

EPOCH = 1_800_000_000
"""Unix seconds at which every cluster begins."""

STORAGE: tuple[Json, ...] = (
    a_volume("west", claim="models/models", terms=[expressions(requirement("zone", "In", "west"))]),
    a_claim("models", volume="west"),
    a_claim("scratch", of_class="local"),
    a_class("local", waits=True),
)
"""The volumes, claims and classes of every cluster; all but these claims do not exist."""

_ID_LETTERS = "abcdefghijklmnopqrstuvwxyz234567"
_OWNER_HASHES = ("e3b0c442", "0badcafe")


@dataclass(slots=True)
class ClusterJson:
    """The objects by name, pods by uid, and how the product is installed. `now` is in unix seconds."""

    exclusive: bool = False
    runtime_class: str | None = None
    now: int = EPOCH
    nodes: dict[str, Json] = field(default_factory=dict)
    gpu_nodes: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    namespaces: dict[str, dict[str, str]] = field(default_factory=dict)


def a_cluster(dice: Dice, most_nodes: int = 5) -> ClusterJson:
    """A cluster of up to `most_nodes` nodes. Some of its pods hold cards, with entries in the ledgers or without."""
    cluster = ClusterJson(
        exclusive=dice.chance(0.1),
        runtime_class="nvidia" if dice.chance(0.2) else None,
        namespaces={name: dict(labels) for name, labels in words.NAMESPACES.items()},
    )
    vendor = dice.one((None, None, "nvidia", "amd"))
    managed = dice.chance(0.1)
    for number in range(0 if dice.chance(0.03) else dice.number(1, most_nodes)):
        name = f"n{number}"
        cluster.nodes[name] = a_node(dice, name)
        if managed or dice.chance(0.05):
            cluster.gpu_nodes[name] = manage(dice, cluster.nodes[name])
        elif dice.chance(0.92):
            cluster.gpu_nodes[name] = a_gpu_node(dice, name, a_card_kind(dice, vendor))
            for _ in range(dice.number(0, 2)):
                _use_cards(dice, cluster, name)
        if dice.chance(0.4):
            pod = a_running_pod(dice, f"web-{number}", name)
            cluster.pods[pod["metadata"]["uid"]] = pod
        advertise(cluster.nodes[name], cluster.gpu_nodes.get(name))
    return cluster


def manage(dice: Dice, node: Json) -> Json:
    """Makes a node one whose cards the vendor's device plugin gives away. Returns what the controller tells of it."""
    kind, name = dice.one(words.MANAGED), node["metadata"]["name"]
    node["status"]["allocatable"] |= {resource: str(count) for resource, count in kind.offered.items()}
    gb = max((unit.get("gb", 0) * unit.get("perCard", 1) for unit in kind.units), default=0)
    cards = [
        _card_json(name, slot, words.CardKind(kind.model, gb, kind.vendor), healthy=True) for slot in range(kind.cards)
    ]
    accel = dict(dice.one(words.ACCEL_VERSIONS[kind.vendor]))
    status = {"source": "labels", "cards": cards, "units": [dict(unit) for unit in kind.units], "accelVersions": accel}
    return _gpu_node_json(name, {}, {**status, "reservations": {}})


def a_card_kind(dice: Dice, vendor: str | None = None) -> words.CardKind:
    """A model of card, of one vendor if that is given, as in the clusters that most people have."""
    kinds = [kind for kind in words.CARDS if vendor in (None, kind.vendor)]
    return dice.weighted(kinds, [kind.weight for kind in kinds])


def a_node(dice: Dice, name: str) -> Json:
    """A node without a word about its cards."""
    labels = {"kubernetes.io/hostname": name}
    for label, values in words.NODE_LABELS.items():
        if dice.chance(0.7):
            labels[label] = dice.one(values)
    allocatable = {
        "cpu": dice.one(("64", "16", "8")),
        "memory": dice.one(("256Gi", "64Gi")),
        "pods": dice.one(("110", "110", "110", "12")),
        "ephemeral-storage": "100Gi",
    }
    if dice.chance(0.2):
        allocatable["example.com/fpga"] = "2"
    node: Json = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": labels},
        "spec": {"taints": [dict(dice.one(words.TAINTS))]} if dice.chance(0.15) else {},
        "status": {"allocatable": allocatable, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    if dice.chance(0.08):
        cordon(node)
    if dice.chance(0.06):
        node["status"]["conditions"][0]["status"] = dice.one(("False", "Unknown"))
    return node


def cordon(node: Json) -> None:
    """As `kubectl cordon` leaves it, with the taint that the node controller adds."""
    node["spec"]["unschedulable"] = True
    taints = node["spec"].get("taints") or []
    node["spec"]["taints"] = [*taints, {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]


def a_gpu_node(dice: Dice, name: str, kind: words.CardKind) -> Json:
    """The `GPUNode` of a node with one to four cards of a kind, seldom with another among them."""
    slots = [slot for slot in range(dice.one((1, 2, 2, 4, 8))) if slot == 0 or not dice.chance(0.1)]
    cards = [_card(dice, name, slot, a_card_kind(dice) if dice.chance(0.04) else kind) for slot in slots]
    spec: Json = {}
    if dice.chance(0.1):
        spec["mode"] = dice.one(("exclusive", "shared"))
    if dice.chance(0.1):
        wish = {"index": dice.one(slots), **dice.one(({"headroomGB": 2}, {"cordoned": True}))}
        spec["cards"] = [wish]
    status: Json = {
        "cards": cards,
        "accelVersions": dict(dice.one(words.ACCEL_VERSIONS[kind.vendor])),
        "reservations": {},
    }
    if dice.chance(0.2):
        status["injection"] = dice.one(("cdi", "env"))
    return _gpu_node_json(name, spec, status)


def _gpu_node_json(name: str, spec: Json, status: Json) -> Json:
    return {
        "apiVersion": "placement.kamiwaza.ai/v1alpha1",
        "kind": "GPUNode",
        "metadata": {"name": name, "uid": f"uid-gpu-{name}", "resourceVersion": "1"},
        "spec": spec,
        "status": status,
    }


def _card(dice: Dice, node: str, slot: int, kind: words.CardKind) -> Json:
    card = _card_json(node, slot, kind, healthy=not dice.chance(0.06))
    if dice.chance(0.06):
        card["foreignGB"] = dice.one((1, 5, 200))
    return card


def _card_json(node: str, slot: int, kind: words.CardKind, *, healthy: bool) -> Json:
    return {
        "index": slot,
        "uuid": f"GPU-{node}-{slot}",
        "model": kind.model,
        "vendor": kind.vendor,
        "class": kind.kind,
        "memoryMiB": kind.gb * 1024 + 300 if kind.gb else 0,
        "budgetGB": kind.gb,
        "healthy": healthy,
        **kind.more,
    }


def advertise(node: Json, gpu_node: Json | None) -> None:
    """What the device plugin of the product tells the kubelet: GB of each card that is in order."""
    allocatable = {name: amount for name, amount in node["status"]["allocatable"].items() if not name.startswith(CARD)}
    for card in gpu_node["status"]["cards"] if gpu_node and "source" not in gpu_node["status"] else ():
        allocatable[f"{CARD}{card['index']}"] = str(card["budgetGB"])
    node["status"] = {**node["status"], "allocatable": allocatable}


def _use_cards(dice: Dice, cluster: ClusterJson, node: str) -> None:
    """Something that uses a card of a node: a pod with its entry, one without, or an entry without its pod."""
    number = len(cluster.pods) + sum(len(each["status"]["reservations"]) for each in cluster.gpu_nodes.values())
    reservation = an_id(f"{node}{number}")
    status = cluster.gpu_nodes[node]["status"]
    if "source" in status:
        return
    card = dice.one(status["cards"])
    gb = max(1, card["budgetGB"] // dice.one((2, 4, 8)))
    if room(status, card) < gb:
        return
    what = dice.one(("both", "both", "entry", "pod"))
    if what != "pod":
        since = EPOCH - dice.one((0, 5, 3600))
        owner = dice.one(_OWNER_HASHES)
        status["reservations"][reservation] = f"{dice.one(('models', 'other'))}/{owner};{since};{card['index']}:{gb}"
    if what != "entry":
        pod = a_running_pod(dice, f"old-{node}-{number}", node)
        pod["metadata"].setdefault("labels", {})["kamiwaza.ai/reservation"] = reservation
        shares = {f"{CARD}{card['index']}": str(gb)}
        pod["spec"]["containers"][0]["resources"] = {"limits": dict(shares), "requests": dict(shares)}
        cluster.pods[pod["metadata"]["uid"]] = pod


def room(status: Json, card: Json) -> int:
    """GB of a card that no entry of its ledger holds."""
    return int(card["budgetGB"]) - sum(
        gb for text in status["reservations"].values() for slot, gb in shares_of(text) if slot == card["index"]
    )


def shares_of(entry: str) -> list[tuple[int, int]]:
    """The slots and GB of an entry in a ledger."""
    pairs = (pair.split(":") for pair in entry.split(";")[2].split(",") if ":" in pair)
    return [(int(slot), int(gb)) for slot, gb in pairs]


def units_of(entry: str) -> dict[str, int]:
    """The vendor's resources that an entry in a ledger holds, and how many units of each."""
    pairs = (pair.split("=") for pair in entry.split(";")[2].split(",") if "=" in pair)
    return {resource: int(count) for resource, count in pairs}


def a_running_pod(dice: Dice, name: str, node: str) -> Json:
    """A pod that the scheduler has put on a node, or that is still to be put on it."""
    uid = f"uid-{name}"
    spec: Json = {"containers": [{"name": "main", "resources": {"requests": {"cpu": dice.one(("100m", "2"))}}}]}
    if dice.chance(0.9):
        spec["nodeName"] = node
    else:
        pin = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
        spec["affinity"] = {"nodeAffinity": {words.REQUIRED: {"nodeSelectorTerms": [pin]}}}
    if dice.chance(0.1):
        spec["containers"][0]["ports"] = [fresh(words.PORTS[1])]
    if dice.chance(0.05):
        term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "chat"}}}
        spec.setdefault("affinity", {})["podAntiAffinity"] = {words.REQUIRED: [term]}
    pod: Json = {
        "metadata": {
            "name": name,
            "namespace": dice.one(("models", "other")),
            "uid": uid,
            "labels": dict(dice.one(words.LABELS)),
            "creationTimestamp": "2027-01-15T08:00:00Z",
        },
        "spec": spec,
        "status": {"phase": "Running"},
    }
    if dice.chance(0.05):
        pod["metadata"]["deletionTimestamp"] = "2027-01-15T09:00:00Z"
    return pod


def an_id(of: str) -> str:
    """A reservation id that stands for a text."""
    letters = [letter if letter in _ID_LETTERS else "a" for letter in of]
    return "".join(letters)[-10:].rjust(10, "a")
