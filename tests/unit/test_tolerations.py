"""Taints and tolerations: the rules of `ToleratesTaint`."""

from __future__ import annotations

import pytest

from shared.core.nodes import Taint
from shared.core.tolerations import Toleration, read_tolerations, untolerated

TAINT = Taint("gpu", "t4", "NoSchedule")
NUMBER = Taint("tier", "5", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "taint", "tolerated"),
    [
        pytest.param(Toleration("gpu", "Equal", "t4"), TAINT, True, id="Equal-same-value"),
        pytest.param(Toleration("gpu", "Equal", "a10"), TAINT, False, id="Equal-other-value"),
        pytest.param(Toleration("cpu", "Equal", "t4"), TAINT, False, id="Equal-other-key"),
        pytest.param(Toleration("gpu", "Exists"), TAINT, True, id="Exists-any-value"),
        pytest.param(Toleration("cpu", "Exists"), TAINT, False, id="Exists-other-key"),
        pytest.param(Toleration(operator="Exists"), TAINT, True, id="Exists-without-key-tolerates-everything"),
        pytest.param(Toleration("gpu", "Exists", effect="NoSchedule"), TAINT, True, id="same-effect"),
        pytest.param(Toleration("gpu", "Exists", effect="NoExecute"), TAINT, False, id="other-effect"),
        pytest.param(Toleration("tier", "Gt", "4"), NUMBER, True, id="Gt-taint-is-larger"),
        pytest.param(Toleration("tier", "Gt", "5"), NUMBER, False, id="Gt-taint-is-equal"),
        pytest.param(Toleration("tier", "Lt", "10"), NUMBER, True, id="Lt-compares-numbers-not-texts"),
        pytest.param(Toleration("tier", "Lt", "5"), NUMBER, False, id="Lt-taint-is-equal"),
        pytest.param(Toleration("gpu", "Gt", "4"), TAINT, False, id="Gt-taint-is-no-number"),
        pytest.param(Toleration("tier", "Gt", "04"), NUMBER, False, id="Gt-leading-zero-is-no-number"),
        pytest.param(Toleration("tier", "Gt", "+4"), NUMBER, False, id="Gt-plus-sign-is-no-number"),
        pytest.param(Toleration("tier", "Gt", "-0"), NUMBER, False, id="Gt-minus-zero-is-no-number"),
        pytest.param(Toleration("tier", "Gt", "0"), NUMBER, True, id="Gt-zero"),
        pytest.param(Toleration("tier", "Like", "5"), NUMBER, False, id="unknown-operator"),
    ],
)
def test_a_toleration_tolerates_a_taint(toleration: Toleration, taint: Taint, tolerated: bool) -> None:
    assert toleration.tolerates(taint) is tolerated


def test_only_effects_that_keep_a_new_pod_away_matter() -> None:
    taints = [Taint("a", "", effect) for effect in ("NoSchedule", "NoExecute", "PreferNoSchedule")]
    assert [taint.effect for taint in untolerated(taints, ())] == ["NoSchedule", "NoExecute"]


def test_every_taint_needs_a_toleration_of_its_own() -> None:
    other = Taint("team", "b", "NoExecute")
    assert list(untolerated([TAINT, other], [Toleration("gpu", "Exists")])) == [other]


def test_an_absent_operator_means_equal() -> None:
    assert read_tolerations([{"key": "gpu", "value": "t4"}]) == (Toleration("gpu", "Equal", "t4"),)
    assert read_tolerations(None) == ()
