"""The validating webhook: looks at the final pod and lets it in only if the ledger says the same as the pod.

What reaches it may have been changed by any webhook after ours, written by hand, or copied from another pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api import names
from shared.core.containers import mapping
from shared.core.demand import read_pod
from shared.core.invalid import InvalidRequest
from shared.core.ledger import Mark, owner_hash
from shared.core.owners import controller_of
from shared.core.pods import pinned_node
from shared.core.refusal import Invalid, NoFit
from shared.core.snapshot import NO_CARDS
from shared.core.units import Units, describe_units
from shared.kube.cluster import Cluster, Located
from shared.kube.errors import ApiError
from shared.kube.ledger import Ledger
from webhook.agreement import refuse_disagreement
from webhook.later import LATER
from webhook.marks import (
    booked_shares,
    booked_units,
    is_marked,
    refuse_written_shares,
    reservation_of,
    shares_by_container,
    strip,
    units_by_container,
)
from webhook.outcome import Admitted, Outcome, Refused, Unrecorded
from webhook.patch import PodPatch
from webhook.placed_record import read_record
from webhook.pod_size import passes_unread
from webhook.promised import constraints_of
from webhook.review import Request
from webhook.second_look import SecondLook

_LABEL = f"metadata.labels[{names.RESERVATION}]"
_ASK = f"remove the placement's marks and ask with the annotation {names.VRAM}"


class Validator:
    """Answers validating reviews."""

    def __init__(self, cluster: Cluster, ledger: Ledger) -> None:
        self._cluster = cluster
        self._ledger = ledger

    async def review(self, request: Request) -> Outcome:
        """The outcome for a pod's CREATE as it is about to be stored."""
        assert request.pod is not None
        try:
            return await self._review(request, request.pod)
        except InvalidRequest as error:
            return Refused(Invalid.of(error))
        except ApiError as error:
            return Unrecorded.of(error)

    async def _review(self, request: Request, pod: Mapping[str, Any]) -> Admitted | Refused:
        if passes_unread(pod):
            return Admitted()
        booked = booked_shares(pod)
        if not is_marked(pod):
            _refuse_unplaced(pod)
            return Admitted()
        reservation = reservation_of(pod)
        if reservation is None:
            raise InvalidRequest(_LABEL, "", "is not the id of a reservation", _ASK)
        node = pinned_node(mapping(pod.get("spec"), "spec"))
        units = booked_units(pod)
        if node is None or not (booked or units):
            what = "is not pinned to one node" if node is None else "carries no share of a card"
            raise InvalidRequest(
                _LABEL,
                reservation,
                f"is a placement's mark on a pod that {what}: another webhook may have changed it",
                _ASK,
            )
        if request.dry_run:
            located, recorded = None, _refuse_other_record(pod, reservation, node)
        else:
            located = await self._refuse_other_entry(request, pod, reservation, node)
            recorded = located.entry.units
        gpu_node, state = self._cluster.gpu_node(node), self._cluster.node(node)
        kinds = state.kinds if state is not None else ()
        refuse_disagreement(pod, node, gpu_node.inventory if gpu_node else NO_CARDS, recorded, kinds)
        if units != recorded:
            raise InvalidRequest(
                _LABEL, reservation, f"is a reservation of {_units(recorded)}, the pod takes {_units(units)}", _ASK
            )
        no_fit = None if located is None else self._no_fit(request, pod, located)
        return Admitted(reservation=reservation, node=node) if no_fit is None else Refused(no_fit)

    def _no_fit(self, request: Request, pod: Mapping[str, Any], located: Located) -> NoFit | None:
        """Why the node does not take the pod any more, if another webhook changed what it demands since."""
        constraints_of(request, pod)  # refuses what is no pod before it is taken apart
        patch = PodPatch(pod)
        strip(patch)
        look = SecondLook.at(request, pod, patch.pod, located)
        if not look.finds_a_change(self._cluster) or look.still_fits(self._cluster):
            return None
        demand = read_pod(patch.pod, read_record(pod).containers).demand
        return None if demand is None else look.no_fit(self._cluster, demand)

    async def _refuse_other_entry(
        self, request: Request, pod: Mapping[str, Any], reservation: str, node: str
    ) -> Located:
        """Refuses a pod that its entry in the ledger does not describe. The entry."""
        located = await self._ledger.locate(reservation, node)
        if located is None:
            raise InvalidRequest(
                _LABEL,
                reservation,
                "is in no ledger: it is made up, or it has run out",
                "create the pod again",
            )
        owner = controller_of(pod)
        entry = located.entry
        if located.node != node:
            raise InvalidRequest(_LABEL, reservation, f"is a reservation on another node than {node}", _ASK)
        if entry.namespace != request.namespace or entry.owner_hash != owner_hash(owner.uid if owner else ""):
            raise InvalidRequest(_LABEL, reservation, "is the reservation of another workload", _ASK)
        if entry.mark is Mark.KEPT:
            raise InvalidRequest(_LABEL, reservation, "is a seat that is kept for the next pod of its workload", _ASK)
        if entry.shares != booked_shares(pod):
            raise InvalidRequest(_LABEL, reservation, "is a reservation of other shares than the pod requests", _ASK)
        if self._cluster.carriers(reservation, request.namespace):
            raise InvalidRequest(_LABEL, reservation, "is the reservation of a pod that exists", _ASK)
        return located


def _refuse_other_record(pod: Mapping[str, Any], reservation: str, node: str) -> Units:
    """Refuses the pod of a dry run, which is in no ledger, if its record tells another placement. The units of it."""
    record = read_record(pod)
    if record.node != node:
        raise InvalidRequest(_LABEL, reservation, "does not agree with the pod's node affinity", _ASK)
    told = sorted((share.container, share.index, share.gb) for share in record.shares)
    requested = sorted(
        (container, index, gb) for container, shares in shares_by_container(pod).items() for index, gb in shares
    )
    if told != requested:
        raise InvalidRequest(_LABEL, reservation, "does not agree with the shares that the pod requests", _ASK)
    resources = {unit.resource for unit in record.units}
    told_units = sorted(record.units, key=str)
    if told_units != sorted((unit for unit in units_by_container(pod) if unit.resource in resources), key=str):
        raise InvalidRequest(_LABEL, reservation, "does not agree with the units that the pod requests", _ASK)
    return tuple(unit for unit in booked_units(pod) if unit[0] in resources)


def _units(units: Units) -> str:
    return describe_units(units) or "no units"


def _refuse_unplaced(pod: Mapping[str, Any]) -> None:
    """Refuses a pod without our marks that should have them."""
    refuse_written_shares(pod)
    demand = read_pod(pod).demand
    if demand is not None:
        raise InvalidRequest(
            demand.asks[0].field if demand.asks else demand.units[0].field,
            str(demand.asks[0].amount if demand.asks else demand.units[0].count),
            "asks for a card, but the pod was not placed: a later webhook added the ask, or took the placement away",
            LATER,
        )
