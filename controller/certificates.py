"""Keeps the webhook's serving certificate valid, and the API server trusting it.

A renewed certificate is served only when the API server trusts it. Every step starts from what the cluster
holds, so a controller that takes over half-way goes on from there:

1. The new pair is stored in the Secret as `next.crt` and `next.key`, its authority at the end of `ca.crt`.
2. The `caBundle` of every webhook is set to `ca.crt`.
3. Both configurations have carried it for a while: the new pair becomes `tls.crt` and `tls.key`.

The old authority stays trusted until the renewal after that or until it expires, for a webhook that hears late.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from cryptography import x509

from controller.authority import (
    InvalidServerName,
    Issued,
    Pair,
    UnusablePair,
    issue,
    read_bundle,
    server_names,
    usable_pair,
    write_bundle,
)
from shared.kube import paths
from shared.kube.client import Json, KubeClient
from shared.kube.errors import AlreadyExists, NotFound
from shared.kube.reflector import Feed, Reflector
from shared.kube.workqueue import WorkQueue
from shared.obs.logs import get_logger
from shared.obs.recorders import QueueRecorder
from shared.settings import ControllerSettings, SettingsError

log = get_logger(__name__)

_RECHECK: Final = timedelta(minutes=5)
_SHORTEST_LIFE: Final = timedelta(minutes=1)

_BUNDLE: Final = "ca.crt"
_CERTIFICATE: Final = "tls.crt"
_KEY: Final = "tls.key"
_NEXT_CERTIFICATE: Final = "next.crt"
_NEXT_KEY: Final = "next.key"


@dataclass(frozen=True, slots=True)
class _Stored:
    """What is usable of a Secret: `authorities` are trusted, the newest last."""

    authorities: tuple[x509.Certificate, ...]
    current: Pair | None
    next: Pair | None

    def still_served(self) -> Sequence[x509.Certificate]:
        """The authorities of the pairs that a webhook may have in memory: the current one and the one before.

        What follows the current one belongs to a successor that never came into use.
        """
        if self.current is None:
            return self.authorities[-2:]
        end = self.authorities.index(self.current.issuer) + 1
        return self.authorities[:end][-2:]


class Certificates:
    """Owns the serving Secret and the `caBundle` of both webhook configurations. Only the leader may run it.

    `now` is the wall clock, with a time zone. `settle` is the time in which every API server learns of a bundle
    that one of them has stored. Raises `SettingsError` for a name that no certificate can hold, and for a life too
    short to renew in.
    """

    def __init__(
        self,
        client: KubeClient,
        settings: ControllerSettings,
        *,
        now: Callable[[], datetime],
        settle: timedelta = timedelta(seconds=5),
        queues: QueueRecorder | None = None,
    ) -> None:
        namespace, self._secret_name = settings.common.namespace, settings.common.tls_secret
        try:
            self._names = server_names(settings.service, namespace, settings.extra_sans)
        except InvalidServerName as error:
            raise SettingsError(f"names for the serving certificate: {error}") from error
        self._lifetime = timedelta(days=settings.certificate_days)
        if self._lifetime < _SHORTEST_LIFE:
            raise SettingsError(f"life of the serving certificate, {self._lifetime}: make it {_SHORTEST_LIFE} or more")
        self._client = client
        self._now = now
        self._settle = settle
        self._queues = queues
        self._secrets = paths.secrets(namespace)
        self._secret = paths.secrets(namespace, self._secret_name)
        self._watched = (
            (self._secrets, self._secret_name),
            (paths.mutating_webhooks(), settings.mutating_configuration),
            (paths.validating_webhooks(), settings.validating_configuration),
        )
        self._configurations = (
            paths.mutating_webhooks(settings.mutating_configuration),
            paths.validating_webhooks(settings.validating_configuration),
        )
        self._missing: set[str] = set()
        self._published: tuple[str, datetime] | None = None
        self._expiry: datetime | None = None

    @property
    def expiry(self) -> datetime | None:
        """When the pair in use expires; None before the first look and while there is no usable one."""
        return self._expiry

    async def run(self) -> None:
        """Reconciles after every change of the three objects and every few minutes, until cancelled."""
        # Who led in the meantime may have published something else.
        self._published = None
        queue: WorkQueue[str] = WorkQueue("certificates", self._queues)

        async def work(key: str) -> None:
            queue.add_after(key, (await self.reconcile()).total_seconds())

        async with asyncio.TaskGroup() as group:
            # Whatever changes, everything is looked at again.
            wake: Feed[str] = Feed(lambda _key, _version: queue.add(self._secret), lambda _key: queue.add(self._secret))
            for path, name in self._watched:
                reflector = Reflector(self._client, path, _version, wake, field_selector=f"metadata.name={name}")
                group.create_task(reflector.run())
            queue.add(self._secret)
            await queue.run(work)

    async def reconcile(self) -> timedelta:
        """Brings the three objects one step nearer to what they should be; returns when to look again.

        Raises `ApiError`s, such as `Conflict` when another writer was faster. Calling it again is always safe.
        """
        secret = await self._read_or_create()
        stored = self._usable(secret)
        # First of all, so that trouble with a renewal keeps no webhook from being trusted.
        await self._publish(stored.authorities)
        wanted = self._cleaned(stored) if stored.next is None else {}
        # A pair that cannot be served anyway need not be waited for.
        wait = self._settling() if stored.current is not None else timedelta()
        if stored.next is not None and wait <= timedelta():
            wanted = _promoted(stored.next)
            log.info("serving certificate comes into use", expires=stored.next.expiry.isoformat())
        if await self._write(secret, wanted) or stored.current is None:
            return timedelta()
        if stored.next is not None:
            return wait
        return min(_RECHECK, stored.current.renew_at - self._now())

    async def _read_or_create(self) -> Json:
        try:
            return await self._client.get(self._secret)
        except NotFound:
            pass
        new = self._issue()
        body = {
            "apiVersion": "v1",
            "kind": "Secret",
            "type": "kubernetes.io/tls",
            "metadata": {"name": self._secret_name},
            "data": _encoded({_CERTIFICATE: new.certificate, _KEY: new.key, _BUNDLE: new.authority}),
        }
        try:
            created = await self._client.create(self._secrets, body)
        except AlreadyExists:
            return await self._client.get(self._secret)
        log.info("serving certificate created", secret=self._secret_name)
        return created

    def _cleaned(self, stored: _Stored) -> dict[str, bytes | None]:
        """Entries with a next pair if one is needed, and without what expired or became unusable."""
        reason = self._why_renew(stored.current)
        if reason is None:
            return {_BUNDLE: write_bundle(stored.authorities), _NEXT_CERTIFICATE: None, _NEXT_KEY: None}
        log.info("serving certificate is to be renewed", reason=reason)
        new = self._issue()
        return {
            _BUNDLE: write_bundle(stored.still_served()) + new.authority,
            _NEXT_CERTIFICATE: new.certificate,
            _NEXT_KEY: new.key,
        }

    async def _write(self, secret: Json, wanted: Mapping[str, bytes | None]) -> bool:
        """Brings the entries in `wanted` into the Secret, None for those that are to go; whether there was need to."""
        data = secret.get("data") or {}
        changes = {key: value for key, value in _encoded(wanted).items() if data.get(key) != value}
        if not changes:
            return False
        version = secret["metadata"]["resourceVersion"]
        await self._client.merge_patch(self._secret, {"metadata": {"resourceVersion": version}, "data": changes})
        return True

    async def _publish(self, authorities: Sequence[x509.Certificate]) -> None:
        """Makes every webhook of both configurations trust `authorities`, and notes since when they do."""
        if not authorities:
            return
        bundle = base64.b64encode(write_bundle(authorities)).decode()
        for path in self._configurations:
            await self._repair(path, bundle)
        if self._published is None or self._published[0] != bundle:
            self._published = (bundle, self._now())

    async def _repair(self, path: str, bundle: str) -> None:
        """Writes the bundle into one configuration where it is not there."""
        try:
            configuration = await self._client.get(path)
        except NotFound:
            if path not in self._missing:
                self._missing.add(path)
                log.warning("no such webhook configuration; waiting for it", path=path)
            return
        self._missing.discard(path)
        webhooks = configuration.get("webhooks") or []
        trusting = [
            {**webhook, "clientConfig": {**webhook["clientConfig"], "caBundle": bundle}} for webhook in webhooks
        ]
        if trusting == webhooks:
            return
        self._published = None
        version = configuration["metadata"]["resourceVersion"]
        await self._client.merge_patch(path, {"metadata": {"resourceVersion": version}, "webhooks": trusting})
        log.info("caBundle written", path=path)

    def _settling(self) -> timedelta:
        """How much longer the bundle has to stay published before a pair that needs it may be served."""
        return self._published[1] + self._settle - self._now() if self._published is not None else self._settle

    def _usable(self, secret: Json) -> _Stored:
        """Reads the Secret and notes the expiry of the pair in use."""
        data = {key: base64.b64decode(value) for key, value in (secret.get("data") or {}).items()}
        authorities = read_bundle(data.get(_BUNDLE, b""), self._now())

        def pair(certificate: str, key: str) -> Pair | None:
            if key not in data:
                return None
            try:
                return usable_pair(data.get(certificate, b""), data[key], authorities, self._now())
            except UnusablePair as error:
                log.warning("stored certificate is unusable", entry=certificate, error=error)
                return None

        current, successor = pair(_CERTIFICATE, _KEY), pair(_NEXT_CERTIFICATE, _NEXT_KEY)
        if successor is not None and self._why_renew(successor) is not None:
            successor = None
        self._expiry = current.expiry if current is not None else None
        return _Stored(authorities, current, successor)

    def _why_renew(self, pair: Pair | None) -> str | None:
        if pair is None:
            return "none usable"
        if not pair.covers(self._names):
            return "server names missing"
        if self._now() >= pair.renew_at:
            return "expires"
        return None

    def _issue(self) -> Issued:
        return issue(self._names, self._now(), self._lifetime)


def _promoted(pair: Pair) -> dict[str, bytes | None]:
    return {_CERTIFICATE: pair.certificate, _KEY: pair.key, _NEXT_CERTIFICATE: None, _NEXT_KEY: None}


def _version(raw: Mapping[str, Any]) -> str:
    """All that a watch keeps of an object: it only says that there is something to look at."""
    return str(raw["metadata"]["resourceVersion"])


def _encoded(entries: Mapping[str, bytes | None]) -> dict[str, str | None]:
    return {key: None if value is None else base64.b64encode(value).decode() for key, value in entries.items()}
