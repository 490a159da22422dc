"""Any container is read: no text makes the reader fail, and every spelling of a flag says the same."""

from __future__ import annotations

import shlex

from hypothesis import example, given
from hypothesis import strategies as st

from shared.core.containers import Container
from shared.core.engines import cards_on_this_pod, read_engine
from shared.core.engines.limits import keep_to_share
from shared.core.engines.shell import read_script
from shared.core.engines.tables.vllm import FLAGS
from shared.core.engines.words import Word, expand
from tests.unit.model_servers import engine_of, serving

SIGNS = st.text("ab1 \t\n'\"\\$(){}`;&|<>#=-_:@*!~/.,", max_size=40)
PARTS = [
    "vllm", "serve", "sh", "-c", "bash", "-lc", "env", "A=1", "export A=2;", "exec", "tini", "--", "python3", "-m",
    "vllm.entrypoints.openai.api_server", "sglang.launch_server", "ray start", "ollama", "lmdeploy serve api_server",
    "--model", "m", "-tp", "2", "--tp=4", "--nnodes", "$A", "$(A)", "$$(A)", "${A:-", "}", "$(", ")", "'", '"', "<<E",
    "if", "then", "fi", "for", "--config", "f.yaml", "-dpl", "--num-shard", "\\\n", ";", "&&", "||", "|", "eval", "#",
]  # fmt: skip
TEXTS = st.one_of(SIGNS, st.text(max_size=40), st.lists(st.sampled_from(PARTS), max_size=12).map(" ".join))
IMAGES = st.one_of(
    st.sampled_from(
        ["vllm/vllm-openai:v0.11", "lmsysorg/sglang:v0.5.3", "ollama/ollama", "nvcr.io/nim/a/b:1", "ray", "tgi:3", ""]
    ),
    TEXTS,
)
NAMES = st.sampled_from(
    [
        "A",
        "NUM_SHARD",
        "SM_VLLM_TP",
        "NIM_PASSTHROUGH_ARGS",
        "NIM_MODEL_PROFILE",
        "LWS_GROUP_SIZE",
        "CUDA_VISIBLE_DEVICES",
    ]
)
CONTAINERS = st.builds(
    lambda image, command, args, env, elsewhere: serving(
        image, command=command, args=args, env=env, elsewhere=elsewhere - env.keys()
    ),
    IMAGES,
    st.lists(TEXTS, max_size=4),
    st.lists(TEXTS, max_size=5),
    st.dictionaries(NAMES, TEXTS, max_size=3),
    st.frozensets(NAMES, max_size=2),
)


@given(CONTAINERS, st.integers(0, 200), st.integers(0, 200_000), st.integers(1, 8))
def test_every_container_is_read_and_advised(container: Container, share: int, card_mib: int, cards: int) -> None:
    engine = read_engine(container)
    if engine is None:
        return
    count = cards_on_this_pod(engine)
    assert count is None or count >= 1
    advice = keep_to_share(engine, container.name, share, card_mib, cards)
    if advice.limit is not None:
        assert engine.appendable
        assert 0 < float(advice.limit.value) * card_mib <= max(share * 1024, card_mib / 1000)
        assert advice.warnings
    assert read_engine(container) == engine


@given(TEXTS, st.dictionaries(NAMES, st.one_of(st.none(), TEXTS)))
@example("a '", {})
@example("<<", {})
@example("${A:-${A:-$(", {"A": ""})
def test_every_text_is_read_as_a_shell_text_and_as_a_reference(text: str, variables: dict[str, str | None]) -> None:
    for command in read_script(text, variables).commands:
        assert command.words
    expand(text, variables)


@given(st.lists(st.text(max_size=12), min_size=1, max_size=6))
def test_quoted_words_come_back_as_they_were(words: list[str]) -> None:
    script = read_script(shlex.join(["command", *words]), {"A": "1"})
    assert script.unread == ()
    assert [word for command in script.commands for word in command.words] == [
        Word("command"),
        *(Word(word) for word in words),
    ]


VALUES = {"--tensor-parallel-size": "4", "--gpu-memory-utilization": "0.5", "--max-model-len": "32k", "-pp": "2"}
GIVEN = st.lists(st.sampled_from(sorted(VALUES)), unique=True, max_size=4)
LONG_FLAGS = sorted(spelling for spelling in FLAGS if spelling.startswith("--"))


@given(GIVEN, st.lists(st.booleans(), min_size=8, max_size=8), st.booleans())
def test_spellings_of_a_flag_say_the_same(flags: list[str], choices: list[bool], in_shell: bool) -> None:
    plain = ["vllm", "serve", "m"]
    spelled = list(plain)
    for index, flag in enumerate(flags):
        plain += [flag, VALUES[flag]]
        name = flag.replace("-", "_").replace("__", "--", 1) if choices[index] and flag.startswith("--") else flag
        spelled += [f"{name}={VALUES[flag]}"] if choices[index + 4] else [name, VALUES[flag]]
    expected = engine_of(serving(command=["sh", "-c", shlex.join(plain)] if in_shell else plain))
    assert engine_of(serving(command=["sh", "-c", shlex.join(spelled)] if in_shell else spelled)) == expected
    assert expected.unread == ()


@given(st.sampled_from(LONG_FLAGS), st.text(max_size=8))
def test_one_flag_with_equals_or_a_blank_or_underscores_says_the_same(flag: str, value: str) -> None:
    underscored = "--" + flag[2:].replace("-", "_")
    joined = engine_of(serving(command=["vllm", "serve", "m", f"{flag}={value}"]))
    assert engine_of(serving(command=["vllm", "serve", "m", f"{underscored}={value}"])).tensor_parallel == (
        joined.tensor_parallel
    )
    if value and not value.startswith("-") and value.lower() not in {"true", "false"} and joined.unread == ():
        apart = engine_of(serving(command=["vllm", "serve", "m", flag, value]))
        assert apart.memory_fraction == joined.memory_fraction
        assert apart.context_length == joined.context_length
