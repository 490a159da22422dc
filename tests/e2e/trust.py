"""Certificates: what each webhook serves, and what the API server is told to trust."""

from __future__ import annotations

import base64
import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from controller.authority import Issued, issue, server_names
from hack.devcluster.api import Api, Json
from hack.devcluster.chart import NAMESPACE
from hack.devcluster.health import HOST
from hack.devcluster.operator import Operator
from hack.devcluster.processes import Process
from tests.e2e.kube import until
from tests.e2e.trouble import OwnStage, repeatedly

SECRET = f"/api/v1/namespaces/{NAMESPACE}/secrets/placement-operator-webhook-tls"
_ADMISSION = "/apis/admissionregistration.k8s.io/v1"
CONFIGURATIONS = (
    f"{_ADMISSION}/mutatingwebhookconfigurations/zz-placement-operator",
    f"{_ADMISSION}/validatingwebhookconfigurations/placement-operator",
)

_TIMEOUT_S = 30.0
_PROBE_S = 0.2
_LIFE = timedelta(days=90)
_INFORMED_S = 2.0
"""In this time the API server has learnt of a bundle that it has stored; nothing tells when it has."""


def secret_entry(api: Api, key: str) -> str:
    """An entry of the serving Secret as text; empty if it is not there."""
    return base64.b64decode((api.get(SECRET).get("data") or {}).get(key) or "").decode()


def merge_secret(api: Api, entries: dict[str, bytes]) -> Json:
    """Writes entries of the serving Secret."""
    return api.merge(SECRET, {"data": {key: base64.b64encode(value).decode() for key, value in entries.items()}})


def bundles(api: Api) -> list[str]:
    """The `caBundle` of every webhook of both configurations as text."""
    return [
        base64.b64decode(webhook["clientConfig"].get("caBundle") or "").decode()
        for path in CONFIGURATIONS
        for webhook in api.get(path)["webhooks"]
    ]


def served(process: Process) -> str:
    """The certificate that a new connection to a webhook is shown; OSError where there is none."""
    return ssl.get_server_certificate(_address(process), timeout=_TIMEOUT_S)


def serves_everywhere(operator: Operator, certificate: str) -> bool:
    """Whether every webhook shows this certificate; one that does not answer shows none."""
    try:
        return all(served(process).split() == certificate.split() for process in operator.webhooks)
    except OSError:
        return False


def issued(*extra: str, age: timedelta = timedelta()) -> Issued:
    """A certificate of an authority of its own, for the webhooks and the `extra` names, made so long ago."""
    return issue(server_names("placement-operator-webhook", NAMESPACE, extra), datetime.now(UTC) - age, _LIFE)


def grow_old(stage: OwnStage) -> str:
    """Serves a certificate that is past two thirds of its life, from an authority that is trusted. Returns it."""
    old = issued(HOST, age=_LIFE * 0.9)
    merge_secret(stage.api, {"ca.crt": secret_entry(stage.api, "ca.crt").encode() + old.authority})
    until("its authority is trusted", lambda: all(old.authority.decode() in bundle for bundle in bundles(stage.api)))
    time.sleep(_INFORMED_S)
    merge_secret(stage.api, {"tls.crt": old.certificate, "tls.key": old.key})
    return old.certificate.decode()


@contextlib.contextmanager
def always_trusted(stage: OwnStage) -> Iterator[None]:
    """Connects to every webhook all the time while the context lasts; fails the test if one is not trusted.

    The API server's own connections live long, so that a certificate it would not accept shows late.
    """
    distrusted: set[str] = set()

    def probe() -> None:
        for bundle in set(bundles(stage.api)):
            for process in stage.operator.webhooks:
                try:
                    _shake_hands(process, bundle)
                except ssl.SSLCertVerificationError as error:
                    # Between the look at the bundle and the handshake this machine may have stood still.
                    if bundle in bundles(stage.api):
                        distrusted.add(f"{process.name}: {error}")
                except OSError:
                    # It is down, which is no matter of trust.
                    continue

    with repeatedly(probe, _PROBE_S):
        yield
    if distrusted:
        pytest.fail("not trusted meanwhile: " + "; ".join(sorted(distrusted)))


def _shake_hands(process: Process, bundle: str) -> None:
    context = ssl.create_default_context(cadata=bundle)
    with (
        socket.create_connection(_address(process), timeout=_TIMEOUT_S) as connection,
        context.wrap_socket(connection, server_hostname=HOST),
    ):
        return


def _address(process: Process) -> tuple[str, int]:
    assert process.env is not None
    return HOST, int(process.env["PLACEMENT_LISTEN_PORT"])
