"""What the product reads of a pod's model server, under the names that cases use."""

from __future__ import annotations

import re
from typing import Any, Final

from shared.core.containers import read_containers
from shared.core.demand import read_pod
from shared.core.engines import cards_on_this_pod, read_engine
from shared.core.invalid import InvalidRequest
from tests.fakes.objects import Json

ENGINE: Final = "engine"
_CARDS: Final = "gpusOnThisPod"
_FIELDS: Final = {
    ENGINE: "name",
    "tensorParallel": "tensor_parallel",
    "pipelineParallel": "pipeline_parallel",
    "dataParallel": "data_parallel",
    "shards": "shards",
    "nnodes": "nnodes",
    "gpuMemoryUtilization": "memory_fraction",
}
KEYS: Final = frozenset({*_FIELDS, _CARDS})
_OTHER_NAMES: Final = {
    "trtllm": "tensorrtllm",
    "llamaserver": "llamacpp",
    "textgenerationinference": "tgi",
    "textembeddingsinference": "tei",
    "tritonserver": "triton",
    "tritoninferenceserver": "triton",
}


def parsed(pod: Json, container: str | None) -> dict[str, Any]:
    """What is read of the container of this name, or of the first that runs an engine or else asks for cards; empty if
    there is none. The number of cards is the one that the pod asks for, else the one of the engine's arguments.
    """
    containers = [each for each in read_containers(pod) if container in {None, each.name}]
    asked = _cards_asked(pod)
    for each in containers:
        engine = read_engine(each)
        if engine is not None:
            found: dict[str, Any] = {key: getattr(engine, field) for key, field in _FIELDS.items()}
            return {**found, ENGINE: str(engine.name), _CARDS: asked.get(each.name) or cards_on_this_pod(engine)}
    return next(({_CARDS: asked[each.name]} for each in containers if each.name in asked), {})


def engine_key(name: object) -> str:
    """An engine's name without what people spell differently: `llama.cpp` and `llama-cpp` are one, so is `trtllm`."""
    plain = re.sub(r"[^a-z0-9]", "", str(name).lower())
    return _OTHER_NAMES.get(plain, plain)


def _cards_asked(pod: Json) -> dict[str, int]:
    """Container name to its number of cards; empty for a pod that is refused for its ask."""
    try:
        demand = read_pod(pod).demand
    except InvalidRequest:
        return {}
    return {ask.container: ask.count for ask in demand.asks} if demand else {}
