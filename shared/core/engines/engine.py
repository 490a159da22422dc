"""What the product knows of one model server."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

Version: TypeAlias = tuple[int, ...]


class EngineName(StrEnum):
    """The programs that serve models and are read by this package."""

    VLLM = "vllm"
    SGLANG = "sglang"
    TGI = "tgi"
    LLAMA_CPP = "llama.cpp"
    OLLAMA = "ollama"
    TENSORRT_LLM = "tensorrt-llm"
    TRITON = "triton"
    LMDEPLOY = "lmdeploy"
    RAY = "ray"
    NIM = "nim"
    TEI = "tei"
    INFINITY = "infinity"
    DJL = "djl"

    @property
    def label(self) -> str:
        """The name as its makers spell it, for texts."""
        return _LABELS[self]


_LABELS = {
    EngineName.VLLM: "vLLM",
    EngineName.SGLANG: "SGLang",
    EngineName.TGI: "Text Generation Inference",
    EngineName.LLAMA_CPP: "llama.cpp",
    EngineName.OLLAMA: "Ollama",
    EngineName.TENSORRT_LLM: "TensorRT-LLM",
    EngineName.TRITON: "Triton",
    EngineName.LMDEPLOY: "LMDeploy",
    EngineName.RAY: "Ray",
    EngineName.NIM: "NIM",
    EngineName.TEI: "Text Embeddings Inference",
    EngineName.INFINITY: "Infinity",
    EngineName.DJL: "DJL Serving",
}


@dataclass(frozen=True, slots=True)
class Engine:
    """A model server as its container describes it. None always means "not known", never a default that was assumed.

    The parallel sizes are the ones in force: the engine's own default of 1 counts where its whole command line could be
    read. `memory_fraction` is the user's own value only; what a fraction is a fraction of stands in `limits`.
    """

    name: EngineName
    version: Version | None = None
    model: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    data_parallel: int | None = None
    data_parallel_local: int | None = None
    """Data-parallel ranks of this pod alone, where the command line tells them apart from those of the group."""
    context_parallel: int | None = None
    """Prefill context-parallel ranks, each with cards of its own."""
    expert_parallel: int | None = None
    shards: int | None = None
    """Cards that the process says it spreads over: TGI's shards, a llama.cpp tensor split, Ray's `--num-gpus`."""
    nnodes: int | None = None
    """Pods that share the parallel sizes. 1 for a server of its own, None in a group of unknown size."""
    splits_tensor_group: bool = False
    """SGLang's data-parallel attention: `data_parallel` divides the tensor-parallel group and adds no card."""
    context_length: int | None = None
    memory_fraction: float | None = None
    fraction_unknown: bool = False
    """The flag of the memory fraction is there, and what it says cannot be known."""
    kv_cache_bytes: int | None = None
    devices: tuple[tuple[str, str], ...] = ()
    """Device variables that the command line itself sets, such as `CUDA_VISIBLE_DEVICES=1,2 vllm serve ...`."""
    unread: tuple[str, ...] = ()
    """Flags, words and variables that were not understood. Of an unknown flag no value: it may be a secret."""
    hidden: bool = False
    """Flags may stand where nobody can see them here: in a file, a script or a variable that is set elsewhere."""
    appendable: bool = False
    """A flag appended to the container's `args` reaches the engine.

    Kubernetes runs `command` and `args` one after the other, so that holds for argv lists in either field, and for
    images whose entrypoint is the server. It does not hold inside a shell text.
    """
