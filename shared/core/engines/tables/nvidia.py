"""TensorRT-LLM, Triton and NIM.

https://nvidia.github.io/TensorRT-LLM/commands/trtllm-serve/, https://docs.nvidia.com/nim/large-language-models/
Dynamo's worker for TensorRT-LLM has flags of its own, with much the same names:
https://github.com/ai-dynamo/dynamo/blob/main/components/src/dynamo/trtllm/backend_args.py
"""

from __future__ import annotations

from shared.core.engines.engine import EngineName
from shared.core.engines.spec import EngineSpec, EnvironmentRow, Setting, flag_table
from shared.core.engines.tables.vllm import FLAGS as VLLM_FLAGS
from shared.core.engines.values import (
    count,
    fraction,
    name,
    pipeline_size_in_name,
    tensor_size_in_name,
    tokens,
)

TENSORRT_LLM = EngineSpec(
    name=EngineName.TENSORRT_LLM,
    programs=("trtllm-serve",),
    modules=("dynamo.trtllm",),
    serving=(("serve",), ()),
    clients=frozenset({"disaggregated", "mm_embedding_serve"}),
    images=("tensorrt-llm/", "trtllm", "tensorrtllm", "tensorrt-llm"),
    own_tags=frozenset({"release"}),
    flags=flag_table(
        [
            ("--model --model-path", Setting.MODEL, name),
            ("--tp-size --tensor-parallel-size", Setting.TENSOR, count),
            ("--pp-size --pipeline-parallel-size", Setting.PIPELINE, count),
            ("--ep-size --moe-expert-parallel-size --expert-parallel-size", Setting.EXPERT, count),
            ("--cp-size --context-parallel-size", Setting.CONTEXT_PARALLEL, count),
            ("--max-seq-len", Setting.CONTEXT, tokens),
            ("--kv-cache-free-gpu-memory-fraction --free-gpu-memory-fraction", Setting.FRACTION, fraction),
            (
                "--extra-llm-api-options --config --extra-engine-args --override-engine-args",
                Setting.MORE_FLAGS,
                name,
            ),
        ],
        values="""
            --backend --chat-template --cluster-size --custom-module-dirs --gpus-per-node --host --kv-cache-dtype
            --log-level --max-batch-size --max-beam-width --max-num-tokens --metadata-server-config-file
            --num-postprocess-workers --port --reasoning-parser --revision --server-role --tokenizer --tool-parser
        """,
        switches="--enable-chunked-prefill --fail-fast-on-attention-window-too-large --trust-remote-code",
    ),
    positional_model=True,
    defaults_to_one=frozenset(
        {Setting.TENSOR, Setting.PIPELINE, Setting.CONTEXT_PARALLEL, Setting.EXPERT, Setting.NNODES}
    ),
    axes=frozenset({Setting.TENSOR, Setting.PIPELINE, Setting.CONTEXT_PARALLEL}),
)

TRITON = EngineSpec(
    name=EngineName.TRITON,
    programs=("tritonserver", "launch_triton_server.py"),
    images=("tritonserver", "triton-server", "triton-inference-server"),
    own_tags=frozenset({"tritonserver"}),
    flags=flag_table(
        [("--world-size", Setting.SHARDS, count)],
        values="""
            --allow-cpu-metrics --allow-gpu-metrics --allow-grpc --allow-http --allow-metrics --backend-config
            --backend-directory --cache-config --cuda-memory-pool-byte-size --exit-on-error --exit-timeout-secs
            --grpc-address --grpc-port --host-policy --http-address --http-port --http-thread-count --load-model
            --log-error --log-file --log-info --log-verbose --log-warning --metrics-interval-ms --metrics-port
            --min-supported-compute-capability --model-control-mode --model-load-gpu-limit
            --model-load-thread-count --model-repo --model-repository --model-store --pinned-memory-pool-byte-size
            --rate-limit --repository-poll-secs --reuse-grpc-port --reuse-http-port --strict-model-config
            --strict-readiness --trace-config
        """,
        switches="--disable-auto-complete-config --force --log --oversubscribe",
    ),
    spreads_over_visible=True,
)

NIM = EngineSpec(
    name=EngineName.NIM,
    programs=("start_server.sh", "start-server.sh"),
    images=("nim/", "nim"),
    entrypoint=("start_server.sh",),
    flags=VLLM_FLAGS,
    environment=(
        EnvironmentRow("NIM_MODEL_PROFILE", Setting.TENSOR, tensor_size_in_name),
        EnvironmentRow("NIM_MODEL_PROFILE", Setting.PIPELINE, pipeline_size_in_name),
        EnvironmentRow("NIM_TENSOR_PARALLEL_SIZE", Setting.TENSOR, count),
        EnvironmentRow("NIM_PIPELINE_PARALLEL_SIZE", Setting.PIPELINE, count),
        EnvironmentRow("NIM_MODEL_NAME", Setting.MODEL, name),
        EnvironmentRow("NIM_MAX_MODEL_LEN", Setting.CONTEXT, tokens),
        EnvironmentRow("NIM_KVCACHE_PERCENT", Setting.FRACTION, fraction),
    ),
    flags_variable="NIM_PASSTHROUGH_ARGS",
    abbreviates=True,
    defaults_to_one=frozenset({Setting.PIPELINE}),
    axes=frozenset({Setting.TENSOR, Setting.PIPELINE}),
)
