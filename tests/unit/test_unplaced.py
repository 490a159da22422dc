"""How many pods of a workload nobody placed, as soon as that is sure."""

from __future__ import annotations

from typing import Any

import pytest

from controller.unplaced import Unplaced
from shared.api import names

ASKS = {names.VRAM: "6"}


def owner(
    has: int,
    kind: str = "Deployment",
    *,
    earlier: int = 0,
    asks: dict[str, str] = ASKS,
    **metadata: Any,
) -> dict[str, Any]:
    """One that wants 4 pods and has some, `earlier` of them of an earlier template."""
    template = {"metadata": {"annotations": asks}, "spec": {"containers": [{"name": "server", "image": "server:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "chat", "namespace": "models", **metadata},
        "spec": {"replicas": 4, "template": template},
        "status": {
            "replicas": has,
            "updatedReplicas": has - earlier,
            "desiredNumberScheduled": 4,
            "currentNumberScheduled": has,
            "updatedNumberScheduled": has - earlier,
        },
    }


@pytest.mark.parametrize(
    ("raw", "placed", "expected"),
    [
        pytest.param(owner(4), 3, 1, id="one"),
        pytest.param(owner(4), 4, 0, id="all-are-placed"),
        pytest.param(owner(3), 3, 0, id="one-is-to-come"),
        pytest.param(owner(6), 4, 0, id="a-rollout-has-more"),
        pytest.param(owner(4, earlier=4), 0, 0, id="all-are-of-a-template-that-may-have-asked-for-nothing"),
        pytest.param(owner(4, earlier=2), 1, 1, id="some-are-of-such-a-template"),
        pytest.param(owner(4, "StatefulSet", earlier=3), 0, 1, id="stateful-set"),
        pytest.param(owner(4, "DaemonSet", earlier=3), 0, 1, id="daemon-set"),
        pytest.param(owner(4, "ReplicaSet"), 3, 1, id="replica-set"),
        pytest.param(owner(4, asks={}), 0, 0, id="it-asks-for-nothing-any-more"),
        pytest.param(owner(4), 6, 0, id="some-shut-down"),
        pytest.param(owner(4, "RayCluster"), 0, 0, id="unknown-kind"),
        pytest.param(owner(4, deletionTimestamp="2026-11-30T10:00:00Z"), 0, 0, id="being-deleted"),
        pytest.param(None, 0, 0, id="cannot-be-read"),
    ],
)
def test_how_many_lack_a_place(raw: dict[str, Any] | None, placed: int, expected: int) -> None:
    now = 0.0
    unplaced = Unplaced(lambda: now)
    first, again_in_s = unplaced.of("uid", raw, placed)
    assert (first, again_in_s) == (0, 5.0 if expected else 0.0)
    now = 5.0
    assert unplaced.of("uid", raw, placed) == (expected, 0.0)


def test_what_is_so_for_a_moment_only_is_not_told() -> None:
    now = 0.0
    unplaced = Unplaced(lambda: now)
    says = owner(4)
    assert unplaced.of("uid", says, 3) == (0, 5.0)
    now = 3.0
    assert unplaced.of("uid", says, 3) == (0, 2.0)
    assert unplaced.of("uid", says, 4) == (0, 0.0)
    now = 6.0
    assert unplaced.of("uid", says, 3) == (0, 5.0)
