"""Each fault that the proxy in front of the API server is told to make really reaches the process behind it."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest

from hack.devcluster.kubeconfig import write_kubeconfig
from hack.devcluster.pki import create_pki
from shared.kube.client import Json, KubeClient
from shared.kube.errors import ApiError, Conflict, Gone, Throttled, Unavailable
from tests.chaos.api_faults import RequestRule, expired_watch, lost_answer, slow, status, truncated
from tests.chaos.api_proxy import ApiProxy, Tls
from tests.chaos.rules import Rule, Schedule, stream
from tests.fakes.apiserver import FakeApiServer, place_of
from tests.fakes.faults import Act, drop
from tests.fakes.selectors import Selector
from tests.fakes.serving import eventually

PODS = "/api/v1/namespaces/models/pods"
_MOMENT_S = 0.2


@dataclass
class Scene:
    server: FakeApiServer
    proxy: ApiProxy
    client: KubeClient

    def rule(self, name: str, act: Act, **fits: object) -> None:
        self.proxy.rules.append(RequestRule(name, act, **fits))  # type: ignore[arg-type]

    async def create(self, name: str = "chat") -> None:
        await self.client.create(PODS, {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}})

    async def names(self) -> list[str]:
        return sorted(raw["metadata"]["name"] for raw in (await self.client.list(PODS)).items)

    def stored(self) -> list[str]:
        """What the server has, also while nothing passes the proxy."""
        return sorted(raw["metadata"]["name"] for raw in self.server.objects.select(place_of(PODS), Selector()))

    async def version(self) -> str:
        """As of when a watch has to begin to see what comes now."""
        return (await self.client.list(PODS)).resource_version

    @property
    def heard(self) -> list[str]:
        """Creates that reached the server."""
        return [request for request in self.server.requests if request.startswith("POST")]


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    pki = create_pki(tmp_path)
    async with FakeApiServer() as server:
        proxy = ApiProxy("webhook-0", server.url, Tls(pki.server_certificate, pki.server_key, pki.ca), Schedule())
        await proxy.start()
        path = tmp_path / "through-proxy"
        write_kubeconfig(path, url=proxy.url, ca_file=pki.ca, user="webhook", token=server.token)
        async with await KubeClient.connect(str(path)) as client:
            yield Scene(server, proxy, client)
        await proxy.stop()


async def test_without_rules_requests_and_watches_pass(scene: Scene) -> None:
    since = await scene.version()
    await scene.create()
    async with aclosing(_watch(scene, since)) as events:
        assert await _added(events) == "chat"
    assert await scene.names() == ["chat"]
    assert scene.proxy.schedule.injected == []


async def test_listeners_are_told_of_each_request(scene: Scene) -> None:
    heard: list[tuple[str, str]] = []
    scene.proxy.listeners.append(lambda method, path: heard.append((method, path)))
    await scene.create()
    assert heard == [("POST", PODS)]


@pytest.mark.parametrize(
    ("code", "error"), [(409, Conflict), (410, Gone), (429, Throttled), (500, Unavailable), (503, Unavailable)]
)
async def test_a_status_comes_in_the_place_of_the_answer(scene: Scene, code: int, error: type[ApiError]) -> None:
    scene.rule("refused", status(code), method="POST", times=1)
    with pytest.raises(error) as caught:
        await scene.create()
    assert caught.value.status == code
    assert scene.heard == []
    await scene.create()
    assert [str(each).split()[-2:] for each in scene.proxy.schedule.injected] == [["POST", PODS]]


async def test_a_rule_meets_only_the_requests_that_it_is_about(scene: Scene) -> None:
    scene.rule("refused", status(503), method="PATCH")
    scene.rule("refused", status(503), path="/nodes")
    scene.rule("refused", status(503), watch=True)
    await scene.create()
    assert await scene.names() == ["chat"]


async def test_a_dropped_request_was_not_carried_out_and_a_lost_answer_was(scene: Scene) -> None:
    scene.rule("dropped", drop(), method="POST", times=1)
    with pytest.raises(Unavailable):
        await scene.create("dropped")
    scene.rule("lost", lost_answer(), method="POST", times=1)
    with pytest.raises(Unavailable):
        await scene.create("lost")
    assert await scene.names() == ["lost"]


async def test_a_truncated_answer_ends_in_the_middle(scene: Scene) -> None:
    await scene.create()
    scene.rule("truncated", truncated(), method="GET", times=1)
    with pytest.raises(Unavailable):
        await scene.names()
    assert await scene.names() == ["chat"]


async def test_a_slow_answer_comes_in_pieces(scene: Scene, tmp_path: Path, forward: Callable[[float], None]) -> None:
    for number in range(30):
        await scene.create(f"chat-{number}")
    trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    scene.rule("slow", slow(200, pieces_a_second=0.1), method="GET")
    reader, writer = await asyncio.open_connection("127.0.0.1", scene.proxy.port, ssl=trust)
    writer.write(f"GET {PODS} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {scene.server.token}\r\n\r\n".encode())
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    body = await reader.read(2**20)
    assert len(body) == 2000
    while len(body) < length:
        forward(10.0)
        body += await reader.read(2**20)
    assert len(json.loads(body)["items"]) == 30
    writer.close()


async def test_a_watch_can_begin_with_its_end(scene: Scene) -> None:
    scene.rule("expired", expired_watch(), watch=True)
    async with aclosing(_watch(scene, "1")) as events:
        event = await anext(events)
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)


@pytest.mark.parametrize(("answers_only", "stored"), [(False, []), (True, ["chat"])])
async def test_a_partition_is_silent_and_then_cuts(scene: Scene, answers_only: bool, stored: list[str]) -> None:
    scene.proxy.partition(answers_only=answers_only)
    scene.rule("noted", lambda request, proceed: proceed(request))
    create = asyncio.create_task(scene.create())
    await eventually(lambda: len(scene.proxy.schedule.injected) == 2 and scene.stored() == stored)
    done, _ = await asyncio.wait([create], timeout=_MOMENT_S)
    assert not done
    scene.proxy.release()
    with pytest.raises(Unavailable):
        await create
    assert await scene.names() == stored


async def test_held_watches_tell_late_and_nothing_else_is_held(scene: Scene) -> None:
    async with aclosing(_watch(scene, await scene.version())) as events:
        scene.proxy.hold_watches()
        await scene.create()
        assert await scene.names() == ["chat"]
        late = asyncio.create_task(_added(events))
        done, _ = await asyncio.wait([late], timeout=_MOMENT_S)
        assert not done
        scene.proxy.release()
        assert await late == "chat"


async def test_a_server_that_is_gone_is_a_lost_connection(scene: Scene) -> None:
    await scene.server.stop()
    with pytest.raises(Unavailable):
        await scene.create()


def test_a_seed_decides_which_occasions_are_met() -> None:
    def struck(seed: int, where: str) -> list[bool]:
        rule = Rule("any", None, stream(seed, where), probability=0.5)
        return [rule.strikes() for _ in range(64)]

    assert struck(1, "webhook-0") == struck(1, "webhook-0")
    assert len({tuple(struck(seed, where)) for seed in (1, 2) for where in ("webhook-0", "webhook-1")}) == 4


def test_a_rule_strikes_no_more_often_than_it_may() -> None:
    rule = Rule("twice", None, Random(1), times=2)
    assert [rule.strikes() for _ in range(4)] == [True, True, False, False]


def _watch(scene: Scene, since: str) -> AsyncGenerator[Json, None]:
    params = {"watch": "true", "resourceVersion": since, "timeoutSeconds": "10"}
    return scene.client.stream(PODS, params, read_timeout_s=10.0)


async def _added(events: AsyncIterator[Json]) -> str:
    """The name of the next object that a watch tells of, past bookmarks."""
    return str(await anext(event["object"]["metadata"]["name"] async for event in events if event["type"] == "ADDED"))
