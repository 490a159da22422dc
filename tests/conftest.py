"""What every suite shares: how hypothesis judges a test."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# A busy machine makes an example slow, never wrong: no verdict here depends on time passing.
settings.register_profile("placement-operator", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("placement-operator")
