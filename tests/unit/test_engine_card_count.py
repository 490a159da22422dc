"""How many cards a pod needs by its arguments alone. Each case of the open collection taught one rule of these."""

from __future__ import annotations

import pytest

from shared.core.engines import EngineName, cards_on_this_pod
from tests.unit.model_servers import VLLM_IMAGE, engine_of, in_shell, serving, with_args

SGLANG = "registry.example/sglang:v0.5.3"
TGI = "registry.example/text-generation-inference:2.2"
LMDEPLOY = "openmmlab/lmdeploy:v0.9.2"
TENSORRT = "nvcr.io/nvidia/tensorrt-llm/release:1.0.0"
NIM = "nvcr.io/nim/meta/llama-3.1-70b-instruct:1.13"
LWS = {"LWS_GROUP_SIZE": "2"}


def test_a_program_and_its_flags_in_one_string_are_read_with_a_shell_and_without() -> None:
    """args-shell-one-string: the whole command line may be buried in one string."""
    text = (
        "python3 -m vllm.entrypoints.openai.api_server --model=/models/chat-14b --tensor-parallel-size 2 "
        "--gpu-memory-utilization 0.95 --served-model-name chat --port 9000"
    )
    for command in (["sh", "-c", text], [text], text.split()):
        engine = engine_of(serving(command=command))
        assert (engine.name, engine.version, engine.model) == (EngineName.VLLM, (0, 11), "/models/chat-14b")
        assert (engine.tensor_parallel, engine.memory_fraction) == (2, 0.95)
        assert cards_on_this_pod(engine) == 2
        assert engine.unread == ()


def test_hyphens_and_underscores_say_the_same() -> None:
    """args-underscore-spelling: charts mix both in one argument list."""
    command = (
        "vllm serve org/model-70b --host 0.0.0.0 --port 8000 --tensor_parallel_size 2 --gpu_memory_utilization 0.5"
    )
    for spelled in (command, command.replace("_", "-")):
        engine = engine_of(serving(command=spelled.split()))
        assert (engine.tensor_parallel, engine.memory_fraction, cards_on_this_pod(engine)) == (2, 0.5, 2)
        assert engine.appendable


def test_a_short_flag_with_equals_counts_and_the_devices_in_front_do_not() -> None:
    """args-vllm-short-flag-and-cvd-prefix: hard-coded device numbers are those of another machine."""
    engine = in_shell("CUDA_VISIBLE_DEVICES=1,2,3 vllm serve /models/big -tp=2 --gpu-memory-utilization 0.95")
    assert (engine.tensor_parallel, cards_on_this_pod(engine)) == (2, 2)
    assert engine.devices == (("CUDA_VISIBLE_DEVICES", "1,2,3"),)


def test_references_to_variables_are_put_in_before_flags_are_read() -> None:
    """args-tgi-env-expansion: every value may come through `$(NAME)`."""
    args = ["--model-id", "$(MODEL_ID)", "--num-shard", "$(NUM_SHARD)", "--quantize", "$(QUANTIZE)"]
    env = {"MODEL_ID": "org/small", "NUM_SHARD": "2", "QUANTIZE": "bitsandbytes"}
    engine = engine_of(serving(TGI, args=args, env=env))
    assert (engine.name, engine.version, engine.model, engine.shards) == (EngineName.TGI, (2, 2), "org/small", 2)
    assert cards_on_this_pod(engine) == 2


def test_a_value_from_a_config_map_is_no_number() -> None:
    """args-tgi-env-expansion, a neighbour: the value is set, and nobody can see it here."""
    engine = engine_of(serving(TGI, args=["--num-shard", "$(NUM_SHARD)"], elsewhere=["NUM_SHARD"]))
    assert (engine.shards, cards_on_this_pod(engine)) == (None, None)
    assert "--num-shard $(NUM_SHARD)" in engine.unread


@pytest.mark.parametrize(
    ("args", "env", "cards"),
    [
        pytest.param((), {}, None, id="nothing-said-it-takes-what-it-sees"),
        pytest.param(("--num-shard", "4"), {}, 4, id="flag"),
        pytest.param((), {"NUM_SHARD": "4"}, 4, id="variable"),
        pytest.param(("--num-shard", "2"), {"NUM_SHARD": "4"}, 2, id="a-flag-beats-the-variable"),
        pytest.param(("--sharded", "false"), {}, 1, id="not-sharded"),
        pytest.param((), {"SHARDED": "false"}, 1, id="not-sharded-by-variable"),
        pytest.param(("--sharded", "true"), {}, None, id="sharded-over-what-it-sees"),
        pytest.param((), {"CUDA_VISIBLE_DEVICES": "0,1"}, 2, id="it-counts-the-devices-it-is-shown"),
        pytest.param(("--num-shard", "4"), {"CUDA_VISIBLE_DEVICES": "0,1"}, 4, id="a-flag-beats-the-devices"),
        pytest.param((), {"NUM_SHARD": "many"}, None, id="no-number"),
    ],
)
def test_tgi_shards(args: tuple[str, ...], env: dict[str, str], cards: int | None) -> None:
    """args-tgi-default-shards-from-gpu-count: no flag is not one shard."""
    engine = with_args("--model-id", "org/mixtral", *args, image=TGI, env=env)
    assert cards_on_this_pod(engine) == cards


@pytest.mark.parametrize(
    ("args", "cards"),
    [
        pytest.param("", 1, id="one-card-unless-told"),
        pytest.param("-tp 4", 4, id="tensor"),
        pytest.param("-tp 2 -pp 3", 6, id="pipeline"),
        pytest.param("-tp 2 -dp 4", 8, id="data"),
        pytest.param("-tp 2 -pp 2 -dp 2", 8, id="all-three"),
        pytest.param("-tp 4 -dcp 2", 4, id="decode-context-parallel-stays-inside-the-tensor-group"),
        pytest.param("-tp 2 -pcp 2", 4, id="prefill-context-parallel-has-cards-of-its-own"),
        pytest.param("-dp 16 -dpl 8 -tp 1 --enable-expert-parallel", 8, id="only-the-local-ranks-are-here"),
        pytest.param("-dp 16 --data_parallel_size_local=4 -tp 2", 8, id="local-ranks-with-tensor-groups"),
        pytest.param("-dp 16 -dpl 8 --headless --data-parallel-address h -dpr 8", 8, id="a-headless-part"),
        pytest.param("-dp 16 -dpl 0 --data-parallel-address h", None, id="a-front-end-without-ranks"),
        pytest.param("-dp 16 --data-parallel-rank 3 -tp 2", 2, id="one-rank-started-by-itself"),
        pytest.param("-dp 16 --data-parallel-external-lb -tp 2", 2, id="external-load-balancing"),
        pytest.param("-dp 16 --headless", None, id="a-headless-part-of-unknown-size"),
        pytest.param("-dp 4 --data-parallel-hybrid-lb", None, id="hybrid-load-balancing-of-unknown-size"),
        pytest.param("-tp 16 --nnodes 2 --node-rank 1", 8, id="two-nodes"),
        pytest.param("-tp 8 -pp 2 --nnodes 2 -r 0", 8, id="two-nodes-with-a-pipeline"),
        pytest.param("-tp 16 -dp 2 -dpl 1 --nnodes 4 --node-rank 0", 8, id="a-rank-over-two-of-four-nodes"),
        pytest.param("-tp 3 --nnodes 2", None, id="a-size-that-does-not-divide"),
        pytest.param("-tp 8 --node-rank 1", None, id="a-rank-in-a-group-of-unknown-size"),
        pytest.param("-tp 8 --nnodes $(N)", None, id="a-number-of-nodes-nobody-knows"),
        pytest.param("-tp 8 --distributed-executor-backend ray", 8, id="ray-inside-one-pod"),
        pytest.param("-tp $(TP)", None, id="a-size-nobody-knows"),
        pytest.param("-tp 2 -pp $(PP)", None, id="a-second-size-nobody-knows"),
        pytest.param("--config f.yaml", None, id="a-file-may-say-it"),
        pytest.param("--config f.yaml -tp 2", 2, id="a-size-on-the-command-line-beats-the-file"),
    ],
)
def test_vllm(args: str, cards: int | None) -> None:
    """dp-local-size-is-the-pod-count: data parallelism multiplies, and only local ranks count where they are told."""
    engine = with_args("org/moe", *args.split())
    assert cards_on_this_pod(engine) == cards


def test_local_ranks_in_a_shell_text() -> None:
    """dp-local-size-is-the-pod-count, as it was reported."""
    engine = engine_of(
        serving(
            command=["/bin/sh", "-c"],
            args=[
                (
                    "vllm serve org/moe --data-parallel-size 16 --data-parallel-size-local 8 --tensor-parallel-size 1 "
                    "--enable-expert-parallel"
                )
            ],
        )
    )
    assert (engine.data_parallel, engine.data_parallel_local, engine.expert_parallel) == (16, 8, 16)
    assert cards_on_this_pod(engine) == 8


@pytest.mark.parametrize(
    ("args", "cards"),
    [
        pytest.param("", 1, id="one-card-unless-told"),
        pytest.param("--tp 8", 8, id="tensor"),
        pytest.param("--tp-size 8 --pp-size 2", 16, id="pipeline"),
        pytest.param("--tp 2 --dp 4", 8, id="data-parallelism-multiplies"),
        pytest.param("--tp 8 --dp 2 --enable-dp-attention", 8, id="data-parallel-attention-splits"),
        pytest.param("--tp 8 --dp 8 --enable_dp_attention --ep 8", 8, id="as-many-ranks-as-cards"),
        pytest.param("--tp 16 --dp 16 --enable-dp-attention --nnodes 2 --node-rank 0", 8, id="over-two-nodes"),
        pytest.param("--tensor-parallel-size 16 --nnodes 2 --node-rank $(RANK)", 8, id="the-group-is-divided"),
        pytest.param("--tp 8 --pp 2 --nnodes 2 --node-rank 1", 8, id="a-pipeline-over-two-nodes"),
        pytest.param("--tp 8 --nnodes 1 --node-rank 0", 8, id="one-node"),
        pytest.param("--tp 8 --nnodes 3", None, id="a-size-that-does-not-divide"),
        pytest.param("--tp 8 --dist-init-addr 127.0.0.1:5000", 8, id="an-address-makes-no-group"),
        pytest.param("--tp 8 --moe-dp-size 2 --attn-cp-size 2", 8, id="axes-inside-the-tensor-group"),
    ],
)
def test_sglang(args: str, cards: int | None) -> None:
    """args-sglang-dp-attention and multinode-sglang-tp16-two-nodes: tp covers the group, dp may divide it."""
    command = ["python3", "-m", "sglang.launch_server", "--model-path", "/models/mla", *args.split()]
    assert cards_on_this_pod(engine_of(serving(SGLANG, command=command))) == cards


def test_a_script_over_several_lines_with_a_rank_nobody_knows() -> None:
    """multinode-sglang-tp16-two-nodes, as it was reported."""
    text = (
        "python3 -m sglang.launch_server \\\n  --model /models/moe \\\n  --dist-init-addr master:5000 \\\n"
        "  --tensor-parallel-size 16 \\\n  --nnodes 2 \\\n  --node-rank $POD_INDEX\n"
    )
    engine = in_shell(text, SGLANG)
    assert (engine.name, engine.tensor_parallel, engine.nnodes) == (EngineName.SGLANG, 16, 2)
    assert cards_on_this_pod(engine) == 8


LEADER = (
    "bash /opt/multi-node.sh leader --ray_cluster_size=$(LWS_GROUP_SIZE);\n"
    " python3 -m vllm.entrypoints.openai.api_server --port 8080 --model org/405b "
    "--tensor-parallel-size 8 --pipeline_parallel_size 2"
)


@pytest.mark.parametrize(
    ("text", "env", "nnodes", "cards"),
    [
        pytest.param(LEADER, {}, None, None, id="a-leader-of-a-group-of-unknown-size"),
        pytest.param(LEADER, LWS, 2, 8, id="a-leader-of-two"),
        pytest.param(LEADER.replace("$(LWS_GROUP_SIZE)", "4"), {}, 4, 4, id="the-script-is-told-the-size"),
        pytest.param("serve.sh leader --group-size 2 && exec vllm serve m -tp 8 -pp 2", {}, 2, 8, id="another-script"),
        pytest.param("ray start --head; vllm serve m -tp 16", {}, None, None, id="ray-head"),
        pytest.param("ray start --head; vllm serve m -tp 16", LWS, 2, 8, id="ray-head-of-two"),
        pytest.param("ray status; vllm serve m -tp 16", {}, 1, 16, id="ray-status-joins-nothing"),
        pytest.param("vllm serve m -tp 16", {"RAY_ADDRESS": "head:6379"}, None, None, id="a-ray-cluster-elsewhere"),
        pytest.param("vllm serve m -tp 16", LWS, 2, 8, id="the-group-is-in-the-environment"),
        pytest.param("vllm serve m -tp 8", {"LWS_GROUP_SIZE": "1"}, 1, 8, id="a-group-of-one"),
        pytest.param("ray start --head; vllm serve m -tp 8", {"LWS_GROUP_SIZE": "1"}, 1, 8, id="ray-in-a-group-of-one"),
        pytest.param("vllm serve m -dp 32 -dpl 8", LWS, 2, 8, id="local-ranks-beat-the-group"),
        pytest.param("vllm serve m -tp 8", {"LWS_GROUP_SIZE": "x"}, None, None, id="a-size-that-is-none"),
        pytest.param("helper --nnodes; vllm serve m -tp 8", {}, None, None, id="a-size-that-is-missing"),
    ],
)
def test_a_pod_of_a_group_counts_its_part(
    text: str, env: dict[str, str], nnodes: int | None, cards: int | None
) -> None:
    """multinode-leader-tp8-pp2: the pipeline's other stage lives in another pod."""
    engine = in_shell(text, env=env)
    assert (engine.nnodes, cards_on_this_pod(engine)) == (nnodes, cards)


def test_a_group_whose_size_comes_from_a_field_is_of_unknown_size() -> None:
    engine = engine_of(serving(args=["m", "-tp", "8"], elsewhere=["LWS_GROUP_SIZE"]))
    assert (engine.nnodes, cards_on_this_pod(engine)) == (None, None)


@pytest.mark.parametrize(
    ("image", "args", "cards"),
    [
        (LMDEPLOY, "lmdeploy serve api_server m", 1),
        (LMDEPLOY, "lmdeploy serve api_server m --tp 2", 2),
        (LMDEPLOY, "lmdeploy serve api_server m --tp 2 --dp 2", None),
        (LMDEPLOY, "lmdeploy serve api_server m --tp 16 --nnodes 2 --node-rank 0", 8),
        (TENSORRT, "trtllm-serve m", 1),
        (TENSORRT, "trtllm-serve m --tp_size 4", 4),
        (TENSORRT, "trtllm-serve m --tp_size=4 --pp_size 2 --ep_size 4", 8),
        (TENSORRT, "trtllm-serve m --extra_llm_api_options f.yaml", None),
        (TENSORRT, "trtllm-serve m --extra_llm_api_options f.yaml --tp_size 2", 2),
        ("llama.cpp:server-cuda", "-m m -ngl 99", None),
        ("llama.cpp:server-cuda", "-m m --tensor-split 24,16 --main-gpu 0", 2),
        ("llama.cpp:server-cuda", "-m m -ts 3,0,1", 2),
        ("llama.cpp:server-cuda", "-m m -dev CUDA0,CUDA1", 2),
        ("llama.cpp:server-cuda", "-m m --split-mode none", 1),
        ("llama.cpp:server-cuda", "-m m -sm layer", None),
        ("text-embeddings-inference:1.8", "--model-id m", 1),
        ("michaelf34/infinity:0.0.77", "v2 --model-id m", None),
        ("tritonserver:25.09-py3", "tritonserver --model-repository=/models", None),
        ("tritonserver:25.09-py3", "python3 /x/launch_triton_server.py --world_size 2 --model_repo /m", 2),
        ("rayproject/ray:2.50.0", "ray start --address head:6379 --num-gpus=2 --block", 2),
        ("rayproject/ray:2.50.0", "ray start --head --num-gpus 0", None),
        (VLLM_IMAGE, "ray start --address head:6379 --num-gpus=2 --block", 2),
        (VLLM_IMAGE, "/opt/multinode/serve.sh worker", None),
        ("ollama/ollama", "serve", None),
    ],
)
def test_other_engines(image: str, args: str, cards: int | None) -> None:
    assert cards_on_this_pod(with_args(*args.split(), image=image)) == cards


@pytest.mark.parametrize(
    ("env", "cards"),
    [
        ({}, None),
        ({"CUDA_VISIBLE_DEVICES": "0,1"}, 2),
        ({"HIP_VISIBLE_DEVICES": "0"}, 1),
        ({"CUDA_VISIBLE_DEVICES": ""}, None),
    ],
)
def test_ollama_spreads_over_the_devices_it_is_shown(env: dict[str, str], cards: int | None) -> None:
    assert cards_on_this_pod(with_args(image="ollama/ollama:0.12.3", env=env)) == cards


def test_devices_from_elsewhere_are_not_counted() -> None:
    engine = engine_of(serving("ollama/ollama", elsewhere=["CUDA_VISIBLE_DEVICES"]))
    assert cards_on_this_pod(engine) is None


@pytest.mark.parametrize(
    ("env", "cards"),
    [
        pytest.param({}, None, id="nim-chooses-a-profile-itself"),
        pytest.param({"NIM_TENSOR_PARALLEL_SIZE": "2"}, 2, id="size"),
        pytest.param({"NIM_TENSOR_PARALLEL_SIZE": "2", "NIM_PIPELINE_PARALLEL_SIZE": "2"}, 4, id="both-sizes"),
        pytest.param({"NIM_MODEL_PROFILE": "vllm-bf16-tp4"}, 4, id="profile"),
        pytest.param({"NIM_MODEL_PROFILE": "tensorrt_llm-h100-fp8-tp2-pp2-latency"}, 4, id="profile-with-a-pipeline"),
        pytest.param({"NIM_MODEL_PROFILE": "4f904d57"}, None, id="profile-by-digest"),
        pytest.param({"NIM_MODEL_PROFILE": "vllm-bf16-tp4", "NIM_TENSOR_PARALLEL_SIZE": "2"}, 2, id="size-and-profile"),
        pytest.param({"NIM_PASSTHROUGH_ARGS": "--tensor-parallel-size 2 --max-model-len 8k"}, 2, id="flags"),
        pytest.param({"NIM_PASSTHROUGH_ARGS": "-tp 2", "NIM_TENSOR_PARALLEL_SIZE": "4"}, 2, id="flags-beat-sizes"),
    ],
)
def test_nim(env: dict[str, str], cards: int | None) -> None:
    engine = engine_of(serving(NIM, env=env))
    assert (engine.name, engine.model) == (EngineName.NIM, "meta/llama-3.1-70b-instruct")
    assert cards_on_this_pod(engine) == cards


@pytest.mark.parametrize("args", [[], ["serve"]])
@pytest.mark.parametrize(
    ("env", "cards"),
    [
        ({}, None),
        ({"TENSOR_PARALLEL_DEGREE": "2"}, 2),
        ({"OPTION_TENSOR_PARALLEL_DEGREE": "4", "TENSOR_PARALLEL_DEGREE": "2"}, 4),
        ({"OPTION_TENSOR_PARALLEL_DEGREE": "2", "OPTION_PIPELINE_PARALLEL_DEGREE": "2"}, 4),
        ({"OPTION_TENSOR_PARALLEL_DEGREE": "max"}, None),
    ],
)
def test_djl_serving(args: list[str], env: dict[str, str], cards: int | None) -> None:
    image = "763104351884.dkr.ecr.us-east-1.amazonaws.com/djl-inference:0.33.0-lmi15.0.0-cu128"
    engine = engine_of(serving(image, args=args, env={"HF_MODEL_ID": "m", **env}))
    assert (engine.name, engine.version, engine.model) == (EngineName.DJL, (0, 33, 0), "m")
    assert cards_on_this_pod(engine) == cards


def test_flags_of_nim_from_elsewhere_are_hidden() -> None:
    engine = engine_of(serving(NIM, elsewhere=["NIM_PASSTHROUGH_ARGS"]))
    assert (engine.hidden, engine.unread) == (True, ("NIM_PASSTHROUGH_ARGS",))


@pytest.mark.parametrize(
    ("text", "cards"),
    [
        pytest.param(
            "set -e\nVLLM_LOGGING_LEVEL=INFO vllm serve /models/chat-32b-awq \\\n  --served-model-name chat \\\n"
            "  --tensor-parallel-size 2 \\\n  --gpu-memory-utilization 0.92 \\\n  --max-model-len 16384 \\\n"
            "  --quantization awq_marlin \\\n  --port 8000\n",
            2,
            id="01-vllm-deployment-shell-command",
        ),
        pytest.param(
            'exec vllm serve "${MODEL}" \\\n  --port 8200 \\\n  --tensor-parallel-size "${TP_SIZE}" \\\n'
            '  --kv-transfer-config \'{"kv_connector":"NixlConnector","kv_role":"kv_both"}\'\n',
            4,
            id="22-prefill-decode",
        ),
        pytest.param(
            "vllm serve org/7b --port 8000 & python3 eval.py --url http://127.0.0.1:8000", 1, id="21-queued-pod"
        ),
    ],
)
def test_shell_texts_of_real_manifests_leave_nothing_unread(text: str, cards: int) -> None:
    engine = in_shell(text, env={"MODEL": "org/llama-70b-fp8", "TP_SIZE": "4"})
    assert (cards_on_this_pod(engine), engine.unread, engine.hidden) == (cards, (), False)


def test_argument_lists_of_real_manifests_leave_nothing_unread() -> None:
    lora = engine_of(
        serving(
            "lmcache/vllm-openai:v0.3.9",
            command=["vllm", "serve", "mistralai/Mistral-7B-Instruct-v0.3", "--host", "0.0.0.0", "--port", "8000"],
            args=[
                *[
                    "--enable-lora",
                    "--max_loras",
                    "4",
                    "--no-enable-prefix-caching",
                    "--gpu_memory_utilization",
                    "0.45",
                ],
                "--kv-transfer-config",
                '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}',
            ],
        )
    )
    assert (lora.memory_fraction, lora.unread, cards_on_this_pod(lora)) == (0.45, (), 1)
    words = "-m /models/coder.gguf -ngl 99 --tensor-split 24,16 --main-gpu 0 -c 32768 --parallel 2 --port 8080"
    llama = with_args(
        *words.split(),
        image="ghcr.io/ggml-org/llama.cpp:server-cuda",
    )
    assert (llama.model, llama.context_length, llama.unread) == ("/models/coder.gguf", 32768, ())
