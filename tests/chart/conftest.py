"""Helm, once for the whole run, and the chart rendered with its own values."""

from __future__ import annotations

import pytest

from hack.devcluster.binaries import find_binaries
from tests.chart.rendering import Helm, Rendered


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    return Helm(find_binaries().path("helm"), tmp_path_factory.mktemp("helm"))


@pytest.fixture(scope="session")
def chart(helm: Helm) -> Rendered:
    """The chart with nothing set."""
    return helm.template()
