"""Which dead pods the kubelet rejected over what we gave them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.api import names
from shared.core.owners import OwnerRef
from shared.core.rejected import rejected_pod
from shared.core.times import unix_seconds
from shared.kube.rejected_pods import RejectedPods
from tests.builders import PodBuilder, a_pod

ID = "aaaaaaaaaa"
CARD = names.card_resource(0)
SAID = (
    f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {CARD}. Requested: 6, "
    "Available: 0, which is unexpected"
)
ADMISSION = "UnexpectedAdmissionError"


def dead(reason: str = ADMISSION, message: str = SAID, pod: PodBuilder | None = None) -> PodBuilder:
    pod = pod or a_pod("chat-0").limited_to({CARD: "6"})
    pod.label(names.RESERVATION, ID).on("t4").created("2026-11-30T09:00:00Z")
    return pod.in_phase("Failed").status(reason=reason, message=message)


def test_it_is_known_by_the_kubelets_words() -> None:
    pod = rejected_pod(dead().owned_by("ReplicaSet", "chat", "uid-chat").raw())
    assert pod is not None
    assert (pod.uid, pod.namespace, pod.name, pod.node) == ("uid-models-chat-0", "models", "chat-0", "t4")
    assert (pod.reason, pod.message, pod.created) == (ADMISSION, SAID, "2026-11-30T09:00:00Z")
    assert pod.owner is not None
    assert pod.owner.uid == "uid-chat"


UNITS = {names.NVIDIA_GPU: "1"}


@pytest.mark.parametrize(
    ("pod", "found"),
    [
        pytest.param(dead("OutOf" + CARD, ""), True, id="out-of-a-card"),
        pytest.param(dead("OutOf" + names.NVIDIA_GPU, "", a_pod().limited_to(UNITS)), True, id="out-of-units"),
        pytest.param(dead("OutOfcpu", ""), False, id="out-of-cpu"),
        pytest.param(dead("OutOfpods", f"{CARD} is full"), False, id="out-of-pod-slots"),
        pytest.param(dead(message="Pod was rejected: no healthy devices present"), True, id="without-a-resource"),
        pytest.param(dead(message="dial /var/lib/kubelet/x.sock failed"), True, id="with-a-path"),
        pytest.param(dead(message="unavailable for example.com/fpga"), False, id="of-another-device"),
        pytest.param(dead(message=f"unavailable for example.com/fpga, {CARD}"), True, id="of-another-device-and-ours"),
        pytest.param(dead("Evicted"), False, id="evicted"),
        pytest.param(dead("", ""), False, id="failed-by-itself"),
        pytest.param(dead().in_phase("Running"), False, id="alive"),
        pytest.param(dead().terminating(), False, id="on-its-way-out"),
        pytest.param(dead(pod=a_pod()), False, id="without-what-a-placement-gives"),
        pytest.param(dead().label(names.RESERVATION, "mine"), False, id="not-placed-by-us"),
        pytest.param(a_pod(), False, id="new"),
    ],
)
def test_only_pods_that_we_placed_and_that_lack_what_we_gave(pod: PodBuilder, found: bool) -> None:
    assert (rejected_pod(pod.raw()) is not None) is found


def test_long_words_are_cut() -> None:
    pod = rejected_pod(dead(message="x" * 5000).raw())
    assert pod is not None
    assert len(pod.message) == 400


def test_listeners_hear_of_each_once_when_it_comes_and_when_it_goes() -> None:
    pod = rejected_pod(dead().raw())
    assert pod is not None
    pods, heard = RejectedPods(), list[str]()
    end = pods.on_change(heard.append)
    for _ in range(2):
        pods.upserted(pod)
    assert heard == list(pods) == [pod.uid]
    for _ in range(2):
        pods.deleted(pod.uid)
    assert (heard, list(pods)) == ([pod.uid] * 2, [])
    end()
    pods.upserted(pod)
    assert heard == [pod.uid] * 2


def test_they_are_found_by_their_owner_and_follow_it() -> None:
    of_set, of_job = (
        OwnerRef("apps/v1", "ReplicaSet", "chat", "uid-set"),
        OwnerRef("batch/v1", "Job", "chat", "uid-job"),
    )
    pod = rejected_pod(dead().raw())
    assert pod is not None
    first, second = replace(pod, uid="1", owner=of_set), replace(pod, uid="2", owner=of_set)
    pods = RejectedPods()
    for each in (first, second):
        pods.upserted(each)
    assert pods.of("uid-set") == (first, second)
    adopted = replace(first, owner=of_job)
    pods.upserted(adopted)
    assert (pods.of("uid-set"), pods.of("uid-job")) == ((second,), (adopted,))
    pods.deleted("2")
    assert list(pods) == ["uid-job"]


def test_a_node_that_rejects_pods_is_avoided_for_five_minutes_from_the_last() -> None:
    pod = rejected_pod(dead().status(startTime="2026-11-30T09:10:00Z").raw())
    assert pod is not None
    at = unix_seconds("2026-11-30T09:10:00Z")
    assert pod.rejected == at
    pods = RejectedPods()
    assert pods.avoided(at) == frozenset()
    pods.upserted(pod)
    assert pods.avoided(at + 299) == {"t4"}
    pods.upserted(replace(pod, uid="another", node="a10", rejected=at + 100))
    pods.upserted(replace(pod, owner=OwnerRef("v1", "Pod", "x", "adopted")))
    pods.deleted("another")
    assert pods.avoided(at + 299) == {"t4", "a10"}
    assert pods.avoided(at + 300) == {"a10"}
    assert pods.avoided(at + 400) == frozenset()


def test_what_was_rejected_long_before_this_process_started_keeps_nobody_away() -> None:
    pod = rejected_pod(dead().raw())
    assert pod is not None
    pods = RejectedPods()
    pods.upserted(pod)
    assert pods.avoided(unix_seconds(pod.created) + 86400) == frozenset()


def test_a_kubelet_whose_clock_is_ahead_is_avoided_no_longer_than_others() -> None:
    pod = rejected_pod(dead().raw())
    assert pod is not None
    pods = RejectedPods()
    pods.upserted(replace(pod, rejected=pod.rejected + 86400))
    assert pods.avoided(pod.rejected) == {"t4"}
    assert pods.avoided(pod.rejected + 300) == frozenset()
