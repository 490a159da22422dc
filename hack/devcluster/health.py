"""Whether something on this machine answers: what readiness checks are made of."""

from __future__ import annotations

import http.client
import socket
import ssl
from pathlib import Path

HOST = "127.0.0.1"
_TIMEOUT_S = 20.0


def answers(port: int, path: str, ca: Path | None = None) -> bool:
    """True when a GET is answered with 200; with `ca` over TLS. OSError when there is no answer."""
    if ca is None:
        connection = http.client.HTTPConnection(HOST, port, timeout=_TIMEOUT_S)
    else:
        tls = ssl.create_default_context(cafile=str(ca))
        connection = http.client.HTTPSConnection(HOST, port, timeout=_TIMEOUT_S, context=tls)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == http.HTTPStatus.OK
    except http.client.HTTPException as error:
        raise ConnectionError(f"{HOST}:{port}{path}: {error!r}") from error
    finally:
        connection.close()


def listens(port: int) -> bool:
    """True when something accepts connections on the port; OSError otherwise."""
    with socket.create_connection((HOST, port), timeout=_TIMEOUT_S):
        return True
