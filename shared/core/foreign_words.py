"""Other systems' words for a share of a card, which this version does not read yet.

Reading past them would turn "2000 MiB of a card" into a whole card, so they are refused by name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.api import names
from shared.core.containers import Container
from shared.core.invalid import InvalidRequest

_FIX = f"ask with the annotation {names.VRAM} (GB per card) and {names.GPUS} instead"


def refuse_foreign_words(annotations: Mapping[str, str], containers: Sequence[Container]) -> None:
    """Raises `InvalidRequest` where a pod asks in HAMi's or KAI's words, or for a GPU we have no class for."""
    for key in sorted(names.HAMI_ANNOTATIONS | names.KAI_ANNOTATIONS):
        if key in annotations:
            raise InvalidRequest(f"metadata.annotations[{key}]", annotations[key], "is not read by this version", _FIX)
    for container in containers:
        for kind, amounts in (("limits", container.limits), ("requests", container.requests)):
            for resource, amount in amounts.items():
                if _is_foreign(resource):
                    raise InvalidRequest(container.field(resource, kind), amount, "is not read by this version", _FIX)


def _is_foreign(resource: str) -> bool:
    return resource in names.HAMI_RESOURCES or resource.startswith(names.INTEL_GPU_PREFIX)
