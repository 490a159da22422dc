"""What a cluster description (`hack/clusters/*.yaml`) says, checked."""

from __future__ import annotations

import uuid
from collections import Counter
from pathlib import Path
from typing import Annotated, Literal, Self

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from shared.core.cards import MIB_PER_GB, Vendor

_UUID_NAMESPACE = uuid.UUID("5a1b4f0e-7d8c-5f0a-9c53-0f5f7a1d2c3e")

NodeName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$", max_length=63)]
DriverVersion = Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+$")]
Taint = dict[Literal["key", "value", "effect"], str]


class SpecError(Exception):
    """A cluster description is wrong; one line per mistake."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class GpuSpec(_Strict):
    """One card, or `count` equal ones. Its memory is `vramGB` (1024 MiB each) or the exact `memoryMiB`."""

    model: str
    vendor: Vendor
    vram_gb: int | None = Field(None, alias="vramGB", gt=0)
    memory_mib: int | None = Field(None, alias="memoryMiB", gt=0)
    uuid: str | None = None
    count: int = Field(1, ge=1, le=64)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.vram_gb is None) == (self.memory_mib is None):
            raise ValueError("write exactly one of vramGB and memoryMiB")
        if self.uuid is not None and self.count > 1:
            raise ValueError("uuid names one card: write it without count")
        return self

    @property
    def mib(self) -> int:
        """Memory of one card in MiB."""
        return self.memory_mib if self.memory_mib is not None else (self.vram_gb or 0) * MIB_PER_GB


class NodeSpec(_Strict):
    """One node, or with `count` as many equal ones, named `<name>-0`, `<name>-1` and so on."""

    name: NodeName
    count: int | None = Field(None, ge=1, le=10_000)
    cpu: str = "64"
    memory: str = "512Gi"
    pods: int = Field(110, ge=0)
    labels: dict[str, str] = {}
    taints: list[Taint] = []
    gpus: list[GpuSpec] = []
    cuda: DriverVersion | None = None
    rocm: DriverVersion | None = None

    def cards(self) -> list[tuple[str, GpuSpec]]:
        """Every card with its UUID, by slot. A UUID that is not given follows from node and slot."""
        equal = [gpu for gpu in self.gpus for _ in range(gpu.count)]
        return [(gpu.uuid or self._uuid(slot), gpu) for slot, gpu in enumerate(equal)]

    def stamped_out(self) -> list[NodeSpec]:
        """The nodes that this stands for."""
        if self.count is None:
            return [self]
        names = (f"{self.name}-{number}" for number in range(self.count))
        return [self.model_copy(update={"name": name, "count": None}) for name in names]

    def _uuid(self, slot: int) -> str:
        return f"GPU-{uuid.uuid5(_UUID_NAMESPACE, f'{self.name}/{slot}')}"


class ClusterSpec(_Strict):
    """The nodes of a cluster, with every `count` stamped out."""

    nodes: list[NodeSpec]

    @field_validator("nodes")
    @classmethod
    def _stamp_out(cls, described: list[NodeSpec]) -> list[NodeSpec]:
        nodes = [node for group in described for node in group.stamped_out()]
        names = Counter(node.name for node in nodes)
        twice = [name for name, times in names.items() if times > 1]
        if twice:
            raise ValueError(f"several nodes are named {', '.join(twice)}")
        return nodes


def load_spec(path: Path) -> ClusterSpec:
    """Read a description from a file; SpecError naming file, field and value for anything wrong."""
    try:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}") from error
    except yaml.YAMLError as error:
        raise SpecError(f"{path}: not YAML: {error}") from error
    return parse_spec(content, source=str(path))


def parse_spec(content: object, *, source: str) -> ClusterSpec:
    """Check a description; `source` is named in the errors."""
    try:
        return ClusterSpec.model_validate(content)
    except ValidationError as invalid:
        raise SpecError("\n".join(f"{source}: {_mistake(error)}" for error in invalid.errors())) from None


def _mistake(error: object) -> str:
    assert isinstance(error, dict)
    place = ".".join(str(part) for part in error["loc"]) or "the description"
    message = str(error["msg"]).removeprefix("Value error, ")
    value = error["input"]
    shown = f" (is {value!r})" if isinstance(value, (str, int, float)) else ""
    return f"{place}: {message}{shown}"
