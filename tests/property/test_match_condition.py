"""The chart's CEL condition and `names_a_gpu` say the same of every pod.

The condition decides which pods reach the webhook at all. Were it narrower than the reader, a pod could ask for memory
and be let through with nothing booked.
"""

from __future__ import annotations

import re
from pathlib import Path

import cel
import pytest
from hypothesis import event, given, settings

from shared.core.demand import read_pod
from shared.core.model_pods import names_a_gpu
from tests.property.model_pods import Json, model_pods

TEMPLATE = Path(__file__).parents[2] / "charts/placement-operator/templates/admission/_conditions.tpl"
DEFINITION = re.compile(
    r'\{\{- define "placement-operator\.condition\.namesAGpu" -\}\}\n(.*?)\n\{\{- end \}\}', re.DOTALL
)


@pytest.fixture(scope="module")
def condition() -> cel.Program:
    """The condition as the chart spells it. Its template holds plain CEL, without any action of the template language,
    so its text is what a rendered chart carries.
    """
    (text,) = DEFINITION.findall(TEMPLATE.read_text())
    assert "{{" not in text
    return cel.compile(text)


@settings(max_examples=600)
@given(pod=model_pods)
def test_the_chart_and_the_core_look_at_the_same_pods(condition: cel.Program, pod: Json) -> None:
    event(f"looked at: {names_a_gpu(pod)}")
    assert condition.execute({"object": pod}) is names_a_gpu(pod)


@settings(max_examples=300)
@given(pod=model_pods)
def test_a_pod_that_is_not_looked_at_asks_for_nothing_and_hides_nothing(pod: Json) -> None:
    if not names_a_gpu(pod):
        read = read_pod(pod)
        assert (read.demand, read.hidden) == (None, ())


@pytest.mark.parametrize(
    "pod",
    [
        {"metadata": {}, "spec": {"containers": None}},
        {"metadata": {"annotations": {}, "labels": {}}, "spec": {"containers": [], "initContainers": []}},
        {"metadata": {}, "spec": {"containers": [{"name": "main", "resources": {}, "env": []}]}},
        {"metadata": {}, "spec": {"containers": [{"name": "main", "resources": {"limits": {}, "requests": {}}}]}},
    ],
)
def test_nothing_at_all_is_not_looked_at(condition: cel.Program, pod: Json) -> None:
    assert condition.execute({"object": pod}) is False
    assert names_a_gpu(pod) is False
