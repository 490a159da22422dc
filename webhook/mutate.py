"""The mutating webhook: decides where a model pod goes, records it, and rewrites the pod.

1. Read what the pod asks for; a pod that asks for nothing passes as it is.
2. Our own output, reviewed again, passes unchanged; other marks of ours are taken off and the pod is placed anew.
3. Decide on the live picture and hold the choice in this process.
4. Record it in the node's ledger, in place of an earlier attempt that failed or of a seat that was kept for the pod's
   workload, or decide again if others were faster.
5. Answer with the patch.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from shared.api import names
from shared.core import ledger as ledger_core
from shared.core.constraints import Constraints, read_constraints
from shared.core.containers import mapping, read_containers, text
from shared.core.demand import Demand, ReadPod, is_booked, read_pod
from shared.core.filters import admits_load
from shared.core.invalid import InvalidRequest
from shared.core.ledger import Entry, Mark
from shared.core.owners import controller_of
from shared.core.peers import Peers
from shared.core.placement import Placed, find_place, place
from shared.core.pods import PodFacts, pinned_node, pod_facts
from shared.core.preemption import Preemption, find_preemption
from shared.core.refusal import Invalid
from shared.core.remedies import with_remedies
from shared.core.snapshot import NodeState, Snapshot
from shared.core.system_memory import memory_mib
from shared.kube.cluster import Cluster, Located
from shared.kube.errors import ApiError
from shared.kube.ledger import Ledger
from webhook.cautions import cautions
from webhook.marks import (
    booked_shares,
    booked_units,
    is_marked,
    refuse_written_shares,
    reservation_of,
    strip,
    without_defaults,
)
from webhook.notices import announced, notices
from webhook.outcome import Admitted, Cause, Outcome, Refused, Unrecorded
from webhook.patch import PodPatch
from webhook.pod_size import passes_unread
from webhook.review import Request
from webhook.rewrite import hide_devices, rewrite, silence_defaults
from webhook.seats import Seats
from webhook.siblings import picture_for
from webhook.take_over import TakeOver

_MOST_ROUNDS: Final = 200
"""How often a pod is decided on anew at most; under the heaviest rushes it takes a handful."""

_OVERTAKEN: Final = "other creates kept taking the room that was found"


class Mutator:
    """Answers mutating reviews. `new_id` makes reservation ids, `unix_time` is the wall clock in whole seconds.

    `preemption` says whether a pod that fits nowhere may take the place of pods of lower priority.
    """

    def __init__(
        self,
        cluster: Cluster,
        ledger: Ledger,
        take_over: TakeOver,
        seats: Seats,
        *,
        new_id: Callable[[], str],
        unix_time: Callable[[], int],
        runtime_class: str | None,
        preemption: bool = False,
    ) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._take_over = take_over
        self._seats = seats
        self._new_id = new_id
        self._unix_time = unix_time
        self._runtime_class = runtime_class
        self._preemption = preemption

    async def review(self, request: Request, deadline: float) -> Outcome:
        """The outcome for a pod's CREATE. `deadline` is the loop time by which the answer must be on its way."""
        assert request.pod is not None
        try:
            return await self._review(request, request.pod, deadline)
        except InvalidRequest as error:
            return Refused(Invalid.of(error))
        except ApiError as error:
            return Unrecorded.of(error)

    async def _review(self, request: Request, pod: Mapping[str, Any], deadline: float) -> Outcome:
        if passes_unread(pod):
            return Admitted()
        patch = PodPatch(pod)
        if is_marked(pod):
            read_containers(pod)  # both refuse what is no pod before it is taken apart
            final = _constraints(pod, request)
            located = await self._own_entry(request, pod)
            if located is not None and self._still_takes(located.node, final):
                silence_defaults(patch, located.entry.units)
                return Admitted(tuple(patch.ops))
            strip(patch)
        refuse_written_shares(patch.pod)
        read = read_pod(patch.pod)
        if read.demand is None and is_marked(pod):
            raise InvalidRequest(
                f"metadata.labels[{names.RESERVATION}]",
                str(reservation_of(pod)),
                "is a placement's mark on a pod that asks for nothing",
                f"remove it, or ask with the annotation {names.VRAM}",
            )
        if read.demand is None and not read.hidden:
            return Admitted(tuple(patch.ops))
        constraints = _constraints(patch.pod, request)
        hide_devices(patch, read.hidden)
        if read.demand is None:
            return Admitted(tuple(patch.ops))
        return await self._place(request, patch, read, constraints, deadline)

    async def _place(
        self, request: Request, patch: PodPatch, read: ReadPod, constraints: Constraints, deadline: float
    ) -> Outcome:
        demand = read.demand
        assert demand is not None
        reservation = self._new_id()
        pod = _promised(request, patch.pod, constraints)
        owner_hash = ledger_core.owner_hash(pod.owner.uid if pod.owner else "")
        # On a dry run the id is one that no ledger ever holds; validate then compares pod, pin and record only.
        for _ in range(_MOST_ROUNDS):
            replaced = None
            if not request.dry_run:
                replaced = await self._replaced(pod, reservation, patch.pod["spec"], demand, constraints)
            picture = picture_for(self._cluster, pod, reservation, replaced)
            decided = self._decide(picture, pod, patch.pod["spec"], demand, constraints)
            if isinstance(decided, Refused):
                return decided
            verdict, preemption = decided
            state = self._cluster.node(verdict.node)
            assert state is not None
            if request.dry_run:
                break
            memory = memory_mib(constraints.requests) if state.memory is not None else 0
            mark = Mark.NONE if preemption is None else Mark.PREEMPTING
            victims = frozenset() if preemption is None else preemption.keys
            since = self._unix_time()
            entry = Entry(request.namespace, owner_hash, since, verdict.booking, memory, verdict.units, mark)
            self._cluster.hold(reservation, _on_cards(pod, verdict), replaced)
            recorded = False
            left = None if replaced is None else self._cluster.locate(replaced)
            elsewhere = left is not None and left.node != verdict.node
            try:
                async with asyncio.timeout_at(deadline):
                    recorded = await self._ledger.reserve(
                        verdict.node,
                        reservation,
                        entry,
                        partial(self._admits, state, pod, reservation, constraints, replaced, victims),
                        replaces=None if elsewhere else replaced,
                        victims=victims,
                    )
            except TimeoutError:
                return Unrecorded("no time was left to record it", cause=Cause.DEADLINE)
            finally:
                if not recorded:
                    self._cluster.release(reservation)
            if recorded:
                if left is not None and replaced is not None and elsewhere:
                    await self._leave(left.node, replaced, deadline)
                break
            if asyncio.get_running_loop().time() >= deadline:
                return Unrecorded(_OVERTAKEN, cause=Cause.OVERTAKEN)
            # A round that waited for no answer must not keep the other reviews waiting.
            await asyncio.sleep(0)
        else:
            return Unrecorded(_OVERTAKEN, cause=Cause.OVERTAKEN)
        warnings = rewrite(patch, read, verdict, state, reservation, self._runtime_class)
        notes = (
            *announced(preemption, request.namespace),
            *cautions(patch.pod),
            *notices(self._cluster, constraints, patch.pod, verdict.node),
        )
        return Admitted(tuple(patch.ops), (*read.warnings, *notes, *warnings), reservation, verdict.node)

    async def _replaced(
        self, pod: PodFacts, reservation: str, spec: Mapping[str, Any], demand: Demand, constraints: Constraints
    ) -> str | None:
        """The entry whose place the pod takes: a failed attempt of its owner, or a kept seat of its workload."""
        failed = await self._take_over.find(pod, reservation, spec)
        if failed is not None:
            return failed

        def node_without(seat: str) -> str | None:
            found = find_place(picture_for(self._cluster, pod, reservation, seat), demand, constraints)
            return None if found is None else found.node

        return await self._seats.find(pod, node_without)

    def _decide(
        self, picture: Snapshot, pod: PodFacts, spec: Mapping[str, Any], demand: Demand, constraints: Constraints
    ) -> tuple[Placed, Preemption | None] | Refused:
        """Where the pod goes, and who has to leave first if anybody; or why it goes nowhere."""
        verdict = place(picture, demand, constraints)
        if isinstance(verdict, Placed):
            return verdict, None
        preemption = None
        if verdict.can_wait and spec.get("preemptionPolicy") != names.PREEMPT_NEVER:
            preemption = find_preemption(picture, demand, constraints, pod.priority)
        if preemption is None or not self._preemption:
            return Refused(with_remedies(verdict, picture, pod, demand, constraints, preemption))
        return preemption.placed, preemption

    async def _leave(self, node: str, reservation: str, deadline: float) -> None:
        """Ends an earlier attempt that the new one replaces on another node; if that fails, it runs out by itself."""
        with contextlib.suppress(ApiError, TimeoutError):
            async with asyncio.timeout_at(deadline):
                await self._ledger.drop(node, reservation)

    def _admits(
        self,
        chosen: NodeState,
        pod: PodFacts,
        reservation: str,
        constraints: Constraints,
        replaced: str | None,
        victims: frozenset[str],
    ) -> bool:
        """Whether a node that was chosen still takes the pod, whatever other replicas promised meanwhile.

        What is booked of its cards was worked out from their sizes and the node's mode, so those must be the same.
        `victims` are pods that leave first.
        """
        picture = picture_for(self._cluster, pod, reservation, replaced)
        if victims and chosen.name in picture.nodes:
            picture = picture.changed({chosen.name: picture.nodes[chosen.name].without_pods(victims)})
        state = picture.nodes.get(chosen.name)
        return (
            state is not None
            and state.inventory == chosen.inventory
            and admits_load(state, constraints, Peers.of(picture, constraints))
        )

    def _still_takes(self, node: str, constraints: Constraints) -> bool:
        """Whether the chosen node can take the pod, to which another webhook may have added a selector since.

        What happened to the node meanwhile is no reason: placed anew, the pod would hold two places for a while. Nor is
        a node that the watch has not shown here yet: whoever placed the pod has seen it.
        """
        state = self._cluster.node(node)
        return constraints.node_name in (None, node) and (
            state is None
            or (
                constraints.select(state.facts)
                and all(amount <= state.facts.allocatable.get(name, 0) for name, amount in constraints.requests.items())
            )
        )

    async def _own_entry(self, request: Request, pod: Mapping[str, Any]) -> Located | None:
        """The entry of a pod that some replica placed a moment ago, reviewed again before it is stored; else None."""
        reservation, node = reservation_of(pod), pinned_node(mapping(pod.get("spec"), "spec"))
        if reservation is None or node is None:
            return None
        located = await self._ledger.locate(reservation, node)
        if located is None or self._cluster.carriers(reservation, request.namespace):
            return None
        owner = controller_of(pod)
        entry = located.entry
        is_own = (
            self._unix_time() - entry.since <= ledger_core.UNCONFIRMED_TTL_S
            and entry.namespace == request.namespace
            and entry.owner_hash == ledger_core.owner_hash(owner.uid if owner else "")
            and (entry.shares, entry.units) == (booked_shares(pod), without_defaults(booked_units(pod), entry.units))
            and located.node == node
        )
        return located if is_own else None


def _promised(request: Request, pod: Mapping[str, Any], constraints: Constraints) -> PodFacts:
    """The pod as it will be, so that decisions made before it exists count its cpu, ports and labels too."""
    metadata = _metadata(pod, request)
    kept = {key: metadata.get(key) for key in ("namespace", "labels", "ownerReferences")}
    kept["name"] = text(metadata.get("name"), "metadata.name")
    facts = pod_facts({"metadata": kept, "spec": {**pod["spec"], "nodeName": "chosen later"}})
    assert facts is not None, "a pod with a node name is on that node"
    return replace(facts, bound=False, shares=(), requests=constraints.requests)


def _on_cards(pod: PodFacts, placed: Placed) -> PodFacts:
    """The promised pod on the node, with the cards and units that were chosen."""
    cards = {names.card_resource(index): gb for index, gb in placed.booking}
    requests = {**pod.requests, **cards, **dict(placed.units)}
    return replace(pod, node=placed.node, shares=placed.booking, requests=requests)


def _constraints(pod: Mapping[str, Any], request: Request) -> Constraints:
    """Where the pod may go. Raises `InvalidRequest` where it is not what Kubernetes defines."""
    pod_in_namespace = {**pod, "metadata": _metadata(pod, request)}
    return read_constraints(pod_in_namespace, without=is_booked)


def _metadata(pod: Mapping[str, Any], request: Request) -> dict[str, Any]:
    """The pod's metadata with the namespace of the request: the object itself may leave it out."""
    return {**mapping(pod.get("metadata"), "metadata"), "namespace": request.namespace}
