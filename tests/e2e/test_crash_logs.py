"""The logs of crashed containers, by way of the real API server and of a kubelet that has nothing but logs."""

from __future__ import annotations

import contextlib
import os
import ssl
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from hack.devcluster.cluster import DevCluster
from hack.devcluster.operator import Operator
from shared.api import names
from tests.e2e.conftest import PATIENT, MakePool
from tests.e2e.kube import Namespace, deployment, until
from tests.e2e.trouble import OwnStage

pytestmark = pytest.mark.e2e

_LOG = b"api_key=hunter2\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has\nGoodbye.\n"


@pytest.fixture(scope="module")
def stage() -> Iterator[OwnStage]:
    """A controller that may read logs."""
    if os.environ.get("E2E_KUBECONFIG"):
        pytest.skip("E2E_KUBECONFIG is set: the operator there is not ours to install with other values")
    values = {**PATIENT, "placement": {"readLogs": True}}
    with DevCluster() as cluster, Operator(cluster, values=values) as operator:
        yield OwnStage(cluster, operator)


def test_the_last_lines_of_a_log_tell_that_memory_was_short(
    stage: OwnStage, pool: MakePool, namespace: Namespace
) -> None:
    here = pool(16)
    with _kubelet(stage) as (port, asked):
        status = {
            "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": port}},
        }
        stage.api.merge(f"/api/v1/nodes/{here.node}/status", {"status": status})
        namespace.create(deployment("chat", {names.VRAM: "6"}, pool=here.name))
        (server,) = namespace.running("chat")
        name = server["metadata"]["name"]
        at = "2026-11-30T10:00:00Z"
        ended = {"exitCode": 1, "reason": "Error", "startedAt": at, "finishedAt": at, "containerID": "kwok://1"}
        crashed = {
            **server["status"]["containerStatuses"][0],
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": ended},
            "ready": False,
            "restartCount": 1,
        }
        path = namespace.path("Pod", name) + "/status"
        stage.api.merge(path, {"status": {"containerStatuses": [crashed]}})
        until("the log tells", lambda: namespace.placement("Deployment", "chat").get("lastErrorCode") == "OOM")
    message = namespace.placement("Deployment", "chat")["lastErrorMessage"]
    assert "CUDA out of memory (it asked for 2.00 GiB)" in message
    assert "hunter2" not in message
    assert asked
    question = asked[0]  # who leads next asks again
    assert question.startswith(f"/containerLogs/{namespace.name}/{name}/server?")
    assert {"limitBytes=65536", "previous=true", "tailLines=200"} <= set(question.partition("?")[2].split("&"))


@contextlib.contextmanager
def _kubelet(stage: OwnStage) -> Iterator[tuple[int, list[str]]]:
    """The port of a kubelet that gives `_LOG` for any log, and what it was asked for."""
    asked: list[str] = []

    class Logs(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain")
            self.end_headers()
            self.wfile.write(_LOG)

        def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 - as the base class has it
            pass

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pki = stage.cluster.ca_file.parent
    context.load_cert_chain(pki / "server.crt", pki / "server.key")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Logs)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1], asked
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
