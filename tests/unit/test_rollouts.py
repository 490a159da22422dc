"""A rolling update that waits for the pods it is to replace."""

from __future__ import annotations

import pytest

from shared.core.constraints import read_constraints
from shared.core.explain import explain
from shared.core.owners import OwnerRef
from shared.core.placement import place
from shared.core.pods import PodFacts
from shared.core.refusal import NoFit
from shared.core.rollouts import is_former_revision
from tests.builders import a_pod
from tests.unit.core_builders import ask, cards, cluster, demand, holder, node

NEW = OwnerRef("apps/v1", "ReplicaSet", "chat-2", "new")
OLD = OwnerRef("apps/v1", "ReplicaSet", "chat-1", "old")
SET = OwnerRef("apps/v1", "StatefulSet", "chat", "set")
HASHED = {"app": "chat", "pod-template-hash": "1"}


def former(labels: dict[str, str], owner: OwnerRef | None = OLD, namespace: str = "models") -> PodFacts:
    return holder("chat-1-x", {0: 20}, namespace, labels={**labels, "kamiwaza.ai/reservation": "a"}, owner=owner)


@pytest.mark.parametrize(
    ("pod", "labels", "owner", "is_it"),
    [
        pytest.param(former(HASHED), {"app": "chat", "pod-template-hash": "2"}, NEW, True, id="another-template"),
        pytest.param(former({"app": "chat"}, None), {"app": "chat"}, NEW, True, id="one-whose-owner-is-gone"),
        pytest.param(former(HASHED, NEW), HASHED, NEW, False, id="a-replica-of-the-same"),
        pytest.param(former({"app": "embed"}), {"app": "chat"}, NEW, False, id="another-workload"),
        pytest.param(former(HASHED, namespace="other"), HASHED, NEW, False, id="another-namespace"),
        pytest.param(former({}), {}, NEW, False, id="no-labels-to-go-by"),
        pytest.param(former(HASHED, SET), HASHED, SET, False, id="a-kind-that-does-not-surge"),
        pytest.param(former(HASHED), HASHED, None, False, id="a-bare-pod"),
    ],
)
def test_which_pod_an_update_is_to_replace(
    pod: PodFacts, labels: dict[str, str], owner: OwnerRef | None, *, is_it: bool
) -> None:
    assert is_former_revision(pod, "models", labels, owner) is is_it


def test_an_update_that_waits_for_itself_is_told_how_not_to() -> None:
    raw = a_pod("chat-2-y", "models").label("app", "chat").raw()
    raw["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "chat-2", "uid": "new", "controller": True}
    ]
    full = node("a", cards(24), pods=[former(HASHED)])
    refusal = place(cluster(full), demand(ask(20)), read_constraints(raw))
    assert isinstance(refusal, NoFit)
    assert "maxSurge 0" in explain(refusal)
    refusal = place(cluster(full), demand(ask(20)), read_constraints(a_pod("other", "models").raw()))
    assert isinstance(refusal, NoFit)
    assert "maxSurge" not in explain(refusal)
