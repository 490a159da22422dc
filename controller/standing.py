"""Which refusals of a workload still stand: those of owners that still lack a pod."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta
from typing import Any, Final

from controller.workloads import refused_owner
from shared.core.owners import OwnerRef
from shared.core.pods import PodFacts
from shared.core.times import in_seconds
from shared.core.wanted import existing_pods, wanted_pods
from shared.kube.model_placements import refusal_key
from shared.kube.owners import Owners

_LAG: Final = timedelta(seconds=10)
"""How much older what an owner says that it has may be than a refusal: it says so after its creates were refused."""
_UNREPEATED: Final = timedelta(minutes=10)
"""How long a refusal stands of an owner that does not say how many pods it wants."""


async def still_refused(
    owners: Owners,
    namespace: str,
    top: OwnerRef,
    raw_top: Mapping[str, Any] | None,
    key: str,
    refusal: Mapping[str, Any],
    pods: Collection[PodFacts],
    now: datetime,
) -> bool:
    """Whether the refusal under `key` in the report on `top` still stands. Raises `ApiError`.

    `raw_top` is the top owner as it is now, None if it cannot be read, and `pods` are the workload's.
    """
    uid = refusal.get("uid")
    raw = raw_top
    if uid != top.uid:
        refused = refused_owner(key, refusal)
        if refused is None:
            raw = None
            if key == refusal_key(top):
                return False  # of a later object of this name, which gets a report of its own
        else:
            raw = await owners.read(namespace, refused)
            if raw is None and await owners.is_gone(namespace, refused):
                return False
    own = [pod for pod in pods if pod.owner is not None and pod.owner.uid == uid and not pod.terminating]
    last = str(refusal.get("last") or "")
    wanted = wanted_pods(raw) if raw is not None else None
    if raw is not None and wanted is not None:
        # Pods that were created past the webhook, which `own` lacks, are told by the owner only.
        is_new = in_seconds(now - _LAG) < last <= in_seconds(now + _UNREPEATED)
        existing = 0 if is_new else existing_pods(raw)
        return max(len(own), existing) < wanted
    # Such an owner may have pods and lack others, so only one that was created since the refusal says that it is over.
    # If that was another than the one refused, the next try of that one is refused and reported anew.
    is_recent = in_seconds(now - _UNREPEATED) < last <= in_seconds(now + _UNREPEATED)
    return is_recent and not any(pod.created > last for pod in own)
