"""Writes docs/metrics.md from the definitions of the metrics: `python -m hack.metrics_reference`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from shared.obs.metrics import Definition, Kind, Of, definitions

DOCUMENT: Final = Path(__file__).parents[1] / "docs" / "metrics.md"

_INTRODUCTION: Final = """\
# Metrics

Both programs serve `/metrics` on their health port (8081, plain HTTP) in Prometheus' text format, and as OpenMetrics
to a scraper that asks for it. With the Prometheus operator, the chart's values `metrics.podMonitor.enabled` and
`metrics.alerts.enabled` create a PodMonitor and a PrometheusRule; [runbook.md](runbook.md) says what to do about each
alert. Where a Prometheus goes by annotations, set `podAnnotations`: `prometheus.io/scrape: "true"` and
`prometheus.io/port: "8081"`.

The number of series is bounded: label values come from short lists and from the inventory (nodes and their cards),
never from pods, namespaces or owners. Cards (three series each, and one more for GB that are kept or preempting) and
waiting owners are told by the leading controller alone, so no sum counts them twice. The metrics of Python's client
library (`process_*`, `python_gc_*`) are there too. The port shows the names of nodes to whoever reaches it, and no
more; `networkPolicy.enabled` leaves it open for probes and scrapes.

This page is made by `python -m hack.metrics_reference` from `shared/obs/metrics.py`.
"""

_SECTIONS: Final = {
    Of.WEBHOOK: "Webhook",
    Of.LEADER: "Leading controller",
    Of.CONTROLLER: "Each controller",
    Of.BOTH: "Webhook and controller",
}


def render() -> str:
    """The page."""
    parts = [_INTRODUCTION]
    for of, title in _SECTIONS.items():
        rows = [_row(each) for each in definitions() if each.of is of]
        parts.append("\n".join([f"## {title}\n", "| metric | labels | what it says |", "|---|---|---|", *rows, ""]))
    return "\n".join(parts)


def _row(of: Definition) -> str:
    labels = ", ".join(f"`{label}`" for label in of.labels)
    bounds = ", ".join(f"{bound:g}" for bound in of.buckets)
    buckets = f". Buckets: {bounds}" if of.kind is Kind.HISTOGRAM else ""
    return f"| `{of.name}` ({of.kind}) | {labels} | {of.help}{buckets} |"


if __name__ == "__main__":
    DOCUMENT.write_text(render())
