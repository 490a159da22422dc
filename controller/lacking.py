"""Which pods an owner lacks, and where each of them could go. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice, repeat
from typing import Any, Final, TypeAlias

from controller.room import Needs
from controller.workloads import pods_of
from shared.api import names
from shared.core.placement import Placed
from shared.core.pods import PodFacts
from shared.core.tolerations import Toleration, TolerationOperator
from shared.core.volumes import ClaimUse
from shared.core.wanted import creates_one_at_a_time, existing_pods, wanted_pods

_MOST_PODS: Final = 16
"""Of how many pods of one owner the places are looked for; one is reason enough to wake it."""

_CORDON: Final = Toleration(names.TAINT_UNSCHEDULABLE, TolerationOperator.EXISTS, effect="NoSchedule")
"""What the controller of DaemonSets adds to their pods."""

Find: TypeAlias = Callable[[Needs], Placed | None]
"""Finds the place of a pod with such needs."""


@dataclass(frozen=True, slots=True)
class Wants:
    """An owner as it was read: how many pods it wants, if it says, and what the pods of each template need.

    A StatefulSet's pods have numbers from `first` on, and one claim by each of the templates `claims`.
    """

    kind: str
    name: str
    pods: int | None
    templates: tuple[Needs, ...]
    one_at_a_time: bool = False
    claims: tuple[str, ...] = ()
    first: int = 0
    existing: int = 0
    """How many pods it said that it has when it was read: also some that nobody placed."""

    @property
    def has_all(self) -> bool:
        """Whether it says that it has every pod that it wants, so that it would create none."""
        return self.pods is not None and self.existing >= self.pods

    @classmethod
    def of(cls, owner: Mapping[str, Any], namespace: str, tolerated: Sequence[Toleration] = ()) -> Wants:
        """What `owner` wants. A template that asks for no card, or is malformed, has no needs.

        `tolerated` is what a pod of it tolerated when it was refused: admission may add that to every pod. What it may
        have added besides, selectors, only narrows, so an owner is woken in vain at worst.
        """
        spec = owner.get("spec") or {}
        kind = str(owner.get("kind"))
        stateful = kind == "StatefulSet"
        claims = (spec.get("volumeClaimTemplates") or ()) if stateful else ()
        if kind == "DaemonSet":
            tolerated = (*tolerated, _CORDON)
        templates = [
            needs.tolerating(*tolerated) for pod in pods_of(owner, namespace) if (needs := Needs.of(pod)) is not None
        ]
        return cls(
            kind=kind,
            name=owner["metadata"]["name"],
            pods=wanted_pods(owner),
            templates=tuple(templates),
            one_at_a_time=creates_one_at_a_time(owner),
            claims=tuple(claim["metadata"]["name"] for claim in claims),
            first=int((spec.get("ordinals") or {}).get("start", 0)) if stateful else 0,
            existing=existing_pods(owner),
        )

    def places(self, pods: Sequence[PodFacts], find: Find) -> Iterator[Placed]:
        """The places of the pods that the owner of `pods` lacks, the next one to be created first, up to 16.

        Where `find` finds none for a pod, it is asked for the next only if that needs something else.
        """
        daemons_on = {pod.node for pod in pods} if self.kind == "DaemonSet" else None
        for lacked in islice(self.lacked(pods), _MOST_PODS):
            either = lacked if daemons_on is None else [needs.off(daemons_on) for needs in lacked]
            placed = next((placed for needs in either if (placed := find(needs)) is not None), None)
            if placed is not None:
                yield placed
                if daemons_on is not None:
                    daemons_on.add(placed.node)
            elif not self.claims:
                return

    def lacked(self, pods: Sequence[PodFacts]) -> Iterator[Sequence[Needs]]:
        """For each pod that the owner of `pods` lacks, what it needs: one of these, where it has several templates.

        Of an owner that does not say how many it wants, the refusal says that it lacks one.
        """
        if self.pods is None:
            yield self.templates
        elif self.kind == "StatefulSet":
            taken = {pod.name for pod in pods}
            numbers = range(self.first, self.first + self.pods)
            lacked = (name for name in (f"{self.name}-{number}" for number in numbers) if name not in taken)
            for name in islice(lacked, 1 if self.one_at_a_time else None):
                yield [self._with_claims(needs, name) for needs in self.templates]
        else:
            yield from repeat(self.templates, max(0, self.pods - len(pods)))

    def _with_claims(self, needs: Needs, pod: str) -> Needs:
        """What the pod of that name needs: where its claims are bound already, it follows its volumes."""
        namespace = needs.constraints.namespace
        uses = (f"{claim}-{pod}" for claim in self.claims)
        return needs.claiming(tuple(ClaimUse(name, key=f"{namespace}/{name}") for name in uses))
