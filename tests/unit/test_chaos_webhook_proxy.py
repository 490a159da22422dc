"""Each fault that the proxy in front of the webhooks is told to make really happens to what passes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from hack.devcluster.health import HOST
from hack.devcluster.processes import free_ports
from tests.chaos.rules import Schedule
from tests.chaos.webhook_proxy import Moment, TcpAct, TcpRule, WebhookProxy, delay, reset, silence
from tests.fakes.serving import eventually

_MOMENT_S = 0.2


@dataclass
class Scene:
    """A proxy in front of two backends that answer each line with their number."""

    proxy: WebhookProxy
    heard: list[str] = field(default_factory=list)

    def rule(self, act: TcpAct, moment: Moment, times: int = 1) -> None:
        self.proxy.rules.append(TcpRule("fault", act, moment=moment, times=times))

    async def ask(self, question: str = "who") -> str:
        reader, writer = await asyncio.open_connection(HOST, self.proxy.port)
        try:
            writer.write(f"{question}\n".encode())
            return (await reader.readline()).decode().strip()
        finally:
            writer.close()


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    port, *backends = free_ports(3)
    scene = Scene(WebhookProxy(port, backends, Schedule()))
    async with _backend(scene, backends[0], "0"), _backend(scene, backends[1], "1"):
        await scene.proxy.start()
        yield scene
        await scene.proxy.stop()


@asynccontextmanager
async def _backend(scene: Scene, port: int, name: str) -> AsyncIterator[None]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            scene.heard.append(line.decode().strip())
            writer.write(f"{name}\n".encode())
        writer.close()

    server = await asyncio.start_server(handle, HOST, port)
    async with server:
        yield


async def test_connections_are_spread_in_turn(scene: Scene) -> None:
    assert [await scene.ask() for _ in range(4)] == ["0", "1", "0", "1"]
    assert scene.proxy.schedule.injected == []


@pytest.mark.parametrize(
    ("moment", "heard"), [(Moment.CONNECT, []), (Moment.REQUEST, []), (Moment.ANSWER, ["lost"])], ids=str
)
async def test_a_reset_cuts_both_sides(scene: Scene, moment: Moment, heard: list[str]) -> None:
    scene.rule(reset(), moment)
    with pytest.raises(ConnectionResetError):
        await scene.ask("lost")
    assert scene.heard == heard
    assert await scene.ask() in {"0", "1"}
    assert [str(each.what) for each in scene.proxy.schedule.injected] == [moment]


@pytest.mark.parametrize(("moment", "heard"), [(Moment.REQUEST, []), (Moment.ANSWER, ["lost"])], ids=str)
async def test_a_silenced_direction_stays_open_and_says_nothing(scene: Scene, moment: Moment, heard: list[str]) -> None:
    scene.rule(silence(), moment)
    asked = asyncio.create_task(scene.ask("lost"))
    await eventually(lambda: scene.proxy.schedule.injected != [] and scene.heard == heard)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(_MOMENT_S):
            await asked
    assert scene.heard == heard


async def test_what_is_delayed_passes_in_the_end(scene: Scene) -> None:
    scene.rule(delay(0.05), Moment.ANSWER)
    assert await scene.ask() == "0"
    assert len(scene.proxy.schedule.injected) == 1


async def test_with_no_backend_the_connection_is_closed() -> None:
    port, dead = free_ports(2)
    proxy = WebhookProxy(port, [dead], Schedule())
    await proxy.start()
    assert await Scene(proxy).ask() == ""
    await proxy.stop()
