"""Other systems' resources that this version does not read yet.

Reading past them would turn a partition of a card into nothing, or into a whole card, so they are refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence

from shared.api import names
from shared.core.containers import Container
from shared.core.invalid import InvalidRequest

_FIX = f"ask with the annotation {names.VRAM} (GB per card) and {names.GPUS} instead"


def refuse_foreign_words(containers: Sequence[Container]) -> None:
    """Raises `InvalidRequest` where a pod asks for a MIG partition or a replica of a shared GPU."""
    for container in containers:
        for kind, amounts in (("limits", container.limits), ("requests", container.requests)):
            for resource, amount in amounts.items():
                if resource == names.NVIDIA_GPU_SHARED or resource.startswith(names.NVIDIA_MIG_PREFIX):
                    raise InvalidRequest(container.field(resource, kind), amount, "is not read by this version", _FIX)
