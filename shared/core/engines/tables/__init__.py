"""The tables: one entry for each engine, as data. What they mean stands in `spec`."""

from __future__ import annotations

from shared.core.engines.engine import EngineName
from shared.core.engines.spec import EngineSpec
from shared.core.engines.tables.huggingface import TEI, TGI
from shared.core.engines.tables.llama_cpp import LLAMA_CPP, OLLAMA
from shared.core.engines.tables.nvidia import NIM, TENSORRT_LLM, TRITON
from shared.core.engines.tables.others import DJL, INFINITY, LMDEPLOY, RAY
from shared.core.engines.tables.sglang import SGLANG
from shared.core.engines.tables.vllm import VLLM

SPECS: dict[EngineName, EngineSpec] = {
    spec.name: spec
    for spec in (
        VLLM,
        SGLANG,
        TGI,
        LLAMA_CPP,
        OLLAMA,
        TENSORRT_LLM,
        TRITON,
        LMDEPLOY,
        RAY,
        NIM,
        TEI,
        INFINITY,
        DJL,
    )
}
