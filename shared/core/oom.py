"""Whether a program died for lack of a card's memory, by its last words.

What programs print is theirs, and may hold secrets: of a text that fits only fixed words and sizes are passed on.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from math import ceil
from typing import Final

_LONGEST_LINE: Final = 4096


class Memory(StrEnum):
    """What ran short."""

    CARD = "card"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why a container died: too little of a kind of memory. `said` is how the program put it."""

    memory: Memory
    said: str
    missing_gb: int = 0
    """GB that the allocation asked for which failed, rounded up; 0 if that is not known."""


OOM_KILLED: Final = Shortage(Memory.NODE, "OOMKilled")
"""The kernel's own word, by way of the kubelet: the memory of the node, not that of a card."""

_SIZE: Final = r"(?P<size>[0-9]{1,15}(?:\.[0-9]{1,3})?) ?(?P<unit>KiB|MiB|GiB|bytes)"
_API: Final = r"\b(?P<api>CUDA|HIP|XPU)"

_CONSTANTS: Final = "|".join(
    (
        "CUDA_ERROR_OUT_OF_MEMORY",
        "cudaErrorMemoryAllocation",
        "hipErrorOutOfMemory",
        "hipErrorMemoryAllocation",
        "CUBLAS_STATUS_ALLOC_FAILED",
        "CUDNN_STATUS_ALLOC_FAILED",
        "HIPBLAS_STATUS_ALLOC_FAILED",
        "HSA_STATUS_ERROR_OUT_OF_RESOURCES",
    )
)

_WORDS: Final = tuple(
    (re.compile(pattern), said)
    for pattern, said in (
        # PyTorch, and with it most servers.
        (rf"{_API} out of memory\. Tried to allocate(?: {_SIZE})?", "{api} out of memory"),
        (rf"Error: {_API} out of memory", "{api} out of memory"),
        (rf"{_API} (?:driver |runtime )?error: out of memory", "{api} error: out of memory"),
        # vLLM
        (r"Error: No available memory for the cache blocks", "no memory is left for the KV cache"),
        (
            r"Error: Free memory on device .{0,60} on startup is less than desired GPU memory utilization",
            "less memory of the card is free than the server was told to take",
        ),
        (rf"\b{_SIZE} KV cache is needed, which is larger than the available", "the KV cache does not fit"),
        (
            r"max seq len \([0-9]+\) is larger than the maximum number of tokens that can be stored in KV cache",
            "the KV cache does not fit",
        ),
        # SGLang
        (
            r"Error: Not enough memory\. Please try to increase --mem-fraction-static",
            "no memory is left for the KV cache",
        ),
        (r"\b(?P<api>Prefill|Decode) out of memory\. Try to lower your batch size", "{api} out of memory"),
        # Text Generation Inference
        (r"Not enough memory to handle [0-9/ a-z]{1,40}prefill tokens", "not enough memory for the prefill tokens"),
        # llama.cpp and Ollama
        (
            rf"allocating {_SIZE} on device [0-9]+: (?P<api>cuda|hip)Malloc failed: out of memory",
            "{api}Malloc failed: out of memory",
        ),
        (r"\b(?P<api>cuda|hip)Malloc(?:Async|Managed)? failed: out of memory", "{api}Malloc failed: out of memory"),
        (
            r"failed to allocate (?P<api>CUDA|ROCm|Vulkan|SYCL)[0-9]* buffer of size (?P<size>[0-9]{1,15})\b",
            "failed to allocate a {api} buffer",
        ),
        (r"unable to allocate (?P<api>CUDA|ROCm|Vulkan|SYCL)[0-9]* buffer", "unable to allocate a {api} buffer"),
        (r"\bErrorOutOfDeviceMemory\b", "ErrorOutOfDeviceMemory"),
        # TensorRT and TensorRT-LLM
        (
            r"Requested amount of GPU memory \((?P<size>[0-9]{1,15}) (?P<unit>bytes)\) could not be allocated",
            "a request for GPU memory failed",
        ),
        (r"Cuda Runtime \(out of memory\)", "CUDA runtime: out of memory"),
        (r"CUDA runtime error in .{1,120}: out of memory", "CUDA runtime: out of memory"),
        # JAX
        (
            rf"RESOURCE_EXHAUSTED: Out of memory (?:while trying to allocate|allocating) {_SIZE}",
            "RESOURCE_EXHAUSTED: out of memory",
        ),
        # Libraries below them.
        (r"Cuda failure (?:[0-9]+ )?'out of memory'", "NCCL: out of memory"),
        (
            rf"\b(?P<api>{_CONSTANTS})\b",
            "{api}",
        ),
    )
)

_BYTES: Final = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def card_shortage(text: str) -> Shortage | None:
    """The lack of a card's memory that the last words of a program that failed tell of; None if they do not.

    The last line that tells of one counts, since a server may have survived an earlier one.
    """
    for line in reversed(text.splitlines()):
        for pattern, said in _WORDS:
            match = pattern.search(line[:_LONGEST_LINE])
            if match is not None:
                return _shortage(match, said)
    return None


def _shortage(match: re.Match[str], said: str) -> Shortage:
    words = match.groupdict()
    text = said.format(api=words.get("api"))
    size = words.get("size")
    if size is None:
        return Shortage(Memory.CARD, text)
    unit = words.get("unit") or "bytes"
    missing_gb = ceil(Fraction(size) * _BYTES.get(unit, 1) / 2**30)
    return Shortage(Memory.CARD, f"{text} (it asked for {size} {unit})", missing_gb)
