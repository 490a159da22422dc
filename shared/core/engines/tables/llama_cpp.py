"""llama.cpp's server and Ollama.

https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md, https://docs.ollama.com/faq
"""

from __future__ import annotations

from shared.core.engines.engine import EngineName
from shared.core.engines.spec import EngineSpec, EnvironmentRow, Setting, flag_table
from shared.core.engines.values import count, devices_length, is_the_word_none, name, split_length, tokens

LLAMA_CPP = EngineSpec(
    name=EngineName.LLAMA_CPP,
    programs=("llama-server", "llama-cli", "llama-run", "tools.sh"),
    modules=("llama_cpp.server",),
    client_programs=frozenset({"llama-quantize", "llama-gguf-split", "llama-tokenize"}),
    images=("llama.cpp", "llama-server", "llamacpp", "llama-cpp-python"),
    entrypoint=("llama-server",),
    flags=flag_table(
        [
            ("--model -m --hf-repo -hf -hfr --model-url -mu --docker-repo -dr", Setting.MODEL, name),
            ("--ctx-size -c --n-ctx", Setting.CONTEXT, tokens),
            ("--tensor-split -ts", Setting.SHARDS, split_length),
            ("--device -dev", Setting.SHARDS, devices_length),
            ("--split-mode -sm", Setting.ONE_CARD, is_the_word_none),
        ],
        values="""
            --alias -a --api-key --api-key-file --batch-size -b --cache-reuse --cache-type-k -ctk --cache-type-v -ctv
            --cache-ram -cram --chat-template --chat-template-file --cpu-mask -C --ctx-size-draft -cd --defrag-thold
            --draft-max --draft-min --fit --fit-ctx --fit-target --flash-attn -fa --gpu-layers --n-gpu-layers -ngl
            --gpu-layers-draft -ngld --hf-file -hff --hf-repo-draft --hf-token -hft --host --grammar --keep --lora
            --lora-scaled --log-file --main-gpu -mg --mmproj --mmproj-url --model-draft -md --models-dir --models-max
            --n-cpu-moe -ncmoe --n-predict -n --numa --override-kv --override-tensor -ot --parallel -np --path
            --pooling --port --poll --prio --reasoning-budget --reasoning-format --repeat-penalty --rope-freq-base
            --rope-scaling --rope-scale --seed -s --slot-save-path --temp --threads -t --threads-batch -tb
            --threads-http --timeout -to --top-k --top-p --min-p --ubatch-size -ub --yarn-orig-ctx
        """,
        switches="""
            --cont-batching -cb --cpu-moe -cmoe --embedding --embeddings --jinja --kv-unified -kvu --log-disable
            --metrics --mlock --no-context-shift --no-cont-batching --no-kv-offload -nkvo --no-mmap
            --no-mmproj-offload --no-webui --no-warmup --props --rerank --reranking --server --slots --special
            --swa-full --verbose -v --verbose-prompt
        """,
    ),
    environment=(
        EnvironmentRow("LLAMA_ARG_MODEL_URL", Setting.MODEL, name),
        EnvironmentRow("LLAMA_ARG_HF_REPO", Setting.MODEL, name),
        EnvironmentRow("LLAMA_ARG_MODEL", Setting.MODEL, name),
        EnvironmentRow("LLAMA_ARG_CTX_SIZE", Setting.CONTEXT, tokens),
        EnvironmentRow("LLAMA_ARG_TENSOR_SPLIT", Setting.SHARDS, split_length),
        EnvironmentRow("LLAMA_ARG_DEVICE", Setting.SHARDS, devices_length),
        EnvironmentRow("LLAMA_ARG_SPLIT_MODE", Setting.ONE_CARD, is_the_word_none),
    ),
    spreads_over_visible=True,
)

OLLAMA = EngineSpec(
    name=EngineName.OLLAMA,
    programs=("ollama",),
    serving=(("serve",), ("start",)),
    clients=frozenset({"pull", "run", "list", "ls", "create", "show", "cp", "rm", "push", "ps", "stop"}),
    images=("ollama",),
    own_tags=frozenset({"ollama"}),
    entrypoint=("ollama", "serve"),
    flags={},
    environment=(EnvironmentRow("OLLAMA_CONTEXT_LENGTH", Setting.CONTEXT, count),),
    spreads_over_visible=True,
)
