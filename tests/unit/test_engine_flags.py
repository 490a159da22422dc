"""Arguments of engines: every spelling their own parsers take, and what is listed as unread."""

from __future__ import annotations

import pytest

from tests.unit.model_servers import engine_of, serving, with_args


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(["--tensor-parallel-size", "2"], id="two-words"),
        pytest.param(["--tensor-parallel-size=2"], id="equals"),
        pytest.param(["--tensor_parallel_size", "2"], id="underscores"),
        pytest.param(["--tensor_parallel_size=2"], id="underscores-and-equals"),
        pytest.param(["-tp", "2"], id="short"),
        pytest.param(["-tp=2"], id="short-and-equals"),
        pytest.param(["--tensor-parallel", "2"], id="abbreviated"),
        pytest.param(["--tensor_p=2"], id="abbreviated-with-underscore"),
        pytest.param(["-tp", "4", "--tensor-parallel-size=2"], id="the-last-one-counts"),
        pytest.param(["--enforce-eager", "-tp", "2"], id="behind-a-switch"),
        pytest.param(["--port", "8000", "-tp", "2"], id="behind-another-flag"),
        pytest.param(["--made-up", "-tp", "2"], id="behind-an-unknown-flag"),
        pytest.param(["--made-up", "7", "-tp", "2"], id="behind-an-unknown-flag-with-a-value"),
        pytest.param(["-tp", "2", "--made-up=7"], id="before-an-unknown-flag"),
        pytest.param(["-O3", "-tp", "2"], id="behind-a-flag-of-one-letter-with-its-value"),
        pytest.param(["--compilation-config.level", "3", "-tp", "2"], id="behind-a-value-inside-json"),
        pytest.param(["--served-model-name", "a", "b", "-tp", "2"], id="behind-a-list"),
        pytest.param(["--enable-chunked-prefill", "False", "-tp", "2"], id="behind-a-switch-with-a-word"),
        pytest.param(["--no-enable-prefix-caching", "-tp", "2"], id="behind-a-negated-switch"),
    ],
)
def test_every_spelling_of_a_flag_says_the_same(args: list[str]) -> None:
    engine = with_args("org/8b", *args)
    assert (engine.model, engine.tensor_parallel) == ("org/8b", 2)


@pytest.mark.parametrize(
    ("args", "model"),
    [
        pytest.param(["org/8b"], "org/8b", id="first-word"),
        pytest.param(["serve", "org/8b"], "org/8b", id="behind-the-subcommand"),
        pytest.param(["--model", "org/8b"], "org/8b", id="flag"),
        pytest.param(["--model=org/8b"], "org/8b", id="flag-with-equals"),
        pytest.param(["--enable-lora", "org/8b"], "org/8b", id="behind-a-switch"),
        pytest.param(["-q", "awq", "org/8b"], "org/8b", id="behind-a-flag-with-its-value"),
        pytest.param(["--max-num-seqs", "-1", "org/8b"], "org/8b", id="behind-a-negative-number"),
        pytest.param(["org/8b", "--model", "other"], "org/8b", id="the-word-beats-the-flag"),
        pytest.param(["--made-up", "org/8b"], None, id="behind-an-unknown-flag-it-may-be-a-value"),
        pytest.param(["--served-model-name", "org/8b"], None, id="a-list-takes-all-words"),
        pytest.param([], None, id="nothing"),
        pytest.param(["--model", " "], None, id="a-blank-is-no-model"),
    ],
)
def test_the_model_of_vllm(args: list[str], model: str | None) -> None:
    assert with_args(*args).model == model


@pytest.mark.parametrize(
    ("args", "unread", "hidden"),
    [
        pytest.param(["m", "--made-up", "s3cret"], ["--made-up"], False, id="an-unknown-flag-without-its-value"),
        pytest.param(["m", "--made-up=s3cret"], ["--made-up"], False, id="an-unknown-flag-without-what-it-equals"),
        pytest.param(["m", "-zz"], ["-zz"], False, id="an-unknown-short-flag"),
        pytest.param(["m", "other"], ["other"], False, id="a-second-word"),
        pytest.param(["m", "--tensor-parallel-size"], ["--tensor-parallel-size"], False, id="a-flag-without-value"),
        pytest.param(["m", "-tp", "two"], ["-tp two"], False, id="a-value-that-is-none"),
        pytest.param(["m", "-tp", "$(TP)"], ["-tp $(TP)"], False, id="a-variable-nobody-set"),
        pytest.param(["m", "--d", "2"], ["--d"], False, id="an-ambiguous-abbreviation"),
        pytest.param(["m", "--no-made-up"], ["--no-made-up"], False, id="an-unknown-negation"),
        pytest.param(["m", "--config", "f.yaml"], ["--config f.yaml"], True, id="a-file-of-flags"),
        pytest.param(["m", "$(EXTRA)"], ["$(EXTRA)"], True, id="a-variable-that-may-be-a-flag"),
        pytest.param(["m", "--$(EXTRA)"], ["--$(EXTRA)"], True, id="a-flag-with-a-variable-for-its-name"),
        pytest.param(["m", "-tp 2"], ["-tp 2"], True, id="flag-and-value-in-one-item"),
        pytest.param(["$(MODEL)"], ["model $(MODEL)"], False, id="a-model-nobody-set"),
        pytest.param(["m", "--node-rank", "$(RANK)", "--nnodes", "2"], [], False, id="a-rank-does-not-matter"),
        pytest.param(["m", "--port", "$(PORT)"], [], False, id="a-variable-of-another-flag-does-not-matter"),
        pytest.param(["m", "--", "--x"], ["--x"], False, id="words-behind-two-dashes"),
    ],
)
def test_what_is_not_understood_is_listed(args: list[str], unread: list[str], hidden: bool) -> None:
    engine = with_args(*args)
    assert (list(engine.unread), engine.hidden) == (unread, hidden)


def test_only_the_first_words_of_a_very_long_command_line_are_read() -> None:
    engine = with_args("m", "-tp", "2", *["--made-up"] * 5000, "-pp", "2")
    assert (engine.tensor_parallel, engine.pipeline_parallel, engine.hidden) == (2, 1, True)


def test_a_long_list_of_unread_things_is_cut() -> None:
    engine = with_args("m", *(f"--made-up-{i}" for i in range(100)), "x" * 200, "x" * 200)
    assert len(engine.unread) == 32
    assert with_args("m", "x" * 200).unread == ("x" * 77 + "...",)


@pytest.mark.parametrize("args", [["-tp", "two"], ["-tp", "$(TP)"], ["-tp", "0"], ["-tp", "-2"]])
def test_a_size_that_is_not_understood_is_no_size(args: list[str]) -> None:
    assert with_args("m", *args).tensor_parallel is None


@pytest.mark.parametrize(
    ("args", "length"),
    [
        (["--max-model-len", "16384"], 16384),
        (["--max-model-len", "32k"], 32_000),
        (["--max-model-len=32K"], 32_768),
        (["--max-model-len", "auto"], None),
        (["--max-model-len", "-1"], None),
        ([], None),
    ],
)
def test_context_lengths_as_people_write_them(args: list[str], length: int | None) -> None:
    engine = with_args("m", *args)
    assert (engine.context_length, engine.unread) == (length, ())


@pytest.mark.parametrize(
    ("image", "args", "fraction"),
    [
        ("vllm/vllm-openai:v0.11.0", ["m", "--gpu-memory-utilization=.9"], 0.9),
        ("vllm/vllm-openai:v0.11.0", ["m", "--gpu_memory_utilization", "0.45"], 0.45),
        ("vllm/vllm-openai:v0.11.0", ["m"], None),
        ("lmsysorg/sglang:v0.5.3", ["--model-path", "m", "--mem-fraction-static", "0.85"], 0.85),
        ("ghcr.io/huggingface/text-generation-inference:3.3", ["--cuda-memory-fraction", "0.9"], 0.9),
        (
            "nvcr.io/nvidia/tensorrt-llm/release:1.0",
            ["trtllm-serve", "m", "--kv_cache_free_gpu_memory_fraction", "0.5"],
            0.5,
        ),
        ("openmmlab/lmdeploy:v0.9.2", ["serve", "api_server", "m", "--cache-max-entry-count", "0.4"], 0.4),
        ("openmmlab/lmdeploy:v0.9.2", ["serve", "api_server", "m", "--cache-max-entry-count", "400"], None),
    ],
)
def test_the_memory_fraction_whatever_its_flag_is_called(image: str, args: list[str], fraction: float | None) -> None:
    assert with_args(*args, image=image).memory_fraction == fraction


def test_the_size_of_the_cache_in_bytes() -> None:
    assert with_args("m", "--kv-cache-memory-bytes", "8G").kv_cache_bytes == 8 * 2**30


@pytest.mark.parametrize(
    ("args", "experts"),
    [
        (["-tp", "2", "-dp", "4", "--enable-expert-parallel"], 8),
        (["-tp", "2", "-dp", "$(DP)", "--enable-expert-parallel"], None),
        (["-tp", "2", "-dp", "4"], 1),
    ],
)
def test_vllm_spreads_experts_over_all_ranks(args: list[str], experts: int | None) -> None:
    assert with_args("m", *args).expert_parallel == experts


def test_sglang_counts_expert_ranks_by_a_flag() -> None:
    assert with_args("--model", "m", "--tp", "8", "--ep", "8", image="sglang").expert_parallel == 8


@pytest.mark.parametrize(
    ("env", "sizes"),
    [
        pytest.param({"SM_VLLM_MODEL": "org/8b", "SM_VLLM_TENSOR_PARALLEL_SIZE": "4"}, ("org/8b", 4), id="variables"),
        pytest.param({"SM_VLLM_TENSOR_PARALLEL_SIZE": "4", "SM_VLLM_": "x"}, (None, 4), id="a-prefix-alone-is-no-flag"),
        pytest.param({"SM_VLLM_ENFORCE_EAGER": "true", "SM_VLLM_MODEL": "m"}, ("m", 1), id="a-switch"),
    ],
)
def test_variables_that_stand_for_flags_of_vllm(env: dict[str, str], sizes: tuple[str | None, int]) -> None:
    engine = engine_of(serving("registry.example/vllm:0.11", env=env))
    assert (engine.model, engine.tensor_parallel) == sizes


def test_a_flag_beats_the_variable_that_stands_for_it() -> None:
    env = {"SM_VLLM_TENSOR_PARALLEL_SIZE": "4"}
    assert with_args("m", "-tp", "2", env=env).tensor_parallel == 2
