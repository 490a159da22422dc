"""`$(NAME)` in command, args and env, as Kubernetes puts it in."""

from __future__ import annotations

import pytest

from shared.core.engines.words import LONGEST_TEXT, Word, expand, expand_all, variables_of
from tests.unit.model_servers import serving

VARIABLES: dict[str, str | None] = {"A": "1", "SECRET": None}


@pytest.mark.parametrize(
    ("text", "word"),
    [
        pytest.param("--tp=$(A)", Word("--tp=1"), id="a-reference"),
        pytest.param("$(A)$(A)", Word("11"), id="two-references"),
        pytest.param("$$(A)", Word("$(A)"), id="an-escaped-reference"),
        pytest.param("$$$(A)", Word("$1"), id="an-escape-before-a-reference"),
        pytest.param("$(B)", Word("$(B)", known=False), id="an-undefined-name-stays"),
        pytest.param("$(SECRET)", Word("$(SECRET)", known=False), id="a-value-from-elsewhere-stays"),
        pytest.param("$A ${A} $(A", Word("$A ${A} $(A"), id="other-dollar-signs-stay"),
        pytest.param("cost: 5$", Word("cost: 5$"), id="a-dollar-sign-at-the-end"),
    ],
)
def test_references_are_put_in(text: str, word: Word) -> None:
    assert expand(text, VARIABLES) == word


def test_variables_may_refer_to_earlier_ones_only() -> None:
    container = serving(env={"A": "1", "B": "$(A)2", "C": "$(D)", "D": "4", "E": "$(S)"}, elsewhere=["S"])
    assert variables_of(container) == {"S": None, "A": "1", "B": "12", "C": None, "D": "4", "E": None}


def test_variables_that_multiply_each_other_end_as_unknown() -> None:
    env = {"V0": "x" * 100} | {f"V{i}": f"$(V{i - 1})" * 10 for i in range(1, 9)}
    found = variables_of(serving(env=env))
    assert found["V2"] == "x" * 10_000
    assert found["V8"] is None


def test_what_all_references_put_in_is_bounded() -> None:
    container = serving(env={"BIG": "x" * 30_000}, args=["$(BIG)"] * 20)
    words = expand_all(container.args, variables_of(container))
    assert [word.known for word in words] == [True] * 8 + [False] * 12
    found = variables_of(serving(env={"BIG": "x" * 30_000} | {f"V{i}": "$(BIG)" for i in range(20)}))
    assert sum(value is None for value in found.values()) == 12


def test_a_text_that_is_too_long_is_not_known() -> None:
    assert not expand("x" * (LONGEST_TEXT + 1), {}).known
