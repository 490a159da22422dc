"""What the actions of a case do."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cases.actions import ACTIONS
from tests.cases.schema import ACTION_NAMES
from tests.fakes.objects import Json
from tests.unit.casing import a_case, a_gpu, a_node, a_pod, chart, creates, found, holding, named, played

FULL = {"allowed": False, "reason": "insufficient_capacity"}
IN = {"allowed": True}


def both(*gb: int) -> list[Json]:
    """Cards of these sizes."""
    return [a_gpu(index, size) for index, size in enumerate(gb)]


REPLICA_SET = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "rs", "namespace": "models"},
    "spec": {"replicas": 2, "template": {}},
}
ASKED_LATER = [
    {"op": "add", "path": "/metadata/annotations", "value": {"kamiwaza.ai/vram-gb": "4"}},
]
UNPINNED = [{"op": "remove", "path": "/spec/affinity"}]
PLAYED: list[Any] = [
    pytest.param(
        [creates(gb=20), {"action": "delete", "object": named()}, creates("b", 20)],
        [{"podGone": {"name": "x", "namespace": "models"}}, FULL],
        {"usedGB": {"n1": {"0": 20}}},
        {},
        id="delete leaves a pod Terminating",
    ),
    pytest.param(
        [
            creates(gb=20),
            {"action": "delete", "object": named(), "gracePeriodSeconds": 30},
            creates("b", 20),
            creates("c", 20, afterSeconds=40),
        ],
        [FULL, IN],
        {"usedGB": {"n1": {"0": 20}}},
        {},
        id="a grace period passes",
    ),
    pytest.param(
        [creates(gb=20), {"action": "force-delete", "object": named()}, creates("b", 20)],
        [{"podGone": {"name": "a", "namespace": "models"}}, IN],
        {},
        {},
        id="force-delete",
    ),
    pytest.param(
        [creates(gb=20), {"action": "delete-unobserved", "object": named()}, creates("b", 20)],
        [FULL],
        {},
        {},
        id="nobody hears of an unobserved delete",
    ),
    pytest.param(
        [
            creates(gb=20),
            {"action": "delete-unobserved", "object": named()},
            {"action": "resync"},
            creates("b", 20),
        ],
        [IN],
        {},
        {},
        id="resync lists again",
    ),
    pytest.param(
        [creates(gb=20), {"action": "status-change", "object": named(), "status": {"phase": "Failed"}}, creates("b")],
        [IN],
        {"usedGB": {"n1": {"0": 8}}},
        {},
        id="status-change",
    ),
    pytest.param(
        [creates(owner=("ReplicaSet", "rs"), schedule=False), {"action": "wait", "seconds": 5}],
        [{"podGone": {"name": "zz", "namespace": "models"}}],
        {},
        {"wrong": {"podRunning": {"ownerKind": "ReplicaSet", "ownerName": "rs", "namespace": "models"}}},
        id="an unscheduled pod does not run",
    ),
    pytest.param(
        [
            creates(owner=("ReplicaSet", "rs"), schedule=False),
            {"action": "bind", "object": named(), "node": "n1"},
        ],
        [{"podRunning": {"ownerKind": "ReplicaSet", "ownerName": "rs", "namespace": "models"}}],
        {},
        {},
        id="bind",
    ),
    pytest.param(
        [
            creates(owner=("ReplicaSet", "rs"), spec={"schedulingGates": [{"name": "g"}]}),
            {"action": "remove-gate", "object": named()},
        ],
        [{"podRunning": {"ownerKind": "ReplicaSet", "ownerName": "rs", "namespace": "models"}}],
        {},
        {},
        id="remove-gate",
    ),
    pytest.param(
        [
            creates(),
            {
                "action": "update",
                "object": named(),
                "jsonPatch": [{"op": "add", "path": "/spec/hostname", "value": "h"}],
            },
        ],
        [{"allowed": False, "by": "api-server"}],
        {},
        {},
        id="an update of what is fixed",
    ),
    pytest.param(
        [
            creates(),
            {
                "action": "update",
                "object": named(),
                "jsonPatch": [{"op": "replace", "path": "/spec/containers/0/image", "value": "other"}],
            },
        ],
        [{"allowed": True, "patched": False}],
        {},
        {},
        id="an update of the image",
    ),
    pytest.param(
        [creates(), {"action": "apply-again", "object": a_pod()}],
        [{"allowed": True, "patched": False}],
        {"usedGB": {"n1": {"0": 8}}},
        {},
        id="apply-again",
    ),
    pytest.param(
        [{"action": "label-namespace", "object": {"kind": "Namespace", "name": "models"}, "optedIn": False}, creates()],
        [{"allowed": True, "patched": False}],
        {},
        {},
        id="a namespace opts out",
    ),
    pytest.param(
        [
            {"action": "label-namespace", "object": {"kind": "Namespace", "name": "new"}, "optedIn": True},
            creates(namespace="new", metadata={"namespace": "new"}),
        ],
        [{"allowed": True, "gpuIndices": [0]}],
        {},
        {},
        id="a namespace opts in",
    ),
    pytest.param(
        [creates(), {"action": "other-webhook", "of": 1, "jsonPatch": UNPINNED}],
        [{"allowed": True, "node": "n1"}],
        {"usedGB": {"n1": {"0": 8}}},
        {},
        id="another webhook takes the pin away, and ours is asked once more",
    ),
    pytest.param(
        [
            creates(container={"resources": {"limits": {"nvidia.com/gpu": 1}}}, gb=None),
            {
                "action": "other-webhook",
                "of": 1,
                "jsonPatch": [{"op": "add", "path": "/spec/containers/0", "value": {"name": "proxy", "image": "p"}}],
            },
        ],
        [{"allowed": True, "gpuIndices": [0], "container": "server", "untouchedContainers": ["proxy"]}],
        {"usedGB": {"n1": {"0": 24}}},
        {},
        id="another webhook puts a container in front",
    ),
    pytest.param(
        [
            creates(owner=("ReplicaSet", "rs"), gb=None),
            {"action": "other-webhook", "of": 1, "jsonPatch": ASKED_LATER},
            {"action": "validate", "of": 1},
        ],
        [{"allowed": True, "patched": False}, {"allowed": False, "reason": "invalid_request"}],
        {"usedGB": {"n1": {"0": 0}}},
        {"wrong": {"podRunning": {"ownerKind": "ReplicaSet", "ownerName": "rs", "namespace": "models"}}},
        id="ours is not asked once more if it was not asked before, and what validate refuses is not stored",
    ),
    pytest.param(
        [creates(), {"action": "validate", "of": 1}],
        [{"allowed": True, "patched": False}],
        {"usedGB": {"n1": {"0": 8}}},
        {},
        id="validate lets it be stored",
    ),
    pytest.param(
        [creates(gb=14), {"action": "reinvoke", "of": 1}],
        [{"allowed": True, "patched": False}],
        {"usedGB": {"n1": {"0": 14}}},
        {},
        id="reinvoke",
    ),
    pytest.param(
        [creates(gb=None), {"action": "reinvoke", "of": 1, "jsonPatch": ASKED_LATER}],
        [{"allowed": True, "patched": True, "gpuIndices": [0]}],
        {"usedGB": {"n1": {"0": 4}}},
        {},
        id="reinvoke on a changed object",
    ),
    pytest.param(
        [
            creates(gb=20, servedBy="a"),
            {"action": "failover", "to": "b"},
            creates("b", 8, servedBy="b"),
            creates("c", 4),
        ],
        [FULL, IN],
        {"usedGB": {"n1": {"0": 24}}},
        {},
        id="the other replica knows what the first promised",
    ),
    pytest.param(
        [creates(servedBy="a"), {"action": "failover", "to": "b"}, creates("b", servedBy="a")],
        [{"allowed": False, "by": "api-server"}],
        {},
        {},
        id="a dead replica does not answer",
    ),
    pytest.param(
        [
            creates(
                action="create-concurrent",
                count=6,
                gb=8,
                servedBy=["a", "b"],
                metadata={"name": None, "generateName": "m-"},
            ),
            {"action": "restart-controller"},
            {"action": "restart-webhook"},
            creates("more", 1),
        ],
        [{"allowedCount": 3, "rejectedCount": 3}, {}, {}, FULL],
        {"usedGB": {"n1": {"0": 24}}},
        {},
        id="replicas share one ledger, and a restart forgets nothing",
    ),
    pytest.param(
        [{"action": "stop-webhook"}, {"action": "restart-webhook"}, creates()],
        [{"allowed": False, "by": "api-server"}],
        {},
        {},
        id="a stopped webhook stays away",
    ),
    *(
        pytest.param(
            [
                creates(),
                {"action": "rotate-certificate", "newCa": new},
                {"action": "wait", "seconds": 30},
                creates("b"),
            ],
            [IN],
            {},
            {},
            id=f"rotate-certificate, new authority: {new}",
        )
        for new in (True, False)
    ),
    pytest.param(
        [
            creates(),
            {"action": "set-clock", "advanceSeconds": 90 * 86400},
            {"action": "wait", "seconds": 20},
            creates("b"),
        ],
        [IN],
        {},
        {},
        id="certificates are renewed after the clock jumped",
    ),
    pytest.param(
        [
            creates(),
            {"action": "set-clock", "advanceSeconds": 500 * 86400},
            {"action": "wait", "seconds": 60},
            creates("b"),
        ],
        [IN],
        {},
        {},
        id="and after years, when a float tells no small times apart",
    ),
    pytest.param(
        [{"action": "slow-api-server", "delaySeconds": 20}, creates()],
        [{"allowed": False, "reason": "unavailable", "answeredWithinSeconds": 3}],
        {},
        {},
        id="a slow API server",
    ),
    pytest.param(
        [{"action": "slow-api-server", "delaySeconds": 1}, creates()],
        [{"allowed": True, "answeredWithinSeconds": 3}],
        {},
        {"wrong": {"answeredWithinSeconds": 0.5}},
        id="time counts by the case's clock",
    ),
    pytest.param(
        [{"action": "node-change", "node": "n1", "gpus": [a_gpu(0, 40, uuid="GPU-new")]}, creates(gb=30)],
        [{"allowed": True, "gpuIndices": [1]}],
        {"usedByUuid": {"n1": {"GPU-new": 30}}},
        {},
        id="a new card gets a slot of its own",
    ),
    pytest.param(
        [creates(), {"action": "node-change", "node": "n1", "gpus": []}, creates("b")],
        [{"allowed": False}],
        {"usedGB": {"n1": {"0": 8}}},
        {},
        id="an empty inventory",
    ),
    pytest.param(
        [creates(gb=20), {"action": "node-delete", "node": "n1"}, creates("b", 20)],
        [{"podGone": {"name": "a", "namespace": "models"}}, FULL],
        {"totalUsedGB": 0},
        {},
        id="a node goes with its pods",
    ),
    pytest.param(
        [
            creates(gb=20),
            {"action": "node-delete", "node": "n1"},
            {"action": "node-join", "node": "n1", "gpus": [a_gpu(0, 48)]},
            creates("b", 40),
        ],
        [{}, {}, {"allowed": True, "node": "n1"}],
        {"usedGB": {"n1": {"0": 40}}},
        {},
        id="a node of that name comes",
    ),
    pytest.param(
        [
            {"action": "node-status-reset", "node": "n1", "extendedResources": {"example.com/nic": 2}},
            creates(container={"resources": {"limits": {"example.com/nic": 2}}}),
        ],
        [{"nodeCapacity": {"n1": {"example.com/nic": 2}}}, IN],
        {},
        {},
        id="node-status-reset",
    ),
    pytest.param(
        [
            {"action": "node-status-reset", "node": "n1", "extendedResources": {"kamiwaza.ai/vram-gb-gpu-0": "0"}},
            {"action": "node-status-sync", "node": "n1"},
            creates(),
        ],
        [IN],
        {},
        {},
        id="node-status-sync",
    ),
    pytest.param(
        [
            creates(gb=20),
            {"action": "driver-upgrade", "node": "n1", "evicts": {"resources": ["kamiwaza.ai/vram-gb-gpu-0"]}},
            creates("b", 20),
        ],
        [{"podGone": {"name": "a", "namespace": "models"}}, IN],
        {},
        {},
        id="driver-upgrade by resource",
    ),
    pytest.param(
        [
            creates(gb=20, metadata={"labels": {"uses": "gpu"}}),
            {"action": "driver-upgrade", "node": "n1", "evicts": {"labels": ["uses=gpu"]}},
            creates("b", 20),
        ],
        [{"podGone": {"name": "a", "namespace": "models"}}, IN],
        {},
        {},
        id="driver-upgrade by label",
    ),
    pytest.param(
        [
            creates("a", 20),
            {"action": "force-delete", "object": named()},
            creates("a", 20, resultUid="u2"),
            {"action": "late-event", "object": named(uid="00000000-0000-4000-8000-000000000099"), "event": "DELETED"},
        ],
        [{}],
        {},
        {"fails": "there never was a pod"},
        id="a late event is about a pod that there was",
    ),
    pytest.param(
        [creates(gb=20, laterAdmission={"lost": True}), creates("b", 20), creates("c", 20, afterSeconds=30)],
        [IN, FULL, IN],
        {"usedGB": {"n1": {"0": 20}}},
        {},
        id="a lost answer holds its place for a while",
    ),
    pytest.param(
        [creates(gb=8), creates("copy", None, bookingCopiedFrom=named())],
        [{"allowed": False}],
        {"usedGB": {"n1": {"0": 8}}},
        {},
        id="a copied booking",
    ),
    pytest.param(
        [
            creates(gb=8, metadata={"name": None, "generateName": "m-"}),
            {"action": "create", "objectFromStep": 1},
        ],
        [{"allowed": True, "gpuIndices": [0]}],
        {"usedGB": {"n1": {"0": 16}}},
        {},
        id="an object of an earlier step",
    ),
    pytest.param(
        [
            creates(gb=20),
            creates("b", 20, owner=("ReplicaSet", "second"), retriedByController=True),
            {"action": "force-delete", "object": named()},
            {"action": "wait", "seconds": 5},
        ],
        [{"podRunning": {"ownerKind": "ReplicaSet", "ownerName": "second", "namespace": "models"}}],
        {"usedGB": {"n1": {"0": 20}}},
        {},
        id="an owner's controller tries again",
    ),
    pytest.param(
        [creates(gb=8, dryRun=True), creates()],
        [IN, IN],
        {"usedGB": {"n1": {"0": 8}}},
        {},
        id="a dry run stores nothing",
    ),
    pytest.param(
        [creates(), creates()],
        [{"allowed": False, "by": "api-server", "messageMust": ["already exists"]}],
        {},
        {},
        id="a name that is taken",
    ),
    pytest.param(
        [creates(container={"resources": {"limits": {"example.com/nic": "0.5"}}}, gb=None), creates("b")],
        [{"allowed": False, "by": "api-server", "messageMust": ["must be an integer"]}, IN],
        {},
        {},
        id="half an extended resource",
    ),
    pytest.param(
        [
            creates(gb=30),
            {"action": "delete", "object": named()},
            {"action": "status-change", "object": named(), "status": {}},
        ],
        [FULL, {}, {"podGone": {"name": "a", "namespace": "models"}}],
        {},
        {},
        id="nothing happens to a pod that was refused",
    ),
    pytest.param(
        [creates(owner=("ReplicaSet", "rs")), {"action": "delete", "object": {**named("rs"), "kind": "ReplicaSet"}}],
        [{"podGone": {"name": "a", "namespace": "models"}}],
        {"usedGB": {"n1": {"0": 0}}},
        {},
        id="pods go with their owner",
    ),
    pytest.param(
        [
            {
                "action": "update",
                "object": {"kind": "Node", "name": "n1"},
                "mergePatch": {"spec": {"unschedulable": True}},
            },
            creates(),
        ],
        [{"allowed": False, "messageMust": ["cordon"]}],
        {},
        {},
        id="an update of a node",
    ),
    pytest.param(
        [{"action": "create", "object": REPLICA_SET}, creates(owner=("ReplicaSet", "rs"))],
        [{"allowed": True}, {"podRunning": {"ownerKind": "ReplicaSet", "ownerName": "rs", "namespace": "models"}}],
        {"usedGB": {"n1": {"0": 8}}},
        {},
        id="a step makes the owner",
    ),
    pytest.param(
        [creates(owner=("ReplicaSet", "rs")), {"action": "create", "object": REPLICA_SET}],
        [IN, {"allowed": False, "by": "api-server", "messageMust": ["already exists"]}],
        {},
        {},
        id="an owner that a pod has is there from the beginning",
    ),
    pytest.param(
        [
            {"action": "create", "object": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}},
            creates("a", 20, namespace="new", metadata={"namespace": "new"}),
            {"action": "label-namespace", "object": {"kind": "Namespace", "name": "new"}, "optedIn": True},
            creates("b", 30, namespace="new", metadata={"namespace": "new"}),
        ],
        [IN, {"allowed": True, "patched": False}, {}, FULL],
        {},
        {},
        id="a step makes the namespace",
    ),
    pytest.param(
        [creates(), {"action": "device-report", "node": "n1", "object": named(), "uuids": ["GPU-n1-0"]}],
        [{}],
        {},
        {},
        id="device-report",
    ),
]


@pytest.mark.parametrize(("steps", "verdicts", "final", "more"), PLAYED)
def test_what_an_action_does(steps: list[Json], verdicts: list[Json], final: Json, more: Json) -> None:
    case = a_case(*steps)
    if "fails" in more:
        with pytest.raises(ValueError, match=more["fails"]):
            played(case)
        return
    assert found(case, *verdicts, final=final) == []
    if "wrong" in more:
        assert found(case, more["wrong"])


@pytest.mark.parametrize(
    ("first", "then", "passes"),
    [
        ({}, {}, False),
        (IN, {}, False),
        ({"reason": "insufficient_capacity"}, {}, False),
        (FULL, {}, True),
        ({"allowed": True, "acceptable": [FULL]}, {}, True),
        ({"allowed": True, "acceptable": [IN]}, {}, False),
        ({}, {"onlyIf": {"step": 1, "allowed": True}}, True),
    ],
)
def test_a_step_needs_an_object_to_act_on_unless_its_create_may_be_refused(
    first: Json, then: Json, *, passes: bool
) -> None:
    case = a_case(creates(gb=30), {"action": "delete", "object": named()})
    told = found(case, first, then)
    assert ("step 2: delete: there is no Pod a to act on" not in told) is passes, told


def test_a_step_on_an_object_that_an_earlier_one_removed_fails() -> None:
    removed = {"action": "force-delete", "object": named()}
    case = a_case(creates(), removed, {"action": "delete", "object": named()}, creates("b"))
    assert found(case, IN) == ["step 3: delete: there is no Pod a to act on"]


def test_a_given_pod_is_pinned_to_the_card_that_it_names() -> None:
    """The card that came instead has a slot of its own, as it would have had while the product ran."""
    replaced = a_case(creates(gb=20), nodes=[a_node("n1", a_gpu(uuid="GPU-new"))], pods=[holding(uuids=["GPU-old"])])
    used = {"n1": {"GPU-old": 16, "GPU-new": 20}}
    assert found(replaced, {"allowed": True, "gpuIndices": [1]}, final={"usedByUuid": used}) == []
    moved = a_case(creates(gb=20), nodes=[a_node("n1", *both(24, 24))], pods=[holding(uuids=["GPU-n1-1"])])
    used = {"n1": {"GPU-n1-1": 16, "GPU-n1-0": 20}}
    assert found(moved, {"allowed": True}, final={"usedByUuid": used}) == []


def test_a_given_pod_cannot_be_pinned_to_a_card_that_never_was() -> None:
    two = [holding("x", uuids=["GPU-n1-0"]), holding("y", uuids=["GPU-other"])]
    with pytest.raises(AssertionError, match="was never GPU-other"):
        played(a_case(creates(), pods=two))


def test_a_pending_pod_may_hold_cards_of_the_only_node() -> None:
    pending = {**holding(), "node": None, "phase": "Pending"}
    assert found(a_case(creates(gb=20), pods=[pending]), FULL, final={"usedGB": {"n1": {"0": 16}}}) == []


def test_every_action_that_is_described_is_known() -> None:
    assert ACTIONS.keys() == ACTION_NAMES


def test_a_pod_waits_for_the_node_of_its_volume() -> None:
    claim = {"volumes": [{"name": "m", "persistentVolumeClaim": {"claimName": "model"}}]}
    volume = {
        "name": "pv",
        "claim": "models/model",
        "nodeAffinity": [{"key": "zone", "operator": "In", "values": ["b"]}],
    }
    nodes = [a_node("n1", labels={"zone": "a"}), a_node("n2", labels={"zone": "b"})]
    case = a_case(
        creates("plain", None, owner=("ReplicaSet", "rs"), spec=claim), nodes=nodes, persistentVolumes=[volume]
    )
    running = {"podRunning": {"ownerKind": "ReplicaSet", "ownerName": "rs", "namespace": "models"}}
    assert found(case, running) == []
    nowhere = {**case["given"]["cluster"], "persistentVolumes": [{**volume, "nodeAffinity": [
        {"key": "zone", "operator": "In", "values": ["c"]}]}]}  # fmt: skip
    assert found({**case, "given": {**case["given"], "cluster": nowhere}}, running)


@pytest.mark.parametrize("secure", [True, False])
def test_pod_security_looks_at_what_comes_out_of_mutation(secure: bool) -> None:
    context = {
        "allowPrivilegeEscalation": False,
        "runAsNonRoot": True,
        "capabilities": {"drop": ["ALL"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    case = a_case(creates(container={"securityContext": context} if secure else {}), podSecurity="restricted")
    assert found(case, {"allowed": True} if secure else {"allowed": False, "by": "PodSecurity"}) == []


def test_a_case_ends_the_same_way_every_time() -> None:
    case = a_case(
        creates(action="create-concurrent", count=7, gb=5, metadata={"name": None, "generateName": "m-"}),
        nodes=[a_node("n1", *both(24, 12)), a_node("n2")],
    )
    first, second = played(case), played(case)
    assert first.final.used == second.final.used
    assert first.final.booked_pods == second.final.booked_pods
    assert chart() is chart()


def test_what_is_given_is_what_the_product_would_have_left() -> None:
    case = a_case(
        creates(gb=1, gpus=1),
        nodes=[a_node("n1", *both(24, 12))],
        pods=[holding(gb=20, uid="u1"), holding("other", gb=8, gpu=1, deletionTimestamp="set", uid="u2")],
    )
    assert found(case, {"allowed": True}, final={"bookings": ["u1", "u2"]})
    assert found(case, {"allowed": True}, final={"usedGB": {"n1": {"0": 20, "1": 9}}}) == []
