"""`GPUNode`: the cards of one node and the ledger of what is reserved on them.

Cluster-scoped; it has the name of its node.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import Field

from shared.api.crds.model import ATOMIC_MAP, GB, Conditions, CrdModel, ShortText, Slot, list_map
from shared.core.cards import CardClass, Vendor
from shared.core.device_use import SLOTS_PATTERN
from shared.core.ledger import LONGEST_CARDS

MAX_CARDS = 128
"""Eight cards with seven partitions each, and as many that are gone and still hold pods."""
MAX_RESERVATIONS = 4096
MAX_POD_DEVICES = 512


class Mode(StrEnum):
    SHARED = "shared"
    EXCLUSIVE = "exclusive"


class Injection(StrEnum):
    ENV = "env"
    CDI = "cdi"


class Source(StrEnum):
    AGENT = "agent"
    LABELS = "labels"


class CardWish(CrdModel):
    """What the admin wants of one card."""

    index: Slot
    """The card's slot number on the node."""
    headroom_gb: GB = 0
    """GB of the card that are never promised to anybody."""
    vram_gb: Annotated[int, Field(ge=1, le=65536)] | None = None
    """GB of memory that the card has. Counts where the driver does not tell, and nowhere else."""
    cordoned: bool = False
    """True keeps new models off the card. Those that hold a share of it stay."""


CardWishes = Annotated[list[CardWish], Field(max_length=MAX_CARDS, json_schema_extra=list_map("index"))]


class GPUNodeSpec(CrdModel):
    """What the admin wants of the node's cards. Everything may be left out."""

    mode: Mode | None = None
    """`shared`: several models share a card, each with its own budget. `exclusive`: the first model takes the
    whole card. Left out, the operator's own setting holds."""
    cards: CardWishes | None = None
    """Wishes for single cards."""


class CardStatus(CrdModel):
    """One physical GPU, one hardware partition, or one pool of memory shared with the CPU."""

    index: Slot
    """The card's slot number on the node. It stays the same when other cards drop out."""
    uuid: Annotated[str, Field(min_length=1, max_length=128)]
    """The identity that the vendor's driver gives the card."""
    model: Annotated[str, Field(max_length=128)]
    """The product name, such as `Tesla T4`."""
    vendor: Vendor
    """Who made the card."""
    card_class: Annotated[CardClass, Field(alias="class")]
    """`discrete`: memory of its own. `unified`: memory shared with the CPU. `mig`: a hardware partition."""
    memory_mib: Annotated[int, Field(ge=0)]
    """Memory of the card in MiB, as the driver reports it; 0 where it does not."""
    budget_gb: GB
    """Whole GB (1024 MiB) of it that may be reserved."""
    healthy: bool
    """False while the driver reports trouble: nothing new is placed on the card."""
    foreign_gb: GB = 0
    """GB in use by processes that hold no reservation."""
    partitioned: bool = False
    """True of a card in MIG mode: it is used by its partitions, each of which is a card of class `mig`."""
    compute_capable: bool = True
    """False of a display adapter or a card that is too old: nothing is placed on it."""
    onlined_as_system_memory: bool = False
    """True where the kernel adds the card's memory to the node's (Grace Hopper): the node's `allocatable` counts it."""


Cards = Annotated[list[CardStatus], Field(max_length=MAX_CARDS, json_schema_extra=list_map("index"))]


class UnitStatus(CrdModel):
    """A resource of the vendor's device plugin, which books the node's cards where no agent of ours runs."""

    resource: Annotated[str, Field(min_length=1, max_length=127)]
    """The extended resource, such as `nvidia.com/gpu`."""
    gb: GB | None = None
    """GB of one unit of it. Left out where no label tells: then no amount is placed on it."""
    per_card: Annotated[int, Field(ge=1)] = 1
    """How many units one card is shared into by time-slicing or MPS."""
    partition: bool = False
    """True where a unit is a hardware partition, such as a MIG slice."""


Units = Annotated[list[UnitStatus], Field(max_length=MAX_CARDS, json_schema_extra=list_map("resource"))]


class Summary(CrdModel):
    """The sums that `kubectl get gpunodes` shows, in GB. Written together with the reservations."""

    budget_gb: GB | None = None
    """GB of all cards that may be reserved."""
    reserved_gb: GB | None = None
    """GB of all cards that are reserved."""
    free_gb: GB | None = None
    """GB of all cards that a new model could get."""
    largest_free_gb: GB | None = None
    """GB of the card with most free: the largest share that a new model could get here."""
    cards: Annotated[str, Field(max_length=LONGEST_CARDS)] | None = None
    """Reserved and budget of each card by slot, and what of it is kept: `0: 12/16 (6 kept), 1: 0/24`. A card that is
    gone has no budget, and stands here while something of it is reserved."""


Reservation = Annotated[str, Field(max_length=1024)]
Reservations = Annotated[dict[str, Reservation], Field(max_length=MAX_RESERVATIONS, json_schema_extra=ATOMIC_MAP)]


PodUid = Annotated[str, Field(max_length=64)]
Slots = Annotated[str, Field(max_length=512, pattern=SLOTS_PATTERN)]
PodDevices = Annotated[dict[PodUid, Slots], Field(max_length=MAX_POD_DEVICES, json_schema_extra=ATOMIC_MAP)]


class GPUNodeStatus(CrdModel):
    """What the node has, and who holds how much of it."""

    source: Source | None = None
    """Who says what follows: `agent`, or `labels` where the controller reads them from the node, which has no agent."""
    cards: Cards | None = None
    """The cards of the node."""
    units: Units | None = None
    """On a node without an agent, the vendor's resources that book its cards. Which card a pod gets is the choice of
    the vendor's device plugin, and what is shown as reserved of a card is their sum, told of the lowest slots."""
    models: Annotated[str, Field(max_length=1024)] | None = None
    """For people, the product names of the cards: `Tesla T4`, or `2 x NVIDIA L4, Tesla T4`."""
    accel_versions: Annotated[dict[str, ShortText], Field(max_length=16)] | None = None
    """The highest version of each accelerator runtime that the node's driver serves: `cuda: "12.4"`."""
    injection: Injection | None = None
    """How a container gets its cards: `env` by an environment variable, `cdi` by the container runtime."""
    reservations: Reservations | None = None
    """The ledger: reservation id to `<namespace>/<owner hash>;<unix seconds>;<slot>:<GB>,<slot>:<GB>`. Where cards
    are backed by the node's memory, `;<MiB>` follows: the pod's own memory request. Units of a vendor's resource stand
    there as `nvidia.com/gpu=1`. `;kept` at the end: the seat is kept for the next pod of its workload; `;preempting`:
    its pod waits until others have left."""
    pod_devices: PodDevices | None = None
    """Slots of the cards that the kubelet lists for pods of other device plugins, by the pods' uids: `"0,1"`."""
    summary: Summary | None = None
    """The sums over cards and reservations."""
    conditions: Conditions | None = None
    """The state of the node's cards as a whole."""


class GPUNode(CrdModel):
    """The GPU cards of one node: how much memory each has, how much of it is reserved, and by whom."""

    spec: GPUNodeSpec | None = None
    status: GPUNodeStatus | None = None
