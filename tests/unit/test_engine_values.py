"""Texts of flags as values: what each form stands for, and what is not understood."""

from __future__ import annotations

import pytest

from shared.core.engines.values import (
    NotUnderstood,
    Reader,
    Value,
    boolean,
    count,
    count_or_none,
    devices_length,
    fraction,
    fraction_not_blocks,
    human,
    is_the_word_none,
    name,
    negated,
    pipeline_size_in_name,
    split_length,
    tensor_size_in_name,
    tokens,
)


@pytest.mark.parametrize(
    ("read", "text", "value"),
    [
        (name, "org/8b", "org/8b"),
        (count, "8", 8),
        (count_or_none, "0", 0),
        (human, "16384", 16384),
        (human, "32k", 32_000),
        (human, "32K", 32_768),
        (human, "25.6k", 25_600),
        (human, "2G", 2 * 2**30),
        (tokens, "32K", 32_768),
        (tokens, "auto", None),
        (tokens, "-1", None),
        (tokens, "0", None),
        (fraction, "0.95", 0.95),
        (fraction, ".9", 0.9),
        (fraction, "1", 1.0),
        (fraction_not_blocks, "0.8", 0.8),
        (boolean, "True", True),
        (boolean, "0", False),
        (negated, "false", True),
        (is_the_word_none, "none", True),
        (is_the_word_none, "layer", False),
        (split_length, "24,16", 2),
        (split_length, "3,0,1", 2),
        (split_length, "0", None),
        (devices_length, "0,1", 2),
        (devices_length, "CUDA0", 1),
        (devices_length, "", None),
        (devices_length, "none", None),
        (tensor_size_in_name, "vllm-bf16-tp4", 4),
        (tensor_size_in_name, "tensorrt_llm-h100-fp8-tp2-pp1-latency", 2),
        (pipeline_size_in_name, "tensorrt_llm-h100-fp8-tp2-pp3-latency", 3),
        (pipeline_size_in_name, "vllm-bf16-tp4", 1),
    ],
)
def test_texts_are_read(read: Reader, text: str, value: Value) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (name, " "),
        (count, "0"),
        (count, "-2"),
        (count, "two"),
        (count, "2.0"),
        (count, "²"),
        (count, "1" * 40),
        (count_or_none, ""),
        (human, "1.5K"),
        (human, "1.5"),
        (human, "32kb"),
        (human, "1\n"),
        (tokens, "-2"),
        (fraction, "90%"),
        (fraction, "0,9"),
        (fraction, "nan"),
        (fraction, "1e-1"),
        (fraction, "."),
        (fraction_not_blocks, "200"),
        (boolean, "perhaps"),
        (negated, ""),
        (tensor_size_in_name, "4f904d571fe60ff24695b5ee2aa42da58cb460787a968f1e8a09f5a7e862728d"),
        (tensor_size_in_name, "model-tp0"),
        (pipeline_size_in_name, "http2"),
    ],
)
def test_other_texts_are_not_understood(read: Reader, text: str) -> None:
    with pytest.raises(NotUnderstood):
        read(text)
