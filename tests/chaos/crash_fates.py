"""Scenes of what befalls pods that were placed: replaced, drained, preempted, rejected, crashed, never scheduled."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

from shared.api import names
from shared.kube import paths
from tests.chaos.crash_props import chat, deployment, replica_set
from tests.chaos.crash_stage import NAMESPACE, Answer, Scene, Stage

_UNSCHEDULABLE: Final = {
    "type": "PodScheduled",
    "status": "False",
    "reason": "Unschedulable",
    "message": "0/1 nodes are available: 1 node(s) were unschedulable.",
}
_NO_DEVICE: Final = f"Allocate failed due to no healthy devices present, requested {names.card_resource(0)}"
_OUT_OF_MEMORY: Final = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"


def _pod(name: str) -> str:
    return f"{paths.pods(NAMESPACE)}/{name}"


async def _is_gone(stage: Stage, name: str) -> None:
    await stage.until(lambda: stage.pod(name) is None)


async def recreated(stage: Stage) -> None:
    """A rollout without surge, on a card for which another waits: the seat is kept."""
    await _rollout(stage, pause_s=3.0)


async def recreated_at_once(stage: Stage) -> None:
    """As above, with the next pod there before the controller has kept the seat."""
    stage.slow("controller-a", 0.5)
    await _rollout(stage, pause_s=0.1)
    stage.slow("controller-a")


async def _rollout(stage: Stage, pause_s: float) -> None:
    stage.node("n1", 8)
    await stage.start()
    top = deployment(stage)
    old = replica_set(stage, top)
    assert await stage.decided(chat(owner=old), "chat-1") is Answer.PLACED
    stage.keep(chat(owner=replica_set(stage, deployment(stage, name="other"))), "other-1")
    await asyncio.sleep(2.0)
    stage.arm()
    replica_set(stage, top, 0)
    stage.delete(_pod("chat-1"))
    await asyncio.sleep(pause_s)
    stage.keep(chat(owner=replica_set(stage, top, number=2)), "chat-2")
    await stage.until(partial(stage.pod, "chat-2"))


async def drained(stage: Stage) -> None:
    """The next pod goes to another node than the seat."""
    stage.node("n1", 8)
    await stage.start()
    owner = replica_set(stage, deployment(stage))
    assert await stage.decided(chat(owner=owner), "chat-1") is Answer.PLACED
    stage.node("n2", 8)
    await asyncio.sleep(1.0)
    stage.arm()
    stage.change(paths.nodes("n1"), {"spec": {"unschedulable": True}})
    stage.delete(_pod("chat-1"))
    await asyncio.sleep(1.0)
    stage.keep(chat(owner=owner), "chat-2")
    await stage.until(partial(stage.pod, "chat-2"))


async def scaled_down(stage: Stage) -> None:
    """A seat is kept until its workload wants no pod for it; then the workload goes as a whole."""
    stage.node("n1", 16)
    await stage.start()
    top = deployment(stage, 2)
    owner = replica_set(stage, top, 2)
    for name in ("chat-1", "chat-2"):
        assert await stage.decided(chat(owner=owner), name) is Answer.PLACED
    await asyncio.sleep(1.0)
    stage.arm()
    stage.delete(_pod("chat-1"))
    await asyncio.sleep(3.0)
    deployment(stage, 1)
    replica_set(stage, top, 1)
    await asyncio.sleep(3.0)
    stage.abandon(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/chat")
    stage.abandon(f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets/chat-1")
    stage.delete(_pod("chat-2"))


async def adopted(stage: Stage) -> None:
    """A Deployment is deleted without what it owns, which another of its name adopts; then a pod is replaced."""
    stage.node("n1", 16)
    await stage.start()
    top = deployment(stage, 2)
    owner = replica_set(stage, top, 2)
    for name in ("chat-1", "chat-2"):
        assert await stage.decided(chat(owner=owner), name) is Answer.PLACED
    await asyncio.sleep(2.0)
    stage.arm()
    stage.abandon(f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/chat")
    owner = replica_set(stage, deployment(stage, 2), 2)
    stage.delete(_pod("chat-1"))
    await asyncio.sleep(3.0)
    stage.keep(chat(owner=owner), "chat-3")
    await stage.until(partial(stage.pod, "chat-3"))


async def preempting(stage: Stage) -> None:
    """The scheduler binds it when the pod of lower priority has left."""
    stage.node("n1", 8)
    await stage.start()
    assert await stage.decided(chat(), "low") is Answer.PLACED
    owner = replica_set(stage, deployment(stage))
    await asyncio.sleep(1.0)
    stage.arm()
    stage.keep(chat(owner=owner).spec(priority=100), "high", bound=False)
    await stage.until(partial(stage.pod, "high"))
    await asyncio.sleep(2.0)
    stage.delete(_pod("low"))
    stage.bind("high")


async def stuck_for_good(stage: Stage) -> None:
    """Pods that would not do better elsewhere, or that nobody would create anew."""
    stage.node("n1", 24)
    await stage.start()
    owner = replica_set(stage, deployment(stage))
    one_on_each_node = stage.owner("DaemonSet", "daemons", template={})
    for name, pod in {
        "bare": chat(),
        "daemon": chat(owner=one_on_each_node),
        "chat-1": chat(owner=owner),
    }.items():
        assert await stage.decided(pod, name, bound=False) is Answer.PLACED
    stage.arm()
    for name in ("bare", "daemon", "chat-1"):
        stage.report(name, conditions=[_UNSCHEDULABLE])
    await asyncio.sleep(15.0)


async def stuck_and_placed_again(stage: Stage) -> None:
    """Twice, since the node to which it goes is cordoned as well before the scheduler comes."""
    stage.node("n1", 8)
    await stage.start()
    owner = replica_set(stage, deployment(stage))
    assert await stage.decided(chat(owner=owner), "chat-1", bound=False) is Answer.PLACED
    stage.arm()
    for number in (1, 2):
        stage.change(paths.nodes(f"n{number}"), {"spec": {"unschedulable": True}})
        stage.node(f"n{number + 1}", 8)
        await _is_gone(stage, f"chat-{number}")
        stage.keep(chat(owner=owner), f"chat-{number + 1}", bound=False)
        await stage.until(partial(stage.pod, f"chat-{number + 1}"))
    stage.bind("chat-3")


async def rejected(stage: Stage) -> None:
    """Two pods of one owner die at the kubelet's door: the newer of them stays for people to look at."""
    stage.node("n1", 8)
    await stage.start()
    owner = replica_set(stage, deployment(stage))
    assert await stage.decided(chat(owner=owner), "chat-1") is Answer.PLACED
    stage.arm()
    for number in (1, 2):
        stage.report(f"chat-{number}", phase="Failed", reason="UnexpectedAdmissionError", message=_NO_DEVICE)
        stage.keep(chat(owner=owner), f"chat-{number + 1}")
        await stage.until(partial(stage.pod, f"chat-{number + 1}"))


async def out_of_memory(stage: Stage) -> None:
    """Only its log says why a container died."""
    stage.node("n1", 8)
    await stage.start()
    assert await stage.decided(chat(), "chat") is Answer.PLACED
    stage.logs["chat"] = _OUT_OF_MEMORY
    stage.arm()
    died = {"terminated": {"exitCode": 1, "reason": "Error", "finishedAt": "2026-09-21T14:14:00Z"}}
    waits = {"waiting": {"reason": "CrashLoopBackOff"}}
    stage.report("chat", containerStatuses=[{"name": "main", "state": waits, "lastState": died, "ready": False}])


FATES: Final[tuple[Scene, ...]] = (
    recreated_at_once,
    recreated,
    drained,
    scaled_down,
    adopted,
    preempting,
    stuck_for_good,
    stuck_and_placed_again,
    rejected,
    out_of_memory,
)
