"""What a placed pod's creator should know: parts of the pod that a placement leaves alone and that can defeat it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shared.api import names
from webhook.container_edits import CONTAINER_LISTS


def cautions(pod: Mapping[str, Any]) -> Iterator[str]:
    """Warnings for the creator of `pod`, whose containers have been read before."""
    spec = pod["spec"]
    scheduler = spec.get("schedulerName")
    if scheduler not in (None, "", names.DEFAULT_SCHEDULER):
        yield (
            f"schedulerName {str(scheduler)[:63]!r} is kept: that scheduler must run in this cluster and obey node "
            "affinity; without the field Kubernetes' own scheduler takes the pod"
        )
    for kind in CONTAINER_LISTS:
        for container in spec.get(kind) or ():
            security = container.get("securityContext")
            if isinstance(security, Mapping) and security.get("privileged") is True:
                yield (
                    f"container {container.get('name')}: it is privileged and can use every card of its node, whatever "
                    "is reserved"
                )
