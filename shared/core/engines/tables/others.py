"""LMDeploy, Infinity, Ray and DJL Serving.

https://lmdeploy.readthedocs.io/en/latest/llm/api_server.html, https://michaelfeil.eu/infinity/,
https://docs.ray.io/en/latest/cluster/cli.html,
https://docs.djl.ai/docs/serving/serving/docs/lmi/user_guides/vllm_user_guide.html
"""

from __future__ import annotations

from shared.core.engines.engine import EngineName
from shared.core.engines.spec import EngineSpec, EnvironmentRow, Setting, flag_table
from shared.core.engines.values import count, count_or_none, fraction, fraction_not_blocks, name, present, tokens

LMDEPLOY = EngineSpec(
    name=EngineName.LMDEPLOY,
    programs=("lmdeploy",),
    modules=("lmdeploy.serve.openai.api_server",),
    serving=(("serve", "api_server"), ("serve", "gradio")),
    clients=frozenset({"lite", "convert", "list", "check_env", "chat"}),
    images=("lmdeploy",),
    own_tags=frozenset({"lmdeploy"}),
    flags=flag_table(
        [
            ("--tp", Setting.TENSOR, count),
            ("--dp", Setting.DATA, count),
            ("--ep", Setting.EXPERT, count),
            ("--nnodes", Setting.NNODES, count),
            ("--node-rank", Setting.IN_GROUP, present),
            ("--session-len", Setting.CONTEXT, tokens),
            ("--cache-max-entry-count", Setting.FRACTION, fraction_not_blocks),
        ],
        values="""
            --adapters --allow-terminate-by-client --backend --cache-block-seq-len --chat-template --communicator
            --device --dist-init-addr --download-dir --dtype --hf-overrides --log-level --max-batch-size
            --max-concurrent-requests --max-log-len --max-prefill-token-num --model-format --model-name
            --num-tokens-per-iter --max-prefill-iters --proxy-url --quant-policy --reasoning-parser --revision --role
            --rope-scaling-factor --server-name --server-port --tool-call-parser --vision-max-batch-size
        """,
        lists="--allow-headers --allow-methods --allow-origins --api-keys",
        switches="""
            --allow-credentials --disable-fastapi-docs --disable-vision-encoder --eager-mode --enable-eplb
            --enable-metrics --enable-prefix-caching --ssl --trust-remote-code
        """,
    ),
    positional_model=True,
    abbreviates=True,
    defaults_to_one=frozenset({Setting.TENSOR, Setting.DATA, Setting.EXPERT, Setting.NNODES}),
    axes=frozenset({Setting.TENSOR}),
)

INFINITY = EngineSpec(
    name=EngineName.INFINITY,
    programs=("infinity_emb",),
    modules=("infinity_emb",),
    serving=(("v2",), ("v1",), ()),
    images=("michaelf34/infinity", "infinity-emb"),
    own_tags=frozenset({"infinity"}),
    entrypoint=("infinity_emb", "v2"),
    flags=flag_table(
        [("--model-id --model-name-or-path", Setting.MODEL, name)],
        values="""
            --api-key --batch-size --device --device-id --dtype --embedding-dtype --engine --host --log-level
            --pooling-method --port --proxy-root-path --redirect-slash --revision --served-model-name --url-prefix
        """,
        switches="""
            --bettertransformer --compile --lengths-via-tokenize --model-warmup --permissive-cors --preload-only
            --trust-remote-code --vector-disk-cache --no-bettertransformer --no-compile --no-model-warmup
        """,
    ),
    environment=(EnvironmentRow("INFINITY_MODEL_ID", Setting.MODEL, name),),
)

RAY = EngineSpec(
    name=EngineName.RAY,
    programs=("ray", "serve"),
    serving=(("start",), ("run",), ("deploy",)),
    clients=frozenset({"status", "stop", "job", "submit", "health-check"}),
    images=("ray", "ray-llm", "ray-ml"),
    own_tags=frozenset({"ray", "ray-llm", "ray-ml"}),
    flags=flag_table(
        [("--num-gpus", Setting.SHARDS, count_or_none)],
        values="""
            --address --dashboard-agent-listen-port --dashboard-host --dashboard-port --labels --memory
            --metrics-export-port --min-worker-port --max-worker-port --node-ip-address --node-manager-port --num-cpus
            --object-manager-port --object-store-memory --port --ray-client-server-port --resources --temp-dir
        """,
        switches="--block --head --no-monitor --disable-usage-stats",
    ),
)

DJL = EngineSpec(
    name=EngineName.DJL,
    programs=("djl-serving",),
    serving=(("serve",), ()),
    images=("djl-serving", "djl-inference"),
    own_tags=frozenset({"djl-serving", "djl-inference"}),
    entrypoint=("djl-serving",),
    flags={},
    environment=(
        EnvironmentRow("TENSOR_PARALLEL_DEGREE", Setting.TENSOR, count),
        EnvironmentRow("OPTION_TENSOR_PARALLEL_DEGREE", Setting.TENSOR, count),
        EnvironmentRow("OPTION_PIPELINE_PARALLEL_DEGREE", Setting.PIPELINE, count),
        EnvironmentRow("HF_MODEL_ID", Setting.MODEL, name),
        EnvironmentRow("OPTION_MODEL_ID", Setting.MODEL, name),
        EnvironmentRow("OPTION_MAX_MODEL_LEN", Setting.CONTEXT, tokens),
        EnvironmentRow("OPTION_GPU_MEMORY_UTILIZATION", Setting.FRACTION, fraction),
    ),
    defaults_to_one=frozenset({Setting.PIPELINE}),
    axes=frozenset({Setting.TENSOR, Setting.PIPELINE}),
)
