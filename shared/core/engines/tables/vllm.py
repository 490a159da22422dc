"""vLLM: `vllm serve MODEL`, `python -m vllm.entrypoints.openai.api_server --model MODEL`.

Flags of versions 0.4 to 0.31. https://docs.vllm.ai/en/latest/cli/serve/
Programs that hand their flags on to vLLM, beside a few of their own, are read as vLLM:
Dynamo (https://github.com/ai-dynamo/dynamo/blob/main/components/src/dynamo/vllm/args.py),
KServe (https://github.com/kserve/kserve/blob/master/python/huggingfaceserver/huggingfaceserver/__main__.py) and
KAITO, where what stands in the file of flags beats the command line
(https://github.com/kaito-project/kaito/blob/main/presets/workspace/inference/vllm/inference_api.py).
"""

from __future__ import annotations

from shared.core.engines.engine import EngineName
from shared.core.engines.spec import EngineSpec, Setting, flag_table
from shared.core.engines.values import count, count_or_none, fraction, human, name, present, tokens

FLAGS = flag_table(
    [
        ("--model --model-id --model-dir", Setting.MODEL, name),
        ("--tensor-parallel-size -tp", Setting.TENSOR, count),
        ("--pipeline-parallel-size -pp", Setting.PIPELINE, count),
        ("--data-parallel-size -dp", Setting.DATA, count),
        ("--data-parallel-size-local -dpl", Setting.DATA_LOCAL, count_or_none),
        ("--data-parallel-rank -dpn", Setting.DATA_ONE_RANK, present),
        ("--data-parallel-address -dpa", Setting.IN_GROUP, present),
        ("--data-parallel-start-rank -dpr", Setting.IN_GROUP, present),
        ("--node-rank -r", Setting.IN_GROUP, present),
        ("--prefill-context-parallel-size -pcp", Setting.CONTEXT_PARALLEL, count),
        ("--nnodes -n", Setting.NNODES, count),
        ("--max-model-len --max-length", Setting.CONTEXT, tokens),
        ("--gpu-memory-utilization", Setting.FRACTION, fraction),
        ("--kv-cache-memory-bytes", Setting.KV_BYTES, human),
        ("--config --engine-config-json --kaito-config-file", Setting.MORE_FLAGS, name),
    ],
    on=[
        ("--enable-expert-parallel -ep", Setting.EXPERT_OVER_ALL),
        ("--data-parallel-external-lb -dpe", Setting.DATA_ONE_RANK),
        ("--data-parallel-hybrid-lb -dph", Setting.IN_GROUP),
        ("--headless", Setting.IN_GROUP),
    ],
    values="""
        --additional-config --allowed-local-media-path --api-server-count -asc --attention-backend --block-size
        --chat-template --chat-template-content-format --code-revision --collect-detailed-traces --compilation-config
        -cc --config-format --convert --cp-kv-cache-interleave-size --cpu-offload-gb --cudagraph-capture-sizes
        --data-parallel-backend -dpb --data-parallel-rpc-port -dpp --decode-context-parallel-size -dcp
        --default-chat-template-kwargs --default-mm-loras --device --disable-access-log-for-endpoints
        --distributed-executor-backend --download-dir --dtype --eplb-config --expert-placement-strategy
        --generation-config  --guided-decoding-backend --h11-max-header-count
        --h11-max-incomplete-event-size --hf-config-path --hf-overrides --hf-token --host --io-processor-plugin
        --kv-cache-dtype --kv-cache-metrics-sample --kv-events-config --kv-offloading-backend --kv-offloading-size
        --kv-transfer-config --limit-mm-per-prompt --load-format --log-config-file
        --logits-processors --logprobs-mode --long-prefill-token-threshold --lora-dtype --master-addr --master-port
        --max-cpu-loras --max-cudagraph-capture-size --max-log-len --max-logprobs --max-lora-rank --max-loras
        --max-long-partial-prefills --max-num-batched-tokens --max-num-partial-prefills --max-num-seqs
        --max-parallel-loading-workers --max-seq-len-to-capture --mm-encoder-attn-backend --mm-encoder-tp-mode
        --mm-ipc-gpu-memory-gb --mm-processor-cache-gb --mm-processor-cache-type --mm-processor-kwargs --model-impl
        --model-loader-extra-config --num-gpu-blocks-override --num-lookahead-slots
        --num-redundant-experts --num-scheduler-steps --optimization-level -O --otlp-traces-endpoint
        --override-attention-dtype --override-generation-config --override-pooler-config --pooler-config --port
        --preemption-mode --prefix-caching-hash-algo --profiler-config --pt-load-map-location --quantization -q
        --reasoning-config --reasoning-parser --reasoning-parser-plugin --response-role --revision --root-path
        --rope-scaling --rope-theta --runner --safetensors-load-strategy --scheduler-cls --scheduling-policy --seed
        --show-hidden-metrics-for-version --speculative-config --speculative-model --num-speculative-tokens
        --ssl-ca-certs --ssl-cert-reqs --ssl-certfile --ssl-ciphers --ssl-keyfile --stream-interval
        --structured-outputs-config --swap-space --task --tokenizer --tokenizer-mode --tokenizer-pool-size
        --tokenizer-revision --tool-call-parser --tool-parser-plugin --tool-server --uds --uvicorn-log-level
        --video-pruning-rate --worker-cls --worker-extension-cls
        --distributed-timeout-seconds
    """,
    lists="""
        --allowed-headers --allowed-media-domains --allowed-methods --allowed-origins --api-key --cuda-graph-sizes
        --ignore-patterns --lora-modules --middleware --prompt-adapters --served-model-name
    """,
    switches="""
        --aggregate-engine-logging --allow-credentials --async-scheduling --calculate-kv-scales
        --disable-cascade-attn --disable-chunked-mm-input --disable-custom-all-reduce --disable-fastapi-docs
        --disable-frontend-multiprocessing --disable-hybrid-kv-cache-manager --disable-log-requests
        --disable-log-stats --disable-mm-preprocessor-cache --disable-sliding-window --disable-uvicorn-access-log
        --enable-auto-tool-choice --enable-chunked-prefill --enable-dbo --enable-eplb --enable-force-include-usage
        --enable-log-deltas --enable-log-outputs --enable-log-requests --enable-lora --enable-lora-bias
        --enable-mfu-metrics --enable-mm-embeds --enable-prefix-caching --enable-prompt-adapter
        --enable-prompt-embeds --enable-prompt-tokens-details --enable-reasoning --enable-request-id-headers
        --enable-return-routed-experts --enable-server-load-tracking --enable-sleep-mode --enable-ssl-refresh
        --enable-tokenizer-info-endpoint --enforce-eager --exclude-tools-when-tool-choice-none --fully-sharded-loras
        --interleave-mm-strings --kv-sharing-fast-prefill --language-model-only --log-error-stack
        --multi-step-stream-outputs --ray-workers-use-nsight --return-tokens-as-token-ids --skip-mm-profiling
        --skip-tokenizer-init --tokens-only --trust-remote-code --trust-request-chat-template
        --use-tqdm-on-load --use-v2-block-manager
    """,
)

VLLM = EngineSpec(
    name=EngineName.VLLM,
    programs=("vllm",),
    direct_programs=frozenset({"vllm-openai", "api_server", "api_server.py"}),
    modules=("vllm.entrypoints", "api_server", "dynamo.vllm", "huggingfaceserver", "vllm.inference_api"),
    serving=(("serve",),),
    clients=frozenset({"bench", "chat", "complete", "collect-env"}),
    client_programs=frozenset({"dynamo.frontend"}),
    images=("vllm", "huggingfaceserver", "llm-d-cuda", "llm-d-rocm", "llm-d-xpu", "llm-d-aws"),
    own_tags=frozenset({"vllm", "vllm-openai", "vllm-openai-rocm", "vllm-openai-xpu", "vllm-rocm", "vllm-dev"}),
    entrypoint=("vllm", "serve"),
    flags=FLAGS,
    variable_prefixes=("SM_VLLM_",),
    positional_model=True,
    abbreviates=True,
    defaults_to_one=frozenset(
        {Setting.TENSOR, Setting.PIPELINE, Setting.DATA, Setting.CONTEXT_PARALLEL, Setting.EXPERT, Setting.NNODES}
    ),
    axes=frozenset({Setting.TENSOR, Setting.PIPELINE, Setting.DATA, Setting.CONTEXT_PARALLEL}),
)
