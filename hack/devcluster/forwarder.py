"""Spread TCP connections over several ports in turn, as a Service does: `forwarder PORT BACKEND...`.

A backend that refuses the connection is passed over, so that a killed webhook costs the API server only the
connections it had.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import sys
from collections.abc import Sequence

from hack.devcluster.health import HOST

_CHUNK = 65536


async def serve(port: int, backends: Sequence[int]) -> asyncio.Server:
    """Start to listen on `port`; the server forwards each connection to the next backend that accepts."""
    turn = itertools.cycle(range(len(backends)))

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = next(turn)
        upstream = await connect([*backends[first:], *backends[:first]])
        if upstream is None:
            writer.close()
            return
        upstream_reader, upstream_writer = upstream
        await asyncio.gather(_pump(reader, upstream_writer), _pump(upstream_reader, writer))
        for end in (writer, upstream_writer):
            end.close()
            with contextlib.suppress(ConnectionError):
                await end.wait_closed()

    return await asyncio.start_server(handle, HOST, port)


async def connect(backends: Sequence[int]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
    """A connection to the first of `backends` that accepts one, or None."""
    for backend in backends:
        with contextlib.suppress(OSError):
            return await asyncio.open_connection(HOST, backend)
    return None


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy until one side has no more to say, and pass that on."""
    with contextlib.suppress(OSError):
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()


async def main(ports: Sequence[int]) -> None:
    """Forward until the process is ended."""
    server = await serve(ports[0], ports[1:])
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main([int(argument) for argument in sys.argv[1:]]))
