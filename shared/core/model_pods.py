"""Which pods are looked at at all: those that name a GPU in one of the ways people do.

The same test stands in the chart as a CEL match condition, so that pods without a GPU word never reach the webhook and
cannot be stopped by its absence. `tests/property/test_match_condition.py` keeps the two equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api import names

_ANNOTATION_PREFIXES = (names.PREFIX, names.NVIDIA_PREFIX, names.KAI_MEMORY, names.KAI_FRACTION)
_RESOURCE_PREFIXES = (names.PREFIX, names.NVIDIA_PREFIX, names.AMD_PREFIX, names.INTEL_GPU_PREFIX)


def names_a_gpu(pod: Mapping[str, Any]) -> bool:
    """Whether `pod` says a word that concerns GPUs, ours or another system's.

    True does not mean that it asks for memory: foreign keys that begin like words we know are let through to be
    ignored, so that misspelt words can be told from them.
    """
    metadata = pod.get("metadata") or {}
    spec = pod.get("spec") or {}
    return (
        any(key.startswith(_ANNOTATION_PREFIXES) for key in metadata.get("annotations") or {})
        or any(key.startswith(names.PREFIX) for key in metadata.get("labels") or {})
        or any(
            _container_names_a_gpu(container)
            for kind in ("containers", "initContainers")
            for container in spec.get(kind) or ()
        )
    )


def _container_names_a_gpu(container: Mapping[str, Any]) -> bool:
    resources = container.get("resources") or {}
    return any(
        resource.startswith(_RESOURCE_PREFIXES)
        for kind in ("limits", "requests")
        for resource in resources.get(kind) or {}
    ) or any(_shows_devices(variable) for variable in container.get("env") or ())


def _shows_devices(variable: Mapping[str, Any]) -> bool:
    if variable.get("name") != names.NVIDIA_VISIBLE_DEVICES:
        return False
    return variable.get("valueFrom") is not None or (variable.get("value") or "") not in names.NO_DEVICES
