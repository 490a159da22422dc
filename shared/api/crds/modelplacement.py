"""`ModelPlacement`: where one workload's models are placed, or why they are not.

Namespaced; one for each top owner.
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field

from shared.api.crds.model import ATOMIC_LIST, Conditions, CrdModel, ShortText, Slot

MAX_PLACEMENTS = 20
MAX_REFUSALS = 256
MAX_HISTORY = 10
MAX_TOLERATIONS = 16
MAX_TOLERATIONS_LENGTH = 1024
"""Of all texts of a refusal's tolerations together: a status has to hold many refusals."""

Name = Annotated[str, Field(min_length=1, max_length=253)]
Uid = Annotated[str, Field(max_length=64)]
ReasonCode = Annotated[str, Field(max_length=64, pattern=r"^[a-z_]*$")]
Message = Annotated[str, Field(max_length=1024)]
TolerationText = Annotated[str, Field(max_length=MAX_TOLERATIONS_LENGTH)]
Count = Annotated[int, Field(ge=0)]


class Phase(StrEnum):
    IDLE = "Idle"
    PENDING = "Pending"
    PLACED = "Placed"
    RUNNING = "Running"
    FAILED = "Failed"


class LastErrorCode(StrEnum):
    NO_FIT = "NoFitError"
    OOM = "OOM"
    OOM_KILLED = "OOMKilled"


class Ended(StrEnum):
    FINISHED = "Finished"
    FAILED = "Failed"
    OOM = "OOM"
    EVICTED = "Evicted"
    DELETED = "Deleted"


class RefusedToleration(CrdModel):
    """A taint that the refused pod tolerates."""

    key: TolerationText | None = None
    operator: TolerationText
    value: TolerationText | None = None
    effect: TolerationText | None = None


Tolerations = Annotated[list[RefusedToleration], Field(max_length=MAX_TOLERATIONS, json_schema_extra=ATOMIC_LIST)]


class Refusal(CrdModel):
    """Pods of one owner that got no place."""

    uid: Uid
    """The owner's uid, so that a new object of the same name does not inherit the refusal."""
    reason: ReasonCode
    """Why, as one of the reason codes of a NoFit, such as `insufficient_capacity`."""
    message: Message
    """The whole refusal as its creator was told."""
    demand: ShortText
    """What a pod of this owner asks for, such as `1 card with 6 GB`."""
    priority: int
    """The priority of the refused pod. Higher ones are woken first."""
    preempts: bool = True
    """Whether the refused pod may take the place of pods of lower priority: not with `preemptionPolicy: Never`."""
    tolerations: Tolerations | None = None
    """What the refused pod tolerated: admission may add tolerations that its owner's template lacks."""
    since: datetime
    """When the first pod was refused. Older ones are woken first."""
    last: datetime
    """When the newest pod was refused. Of an owner that cannot be read, a refusal ends some time after it."""
    waitable: bool
    """True if a place may come free. False if the cluster has none, full or empty."""
    count: Annotated[int, Field(ge=1)] = 1
    """How many creates were refused so far."""


class PlacementCard(CrdModel):
    """A share of one card."""

    index: Slot
    """The card's slot number on the node."""
    gb: Annotated[int, Field(ge=1)]
    """GB of the card that the pod holds."""


Cards = Annotated[list[PlacementCard], Field(max_length=64, json_schema_extra=ATOMIC_LIST)]


class Placement(CrdModel):
    """One pod and the cards it holds."""

    pod: Name
    """The pod's name."""
    uid: Uid | None = None
    """The pod's uid."""
    node: Name
    """The node it is placed on."""
    cards: Cards
    """Its shares."""
    since: datetime | None = None
    """When the pod was created."""
    running: bool = False
    """True while the pod runs, and every container of it that died runs again."""
    preempting: bool = False
    """True while the pod waits until pods of lower priority have left its cards."""
    leaving: bool = False
    """True while the pod shuts down. It holds its shares until it is gone, and counts for nothing else."""


class PastPlacement(CrdModel):
    """One pod and the cards it held."""

    pod: Name
    """The pod's name."""
    uid: Uid
    """The pod's uid."""
    node: Name
    """The node it was placed on."""
    cards: Cards
    """Its shares."""
    since: datetime
    """When the pod was created."""
    until: datetime
    """When it ended, or was found to be gone."""
    ended: Ended
    """`Finished` or `Failed` by itself, `OOM`: for lack of memory, `Evicted`: the cluster chose it to go, `Deleted`."""


class OutOfMemory(CrdModel):
    """The death of a container for lack of memory."""

    pod: Name
    """The pod's name."""
    uid: Uid
    """The pod's uid."""
    container: Name
    """The container's name."""
    at: datetime
    """When it died."""
    code: LastErrorCode
    """`OOM`: a card's memory ran out. `OOMKilled`: the node's."""
    message: Message
    """What it ran out of, by its own words, and what would help."""


Placements = Annotated[list[Placement], Field(max_length=MAX_PLACEMENTS, json_schema_extra=ATOMIC_LIST)]
History = Annotated[list[PastPlacement], Field(max_length=MAX_HISTORY, json_schema_extra=ATOMIC_LIST)]


class ModelPlacementStatus(CrdModel):
    """Where the workload's models are, or why they are nowhere."""

    phase: Phase | None = None
    """`Idle`: no pod is wanted. `Pending`: one has no cards yet. `Placed`: all have. `Running`: and run. `Failed`: one
    was refused.
    """
    reason: ReasonCode | None = None
    """Of the newest refusal that still stands, else `out_of_memory` (a card's) or `out_of_node_memory`."""
    last_error_code: LastErrorCode | None = None
    """`NoFitError`: a pod found no place. `OOM`: a container ran out of GPU memory. `OOMKilled`: of the node's own."""
    last_error_message: Message | None = None
    """The error in full: what was asked, what is short, who holds it, and what would help."""
    refusals: Annotated[dict[str, Refusal], Field(max_length=MAX_REFUSALS)] | None = None
    """Refusals that still stand, by the pods' owner: `ReplicaSet.chat-5d4f`."""
    wanted: Count | None = None
    """How many pods the workload wants."""
    placed: Count | None = None
    """How many of its pods have their cards and stay."""
    where: ShortText | None = None
    """The placements in short: `t4 gpu-0 6 GB`."""
    ask: ShortText | None = None
    """What the pod of the newest refusal that still stands asks for: `6 GB on one card`."""
    placements: Placements | None = None
    """The placed pods; of a large workload only the first ones."""
    history: History | None = None
    """The last placements that ended, newest first."""
    out_of_memory: OutOfMemory | None = None
    """The last death for lack of memory, until the workload has run for ten minutes since."""
    conditions: Conditions | None = None
    """`Placed`: every wanted pod has its cards. `Running`: and runs. `Waiting`: one is placed once it fits."""


class ModelPlacement(CrdModel):
    """Where the models of one workload are placed, or why they are not. A report: it has nothing to set."""

    status: ModelPlacementStatus | None = None
