"""What the product's engine parser reports of a pod, under the names that cases use."""

from __future__ import annotations

import importlib
from typing import Any, Final

from shared.core.containers import read_containers
from tests.fakes.objects import Json

_FIELDS: Final = {
    "engine": "name",
    "tensorParallel": "tensor_parallel",
    "pipelineParallel": "pipeline_parallel",
    "dataParallel": "data_parallel",
    "shards": "shards",
    "nnodes": "nnodes",
    "gpuMemoryUtilization": "memory_fraction",
}
KEYS: Final = frozenset({*_FIELDS, "gpusOnThisPod"})


def parsed(pod: Json, container: str | None) -> dict[str, Any]:
    """What is read from the container of this name, or from the first that runs an engine; empty if none does."""
    try:
        engines: Any = importlib.import_module("shared.core.engines")
    except ModuleNotFoundError:
        return {"engine": "no parser: there is no shared.core.engines"}
    for each in read_containers(pod):
        engine = engines.read_engine(each)
        if engine is not None and container in {None, each.name}:
            found = {key: getattr(engine, field, None) for key, field in _FIELDS.items()}
            found["engine"] = str(found["engine"])
            return {**found, "gpusOnThisPod": engines.cards_on_this_pod(engine)}
    return {}
