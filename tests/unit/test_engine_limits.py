"""How a server is kept to its share: the flag that is given, and what is said where none can be given."""

from __future__ import annotations

import pytest

from shared.core.engines import Engine, EngineName
from shared.core.engines.limits import DEFAULT_FRACTION, RULES, Advice, SelfLimit, default_fraction, keep_to_share
from tests.unit.model_servers import engine_of, in_shell, serving, with_args

CARD = 80 * 1024
FLAG = "--gpu-memory-utilization"


def vllm(version: str = "v0.11.0", *args: str) -> Engine:
    return with_args("org/small-14b", *args, image=f"vllm/vllm-openai:{version}")


def test_a_server_that_says_nothing_is_kept_to_its_share() -> None:
    """args-utilization-contradicts-budget: the flag is a part of the whole card, not of what the pod was promised."""
    assert keep_to_share(vllm(), "server", 16, CARD) == Advice(
        limit=SelfLimit(FLAG, "0.187"),
        warnings=(
            (
                "container server: --gpu-memory-utilization is not set and vLLM's default of 0.9 would take 72 GB of a "
                "share of 16 GB; it is set to 0.187"
            ),
        ),
    )


def test_a_value_that_breaks_the_share_is_lowered() -> None:
    assert keep_to_share(vllm("v0.11.0", FLAG, "0.95"), "server", 16, CARD) == Advice(
        limit=SelfLimit(FLAG, "0.187"),
        breaks_share=True,
        warnings=(
            "container server: --gpu-memory-utilization 0.95 would take 76 GB of a share of 16 GB; it is set to 0.187",
        ),
    )


@pytest.mark.parametrize(
    ("fraction", "share"),
    [("0.2", 16), ("0.1", 16), ("0.45", 40), ("1", 80), ("0.95", 80), ("0.9", 79)],
)
def test_a_value_inside_the_share_is_kept(fraction: str, share: int) -> None:
    assert keep_to_share(vllm("v0.11.0", FLAG, fraction), "server", share, CARD) == Advice()


@pytest.mark.parametrize(
    ("share", "card_mib", "cards", "value"),
    [
        pytest.param(16, CARD, 1, "0.187", id="one-card-leaves-one-gb"),
        pytest.param(16, CARD, 2, "0.175", id="several-cards-leave-two-gb"),
        pytest.param(16, 81559, 1, "0.188", id="as-the-driver-counts-the-card"),
        pytest.param(40, CARD, 1, "0.487", id="half-a-card"),
        pytest.param(2, CARD, 1, "0.018", id="a-small-share-leaves-a-quarter"),
        pytest.param(1, CARD, 2, "0.009", id="the-smallest-share"),
        pytest.param(1, 1024**2, 1, "0.001", id="never-nothing"),
        pytest.param(21, 40 * 1024, 1, "0.5", id="no-zeros-at-the-end"),
    ],
)
def test_the_value_leaves_headroom_and_is_rounded_down(share: int, card_mib: int, cards: int, value: str) -> None:
    advice = keep_to_share(vllm(), "server", share, card_mib, cards)
    assert advice.limit == SelfLimit(FLAG, value)


@pytest.mark.parametrize(
    ("share", "card_mib"),
    [
        pytest.param(80, CARD, id="whole-gb"),
        pytest.param(79, 81559, id="what-the-driver-leaves-of-80-gb"),
        pytest.param(23, 24564, id="24-gb"),
        pytest.param(96, CARD, id="more-than-the-card"),
        pytest.param(16, 0, id="a-card-without-memory"),
    ],
)
@pytest.mark.parametrize("version", ["v0.8.5", "v0.11.0", "latest"])
def test_a_share_of_the_whole_card_needs_no_limit(version: str, share: int, card_mib: int) -> None:
    assert keep_to_share(vllm(version), "server", share, card_mib) == Advice()


def test_a_share_that_the_default_fits_into_needs_no_limit() -> None:
    assert keep_to_share(vllm(), "server", 78, CARD) == Advice()


def test_more_than_a_whole_card_is_told_even_of_a_whole_card() -> None:
    assert keep_to_share(vllm("v0.11.0", FLAG, "1.2"), "server", 80, CARD) == Advice(
        breaks_share=True,
        warnings=("container server: --gpu-memory-utilization 1.2 is more than a whole card; write at most 1",),
    )
    assert keep_to_share(vllm("v0.11.0", FLAG, "1.2"), "server", 16, CARD).limit == SelfLimit(FLAG, "0.187")


@pytest.mark.parametrize(
    ("version", "default"),
    [("v0.9.1", "0.9"), ("v0.20.2", "0.9"), ("v0.21.0", "0.92"), ("v0.31.0", "0.92"), ("latest", "0.92")],
)
def test_the_default_is_that_of_the_version_and_an_unknown_one_counts_as_new(version: str, default: str) -> None:
    advice = keep_to_share(vllm(version), "server", 16, CARD)
    assert advice.limit == SelfLimit(FLAG, "0.187")
    assert f"vLLM's default of {default} would take" in advice.warnings[0]


@pytest.mark.parametrize("version", ["v0.6.4", "v0.6.4.post1", "v0.8.0", "v0.8.5", "v0.9.0.1"])
@pytest.mark.parametrize("args", [(), (FLAG, "0.95"), (FLAG, "0.1")])
def test_versions_that_count_their_neighbours_cannot_be_kept_to_a_share(version: str, args: tuple[str, ...]) -> None:
    advice = keep_to_share(vllm(version, *args), "server", 16, CARD)
    assert advice.limit is None
    assert "counts its neighbours' memory as its own" in advice.warnings[0]
    assert "use 0.9.1 or newer, or ask for a whole card" in advice.warnings[0]


@pytest.mark.parametrize("version", ["v0.6.3", "v0.7.3"])
def test_other_old_versions_are_left_to_their_owner(version: str) -> None:
    advice = keep_to_share(vllm(version), "server", 16, CARD)
    assert advice.limit is None
    assert advice.warnings[0].endswith("; set it to 0.187 in the container's command line")


def test_a_shell_text_is_left_to_its_owner() -> None:
    advice = keep_to_share(in_shell("vllm serve m --gpu-memory-utilization 0.95"), "server", 16, CARD)
    assert advice == Advice(
        breaks_share=True,
        warnings=(
            (
                "container server: --gpu-memory-utilization 0.95 would take 76 GB of a share of 16 GB; set it to 0.187 "
                "in the container's command line"
            ),
        ),
    )


def test_what_cannot_be_seen_is_not_said_to_be_missing() -> None:
    script = engine_of(serving("vllm/vllm-openai:v0.11.0", command=["/start.sh"]))
    advice = keep_to_share(script, "server", 16, CARD)
    assert advice.limit is None
    assert f"{FLAG} is not seen on the command line and vLLM's default of 0.9" in advice.warnings[0]


OWN_SCRIPT = ["python3", "/app/serve.py"]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({"command": OWN_SCRIPT, "args": [FLAG, "0.2"]}, id="of-an-unknown-program"),
        pytest.param({"command": OWN_SCRIPT, "args": ["--gpu_memory_utilization=0.2"]}, id="in-one-word"),
        pytest.param({"command": ["sh", "-c", f"case $1 in a) b {FLAG} 0.2;; esac"]}, id="in-a-shell"),
    ],
)
def test_a_fraction_that_an_unknown_program_is_given_counts(fields: dict[str, list[str]]) -> None:
    engine = engine_of(serving("vllm/vllm-openai:v0.11.0", **fields))  # type: ignore[arg-type]
    assert (engine.memory_fraction, engine.hidden) == (0.2, True)
    assert keep_to_share(engine, "server", 16, CARD) == Advice()
    assert "0.2 would take 16 GB of a share of 8 GB" in keep_to_share(engine, "server", 8, CARD).warnings[0]


@pytest.mark.parametrize(
    ("image", "flag", "value"),
    [
        ("vllm/vllm-openai:v0.11.0", FLAG, "$(PART)"),
        ("vllm/vllm-openai:v0.11.0", FLAG, "--port"),
        ("lmsysorg/sglang:v0.5.3", "--mem-fraction-static", "$(PART)"),
    ],
)
@pytest.mark.parametrize("share", [16, 78])
def test_a_fraction_that_cannot_be_read_is_not_said_to_be_missing(
    image: str, flag: str, value: str, share: int
) -> None:
    engine = engine_of(serving(image, command=OWN_SCRIPT, args=[flag, value]))
    (warning,) = keep_to_share(engine, "server", share, CARD).warnings
    assert f"{flag} has a value that cannot be read here, so it may take more than the share of {share} GB" in warning


def test_a_fraction_that_cannot_be_read_is_set_where_that_can_be_done() -> None:
    advice = keep_to_share(vllm("v0.11.0", FLAG, "$(PART)"), "server", 16, CARD)
    assert advice.limit == SelfLimit(FLAG, "0.187")
    assert advice.warnings[0].endswith("so it may take more than the share of 16 GB; it is set to 0.187")


@pytest.mark.parametrize("args", [["--gpu", "0.2"], ["gpu-memory-utilization", "0.2"], ["--gpu-memory", "0.2"]])
def test_flags_of_an_unknown_program_are_not_taken_for_short_forms(args: list[str]) -> None:
    engine = engine_of(serving("vllm/vllm-openai:v0.11.0", command=OWN_SCRIPT, args=args))
    assert (engine.memory_fraction, engine.fraction_unknown) == (None, False)


def test_what_another_engines_file_may_hold_is_not_said_to_be_missing() -> None:
    engine = engine_of(serving("lmsysorg/sglang:v0.5.3", command=["/start.sh"]))
    assert "--mem-fraction-static is not seen on the command line" in keep_to_share(engine, "s", 16, CARD).warnings[0]


def test_a_flag_beats_the_file_that_may_hold_it() -> None:
    assert keep_to_share(vllm("v0.11.0", "--config", "f.yaml"), "server", 16, CARD).limit == SelfLimit(FLAG, "0.187")


@pytest.mark.parametrize(
    ("args", "limit", "sentences"),
    [
        pytest.param(("--kv-cache-memory-bytes", "40G"), SelfLimit(FLAG, "0.187"), 2, id="and-no-fraction"),
        pytest.param(("--kv-cache-memory-bytes", "40G", FLAG, "0.1"), None, 1, id="and-a-fraction-that-fits"),
    ],
)
def test_a_cache_that_is_larger_than_the_share_is_told(
    args: tuple[str, ...], limit: SelfLimit | None, sentences: int
) -> None:
    advice = keep_to_share(vllm("v0.11.0", *args), "server", 16, CARD)
    assert (advice.limit, advice.breaks_share, len(advice.warnings)) == (limit, True, sentences)
    assert "--kv-cache-memory-bytes alone is more than the share of 16 GB" in advice.warnings[0]


def test_a_cache_inside_the_share_is_not_told() -> None:
    assert len(keep_to_share(vllm("v0.11.0", "--kv-cache-memory-bytes", "8G"), "server", 16, CARD).warnings) == 1


@pytest.mark.parametrize(
    ("image", "args", "setting"),
    [
        ("lmsysorg/sglang:v0.5.3", "--model-path m", "--mem-fraction-static"),
        ("text-generation-inference:3.3", "--model-id m", "--cuda-memory-fraction"),
        ("llama.cpp:server-cuda", "-m m", "--n-gpu-layers"),
        ("llama.cpp:server-cuda", "-m m -c 0", "--ctx-size"),
        ("ollama/ollama:0.12.3", "serve", "OLLAMA_MAX_LOADED_MODELS=1"),
        ("openmmlab/lmdeploy:v0.9", "serve api_server m", "--cache-max-entry-count"),
        ("tensorrt-llm/release:1.0", "trtllm-serve m", "--kv_cache_free_gpu_memory_fraction"),
        ("tritonserver:25.09-py3", "tritonserver", "--model-load-gpu-limit"),
        ("nvcr.io/nim/meta/llama:1.13", "", "NIM_KVCACHE_PERCENT"),
        ("text-embeddings-inference:1.8", "--model-id m", "MAX_BATCH_TOKENS"),
        ("michaelf34/infinity:0.0.77", "v2 --model-id m", "--batch-size"),
        ("rayproject/ray:2.50.0", "ray start", "gpu_memory_utilization"),
        ("deepjavalibrary/djl-serving:0.33.0-lmi", "serve", "OPTION_GPU_MEMORY_UTILIZATION"),
    ],
)
def test_other_engines_are_not_changed_and_their_setting_is_named(image: str, args: str, setting: str) -> None:
    engine = with_args(*args.split(), image=image)
    advice = keep_to_share(engine, "server", 16, CARD)
    assert (advice.limit, advice.breaks_share, len(advice.warnings)) == (None, False, 1)
    assert advice.warnings[0].startswith("container server: ")
    assert setting in advice.warnings[0]
    assert keep_to_share(engine, "server", 80, CARD) == Advice()


def test_the_default_of_another_engine_is_told() -> None:
    advice = keep_to_share(with_args("--model-id", "m", image="text-generation-inference:3.3"), "tgi", 16, CARD)
    assert advice.warnings == (
        (
            "container tgi: --cuda-memory-fraction is not set and Text Generation Inference's default of 1 would take "
            "80 GB of a share of 16 GB; set it to the part of the card that is in use once this server runs, or ask "
            "for a whole card"
        ),
    )


@pytest.mark.parametrize(
    ("image", "args", "env"),
    [
        ("lmsysorg/sglang:v0.5.3", "--model-path m --mem-fraction-static 0.2", {}),
        ("text-generation-inference:3.3", "--model-id m", {"CUDA_MEMORY_FRACTION": "0.2"}),
        ("llama.cpp:server-cuda", "-m m -c 8192", {}),
        ("ollama/ollama:0.12.3", "serve", {"OLLAMA_CONTEXT_LENGTH": "8192"}),
        ("djl-serving:0.33.0-lmi", "serve", {"OPTION_GPU_MEMORY_UTILIZATION": "0.2"}),
    ],
)
def test_a_user_who_has_sized_the_server_is_not_warned(image: str, args: str, env: dict[str, str]) -> None:
    assert keep_to_share(with_args(*args.split(), image=image, env=env), "server", 16, CARD) == Advice()


def test_a_users_own_fraction_of_another_engine_is_checked() -> None:
    engine = with_args("--model-path", "m", "--mem-fraction-static", "0.85", image="lmsysorg/sglang:v0.5.3")
    assert keep_to_share(engine, "server", 16, CARD) == Advice(
        breaks_share=True,
        warnings=(
            (
                "container server: --mem-fraction-static 0.85 would take 68 GB of a share of 16 GB; set it so that "
                "weights and cache stay within the share"
            ),
        ),
    )


def test_every_engine_has_a_rule_and_a_label() -> None:
    assert set(RULES) == set(EngineName)
    assert len({name.label for name in EngineName}) == len(EngineName)
    assert set(DEFAULT_FRACTION) <= set(RULES)
    assert default_fraction(EngineName.SGLANG, None) is None
