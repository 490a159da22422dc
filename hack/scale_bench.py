"""`make bench-scale`: what a big cluster costs webhook and controller: 5,000 nodes with 8 cards each and 10,000 pods.

The cluster is made up (`hack/scale/objects.py`) and served by a process that does little else than send it; webhook and
controller are the real processes. Everything is measured beside a small cluster in the same run. CPU times say more
than the others on a machine that has other work. It prints what it measured and asserts nothing.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import platform
import ssl
import statistics
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from hack.devcluster.cluster import ROOT
from hack.devcluster.health import HOST, answers, listens
from hack.devcluster.processes import Process, ProcessError, free_ports
from hack.scale.objects import MODELS, SYSTEM
from shared.api import names
from shared.kube import paths

SIZES: Final = ((50, 100), (5000, 10_000))
_READY_S: Final = 300.0
_PAUSE_S: Final = 25.0
"""Until the reservations of a round have run out: no pod comes of them."""
_REST_S: Final = 65.0
"""One period in which the controller looks at every ledger."""
_ALONE: Final = (200, 1)
_TOGETHER: Final = (1000, 200)
"""Reviews, and how many at a time."""
_MODEL_PLACEMENTS: Final = paths.model_placements()


@dataclass(frozen=True, slots=True)
class Line:
    """One figure."""

    what: str
    value: float
    unit: str


def measure(nodes: int, pods: int, folder: Path) -> Iterator[Line]:
    """Starts everything on a cluster of that size and measures."""
    api_port, review_port, webhook_health, controller_health = free_ports(4)
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(json.dumps(_kubeconfig(api_port)))
    common = {
        **{key: value for key, value in os.environ.items() if not key.startswith("PLACEMENT_")},
        "KUBECONFIG": str(kubeconfig),
        "PLACEMENT_NAMESPACE": SYSTEM,
        "PLACEMENT_HEALTH_HOST": HOST,
        "PLACEMENT_LISTEN_HOST": HOST,
        "PLACEMENT_LISTEN_PORT": str(review_port),
        "PLACEMENT_EXTRA_SANS": HOST,
        "PLACEMENT_IDENTITY": "controller-0",
    }

    def process(program: str, health_port: int) -> Process:
        return Process(
            program,
            [sys.executable, "-m", program],
            log=folder / f"{program}.log",
            env={**common, "PLACEMENT_HEALTH_PORT": str(health_port)},
            cwd=ROOT,
            ready=lambda: answers(health_port, "/readyz"),
        )

    server = Process(
        "server",
        [sys.executable, "-m", "hack.scale.server", str(api_port), str(nodes), str(pods)],
        log=folder / "server.log",
        cwd=ROOT,
        ready=lambda: listens(api_port),
    )
    api = f"http://{HOST}:{api_port}"
    with ExitStack() as running:
        running.enter_context(_running(server))
        controller, webhook = process("controller", controller_health), process("webhook", webhook_health)
        began = time.monotonic()
        running.enter_context(_running(controller))
        yield Line("controller: start until ready", time.monotonic() - began, "s")
        # Of each workload the object is made and then its status written.
        _until(lambda: _get(f"{api}/writes").get(_MODEL_PLACEMENTS, 0) >= 2 * (pods // 2))
        yield Line("controller: start until every workload is reported", time.monotonic() - began, "s")
        yield Line("controller: CPU until then", controller.cpu_seconds, "s")
        began = time.monotonic()
        running.enter_context(_running(webhook))
        yield Line("webhook: start until ready", time.monotonic() - began, "s")
        yield Line("webhook: CPU until then", webhook.cpu_seconds, "s")
        spent = controller.cpu_seconds, webhook.cpu_seconds
        time.sleep(_REST_S)
        yield Line(f"controller: CPU in {_REST_S:.0f} s at rest", controller.cpu_seconds - spent[0], "s")
        yield Line(f"webhook: CPU in {_REST_S:.0f} s at rest", webhook.cpu_seconds - spent[1], "s")
        yield Line("controller: memory at rest", _rss_mib(controller.pid), "MiB")
        yield Line("webhook: memory at rest", _rss_mib(webhook.pid), "MiB")
        trusting = ssl.create_default_context(cadata=_authority(api))
        url = f"https://{HOST}:{review_port}/mutate?timeout=10s"
        for count, callers in (_ALONE, _TOGETHER):
            before = webhook.cpu_seconds
            yield from _reviews(f"{callers} at a time", asyncio.run(_ask(url, trusting, count, callers)))
            yield Line(
                f"reviews, {callers} at a time: CPU of the webhook for each",
                1000 * (webhook.cpu_seconds - before) / count,
                "ms",
            )
            time.sleep(_PAUSE_S)
        yield Line("webhook: most memory", _peak_mib(webhook.pid), "MiB")
        yield Line("controller: most memory", _peak_mib(controller.pid), "MiB")


def _reviews(how: str, answered: tuple[Sequence[float], int]) -> Iterator[Line]:
    times, refused = answered
    cut = statistics.quantiles(times, n=100)
    yield Line(f"reviews, {how}: p50", cut[49], "ms")
    yield Line(f"reviews, {how}: p99", cut[98], "ms")
    if refused:
        yield Line(f"reviews, {how}: not placed", refused, "")


async def _ask(url: str, trusting: ssl.SSLContext, count: int, callers: int) -> tuple[Sequence[float], int]:
    """Times of that many reviews in milliseconds, and how many were not allowed."""
    times: list[float] = []
    refused = 0
    numbers = iter(range(count))
    connector = aiohttp.TCPConnector(ssl=trusting, limit=callers)
    async with aiohttp.ClientSession(connector=connector, headers={"Content-Type": "application/json"}) as session:

        async def caller() -> None:
            nonlocal refused
            for number in numbers:
                body = json.dumps(_review(number))
                began = time.perf_counter()
                async with session.post(url, data=body) as answer:
                    response = json.loads(await answer.read())["response"]
                times.append(1000 * (time.perf_counter() - began))
                refused += not response["allowed"]

        await asyncio.gather(*(caller() for _ in range(callers)))
    return times, refused


def _review(number: int) -> dict[str, Any]:
    container = {"name": "server", "image": "registry.example/vllm-openai:v0.11", "args": ["--model", "org/model"]}
    pod = {
        "metadata": {"name": f"new-{number}", "namespace": MODELS, "annotations": {names.VRAM: "6"}},
        "spec": {"containers": [container]},
    }
    request = {
        "uid": f"uid-{number}",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "operation": "CREATE",
        "namespace": MODELS,
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


@contextmanager
def _running(process: Process) -> Iterator[None]:
    process.start()
    try:
        process.wait_ready(_READY_S)
        yield
    finally:
        process.stop()


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - a server of our own
        return json.loads(answer.read())


def _until(happened: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _READY_S
    while not happened():
        if time.monotonic() > deadline:
            raise ProcessError(f"nothing came of it in {_READY_S:.0f} s")
        time.sleep(0.5)


def _authority(api: str) -> str:
    secrets = _get(f"{api}/api/v1/namespaces/{SYSTEM}/secrets")["items"]
    return base64.b64decode(secrets[0]["data"]["ca.crt"]).decode()


def _kubeconfig(port: int) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "scale",
        "contexts": [{"name": "scale", "context": {"cluster": "scale", "user": "scale"}}],
        "clusters": [{"name": "scale", "cluster": {"server": f"http://{HOST}:{port}"}}],
        "users": [{"name": "scale", "user": {"token": "none"}}],
    }


def _rss_mib(pid: int) -> float:
    return _status_mib(pid, "VmRSS")


def _peak_mib(pid: int) -> float:
    return _status_mib(pid, "VmHWM")


def _status_mib(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines():
        name, _, value = line.partition(":")
        if name == field:
            return int(value.split()[0]) / 1024
    raise ProcessError(f"process {pid} does not tell {field}")


def report(results: Sequence[dict[str, Line]]) -> str:
    """Every figure at every size."""
    heads = "".join(f"{f'{nodes:,} nodes':>14}" for nodes, _ in SIZES)
    pods = "".join(f"{f'{pods:,} pods':>14}" for _, pods in SIZES)
    lines = [f"{'':<55}{heads}", f"{'':<55}{pods}"]
    for what in dict.fromkeys(what for result in results for what in result):
        cells = "".join(
            f"{result[what].value:>10.1f} {result[what].unit:<3}" if what in result else f"{'-':>14}"
            for result in results
        )
        lines.append(f"{what:<55}{cells}")
    return "\n".join(lines)


def main() -> int:
    results = []
    try:
        for nodes, pods in SIZES:
            print(f"  measuring {nodes:,} nodes and {pods:,} pods", flush=True)
            with tempfile.TemporaryDirectory() as folder:
                results.append({line.what: line for line in measure(nodes, pods, Path(folder))})
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except ProcessError as error:
        print(f"bench could not run: {error}", file=sys.stderr)
        return 1
    machine = f"{platform.machine()}, {len(os.sched_getaffinity(0))} cores, Python {platform.python_version()}"
    print(f"\n{machine}; {os.getloadavg()[1]:.1f} processes wanted to run in the last 5 minutes\n")
    print(report(results))
    return 0


if __name__ == "__main__":
    sys.exit(main())
