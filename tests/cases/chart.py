"""The shipped configuration: the chart as Helm renders it, once for every way in which cases install it."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from hack.devcluster.binaries import find_binaries
from hack.devcluster.chart import Workload, workloads
from tests.chart.rendering import NAMESPACE, Helm
from tests.fakes.objects import Json

__all__ = ["NAMESPACE", "Chart", "render", "rendered"]


@dataclass(frozen=True, slots=True)
class Chart:
    """What `helm template` printed, read."""

    objects: tuple[Json, ...]

    def all(self, kind: str) -> list[Json]:
        """Every object of a kind."""
        return [each for each in self.objects if each["kind"] == kind]

    def workload(self, program: str) -> Workload:
        """The Deployment that runs `webhook` or `controller`."""
        return workloads(list(self.objects))[program]


def render(*, sharing: bool) -> str:
    """The chart as text, installed with or without sharing of cards."""
    values: dict[str, Any] = {"placement": {"vramPluginV2": {"enabled": sharing}}}
    with tempfile.TemporaryDirectory() as home:
        return Helm(find_binaries().path("helm"), Path(home)).template(values).text


@cache
def rendered(text: str) -> Chart:
    """A rendered text, read once in a process."""
    return Chart(tuple(each for each in yaml.load_all(text, yaml.CSafeLoader) if each))
