"""Warnings that stay on a pod: written and read back, and bounded whoever wrote them."""

from __future__ import annotations

from shared.api import names
from shared.core.pod_warnings import LONGEST, read_warnings, write_warnings


def kept(*warnings: str) -> tuple[str, ...]:
    return read_warnings({names.WARNINGS: write_warnings(warnings) or ""})


def test_each_is_a_line_and_comes_back() -> None:
    assert write_warnings(["one", "two"]) == "one\ntwo"
    assert kept("one", "two") == ("one", "two")


def test_what_is_too_long_for_a_line_of_kubectl_describe_goes_on_in_the_next() -> None:
    long = "container server: " + " ".join(f"word-{number}" for number in range(25))
    lines = (write_warnings([long, "two"]) or "").split("\n")
    assert len(lines) == 3
    assert max(map(len, lines)) <= 138
    assert kept(long, "two") == (long, "two")


def test_without_warnings_there_is_no_annotation() -> None:
    assert write_warnings([]) is None
    assert read_warnings(None) == read_warnings({}) == ()


def test_a_warning_of_several_lines_is_one() -> None:
    assert kept("was 'a\nb'", "two") == ("was 'a b'", "two")


def test_many_end_with_how_many_more_there_are() -> None:
    assert kept(*map(str, range(16))) == tuple(map(str, range(16)))
    assert kept(*map(str, range(40))) == (*map(str, range(15)), "and 25 more")


def test_a_long_one_is_cut_and_what_somebody_else_wrote_is_bounded() -> None:
    assert kept("x" * 1000) == ("x" * LONGEST,)
    assert read_warnings({names.WARNINGS: "\n \n".join("y" * 1000 for _ in range(10_000))})[0] == "y" * LONGEST
    assert len(read_warnings({names.WARNINGS: "z\n" * 10_000})) == 16
