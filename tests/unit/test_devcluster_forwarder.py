"""The forwarder in front of several webhooks: it takes them in turn and passes over a dead one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from hack.devcluster import forwarder
from hack.devcluster.health import HOST
from hack.devcluster.processes import free_ports


@asynccontextmanager
async def backend(port: int) -> AsyncIterator[None]:
    """Answers every line with its port."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.readline():
            writer.write(f"{port}\n".encode())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(handle, HOST, port)
    async with server:
        yield


@asynccontextmanager
async def forwarding(port: int, backends: list[int]) -> AsyncIterator[None]:
    async with await forwarder.serve(port, backends):
        yield
    await asyncio.gather(*asyncio.all_tasks() - {asyncio.current_task()})


async def ask(port: int) -> str:
    reader, writer = await asyncio.open_connection(HOST, port)
    writer.write(b"who\n")
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer.decode().strip()


async def test_connections_go_to_the_backends_in_turn() -> None:
    port, first, second = free_ports(3)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(backend(first))
        await stack.enter_async_context(backend(second))
        await stack.enter_async_context(forwarding(port, [first, second]))

        assert [await ask(port) for _ in range(4)] == [str(first), str(second), str(first), str(second)]


async def test_a_backend_that_is_down_is_passed_over() -> None:
    port, dead, alive = free_ports(3)
    async with backend(alive), forwarding(port, [dead, alive]):
        assert [await ask(port) for _ in range(3)] == [str(alive)] * 3


async def test_with_no_backend_the_connection_is_closed() -> None:
    port, dead = free_ports(2)
    async with forwarding(port, [dead]):
        assert await ask(port) == ""
