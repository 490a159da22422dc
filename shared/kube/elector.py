"""One leader among several processes, by a Lease that the leader renews.

Time is measured on the local monotonic clock alone: a contender waits for a whole lease in which it saw no
renewal, and a leader counts from the moment before it sent its last renewal. So no clock of another machine
matters, and a leader has stopped before anybody may follow. Writes carry the `resourceVersion`, so of two
contenders one wins.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

from shared.kube import paths
from shared.kube.backoff import jittered
from shared.kube.client import Json, KubeClient
from shared.kube.errors import ApiError, Conflict, NotFound
from shared.obs.logs import get_logger

log = get_logger(__name__)

_RELEASE_S: Final = 2.0
_NOBODY: Final = ""
_NEVER: Final = float("-inf")


class LeaderStuckError(RuntimeError):
    """The leading task went on after it was cancelled, up to the end of its lease. End the process."""


class Elector:
    """Competes for the Lease `namespace`/`name` as `identity`, which must be unique among running processes.

    A leader that could not renew for `renew_deadline_s` stops, and has ended before `lease_s` have passed: so
    long others wait. Tries are about `retry_s` apart.
    """

    def __init__(
        self,
        client: KubeClient,
        namespace: str,
        name: str,
        identity: str,
        *,
        lease_s: int = 12,
        renew_deadline_s: float = 8.0,
        retry_s: float = 2.0,
    ) -> None:
        if not 0 < 2 * retry_s <= renew_deadline_s < lease_s:
            raise ValueError(
                f"lease_s={lease_s}, renew_deadline_s={renew_deadline_s}, retry_s={retry_s}: "
                "each must be shorter than the one before, and two retries must fit into the deadline"
            )
        self._client = client
        self._collection = paths.leases(namespace)
        self._path = paths.leases(namespace, name)
        self._name = name
        self._identity = identity
        self._lease_s = lease_s
        self._renew_deadline_s = renew_deadline_s
        self._retry_s = retry_s
        self._held: Json | None = None
        self._seen: object = None
        self._seen_at = 0.0
        self._renewed_at = _NEVER

    @property
    def is_leader(self) -> bool:
        """Whether this process may act as the leader at this moment."""
        return self._left_s() > 0

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Competes for ever; runs `lead` while leading, and cancels it when the lead is lost.

        Ends when `lead` returns or raises, as it did, with the Lease released. Cancelled, it cancels `lead`,
        waits for it and releases. Raises `LeaderStuckError` when `lead` does not end while the lease lasts.
        """
        while True:
            await self._campaign()
            log.info("leading", lease=self._name, identity=self._identity)
            leading = asyncio.create_task(_awaited(lead))
            renewing = asyncio.create_task(self._renew())
            try:
                await asyncio.wait({leading, renewing}, return_when=asyncio.FIRST_COMPLETED)
            finally:
                await self._stop(leading, renewing)
                await self._release()
            if not leading.cancelled():
                leading.result()
                return
            if not renewing.cancelled():
                renewing.result()
            log.warning("lead lost", lease=self._name, identity=self._identity)

    async def _campaign(self) -> None:
        while True:
            try:
                if await self._claim():
                    return
            except ApiError as error:
                log.info("lease not readable or not written", lease=self._name, error=error)
            await asyncio.sleep(jittered(self._retry_s))

    async def _renew(self) -> None:
        """Renews until the lead is lost: to another holder, or by not reaching the server for too long."""
        await asyncio.sleep(jittered(self._retry_s))
        while self.is_leader:
            try:
                if not await self._extend():
                    break
            except ApiError as error:
                log.info("lease not renewed", lease=self._name, error=error)
            await asyncio.sleep(min(jittered(self._retry_s), self._left_s()))
        self._renewed_at = _NEVER

    async def _extend(self) -> bool:
        """Renews the Lease as last written, or as it is if somebody touched it. False: another one leads."""
        if self._held is None:
            return await self._claim()
        try:
            await self._write(self._held)
        except (Conflict, NotFound):
            self._held = None
            return await self._claim()
        return True

    async def _claim(self) -> bool:
        """Writes our name into the Lease, unless another holder's claim stands: then False."""
        try:
            lease = await self._client.get(self._path, timeout_s=self._patience_s())
        except NotFound:
            await self._write(None)
            return True
        spec = lease.get("spec") or {}
        now = time.monotonic()
        if spec != self._seen:
            self._seen, self._seen_at = spec, now
        holder = spec.get("holderIdentity") or _NOBODY
        if holder not in {_NOBODY, self._identity}:
            lease_s = max(self._lease_s, spec.get("leaseDurationSeconds") or 0)
            if now - self._seen_at < lease_s:
                return False
        await self._write(lease)
        return True

    async def _write(self, lease: Json | None) -> None:
        """Makes us the holder in `lease`, or in a new one. From before this request on our lease counts."""
        sent_at = time.monotonic()
        patience_s = self._patience_s()
        if lease is None:
            body: Json = {"metadata": {"name": self._name}, "spec": self._claimed({})}
            self._held = await self._client.create(self._collection, body, timeout_s=patience_s)
        else:
            body = {**lease, "spec": self._claimed(lease.get("spec") or {})}
            self._held = await self._client.replace(self._path, body, timeout_s=patience_s)
        self._renewed_at = sent_at

    def _claimed(self, spec: Json) -> Json:
        now = _timestamp()
        claimed = {
            **spec,
            "holderIdentity": self._identity,
            "leaseDurationSeconds": self._lease_s,
            "renewTime": now,
        }
        if spec.get("holderIdentity") != self._identity:
            claimed["acquireTime"] = now
            claimed["leaseTransitions"] = spec.get("leaseTransitions", -1) + 1
        return claimed

    async def _stop(self, leading: asyncio.Task[None], renewing: asyncio.Task[None]) -> None:
        """Cancels both tasks, the renewal only after `leading` is over: the lease covers its clean-up."""
        leading.cancel()
        await asyncio.wait({leading, renewing}, return_when=asyncio.FIRST_COMPLETED)
        if not leading.done():
            # Not renewed any more. The rest of the lease is what is left for the clean-up.
            await asyncio.wait({leading}, timeout=self._lease_s - self._renew_deadline_s)
            if not leading.done():
                raise LeaderStuckError(f"lease {self._name}: the leading task did not end when cancelled")
        renewing.cancel()
        await asyncio.wait({renewing})
        if not leading.cancelled() and (error := leading.exception()) is not None:
            log.warning("leading task failed", lease=self._name, error=error)

    async def _release(self) -> None:
        """Lets the next one lead at once. Best effort: after `lease_s` somebody takes it anyway."""
        self._renewed_at, self._held = _NEVER, None
        try:
            lease = await self._client.get(self._path, timeout_s=_RELEASE_S)
            spec = lease.get("spec") or {}
            if spec.get("holderIdentity") == self._identity:
                free = {
                    **spec,
                    "holderIdentity": _NOBODY,
                    "leaseDurationSeconds": 1,
                    "renewTime": _timestamp(),
                }
                await self._client.replace(self._path, {**lease, "spec": free}, timeout_s=_RELEASE_S)
        except ApiError as error:
            log.info("lease not released", lease=self._name, error=error)

    def _left_s(self) -> float:
        """Seconds for which this process may still lead without another renewal."""
        return self._renewed_at + self._renew_deadline_s - time.monotonic()

    def _patience_s(self) -> float:
        """Seconds that a request may take: two fit into the deadline, and none of a leader outlasts it."""
        half_s = self._renew_deadline_s / 2
        return min(half_s, self._left_s()) if self.is_leader else half_s


async def _awaited(lead: Callable[[], Awaitable[None]]) -> None:
    await lead()


def _timestamp() -> str:
    return datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
