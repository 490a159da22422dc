"""Which pods are looked at at all: those that name a GPU in one of the ways people do.

The same test stands in the chart as a CEL match condition, so that pods without a GPU word never reach the webhook and
cannot be stopped by its absence. `tests/property/test_match_condition.py` keeps the two equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from shared.api import names
from shared.core.containers import mapping, sequence, text

_ANNOTATION_PREFIXES = (names.PREFIX, names.NVIDIA_PREFIX, names.KAI_MEMORY, names.KAI_FRACTION)
_RESOURCE_PREFIXES = (names.PREFIX, names.NVIDIA_PREFIX, names.AMD_PREFIX, names.INTEL_GPU_PREFIX)


def names_a_gpu(pod: Mapping[str, Any]) -> bool:
    """Whether `pod` says a word that concerns GPUs, ours or another system's.

    True does not mean that it asks for memory: foreign keys that begin like words we know are let through to be
    ignored, so that misspelt words can be told from them. Raises `InvalidRequest` on a shape no pod has.
    """
    metadata, spec = mapping(pod.get("metadata"), "metadata"), mapping(pod.get("spec"), "spec")
    annotations = mapping(metadata.get("annotations"), "metadata.annotations")
    return (
        any(key.startswith(_ANNOTATION_PREFIXES) for key in annotations)
        or any(key.startswith(names.PREFIX) for key in mapping(metadata.get("labels"), "metadata.labels"))
        or any(
            _container_names_a_gpu(mapping(container, f"spec.{kind}"), f"spec.{kind}")
            for kind in ("containers", "initContainers")
            for container in sequence(spec.get(kind), f"spec.{kind}")
        )
    )


def _container_names_a_gpu(container: Mapping[str, Any], where: str) -> bool:
    resources = mapping(container.get("resources"), f"{where}.resources")
    return any(
        resource.startswith(_RESOURCE_PREFIXES)
        for kind in ("limits", "requests")
        for resource in mapping(resources.get(kind), f"{where}.resources.{kind}")
    ) or any(_shows_devices(mapping(variable, f"{where}.env")) for variable in sequence(container.get("env"), where))


def _shows_devices(variable: Mapping[str, Any]) -> bool:
    if variable.get("name") != names.NVIDIA_VISIBLE_DEVICES:
        return False
    return (
        variable.get("valueFrom") is not None
        or text(variable.get("value"), names.NVIDIA_VISIBLE_DEVICES) not in names.NO_DEVICES
    )
