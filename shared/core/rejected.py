"""Pods that the kubelet did not let start for want of what we gave them, as facts of a pod's JSON."""

from __future__ import annotations

import re
from dataclasses import dataclass
from sys import intern
from typing import Final

from shared.api import names
from shared.core.ledger import is_id
from shared.core.owners import OwnerRef, controller_of
from shared.core.pod_requests import pod_requests
from shared.core.pods import Raw, card_shares, pinned_node
from shared.core.times import unix_seconds
from shared.core.units import is_unit, units_among

_LONGEST_MESSAGE: Final = 400
_OUT_OF: Final = "OutOf"
_ADMISSION: Final = "UnexpectedAdmissionError"
_RESOURCE: Final = re.compile(r"[a-z0-9-]+(?:\.[a-z0-9-]+)+/[A-Za-z0-9._-]*[A-Za-z0-9]")


@dataclass(frozen=True, slots=True)
class RejectedPod:
    """A dead pod that we placed and the kubelet rejected: `reason` and `message` are the kubelet's words.

    `rejected` is when the kubelet did that, in seconds of Unix time.
    """

    uid: str
    namespace: str
    name: str
    node: str
    reason: str
    message: str
    owner: OwnerRef | None
    created: str
    rejected: int


def rejected_pod(raw: Raw) -> RejectedPod | None:
    """The facts of a stored pod that the kubelet rejected over a share or a unit that a placement gave it, else None.

    One that is being deleted is nobody's concern any more.

    Raises `QuantityError` where a request is no quantity.
    """
    status = raw.get("status") or {}
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")[:_LONGEST_MESSAGE]
    if status.get("phase") != "Failed" or not _is_about_ours(reason, message):
        return None
    metadata, spec = raw["metadata"], raw["spec"]
    placed = is_id((metadata.get("labels") or {}).get(names.RESERVATION) or "")
    if not placed or metadata.get("deletionTimestamp"):
        return None
    requests = pod_requests(spec)
    if not card_shares(requests) and not units_among(requests):
        return None
    return RejectedPod(
        uid=metadata["uid"],
        namespace=intern(metadata["namespace"]),
        name=metadata["name"],
        node=intern(spec.get("nodeName") or pinned_node(spec) or ""),
        reason=intern(reason),
        message=intern(message),
        owner=controller_of(raw),
        created=metadata.get("creationTimestamp") or "",
        rejected=unix_seconds(status.get("startTime") or metadata.get("creationTimestamp") or ""),
    )


def _is_about_ours(reason: str, message: str) -> bool:
    """Whether the kubelet names a card or a unit. It names the resource in the reason or, of devices, in the message.

    A message without any resource may be about ours as well as not, and the pod was placed by us.
    """
    if reason.startswith(_OUT_OF):
        return _is_ours(reason.removeprefix(_OUT_OF))
    named = _RESOURCE.findall(message)
    return reason == _ADMISSION and (not named or any(map(_is_ours, named)))


def _is_ours(resource: str) -> bool:
    return names.card_index(resource) is not None or is_unit(resource)
