"""What the kubelet asks, and what surrounds every process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys

import aiohttp
import pytest

from shared.obs.health import serve_health
from shared.obs.process import exit_with, run_process
from shared.settings import SettingsError

HOST = "127.0.0.1"


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port


async def get(port: int, path: str) -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.get(f"http://{HOST}:{port}{path}") as answer:
        return answer.status, await answer.text()


async def test_a_ready_process_says_so() -> None:
    port = free_port()
    async with serve_health(HOST, port, tuple):
        assert await get(port, "/healthz") == (200, "ok\n")
        assert await get(port, "/readyz") == (200, "ok\n")


async def test_an_unready_process_says_why_and_is_not_to_be_restarted() -> None:
    port = free_port()
    reasons = ["no certificate", "pods are not listed yet"]
    async with serve_health(HOST, port, lambda: iter(reasons)):
        assert await get(port, "/readyz") == (503, "no certificate\npods are not listed yet\n")
        assert (await get(port, "/healthz"))[0] == 200
        reasons.clear()
        assert (await get(port, "/readyz"))[0] == 200


async def test_nothing_listens_any_more_once_the_work_is_over() -> None:
    port = free_port()
    async with serve_health(HOST, port, tuple):
        pass
    with pytest.raises(aiohttp.ClientConnectionError):
        await get(port, "/healthz")


async def test_a_port_that_is_taken_is_an_error() -> None:
    port = free_port()
    async with serve_health(HOST, port, tuple):
        with pytest.raises(OSError, match="in use"):
            async with serve_health(HOST, port, tuple):
                pass


_PROCESS = """
import asyncio, sys
from shared.obs.process import run_process

async def work(stop):
    print("started", flush=True)
    await stop.wait()
    print("stopped", flush=True)

sys.exit(run_process("info", work))
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_a_signal_lets_the_work_come_to_its_end(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", _PROCESS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        os.kill(process.pid, number)
        assert process.communicate(timeout=20)[0] == "stopped\n"
        assert process.returncode == 0


def test_a_log_level_that_does_not_exist_is_named_before_any_work() -> None:
    async def work(_stop: asyncio.Event) -> None:
        raise AssertionError("never runs")

    with pytest.raises(SettingsError, match="PLACEMENT_LOG_LEVEL: log level 'loud'"):
        run_process("loud", work)


def test_what_keeps_a_process_from_starting_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_with(SettingsError("PLACEMENT_NAMESPACE is not set")) == 2
    assert capsys.readouterr().err == "cannot start: PLACEMENT_NAMESPACE is not set\n"
