"""What every suite shares: how hypothesis judges a test, and time that passes when a test says so."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import pytest
from hypothesis import HealthCheck, settings

# A busy machine makes an example slow, never wrong: no verdict here depends on time passing.
settings.register_profile("placement-operator", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("placement-operator")


@pytest.fixture
def forward() -> Callable[[float], None]:
    """Moves the monotonic clock of this process, and with it that of its loops: what was due by then is due now.

    So a test may give the product times that no machine is too slow for, and has not to wait until they are over. The
    clock is not put back: what is still under way at the end of a test would wait for as long again.
    """
    return _forward


_MONOTONIC: Final = time.monotonic
_ahead_s = 0.0


def _forward(seconds: float) -> None:
    global _ahead_s
    _ahead_s += seconds
    time.monotonic = lambda: _MONOTONIC() + _ahead_s
