"""Whether the last words of a program tell that it ran out of a card's memory."""

from __future__ import annotations

import pytest

from shared.core.oom import Memory, Shortage, card_shortage

TORCH = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.25 GiB. GPU 0 has a total capacity of 79.15 GiB "
    "of which 5.19 MiB is free."
)


@pytest.mark.parametrize(
    ("line", "said", "missing_gb"),
    [
        pytest.param(TORCH, "CUDA out of memory (it asked for 2.25 GiB)", 3, id="torch"),
        pytest.param(
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.78 GiB total",
            "CUDA out of memory (it asked for 20.00 MiB)",
            1,
            id="torch-before-2.5",
        ),
        pytest.param(
            "(EngineCore pid=253) torch.OutOfMemoryError: HIP out of memory. Tried to allocate 76.00 MiB. GPU 1 has",
            "HIP out of memory (it asked for 76.00 MiB)",
            1,
            id="torch-on-rocm-in-vllm",
        ),
        pytest.param("RuntimeError: CUDA out of memory. Tried to allocate ...", "CUDA out of memory", 0, id="no-size"),
        pytest.param("OutOfMemoryError: XPU out of memory.", "XPU out of memory", 0, id="torch-on-intel"),
        pytest.param("RuntimeError: CUDA error: out of memory", "CUDA error: out of memory", 0, id="cuda-error"),
        pytest.param("RuntimeError: HIP error: out of memory", "HIP error: out of memory", 0, id="hip-error"),
        pytest.param(
            "RuntimeError: CUDA driver error: out of memory", "CUDA error: out of memory", 0, id="cuda-driver-error"
        ),
        pytest.param(
            "RuntimeError: CUDA out of memory occurred when warming up sampler with 1024 dummy requests.",
            "CUDA out of memory",
            0,
            id="vllm-warming-up",
        ),
        pytest.param(
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when",
            "no memory is left for the KV cache",
            0,
            id="vllm-no-cache",
        ),
        pytest.param(
            "ValueError: Free memory on device cuda:0 (12.18/23.56 GiB) on startup is less than desired GPU memory "
            "utilization (0.92, 21.67 GiB). Decrease GPU memory utilization",
            "less memory of the card is free than the server was told to take",
            0,
            id="vllm-card-in-use",
        ),
        pytest.param(
            "ValueError: To serve at least one request with the models's max seq len (40960), (10.00 GiB KV cache is "
            "needed, which is larger than the available KV cache memory (1.25 GiB).",
            "the KV cache does not fit (it asked for 10.00 GiB)",
            10,
            id="vllm-context-too-long",
        ),
        pytest.param(
            "ValueError: The model's max seq len (131072) is larger than the maximum number of tokens that can be "
            "stored in KV cache (34528). Try increasing `gpu_memory_utilization` or decreasing `max_model_len`",
            "the KV cache does not fit",
            0,
            id="vllm-context-too-long-before-0.9",
        ),
        pytest.param(
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            "no memory is left for the KV cache",
            0,
            id="sglang-no-cache",
        ),
        pytest.param(
            "Prefill out of memory. Try to lower your batch size.", "Prefill out of memory", 0, id="sglang-prefill"
        ),
        pytest.param(
            "RuntimeError: Not enough memory to handle 4096 prefill tokens. You need to decrease",
            "not enough memory for the prefill tokens",
            0,
            id="tgi",
        ),
        pytest.param(
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 1825.82 MiB on device 0: cudaMalloc failed: out of "
            "memory",
            "cudaMalloc failed: out of memory (it asked for 1825.82 MiB)",
            2,
            id="llama.cpp",
        ),
        pytest.param(
            "Error: llama runner process has terminated: cudaMalloc failed: out of memory",
            "cudaMalloc failed: out of memory",
            0,
            id="ollama",
        ),
        pytest.param(
            "ggml_gallocr_reserve_n_impl: failed to allocate ROCm0 buffer of size 1914513024",
            "failed to allocate a ROCm buffer (it asked for 1914513024 bytes)",
            2,
            id="llama.cpp-on-rocm",
        ),
        pytest.param(
            "llama_model_load: error loading model: unable to allocate CUDA0 buffer",
            "unable to allocate a CUDA buffer",
            0,
            id="llama.cpp-weights",
        ),
        pytest.param(
            "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory", "ErrorOutOfDeviceMemory", 0, id="vulkan"
        ),
        pytest.param(
            "Requested amount of GPU memory (3887181312 bytes) could not be allocated. There may not be enough free",
            "a request for GPU memory failed (it asked for 3887181312 bytes)",
            4,
            id="tensorrt",
        ),
        pytest.param(
            "1: [defaultAllocator.cpp::allocate::19] Error Code 1: Cuda Runtime (out of memory)",
            "CUDA runtime: out of memory",
            0,
            id="tensorrt-error-code",
        ),
        pytest.param(
            "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaMallocAsync(ptr, n, stream): out of memory (/src/x.h:1)",
            "CUDA runtime: out of memory",
            0,
            id="tensorrt-llm",
        ),
        pytest.param(
            "jaxlib.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2147483648 bytes.",
            "RESOURCE_EXHAUSTED: out of memory (it asked for 2147483648 bytes)",
            2,
            id="jax",
        ),
        pytest.param("NCCL WARN Cuda failure 2 'out of memory'", "NCCL: out of memory", 0, id="nccl"),
        pytest.param(
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            "CUBLAS_STATUS_ALLOC_FAILED",
            0,
            id="cublas",
        ),
        pytest.param("hipErrorOutOfMemory: out of memory", "hipErrorOutOfMemory", 0, id="hip"),
    ],
)
def test_a_lack_of_a_cards_memory_is_told_in_fixed_words_and_sizes(line: str, said: str, missing_gb: int) -> None:
    assert card_shortage(line) == Shortage(Memory.CARD, said, missing_gb)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "INFO: set PYTORCH_ALLOC_CONF=expandable_segments:True to avoid CUDA out of memory errors",
        "INFO: on out of memory the request is retried",
        "WARNING: lower --max-num-seqs if you see out of memory",
        "Available KV cache memory: 10.00 GiB",
        "java.lang.OutOfMemoryError: Java heap space",
        "Killed",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "model requires more system memory (12.0 GiB) than is available (7.2 GiB)",
        "MemoryError: Unable to allocate 12.0 GiB for an array",
    ],
)
def test_nothing_else_is_taken_for_it(text: str) -> None:
    assert card_shortage(text) is None


def test_the_last_line_that_tells_of_one_counts() -> None:
    text = "\n".join([TORCH, "retrying with less", "RuntimeError: HIP error: out of memory", "Engine core failed."])
    shortage = card_shortage(text)
    assert shortage is not None
    assert shortage.said == "HIP error: out of memory"


def test_no_word_of_the_program_itself_is_passed_on() -> None:
    shortage = card_shortage(f"token=hunter2 prompt=secret {TORCH} api_key=hunter2")
    assert shortage is not None
    assert shortage.said == "CUDA out of memory (it asked for 2.25 GiB)"
