"""A controller that leads again: what is there is kept out of garbage collection once, not in each term."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

import controller.__main__ as program
from shared.settings import controller_settings
from tests.fakes.api import Api
from tests.fakes.inprocess import Network, in_process_client
from tests.fakes.objects import ObjectStore

_TERMS = 3


async def test_what_is_there_is_kept_once_however_often_it_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    at_work, stop = asyncio.Event(), asyncio.Event()

    class Elected:
        """Leads several times, each time until the reconcilers are at work."""

        is_leader = True

        def __init__(self, *_: Any) -> None:
            """Takes what the real one takes."""

        async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
            for _ in range(_TERMS):
                term = asyncio.ensure_future(lead())
                await at_work.wait()
                at_work.clear()
                term.cancel()
                await asyncio.wait({term})
            stop.set()

    def reconcilers(*_: Any) -> tuple[()]:
        done.append("reconcile")
        at_work.set()
        return ()

    monkeypatch.setattr(program, "Elector", Elected)
    monkeypatch.setattr(program, "reconcilers", reconcilers)
    monkeypatch.setattr(program, "keep_what_is_there", lambda: done.append("keep"))
    client, _ = in_process_client(Network(Api(ObjectStore())))
    variables = {"PLACEMENT_NAMESPACE": "placement-system", "PLACEMENT_HEALTH_HOST": "127.0.0.1"}
    settings = controller_settings({**variables, "PLACEMENT_IDENTITY": "controller-0"})
    settings = replace(settings, common=replace(settings.common, health_port=0))
    await program.run_controller(settings, client, stop)
    assert done == ["keep", *["reconcile"] * _TERMS]
