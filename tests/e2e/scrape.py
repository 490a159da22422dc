"""What a process says on its port for health and metrics."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from hack.devcluster.health import HOST
from hack.devcluster.processes import Process


def read(process: Process, path: str) -> str:
    """The text at `path`; OSError if there is no answer."""
    assert process.env is not None
    with urllib.request.urlopen(f"http://{HOST}:{process.env['PLACEMENT_HEALTH_PORT']}{path}", timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def samples(process: Process, name: str, **labels: str) -> float:
    """The sum of the samples called `name` that have these labels."""
    return sum(
        sample.value
        for family in text_string_to_metric_families(read(process, "/metrics"))
        for sample in family.samples
        if sample.name == name and labels.items() <= sample.labels.items()
    )
