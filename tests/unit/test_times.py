"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from shared.core.times import in_seconds, unix_seconds


def test_what_is_written_is_read() -> None:
    moment = datetime(2026, 11, 30, 9, 10, 11, 999_999, tzinfo=UTC)
    assert in_seconds(moment) == "2026-11-30T09:10:11Z"
    assert unix_seconds(in_seconds(moment)) == int(moment.timestamp())


@pytest.mark.parametrize("text", ["", "soon", "2026-13-30T09:10:11Z"])
def test_what_is_no_time_is_0(text: str) -> None:
    assert unix_seconds(text) == 0
