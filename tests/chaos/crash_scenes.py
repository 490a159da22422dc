"""What happens while a process dies: short scenes, which together reach every crash point.

A new `await` in the product fails `tests/unit/test_crash_points.py` until a scene reaches it. To add one, write an
async function that takes a `Stage`, and put it into `SCENES`:

1. what there is: `stage.node`, `stage.owner`, `stage.put`;
2. `await stage.start()`, or nothing if the start itself is the scene;
3. `stage.arm()`: from here on processes die;
4. what others do: `stage.decided` (a person's create), `stage.keep` (an owner's), `stage.bind` (the scheduler's),
   `stage.report` (the kubelet's), `stage.delete`, `stage.change`.

`crash_props.py` has what scenes share, `crash_fates.py` those of what befalls pods that were placed.

It is played once as it is and then again for each point that it is the first to reach, with that process dying there.
Each time the ledgers have to agree with the pods afterwards, no card may have been promised twice at any moment, and
the pods and `ModelPlacement`s have to be as they are without the crash. So a scene waits with `stage.until` and never
relies on the first try. What nobody can reach in one process stands in `ELSEWHERE`, with the reason.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from shared.api import names
from shared.kube import paths
from tests.chaos.crash_fates import FATES
from tests.chaos.crash_props import agent_restarts, chat, deployment, fails, on_card, once, replica_set, touched
from tests.chaos.crash_stage import NAMESPACE, Answer, Scene, Stage
from tests.fakes.api import ApiRequest
from tests.fakes.objects import Json, RefusalError
from tests.unit.admission import gpu_node
from tests.unit.units import GPU, managed_node

_CONNECTS: Final = "opens and closes the connection that this suite replaces, around everything else"
_CREDENTIALS: Final = "asks a library for credentials; requests wait for it in `Connection.headers`, which scenes reach"
_SOCKET: Final = (
    "TLS on a socket, around everything else; no answer passes here, and what serves meanwhile dies in scenes"
)

ELSEWHERE: Final = {
    "controller/__main__.py:_control:async with await KubeClient.connect": _CONNECTS,
    "controller/__main__.py:_control:leave await KubeClient.connect": _CONNECTS,
    "controller/__main__.py:_control:await KubeClient.connect": _CONNECTS,
    "controller/__main__.py:_control:await run_controller": _CONNECTS,
    "shared/kube/client.py:KubeClient.connect:await open_connection": _CONNECTS,
    "shared/kube/credentials.py:open_connection.load_user:await loader.load_and_set": _CREDENTIALS,
    "shared/kube/credentials.py:open_connection:await config.load_kube_config": _CREDENTIALS,
    "shared/kube/credentials.py:open_connection:await load": _CREDENTIALS,
    "shared/obs/acceptor.py:Acceptor._connect:await self._loop.connect_accepted_socket": _SOCKET,
    "shared/obs/health.py:serve_health.metrics:await asyncio.to_thread": "answers a scrape on a socket",
    "shared/obs/process.py:run_process.main:await work": "signals and the event loop of a real process",
    "webhook/__main__.py:_serve:async with await KubeClient.connect": _CONNECTS,
    "webhook/__main__.py:_serve:leave await KubeClient.connect": _CONNECTS,
    "webhook/__main__.py:_serve:await KubeClient.connect": _CONNECTS,
    "webhook/__main__.py:_serve:await run_webhook": _CONNECTS,
    "webhook/__main__.py:_serve_reviews:async with connections.serving": _SOCKET,
    "webhook/__main__.py:_serve_reviews:leave connections.serving": _SOCKET,
    "webhook/__main__.py:_serve_reviews:await stop.wait": _SOCKET,
    "webhook/__main__.py:_serve_reviews:await asyncio.sleep": _SOCKET,
}
"""The points that no scene can reach, by their full names, and why not: a new one in the same function needs a scene.

None lies between a decision and its answer.
"""

LONGEST_ANSWER: Final = 2**20
"""So many bytes of an answer are read while scenes are played."""

_LEASE: Final = paths.leases("placement-system", "placement-operator-controller")
_SECRETS: Final = paths.secrets("placement-system")
_UNAVAILABLE: Final = (503, "ServiceUnavailable", "etcd has no leader")


# Start, end and lead.


async def starts(stage: Stage) -> None:
    """With an entry of a lost create and a pod that nobody recorded."""
    stage.node("n1", 16)
    unrecorded = chat(4).label(names.RESERVATION, "podwithout").raw()
    stage.put(paths.pods(NAMESPACE), {**unrecorded, "spec": on_card("n1", 4)})
    stage.bind("chat")
    entry = f"{NAMESPACE}/00000000;1790000000;0:5"
    stage.change(paths.gpu_nodes("n1") + "/status", {"status": {"reservations": {"lostcreate": entry}}})
    stage.arm()
    await stage.start()


async def stopped_before_it_served(stage: Stage) -> None:
    """A webhook without a certificate."""
    stage.node("n1", 16)
    stage.arm()
    stage.start_process("webhook-a")
    await asyncio.sleep(2.0)
    stage.stop("webhook-a")
    await asyncio.sleep(0.5)
    for process in ("controller-a", "webhook-b"):
        stage.start_process(process)
    assert await stage.decided(chat(), "chat") is Answer.PLACED


async def another_made_the_secret(stage: Stage) -> None:
    secret = {"metadata": {"name": "placement-operator-webhook-tls"}, "type": "kubernetes.io/tls", "data": {}}
    stage.disturb("controller-a", once("POST", _SECRETS, lambda: stage.put(_SECRETS, secret)))
    stage.arm()
    await stage.start()


async def stopped(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    stage.arm()
    for process in ("webhook-a", "controller-a"):
        stage.stop(process)
    assert await stage.decided(chat(), "chat") is Answer.PLACED


async def lead_changes_hands(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    stage.arm()
    stage.start_process("controller-b")
    await asyncio.sleep(3.0)
    stage.disturb("controller-a", once("PUT", _LEASE, touched(stage, _LEASE)))
    stage.disturb("controller-a", once("GET", _LEASE, fails(*_UNAVAILABLE)))
    assert await stage.decided(chat(), "chat") is Answer.PLACED
    await asyncio.sleep(5.0)
    stage.change(_LEASE, {"spec": {"holderIdentity": "somebody", "leaseDurationSeconds": 1}})
    await asyncio.sleep(20.0)


async def api_server_away(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    stage.arm()
    away_until = asyncio.get_running_loop().time() + 5.0

    def away(_request: ApiRequest) -> None:
        if asyncio.get_running_loop().time() < away_until:
            raise RefusalError(*_UNAVAILABLE)

    for process in ("controller-a", "webhook-a", "webhook-b"):
        stage.disturb(process, away)
    stage.objects.end_watches()
    assert await stage.decided(chat(), "chat") is Answer.PLACED


async def large_collections(stage: Stage) -> None:
    stage.node("n1", 16)
    for number in range(501):
        stage.put("/api/v1/namespaces", {"kind": "Namespace", "metadata": {"name": f"n-{number}"}})
    for process in ("controller-a", "webhook-a"):
        stage.disturb(process, _expire_continue_tokens(stage, process))
    stage.arm()
    await stage.start()
    for number in range(501):
        stage.change(f"/api/v1/namespaces/n-{number}", {"metadata": {"labels": {"a": "b"}}})
    assert await stage.decided(chat(), "chat") is Answer.PLACED


async def large_objects(stage: Stage) -> None:
    """So large that a page of them is too much for one answer."""
    stage.node("n1", 16)
    text = "x" * (LONGEST_ANSWER // 30)
    for number in range(40):
        metadata = {"name": f"n-{number}", "annotations": {"text": text}}
        stage.put("/api/v1/namespaces", {"kind": "Namespace", "metadata": metadata})
    stage.arm()
    await stage.start()
    assert await stage.decided(chat(), "chat") is Answer.PLACED


def _expire_continue_tokens(stage: Stage, process: str) -> Callable[[ApiRequest], None]:
    def expire(request: ApiRequest) -> None:
        if "continue" in request.query:
            stage.expire_continue_tokens(process)

    return expire


# Creates.


async def placed(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    stage.arm()
    assert await stage.decided(chat(), "chat") is Answer.PLACED


async def reviewed_again(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    stage.arm()
    assert await stage.decided(chat(), "chat", reviewed_again=True) is Answer.PLACED


async def dry_run(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    stage.arm()
    assert await stage.decided(chat(), "chat", dry_run=True) is Answer.PLACED
    assert not stage.reservations("n1")


async def placed_after_a_conflict(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    stage.disturb("webhook-a", once("PATCH", paths.gpu_nodes("n1"), touched(stage, paths.gpu_nodes("n1"))))
    stage.arm()
    assert await stage.decided(chat(), "chat") is Answer.PLACED


async def two_want_the_same_room(stage: Stage) -> None:
    stage.node("n1", 8)
    stage.node("n2", 8)
    await stage.start()
    stage.arm()
    for via in "ab":
        stage.keep(chat(), f"chat-{via}", via=f"webhook-{via}")
    await stage.until(lambda: stage.pod("chat-a") and stage.pod("chat-b"))


async def too_late_to_record(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    stage.arm()
    stage.slow("webhook-a", 9.0)
    stage.keep(chat(), "chat")
    await asyncio.sleep(9.5)
    stage.slow("webhook-a")
    await stage.until(lambda: stage.pod("chat"))


async def validated_by_one_that_is_behind(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    stage.arm()
    stage.lag("webhook-b")
    assert await stage.decided(chat(), "chat", reviewed_again=True, validated_via="webhook-b") is Answer.PLACED
    stage.lag("webhook-b", behind=False)


async def gpu_node_goes_under_a_create(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    stage.disturb("webhook-a", once("PATCH", paths.gpu_nodes("n1"), agent_restarts(stage, "n1", 16)))
    stage.arm()
    owner = replica_set(stage, deployment(stage))
    stage.keep(chat(owner=owner), "chat-1")
    await stage.until(lambda: stage.pod("chat-1"))


async def tried_again_on_the_same_node(stage: Stage) -> None:
    stage.node("n1", 16)
    owner = replica_set(stage, deployment(stage))
    await stage.start()
    stage.arm()
    await stage.create(chat(owner=owner), "chat-1", refused_later=True)
    stage.keep(chat(owner=owner), "chat-1")
    await stage.until(lambda: stage.pod("chat-1"))


async def tried_again_on_another_node(stage: Stage) -> None:
    stage.node("n1", 8)
    owner = replica_set(stage, deployment(stage))
    await stage.start()
    stage.arm()
    await stage.create(chat(owner=owner), "chat-1", refused_later=True)
    stage.node("n2", 8)
    stage.change(paths.nodes("n1"), {"spec": {"unschedulable": True}})
    await asyncio.sleep(0.1)
    touch = touched(stage, paths.gpu_nodes("n1"))
    stage.disturb("webhook-a", once("PATCH", paths.gpu_nodes("n1"), touch))
    stage.keep(chat(owner=owner), "chat-1")
    await stage.until(lambda: stage.pod("chat-1"))


async def refused_and_woken(stage: Stage) -> None:
    stage.node("n1", 8)
    await stage.start()
    assert await stage.decided(chat(), "holder") is Answer.PLACED
    owner = replica_set(stage, deployment(stage, 2), 2)
    stage.arm()
    for name in ("chat-1", "chat-2"):
        stage.keep(chat(owner=owner), name)
    await asyncio.sleep(45.0)
    stage.delete(paths.pods(NAMESPACE) + "/holder")
    await stage.until(lambda: stage.pod("chat-1") or stage.pod("chat-2"))
    stage.node("n2", 8)
    await stage.until(lambda: stage.pod("chat-1") and stage.pod("chat-2"))


async def events_expire(stage: Stage) -> None:
    stage.node("n1", 4)
    await stage.start()
    owner = replica_set(stage, deployment(stage))
    events = paths.events(NAMESPACE)

    def expire() -> None:
        for raw in stage.all(events):
            stage.delete(f"{events}/{raw['metadata']['name']}")

    stage.disturb("controller-a", once("PATCH", events, expire))
    stage.arm()
    stage.keep(chat(owner=owner), "chat-1")
    await asyncio.sleep(60.0)


async def refused_owner_goes(stage: Stage) -> None:
    stage.node("n1", 4)
    await stage.start()
    owner = replica_set(stage, deployment(stage))
    other = stage.owner("Job", "batch", api="batch/v1", parallelism=1, template={})
    stage.arm()
    stage.keep(chat(owner=owner), "chat-1")
    stage.keep(chat(owner=other), "batch-1")
    await asyncio.sleep(5.0)
    stage.abandon(f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets/chat-1")
    stage.abandon(f"/apis/batch/v1/namespaces/{NAMESPACE}/jobs/batch")
    await asyncio.sleep(40.0)


# Pods and ledgers.


async def never_stored(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    stage.arm()
    await stage.create(chat(), "chat", refused_later=True)
    await asyncio.sleep(25.0)


async def credentials_expire(stage: Stage) -> None:
    """Between the decision and its record, and before a pod that ended is taken out of the books."""
    stage.node("n1", 16)
    await stage.start()
    ledger = paths.gpu_nodes("n1")
    for process in ("webhook-a", "controller-a"):
        stage.disturb(process, once("PATCH", ledger, fails(401, "Unauthorized", "the token has expired")))
    stage.arm()
    assert await stage.decided(chat(), "chat") is Answer.PLACED
    stage.report("chat", phase="Succeeded")


async def connection_ended_to_make_room(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    stage.arm()
    await stage.create(chat(), "chat", unheard=True)
    assert await stage.decided(chat(), "chat") is Answer.PLACED


async def pods_go(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    for name in ("ends", "goes", "stays"):
        assert await stage.decided(chat(4), name) is Answer.PLACED
    stage.arm()
    stage.report("ends", phase="Succeeded")
    stage.delete(paths.pods(NAMESPACE) + "/goes")


async def pod_goes_during_a_conflict(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    assert await stage.decided(chat(), "chat") is Answer.PLACED
    stage.disturb("controller-a", once("PATCH", paths.gpu_nodes("n1"), touched(stage, paths.gpu_nodes("n1"))))
    stage.arm()
    stage.delete(paths.pods(NAMESPACE) + "/chat")


async def gpu_node_goes_under_a_change(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    for name in ("goes", "stays"):
        assert await stage.decided(chat(), name) is Answer.PLACED
    stage.disturb("controller-a", once("PATCH", paths.gpu_nodes("n1"), agent_restarts(stage, "n1", 16)))
    stage.arm()
    stage.delete(paths.pods(NAMESPACE) + "/goes")


async def ledger_written_by_hand(stage: Stage) -> None:
    stage.node("n1", 16)
    await stage.start()
    assert await stage.decided(chat(), "chat") is Answer.PLACED
    stage.arm()
    entries: Json = {**dict.fromkeys(stage.reservations("n1")), "brokenentry"[:10]: "no entry at all"}
    stage.change(paths.gpu_nodes("n1") + "/status", {"status": {"reservations": entries}})


async def entry_lost_while_the_card_is_out_of_order(stage: Stage) -> None:
    """So there is no room for it, and whether its pod is there is looked up."""
    stage.node("n1", 16)
    await stage.start()
    assert await stage.decided(chat(), "chat") is Answer.PLACED
    stage.arm()
    cards = [{**card, "healthy": False} for card in gpu_node("n1", 16)["status"]["cards"]]
    entries: Json = dict.fromkeys(stage.reservations("n1"))
    stage.change(paths.gpu_nodes("n1") + "/status", {"status": {"reservations": entries, "cards": cards}})
    await stage.until(lambda: stage.reservations("n1"))


# Nodes.


async def vendor_plugins_come(stage: Stage) -> None:
    """To a node without an agent, whose cards its labels tell, and to one that has an agent."""
    stage.node("own", 24, 24)
    stage.change(paths.gpu_nodes("own") + "/status", {"status": {"source": "agent"}})
    await stage.start()
    stage.arm()
    for name in ("managed", "own"):
        node = managed_node(name, {GPU: 4}, memory="24576", count="2", product="NVIDIA-A10-SHARED", replicas="2")
        stage.put(paths.nodes(), node.raw())


SCENES: Final[dict[str, Scene]] = {
    scene.__name__: scene
    for scene in (
        placed,
        tried_again_on_the_same_node,
        tried_again_on_another_node,
        validated_by_one_that_is_behind,
        placed_after_a_conflict,
        two_want_the_same_room,
        reviewed_again,
        dry_run,
        too_late_to_record,
        never_stored,
        credentials_expire,
        connection_ended_to_make_room,
        pods_go,
        pod_goes_during_a_conflict,
        gpu_node_goes_under_a_create,
        gpu_node_goes_under_a_change,
        ledger_written_by_hand,
        entry_lost_while_the_card_is_out_of_order,
        refused_and_woken,
        refused_owner_goes,
        events_expire,
        vendor_plugins_come,
        *FATES,
        starts,
        stopped_before_it_served,
        another_made_the_secret,
        stopped,
        lead_changes_hands,
        api_server_away,
        large_collections,
        large_objects,
    )
}
"""Those with least going on first: a point is tried in the first that reaches it."""
