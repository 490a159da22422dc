"""Checks of the shipped configuration: what the chart says about the webhooks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from shared.api import names
from tests.cases.chart import NAMESPACE, Chart
from tests.cases.registered import selects
from tests.fakes.objects import Json

_MUTATING: Final = "MutatingWebhookConfiguration"
_VALIDATING: Final = "ValidatingWebhookConfiguration"


def differences(wanted: Json, chart: Chart) -> Iterator[str]:
    """What `webhookConfig` expects and the chart does not say."""
    for key, value in wanted.items():
        yield from (f"webhookConfig.{text}" for text in CONFIGURATION_KEYS[key](value, chart))


def _webhooks(chart: Chart, *kinds: str) -> Iterator[Json]:
    for kind in kinds or (_MUTATING, _VALIDATING):
        for configuration in chart.all(kind):
            yield from configuration["webhooks"]


def _timeout(wanted: int, chart: Chart) -> Iterator[str]:
    for webhook in _webhooks(chart):
        if webhook.get("timeoutSeconds", 10) > wanted:
            yield f"timeoutSecondsMax: expected at most {wanted}, got {webhook.get('timeoutSeconds', 10)}"


def _failure_policy(wanted: str, chart: Chart) -> Iterator[str]:
    for webhook in _webhooks(chart):
        if webhook.get("failurePolicy", "Fail") != wanted:
            yield f"failurePolicy: expected {wanted}, got {webhook.get('failurePolicy')}"


def _side_effects(wanted: Sequence[str], chart: Chart) -> Iterator[str]:
    for webhook in _webhooks(chart):
        if webhook["sideEffects"] not in wanted:
            yield f"sideEffectsAnyOf: expected one of {list(wanted)}, got {webhook['sideEffects']}"


def _only_opted_in(_wanted: bool, chart: Chart) -> Iterator[str]:
    for name in ("shop", "default", "kube-system", NAMESPACE):
        for label in (None, "", "disabled", "other"):
            labels = {"kubernetes.io/metadata.name": name, **({} if label is None else {names.NAMESPACE_LABEL: label})}
            for webhook in _webhooks(chart):
                if selects(webhook.get("namespaceSelector"), labels):
                    yield f"onlyOptedInNamespaces: expected no other namespace, got {labels} by {webhook['name']}"


def _mutated_resources(wanted: Sequence[str], chart: Chart) -> Iterator[str]:
    for webhook in _webhooks(chart, _MUTATING):
        for rule in webhook["rules"]:
            for resource in rule["resources"]:
                if resource.partition("/")[0] not in wanted:
                    yield f"mutatedResources: expected only {list(wanted)}, got {resource}"


CONFIGURATION_KEYS: Final[dict[str, Callable[[Any, Chart], Iterator[str]]]] = {
    "timeoutSecondsMax": _timeout,
    "failurePolicy": _failure_policy,
    "sideEffectsAnyOf": _side_effects,
    "onlyOptedInNamespaces": _only_opted_in,
    "mutatedResources": _mutated_resources,
}
