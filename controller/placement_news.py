"""What is told of the pods of a workload: a pure function of them and of what its status showed before."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from controller.events import EventType
from controller.placement_status import MOST_PLACEMENTS, card_phrase
from shared.core.pods import PodFacts
from shared.core.wording import counted

News: TypeAlias = tuple[EventType, str, str]
"""Type, reason and message of an event."""

_NAMED: Final = 3


def placement_news(
    old: Mapping[str, Any],
    pods: Iterable[PodFacts],
    preempting: Collection[str],
    victims_of: Callable[[PodFacts], int],
) -> Iterator[News]:
    """The events to tell, one for all pods of which the same is to be told.

    `old` is the status so far, `preempting` are the uids of pods that wait until others have left their cards, and
    `victims_of` says how many those are.
    """
    shown = {placement.get("uid"): bool(placement.get("preempting")) for placement in old.get("placements") or ()}
    # Of a large workload some are not shown, so nobody knows any more which of them were told.
    may_be_new = len(shown) < MOST_PLACEMENTS
    staying = sorted((pod for pod in pods if pod.is_placed and not pod.terminating), key=lambda pod: pod.name)
    # A pod that was shown is told again only once it need not wait any longer.
    fresh = [pod for pod in staying if shown.get(pod.key, may_be_new)]
    placed = [pod for pod in fresh if pod.key not in preempting]
    waits = [pod for pod in fresh if pod.key in preempting and pod.key not in shown]
    if placed:
        yield EventType.NORMAL, "Placed", _placed(placed)
    if waits:
        yield EventType.NORMAL, "Preempting", _preempting(waits, victims_of)
    # Without the pod's name, so that pods of one template are one event.
    for warning in dict.fromkeys(text for pod in fresh if pod.key not in shown for text in pod.warnings):
        yield EventType.WARNING, "PlacementWarning", warning


def _placed(pods: Sequence[PodFacts]) -> str:
    if len(pods) == 1:
        return f"pod {pods[0].name} is placed on {card_phrase(pods[0])}"
    return f"{len(pods)} pods are placed: {_first(pods)}"


def _preempting(pods: Sequence[PodFacts], victims_of: Callable[[PodFacts], int]) -> str:
    if len(pods) > 1:
        return f"{len(pods)} pods wait until pods of lower priority have left their cards: {_first(pods)}"
    pod = pods[0]
    victims = victims_of(pod)
    have_left = "1 pod of lower priority has left" if victims == 1 else f"{_pods(victims)} of lower priority have left"
    return f"pod {pod.name} gets {card_phrase(pod)} as soon as {have_left}"


def _pods(number: int) -> str:
    return counted(number, "pod") if number else "pods"


def _first(pods: Sequence[PodFacts]) -> str:
    words = [f"{pod.name} on {card_phrase(pod)}" for pod in pods[:_NAMED]]
    more = len(pods) - _NAMED
    return "; ".join([*words, f"and {more} more"] if more > 0 else words)
