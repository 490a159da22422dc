"""The mutating webhook: decides where a model pod goes, records it, and rewrites the pod.

1. Read what the pod asks for; a pod that asks for nothing passes as it is.
2. Our own output, reviewed again, passes unchanged, unless another webhook has changed it so that its node takes it no
   more; then, and with other marks of ours, these are taken off and the pod is placed anew.
3. Decide on the live picture and hold the choice in this process.
4. Record it in the node's ledger, in place of an earlier attempt that failed or of a seat that was kept for the pod's
   workload, or decide again if others were faster.
5. Answer with the patch.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any, Final

from shared.api import names
from shared.core import ledger as ledger_core
from shared.core.constraints import Constraints
from shared.core.containers import mapping, read_containers
from shared.core.demand import ReadPod, read_pod
from shared.core.invalid import InvalidRequest
from shared.core.ledger import Entry, Mark
from shared.core.owners import controller_of
from shared.core.placement import Placed, find_place, place
from shared.core.pods import PodFacts, pinned_node
from shared.core.preemption import find_preemption, may_preempt
from shared.core.refusal import Invalid
from shared.core.remedies import with_remedies
from shared.kube.cluster import Cluster, Located
from shared.kube.errors import ApiError
from shared.kube.ledger import Ledger
from webhook.cautions import cautions
from webhook.marks import (
    booked_shares,
    booked_units,
    has_lost_its_ask,
    is_marked,
    refuse_written_shares,
    reservation_of,
    strip,
    without_defaults,
)
from webhook.notices import announced, notices
from webhook.outcome import Admitted, Cause, Outcome, Refused, Unrecorded
from webhook.patch import PodPatch
from webhook.placed_record import read_record
from webhook.pod_size import passes_unread
from webhook.promised import constraints_of, on_cards, promised
from webhook.recording import Decision, Recording, Wish
from webhook.review import Request
from webhook.rewrite import hide_devices, note_warnings, rewrite, silence_defaults
from webhook.second_look import SecondLook, digest_of
from webhook.take_over import TakeOver
from webhook.take_seat import TakeSeat

_MOST_ROUNDS: Final = 200
"""How often a pod is decided on anew at most; under the heaviest rushes it takes a handful."""

_PATIENCE_S: Final = 1.0
"""How long the look-ups of earlier attempts and kept seats may keep a create waiting, all of them together."""

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
        take_seat: TakeSeat,
        *,
        new_id: Callable[[], str],
        unix_time: Callable[[], int],
        runtime_class: str | None,
        preemption: bool = False,
        patience_s: float = _PATIENCE_S,
    ) -> None:
        self._cluster = cluster
        self._ledger = ledger
        self._take_over = take_over
        self._take_seat = take_seat
        self._recording = Recording(cluster, ledger, unix_time)
        self._new_id = new_id
        self._runtime_class = runtime_class
        self._preemption = preemption
        self._patience_s = patience_s

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
        patch, located = PodPatch(pod), None
        if is_marked(pod):
            read_containers(pod)  # both refuse what is no pod before it is taken apart
            final = constraints_of(request, pod)
            located = await self._own_entry(request, pod)
            strip(patch)
            if located is not None and self._still_takes(SecondLook.at(request, pod, patch.pod, located), final):
                return _kept(pod, located.entry)
        refuse_written_shares(patch.pod)
        read = _asked(patch.pod, pod)
        if read.demand is None and not read.hidden:
            return Admitted(tuple(patch.ops))
        constraints = constraints_of(request, patch.pod)
        hide_devices(patch, read.hidden)
        if read.demand is None:
            return Admitted(tuple(patch.ops))
        given_up = None if located is None else reservation_of(pod)
        return await self._place(request, patch, read, constraints, deadline, given_up)

    async def _place(
        self,
        request: Request,
        patch: PodPatch,
        read: ReadPod,
        constraints: Constraints,
        deadline: float,
        given_up: str | None,
    ) -> Outcome:
        """Finds a place for a pod and records it. `given_up` is the entry of the place that it had and cannot keep."""
        assert read.demand is not None
        pod, spec = promised(request, patch.pod, constraints), patch.pod["spec"]
        # On a dry run the id is one that no ledger ever holds; validate then compares pod, pin and record only.
        wish = Wish(pod, self._new_id(), spec, read.demand, constraints)
        time = asyncio.get_running_loop().time
        patient_until = time() + self._patience_s
        for _ in range(_MOST_ROUNDS):
            replaced = None if request.dry_run else await self._replaced(wish, given_up, patient_until)
            attempts = self._take_over.attempts_elsewhere(pod)
            decision = self._decide(wish, replaced)
            if isinstance(decision, Refused):
                return decision
            try:
                is_owed = partial(self._is_owed, pod, attempts)
                if request.dry_run or await self._recording.record(wish, decision, replaced, deadline, is_owed):
                    return self._admitted(request, patch, read, wish, decision)
            except TimeoutError:
                return Unrecorded("no time was left to record it", cause=Cause.DEADLINE)
            if time() >= deadline:
                break
            # A round that waited for no answer must not keep the other reviews waiting.
            await asyncio.sleep(0)
        return Unrecorded(_OVERTAKEN, cause=Cause.OVERTAKEN)

    def _is_owed(self, pod: PodFacts, attempts: frozenset[str]) -> bool:
        """Whether the owner may still have one more, as it was decided when it had these `attempts` elsewhere."""
        return self._take_over.attempts_elsewhere(pod) <= attempts

    def _admitted(self, request: Request, patch: PodPatch, read: ReadPod, wish: Wish, decision: Decision) -> Admitted:
        """The answer for a pod that has its place."""
        placed = decision.placed
        demands = digest_of(wish.constraints)
        about_servers = rewrite(patch, read, placed, decision.state, wish.reservation, self._runtime_class, demands)
        warnings = (
            *read.warnings,
            *announced(decision.preemption, request.namespace),
            *cautions(patch.pod),
            *notices(self._cluster, wish.constraints, patch.pod, placed.node),
            *about_servers,
        )
        note_warnings(patch, warnings)
        return Admitted(tuple(patch.ops), warnings, wish.reservation, placed.node)

    async def _replaced(self, wish: Wish, given_up: str | None, until: float) -> str | None:
        """The entry whose place the pod takes: the one that it had itself, a failed attempt of its owner, or a kept
        seat of its workload.
        """
        if given_up is not None and self._is_open(given_up, wish.pod.namespace):
            return given_up
        failed = await self._take_over.find(wish.pod, wish.spec, until)
        if failed is not None:
            return failed

        def place_without(seats: Collection[str]) -> Placed | None:
            return find_place(wish.picture(self._cluster, *seats), wish.demand, wish.constraints)

        return await self._take_seat.find(wish.pod, place_without, until)

    def _decide(self, wish: Wish, replaced: str | None) -> Decision | Refused:
        """Where the pod goes, and who has to leave first if anybody; or why it goes nowhere."""
        picture = wish.picture(self._cluster, replaced)
        placed, preemption = place(picture, wish.demand, wish.constraints), None
        if not isinstance(placed, Placed):
            if placed.can_wait and may_preempt(wish.spec):
                preemption = find_preemption(picture, wish.demand, wish.constraints, wish.pod.priority)
            if preemption is None or not self._preemption:
                return Refused(with_remedies(placed, picture, wish.pod, wish.demand, wish.constraints, preemption))
            placed = preemption.placed
        state = self._cluster.node(placed.node)
        assert state is not None
        return Decision(placed, state, preemption)

    def _is_open(self, reservation: str, namespace: str) -> bool:
        """Whether an entry is there that stands for no pod, and no other pod is about to take its place."""
        is_taken = self._cluster.is_replaced(reservation) or self._cluster.carriers(reservation, namespace)
        return not is_taken and self._cluster.locate(reservation) is not None

    def _still_takes(self, look: SecondLook, final: Constraints) -> bool:
        """Whether the node of a placement can take the pod, which another webhook may have changed since: `final` is
        what it demands now, with its pin. If so, the pod is held as it is now.

        What happened to the node meanwhile is no reason: placed anew, the pod would hold two places for a while. Nor
        is a node that the watch has not shown here yet: whoever placed the pod has seen it.
        """
        node, entry = look.located.node, look.located.entry
        state = self._cluster.node(node)
        if final.node_name not in (None, node) or not (state is None or final.select(state.facts)):
            return False
        if not look.finds_a_change(self._cluster):
            return True
        if look.needs_more_memory(self._cluster) or not look.still_fits(self._cluster):
            return False
        if self._cluster.is_held(look.reservation):
            self._cluster.hold(look.reservation, on_cards(look.pod, node, entry.shares, entry.units))
        return True

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
            self._cluster.age_s(reservation) <= ledger_core.UNCONFIRMED_TTL_S
            and entry.mark is not Mark.KEPT
            and entry.namespace == request.namespace
            and entry.owner_hash == ledger_core.owner_hash(owner.uid if owner else "")
            and (entry.shares, entry.units) == (booked_shares(pod), without_defaults(booked_units(pod), entry.units))
            and located.node == node
        )
        return located if is_own else None


def _kept(pod: Mapping[str, Any], entry: Entry) -> Admitted:
    """The answer for a pod that keeps its place: it stays as it is, but for defaults that were put back."""
    patch = PodPatch(pod)
    silence_defaults(patch, entry.units)
    return Admitted(tuple(patch.ops))


def _asked(stripped: Mapping[str, Any], pod: Mapping[str, Any]) -> ReadPod:
    """What `pod` asks, which was `stripped` of our marks if it had any. Raises `InvalidRequest`."""
    try:
        read = read_pod(stripped, read_record(pod).containers)
    except InvalidRequest as error:
        if has_lost_its_ask(pod):
            # What is wrong then may be what a placement wrote and nobody can tell from the user's own words.
            raise _without_ask(pod) from error
        raise
    if read.demand is None and is_marked(pod):
        raise _without_ask(pod)
    return read


def _without_ask(pod: Mapping[str, Any]) -> InvalidRequest:
    """Why a marked pod is refused of which nothing tells what it asks."""
    if has_lost_its_ask(pod):
        problem = "a copy without the annotations that tell what it asked"
        fix = f"keep them (kubectl debug --keep-annotations), or ask with {names.VRAM}"
    else:
        problem, fix = "a pod that asks for nothing", f"remove it, or ask with the annotation {names.VRAM}"
    label = f"metadata.labels[{names.RESERVATION}]"
    return InvalidRequest(label, str(reservation_of(pod)), f"is a placement's mark on {problem}", fix)
