"""Images: the engine and the version in a repository and its tag, whatever mirror they come from."""

from __future__ import annotations

import pytest

from shared.core.engines import EngineName
from shared.core.engines.images import read_image


@pytest.mark.parametrize(
    ("image", "engine", "version"),
    [
        ("vllm/vllm-openai:v0.11.0", EngineName.VLLM, (0, 11, 0)),
        ("vllm/vllm-openai:v0.11.0-cu129", EngineName.VLLM, (0, 11, 0)),
        ("vllm/vllm-openai:latest", EngineName.VLLM, None),
        ("vllm/vllm-openai", EngineName.VLLM, None),
        ("vllm/vllm-openai:v0.6.4.post1", EngineName.VLLM, (0, 6, 4)),
        ("localhost:5000/mirror/vllm-openai:v0.9.1", EngineName.VLLM, (0, 9, 1)),
        ("harbor.corp/hub/vllm/vllm-openai:v0.9.1@sha256:0123", EngineName.VLLM, (0, 9, 1)),
        ("vllm/vllm-openai@sha256:0123", EngineName.VLLM, None),
        ("registry.example/vllm-rocm:0.11", EngineName.VLLM, (0, 11)),
        ("rocm/vllm:rocm6.4.1_vllm_0.9.1_20250715", EngineName.VLLM, (0, 9, 1)),
        ("gpustack/runner:cuda12.9-vllm0.11.0", EngineName.VLLM, (0, 11, 0)),
        ("corp/llm:sglang-v0.5.3", EngineName.SGLANG, (0, 5, 3)),
        ("lmcache/vllm-openai:v0.3.9", EngineName.VLLM, None),
        ("ghcr.io/llm-d/llm-d-cuda:v0.3.0", EngineName.VLLM, None),
        ("corp/our-vllm:1.4", EngineName.VLLM, None),
        ("nvcr.io/nvidia/vllm:25.10-py3", EngineName.VLLM, (0, 10, 2)),
        ("nvcr.io/nvidia/vllm:26.04-py3", EngineName.VLLM, (0, 17, 1)),
        ("nvcr.io/nvidia/vllm:25.09-py3", EngineName.VLLM, None),
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.5.0", EngineName.VLLM, None),
        ("kserve/huggingfaceserver:v0.14.1", EngineName.VLLM, (0, 6, 1)),
        ("kserve/huggingfaceserver:v0.15.0-gpu", EngineName.VLLM, (0, 8, 1)),
        ("docker.io/kserve/huggingfaceserver:v0.15.2-gpu", EngineName.VLLM, (0, 8, 5)),
        ("mirror.corp/kserve-huggingfaceserver:v0.16.0-gpu", EngineName.VLLM, (0, 9, 2)),
        ("kserve/huggingfaceserver:v0.21.0-gpu", EngineName.VLLM, (0, 24, 0)),
        ("kserve/huggingfaceserver:v0.11.0", EngineName.VLLM, None),
        ("kserve/huggingfaceserver:latest-gpu", EngineName.VLLM, None),
        ("lmsysorg/sglang:v0.5.3-cu129", EngineName.SGLANG, (0, 5, 3)),
        ("rocm/sgl-dev:v0.4.6", EngineName.SGLANG, None),
        ("ghcr.io/huggingface/text-generation-inference:2.2", EngineName.TGI, (2, 2)),
        ("ghcr.io/huggingface/text-generation-inference:3.3.4-rocm", EngineName.TGI, (3, 3, 4)),
        ("ghcr.io/huggingface/text-embeddings-inference:86-1.8", EngineName.TEI, (1, 8)),
        ("ghcr.io/ggml-org/llama.cpp:server-cuda", EngineName.LLAMA_CPP, None),
        ("registry.example/llama-server:vulkan", EngineName.LLAMA_CPP, None),
        ("ollama/ollama:0.12.3-rocm", EngineName.OLLAMA, (0, 12, 3)),
        ("registry.example/ollama:jetpack6", EngineName.OLLAMA, None),
        ("openmmlab/lmdeploy:v0.9.2-cu12", EngineName.LMDEPLOY, (0, 9, 2)),
        ("nvcr.io/nvidia/tensorrt-llm/release:1.0.0", EngineName.TENSORRT_LLM, (1, 0, 0)),
        ("nvcr.io/nvidia/tritonserver:25.06-py3", EngineName.TRITON, (25, 6)),
        ("nvcr.io/nvidia/tritonserver:25.06-vllm-python-py3", EngineName.TRITON, (25, 6)),
        ("nvcr.io/nim/meta/llama-3.1-8b-instruct:1.13", EngineName.NIM, (1, 13)),
        ("registry.example/nim-embed:1", EngineName.NIM, None),
        ("michaelf34/infinity:0.0.77", EngineName.INFINITY, (0, 0, 77)),
        ("rayproject/ray-llm:2.50.0-py311-cu128", EngineName.RAY, (2, 50, 0)),
        ("VLLM/vllm-openai:V0.11", EngineName.VLLM, (0, 11)),
    ],
)
def test_the_repository_names_the_engine_and_its_own_tag_the_version(
    image: str, engine: EngineName, version: tuple[int, ...] | None
) -> None:
    read = read_image(image)
    assert read.spec is not None
    assert (read.spec.name, read.version) == (engine, version)


@pytest.mark.parametrize(
    "image",
    [
        "",
        ":",
        "@",
        "///",
        "nginx:1.29",
        "registry.example/lora-sidecar:1",
        "ghcr.io/open-webui/open-webui:0.6",
        "ghcr.io/llm-d/llm-d-routing-sidecar:v0.3.0",
        "lmcache/vllm-router:1",
        "corp/ollama-webui:1",
        "quay.io/kuberay/operator:v1.4",
        "quay.io/kuberay/ray-operator:v1.4",
        "infiniflow/infinity:v0.6",
        "vllm/other-tool:1",
        "amazon/aws-xray-daemon:3",
        "kserve/storage-initializer:v0.15.2",
        "vllm.example.com/web:1",
    ],
)
def test_other_images_and_an_engines_helpers_are_no_engine(image: str) -> None:
    assert read_image(image).spec is None


def test_a_nim_repository_names_its_model() -> None:
    assert read_image("nvcr.io/nim/meta/llama-3.1-8b-instruct:1.13").model == "meta/llama-3.1-8b-instruct"
    assert read_image("registry.example/nim-ocr:1").model is None


def test_a_tag_that_names_another_engine_is_no_version() -> None:
    assert read_image("nvcr.io/nvidia/tritonserver:vllm-0.9.1").version is None
