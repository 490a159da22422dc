"""What a scraper would read, without one."""

from __future__ import annotations

from prometheus_client.registry import Collector


def value(of: Collector, name: str, **labels: str) -> float:
    """The sample called `name` with exactly these labels."""
    found = [
        each.value for family in of.collect() for each in family.samples if (each.name, each.labels) == (name, labels)
    ]
    assert len(found) == 1, f"{len(found)} samples {name}{labels}"
    return found[0]


def moved(of: Collector, name: str) -> dict[tuple[str, ...], float]:
    """The samples called `name` that are not 0, by the values of their labels."""
    return {
        tuple(each.labels.values()): each.value
        for family in of.collect()
        for each in family.samples
        if each.name == name and each.value
    }
