"""Which CUDA or ROCm a pod needs, and whether a node's driver serves it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from shared.core.cards import Vendor
from shared.core.invalid import InvalidRequest

Version: TypeAlias = tuple[int, ...]

_REQUIREMENT = re.compile(r"(cuda|rocm)(?:\s*(>=)\s*|\s+)([0-9]{1,4}(?:\.[0-9]{1,4}){0,2})\Z")
_VERSION = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,4}){0,3}\Z")
_FIX = 'write "cuda>=12.4" (the driver must serve 12.4) or "cuda 12.9" (the toolkit in the image)'
_VENDORS = {"cuda": Vendor.NVIDIA, "rocm": Vendor.AMD}
_LABELS = {"cuda": "CUDA", "rocm": "ROCm"}


class Requirement(Protocol):
    """What a pod needs of the driver of its node: a runtime (`cuda`, `rocm`) in certain versions."""

    @property
    def runtime(self) -> str: ...

    @property
    def vendor(self) -> Vendor:
        """Whose cards have this runtime."""
        ...

    @property
    def label(self) -> str:
        """The runtime's name as its maker spells it, for texts."""
        ...

    def met_by(self, served: Version) -> bool:
        """Whether a driver that serves up to version `served` runs this."""
        ...


@dataclass(frozen=True, slots=True)
class AllOf:
    """Several requirements of one runtime, of which each must be met."""

    parts: tuple[Requirement, ...]

    @property
    def runtime(self) -> str:
        return self.parts[0].runtime

    @property
    def vendor(self) -> Vendor:
        return self.parts[0].vendor

    @property
    def label(self) -> str:
        return self.parts[0].label

    def met_by(self, served: Version) -> bool:
        return all(part.met_by(served) for part in self.parts)

    def __str__(self) -> str:
        return " and ".join(map(str, self.parts))


@dataclass(frozen=True, slots=True)
class AccelRequirement:
    """A lowest version of a runtime (`cuda`, `rocm`).

    `toolkit` means that the version is the one the image was built with. NVIDIA's drivers run every toolkit of their
    own major version (https://docs.nvidia.com/deploy/cuda-compatibility/), so only the major counts then.
    """

    runtime: str
    version: Version
    toolkit: bool

    def met_by(self, served: Version) -> bool:
        """Whether a driver that serves up to version `served` runs this."""
        if self.toolkit and self.runtime == "cuda":
            return served[:1] >= self.version[:1]
        # CUDA drivers tell major and minor only: what a node leaves open is not held against it.
        return served >= self.version[: len(served)]

    @property
    def vendor(self) -> Vendor:
        """Whose cards have this runtime."""
        return _VENDORS[self.runtime]

    @property
    def label(self) -> str:
        """The runtime's name as its maker spells it, for texts."""
        return _LABELS[self.runtime]

    def __str__(self) -> str:
        version = f"{self.label} {spell(self.version)}"
        return version if self.toolkit else f"{version} or newer"


def parse_requirement(text: str, field: str) -> AccelRequirement:
    """The requirement that `cuda>=12.4`, `cuda 12.9` or `rocm>=6.2` states. Raises `InvalidRequest`."""
    match = _REQUIREMENT.match(text)
    if match is None:
        raise InvalidRequest(field, text, "is not an accelerator version", _FIX)
    version = parse_version(match[3])
    assert version is not None
    return AccelRequirement(match[1], version, toolkit=match[2] is None)


def parse_version(text: str) -> Version | None:
    """`12.4` as (12, 4), or None if `text` is no version. A bare major is its `.0`."""
    if not _VERSION.match(text):
        return None
    version = tuple(int(part) for part in text.split("."))
    return version if len(version) > 1 else (*version, 0)


def spell(version: Version) -> str:
    """(12, 4) as `12.4`."""
    return ".".join(map(str, version))
