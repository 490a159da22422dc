"""Ways to start an engine: entrypoints, shells, wrappers and modules."""

from __future__ import annotations

import pytest

from shared.core.containers import Container
from shared.core.engines import EngineName, read_engine
from tests.unit.model_servers import VLLM_IMAGE, engine_of, in_shell, serving

OTHER = "registry.example/corp/server:1"


@pytest.mark.parametrize(
    "argv",
    [
        "vllm serve m -tp 2",
        "/usr/local/bin/vllm serve m -tp 2",
        "python3 -m vllm.entrypoints.openai.api_server --model m -tp 2",
        "python -u -X dev -m vllm.entrypoints.api_server --model m -tp 2",
        "/opt/venv/bin/python3.12 -m vllm.entrypoints.openai.api_server --model m -tp 2",
        "python3 /app/vllm/entrypoints/openai/api_server.py --model m -tp 2",
        "python3 /usr/local/bin/vllm serve m -tp 2",
        "python3 api_server.py --model m -tp 2",
        "vllm-openai --model m -tp 2",
        "exec vllm serve m -tp 2",
        "tini -g -- vllm serve m -tp 2",
        "tini -s -p SIGTERM vllm serve m -tp 2",
        "env A=b CUDA_VISIBLE_DEVICES=0,1 vllm serve m -tp 2",
        "env -u A vllm serve m -tp 2",
        "nice -n 5 vllm serve m -tp 2",
        "numactl --cpunodebind=0 -m 0 vllm serve m -tp 2",
        "taskset -c 0-7 vllm serve m -tp 2",
        "timeout -k 5 60 vllm serve m -tp 2",
        "gosu app vllm serve m -tp 2",
        "uv run --with vllm vllm serve m -tp 2",
        "conda run -n vllm --no-capture-output vllm serve m -tp 2",
        "mpirun -n 2 --mca btl tcp -x A vllm serve m -tp 2",
        "nohup stdbuf -oL vllm serve m -tp 2",
        "nsys profile -o out vllm serve m -tp 2",
        "/opt/nvidia/nvidia_entrypoint.sh vllm serve m -tp 2",
        "/entrypoint python3 -m vllm.entrypoints.openai.api_server --model m -tp 2",
    ],
)
def test_a_program_is_found_behind_what_starts_it(argv: str) -> None:
    words = argv.split()
    for container in (
        serving(OTHER, command=words),
        serving(OTHER, command=words[:1], args=words[1:]),
        serving(VLLM_IMAGE, command=words),
    ):
        engine = engine_of(container)
        assert (engine.name, engine.model, engine.tensor_parallel) == (EngineName.VLLM, "m", 2)
        assert engine.appendable
    assert not in_shell(argv, OTHER).appendable
    assert in_shell(argv, OTHER).tensor_parallel == 2


@pytest.mark.parametrize(
    "command",
    [
        pytest.param(["sh", "-c", "vllm serve m -tp 2"], id="sh"),
        pytest.param(["/bin/bash", "-lc", "vllm serve m -tp 2"], id="login-shell"),
        pytest.param(["bash", "-euxo", "pipefail", "-c", "vllm serve m -tp 2"], id="options"),
        pytest.param(["bash", "+x", "--norc", "-c", "--", "vllm serve m -tp 2"], id="more-options"),
        pytest.param(["busybox", "sh", "-c", "vllm serve m -tp 2"], id="busybox"),
        pytest.param(["/bin/sh", "-c", 'exec vllm serve "$@"', "sh", "m", "-tp", "2"], id="words-behind-the-text"),
        pytest.param(["sh", "-c", "bash -c 'vllm serve m -tp 2'"], id="shell-in-shell"),
        pytest.param(["sh", "-c", 'eval "vllm serve m" -tp 2'], id="eval"),
        pytest.param(["tini", "--", "sh", "-c", "vllm serve m -tp 2"], id="wrapper-and-shell"),
        pytest.param(["vllm serve m -tp 2"], id="one-text-without-a-shell"),
        pytest.param(["sh", "-c", "vllm serve m \\\n  -tp 2 \\\n  --port 80 2>&1 | tee log"], id="lines-and-a-pipe"),
        pytest.param(["sh", "-c", "set -e\nexport TP=2\nvllm serve m -tp $TP"], id="exported"),
        pytest.param(["sh", "-c", "vllm serve m -tp ${TP:-2}"], id="default"),
        pytest.param(["sh", "-c", "ARGS='-tp 2'; vllm serve m $ARGS"], id="several-flags-in-a-variable"),
        pytest.param(["env", "TP=2", "sh", "-c", "vllm serve m -tp $TP"], id="set-by-a-wrapper"),
        pytest.param(["sh", "-c", "vllm serve m -tp 2 & python3 eval.py"], id="in-the-background"),
        pytest.param(["sh", "-c", "ollama serve & vllm serve m -tp 2"], id="the-last-engine-counts"),
        pytest.param(["sh", "-c", "vllm bench serve; vllm serve m -tp 2; vllm chat"], id="clients-do-not-count"),
    ],
)
def test_a_program_is_found_in_a_shell_text(command: list[str]) -> None:
    for container in (
        serving(OTHER, command=command),
        serving(OTHER, command=command[:-1], args=command[-1:]) if len(command) > 1 else serving(OTHER, args=command),
    ):
        engine = engine_of(container)
        assert (engine.name, engine.model, engine.tensor_parallel) == (EngineName.VLLM, "m", 2)
        assert not engine.appendable


@pytest.mark.parametrize(
    ("image", "args", "engine"),
    [
        (VLLM_IMAGE, ["--model", "m"], EngineName.VLLM),
        (VLLM_IMAGE, ["m"], EngineName.VLLM),
        (VLLM_IMAGE, ["serve", "m"], EngineName.VLLM),
        (VLLM_IMAGE, ["vllm", "serve", "m"], EngineName.VLLM),
        (VLLM_IMAGE, ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "m"], EngineName.VLLM),
        ("nvcr.io/nvidia/vllm:25.10-py3", ["vllm", "serve", "m"], EngineName.VLLM),
        ("lmsysorg/sglang:v0.5.3", ["--model-path", "m"], EngineName.SGLANG),
        ("lmsysorg/sglang:v0.5.3", ["serve", "--model-path", "m"], EngineName.SGLANG),
        ("lmsysorg/sglang:v0.5.3", ["python3", "-m", "sglang.launch_server", "--model-path", "m"], EngineName.SGLANG),
        ("text-generation-inference:3.3", ["--model-id", "m"], EngineName.TGI),
        ("text-embeddings-inference:1.8", ["--model-id", "m"], EngineName.TEI),
        ("llama.cpp:server-cuda", ["-m", "m"], EngineName.LLAMA_CPP),
        ("llama.cpp:full-cuda", ["--server", "-m", "m"], EngineName.LLAMA_CPP),
        ("openmmlab/lmdeploy:v0.9", ["lmdeploy", "serve", "api_server", "m"], EngineName.LMDEPLOY),
        ("openmmlab/lmdeploy:v0.9", ["serve", "api_server", "m"], EngineName.LMDEPLOY),
        ("tensorrt-llm/release:1.0", ["trtllm-serve", "m"], EngineName.TENSORRT_LLM),
        ("tensorrt-llm/release:1.0", ["trtllm-serve", "serve", "m"], EngineName.TENSORRT_LLM),
        ("michaelf34/infinity:0.0.77", ["v2", "--model-id", "m"], EngineName.INFINITY),
        ("michaelf34/infinity:0.0.77", ["--model-id", "m"], EngineName.INFINITY),
    ],
)
def test_images_run_their_engine_with_args_alone(image: str, args: list[str], engine: EngineName) -> None:
    found = engine_of(serving(image, args=args))
    assert (found.name, found.model, found.hidden, found.appendable, found.unread) == (engine, "m", False, True, ())


@pytest.mark.parametrize(
    ("command", "engine"),
    [
        ("python3 -m sglang.launch_server --model m", EngineName.SGLANG),
        ("python3 -m sglang_router.launch_server --model m", EngineName.SGLANG),
        ("text-generation-launcher --model-id m", EngineName.TGI),
        ("text-embeddings-router --model-id m", EngineName.TEI),
        ("/app/llama-server -m m", EngineName.LLAMA_CPP),
        ("python3 -m llama_cpp.server --model m", EngineName.LLAMA_CPP),
        ("lmdeploy serve api_server m", EngineName.LMDEPLOY),
        ("python3 -m lmdeploy.serve.openai.api_server m", EngineName.LMDEPLOY),
        ("trtllm-llmapi-launch trtllm-serve m", EngineName.TENSORRT_LLM),
        ("infinity_emb v2 --model-id m", EngineName.INFINITY),
        ("python3 -m infinity_emb v2 --model-id m", EngineName.INFINITY),
        ("python3 -m dynamo.vllm --model m", EngineName.VLLM),
        ("python3 -m huggingfaceserver --model_id m", EngineName.VLLM),
        ("python3 -m huggingfaceserver --model_dir=m", EngineName.VLLM),
        ("python3 /workspace/vllm/inference_api.py --model m", EngineName.VLLM),
        ("python3 -m dynamo.sglang --model-path m", EngineName.SGLANG),
        ("python3 -m dynamo.trtllm --model-path m", EngineName.TENSORRT_LLM),
    ],
)
def test_the_program_names_the_engine_in_any_image(command: str, engine: EngineName) -> None:
    found = engine_of(serving(OTHER, command=command.split()))
    assert (found.name, found.model, found.unread) == (engine, "m", ())
    assert engine_of(serving("ollama/ollama", command=command.split())).name is engine


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m dynamo.vllm --model m -tp 2 --gpu-memory-utilization 0.3 --is-decode-worker",
        "python3 -m dynamo.sglang --model-path m --tp 2 --mem-fraction-static 0.3 --endpoint dyn://a.b.c",
        "python3 -m dynamo.trtllm --model-path m --tensor-parallel-size 2 --free-gpu-memory-fraction 0.3",
        "python3 -m dynamo.frontend & exec python3 -m dynamo.vllm --model m -tp 2 --gpu-memory-utilization 0.3",
    ],
)
def test_workers_of_dynamo_hand_their_flags_on(command: str) -> None:
    engine = in_shell(command, "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.5.0")
    assert (engine.model, engine.tensor_parallel, engine.memory_fraction) == ("m", 2, 0.3)


@pytest.mark.parametrize(
    "command",
    [
        "python3 -m dynamo.vllm --engine-config-json /config/engine.json",
        "python3 -m dynamo.sglang --disagg-config /config/disagg.yaml --disagg-config-key prefill",
        "python3 -m dynamo.trtllm --extra-engine-args /config/engine.yaml",
    ],
)
def test_a_worker_of_dynamo_may_have_further_flags_in_a_file(command: str) -> None:
    engine = engine_of(serving(OTHER, command=command.split()))
    assert (engine.hidden, engine.tensor_parallel) == (True, None)


KSERVE_IMAGE = "kserve/huggingfaceserver:v0.17.0-gpu"
MULTINODE = "ray start --head\npython -m huggingfaceserver --model_dir=m --tensor-parallel-size=2 $0 $@"


@pytest.mark.parametrize(
    ("container", "appendable", "nnodes"),
    [
        pytest.param(
            serving(KSERVE_IMAGE, args=["--model_name=llama", "--model_id=m", "--tensor-parallel-size=2"]),
            True,
            1,
            id="args",
        ),
        pytest.param(serving(KSERVE_IMAGE, command=["bash", "-c", MULTINODE]), False, None, id="several-nodes"),
        pytest.param(
            serving(OTHER, command=["python", "-m", "huggingfaceserver"], args=["--model_id", "m", "-tp", "2"]),
            True,
            1,
            id="another-image",
        ),
    ],
)
def test_kserves_server_hands_its_flags_on(container: Container, appendable: bool, nnodes: int | None) -> None:
    engine = engine_of(container)
    assert (engine.name, engine.model, engine.tensor_parallel) == (EngineName.VLLM, "m", 2)
    assert (engine.appendable, engine.nnodes) == (appendable, nnodes)


def test_kaitos_server_may_have_further_flags_in_a_file() -> None:
    text = (
        "python3 /workspace/vllm/inference_api.py --tensor-parallel-size=2 --gpu-memory-utilization=0.84 "
        "--kaito-config-file=/mnt/config/inference_config.yaml"
    )
    engine = in_shell(text, "mcr.microsoft.com/aks/kaito/kaito-base:0.0.8")
    assert (engine.name, engine.tensor_parallel, engine.memory_fraction) == (EngineName.VLLM, 2, 0.84)
    assert engine.hidden


@pytest.mark.parametrize(
    "command",
    [
        "ollama serve",
        "tritonserver --model-repository=/models",
        "python3 /scripts/launch_triton_server.py --model_repo /models",
        "ray start --head",
        "serve run app:deployment",
    ],
)
def test_servers_without_a_model_in_their_arguments(command: str) -> None:
    assert engine_of(serving(OTHER, command=command.split())).model is None


@pytest.mark.parametrize(
    "container",
    [
        pytest.param(serving("ollama/ollama", command=["ollama", "pull", "qwen3"]), id="ollama-pull"),
        pytest.param(serving("ollama/ollama", args=["pull", "qwen3"]), id="ollama-pull-by-entrypoint"),
        pytest.param(serving("ollama/ollama", command=["sh", "-c", "ollama pull a; ollama list"]), id="two-pulls"),
        pytest.param(serving(command=["vllm", "bench", "serve"]), id="vllm-bench"),
        pytest.param(serving(OTHER, command=["vllm"]), id="vllm-alone"),
        pytest.param(serving(OTHER, command=["vllm", "frobnicate"]), id="unknown-subcommand"),
        pytest.param(serving(OTHER, command=["text-generation-router"]), id="router"),
        pytest.param(serving(OTHER, command=["python3", "/workspace/tfs/inference_api.py"]), id="kaito-transformers"),
        pytest.param(serving(OTHER, command=["python", "./huggingfaceserver/health_check.py"]), id="kserve-probe"),
        pytest.param(serving(VLLM_IMAGE, command=["python3", "-m", "dynamo.frontend"]), id="frontend"),
        pytest.param(serving(VLLM_IMAGE, command=["python3", "-m", "sglang_router.launch_router"]), id="other-router"),
        pytest.param(serving(OTHER, command=["python3", "train.py", "--tensor-parallel-size", "4"]), id="python"),
        pytest.param(serving(OTHER, command=["python3", "-c", "import vllm"]), id="python-text"),
        pytest.param(serving(OTHER, command=["python3", "-u"]), id="python-alone"),
        pytest.param(serving(OTHER, command=["torchrun", "--nproc-per-node=4", "train.py"]), id="torchrun"),
        pytest.param(serving(OTHER, args=["serve", "--model", "small"]), id="serve-of-something-else"),
        pytest.param(serving(OTHER, args=["--model", "m"]), id="flags-of-something-else"),
        pytest.param(serving(OTHER, command=["sh", "-c", "echo vllm serve m"]), id="a-word-of-another-command"),
        pytest.param(serving(OTHER, command=["sh", "-c", "# vllm serve m\nsleep 1"]), id="comment"),
        pytest.param(serving(OTHER, command=["sh", "vllm"]), id="shell-with-a-file"),
        pytest.param(serving(OTHER, command=["sh", "-c"]), id="shell-without-text"),
        pytest.param(serving(OTHER, command=["busybox"]), id="busybox-alone"),
        pytest.param(serving(OTHER, command=["exec"]), id="wrapper-alone"),
        pytest.param(serving(OTHER, command=["env", "A=vllm"]), id="env-alone"),
        pytest.param(serving(OTHER, command=["uv", "pip", "install", "vllm"]), id="uv-pip"),
        pytest.param(serving(OTHER), id="nothing"),
        pytest.param(serving(""), id="no-image"),
    ],
)
def test_what_runs_no_server_is_no_engine(container: Container) -> None:
    assert read_engine(container) is None


@pytest.mark.parametrize(
    ("image", "fields", "hidden"),
    [
        pytest.param("ollama/ollama:0.12.3", {}, False, id="entrypoint-of-the-image"),
        pytest.param("rayproject/ray:2.33.0", {}, True, id="an-image-that-starts-nothing-by-itself"),
        pytest.param(VLLM_IMAGE, {"command": ["/start.sh", "worker"]}, True, id="a-script-in-the-image"),
        pytest.param(VLLM_IMAGE, {"args": ["sh", "/start.sh"]}, True, id="a-script-behind-the-entrypoint"),
        pytest.param(VLLM_IMAGE, {"command": ["sh", "-c", "a 'b"]}, True, id="a-broken-shell-text"),
    ],
)
def test_the_image_alone_tells_the_engine(image: str, fields: dict[str, list[str]], hidden: bool) -> None:
    engine = engine_of(serving(image, **fields))  # type: ignore[arg-type]
    assert engine.hidden is hidden
    assert engine.appendable is not hidden
    assert bool(engine.unread) is bool(fields)
    assert engine.tensor_parallel is None


@pytest.mark.parametrize(
    "container",
    [
        serving(command=["/start.py", "--token=s3cret"]),
        serving(command=["sh", "/start.sh", "s3cret"]),
        serving(command=["sh", "-c", "vllm serve m --api-key 's3cret"]),
        serving(args=["m", "--api-key", "s3cret", "--unknown-token", "s3cret", "--other=s3cret"]),
    ],
)
def test_secrets_are_not_shown(container: Container) -> None:
    engine = engine_of(container)
    assert engine.unread or not engine.hidden
    assert "s3cret" not in repr(engine)


def test_programs_that_start_each_other_without_end_are_not_followed() -> None:
    engine = engine_of(serving(command=["exec"] * 50 + ["vllm", "serve", "m"]))
    assert (engine.model, engine.hidden) == (None, True)
    assert "exec" in engine.unread


def test_one_text_with_a_reference_that_nobody_set() -> None:
    engine = engine_of(serving(command=["vllm serve $(MODEL) -tp 2"]))
    assert (engine.model, engine.tensor_parallel, engine.unread) == (None, 2, ("model $(MODEL)",))


def test_flags_may_be_lost_in_a_quote_that_is_not_closed() -> None:
    engine = in_shell("vllm serve m --seed '1 -tp 2")
    assert (engine.model, engine.tensor_parallel, engine.hidden) == ("m", None, True)


def test_shells_in_shells_are_followed_up_to_a_number() -> None:
    engine = in_shell("sh -c true;" * 100 + "vllm serve m -tp 2")
    assert (engine.tensor_parallel, engine.unread) == (2, ("more shell texts than are read of one container",))


def test_shell_texts_that_multiply_each_other_are_read_up_to_a_length() -> None:
    variables = {"Y": 'sh -c "$X"', "X": "vllm serve m\n" * 1000}
    engine = engine_of(serving(VLLM_IMAGE, command=["sh", "-c", 'sh -c "$Y"\n' * 10], env=variables))
    assert "more shell texts than are read of one container" in engine.unread


def test_variables_of_the_container_reach_shell_and_argument_list() -> None:
    env = {"MODEL": "org/70b", "TP": "4"}
    for words in (["$(MODEL)", "-tp=$(TP)"], ["sh", "-c", 'vllm serve "${MODEL}" -tp $TP']):
        engine = engine_of(serving(args=words, env=env))
        assert (engine.model, engine.tensor_parallel) == ("org/70b", 4)


def test_an_escaped_reference_is_left_to_the_shell() -> None:
    engine = in_shell("vllm serve m -tp $$(nproc)")
    assert engine.tensor_parallel is None
    assert engine.unread == ("-tp $(nproc)",)


@pytest.mark.parametrize(
    ("text", "model", "tensor"),
    [
        pytest.param("vllm serve $MODEL", None, 1, id="named-like-a-model"),
        pytest.param('vllm serve "$1"', None, 1, id="quoted"),
        pytest.param("vllm serve $ARGS", None, None, id="it-may-hold-flags"),
        pytest.param("vllm serve m $ARGS", "m", None, id="flags-behind-the-model"),
        pytest.param("vllm serve m -tp 2 $ARGS", "m", 2, id="a-size-that-is-given-stands"),
    ],
)
def test_shell_variables_that_nobody_set(text: str, model: str | None, tensor: int | None) -> None:
    engine = in_shell(text)
    assert (engine.model, engine.tensor_parallel) == (model, tensor)
    assert engine.unread


@pytest.mark.parametrize(
    ("text", "devices"),
    [
        ("CUDA_VISIBLE_DEVICES=1,2,3 vllm serve m", (("CUDA_VISIBLE_DEVICES", "1,2,3"),)),
        ("export CUDA_VISIBLE_DEVICES=0; vllm serve m", (("CUDA_VISIBLE_DEVICES", "0"),)),
        ("env HIP_VISIBLE_DEVICES=0 vllm serve m", (("HIP_VISIBLE_DEVICES", "0"),)),
        ("CUDA_VISIBLE_DEVICES=$RANK vllm serve m", (("CUDA_VISIBLE_DEVICES", "$RANK"),)),
        ("CUDA_VISIBLE_DEVICES=0 true; vllm serve m", ()),
        ("CUDA_VISIBLE_DEVICES=0; vllm serve m", ()),
        ("vllm serve m", ()),
    ],
)
def test_devices_that_the_command_line_sets(text: str, devices: tuple[tuple[str, str], ...]) -> None:
    assert in_shell(text).devices == devices


def test_devices_of_an_argument_list_come_from_env_in_front_of_it() -> None:
    engine = engine_of(serving(command=["env", "CUDA_VISIBLE_DEVICES=1", "vllm", "serve", "m"]))
    assert engine.devices == (("CUDA_VISIBLE_DEVICES", "1"),)
    assert engine.appendable
