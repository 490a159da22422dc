"""Who the client is: a pod's service account, a token file or a plugin, each asked again when it may have changed."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import certifi
import pytest

from shared.kube.credentials import Connection, NoClusterError, open_connection

_SERVICE_ACCOUNT = "kubernetes_asyncio.config.incluster_config"


@asynccontextmanager
async def opened(kubeconfig: str | None) -> AsyncIterator[Connection]:
    connection = await open_connection(kubeconfig)
    try:
        yield connection
    finally:
        await connection.session.close()


@pytest.fixture
def in_pod(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], None]:
    """Makes this process look like one in a pod, with the token that is given."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(f"{_SERVICE_ACCOUNT}.SERVICE_TOKEN_FILENAME", str(tmp_path / "token"))
    monkeypatch.setattr(f"{_SERVICE_ACCOUNT}.SERVICE_CERT_FILENAME", certifi.where())

    def write(token: str) -> None:
        (tmp_path / "token").write_text(token)

    return write


def kubeconfig(folder: Path, **user: Any) -> str:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1/", "tls-server-name": "api.test"}}],
        "users": [{"name": "u", "user": user}],
    }
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return str(path)


async def test_in_a_pod_the_service_account_is_used_and_its_token_read_again(in_pod: Callable[[str], None]) -> None:
    in_pod("first\n")
    async with opened(None) as connection:
        assert connection.server == "https://[fd00::1]:443"
        assert await connection.headers() == {"Authorization": "Bearer first"}
        in_pod("second")
        assert await connection.headers() == {"Authorization": "Bearer first"}
        connection.refused()
        assert await connection.headers() == {"Authorization": "Bearer second"}


async def test_a_plugin_of_the_kubeconfig_is_asked_again_after_a_refusal(tmp_path: Path) -> None:
    script = (
        "import json, pathlib\n"
        f"count = pathlib.Path({str(tmp_path / 'count')!r})\n"
        "count.write_text(str(int(count.read_text() if count.exists() else 0) + 1))\n"
        "status = {'token': 'token-' + count.read_text()}\n"
        "api_version = 'client.authentication.k8s.io/v1'\n"
        "print(json.dumps({'apiVersion': api_version, 'kind': 'ExecCredential', 'status': status}))\n"
    )
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": ["-c", script],
    }
    async with opened(kubeconfig(tmp_path, exec=plugin)) as connection:
        first = await connection.headers()
        assert await connection.headers() == first
        connection.refused()
        assert await connection.headers() != first
        assert connection.server == "http://127.0.0.1:1"
        assert connection.options == {"server_hostname": "api.test"}


async def test_a_kubeconfig_without_a_user_sends_no_credentials(tmp_path: Path) -> None:
    async with opened(kubeconfig(tmp_path)) as connection:
        assert await connection.headers() == {}


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"current-context": "absent"}'])
async def test_a_kubeconfig_that_makes_no_sense_is_named_with_the_fix(tmp_path: Path, text: str) -> None:
    (tmp_path / "kubeconfig").write_text(text)
    with pytest.raises(NoClusterError, match=r"(?s)kubeconfig '.*/kubeconfig'.*set KUBECONFIG"):
        await open_connection(str(tmp_path / "kubeconfig"))
