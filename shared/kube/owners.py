"""Who owns a pod, up to the object that a person wrote: ReplicaSet to Deployment, Job to CronJob."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, Final

from shared.core.owners import OwnerRef, controller_of
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.errors import Forbidden, NotFound
from shared.kube.recent import remember

_LONGEST_CHAIN: Final = 5
_REMEMBERED: Final = 4096


class Owners:
    """Walks owner references by live reads, remembering who owns whom.

    That changes only where an owner goes and leaves what it owned behind, which another may adopt: `kubectl delete
    --cascade=orphan`. So what is remembered below an owner is forgotten once that is found to be gone, and whatever is
    read, for whichever reason, says anew who owns it: between the two it was nobody's.
    """

    def __init__(self, client: KubeClient, more_kinds: paths.OwnerKinds = {}) -> None:  # noqa: B006 - only read
        """`more_kinds` are read besides Kubernetes' own: namespaced kinds that this account has the right to get."""
        self._client = client
        self._kinds = {**more_kinds, **paths.OWNER_KINDS}
        self._owner_of: OrderedDict[str, OwnerRef | None] = OrderedDict()

    def can_read(self, owner: OwnerRef) -> bool:
        """Whether the owner is of a kind that can be looked up."""
        return (owner.api_version, owner.kind) in self._kinds

    async def top(self, namespace: str, owner: OwnerRef) -> OwnerRef:
        """The object at the end of the chain that begins with `owner`. Raises `ApiError` when the server is away."""
        return (await self.chain(namespace, owner))[-1]

    async def living_top(self, namespace: str, owner: OwnerRef) -> OwnerRef | None:
        """The top owner as it is now, for one live read more than `top`; None if it is gone. Raises `ApiError`."""
        for _ in range(3):
            top = await self.top(namespace, owner)
            if not await self.is_gone(namespace, top) and await self.top(namespace, owner) == top:
                return top
        return None

    async def chain(self, namespace: str, owner: OwnerRef) -> tuple[OwnerRef, ...]:
        """`owner` and those above it, the top owner last. Raises `ApiError` when the server is away.

        The chain ends where an object has no controller, is gone, or is of a kind that may not be read.
        """
        chain = [owner]
        for _ in range(_LONGEST_CHAIN):
            above = await self._above(namespace, chain[-1])
            if above is None:
                break
            chain.append(above)
        return tuple(chain)

    async def read(self, namespace: str, owner: OwnerRef) -> dict[str, Any] | None:
        """The owner itself as it is now, or None if it is gone, replaced by another of its name, or of an unknown
        kind. Raises `ApiError`: that it is forbidden to read a known kind may pass, and says nothing about the owner.
        """
        try:
            raw = await self._get(namespace, owner)
        except (paths.UnknownKind, paths.InvalidName, NotFound):
            return None
        return raw if raw["metadata"]["uid"] == owner.uid else None

    async def is_gone(self, namespace: str, owner: OwnerRef) -> bool:
        """Whether it is certain that the owner no longer exists. Raises `ApiError`."""
        try:
            raw = await self._get(namespace, owner)
        except NotFound as error:
            # A kind that the cluster does not serve, or a plural that is wrong, is a 404 in other words.
            gone = error.reason == "NotFound"
        except (paths.UnknownKind, paths.InvalidName, Forbidden):
            gone = False
        else:
            gone = bool(raw["metadata"]["uid"] != owner.uid)
        if gone:
            self._forget_what_it_owned(owner)
        return gone

    async def _get(self, namespace: str, owner: OwnerRef) -> dict[str, Any]:
        path = paths.object_path(owner.api_version, owner.kind, namespace, owner.name, self._kinds)
        raw = await self._client.get(path)
        remember(self._owner_of, raw["metadata"]["uid"], controller_of(raw), _REMEMBERED)
        return raw

    async def _above(self, namespace: str, owner: OwnerRef) -> OwnerRef | None:
        if owner.uid in self._owner_of:
            self._owner_of.move_to_end(owner.uid)
            return self._owner_of[owner.uid]
        try:
            raw = await self.read(namespace, owner)
        except Forbidden:
            return None
        return None if raw is None else controller_of(raw)

    def _forget_what_it_owned(self, owner: OwnerRef) -> None:
        owned = [uid for uid, above in self._owner_of.items() if above is not None and above.uid == owner.uid]
        for uid in owned:
            del self._owner_of[uid]
