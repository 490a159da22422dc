"""What a refused pod's owner is told to do: let it onto a node with room, or let an old pod go before the new one."""

from __future__ import annotations

import pytest

from shared.core.constraints import read_constraints
from shared.core.demand import Demand
from shared.core.explain import explain
from shared.core.placement import place
from shared.core.pods import PodFacts, pod_facts
from shared.core.refusal import Elsewhere, NoFit, RollingUpdate
from shared.core.remedies import with_remedies
from shared.core.snapshot import NodeState
from tests.builders import NodeBuilder, PodBuilder, a_node, a_pod, labels
from tests.unit.core_builders import ask, cards, cluster, demand, entry, node

HASH, REVISION = "pod-template-hash", "controller-revision-hash"
TWENTY = demand(ask(20))


def refused(pod: PodBuilder, *states: NodeState, of: Demand = TWENTY) -> NoFit:
    raw = pod.raw()
    constraints, snapshot = read_constraints(raw), cluster(*states)
    verdict = place(snapshot, of, constraints)
    assert isinstance(verdict, NoFit), verdict
    facts = pod_facts({**raw, "spec": {**raw["spec"], "nodeName": "chosen later"}})
    assert facts is not None
    return with_remedies(verdict, snapshot, facts, of, constraints)


def of_deployment(name: str, template: str, deployment: str = "llm", namespace: str = "models") -> PodBuilder:
    pod = a_pod(name, namespace).label(HASH, template)
    return pod.owned_by("ReplicaSet", f"{deployment}-{template}", f"uid-{deployment}-{template}")


def of_daemon_set(name: str, revision: str, daemon_set: str = "probe") -> PodBuilder:
    return a_pod(name).label(REVISION, revision).owned_by("DaemonSet", daemon_set, f"uid-{daemon_set}")


def holding(pod: PodBuilder, gb: int, card: int = 0, on: str = "a10") -> PodFacts:
    return pod.limited_to({f"kamiwaza.ai/vram-gb-gpu-{card}": str(gb)}).on(on).facts()


def a10(*pods: PodFacts, gbs: tuple[int, ...] = (24,)) -> NodeState:
    return node("a10", cards(*gbs), a_node("a10"), pods=pods)


OLD, NEW = of_deployment("llm-v1-x7k2p", "v1"), of_deployment("llm-v2-new", "v2")
UPDATE = RollingUpdate("Deployment", "llm", "llm-v1-x7k2p")


class TestOwner:
    def test_a_pod_with_an_owner_is_created_again_by_itself(self) -> None:
        """surge-on-a-full-card and its neighbours: the text says what happens next."""
        refusal = refused(NEW, a10(holding(a_pod("chat"), 20)))
        assert refusal.owned
        assert "Full now: it is placed by itself as soon as there is room. To be placed sooner," in explain(refusal)

    def test_a_pod_of_a_custom_kind_is_created_again_by_that_at_some_time(self) -> None:
        ray = a_pod().owned_by("RayCluster", "ray", "uid-ray", "ray.io/v1")
        assert (
            "Full now: RayCluster ray has to create it again as soon as there is room. To be placed sooner,"
            in explain(refused(ray, a10(holding(a_pod("chat"), 20))))
        )
        cordoned = node("a10", cards(24), a_node("a10").cordoned())
        assert "\nRayCluster ray has to create it again as soon as an excluded node that suits it is back. " in explain(
            refused(ray, cordoned)
        )

    def test_a_bare_pod_has_to_be_created_again(self) -> None:
        refusal = refused(a_pod(), a10(holding(a_pod("chat"), 20)))
        assert not refusal.owned
        assert "Full now: create the pod again as soon as there is room. To be placed sooner," in explain(refusal)
        assert "by itself" not in explain(refusal)

    def test_a_bare_pod_that_waits_for_a_node_has_to_be_created_again(self) -> None:
        cordoned = node("a10", cards(24), a_node("a10").cordoned())
        assert "\nCreate the pod again as soon as an excluded node that suits it is back. " in explain(
            refused(a_pod(), cordoned)
        )


class TestUpdates:
    def test_an_update_that_waits_for_its_own_old_pod_is_told_so(self) -> None:
        refusal = refused(NEW, a10(holding(OLD, 20)))
        assert refusal.update == UPDATE
        assert explain(refusal).splitlines()[1] == (
            "This is an update of Deployment llm, whose old pod llm-v1-x7k2p keeps the room until the new one runs: "
            "use strategy Recreate, or maxSurge 0 with maxUnavailable 1."
        )

    def test_so_is_one_of_a_daemon_set_which_has_no_strategy_recreate(self) -> None:
        refusal = refused(of_daemon_set("probe-new", "r2"), a10(holding(of_daemon_set("probe-old", "r1"), 20)))
        assert refusal.update == RollingUpdate("DaemonSet", "probe", "probe-old")
        second = explain(refusal).splitlines()[1]
        assert second.endswith("until the new one runs: use maxSurge 0 with maxUnavailable 1.")

    def test_so_is_one_over_several_cards(self) -> None:
        olds = [holding(of_deployment(f"llm-v1-{index}", "v1"), 20, index) for index in (0, 1)]
        refusal = refused(NEW, a10(*olds, gbs=(24, 24)), of=demand(ask(20, 2)))
        assert refusal.update == RollingUpdate("Deployment", "llm", "llm-v1-0")

    def test_what_else_the_old_pod_holds_counts_as_well(self) -> None:
        """Here it is the host port that the new pod waits for."""
        old = of_deployment("llm-v1-x7k2p", "v1").host_port(8000).on("a10").facts()
        assert refused(of_deployment("llm-v2-new", "v2").host_port(8000), a10(old)).update == UPDATE

    def test_a_reservation_of_the_old_pod_goes_with_it(self) -> None:
        old = of_deployment("llm-v1-x7k2p", "v1").label("kamiwaza.ai/reservation", "abcdefghij")
        state = node("a10", cards(24), ledger={"abcdefghij": entry({0: 20})}, pods=[holding(old, 20)])
        assert refused(NEW, state).update == UPDATE

    @pytest.mark.parametrize(
        ("new", "old"),
        [
            pytest.param(NEW, a_pod("chat"), id="a-bare-pod"),
            pytest.param(NEW, of_deployment("chat-v1", "v1", "chat"), id="another-deployment"),
            pytest.param(NEW, of_deployment("llm-v1", "v1", "llm-small"), id="a-deployment-of-a-longer-name"),
            pytest.param(NEW, of_deployment("llm-v1", "v1", namespace="other"), id="another-namespace"),
            pytest.param(NEW, of_deployment("llm-v2-1", "v2"), id="the-same-revision"),
            pytest.param(NEW, of_deployment("llm-v1", "v1").terminating(), id="already-going"),
            pytest.param(NEW, of_daemon_set("llm-1", "v1", "llm"), id="a-daemon-set-of-that-name"),
            pytest.param(a_pod(), OLD, id="a-new-pod-without-an-owner"),
            pytest.param(a_pod().owned_by("ReplicaSet", "llm-v2", "uid"), OLD, id="a-replica-set-without-a-label"),
            pytest.param(
                a_pod().label(HASH, "v3").owned_by("ReplicaSet", "llm-v2", "uid"), OLD, id="a-label-of-another-name"
            ),
            pytest.param(
                a_pod().label(HASH, "v2").owned_by("ReplicaSet", "llm-v2", "uid", "example.com/v1"),
                OLD,
                id="another-api-group",
            ),
            pytest.param(
                a_pod().owned_by("DaemonSet", "probe", "uid"), of_daemon_set("probe-1", "r1"), id="a-lost-revision"
            ),
            pytest.param(
                a_pod().label(HASH, "v2").owned_by("StatefulSet", "llm-v2", "uid"), OLD, id="a-kind-that-never-surges"
            ),
        ],
    )
    def test_other_pods_in_the_way_make_no_update(self, new: PodBuilder, old: PodBuilder) -> None:
        assert refused(new, a10(holding(old, 20))).update is None

    def test_an_old_pod_that_holds_too_little_is_not_what_is_in_the_way(self) -> None:
        assert refused(NEW, a10(holding(OLD, 4), holding(a_pod("chat"), 16))).update is None
        assert refused(NEW, a10(holding(OLD, 16), holding(a_pod("chat"), 4))).update == UPDATE


class TestElsewhere:
    def room(self, builder: NodeBuilder) -> NodeState:
        return node("h100", cards(80), builder)

    @pytest.mark.parametrize(
        ("builder", "pod", "elsewhere", "words"),
        [
            pytest.param(
                a_node("h100").tainted("nvidia.com/gpu", "present"),
                a_pod(),
                Elsewhere("h100", "nvidia.com/gpu=present:NoSchedule", unnamed=False, unselected=False),
                "does not tolerate its taint nvidia.com/gpu=present:NoSchedule",
                id="a-taint",
            ),
            pytest.param(
                a_node("h100").tainted("batch", effect="NoExecute"),
                a_pod().tolerating("other"),
                Elsewhere("h100", "batch:NoExecute", unnamed=False, unselected=False),
                "does not tolerate its taint batch:NoExecute",
                id="a-taint-without-a-value",
            ),
            pytest.param(
                a_node("h100"),
                a_pod().selecting(zone="a"),
                Elsewhere("h100", "", unnamed=False, unselected=True),
                "does not select it (nodeSelector, node affinity)",
                id="a-selector",
            ),
            pytest.param(
                a_node("h100"),
                a_pod().pinned_to("a10"),
                Elsewhere("h100", "", unnamed=False, unselected=True),
                "does not select it (nodeSelector, node affinity)",
                id="an-affinity",
            ),
            pytest.param(
                a_node("h100"),
                a_pod().spec(nodeName="a10"),
                Elsewhere("h100", "", unnamed=True, unselected=False),
                "names another node (spec.nodeName)",
                id="a-node-name",
            ),
            pytest.param(
                a_node("h100").tainted("batch"),
                a_pod().selecting(zone="a").spec(nodeName="a10"),
                Elsewhere("h100", "batch:NoSchedule", unnamed=True, unselected=True),
                "does not tolerate its taint batch:NoSchedule, names another node (spec.nodeName) and does not select "
                "it (nodeSelector, node affinity)",
                id="all-of-it",
            ),
        ],
    )
    def test_a_node_with_room_that_the_pod_keeps_itself_from_is_named(
        self, builder: NodeBuilder, pod: PodBuilder, elsewhere: Elsewhere, words: str
    ) -> None:
        refusal = refused(pod, a10(holding(a_pod("chat"), 20)), self.room(builder))
        assert refusal.elsewhere == elsewhere
        assert f"\nNode h100 has room, but the pod {words}." in explain(refusal)

    @pytest.mark.parametrize(
        "builder",
        [
            pytest.param(a_node("h100").cordoned(), id="cordoned"),
            pytest.param(a_node("h100").not_ready(), id="not-ready"),
            pytest.param(a_node("h100").tainted("node.kubernetes.io/disk-pressure"), id="in-trouble"),
        ],
    )
    def test_a_node_that_is_to_take_no_pod_is_not_named(self, builder: NodeBuilder) -> None:
        assert refused(a_pod(), a10(holding(a_pod("chat"), 20)), self.room(builder)).elsewhere is None

    def test_a_node_that_only_a_topology_spread_rules_out_is_not_named(self) -> None:
        pod = a_pod().labelled(app="chat").spread_over("zone", labels(app="chat"))
        running = a_pod("chat").labelled(app="chat").on("west").facts()
        west = node("west", cards(24), a_node("west").labelled(zone="west"), pods=[running])
        east = node("east", cards(24), a_node("east").labelled(zone="east").cordoned())
        assert refused(pod, west, east).elsewhere is None

    def test_the_pod_of_a_daemon_set_is_told_of_its_own_node_only(self) -> None:
        pod = of_daemon_set("probe-1", "r1").pinned_to("a10")
        full = node("a10", cards(24), ledger={"r": entry({0: 20})})
        assert refused(pod, full, self.room(a_node("h100"))).elsewhere is None
        assert refused(of_deployment("llm-v1-1", "v1").pinned_to("a10"), full, self.room(a_node("h100"))).elsewhere
        own = node("a10", cards(24), a_node("a10").tainted("batch"))
        assert refused(pod, own, self.room(a_node("h100"))).elsewhere == Elsewhere(
            "a10", "batch:NoSchedule", False, False
        )

    def test_a_node_without_room_is_not_named(self) -> None:
        full = node("h100", cards(80), a_node("h100").tainted("batch"), ledger={"r": entry({0: 70})})
        assert refused(a_pod(), a10(holding(a_pod("chat"), 20)), full).elsewhere is None

    def test_a_node_that_the_pod_does_not_keep_itself_from_is_not_named(self) -> None:
        """With a third domain the spread would allow the node; which nodes count is what the pod selects."""
        like = {"app": "llm"}
        states = [
            node(
                name, cards(gb), a_node(name).labelled(pool=pool), pods=[a_pod(name).labelled(**like).on(name).facts()]
            )
            for name, gb, pool in (("a", 24, "inference"), ("b", 4, "inference"), ("c", 4, "training"))
        ]
        spread = a_pod().labelled(**like).selecting(pool="inference")
        spread.spread_over("kubernetes.io/hostname", {"matchLabels": like}, minDomains=3)
        assert refused(spread, *states).elsewhere is None

    def test_pods_on_a_node_out_of_service_count_for_the_pod_s_spread(self) -> None:
        like = {"app": "llm"}
        cordoned = node("b", cards(24), a_node("b").cordoned())
        taken = node("a", cards(80), a_node("a").tainted("batch"), pods=[a_pod("x").labelled(**like).on("a").facts()])
        spread = a_pod().labelled(**like).spread_over("kubernetes.io/hostname", {"matchLabels": like})
        assert refused(spread, taken, cordoned).elsewhere is None

    def test_what_the_pod_needs_besides_is_asked_of_that_node_too(self) -> None:
        small = node("h100", cards(80), a_node("h100").tainted("batch").offering(cpu="1"))
        pod = a_pod().requesting(cpu="2")
        assert refused(pod, a10(holding(a_pod("chat"), 20)), small).elsewhere is None
