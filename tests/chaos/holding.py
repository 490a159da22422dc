"""How much of the nodes' ledgers stands for one owner, looked at again and again."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Collection
from dataclasses import dataclass

from hack.devcluster.api import Api, ApiError, Json
from shared.api import names
from tests.e2e.invariants import entries_of


def owner_claim(owner: Json) -> str:
    """How the entries of an owner's pods begin."""
    metadata = owner["metadata"]
    return f"{metadata['namespace']}/{hashlib.sha256(metadata['uid'].encode()).hexdigest()[:8]}"


@dataclass(slots=True)
class Holding:
    """What an owner holds on `nodes` (with an empty claim: what all hold), and the most that was seen."""

    api: Api
    nodes: Collection[str]
    claim: str
    most_gb: int = 0

    def look(self) -> None:
        """Looks once; a server that is away is passed over."""
        with contextlib.suppress(ApiError, OSError):
            self.most_gb = max(self.most_gb, self.total_gb())

    def total_gb(self) -> int:
        """GB that are reserved at this moment."""
        ledgers = self.api.get(f"/apis/{names.API_VERSION}/gpunodes")["items"]
        return sum(
            gb
            for raw in ledgers
            if raw["metadata"]["name"] in self.nodes
            for claim, gb in entries_of(raw.get("status") or {})
            if claim.startswith(self.claim)
        )
