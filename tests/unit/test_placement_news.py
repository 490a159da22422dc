"""What is told of a workload's pods: each once, and those of one look together."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from controller.events import EventType
from controller.placement_news import placement_news
from controller.placement_status import placement_status
from shared.core.pods import PodFacts
from tests.unit.core_builders import holder


def pod(name: str, gb: int = 6) -> PodFacts:
    return holder(name, {0: gb}, node="t4")


def shown(*pods: PodFacts, preempting: set[str] | None = None) -> dict[str, Any]:
    """The status that tells of `pods`."""
    return placement_status(pods, {}, len(pods), {}, "2026-11-30T10:00:00Z", preempting=preempting or set())


def news(
    *pods: PodFacts, old: dict[str, Any] | None = None, preempting: set[str] | None = None, victims: int = 2
) -> list[tuple[str, str]]:
    """Reason and message of what is told that is no warning."""
    every = placement_news(old or {}, pods, preempting or set(), lambda _pod: victims)
    return [(reason, message) for kind, reason, message in every if kind is EventType.NORMAL]


def warnings(*pods: PodFacts, old: dict[str, Any] | None = None, preempting: set[str] | None = None) -> list[str]:
    every = list(placement_news(old or {}, pods, preempting or set(), lambda _pod: 1))
    assert all(reason == "PlacementWarning" for kind, reason, _ in every if kind is EventType.WARNING)
    return [message for kind, _, message in every if kind is EventType.WARNING]


def test_one_pod_is_told_with_its_cards() -> None:
    assert news(pod("chat-1")) == [("Placed", "pod chat-1 is placed on gpu-0 of t4 with 6 GB")]


def test_pods_of_one_look_are_told_together_and_the_first_ones_named() -> None:
    assert news(pod("b"), pod("a")) == [
        ("Placed", "2 pods are placed: a on gpu-0 of t4 with 6 GB; b on gpu-0 of t4 with 6 GB")
    ]
    ((_, message),) = news(*(pod(f"chat-{number:02}", 1) for number in range(30)))
    assert message == (
        "30 pods are placed: chat-00 on gpu-0 of t4 with 1 GB; chat-01 on gpu-0 of t4 with 1 GB; "
        "chat-02 on gpu-0 of t4 with 1 GB; and 27 more"
    )


def test_what_was_told_is_not_told_again() -> None:
    assert news(pod("a"), old=shown(pod("a"))) == []
    assert news(pod("a"), pod("b"), old=shown(pod("a"))) == [
        ("Placed", "pod b is placed on gpu-0 of t4 with 6 GB"),
    ]


def test_of_a_workload_that_is_not_shown_whole_nobody_knows_who_is_new() -> None:
    pods = [pod(f"chat-{number:02}", 1) for number in range(21)]
    assert news(*pods, old=shown(*pods)) == []


def test_a_pod_that_shuts_down_is_no_news() -> None:
    assert news(replace(pod("a"), terminating=True)) == []


def test_a_pod_that_waits_for_others_is_told_with_their_number_and_as_placed_once_they_left() -> None:
    urgent = pod("urgent", 12)
    waits = {urgent.key}
    for victims, said in (
        (2, "2 pods of lower priority have left"),
        (1, "1 pod of lower priority has left"),
        (0, "pods of lower priority have left"),
    ):
        told = news(urgent, preempting=waits, victims=victims)
        assert told == [("Preempting", f"pod urgent gets gpu-0 of t4 with 12 GB as soon as {said}")]
    old = shown(urgent, preempting=waits)
    assert news(urgent, old=old, preempting=waits) == []
    assert news(urgent, old=old) == [("Placed", "pod urgent is placed on gpu-0 of t4 with 12 GB")]


def test_several_that_wait_for_others_are_told_together_beside_those_that_are_placed() -> None:
    pods = [pod("a"), pod("b"), pod("c")]
    told = dict(news(*pods, preempting={pods[0].key, pods[1].key}))
    assert told == {
        "Placed": "pod c is placed on gpu-0 of t4 with 6 GB",
        "Preempting": "2 pods wait until pods of lower priority have left their cards: "
        "a on gpu-0 of t4 with 6 GB; b on gpu-0 of t4 with 6 GB",
    }


def test_what_pods_were_warned_of_is_told_once_for_all_of_them() -> None:
    pods = [replace(pod(name), warnings=("set it", *more)) for name, more in (("a", ()), ("b", ("beware",)))]
    assert warnings(*pods) == ["set it", "beware"]
    assert warnings(*pods, old=shown(*pods)) == []
    assert warnings(*pods, old=shown(pods[0])) == ["set it", "beware"]


def test_the_warnings_of_a_pod_that_waits_for_others_are_not_told_again_when_it_is_placed() -> None:
    urgent = replace(pod("urgent", 12), warnings=("they will be evicted",))
    assert warnings(urgent, preempting={urgent.key}) == ["they will be evicted"]
    assert warnings(urgent, old=shown(urgent, preempting={urgent.key})) == []
