"""`NVIDIA_REQUIRE_CUDA` in a container: the versions of CUDA that NVIDIA's container runtime insists on.

Conditions in a row are alternatives, those joined by commas hold together: `cuda>=12.4 brand=tesla,driver>=535`.
https://docs.nvidia.com/datacenter/cloud-native/container-toolkit/latest/docker-specialized.html. A node tells its CUDA
version only, so alternatives that do not speak of it (brands, drivers) do not count.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shared.api import names
from shared.core.accel import Version, parse_version, spell
from shared.core.cards import Vendor
from shared.core.containers import Container

_CONDITION = re.compile(r"([a-z]+)(>=|<=|!=|==|=|>|<)([A-Za-z0-9.]{1,32})\Z")
_LONGEST = 4096
_TRUE = frozenset({"1", "t", "T", "TRUE", "true", "True"})
_COMPARE: Mapping[str, Callable[[Version, Version], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
    "=": operator.eq,
    "==": operator.eq,
    "!=": operator.ne,
}


@dataclass(frozen=True, slots=True)
class CudaRange:
    """Alternatives, each a list of comparisons that the CUDA version of a driver must pass."""

    alternatives: tuple[tuple[tuple[str, Version], ...], ...]

    @property
    def runtime(self) -> str:
        return "cuda"

    @property
    def vendor(self) -> Vendor:
        return Vendor.NVIDIA

    @property
    def label(self) -> str:
        return "CUDA"

    def met_by(self, served: Version) -> bool:
        """Whether a driver that serves up to CUDA `served` passes, compared to the minor version."""
        return any(
            all(_COMPARE[comparison](served[:2], version[:2]) for comparison, version in conditions)
            for conditions in self.alternatives
        )

    def __str__(self) -> str:
        return " or ".join(
            " and ".join(_spell(comparison, version) for comparison, version in conditions)
            for conditions in self.alternatives
        )


class NotUnderstood(ValueError):
    """A text that is no such requirement."""


def required_cuda(container: Container) -> CudaRange | None:
    """What a container's own variable requires; None where there is none, or where it is switched off.

    Raises `NotUnderstood`.
    """
    if names.NVIDIA_REQUIRE_CUDA in container.env_from_elsewhere:
        raise NotUnderstood("a value from elsewhere")
    text = container.env.get(names.NVIDIA_REQUIRE_CUDA, "").strip()
    if not text or container.env.get(names.NVIDIA_DISABLE_REQUIRE) in _TRUE:
        return None
    return parse_required_cuda(text)


def parse_required_cuda(text: str) -> CudaRange:
    """The requirement that `cuda>=12.4 cuda>=12.2,driver>=535` states. Raises `NotUnderstood`."""
    if len(text) > _LONGEST:
        raise NotUnderstood(text)
    alternatives = tuple(dict.fromkeys(filter(None, map(_conditions, text.split()))))
    if not alternatives:
        raise NotUnderstood(text)
    return CudaRange(alternatives)


def _conditions(text: str) -> tuple[tuple[str, Version], ...]:
    """What conditions joined by commas say of CUDA."""
    found: list[tuple[str, Version]] = []
    for condition in text.split(","):
        match = _CONDITION.match(condition)
        if match is None:
            raise NotUnderstood(text)
        if match[1] == "cuda":
            version = parse_version(match[3])
            if version is None:
                raise NotUnderstood(text)
            found.append((match[2], version))
    return tuple(found)


def _spell(comparison: str, version: Version) -> str:
    return f"CUDA {spell(version)} or newer" if comparison == ">=" else f"CUDA {comparison} {spell(version)}"
