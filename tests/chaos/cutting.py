"""Ends a connection as a network does that has lost it: with a reset, in the middle of whatever was said."""

from __future__ import annotations

import asyncio
import socket
import struct

_AT_ONCE = struct.pack("ii", 1, 0)


class CutError(Exception):
    """The connection that is being served has to be cut."""


def cut(transport: asyncio.BaseTransport | None) -> None:
    """Sends RST and forgets the connection."""
    if transport is None:
        return
    connection = transport.get_extra_info("socket")
    if connection is not None:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    assert isinstance(transport, asyncio.WriteTransport)
    transport.abort()
