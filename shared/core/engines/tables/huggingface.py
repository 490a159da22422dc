"""Text Generation Inference and Text Embeddings Inference: every flag has a variable of the same name.

https://huggingface.co/docs/text-generation-inference/reference/launcher
https://huggingface.co/docs/text-embeddings-inference/cli_arguments
"""

from __future__ import annotations

from shared.core.engines.engine import EngineName
from shared.core.engines.spec import EngineSpec, EnvironmentRow, Setting, flag_table
from shared.core.engines.values import count, fraction, name, negated, tokens

_TGI_ROWS = [
    ("--model-id", Setting.MODEL, name),
    ("--num-shard", Setting.SHARDS, count),
    ("--sharded", Setting.ONE_CARD, negated),
    ("--max-total-tokens", Setting.CONTEXT, tokens),
    ("--cuda-memory-fraction", Setting.FRACTION, fraction),
]

TGI = EngineSpec(
    name=EngineName.TGI,
    programs=("text-generation-launcher",),
    client_programs=frozenset({"text-generation-router", "text-generation-benchmark"}),
    images=("text-generation-inference", "tgi"),
    own_tags=frozenset({"text-generation-inference"}),
    entrypoint=("text-generation-launcher",),
    flags=flag_table(
        _TGI_ROWS,
        values="""
            --api-key --cors-allow-origin --cuda-graphs --dtype --graceful-termination-timeout --hostname
            --huggingface-hub-cache --kv-cache-dtype --lora-adapters --master-addr --master-port
            --max-batch-prefill-tokens --max-batch-size --max-batch-total-tokens --max-best-of
            --max-client-batch-size --max-concurrent-requests --max-input-length --max-input-tokens
            --max-stop-sequences --max-top-n-tokens --max-waiting-tokens --ngrok-authtoken --ngrok-edge
            --otlp-endpoint --otlp-service-name --payload-limit --port -p --prometheus-port --quantize --revision
            --rope-factor --rope-scaling --shard-uds-path --speculate --tokenizer-config-path --usage-stats
            --validation-workers --waiting-served-ratio --watermark-delta --watermark-gamma --weights-cache-override
        """,
        switches="""
            --disable-custom-kernels --disable-grammar-support --enable-prefill-logprobs --env -e --json-output
            --ngrok --trust-remote-code
        """,
    ),
    environment=tuple(
        EnvironmentRow(spelling[2:].replace("-", "_").upper(), setting, read) for spelling, setting, read in _TGI_ROWS
    ),
    spreads_over_visible=True,
)

TEI = EngineSpec(
    name=EngineName.TEI,
    programs=("text-embeddings-router",),
    images=("text-embeddings-inference", "tei"),
    own_tags=frozenset({"text-embeddings-inference"}),
    entrypoint=("text-embeddings-router",),
    flags=flag_table(
        [("--model-id", Setting.MODEL, name)],
        values="""
            --api-key --cors-allow-origin --default-prompt --default-prompt-name --dense-path --dtype --hf-api-token
            --hf-token --hostname --huggingface-hub-cache --max-batch-requests --max-batch-tokens
            --max-client-batch-size --max-concurrent-requests --otlp-endpoint --otlp-service-name --payload-limit
            --pooling --port -p --prometheus-port --revision --served-model-name --tokenization-workers --uds-path
        """,
        switches="--auto-truncate --disable-spans --json-output",
    ),
    environment=(EnvironmentRow("MODEL_ID", Setting.MODEL, name),),
    defaults_to_one=frozenset({Setting.SHARDS}),
)
