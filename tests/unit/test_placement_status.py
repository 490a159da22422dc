"""What a `ModelPlacement` says of its workload."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controller.placement_status import card_phrase, card_words, placement_status
from shared.core.pods import PodFacts
from tests.unit.core_builders import holder

NOW, BEFORE = "2026-11-30T10:00:00Z", "2026-11-30T09:00:00Z"


def pod(name: str = "chat-1", shares: dict[int, int] | None = None, running: bool = True) -> PodFacts:
    return replace(holder(name, shares if shares is not None else {0: 6}, node="t4"), running=running)


def refusal(since: str = BEFORE, waitable: bool = True, **fields: Any) -> dict[str, Any]:
    return {"reason": "insufficient_capacity", "message": "no room", "since": since, "waitable": waitable, **fields}


def leaving(name: str = "chat-1") -> PodFacts:
    """One that runs still, and shuts down."""
    return replace(pod(name), terminating=True)


def status(
    *pods: PodFacts, wanted: int = 1, refusals: dict[str, Any] | None = None, old: dict[str, Any] | None = None
) -> dict[str, Any]:
    return placement_status(pods, refusals or {}, wanted, old or {}, NOW)


TROUBLE = {"code": "OOM", "message": "container server of pod chat-1 ran out of GPU memory"}


def test_a_death_for_lack_of_memory_is_the_error_unless_a_pod_has_no_place() -> None:
    shown = placement_status([pod()], {}, 1, {}, NOW, trouble=TROUBLE)
    assert (shown["lastErrorCode"], shown["lastErrorMessage"]) == ("OOM", TROUBLE["message"])
    assert (shown["phase"], shown["reason"], shown["outOfMemory"]) == ("Running", "out_of_memory", TROUBLE)
    shown = placement_status([pod()], {"a": refusal()}, 2, {}, NOW, trouble=TROUBLE)
    assert (shown["lastErrorCode"], shown["lastErrorMessage"]) == ("NoFitError", "no room")
    assert shown["outOfMemory"] == TROUBLE


def test_lack_of_the_nodes_memory_has_a_reason_of_its_own() -> None:
    shown = placement_status([pod()], {}, 1, {}, NOW, trouble={**TROUBLE, "code": "OOMKilled"})
    assert (shown["lastErrorCode"], shown["reason"]) == ("OOMKilled", "out_of_node_memory")


def test_a_pod_whose_container_died_and_does_not_run_again_yet_does_not_run() -> None:
    shown = placement_status([pod(), pod("chat-2")], {}, 2, {}, NOW, down={"uid-models-chat-2"})
    assert shown["phase"] == "Placed"
    assert [each["running"] for each in shown["placements"]] == [True, False]
    assert condition(shown, "Running")["message"] == "1 of 2 pods run"


@pytest.mark.parametrize(
    ("pods", "wanted", "refusals", "running"),
    [
        pytest.param([pod()], 1, {}, ("True", "AllRunning"), id="all-run"),
        pytest.param([pod(running=False)], 1, {}, ("False", "NotAllRunning"), id="one-does-not"),
        pytest.param([pod()], 2, {}, ("False", "NotAllRunning"), id="one-is-to-come"),
        pytest.param([pod()], 2, {"a": refusal()}, ("False", "NotAllRunning"), id="one-was-refused"),
        pytest.param([leaving()], 1, {}, ("False", "NotAllRunning"), id="the-only-one-leaves"),
        pytest.param([], 0, {}, ("False", "NothingWanted"), id="none-is-wanted"),
    ],
)
def test_the_condition_running(
    pods: list[PodFacts], wanted: int, refusals: dict[str, Any], running: tuple[str, str]
) -> None:
    found = condition(status(*pods, wanted=wanted, refusals=refusals), "Running")
    assert (found["status"], found["reason"]) == running


@pytest.mark.parametrize(
    ("refusals", "message"),
    [
        pytest.param({}, "no pod is refused", id="nothing-refused"),
        pytest.param(
            {"a": refusal()}, "a refused pod is placed once it fits and its owner creates it again", id="full-now"
        ),
        pytest.param(
            {"a": refusal(waitable=False)},
            "what was refused fits nowhere, full or empty: ask for less, or change the cluster",
            id="never",
        ),
    ],
)
def test_whether_waiting_helps_is_said_in_words(refusals: dict[str, Any], message: str) -> None:
    assert condition(status(refusals=refusals), "Waiting")["message"] == message


def condition(of: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = [each for each in of["conditions"] if each["type"] == kind]
    condition: dict[str, Any] = found
    return condition


@pytest.mark.parametrize(
    ("pods", "wanted", "refusals", "phase"),
    [
        pytest.param([pod()], 1, {}, "Running", id="all-run"),
        pytest.param([pod(running=False)], 1, {}, "Placed", id="all-are-placed"),
        pytest.param([pod(), pod("chat-2", running=False)], 2, {}, "Placed", id="some-run"),
        pytest.param([pod()], 2, {}, "Pending", id="some-are-still-to-come"),
        pytest.param([], 1, {}, "Pending", id="none-has-come-yet"),
        pytest.param([], 0, {}, "Idle", id="nothing-is-wanted"),
        pytest.param([leaving()], 0, {}, "Idle", id="the-last-one-leaves"),
        pytest.param([leaving()], 1, {}, "Pending", id="the-only-one-leaves"),
        pytest.param([pod(), leaving("chat-2")], 1, {}, "Running", id="an-old-one-leaves"),
        pytest.param([pod(running=False), leaving("chat-2")], 1, {}, "Placed", id="only-the-one-that-leaves-runs"),
        pytest.param([pod()], 2, {"a": refusal()}, "Failed", id="one-was-refused"),
        pytest.param([], 1, {"a": refusal()}, "Failed", id="all-were-refused"),
        pytest.param([pod(), pod("chat-2")], 1, {}, "Running", id="a-rollout-has-one-more"),
    ],
)
def test_the_phase(pods: list[PodFacts], wanted: int, refusals: dict[str, Any], phase: str) -> None:
    assert status(*pods, wanted=wanted, refusals=refusals)["phase"] == phase


@pytest.mark.parametrize(
    ("pods", "unplaced", "message", "where"),
    [
        pytest.param(
            [pod()],
            1,
            "1 of 2 pods have their cards; 1 pod was created without a place: recreate it while the namespace is opted "
            "in",
            "t4 gpu-0 6 GB (1 without a place)",
            id="one",
        ),
        pytest.param(
            [],
            2,
            "0 of 2 pods have their cards; 2 pods were created without a place: recreate them while the namespace is "
            "opted in",
            "(2 without a place)",
            id="all",
        ),
    ],
)
def test_pods_that_were_created_past_the_webhook_are_told(
    pods: list[PodFacts], unplaced: int, message: str, where: str
) -> None:
    shown = placement_status(pods, {}, 2, {}, NOW, unplaced=unplaced)
    found = condition(shown, "Placed")
    assert (shown["phase"], shown["where"]) == ("Pending", where)
    assert (found["status"], found["reason"], found["message"]) == ("False", "CreatedWithoutAPlace", message)


def test_the_newest_refusal_is_the_one_that_is_shown() -> None:
    refusals = {"a": refusal(NOW, reason="vendor_mismatch", message="newer"), "b": refusal(BEFORE)}
    shown = status(refusals=refusals)
    assert (shown["reason"], shown["lastErrorCode"], shown["lastErrorMessage"]) == (
        "vendor_mismatch",
        "NoFitError",
        "newer",
    )


@pytest.mark.parametrize(
    ("refusals", "ask"),
    [
        pytest.param({"a": refusal(demand="6 GB on one card")}, "6 GB on one card", id="of-the-refused-pod"),
        pytest.param(
            {"a": refusal(NOW, demand="9 GB"), "b": refusal(BEFORE, demand="6 GB")}, "9 GB", id="of-the-newest"
        ),
        pytest.param({"a": refusal(demand="")}, None, id="that-could-not-be-read"),
        pytest.param({}, None, id="that-was-granted"),
    ],
)
def test_the_ask(refusals: dict[str, Any], ask: str | None) -> None:
    assert status(refusals=refusals)["ask"] == ask


def test_without_a_refusal_an_earlier_error_is_taken_away() -> None:
    shown = status(pod())
    assert (shown["reason"], shown["lastErrorCode"], shown["lastErrorMessage"]) == (None, None, None)


def test_pods_that_hold_no_share_are_not_counted() -> None:
    shown = status(pod(), pod("other", shares={}), wanted=2)
    assert (shown["placed"], shown["wanted"]) == (1, 2)
    assert [each["pod"] for each in shown["placements"]] == ["chat-1"]


def test_each_placement_tells_pod_node_and_cards() -> None:
    assert status(pod(shares={0: 6, 2: 8}))["placements"] == [
        {
            "pod": "chat-1",
            "uid": "uid-models-chat-1",
            "node": "t4",
            "cards": [{"index": 0, "gb": 6}, {"index": 2, "gb": 8}],
            "since": "",
            "running": True,
            "preempting": False,
            "leaving": False,
        }
    ]


def test_of_many_placements_the_first_ones_are_shown_and_all_are_counted() -> None:
    pods = [pod(f"chat-{number:02}") for number in range(30)]
    shown = status(*reversed(pods), wanted=30)
    assert shown["placed"] == 30
    assert [each["pod"] for each in shown["placements"]] == [f"chat-{number:02}" for number in range(20)]
    assert shown["where"] == "t4 gpu-0 6 GB; t4 gpu-0 6 GB; t4 gpu-0 6 GB; and 27 more"


def test_where_is_nowhere_for_a_workload_without_placements() -> None:
    assert status()["where"] is None


def test_where_stays_short_whatever_nodes_are_called() -> None:
    pods = [replace(pod(f"chat-{number}"), node="n" * 200) for number in range(3)]
    where = status(*pods, wanted=3)["where"]
    assert len(where) == 256
    assert where.endswith("...")


@pytest.mark.parametrize(
    ("shares", "words", "phrase"),
    [
        ({0: 6}, "t4 gpu-0 6 GB", "gpu-0 of t4 with 6 GB"),
        ({0: 20, 1: 20}, "t4 gpu-0,1 20 GB each", "gpu-0,1 of t4 with 20 GB each"),
        ({0: 20, 1: 8}, "t4 gpu-0 20 GB, gpu-1 8 GB", "gpu-0 of t4 with 20 GB, gpu-1 with 8 GB"),
    ],
)
def test_where_a_pod_is_in_a_column_and_in_a_sentence(shares: dict[int, int], words: str, phrase: str) -> None:
    assert card_words(pod(shares=shares)) == words
    assert card_phrase(pod(shares=shares)) == phrase


def test_where_says_how_many_pods_the_scheduler_has_not_bound_however_long_it_is() -> None:
    waiting = replace(pod("chat-2", running=False), bound=False)
    assert status(pod(), waiting, wanted=2)["where"] == "t4 gpu-0 6 GB; t4 gpu-0 6 GB (1 not scheduled)"
    long = [replace(waiting, name=f"chat-{number}", node="n" * 200) for number in range(3)]
    where = status(*long, wanted=3)["where"]
    assert len(where) == 256
    assert where.endswith("n... (3 not scheduled)")


@pytest.mark.parametrize(
    ("pods", "refusals", "placed", "waiting"),
    [
        pytest.param([pod()], {}, ("True", "AllPlaced"), ("False", "NothingToWaitFor"), id="placed"),
        pytest.param([], {}, ("False", "Incomplete"), ("False", "NothingToWaitFor"), id="still-to-come"),
        pytest.param([leaving()], {}, ("False", "Incomplete"), ("False", "NothingToWaitFor"), id="leaving"),
        pytest.param([], {"a": refusal()}, ("False", "Refused"), ("True", "WaitingForRoom"), id="no-room-now"),
        pytest.param(
            [], {"a": refusal(waitable=False)}, ("False", "Refused"), ("False", "NothingToWaitFor"), id="never"
        ),
        pytest.param(
            [],
            {"a": refusal(waitable=False), "b": refusal(waitable=True)},
            ("False", "Refused"),
            ("True", "WaitingForRoom"),
            id="one-of-two-can-wait",
        ),
    ],
)
def test_the_conditions(
    pods: list[PodFacts], refusals: dict[str, Any], placed: tuple[str, str], waiting: tuple[str, str]
) -> None:
    shown = status(*pods, refusals=refusals)
    for kind, expected in (("Placed", placed), ("Waiting", waiting)):
        found = condition(shown, kind)
        assert (found["status"], found["reason"]) == expected
        assert found["lastTransitionTime"] == NOW


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        pytest.param(
            1,
            "1 of 1 pods have their cards; one more, which a rollout needs first, is refused",
            id="beside-the-one-that-it-is-to-replace",
        ),
        pytest.param(2, "1 of 2 pods have their cards", id="one-that-is-wanted"),
    ],
)
def test_why_not_all_are_placed_is_said_where_the_numbers_do_not(wanted: int, message: str) -> None:
    found = condition(status(pod(), wanted=wanted, refusals={"a": refusal()}), "Placed")
    assert (found["status"], found["reason"], found["message"]) == ("False", "Refused", message)


def test_nothing_is_placed_where_nothing_is_wanted() -> None:
    found = condition(status(wanted=0), "Placed")
    assert (found["status"], found["reason"]) == ("False", "NothingWanted")


def test_a_pod_that_leaves_holds_its_place_to_the_end_and_counts_for_nothing_else() -> None:
    shown = status(leaving("chat-1"), pod("chat-2", {1: 4}), wanted=1)
    assert (shown["placed"], shown["where"]) == (1, "t4 gpu-1 4 GB; t4 gpu-0 6 GB (1 leaving)")
    assert [(each["pod"], each["leaving"]) for each in shown["placements"]] == [("chat-1", True), ("chat-2", False)]
    assert condition(shown, "Running")["message"] == "1 of 1 pods run"


def preempting(*pods: PodFacts, wanted: int = 1) -> dict[str, Any]:
    """The status where the first pod waits until others have left its cards."""
    return placement_status(pods, {}, wanted, {}, NOW, preempting={pods[0].key})


def test_a_pod_that_waits_for_others_to_leave_is_not_placed_yet() -> None:
    waits = replace(pod("urgent", running=False), bound=False)
    shown = preempting(waits)
    assert (shown["phase"], shown["placed"]) == ("Pending", 0)
    assert shown["where"] == "t4 gpu-0 6 GB (1 waiting for others to leave)"
    assert [each["preempting"] for each in shown["placements"]] == [True]
    found = condition(shown, "Placed")
    assert (found["status"], found["reason"]) == ("False", "WaitsForOthersToLeave")
    assert found["message"] == "0 of 1 pods have their cards; 1 wait until pods of lower priority have left"


def test_a_rollout_is_not_done_while_its_new_pod_waits_for_others_to_leave() -> None:
    shown = preempting(replace(pod("urgent-2", running=False), bound=False), pod("urgent-1"))
    assert (shown["phase"], shown["placed"]) == ("Pending", 1)
    assert condition(shown, "Placed")["status"] == condition(shown, "Running")["status"] == "False"


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    old = {"conditions": [{"type": "Placed", "status": "False", "lastTransitionTime": BEFORE}, {"type": "Waiting"}]}
    assert condition(status(wanted=1, old=old), "Placed")["lastTransitionTime"] == BEFORE
    assert condition(status(pod(), old=old), "Placed")["lastTransitionTime"] == NOW
    assert condition(status(old=old), "Waiting")["lastTransitionTime"] == NOW
