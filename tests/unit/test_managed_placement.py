"""Placements on vendor-managed nodes: every ask becomes units of the vendor's resource, and Kubernetes counts them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from shared.core.amounts import WHOLE, Amount
from shared.core.cards import Vendor
from shared.core.constraints import Constraints, read_constraints
from shared.core.demand import Demand, Policy, is_booked, read_pod
from shared.core.explain import causes, explain
from shared.core.placement import Placed, find_place, fits, place
from shared.core.refusal import NoFit, Reason
from shared.core.snapshot import NodeState
from shared.core.unit_choice import UnitShare
from tests.builders import PodBuilder, a_node, a_pod
from tests.unit.core_builders import ask, card, cards, cluster, demand, entry, node
from tests.unit.units import AMD, GPU, SHARED, SLICE, a10g, counted, held, managed, slices, user

ANYWHERE = Constraints(namespace="models")


def chosen(wanted: Demand, *states: NodeState) -> Placed:
    verdict = place(cluster(*states), wanted, ANYWHERE)
    assert isinstance(verdict, Placed), explain(verdict)
    return verdict


def refusal(wanted: Demand, *states: NodeState) -> NoFit:
    verdict = place(cluster(*states), wanted, ANYWHERE)
    assert isinstance(verdict, NoFit), verdict
    assert find_place(cluster(*states), wanted, ANYWHERE) is None
    first = explain(verdict).partition("\n")[0]
    assert len(first) < 240
    assert len(explain(verdict)) < 900
    assert causes(verdict)[0].reason == verdict.reason
    return verdict


def asked_by(pod: PodBuilder) -> Demand:
    found = read_pod(pod.raw()).demand
    assert found is not None
    return found


class TestWholeGpus:
    def test_an_amount_takes_a_whole_gpu_where_nothing_is_shared(self) -> None:
        placed = chosen(demand(ask(2)), a10g())
        assert placed.shares == ()
        assert placed.unit_shares == (UnitShare("main", GPU, 1),)
        assert placed.units == ((GPU, 1),)

    def test_n_cards_are_n_gpus(self) -> None:
        assert chosen(demand(ask(20, 2)), a10g(gpus=4)).units == ((GPU, 2),)

    @pytest.mark.parametrize("amount", [WHOLE, Amount(gb=22)])
    def test_the_whole_of_a_gpu_may_be_asked(self, amount: Amount) -> None:
        assert chosen(demand(ask(amount)), a10g()).units == ((GPU, 1),)

    def test_a_pod_that_stands_there_takes_its_gpu_whoever_placed_it(self) -> None:
        assert refusal(demand(ask(2)), a10g(pods=[user("theirs", {GPU: 1})])).reason is Reason.SHARING_NOT_CONFIGURED

    def test_a_reservation_whose_pod_is_not_seen_yet_takes_its_gpu(self) -> None:
        assert refusal(demand(ask(2)), a10g(ledger={"r": held({GPU: 1})})).reason is Reason.SHARING_NOT_CONFIGURED

    def test_a_reservation_and_its_pod_are_counted_once(self) -> None:
        state = a10g(gpus=2, ledger={"aaaaaaaaaa": held({GPU: 1})}, pods=[user("ours", {GPU: 1}, "eks", "aaaaaaaaaa")])
        assert state.free_units(GPU) == 1
        assert state.requested[GPU] == 1

    def test_of_two_pods_with_one_id_the_entry_stands_for_one(self) -> None:
        pods = [user(name, {GPU: 1}, "eks", "aaaaaaaaaa") for name in ("one", "two")]
        assert a10g(gpus=4, ledger={"aaaaaaaaaa": held({GPU: 2})}, pods=pods).free_units(GPU) == 1

    def test_what_is_used_is_told_of_the_lowest_cards(self) -> None:
        state = a10g(gpus=3, pods=[user("one", {GPU: 2})])
        assert state.free_gb == (0, 0, 22)
        assert state.used_gb == {0: 22, 1: 22}

    def test_containers_may_each_have_one(self) -> None:
        wanted = demand(ask(6, container="a"), ask(8, container="b"))
        placed = chosen(wanted, a10g(gpus=2))
        assert sorted(share.container for share in placed.unit_shares) == ["a", "b"]
        assert placed.units == ((GPU, 2),)
        verdict = refusal(wanted, a10g(gpus=1))
        assert verdict.every_container_alone
        assert "but not for all containers at once" in explain(verdict)

    def test_more_than_the_gpu_holds_is_short_of_capacity(self) -> None:
        verdict = refusal(demand(ask(23)), a10g())
        assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
        assert "has 22 GB and is 1 GB too small" in explain(verdict)
        assert not verdict.can_wait

    def test_a_whole_gpu_that_is_taken_is_no_question_of_sharing(self) -> None:
        assert refusal(counted(1), a10g(pods=[user("one", {GPU: 1})])).reason is Reason.INSUFFICIENT_CAPACITY

    def test_more_gpus_than_are_free_are_short_of_count(self) -> None:
        verdict = refusal(counted(3), a10g(gpus=4, pods=[user("one", {GPU: 2})]))
        assert verdict.reason is Reason.INSUFFICIENT_GPU_COUNT
        assert verdict.can_wait
        assert "eks, has 2 of 4 nvidia.com/gpu" in explain(verdict)

    def test_the_chart_makes_cards_exclusive_and_the_reason_stays(self) -> None:
        state = a10g(pods=[user("one", {GPU: 1})])
        assert refusal(demand(ask(2), policy=Policy.EXCLUSIVE), state).reason is Reason.SHARING_NOT_CONFIGURED


class TestSharing:
    def test_it_is_named_as_missing_where_only_whole_gpus_are_given_away(self) -> None:
        verdict = refusal(demand(ask(2)), a10g(pods=[user("one", {GPU: 1})]))
        assert verdict.reason is Reason.SHARING_NOT_CONFIGURED
        assert verdict.can_wait
        text = explain(verdict)
        assert text.startswith("sharing_not_configured: needs 2 GB on one card; the best node, eks, has 0 of 1 ")
        assert "time-slicing or MPS" in text

    def test_it_is_not_where_another_node_could_serve_the_amount(self) -> None:
        full = a10g(pods=[user("one", {GPU: 1})])
        agent = node("own", cards(24), ledger={"r": entry({0: 23})})
        assert refusal(demand(ask(2)), full, agent).reason is Reason.INSUFFICIENT_CAPACITY
        small = node("own", cards(1), ledger={"r": entry({0: 1})})
        assert refusal(demand(ask(2)), full, small).reason is Reason.SHARING_NOT_CONFIGURED

    def test_it_is_not_where_the_node_cannot_take_the_pod_for_other_reasons(self) -> None:
        pod = a_pod().annotated("kamiwaza.ai/vram-gb", "2").requesting(cpu="500")
        constraints = read_constraints(pod.raw(), without=is_booked)
        verdict = place(cluster(a10g(pods=[user("one", {GPU: 1})])), demand(ask(2)), constraints)
        assert isinstance(verdict, NoFit)
        assert verdict.reason is Reason.INSUFFICIENT_CAPACITY

    @pytest.mark.parametrize("gb", [1, 6])
    def test_a_replica_serves_what_it_holds(self, gb: int) -> None:
        assert chosen(demand(ask(gb)), _replicas()).units == ((GPU, 1),)

    def test_a_replica_is_its_part_of_the_card_and_no_more(self) -> None:
        verdict = refusal(demand(ask(7)), _replicas())
        assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
        assert "has 6 GB and is 1 GB too small" in explain(verdict)

    def test_replicas_that_are_all_taken_are_short_of_capacity(self) -> None:
        verdict = refusal(demand(ask(6)), _replicas(pods=[user("four", {GPU: 4})]))
        assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
        assert verdict.can_wait

    @pytest.mark.parametrize("wanted", [demand(ask(2, 2)), counted(2)], ids=["an amount", "a plain count"])
    def test_two_replicas_are_not_two_cards(self, wanted: Demand) -> None:
        verdict = refusal(wanted, _replicas())
        assert verdict.reason is Reason.INSUFFICIENT_GPU_COUNT
        assert "two of them may lie on one card" in explain(verdict)

    def test_a_plain_gpu_on_a_shared_node_is_one_replica(self) -> None:
        assert chosen(counted(1), _replicas()).units == ((GPU, 1),)

    @pytest.mark.parametrize(
        "wanted", [demand(ask(WHOLE)), demand(ask(2), policy=Policy.EXCLUSIVE)], ids=["whole", "exclusive"]
    )
    def test_a_card_of_ones_own_is_no_replica(self, wanted: Demand) -> None:
        refusal(wanted, _replicas())
        assert chosen(wanted, _replicas(), a10g("whole")).node == "whole"

    def test_the_policy_that_wants_one_is_named(self) -> None:
        verdict = refusal(demand(ask(2), policy=Policy.EXCLUSIVE), _replicas())
        assert "and a card of its own is asked (kamiwaza.ai/policy: exclusive).\n" in explain(verdict)
        assert "Do without kamiwaza.ai/policy: exclusive, or add a node that gives" in explain(verdict)
        for wanted in (demand(ask(2, 2), policy=Policy.EXCLUSIVE), demand(ask(WHOLE), policy=Policy.EXCLUSIVE)):
            assert "kamiwaza.ai/policy" not in explain(refusal(wanted, _replicas()))

    def test_replicas_in_use_are_told_in_gb_of_the_card(self) -> None:
        assert _replicas(pods=[user("one", {GPU: 1})]).used_gb == {0: 6}
        assert _replicas(pods=[user("one", {GPU: 1})]).free_gb == (18,)

    def test_a_replica_is_preferred_to_a_whole_gpu_and_mps_is_the_same(self) -> None:
        mps = managed("mps", {GPU: 2, SHARED: 0}, {"nvidia.com/gpu.sharing-strategy": "mps"}, memory="24576", count="1")
        assert chosen(demand(ask(10)), mps).units == ((GPU, 1),)
        assert chosen(demand(ask(12)), mps, a10g("whole")).node in {"mps", "whole"}

    def test_a_renamed_resource_serves_amounts_and_those_who_name_it(self) -> None:
        renamed = managed("r", {SHARED: 4, GPU: 0}, memory="24576", count="1", replicas="4")
        assert chosen(demand(ask(6)), renamed).units == ((SHARED, 1),)
        assert chosen(asked_by(a_pod().limited_to({SHARED: "1"})), renamed).units == ((SHARED, 1),)
        pod = a_pod().limited_to({GPU: "1"}).annotated("kamiwaza.ai/vram-gb", "5")
        assert chosen(asked_by(pod), renamed).units == ((SHARED, 1),)
        assert refusal(asked_by(a_pod().limited_to({GPU: "1"})), renamed).reason is Reason.INSUFFICIENT_CAPACITY
        assert "offers nvidia.com/gpu.shared" in explain(refusal(asked_by(a_pod().limited_to({SHARED: "1"})), a10g()))


class TestOtherNodes:
    def test_a_unit_of_another_vendor_than_that_of_cards_which_are_never_given_away(self) -> None:
        intel = node("arc", cards(16, vendor=Vendor.INTEL))
        verdict = refusal(asked_by(a_pod().limited_to({SHARED: "1"})), intel)
        assert verdict.reason is Reason.VENDOR_MISMATCH
        assert "the only node it may use has Intel cards" in explain(verdict)

    def test_amd_gpus_are_units_of_their_own_resource(self) -> None:
        amd = managed("aks", {AMD: 8}, {"amd.com/gpu.vram": "192G", "amd.com/gpu.product-name": "MI300X"})
        assert chosen(demand(ask(190, 8)), amd).units == ((AMD, 8),)
        assert refusal(demand(ask(2), vendor=Vendor.NVIDIA), amd).reason is Reason.VENDOR_MISMATCH
        assert chosen(demand(ask(2), vendor=Vendor.AMD), amd, a10g()).node == "aks"

    def test_the_version_of_the_driver_is_read_from_labels(self) -> None:
        old = a10g(labels={"nvidia.com/cuda.runtime-version.full": "12.4"})
        assert refusal(demand(ask(2), accel="cuda>=12.9"), old).reason is Reason.ACCEL_VERSION_UNMET
        assert chosen(demand(ask(2), accel="cuda>=12.4"), old).node == "eks"

    def test_a_node_of_unknown_size_serves_counts_and_the_missing_label_is_named(self) -> None:
        nameless = managed("new", {GPU: 2}, product="NVIDIA-L4")
        assert chosen(counted(2), nameless).units == ((GPU, 2),)
        assert chosen(demand(ask(WHOLE)), nameless).units == ((GPU, 1),)
        verdict = refusal(demand(ask(4)), nameless)
        assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
        assert "unknown size (no label nvidia.com/gpu.memory)" in explain(verdict)

    def test_a_slice_whose_name_tells_no_size_is_of_unknown_size(self) -> None:
        custom = "nvidia.com/mig-custom"
        verdict = refusal(demand(ask(4)), managed("mig", {custom: 1}))
        assert f"unknown size (no label {custom}.memory)" in explain(verdict)
        labelled = managed("mig", {custom: 1}, {f"{custom}.memory": "9728"})
        assert chosen(demand(ask(4)), labelled).units == ((custom, 1),)

    def test_a_plugin_that_is_away_offers_nothing(self) -> None:
        verdict = refusal(demand(ask(4)), managed("new", {}, memory="23028", count="2", product="NVIDIA-L4"))
        assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
        assert "new advertises no nvidia.com/gpu now" in explain(verdict)

    @pytest.mark.parametrize("offered", [{}, {GPU: 0}], ids=["not named", "zero"])
    @pytest.mark.parametrize("wanted", [demand(ask(4)), counted(1), counted(8)], ids=["an amount", "one", "eight"])
    def test_one_that_is_away_is_waited_for(self, offered: dict[str, int], wanted: Demand) -> None:
        verdict = refusal(wanted, managed("new", offered, memory="23028", count="2", product="NVIDIA-L4"))
        assert verdict.can_wait
        assert explain(verdict).partition("\n")[2] == (
            "It is placed by itself as soon as the device plugin of new offers nvidia.com/gpu again. "
            "To be placed sooner, look at the device plugin of new, or add a node that offers nvidia.com/gpu."
        )

    def test_one_whose_units_would_not_do_is_not_waited_for(self) -> None:
        away = managed("new", {GPU: 0}, memory="23028", count="2", product="NVIDIA-L4")
        verdict = refusal(demand(ask(40)), away)
        assert not verdict.can_wait
        assert "Larger than any unit" in explain(verdict)
        shared = managed("new", {GPU: 0}, memory="24576", count="1", replicas="4")
        assert "Parts of cards do not become cards" in explain(refusal(counted(2), shared))

    def test_what_is_zero_beside_what_the_plugin_offers_is_left_over(self) -> None:
        renamed = managed("r", {SHARED: 4, GPU: 0}, memory="24576", count="1", replicas="4")
        assert not refusal(counted(1), renamed).can_wait
        cut_anew = node("mig", cards(80), a_node("mig").offering({SLICE: "0", "nvidia.com/mig-2g.20gb": "3"}))
        assert not refusal(Demand((), units=(slices(),)), cut_anew).can_wait

    def test_slices_of_a_plugin_that_is_away_are_waited_for(self) -> None:
        cut = node("mig", [replace(card(0, 80), partitioned=True)], a_node("mig").offering({SLICE: "0"}))
        verdict = refusal(Demand((), units=(slices(),)), cut)
        assert verdict.can_wait
        assert f"as soon as the device plugin of mig offers {SLICE} again" in explain(verdict)

    def test_an_amount_waits_for_slices_that_were_published_before_their_plugin_went_away(self) -> None:
        cut = managed("mig", {SLICE: 2})
        away = replace(cut, facts=replace(cut.facts, allocatable={**cut.facts.allocatable, SLICE: 0}))
        verdict = refusal(demand(ask(4)), away)
        assert verdict.can_wait
        assert f"as soon as the device plugin of mig offers {SLICE} again" in explain(verdict)

    def test_one_that_is_away_is_nearer_than_one_with_too_few(self) -> None:
        away = managed("b", {GPU: 0}, memory="23028", count="4", product="NVIDIA-A10G")
        for others in (a10g("a", 2), a10g("c", 2)):
            verdict = refusal(counted(4), away, others)
            assert verdict.can_wait
            assert "b advertises no nvidia.com/gpu now" in explain(verdict)
        assert "a, has 0 of 4 nvidia.com/gpu" in explain(
            refusal(counted(4), away, a10g("a", 4, pods=[user("one", {GPU: 4}, "a")]))
        )

    def test_a_full_managed_node_and_a_small_card_are_told_by_the_nearer(self) -> None:
        verdict = refusal(demand(ask(20)), a10g(pods=[user("one", {GPU: 1})]), node("own", cards(8)))
        assert verdict.unit is not None
        assert verdict.attempts == ()
        far = refusal(demand(ask(50)), a10g(), node("own", cards(40)))
        assert far.unit is None
        assert far.attempts[0].node == "own"

    def test_a_room_that_was_found_is_checked_again(self) -> None:
        assert fits(a10g(), (), units=((GPU, 1),))
        assert not fits(a10g(pods=[user("one", {GPU: 1})]), (), units=((GPU, 1),))


class TestOtherPlugin:
    """A node with our agent on which a vendor's plugin gives whole cards away too."""

    def test_the_other_plugin_books_until_the_mode_is_set(self) -> None:
        both = node("both", cards(24, 24), a_node("both").offering({GPU: "2"}))
        placed = chosen(demand(ask(6)), both)
        assert (placed.shares, placed.units) == ((), ((GPU, 1),))

    def test_shares_that_are_there_already_keep_their_card(self) -> None:
        both = node("both", cards(24, 24), a_node("both").offering({GPU: "2"}), ledger={"r": entry({0: 6})})
        assert both.free_units(GPU) == 1
        assert refusal(demand(ask(6, 2)), both).reason is Reason.INSUFFICIENT_GPU_COUNT

    def test_its_replicas_are_parts_of_the_smallest_card(self) -> None:
        both = node("both", cards(24, 16), a_node("both").offering({GPU: "8"}))
        assert [(kind.gb, kind.per_card) for kind in both.kinds] == [(4, 4)]

    def test_a_plugin_that_restarts_offers_no_more_than_there_are_cards(self) -> None:
        pods = [user("one", {GPU: 1}, "both")]
        away = node("both", cards(24, 24), a_node("both").offering({GPU: "0"}), pods=pods)
        assert refusal(counted(2), away).can_wait
        verdict = refusal(counted(3), away)
        assert not verdict.can_wait
        assert "No node it may use has that many nvidia.com/gpu" in explain(verdict)

    def test_a_plugin_that_restarts_is_there_as_long_as_pods_have_its_units(self) -> None:
        away = node("both", cards(24), a_node("both").offering({GPU: "0"}), pods=[user("one", {GPU: 1}, "both")])
        assert refusal(demand(ask(6)), away).resource == GPU
        assert node("own", cards(24), a_node("own").offering({GPU: "0"})).kinds == ()


class TestSlices:
    def test_they_pass_through_to_a_node_that_has_one_free(self) -> None:
        wanted = Demand((), units=(slices(),))
        full = managed("full", {SLICE: 1}, pods=[user("one", {SLICE: 1}, "full")])
        placed = chosen(wanted, full, managed("free", {SLICE: 2}))
        assert (placed.node, placed.shares, placed.units) == ("free", (), ((SLICE, 1),))

    def test_they_pass_through_on_a_node_with_our_agent(self) -> None:
        state = node("own", cards(80), a_node("own").offering({SLICE: "2"}))
        assert chosen(Demand((), units=(slices(),)), state).units == ((SLICE, 1),)
        both = demand(ask(6, container="a"))
        mixed = Demand(both.asks, units=(slices(container="b"),))
        placed = chosen(mixed, state)
        assert placed.booking == ((0, 6),)
        assert placed.units == ((SLICE, 1),)

    def test_a_count_of_zero_means_that_there_are_none(self) -> None:
        stale = node("own", cards(96), a_node("own").offering({SLICE: "0"}))
        assert chosen(demand(ask(40)), stale).booking == ((0, 40),)
        verdict = refusal(Demand((), units=(slices(),)), stale)
        assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
        assert f"no node it may use offers {SLICE}" in explain(verdict)
        assert not verdict.can_wait

    def test_slices_that_are_taken_are_named(self) -> None:
        state = managed("mig", {SLICE: 2}, pods=[user("one", {SLICE: 2}, "mig")])
        verdict = refusal(Demand((), units=(slices(),)), state)
        assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
        assert f"0 of 2 {SLICE} free" in explain(verdict)
        assert verdict.can_wait

    def test_more_slices_than_there_are_is_a_question_of_count(self) -> None:
        verdict = refusal(Demand((), units=(slices(count=3),)), managed("mig", {SLICE: 2}))
        assert verdict.reason is Reason.INSUFFICIENT_GPU_COUNT
        assert "has that many" in explain(verdict)

    def test_containers_are_counted_together(self) -> None:
        wanted = Demand((), units=(slices(container="a"), slices(container="b")))
        assert chosen(wanted, managed("mig", {SLICE: 2})).units == ((SLICE, 2),)
        verdict = refusal(wanted, managed("mig", {SLICE: 1}))
        assert verdict.reason is Reason.INSUFFICIENT_CAPACITY

    def test_an_amount_takes_the_smallest_slice_that_holds_it(self) -> None:
        large = "nvidia.com/mig-3g.40gb"
        state = managed("mig", {SLICE: 1, large: 1, GPU: 0}, {f"{SLICE}.memory": "9728"})
        assert chosen(demand(ask(9)), state).units == ((SLICE, 1),)
        assert chosen(demand(ask(10)), state).units == ((large, 1),)
        assert refusal(demand(ask(40)), state).reason is Reason.INSUFFICIENT_CAPACITY
        assert refusal(demand(ask(9, 2)), state).reason is Reason.INSUFFICIENT_GPU_COUNT

    def test_who_names_gpus_gets_no_slices(self) -> None:
        state = managed("mig", {SLICE: 4})
        verdict = refusal(counted(1), state)
        assert verdict.reason is Reason.INSUFFICIENT_CAPACITY
        assert "no node it may use offers nvidia.com/gpu." in explain(verdict)
        assert "offers nvidia.com/gpu." in explain(refusal(demand(ask(Amount(percent=WHOLE.percent))), state))
        part_of_amd = demand(ask(WHOLE), vendor=Vendor.AMD)
        parts = managed("amd", {AMD: 1}, {"amd.com/gpu.compute-memory-partition": "CPX_NPS1"})
        assert refusal(part_of_amd, parts).unit is not None
        pod = a_pod().limited_to({GPU: "1"}).annotated("kamiwaza.ai/vram-gb", "4")
        assert refusal(asked_by(pod), state).reason is Reason.INSUFFICIENT_CAPACITY

    def test_where_slices_are_the_gpus_they_are_never_two_cards(self) -> None:
        single = managed(
            "mig", {GPU: 7}, memory="4864", count="7", replicas="1", product="NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"
        )
        assert chosen(demand(ask(4)), single).units == ((GPU, 1),)
        assert refusal(demand(ask(5)), single).reason is Reason.INSUFFICIENT_CAPACITY
        assert refusal(counted(2), single).reason is Reason.INSUFFICIENT_GPU_COUNT

    def test_on_cards_of_another_vendor_they_are_a_mismatch(self) -> None:
        wanted = asked_by(a_pod().limited_to({SLICE: "1"}))
        assert refusal(wanted, node("amd", cards(64, vendor=Vendor.AMD))).reason is Reason.VENDOR_MISMATCH


class TestCountingRule:
    def test_an_init_container_has_the_unit_before_the_one_that_serves(self) -> None:
        pod = a_pod().annotated("kamiwaza.ai/vram-gb", "8").annotated("kamiwaza.ai/vram-gb.warm", "12").init("warm")
        placed = chosen(asked_by(pod), a10g())
        assert placed.units == ((GPU, 1),)
        assert {share.container for share in placed.unit_shares} == {"main", "warm"}
        refusal(asked_by(pod.annotated("kamiwaza.ai/vram-gb.warm", "30")), a10g())

    def test_a_sidecar_has_its_own_beside_the_others(self) -> None:
        pod = (
            a_pod()
            .annotated("kamiwaza.ai/vram-gb.main", "8")
            .annotated("kamiwaza.ai/vram-gb.helper", "2")
            .sidecar("helper")
        )
        assert chosen(asked_by(pod), a10g(gpus=2)).units == ((GPU, 2),)
        refusal(asked_by(pod), a10g())


def _replicas(**fields: object) -> NodeState:
    """One card of 24 GB in four replicas."""
    return managed("eks", {GPU: 4}, memory="24576", count="1", replicas="4", product="NVIDIA-A10-SHARED", **fields)  # type: ignore[arg-type]


class TestUnitsBesideCards:
    """One container asks for a GPU and another for a slice, and each node lacks one of the two."""

    GPUS = managed("gpus", {GPU: 1}, memory="24576", count="1")
    SLICES = managed("slices", {SLICE: 2}, memory="24576", count="1")
    BOTH = a_pod().limited_to({GPU: "1"}).container("other", resources={"limits": {SLICE: "1"}})

    @pytest.mark.parametrize("with_gpus", [GPUS, node("gpus", cards(80))], ids=["managed", "ours"])
    def test_the_resource_that_a_node_lacks_is_named(self, with_gpus: NodeState) -> None:
        refused = refusal(asked_by(self.BOTH), with_gpus, self.SLICES)
        assert explain(refused).startswith(
            f"insufficient_capacity: needs a whole NVIDIA card and 1 {SLICE}; no node it may use offers {GPU}; "
            f"1 node is excluded: short of {SLICE}.\n"
        )

    def test_the_node_that_has_the_slices_is_the_nearest(self) -> None:
        full = managed("full", {GPU: 1, SLICE: 1}, memory="24576", count="1", pods=[user("o", {GPU: 1}, "full")])
        refused = refusal(asked_by(self.BOTH), self.GPUS, full)
        assert f"full, has 0 of 1 {GPU} of 24 GB free; 1 node is excluded: short of {SLICE}." in explain(refused)
        assert refused.can_wait

    def test_what_no_node_has_is_spoken_of_first(self) -> None:
        refused = refusal(asked_by(self.BOTH), self.GPUS)
        assert f"no node it may use offers {SLICE}.\n" in explain(refused)

    def test_of_two_kinds_of_slices_each_that_is_short_is_named(self) -> None:
        other = "nvidia.com/mig-2g.20gb"
        pod = a_pod().limited_to({SLICE: "1"}).container("other", resources={"limits": {other: "1"}})
        refused = refusal(asked_by(pod), managed("others", {other: 1}), self.SLICES)
        assert {excluded.words for excluded in refused.excluded} == {f"1 short of {SLICE}", f"1 short of {other}"}


class TestServerOverParts:
    """A model server that spreads over several cards needs cards of their own, and neither slices nor replicas are."""

    IMAGE = "vllm/vllm-openai:v0.11.0"
    PARTS = managed("parts", {SLICE: 4, SHARED: 4}, memory="24576", count="1", replicas="4")

    def _asked(self, resource: str, count: int, **container: object) -> Demand:
        pod = a_pod().limited_to({resource: str(count)}).raw()
        pod["spec"]["containers"][0] |= {"image": self.IMAGE, **container}
        found = read_pod(pod).demand
        assert found is not None
        return found

    @pytest.mark.parametrize("resource", [SLICE, SHARED])
    @pytest.mark.parametrize("count", [1, 2])
    @pytest.mark.parametrize(
        "container",
        [
            pytest.param({"args": ["--model", "org/m", "--tensor-parallel-size", "2"]}, id="argument"),
            pytest.param({"args": ["--model", "org/m", "-tp=2"]}, id="short"),
            pytest.param({"args": ["--pipeline-parallel-size", "2"]}, id="pipeline"),
            pytest.param(
                {"args": ["--tensor-parallel-size", "$(TP)"], "env": [{"name": "TP", "value": "2"}]}, id="variable"
            ),
            pytest.param(
                {"command": ["/bin/sh", "-c"], "args": ["exec vllm serve org/m --tensor-parallel-size 2"]}, id="shell"
            ),
            pytest.param(
                {
                    "image": "lmsysorg/sglang:v0.5.3",
                    "command": ["python3"],
                    "args": ["-m", "sglang.launch_server", "--tp", "2"],
                },
                id="another engine",
            ),
        ],
    )
    def test_it_is_refused_however_many_are_free(self, resource: str, count: int, container: dict[str, object]) -> None:
        refused = refusal(self._asked(resource, count, **container), self.PARTS)
        assert (refused.reason, refused.count, refused.can_wait) == (Reason.INSUFFICIENT_GPU_COUNT, 2, False)
        first, _, rest = explain(refused).partition("\n")
        assert first.endswith(f"; {resource} of parts is a part of a card, and its server spreads over 2 cards.")
        one = "one slice" if resource == SLICE else "one replica"
        assert rest == (
            "No server can spread over parts of cards, so waiting does not help. "
            f"Run it on {one}, with its parallel sizes at 1, or ask for whole cards (nvidia.com/gpu) instead."
        )

    @pytest.mark.parametrize("container", [{"args": ["--model", "org/m"]}, {"image": "example/two-processes"}])
    def test_several_slices_without_a_servers_parallelism_are_given(self, container: dict[str, object]) -> None:
        assert chosen(self._asked(SLICE, 2, **container), self.PARTS).units == ((SLICE, 2),)

    @pytest.mark.parametrize("container", [{"args": ["--model", "org/m"]}, {"image": "example/two-processes"}])
    def test_several_replicas_are_refused_whatever_uses_them(self, container: dict[str, object]) -> None:
        refused = refusal(self._asked(SHARED, 2, **container), self.PARTS)
        assert (refused.reason, refused.count, refused.can_wait) == (Reason.INSUFFICIENT_GPU_COUNT, 2, False)
        first, _, rest = explain(refused).partition("\n")
        assert first.endswith(f"; {SHARED} of parts is a part of a card, and two of them may lie on one card.")
        assert f"so waiting does not help. Ask for one of them to a container ({SHARED}), or" in rest

    def test_containers_of_one_pod_have_a_replica_each(self) -> None:
        pod = a_pod().limited_to({SHARED: "1"}).container("other", resources={"limits": {SHARED: "1"}})
        assert chosen(asked_by(pod), self.PARTS).units == ((SHARED, 2),)

    def test_a_server_of_one_slice_beside_one_of_two_cards_is_given_both(self) -> None:
        pod = a_pod().limited_to({SLICE: "1"}).raw()
        pod["spec"]["containers"].append(
            {
                "name": "large",
                "image": self.IMAGE,
                "args": ["--tensor-parallel-size", "2"],
                "resources": {"limits": {GPU: "2"}},
            }
        )
        found = read_pod(pod).demand
        assert found is not None
        mixed = managed("mixed", {GPU: 2, SLICE: 1}, memory="24576", count="2")
        assert chosen(found, mixed).units == ((GPU, 2), (SLICE, 1))

    def test_where_no_node_offers_the_slices_that_is_said(self) -> None:
        refused = refusal(self._asked(SLICE, 1, args=["--tensor-parallel-size", "2"]), a10g())
        assert f"no node it may use offers {SLICE}" in explain(refused)
