"""SGLang: `python -m sglang.launch_server --model-path MODEL`, `sglang serve`.

https://docs.sglang.io/advanced_features/server_arguments.html
Dynamo hands its flags on to SGLang (https://github.com/ai-dynamo/dynamo/blob/main/components/src/dynamo/sglang/args.py).
"""

from __future__ import annotations

from shared.core.engines.engine import EngineName
from shared.core.engines.spec import EngineSpec, Setting, flag_table
from shared.core.engines.values import count, fraction, human, name, present

_FLAGS = flag_table(
    [
        ("--model-path --model", Setting.MODEL, name),
        ("--tensor-parallel-size --tp-size --tp", Setting.TENSOR, count),
        ("--pipeline-parallel-size --pp-size --pp", Setting.PIPELINE, count),
        ("--data-parallel-size --dp-size --dp", Setting.DATA, count),
        ("--expert-parallel-size --ep-size --ep", Setting.EXPERT, count),
        ("--nnodes", Setting.NNODES, count),
        ("--node-rank", Setting.IN_GROUP, present),
        ("--context-length", Setting.CONTEXT, human),
        ("--mem-fraction-static", Setting.FRACTION, fraction),
        ("--config --disagg-config", Setting.MORE_FLAGS, name),
    ],
    on=[("--enable-dp-attention", Setting.TENSOR_GROUP_SPLIT)],
    values="""
        --api-key --attention-backend --attention-context-parallel-size --attn-cp-size --base-gpu-id --chat-template
        --chunked-prefill-size --completion-template --constrained-json-whitespace-pattern --cpu-offload-gb
        --cuda-graph-max-bs --decode-attention-backend --decode-log-interval --deepep-mode --device
        --disaggregation-bootstrap-port --disaggregation-ib-device --disaggregation-mode
        --disaggregation-transfer-backend --dist-init-addr --dist-timeout --download-dir --dtype
        --ep-dispatch-algorithm --ep-num-redundant-experts --file-storage-path --fp8-gemm-backend --gpu-id-step
        --grammar-backend --hicache-io-backend --hicache-ratio --hicache-size --hicache-storage-backend
        --hicache-write-policy --host --init-expert-location --json-model-override-args --kv-cache-dtype
        --load-balance-method --load-format --load-watch-interval --log-level --log-level-http --log-requests-level
        --lora-backend --mamba-full-memory-ratio --max-lora-rank --max-loras-per-batch --max-prefill-tokens
        --max-queued-requests --max-running-requests --max-total-tokens --mm-attention-backend
        --model-loader-extra-config --moe-a2a-backend --moe-dense-tp-size --moe-dp-size --moe-runner-backend
        --nccl-init-addr --nccl-port --num-continuous-decode-steps --num-reserved-decode-tokens --page-size --port
        --prefill-attention-backend --quantization --quantization-param-path --random-seed --reasoning-parser
        --revision --sampling-backend --schedule-conservativeness --schedule-policy --served-model-name
        --skip-server-warmup-timeout --speculative-algorithm --speculative-attention-mode
        --speculative-draft-model-path --speculative-eagle-topk --speculative-num-draft-tokens
        --speculative-num-steps --speculative-token-map --stream-interval --tokenizer-mode --tokenizer-path
        --tokenizer-worker-num --tool-call-parser --torch-compile-max-bs --torchao-config --watchdog-timeout
        --weight-version
    """,
    lists="--bucket-e2e-request-latency --cuda-graph-bs --lora-paths --lora-target-modules",
    switches="""
        --allow-auto-truncate --disable-chunked-prefix-cache --disable-cuda-graph --disable-cuda-graph-padding
        --disable-custom-all-reduce --disable-fast-image-processor --disable-outlines-disk-cache
        --disable-overlap-schedule --disable-radix-cache --disable-shared-experts-fusion
        --enable-cache-report --enable-custom-logit-processor --enable-deepep-moe --enable-deterministic-inference
        --enable-dp-lm-head --enable-ep-moe --enable-eplb --enable-hierarchical-cache --enable-lora
        --enable-memory-saver --enable-metrics --enable-mixed-chunk --enable-multimodal --enable-nccl-nvls
        --enable-p2p-check --enable-request-time-stats-logging --enable-symm-mem --enable-torch-compile
        --enable-two-batch-overlap --is-embedding --log-requests --show-time-cost --skip-server-warmup
        --skip-tokenizer-init --triton-attention-reduce-in-fp32 --trust-remote-code
    """,
)

SGLANG = EngineSpec(
    name=EngineName.SGLANG,
    programs=("sglang",),
    modules=("sglang.launch_server", "sglang_router.launch_server", "dynamo.sglang"),
    serving=(("serve",),),
    clients=frozenset({"generate", "version"}),
    client_programs=frozenset({"sglang_router.launch_router"}),
    images=("sglang", "sgl"),
    own_tags=frozenset({"sglang"}),
    flags=_FLAGS,
    variable_prefixes=("SM_SGLANG_",),
    positional_model=True,
    abbreviates=True,
    defaults_to_one=frozenset({Setting.TENSOR, Setting.PIPELINE, Setting.DATA, Setting.EXPERT, Setting.NNODES}),
    axes=frozenset({Setting.TENSOR, Setting.PIPELINE, Setting.DATA}),
)
