"""`make bench`: what placement costs a pod create, beside the same create without us, in one run on one control plane.

Three arms create the same pods (gated, so that neither scheduler nor nodes work during the measurement):

- bare: no webhook configuration exists;
- not opted in: our configurations exist, the namespace did not opt in;
- placed: each pod is placed by the webhooks, one compare-and-swap write included.

It prints what it measured and asserts nothing.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import aiohttp

from hack.devcluster.binaries import BinariesError, find_binaries
from hack.devcluster.cluster import ROOT, DevCluster, KubectlError
from hack.devcluster.nodes import seed_nodes
from hack.devcluster.operator import Operator
from hack.devcluster.processes import Process, ProcessError, cpu_seconds
from hack.devcluster.spec import load_spec
from hack.place_bench import bench_place
from shared.api import names

CALLERS: Final = (1, 32)
PODS: Final = {1: 200, 32: 640}
WARM_UP: Final = 40
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One arm with one number of callers. Times in milliseconds, CPU in milliseconds a pod by process."""

    arm: str
    callers: int
    latencies_ms: Sequence[float]
    seconds: float
    failed: int
    cpu_ms: dict[str, float]

    def percentile(self, share: float) -> float:
        ordered = sorted(self.latencies_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))]

    @property
    def per_second(self) -> float:
        return len(self.latencies_ms) / self.seconds


class Bench:
    """Creates pods through one API server and watches what every process spends."""

    def __init__(self, cluster: DevCluster) -> None:
        self._cluster = cluster
        self._number = 0

    def arm(self, name: str, namespace: str, processes: Iterable[Process]) -> list[Measured]:
        """Measures one arm with each number of callers, after a warm-up; the pods are deleted in between."""
        watched = list(processes)
        self._create(namespace, WARM_UP, 8)
        self._clear(namespace)
        results = []
        for callers in CALLERS:
            before = {process.name: cpu_seconds(process.pid) for process in watched}
            latencies, seconds, failed = self._create(namespace, PODS[callers], callers)
            spent = {
                process.name: 1000 * (cpu_seconds(process.pid) - before[process.name]) / PODS[callers]
                for process in watched
            }
            results.append(Measured(name, callers, latencies, seconds, failed, spent))
            self._clear(namespace)
        return results

    def _create(self, namespace: str, count: int, callers: int) -> tuple[list[float], float, int]:
        return asyncio.run(self._create_all(namespace, count, callers))

    async def _create_all(self, namespace: str, count: int, callers: int) -> tuple[list[float], float, int]:
        bodies = []
        for _ in range(count):
            self._number += 1
            bodies.append(json.dumps(_pod(f"bench-{self._number}", namespace)).encode())
        pending = iter(bodies)
        latencies: list[float] = []
        failed = 0
        url = f"{self._cluster.url}/api/v1/namespaces/{namespace}/pods"
        headers = {"Authorization": f"Bearer {self._cluster.admin_token}", "Content-Type": "application/json"}
        connector = aiohttp.TCPConnector(ssl=self._cluster.ssl_context(), limit=callers)
        timeout = aiohttp.ClientTimeout(total=_TIMEOUT_S)
        async with aiohttp.ClientSession(connector=connector, headers=headers, timeout=timeout) as session:

            async def caller() -> None:
                nonlocal failed
                for body in pending:
                    began = time.perf_counter()
                    async with session.post(url, data=body) as response:
                        await response.read()
                    latencies.append(1000 * (time.perf_counter() - began))
                    failed += response.status != 201

            began = time.perf_counter()
            await asyncio.gather(*(caller() for _ in range(callers)))
            return latencies, time.perf_counter() - began, failed

    def _clear(self, namespace: str) -> None:
        """Deletes the pods and waits until ledgers and API server are at rest."""
        self._cluster.api.delete(f"/api/v1/namespaces/{namespace}/pods?gracePeriodSeconds=0")
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            nodes = self._cluster.kubectl("get", "gpunodes", "-o", "json", check=False)
            held = (
                [node for node in json.loads(nodes.stdout)["items"] if (node.get("status") or {}).get("reservations")]
                if nodes.returncode == 0
                else []
            )
            if not held:
                break
            time.sleep(0.5)
        time.sleep(1.0)


def _pod(name: str, namespace: str) -> dict[str, Any]:
    container = {"name": "server", "image": "registry.example/vllm-openai:v0.11", "args": ["--model", "org/model"]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "annotations": {names.VRAM: "6"}},
        "spec": {"schedulingGates": [{"name": "bench.placement/gate"}], "containers": [container]},
    }


def report(results: Sequence[Measured]) -> str:
    """The table: each arm beside bare with the same number of callers."""
    numbers = f"{'p50 ms':>8} {'p99 ms':>8} {'pods/s':>8}   {'p50':>6} {'p99':>6} {'pods/s':>6}"
    lines = [
        f"{'arm':<14} {'callers':>7} {numbers}   CPU",
        f"{'':<14} {'':>7} {'':>8} {'':>8} {'':>8}   {'ratio to bare':^20}   ms a pod",
    ]
    for result in results:
        bare = next(other for other in results if other.arm == "bare" and other.callers == result.callers)
        ratios = (
            result.percentile(0.5) / bare.percentile(0.5),
            result.percentile(0.99) / bare.percentile(0.99),
            result.per_second / bare.per_second,
        )
        spent = ", ".join(f"{name.removeprefix('kube-')} {ms:.1f}" for name, ms in result.cpu_ms.items())
        lines.append(
            f"{result.arm:<14} {result.callers:>7} {result.percentile(0.5):>8.1f} {result.percentile(0.99):>8.1f} "
            f"{result.per_second:>8.0f}   {ratios[0]:>6.2f} {ratios[1]:>6.2f} {ratios[2]:>6.2f}   {spent}"
            + (f"   {result.failed} of {len(result.latencies_ms)} failed" if result.failed else "")
        )
    return "\n".join(lines)


def run(say: Callable[[str], None]) -> None:
    binaries = find_binaries()
    description = load_spec(ROOT / "hack/clusters/bench.yaml")
    with DevCluster(binaries=binaries, say=say) as cluster:
        bench = Bench(cluster)
        core = [cluster.process("kube-apiserver"), cluster.process("etcd")]
        for namespace in ("bare", "opted-in"):
            cluster.kubectl("create", "namespace", namespace)
        say("measuring bare")
        results = bench.arm("bare", "bare", core)
        with Operator(cluster, say=say) as operator:
            seed_nodes(cluster.api, description.nodes)
            cluster.kubectl("label", "namespace", "opted-in", f"{names.NAMESPACE_LABEL}={names.MODE_ENABLED}")
            everything = [*core, *operator.webhooks, operator.controller]
            time.sleep(3.0)
            say("measuring not opted in")
            results += bench.arm("not opted in", "bare", everything)
            say("measuring placed")
            results += bench.arm("placed", "opted-in", everything)
        cluster.kubectl("delete", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "--all")
        say("measuring bare again, to show how steady the machine was")
        results += bench.arm("bare again", "bare", core)
    size = f"{len(description.nodes)} nodes; etcd without fsync; one webhook, one controller"
    print(f"\n{platform.machine()}, {_cores()} cores, {size}\n")
    print(report(results))


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def main() -> int:
    try:
        run(lambda line: print(f"  {line}", flush=True))
    except KeyboardInterrupt:
        print("\nstopped", file=sys.stderr)
        return 130
    except (BinariesError, ProcessError, KubectlError) as error:
        print(f"bench could not run: {error}", file=sys.stderr)
        return 1
    print()
    bench_place(print)
    return 0


if __name__ == "__main__":
    sys.exit(main())
