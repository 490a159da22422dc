"""What the chart tells the Prometheus operator, and who may reach the pods: nothing unless it is asked for."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from shared.obs.metrics import definitions
from tests.chart.promql import PromqlError, labels_of
from tests.chart.rendering import Helm, Manifest, Rendered
from webhook.outcome import Cause

ROOT = Path(__file__).parents[2]
CRD_KINDS = ("PodMonitor", "PrometheusRule")


@pytest.fixture(scope="module")
def monitored(helm: Helm) -> Rendered:
    labels = {"release": "prometheus"}
    return helm.template(
        {
            "metrics": {
                "podMonitor": {"enabled": True, "interval": "15s", "labels": labels},
                "alerts": {"enabled": True, "labels": labels},
            }
        }
    )


@pytest.fixture(scope="module")
def alerts(monitored: Rendered) -> list[dict[str, Any]]:
    (group,) = monitored.one("PrometheusRule", "placement-operator")["spec"]["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def _anchors(document: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", (ROOT / document).read_text(), re.MULTILINE)
    return {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_without_the_values_nothing_needs_the_prometheus_operator(chart: Rendered) -> None:
    assert [kind for kind in (*CRD_KINDS, "NetworkPolicy") if chart.all(kind)] == []


def test_the_monitor_scrapes_the_named_port_of_both_workloads(monitored: Rendered) -> None:
    monitor = monitored.one("PodMonitor", "placement-operator")
    (endpoint,) = monitor["spec"]["podMetricsEndpoints"]
    assert endpoint == {"port": "health", "path": "/metrics", "interval": "15s"}
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    for deployment in monitored.all("Deployment"):
        template = deployment["spec"]["template"]
        assert selected <= template["metadata"]["labels"].items()
        (container,) = template["spec"]["containers"]
        assert endpoint["port"] in {port["name"] for port in container["ports"]}


@pytest.mark.parametrize("kind", CRD_KINDS)
def test_what_prometheus_selects_by_is_on_the_object(monitored: Rendered, kind: str) -> None:
    labels = monitored.one(kind, "placement-operator")["metadata"]["labels"]
    assert labels["release"] == "prometheus"
    assert labels["app.kubernetes.io/name"] == "placement-operator"


def test_every_alert_leads_to_a_section_of_the_runbook_and_every_section_has_one(alerts: list[dict[str, Any]]) -> None:
    targets = [alert["annotations"]["runbook"].partition("#") for alert in alerts]
    assert {document for document, _, _ in targets} == {"docs/runbook.md"}
    anchors = [anchor for _, _, anchor in targets]
    assert sorted(anchors) == sorted(_anchors("docs/runbook.md") - {"runbook"})


def _section(heading: str) -> str:
    """A section of the runbook."""
    return (ROOT / "docs" / "runbook.md").read_text().partition(f"\n## {heading}\n")[2].partition("\n## ")[0]


def test_the_runbook_explains_every_reason_of_an_unavailable_answer() -> None:
    explained = re.findall(r"^- `(\w+)`: ", _section("Unavailable answers"), re.MULTILINE)
    assert sorted(explained) == sorted(Cause)


def test_the_runbook_explains_every_check_of_a_webhook() -> None:
    source = (ROOT / "webhook" / "__main__.py").read_text()
    named = re.findall(r'Check\("(\w+)"', source)
    explained = re.findall(r"^\| `(\w+)` \|", _section("Webhook not ready"), re.MULTILINE)
    # Besides them each collection is a check, by its own name.
    assert sorted(explained) == sorted(named)
    assert "\n| a collection, " in _section("Webhook not ready")


def test_every_alert_can_fire_and_its_summary_names_labels_that_it_has(alerts: list[dict[str, Any]]) -> None:
    known = {definition.name: set(definition.labels) for definition in definitions()}
    for alert in alerts:
        named = re.findall(r"\$labels\.(\w+)", alert["annotations"]["summary"])
        assert set(named) <= labels_of(alert["expr"], known), alert["alert"]


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("sum by (card (gb)", "parenthesis"),
        ("nothing > 0", "there is no metric nothing"),
        ('gb{card="0", gpu="1"} > 0', "gb has no label gpu"),
        ("sum by (gpu) (gb) > 0", "aggregated by gpu"),
        ("gb > free", "no pairs"),
        ("1 > 0", "scalar"),
    ],
)
def test_an_alert_that_could_not_fire_is_noticed(expression: str, why: str) -> None:
    with pytest.raises(PromqlError, match=why):
        labels_of(expression, {"gb": {"card"}, "free": {"node"}})


def test_every_alert_waits_and_has_a_severity(alerts: list[dict[str, Any]]) -> None:
    assert len({alert["alert"] for alert in alerts}) == len(alerts) >= 6
    for alert in alerts:
        assert re.fullmatch(r"[1-9][0-9]*[mh]", alert["for"])
        assert alert["labels"]["severity"] in {"critical", "warning"}


def _policy(chart: Rendered, component: str) -> Manifest:
    policy = chart.one("NetworkPolicy", f"placement-operator-{component}")
    deployment = chart.one("Deployment", f"placement-operator-{component}")
    assert policy["spec"]["podSelector"] == deployment["spec"]["selector"]
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    return policy


def _ports(policy: Manifest) -> dict[str, Any]:
    """Who may reach each port; None for everybody."""
    return {port["port"]: rule.get("from") for rule in policy["spec"]["ingress"] for port in rule["ports"]}


def test_a_network_policy_opens_the_ports_that_are_served_and_no_other(helm: Helm) -> None:
    chart = helm.template({"networkPolicy": {"enabled": True}})
    assert _ports(_policy(chart, "webhook")) == {"https": None, "health": None}
    assert _ports(_policy(chart, "controller")) == {"health": None}
    for deployment in chart.all("Deployment"):
        (container,) = deployment["spec"]["template"]["spec"]["containers"]
        assert {port["name"] for port in container["ports"]} == set(_ports(_policy(chart, container["name"])))


def test_the_addresses_of_the_api_servers_close_the_webhooks_port_to_all_others(helm: Helm) -> None:
    cidrs = ["10.0.0.10/32", "fd00::/64"]
    chart = helm.template({"networkPolicy": {"enabled": True, "apiServerCIDRs": cidrs}})
    assert _ports(_policy(chart, "webhook")) == {
        "https": [{"ipBlock": {"cidr": cidr}} for cidr in cidrs],
        "health": None,
    }
