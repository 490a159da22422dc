"""The controller of an object: the one owner reference that keeps it alive."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.owners import OwnerRef, controller_of
from tests.builders import a_pod

REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "llm-6c9", "uid": "u1", "controller": True}


def test_the_controller_is_found_among_the_owners() -> None:
    raw = {"metadata": {"ownerReferences": [{**REPLICA_SET, "name": "other", "controller": False}, REPLICA_SET]}}
    assert controller_of(raw) == OwnerRef("apps/v1", "ReplicaSet", "llm-6c9", "u1")


def test_a_pod_of_the_builders_has_the_controller_it_was_given() -> None:
    assert controller_of(a_pod().owned_by("Job", "batch", "u2").raw()) == OwnerRef("apps/v1", "Job", "batch", "u2")


@pytest.mark.parametrize(
    "raw",
    [
        pytest.param({}, id="no-metadata"),
        pytest.param({"metadata": []}, id="metadata-of-another-shape"),
        pytest.param({"metadata": {}}, id="no-owner"),
        pytest.param({"metadata": {"ownerReferences": {"controller": True}}}, id="owners-are-not-a-list"),
        pytest.param({"metadata": {"ownerReferences": ["llm"]}}, id="an-owner-is-a-text"),
        pytest.param({"metadata": {"ownerReferences": [{**REPLICA_SET, "controller": False}]}}, id="no-controller"),
        pytest.param({"metadata": {"ownerReferences": [{**REPLICA_SET, "controller": "true"}]}}, id="true-as-a-text"),
        pytest.param({"metadata": {"ownerReferences": [{**REPLICA_SET, "uid": ""}]}}, id="an-empty-uid"),
        pytest.param({"metadata": {"ownerReferences": [{**REPLICA_SET, "name": 7}]}}, id="a-name-that-is-no-text"),
    ],
)
def test_an_object_without_a_well_formed_controller_has_none(raw: dict[str, Any]) -> None:
    assert controller_of(raw) is None
