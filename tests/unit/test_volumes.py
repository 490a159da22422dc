"""Where the volumes of a pod let it go, by the rules of the scheduler's volume plugins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.core.constraints import ConstraintError, read_constraints
from shared.core.filters import Exclusion, Filters, load_exclusions, node_exclusions
from shared.core.peers import Peers
from shared.core.placement import Placed, find_place, place
from shared.core.refusal import NoFit
from tests.builders import PodBuilder, a_cluster, a_node, a_pod, expressions, labels, requirement
from tests.storage_builders import Raw, a_claim, a_class, a_volume, storage
from tests.unit.core_builders import ask, cards, cluster, demand, node

ZONE = "topology.kubernetes.io/zone"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
NODES = (
    a_node("one").labelled(zone="west").label(ZONE, "a").label(REGION, "r"),
    a_node("two").labelled(zone="east").label(ZONE, "b").label(REGION, "r"),
)


def may_go_to(pod: PodBuilder, *objects: Raw) -> dict[str, set[str]]:
    """For each node, why its volumes keep `pod` away."""
    snapshot = a_cluster(NODES)
    constraints = read_constraints(pod.raw()).settled(storage(*objects))
    reasons = {state.name: node_exclusions(state.facts, constraints) for state in snapshot}
    filters = Filters(constraints, Peers())
    assert {state.name: filters.node_exclusions(state.facts) for state in snapshot} == reasons
    return {name: set(each) for name, each in reasons.items()}


def open_nodes(pod: PodBuilder, *objects: Raw) -> set[str]:
    return {name for name, reasons in may_go_to(pod, *objects).items() if not reasons}


USER = a_pod().claiming("cache")
BOUND = a_claim("cache", volume="disk")
WAITING = a_claim("cache", of_class="local")
CLAIMED = "models/cache"
EAST = expressions(requirement("zone", "In", "east"))
WEST = expressions(requirement("zone", "In", "west"))


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([a_volume(claim=CLAIMED, node="two"), BOUND], {"two"}, id="a-volume-on-one-node"),
        pytest.param([a_volume(claim=CLAIMED, terms=[EAST, WEST]), BOUND], {"one", "two"}, id="terms-are-ored"),
        pytest.param([a_volume(claim=CLAIMED, terms=[{}, EAST]), BOUND], {"two"}, id="an-empty-term-selects-nothing"),
        pytest.param([a_volume(claim=CLAIMED, terms=[]), BOUND], set(), id="no-terms-select-nothing"),
        pytest.param([a_volume(claim=CLAIMED), BOUND], {"one", "two"}, id="a-network-volume-goes-anywhere"),
        pytest.param([a_volume(claim=CLAIMED, labels={ZONE: "b"}), BOUND], {"two"}, id="a-zone-label"),
        pytest.param([a_volume(claim=CLAIMED, labels={ZONE: "b__c"}), BOUND], {"two"}, id="a-regional-disk"),
        pytest.param([a_volume(claim=CLAIMED, labels={ZONE: "a__b"}), BOUND], {"one", "two"}, id="both-zones"),
        pytest.param([a_volume(claim=CLAIMED, labels={OLD_ZONE: "b"}), BOUND], {"two"}, id="a-zone-in-old-spelling"),
        pytest.param([a_volume(claim=CLAIMED, labels={REGION: "x"}), BOUND], set(), id="another-region"),
        pytest.param([a_volume(claim=CLAIMED, node="two")], {"two"}, id="the-volume-names-the-claim"),
        pytest.param([a_volume(node="two"), BOUND], {"two"}, id="only-the-claim-names-the-volume"),
        pytest.param([BOUND], {"one", "two"}, id="a-volume-that-is-not-known"),
        pytest.param([], {"one", "two"}, id="a-claim-that-does-not-exist"),
        pytest.param(
            [a_volume(claim=CLAIMED, node="two", phase="Released"), WAITING],
            {"one", "two"},
            id="a-volume-left-behind-by-an-earlier-claim",
        ),
        pytest.param(
            [a_volume(claim="other/cache", node="two"), a_claim(volume="disk", namespace="other")],
            {"one", "two"},
            id="a-claim-of-that-name-in-another-namespace",
        ),
    ],
)
def test_a_bound_volume_decides_which_nodes_reach_it(objects: list[Raw], expected: set[str]) -> None:
    assert open_nodes(USER, *objects) == expected


def test_a_node_without_any_zone_label_reaches_every_zone() -> None:
    state = a_cluster([a_node("bare")]).nodes["bare"]
    volumes = storage(a_volume(claim=CLAIMED, labels={ZONE: "b"}), BOUND)
    assert node_exclusions(state.facts, read_constraints(USER.raw()).settled(volumes)) == ()


def test_every_volume_has_to_be_reached() -> None:
    pod = a_pod().claiming("cache", "data")
    objects = [
        a_volume("disk", claim=CLAIMED, node="one"),
        BOUND,
        a_volume("other", claim="models/data", node="two"),
        a_claim("data", volume="other"),
    ]
    assert may_go_to(pod, *objects) == {"one": {Exclusion.VOLUME}, "two": {Exclusion.VOLUME}}


LOCAL = a_class("local")
CLOUD = a_class("cloud", provisioner="ebs.csi.aws.com", zones=("west",))


@pytest.mark.parametrize(
    ("objects", "expected"),
    [
        pytest.param([LOCAL, WAITING], set(), id="no-free-volume"),
        pytest.param([LOCAL, WAITING, a_volume(node="one", storageClassName="local")], {"one"}, id="a-free-volume"),
        pytest.param([LOCAL, WAITING, a_volume(node="one", storageClassName="x")], set(), id="of-another-class"),
        pytest.param([LOCAL, WAITING, a_volume(node="one", storageClassName="local", gib=4)], set(), id="too-small"),
        pytest.param(
            [LOCAL, WAITING, a_volume(node="one", storageClassName="local", volumeMode="Block")], set(), id="raw-block"
        ),
        pytest.param(
            [LOCAL, WAITING, a_volume(node="one", storageClassName="local", accessModes=["ReadOnlyMany"])],
            set(),
            id="for-other-access",
        ),
        pytest.param(
            [LOCAL, WAITING, a_volume(node="one", storageClassName="local", phase="Failed")], set(), id="failed"
        ),
        pytest.param(
            [LOCAL, WAITING, a_volume(node="one", storageClassName="local", claim="models/other")],
            set(),
            id="of-another-claim",
        ),
        pytest.param(
            [LOCAL, a_claim(of_class="local", selector=labels(disk="fast")), a_volume(storageClassName="local")],
            set(),
            id="the-claim-selects-others",
        ),
        pytest.param(
            [
                LOCAL,
                a_claim(of_class="local", selector=labels(disk="fast")),
                a_volume(storageClassName="local", labels={"disk": "fast"}),
            ],
            {"one", "two"},
            id="the-claim-selects-it",
        ),
        pytest.param([CLOUD, a_claim(of_class="cloud")], {"one"}, id="made-where-the-class-may"),
        pytest.param(
            [a_class("cloud", provisioner="ebs.csi.aws.com"), a_claim(of_class="cloud")],
            {"one", "two"},
            id="made-anywhere",
        ),
        pytest.param(
            [CLOUD, a_claim(of_class="cloud"), a_volume(node="two", storageClassName="cloud")],
            {"one", "two"},
            id="made-or-free",
        ),
        pytest.param(
            [
                a_class("cloud", provisioner="ebs.csi.aws.com"),
                a_claim(of_class="cloud", annotations={"volume.kubernetes.io/selected-node": "two"}),
            ],
            {"two"},
            id="being-made-for-a-node",
        ),
        pytest.param(
            [
                CLOUD,
                a_claim(of_class="cloud", annotations={"volume.kubernetes.io/selected-node": "two"}),
                a_volume(node="two", storageClassName="cloud"),
            ],
            set(),
            id="being-made-where-the-class-may-not",
        ),
        pytest.param([a_class("now", waits=False), a_claim(of_class="now")], {"one", "two"}, id="bound-by-others"),
        pytest.param([a_claim(of_class="gone")], {"one", "two"}, id="a-class-that-is-not-known"),
        pytest.param([LOCAL, a_claim()], {"one", "two"}, id="no-class-and-no-default"),
        pytest.param(
            [
                a_class("older", provisioner="x", default_since="2026-01-01T00:00:00Z"),
                a_class("local", default_since="2026-02-01T00:00:00Z"),
                a_claim(),
            ],
            set(),
            id="the-newest-default-class",
        ),
        pytest.param(
            [LOCAL, a_claim(annotations={"volume.beta.kubernetes.io/storage-class": "local"})],
            set(),
            id="a-class-in-the-old-annotation",
        ),
        pytest.param([LOCAL, a_claim(of_class="")], {"one", "two"}, id="a-claim-that-wants-no-class"),
    ],
)
def test_a_claim_that_waits_for_its_pod_goes_where_a_volume_can_be_had(objects: list[Raw], expected: set[str]) -> None:
    assert open_nodes(USER, *objects) == expected


def test_two_claims_do_not_get_one_free_volume() -> None:
    pod = a_pod().claiming("cache", "data")
    claims = [LOCAL, a_claim("cache", of_class="local", gib=8), a_claim("data", of_class="local", gib=2)]
    large, small = (
        a_volume("large", node="one", storageClassName="local", gib=10),
        a_volume("small", node="one", storageClassName="local", gib=3),
    )
    assert open_nodes(pod, *claims, large) == set()
    assert open_nodes(pod, *claims, large, small) == {"one"}, "the smaller claim leaves the larger volume alone"


def test_a_volume_that_lives_with_the_pod_is_made_where_its_class_may() -> None:
    claim = a_claim(of_class="cloud")["spec"]
    assert open_nodes(a_pod().with_scratch("tmp", **claim), CLOUD) == {"one"}
    assert open_nodes(a_pod().with_scratch("tmp", **claim)) == {"one", "two"}


def test_a_volume_in_a_claims_name_is_not_that_claims_once_it_is_someone_elses() -> None:
    volumes = storage(a_volume(claim=CLAIMED, node="one"), a_volume(claim="models/other", node="one"))
    assert dict(volumes.set_aside) == {"models/other": "disk"}


def in_use(other: PodBuilder, *objects: Raw) -> set[str]:
    snapshot = replace(a_cluster(NODES, [other]), volumes=storage(*objects))
    constraints = read_constraints(USER.raw())
    peers = Peers.of(snapshot, constraints)
    return {state.name for state in snapshot if Exclusion.CLAIM_IN_USE in load_exclusions(state, constraints, peers)}


ONE_POD = a_claim(volume="disk", modes=("ReadWriteOncePod",))


@pytest.mark.parametrize(
    ("other", "claim", "expected"),
    [
        pytest.param(a_pod("other").claiming("cache").on("one"), ONE_POD, {"one", "two"}, id="in-use"),
        pytest.param(a_pod("other").claiming("data").on("one"), ONE_POD, set(), id="another-claim"),
        pytest.param(a_pod("other", "away").claiming("cache").on("one"), ONE_POD, set(), id="another-namespace"),
        pytest.param(a_pod("other").claiming("cache").on("one"), BOUND, set(), id="a-claim-for-many"),
    ],
)
def test_a_claim_for_one_pod_keeps_the_next_one_out_everywhere(
    other: PodBuilder, claim: Raw, expected: set[str]
) -> None:
    assert in_use(other, claim) == expected


def test_a_pod_is_placed_on_the_node_of_its_volume_though_another_is_fuller() -> None:
    snapshot = replace(
        cluster(node("one", cards(16)), node("two", cards(80), a_node("two"))),
        volumes=storage(a_volume(claim=CLAIMED, node="two"), BOUND),
    )
    constraints = read_constraints(USER.raw())
    placed = place(snapshot, demand(ask(6)), constraints)
    assert isinstance(placed, Placed)
    assert placed.node == "two"
    assert find_place(snapshot, demand(ask(6)), constraints) == placed


def refused(volumes: Any) -> NoFit:
    snapshot = replace(cluster(node("one", cards(16)), node("two", cards(80))), volumes=volumes)
    verdict = place(snapshot, demand(ask(6)), read_constraints(USER.raw()))
    assert isinstance(verdict, NoFit)
    return verdict


def test_a_refusal_names_the_volume_and_says_that_waiting_is_in_vain() -> None:
    verdict = refused(storage(a_volume(claim=CLAIMED, node="three"), BOUND))
    assert [item.words for item in verdict.excluded] == ["2 where its volume cannot go"]
    assert not verdict.can_wait


def test_a_pod_waits_for_a_volume_that_may_still_come() -> None:
    verdict = refused(storage(LOCAL, WAITING))
    assert [item.words for item in verdict.excluded] == ["2 without a volume for its claim"]
    assert verdict.can_wait


@pytest.mark.parametrize(
    ("volume", "field"),
    [
        pytest.param({"persistentVolumeClaim": {}}, "spec.volumes[0].persistentVolumeClaim.claimName", id="no-name"),
        pytest.param(
            {"persistentVolumeClaim": {"claimName": 3}},
            "spec.volumes[0].persistentVolumeClaim.claimName",
            id="a-number",
        ),
        pytest.param(
            {"ephemeral": {"volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "much"}}}}}},
            "spec.volumes[0].ephemeral.volumeClaimTemplate.spec.resources.requests[storage]",
            id="no-quantity",
        ),
    ],
)
def test_a_malformed_volume_is_refused_by_field(volume: Raw, field: str) -> None:
    with pytest.raises(ConstraintError) as error:
        read_constraints(a_pod().spec(volumes=[volume]).raw())
    assert error.value.field == field


def test_other_volumes_claim_nothing() -> None:
    pod = a_pod().spec(volumes=[{"name": "a", "emptyDir": {}}, {"name": "b", "hostPath": {"path": "/models"}}])
    assert read_constraints(pod.raw()).claims == ()
