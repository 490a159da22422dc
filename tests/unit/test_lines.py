"""A watch's lines come out whole, however the network cut them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shared.kube.errors import Unavailable
from shared.kube.lines import LineCutter, json_object


@given(lines=st.lists(st.binary(min_size=1).filter(lambda line: b"\n" not in line and line.strip())), cuts=st.data())
def test_lines_do_not_depend_on_where_the_stream_was_cut(lines: list[bytes], cuts: st.DataObject) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    places = sorted(cuts.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    cutter = LineCutter()
    pieces = [stream[start:end] for start, end in zip([0, *places], [*places, len(stream)], strict=True)]
    assert [line for piece in pieces for line in cutter.feed(piece)] == lines
    cutter.finish()


def test_empty_lines_are_left_out() -> None:
    assert LineCutter().feed(b"\n\r\n{}\n  \n") == [b"{}"]


def test_an_end_in_the_middle_of_a_line_is_noticed() -> None:
    cutter = LineCutter()
    assert cutter.feed(b'{"a":1}\n{"b"') == [b'{"a":1}']
    with pytest.raises(Unavailable, match="middle of a line"):
        cutter.finish()


def test_a_line_without_end_does_not_fill_the_memory() -> None:
    cutter = LineCutter(longest=10)
    cutter.feed(b"0123456789")
    with pytest.raises(Unavailable, match="10 bytes"):
        cutter.feed(b"0")


@pytest.mark.parametrize("text", [b"", b"Bad Gateway", b'{"a":', b"[]", b'"x"', b"1"])
def test_what_is_no_json_object_counts_as_no_answer(text: bytes) -> None:
    with pytest.raises(Unavailable):
        json_object(text)
