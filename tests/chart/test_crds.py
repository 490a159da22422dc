"""The CRDs in the rendered chart."""

from __future__ import annotations

from shared.api.crds.definitions import DEFINITIONS
from tests.chart.rendering import Helm, Rendered


def test_the_rendered_crds_are_those_of_the_models(chart: Rendered) -> None:
    for definition in DEFINITIONS:
        assert chart.one("CustomResourceDefinition", definition.name)["spec"] == definition.spec()


def test_crds_stay_when_the_release_is_removed_with_all_that_is_in_them(chart: Rendered) -> None:
    crds = chart.all("CustomResourceDefinition")
    assert len(crds) == len(DEFINITIONS)
    for crd in crds:
        assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_crds_can_be_left_to_somebody_else(helm: Helm, chart: Rendered) -> None:
    without = helm.template({"crds": {"install": False}})
    assert len(without.manifests) == len(chart.manifests) - len(DEFINITIONS)
    assert without.all("CustomResourceDefinition") == []
