"""Every metric that the processes export, defined once: name, kind, labels, meaning.

Nothing is registered in a registry of the whole program. What counts on the way is held by the recorders
(`shared/obs/recorders.py` and those of each process), what is known from memory is read when somebody scrapes. Label
values come from short lists of ours or from the inventory (nodes and their cards), never from pods, namespaces or
owners, whose number nobody bounds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version
from typing import Final, TypeAlias

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    Metric,
    ProcessCollector,
    disable_created_metrics,
)
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from shared.api import names

# A second line for each counter, about when it was made, doubles the text and tells nothing.
disable_created_metrics()  # type: ignore[no-untyped-call]

Family: TypeAlias = Metric
"""A metric with its values, as a registry hands it out."""
Value: TypeAlias = tuple[dict[str, str], float]
"""The labels of a sample, as the definition names them, and its value."""


class Kind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Of(StrEnum):
    """Which processes export a metric."""

    WEBHOOK = "webhook"
    CONTROLLER = "controller"
    BOTH = "both"
    LEADER = "the leading controller"


@dataclass(frozen=True, slots=True)
class Definition:
    """One metric. `buckets` are the upper bounds of a histogram's, without the last, which is infinite."""

    name: str
    kind: Kind
    of: Of
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()


_QUICK: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_SLOW: Final = (*_QUICK, 30.0, 60.0, 300.0)
_FEW: Final = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0)

_counter, _gauge, _histogram = Kind.COUNTER, Kind.GAUGE, Kind.HISTOGRAM

BUILD: Final = Definition(
    "placement_build_info", _gauge, Of.BOTH, "1; the labels say what runs", ("process", "version")
)
READY: Final = Definition(
    "placement_ready", _gauge, Of.BOTH, "1 while a check of /readyz passes, 0 while it fails", ("process", "check")
)
CERTIFICATE_EXPIRY: Final = Definition(
    "placement_serving_certificate_expiry_timestamp_seconds",
    _gauge,
    Of.BOTH,
    "When the serving certificate expires, in unix seconds: the one that a webhook serves, and the one that the "
    "leading controller stored. Absent while there is none",
)
LOOP_LAG: Final = Definition(
    "placement_event_loop_lag_seconds",
    _histogram,
    Of.BOTH,
    "How much later than due a timer of the event loop ran, looked at once a second",
    (),
    _QUICK,
)

REVIEWS: Final = Definition(
    "placement_reviews_total",
    _counter,
    Of.WEBHOOK,
    "Reviews answered. `webhook` is mutate or validate. `verdict` is placed (validate: agrees with its placement), "
    "passed (nothing for us to place), refused or unavailable. `reason` is the code of a refusal, or of what could "
    "not be recorded whether the deadline came (deadline), the API server failed (api_server), others were faster "
    "until the end (overtaken) or too many were under way (overloaded); else empty. Dry runs count",
    ("webhook", "verdict", "reason"),
)
REVIEW_SECONDS: Final = Definition(
    "placement_review_seconds",
    _histogram,
    Of.WEBHOOK,
    "Time from a review's arrival to its answer",
    ("webhook",),
    _QUICK,
)
REVIEWS_IN_FLIGHT: Final = Definition(
    "placement_reviews_in_flight", _gauge, Of.WEBHOOK, "Reviews that arrived and are not answered yet"
)
HTTP_ERRORS: Final = Definition(
    "placement_http_errors_total", _counter, Of.WEBHOOK, "Requests that were no review, by HTTP status", ("status",)
)
CONNECTIONS: Final = Definition("placement_connections", _gauge, Of.WEBHOOK, "Connections that are open")
CONNECTIONS_TURNED_AWAY: Final = Definition(
    "placement_connections_turned_away_total",
    _counter,
    Of.WEBHOOK,
    "Connections that were ended because there were too many, none of them with a review that had arrived",
)

LEDGER_WRITES: Final = Definition(
    "placement_ledger_writes_total",
    _counter,
    Of.BOTH,
    "Writes to the ledgers of nodes. `result` is written, conflict (another writer was faster, it is tried again), "
    "missing (no such GPUNode) or failed",
    ("result",),
)
LEDGER_WRITE_SECONDS: Final = Definition(
    "placement_ledger_write_seconds", _histogram, Of.BOTH, "Time that a write to a ledger took", (), _QUICK
)
LEDGER_WRITE_ENTRIES: Final = Definition(
    "placement_ledger_write_entries", _histogram, Of.BOTH, "Entries that one write changed", (), _FEW
)
LEDGER_REPAIRS: Final = Definition(
    "placement_ledger_repairs_total",
    _counter,
    Of.LEADER,
    "Entries that the controller changed. `cause` is pod_gone (dropped at the end of its pod), no_pod (dropped since "
    "none came in time), unreadable (dropped), pod_differs (written as the pod has it) or kept (its pod is gone, "
    "and the seat is kept for the next of its workload)",
    ("cause",),
)

API_REQUESTS: Final = Definition(
    "placement_api_requests_total",
    _counter,
    Of.BOTH,
    "Requests to the API server that have ended. `verb` is the HTTP method, or WATCH. `code` is 2xx, the HTTP status "
    "of a failure, or where no usable answer came Timeout, NoConnection, NotKubernetes or Cancelled (the caller gave "
    "up, or left a watch early)",
    ("verb", "code"),
)
API_REQUEST_SECONDS: Final = Definition(
    "placement_api_request_seconds",
    _histogram,
    Of.BOTH,
    "Time until the answer of the API server was read. Watches are left out",
    ("verb",),
    _QUICK,
)

WATCH_AGE: Final = Definition(
    "placement_watch_age_seconds",
    _gauge,
    Of.BOTH,
    "Time since the API server was last heard about a collection: how old the picture can be. Absent before the "
    "first list",
    ("collection",),
)
WATCH_OBJECTS: Final = Definition(
    "placement_watch_objects", _gauge, Of.BOTH, "Objects of a collection that are known", ("collection",)
)
WATCH_LISTS: Final = Definition(
    "placement_watch_lists_total", _counter, Of.BOTH, "Times that a collection was listed whole", ("collection",)
)
WATCH_INTERRUPTIONS: Final = Definition(
    "placement_watch_interruptions_total",
    _counter,
    Of.BOTH,
    "Times that a list or watch failed and was taken up again after a pause",
    ("collection",),
)

QUEUE_DEPTH: Final = Definition("placement_queue_depth", _gauge, Of.BOTH, "Keys that wait for a worker", ("queue",))
QUEUE_ADDS: Final = Definition(
    "placement_queue_adds_total",
    _counter,
    Of.BOTH,
    "Keys handed to a queue, without those that waited already",
    ("queue",),
)
QUEUE_RETRIES: Final = Definition(
    "placement_queue_retries_total", _counter, Of.BOTH, "Keys whose work failed and is tried again", ("queue",)
)
QUEUE_WAIT_SECONDS: Final = Definition(
    "placement_queue_wait_seconds", _histogram, Of.BOTH, "Time that a key waited for a worker", ("queue",), _SLOW
)
QUEUE_WORK_SECONDS: Final = Definition(
    "placement_queue_work_seconds", _histogram, Of.BOTH, "Time that the work on a key took", ("queue",), _SLOW
)

CARD_BUDGET: Final = Definition(
    "placement_card_budget_gb", _gauge, Of.LEADER, "GB of a card that may be reserved", ("node", "card")
)
CARD_RESERVED: Final = Definition(
    "placement_card_reserved_gb",
    _gauge,
    Of.LEADER,
    "GB of a card that its ledger holds, or a placed pod whose id was taken off",
    ("node", "card"),
)
CARD_KEPT: Final = Definition(
    "placement_card_kept_gb",
    _gauge,
    Of.LEADER,
    "Of the reserved GB, those kept for a workload whose pod has just gone; absent while there are none",
    ("node", "card"),
)
CARD_PREEMPTING: Final = Definition(
    "placement_card_preempting_gb",
    _gauge,
    Of.LEADER,
    "Of the reserved GB, those of pods that wait until others have left; only they may stand above the budget. "
    "Absent while there are none",
    ("node", "card"),
)
CARD_FREE: Final = Definition(
    "placement_card_free_gb",
    _gauge,
    Of.LEADER,
    "GB of a card that are left, and that its node's memory backs where the card has none of its own; 0 for a card "
    "that may not be used, or whose node is away",
    ("node", "card"),
)
WAITING_OWNERS: Final = Definition(
    "placement_waiting_owners",
    _gauge,
    Of.LEADER,
    "Owners of pods that were refused and still lack a place",
    ("reason",),
)
OWNERS_WOKEN: Final = Definition(
    "placement_owners_woken_total", _counter, Of.LEADER, "Owners that were touched because their pods would fit now"
)
STUCK_DELETED: Final = Definition(
    "placement_stuck_pods_deleted_total",
    _counter,
    Of.LEADER,
    "Placed pods that were deleted because the scheduler did not bind them and would bind one that is created anew",
)
REJECTED_DELETED: Final = Definition(
    "placement_rejected_pods_deleted_total",
    _counter,
    Of.LEADER,
    "Dead pods that were cleared away: a kubelet had rejected them, and they have an owner",
)
OUT_OF_MEMORY: Final = Definition(
    "placement_out_of_memory_total",
    _counter,
    Of.LEADER,
    "Containers that were found to have died for lack of memory. `code` is OOM (a card's) or OOMKilled (the node's)",
    ("code",),
)
LEADER: Final = Definition("placement_leader", _gauge, Of.CONTROLLER, "1 while this controller leads")
LEADER_TERMS: Final = Definition(
    "placement_leader_terms_total", _counter, Of.CONTROLLER, "Times that this controller began to lead"
)


def definitions() -> list[Definition]:
    """All of them, in the order of this file."""
    return [value for value in vars(sys.modules[__name__]).values() if isinstance(value, Definition)]


def counter(of: Definition) -> Counter:
    """What counts; it belongs to no registry yet."""
    return Counter(of.name, of.help, of.labels, registry=None)


def histogram(of: Definition) -> Histogram:
    """What observes; it belongs to no registry yet."""
    return Histogram(of.name, of.help, of.labels, buckets=of.buckets, registry=None)


def family(of: Definition, values: Iterable[Value]) -> Family:
    """A metric as it is at this moment, worked out because somebody asks."""
    return family_of(of, [sample(of, value) for value in values])


def sample(of: Definition, value: Value) -> Sample:
    """One sample, for those who keep it from one scrape to the next."""
    return Sample(of.name, *value)


def family_of(of: Definition, samples: list[Sample]) -> Family:
    """A metric of samples that are there already."""
    built = Metric(of.name.removesuffix("_total"), of.help, of.kind)
    built.samples = samples
    return built


class AtScrape(Collector):
    """Families that `read` works out whenever somebody scrapes."""

    def __init__(self, read: Callable[[], Iterable[Family]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Family]:
        yield from self._read()


def new_registry(process: str) -> CollectorRegistry:
    """The registry of a process, with what is told of any program: build, memory, CPU, files, garbage collections."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    build = family(BUILD, [({"process": process, "version": _version()}, 1)])
    registry.register(AtScrape(lambda: [build]))
    return registry


def _version() -> str:
    try:
        return version(names.PRODUCT)
    except PackageNotFoundError:
        return "checkout"
