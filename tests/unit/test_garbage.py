"""When Python looks for garbage."""

from __future__ import annotations

import gc
import warnings
import weakref
from collections.abc import Iterator

import pytest

from shared.obs.garbage import keep_what_is_there, look_seldom

USUAL = gc.get_threshold()


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Other tests start programs in this process, which set it too, and leave sockets of those that died half-way."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    gc.set_threshold(*USUAL)
    yield
    gc.unfreeze()
    gc.set_threshold(*USUAL)


class Knot:
    """Refers to itself, so that only a collection can end it."""

    def __init__(self) -> None:
        self.me = self


def test_it_is_looked_for_seldom_but_not_never_at_the_start() -> None:
    look_seldom()
    assert USUAL[0] < gc.get_threshold()[0] <= 1_000_000
    assert gc.isenabled()


def test_what_is_there_is_not_looked_through_again() -> None:
    look_seldom()
    before, kept = weakref.ref(Knot()), Knot()
    seen = weakref.ref(kept)
    keep_what_is_there()
    assert before() is None
    del kept
    gc.collect()
    assert seen() is not None
    assert gc.get_threshold() == USUAL
