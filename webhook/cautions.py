"""What a placed pod's creator should know: parts of the pod that a placement leaves alone and that can defeat it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from shared.api import names
from shared.core.cards import Vendor
from shared.core.containers import Container
from webhook.container_edits import CONTAINER_LISTS

_BUILT_WITH: Mapping[str, Vendor] = {"rocm": Vendor.AMD, "cuda": Vendor.NVIDIA}
_WORD = re.compile(r"[a-z]+")
_LONGEST = 4096


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


def image_caution(container: Container, vendor: Vendor) -> str | None:
    """A warning where the image of a container that gets cards of `vendor` says that it is built for another's."""
    repository = container.image[:_LONGEST].lower().partition("@")[0]
    host, _, path = repository.partition("/")
    words = set(_WORD.findall(path if "." in host or ":" in host or host == "localhost" else repository))
    built = {word: whose for word, whose in _BUILT_WITH.items() if word in words}
    if not built or vendor in built.values():
        return None
    (word, whose), *_ = built.items()
    return (
        f"container {container.name}: its image says {word}, which is for {whose.label} cards, but it gets "
        f"{vendor.label}: use an image for these, or ask for {whose.label} cards"
    )
