"""A fake API server and a client connected to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from shared.kube.client import KubeClient
from tests.fakes.apiserver import FakeApiServer
from tests.fakes.objects import ObjectStore


@dataclass(frozen=True, slots=True)
class Served:
    """The two ends of a connection."""

    server: FakeApiServer
    client: KubeClient


async def eventually(happened: Callable[[], bool], *, within_s: float = 120.0) -> None:
    """Waits until `happened`. The limit is for a test that fails, and is never reached by one that passes."""
    async with asyncio.timeout(within_s):
        while not happened():  # noqa: ASYNC110 - what is waited for knows nothing of tests and sets no event
            await asyncio.sleep(0.005)


async def in_time(happened: Callable[[], bool], forward: Callable[[float], None], *, step_s: float = 1.0) -> None:
    """Waits until `happened` while the clock goes on by `step_s` each time that it is asked: see the fixture."""
    for _ in range(20_000):
        if happened():
            return
        forward(step_s)
        await asyncio.sleep(0.005)
    raise TimeoutError


@asynccontextmanager
async def serving(
    folder: Path, *, objects: ObjectStore | None = None, timeout_s: float = 120.0
) -> AsyncIterator[Served]:
    """Runs a server and a client with `timeout_s` as its default deadline; `folder` takes the kubeconfig."""
    async with (
        FakeApiServer(objects) as server,
        await KubeClient.connect(server.kubeconfig(folder), timeout_s) as client,
    ):
        yield Served(server, client)
