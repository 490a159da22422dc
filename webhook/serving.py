"""The serving certificate: read from its Secret, and exchanged under way without dropping a connection."""

from __future__ import annotations

import asyncio
import base64
import os
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography import x509

from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.reflector import Reflector
from shared.obs.logs import get_logger

log = get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Pair:
    certificate: bytes
    key: bytes


class ServingCertificate:
    """`context` serves the newest usable pair of the Secret `namespace`/`name`; `loaded` is set once there is one.

    `expiry` is the last moment of that pair, None before there is one.
    """

    def __init__(self, client: KubeClient, namespace: str, name: str) -> None:
        self.context = _new_context()
        self.loaded = asyncio.Event()
        self.expiry: datetime | None = None
        self.reflector = Reflector(
            client, paths.secrets(namespace), _pair, self, field_selector=f"metadata.name={name}"
        )

    async def run(self) -> None:
        """Follows the Secret until cancelled."""
        await self.reflector.run()

    def problem(self) -> str | None:
        """Why it cannot be served, or None if it can."""
        if self.expiry is None:
            return "there is none yet"
        if self.expiry.timestamp() < time.time():
            return f"expired at {self.expiry.isoformat()}"
        return None

    def upserted(self, _key: str, new: _Pair, _old: _Pair | None) -> None:
        """Takes over a new pair. One that does not belong together is left alone, and the old one goes on."""
        try:
            # A pair that does not match would spoil a live context, so it is tried on another one first.
            _load(_new_context(), new)
            expiry = x509.load_pem_x509_certificate(new.certificate).not_valid_after_utc
        except (ssl.SSLError, ValueError) as error:
            log.warning("certificate and key do not belong together; the last pair stays in use", error=error)
            return
        _load(self.context, new)
        self.expiry = expiry
        self.loaded.set()
        log.info("serving certificate loaded", expires=expiry.isoformat())

    def deleted(self, _key: str, _old: _Pair) -> None:
        log.warning("the certificate's Secret is gone; the last pair stays in use")

    def synced(self) -> None:
        if not self.loaded.is_set():
            log.info("waiting for the controller to make the certificate")


def _pair(raw: Mapping[str, Any]) -> _Pair:
    data = raw.get("data") or {}
    return _Pair(base64.b64decode(data["tls.crt"]), base64.b64decode(data["tls.key"]))


def _new_context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    return context


def _load(context: ssl.SSLContext, pair: _Pair) -> None:
    """`ssl` reads pairs from files only; these never reach a disk."""
    with _memory_file(pair.certificate) as certificate, _memory_file(pair.key) as key:
        context.load_cert_chain(certificate, key)


@contextmanager
def _memory_file(content: bytes) -> Iterator[str]:
    descriptor = os.memfd_create("tls")
    try:
        os.write(descriptor, content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
