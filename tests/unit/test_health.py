"""What the kubelet asks, and what surrounds every process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import pytest
from prometheus_client import CollectorRegistry

from shared.obs.connections import Limits
from shared.obs.health import Check, serve_health
from shared.obs.metrics import LEADER, AtScrape, family
from shared.obs.process import exit_with, run_process
from shared.settings import SettingsError
from tests.fakes.serving import eventually

HOST = "127.0.0.1"
HALF_A_HEADER = b"GET /healthz HTTP/1.1\r\nHost: "


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        port: int = listener.getsockname()[1]
        return port


async def get(port: int, path: str, method: str = "GET") -> tuple[int, str]:
    async with aiohttp.ClientSession() as session, session.request(method, f"http://{HOST}:{port}{path}") as answer:
        return answer.status, await answer.text()


@asynccontextmanager
async def serving(*checks: Check) -> AsyncIterator[int]:
    """The port of a process with these checks, and with one metric."""
    port, registry = free_port(), CollectorRegistry()
    registry.register(AtScrape(lambda: [family(LEADER, [({}, 1)])]))
    async with serve_health("webhook", HOST, port, lambda: iter(checks), registry):
        yield port


async def test_a_ready_process_says_so() -> None:
    async with serving(Check("certificate"), Check("pods")) as port:
        assert await get(port, "/healthz") == (200, "ok\n")
        assert await get(port, "/readyz") == (200, "[+]certificate ok\n[+]pods ok\nready\n")


async def test_an_unready_process_names_what_fails_and_is_not_to_be_restarted() -> None:
    async with serving(Check("certificate"), Check("pods", "is not listed yet")) as port:
        assert await get(port, "/readyz") == (503, "[+]certificate ok\n[-]pods: is not listed yet\nnot ready\n")
        assert (await get(port, "/healthz"))[0] == 200


async def test_checks_are_asked_anew_each_time() -> None:
    port = free_port()
    checks = [Check("pods", "is not listed yet")]
    async with serve_health("webhook", HOST, port, lambda: checks, CollectorRegistry()):
        assert (await get(port, "/readyz"))[0] == 503
        checks[:] = [Check("pods")]
        assert (await get(port, "/readyz"))[0] == 200


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics"])
async def test_a_head_request_is_answered_as_a_get_without_its_body(path: str) -> None:
    async with serving(Check("pods")) as port:
        assert await get(port, path, method="HEAD") == (200, "")


@pytest.mark.parametrize("path", ["/", "/metric", "/readyz/pods", "/debug/pprof"])
async def test_another_path_does_not_exist(path: str) -> None:
    async with serving() as port:
        assert (await get(port, path))[0] == 404


async def test_the_checks_are_metrics_too() -> None:
    async with serving(Check("certificate"), Check("pods", "is not listed yet")) as port:
        text = (await get(port, "/metrics"))[1]
        assert 'placement_ready{check="certificate",process="webhook"} 1.0' in text
        assert 'placement_ready{check="pods",process="webhook"} 0.0' in text


@pytest.mark.parametrize(
    ("accept", "content_type", "ends"),
    [
        pytest.param("", "text/plain; version=0.0.4; charset=utf-8", "placement_ready gauge\n", id="text"),
        pytest.param(
            "application/openmetrics-text;version=1.0.0,text/plain;q=0.1",
            "application/openmetrics-text; version=1.0.0; charset=utf-8; escaping=underscores",
            "# EOF\n",
            id="OpenMetrics",
        ),
    ],
)
async def test_metrics_come_in_the_form_that_the_scraper_asks_for(accept: str, content_type: str, ends: str) -> None:
    async with (
        serving() as port,
        aiohttp.ClientSession() as session,
        session.get(f"http://{HOST}:{port}/metrics", headers={"Accept": accept}) as answer,
    ):
        assert answer.headers["Content-Type"] == content_type
        text = await answer.text()
        assert "placement_leader 1.0\n" in text
        assert text.endswith(ends)


async def test_headers_that_do_not_end_are_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.obs.health._LIMITS", Limits(header_s=0.05))
    async with serving() as port:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(HALF_A_HEADER)
        assert await reader.read() == b""
        writer.close()


async def test_as_many_clients_as_there_may_be_keep_no_probe_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.obs.health._LIMITS", Limits(most=3))
    async with serving() as port:
        clients = []
        for _ in range(8):
            clients.append(await asyncio.open_connection(HOST, port))
            clients[-1][1].write(HALF_A_HEADER)
        assert await get(port, "/healthz") == (200, "ok\n")
        await eventually(lambda: sum(reader.at_eof() or bool(reader.exception()) for reader, _ in clients) == 6)
        for _, writer in clients:
            writer.transport.abort()


async def test_nothing_listens_any_more_once_the_work_is_over() -> None:
    async with serving() as port:
        pass
    with pytest.raises(aiohttp.ClientConnectionError):
        await get(port, "/healthz")


async def test_a_port_that_is_taken_is_an_error() -> None:
    async with serving() as port:
        with pytest.raises(OSError, match="in use"):
            async with serve_health("webhook", HOST, port, tuple, CollectorRegistry()):
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
        assert process.communicate(timeout=120)[0] == "stopped\n"
        assert process.returncode == 0


_FILES = """
import resource, sys
from shared.obs.process import run_process

_, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
resource.setrlimit(resource.RLIMIT_NOFILE, (256, hard))

async def work(stop):
    soft, same = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert same == hard
    assert soft == hard or soft >= 65536, (soft, hard)

sys.exit(run_process("info", work))
"""


def test_a_process_may_open_as_many_files_as_it_is_granted() -> None:
    assert subprocess.run([sys.executable, "-c", _FILES], check=False).returncode == 0


def test_a_log_level_that_does_not_exist_is_named_before_any_work() -> None:
    async def work(_stop: asyncio.Event) -> None:
        raise AssertionError("never runs")

    with pytest.raises(SettingsError, match="PLACEMENT_LOG_LEVEL: log level 'loud'"):
        run_process("loud", work)


def test_what_keeps_a_process_from_starting_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_with(SettingsError("PLACEMENT_NAMESPACE is not set")) == 2
    assert capsys.readouterr().err == "cannot start: PLACEMENT_NAMESPACE is not set\n"
