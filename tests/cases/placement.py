"""Checks of where a pod was placed: its node, its cards, and the GB on each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from shared.api import names
from tests.cases.outcome import Answer
from tests.cases.scheduler import chosen_node
from tests.fakes.objects import Json
from tests.fakes.pod_rules import amount, containers_of


def shares_of(pod: Json, kind: str = "requests") -> dict[str, dict[str, int]]:
    """GB by per-card resource for every container that has one."""
    found: dict[str, dict[str, int]] = {}
    for container in containers_of(pod):
        amounts = (container.get("resources") or {}).get(kind) or {}
        cards = {name: int(amount(value)) for name, value in amounts.items() if names.card_index(name) is not None}
        if cards:
            found[container["name"]] = cards
    return found


def cards_of(pod: Json) -> tuple[str | None, tuple[int, ...]]:
    """The node of a pod and its cards."""
    return chosen_node(pod), tuple(sorted(_gb_by_card(pod)))


def limits_equal_requests(pod: Json) -> Iterator[str]:
    """Per-card limits equal requests always."""
    limits, requests = shares_of(pod, "limits"), shares_of(pod, "requests")
    if limits != requests:
        yield f"limitsEqualRequests: expected limits {requests}, got {limits}"


def _gb_by_card(pod: Json, container: str | None = None) -> dict[int, int]:
    """GB by card that one container requests, or all of them together."""
    total: dict[int, int] = {}
    for name, cards in shares_of(pod).items():
        if container in {None, name}:
            for resource, gb in cards.items():
                index = names.card_index(resource)
                assert index is not None
                total[index] = total.get(index, 0) + gb
    return total


def _node(wanted: str, _verdict: Json, answer: Answer) -> Iterator[str]:
    got = chosen_node(answer.after)
    if got != wanted:
        yield f"node: expected {wanted}, got {got or 'no pin'}"


def _node_any_of(wanted: Sequence[str], _verdict: Json, answer: Answer) -> Iterator[str]:
    got = chosen_node(answer.after)
    if got not in wanted:
        yield f"nodeAnyOf: expected one of {list(wanted)}, got {got or 'no pin'}"


def _gpu_indices(wanted: Sequence[int], _verdict: Json, answer: Answer) -> Iterator[str]:
    got = sorted(_gb_by_card(answer.after))
    if got != sorted(wanted):
        yield f"gpuIndices: expected {sorted(wanted)}, got {got}"


def _gpu_indices_any_of(wanted: Sequence[Sequence[int]], _verdict: Json, answer: Answer) -> Iterator[str]:
    got = sorted(_gb_by_card(answer.after))
    if got not in [sorted(each) for each in wanted]:
        yield f"gpuIndicesAnyOf: expected one of {wanted}, got {got}"


def _gpu_count(wanted: int, _verdict: Json, answer: Answer) -> Iterator[str]:
    got = len(_gb_by_card(answer.after))
    if got != wanted:
        yield f"gpuCount: expected {wanted}, got {got}"


def _requests(wanted: Json, _verdict: Json, answer: Answer) -> Iterator[str]:
    expected = {name: {key: amount(gb) for key, gb in cards.items()} for name, cards in wanted.items() if cards}
    got = shares_of(answer.after)
    if got != expected:
        yield f"requests: expected {expected}, got {got}"


def _gb_per_gpu(wanted: int, verdict: Json, answer: Answer) -> Iterator[str]:
    got = _gb_by_card(answer.after, verdict.get("container"))
    if not got or set(got.values()) != {wanted}:
        yield f"vramGBPerGpu: expected {wanted} on each card, got {got}"


def _container(wanted: str, _verdict: Json, answer: Answer) -> Iterator[str]:
    if wanted not in [container["name"] for container in containers_of(answer.after)]:
        yield f"container: expected {wanted}, got no such container"


def _limits_equal_requests(_wanted: bool, _verdict: Json, answer: Answer) -> Iterator[str]:
    yield from limits_equal_requests(answer.after)


def _resources_kept(wanted: Sequence[str], _verdict: Json, answer: Answer) -> Iterator[str]:
    """What was asked stays as it was; what the product may add where it was not asked (convention 10) is there."""
    for resource in wanted:
        before, after = _amounts(answer.before, resource), _amounts(answer.after, resource)
        kept = before == after if before else any(after.values())
        if not kept:
            yield f"resourcesKept: {resource}: expected {before or 'it on the pod'}, got {after}"


def _on_different_cards(_wanted: bool, _verdict: Json, answer: Answer) -> Iterator[str]:
    cards = [resource for shares in shares_of(answer.after).values() for resource in shares]
    if len(cards) != len(set(cards)):
        yield f"containersOnDifferentCards: expected a card of its own for each, got {shares_of(answer.after)}"


def _amounts(pod: Json, resource: str) -> dict[tuple[str, str], Any]:
    return {
        (container["name"], kind): amount(amounts[resource])
        for container in containers_of(pod)
        for kind, amounts in (container.get("resources") or {}).items()
        if kind in {"limits", "requests"} and resource in amounts
    }


CHECKS: Final[dict[str, Callable[[Any, Json, Answer], Iterator[str]]]] = {
    "node": _node,
    "nodeAnyOf": _node_any_of,
    "gpuIndices": _gpu_indices,
    "gpuIndicesAnyOf": _gpu_indices_any_of,
    "gpuCount": _gpu_count,
    "requests": _requests,
    "vramGBPerGpu": _gb_per_gpu,
    "container": _container,
    "limitsEqualRequests": _limits_equal_requests,
    "resourcesKept": _resources_kept,
    "containersOnDifferentCards": _on_different_cards,
}

KEYS: Final = frozenset(CHECKS)
