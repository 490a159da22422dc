"""A placed pod that is reviewed again: whether its node still takes it after another webhook has changed its demands.

What happened on and around the node meanwhile is no reason to give up a place. So a pod that demands what it demanded
when it was placed keeps it unseen; the record tells so by a digest. An edited record misleads about nothing but its
author's own pod, and never about the memory behind a pool: that the ledger tells.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from shared.api import names
from shared.core.constraints import Constraints
from shared.core.demand import Demand, is_booked
from shared.core.filters import Exclusion, Filters, admits_load, node_exclusions
from shared.core.ledger import Mark
from shared.core.nofit import explain_no_fit
from shared.core.peers import Peers
from shared.core.pods import PodFacts
from shared.core.preemption import once_preempted
from shared.core.refusal import NoFit
from shared.core.remedies import with_remedies
from shared.core.snapshot import NodeState, Snapshot
from shared.core.system_memory import memory_mib
from shared.kube.cluster import Cluster, Located
from webhook.marks import reservation_of
from webhook.placed_record import read_record
from webhook.promised import constraints_of, promised
from webhook.review import Request
from webhook.siblings import picture_for

_PASSING: Final = frozenset({Exclusion.NOT_READY, Exclusion.CORDONED})
"""What the node says of itself. No webhook changes a pod so that these keep it away."""


def digest_of(constraints: Constraints) -> str:
    """Eight hexadecimal digits that stand for what a pod demands of its node and of the pods around it.

    Tolerations by which ExtendedResourceToleration answers what the placement itself gave are left out.
    """
    asked = (each for each in constraints.tolerations if names.card_index(each.key) is None and not is_booked(each.key))
    constraints = replace(constraints, tolerations=tuple(asked))
    try:
        # In one order, whatever that of its maps and sets is: another process may compare it.
        text = orjson.dumps(constraints, default=sorted, option=orjson.OPT_SORT_KEYS)
    except orjson.JSONEncodeError:  # An amount beyond 64 bits, that no node has.
        text = repr(constraints).encode()
    return hashlib.sha256(text).hexdigest()[:8]


@dataclass(frozen=True, slots=True)
class SecondLook:
    """A pod that carries the id `reservation`, and the entry of that id.

    `constraints` are what it demands without what the placement put on it. With its pin it would be alone in the world:
    a topology spread counts only nodes that the pod may use. `digest` is that of what it demanded once, as its record
    tells.
    """

    pod: PodFacts
    reservation: str
    located: Located
    constraints: Constraints
    digest: str

    @classmethod
    def at(cls, request: Request, pod: Mapping[str, Any], bare: Mapping[str, Any], located: Located) -> SecondLook:
        """A look at the marked pod of a request; `bare` is the same without what the placement put on it. Raises
        `InvalidRequest`.
        """
        constraints = constraints_of(request, bare)
        facts, reservation = promised(request, bare, constraints), reservation_of(pod) or ""
        return cls(facts, reservation, located, constraints, read_record(pod).demands)

    def finds_a_change(self, cluster: Cluster) -> bool:
        """Whether the pod demands anything else than when it was placed."""
        return self.digest != digest_of(self.constraints) or self.needs_more_memory(cluster)

    def needs_more_memory(self, cluster: Cluster) -> bool:
        """Whether it requests more of its node's memory than its entry tells, where cards give away the same memory."""
        state = cluster.node(self.located.node)
        if state is None or state.memory is None:
            return False
        return memory_mib(self.constraints.requests) > self.located.entry.memory_mib

    def still_fits(self, cluster: Cluster) -> bool:
        """Whether the filters that chose the node would let the pod have its place there now.

        A node that the watch has not shown here yet is no reason: whoever placed the pod has seen it.
        """
        picture = self._picture(cluster)
        state = picture.nodes.get(self.located.node)
        if state is None:
            return True
        constraints = self.constraints.settled(picture.volumes)
        own = constraints.requests.get(names.MEMORY, 0)
        return (
            _PASSING.issuperset(node_exclusions(state.facts, constraints))
            and admits_load(state, constraints, Peers.of(picture, constraints))
            and (state.memory is None or state.memory.suffices(self.located.entry.shares, own))
        )

    def no_fit(self, cluster: Cluster, demand: Demand) -> NoFit:
        """Why its node does not take the pod, which asks for `demand`, any more."""
        picture = self._picture(cluster)
        only_there = replace(picture, nodes={self.located.node: picture.nodes[self.located.node]})
        constraints = self.constraints.settled(picture.volumes)
        filters = Filters(constraints, Peers.of(picture, constraints))
        refusal = explain_no_fit(only_there, demand, constraints, filters)
        return with_remedies(refusal, only_there, self.pod, demand, constraints)

    def _picture(self, cluster: Cluster) -> Snapshot:
        """The cluster without the pod's own promise, and without those who have to leave first, if anybody has."""
        picture = picture_for(cluster, self.pod, self.reservation, [self.reservation])
        state: NodeState | None = picture.nodes.get(self.located.node)
        if state is None or self.located.entry.mark is not Mark.PREEMPTING:
            return picture
        return picture.changed({self.located.node: once_preempted(state, self.pod.priority)})
