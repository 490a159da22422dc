"""A placement touches what it may touch, can be taken off again, and is recognised as itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import jsonpatch
from hypothesis import assume, given, reject
from hypothesis import strategies as st

from shared.core.cards import Vendor
from shared.core.constraints import read_constraints
from shared.core.demand import REPLACED_RESOURCES, is_booked, read_pod
from shared.core.invalid import InvalidRequest
from shared.core.placement import Placed, place
from shared.core.pods import pinned_node
from tests.builders import a_node
from tests.property.asking_pods import asking_pods
from tests.unit.core_builders import cards, cluster, node
from tests.unit.rewriting import ID, injecting, without_empty
from webhook.agreement import refuse_disagreement
from webhook.devices import DEVICE_VARIABLES as DEVICES
from webhook.marks import booked_shares, is_marked, reservation_of, strip
from webhook.patch import PodPatch
from webhook.placed_record import read_record
from webhook.rewrite import rewrite
from webhook.second_look import digest_of

CLUSTER = cluster(
    node("nvidia", cards(16, 24, 80), a_node("nvidia").labelled(zone="west")),
    injecting(node("cdi", cards(40, 40), a_node("cdi").labelled(zone="east")), "cdi"),
    node("amd", cards(64, 64, vendor=Vendor.AMD), a_node("amd").labelled(zone="west")),
)
CARD = re.compile(r"kamiwaza\.ai/vram-gb-gpu-[0-9]+")


@st.composite
def placements(draw: st.DrawFn) -> tuple[dict[str, Any], PodPatch, Placed, tuple[str, ...]]:
    """A pod, what became of it, where it is, and the containers that may use cards."""
    pod = draw(asking_pods())
    try:
        read = read_pod(pod)
    except InvalidRequest:
        reject()
    demand = read.demand
    assume(demand is not None)
    assert demand is not None
    verdict = place(CLUSTER, demand, read_constraints(pod, without=REPLACED_RESOURCES.__contains__))
    assume(isinstance(verdict, Placed))
    assert isinstance(verdict, Placed)
    patch = PodPatch(pod)
    rewrite(patch, read, verdict, CLUSTER.nodes[verdict.node], ID, draw(st.sampled_from([None, "nvidia"])))
    users = [user for ask in demand.asks for user in (ask.container, *ask.init_containers)]
    return pod, patch, verdict, tuple(users)


def differences(old: Any, new: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The paths at which two pods differ; containers and variables are addressed by name."""
    if isinstance(old, list) and isinstance(new, list) and path[-1:] and path[-1] in {"containers", "initContainers"}:
        assert [each["name"] for each in old] == [each["name"] for each in new]
        for one, other in zip(old, new, strict=True):
            yield from differences(one, other, (*path, one["name"]))
    elif path[-1:] == ("env",):
        before, after = ([each for each in env or () if each["name"] not in DEVICES] for env in (old, new))
        if before != after:
            yield path
        for name in {each["name"] for each in (*(old or ()), *(new or ()))} & DEVICES:
            if [each for each in old or () if each["name"] == name] != [
                each for each in new or () if each["name"] == name
            ]:
                yield (*path, name)
    elif (isinstance(old, dict) or old is None) and (isinstance(new, dict) or new is None):
        for key in {**(old or {}), **(new or {})}:
            yield from differences((old or {}).get(key), (new or {}).get(key), (*path, key))
    elif old != new:
        yield path


def may_differ(path: tuple[str, ...], users: tuple[str, ...]) -> bool:
    match path:
        case ("metadata", "labels", "kamiwaza.ai/reservation") | ("metadata", "annotations", "kamiwaza.ai/placed"):
            return True
        case (
            "spec",
            "affinity",
            "nodeAffinity",
            "requiredDuringSchedulingIgnoredDuringExecution",
            "nodeSelectorTerms",
        ):
            return True
        case ("spec", "runtimeClassName"):
            return True
        case ("spec", "containers" | "initContainers", name, "resources", "limits" | "requests", resource):
            return name in users and (resource in REPLACED_RESOURCES or CARD.fullmatch(resource) is not None)
        case ("spec", "containers" | "initContainers", name, "env", _variable):
            return name in users
    return False


@given(placements())
def test_nothing_but_what_a_placement_consists_of_is_touched(
    made: tuple[dict[str, Any], PodPatch, Placed, tuple[str, ...]],
) -> None:
    pod, patch, _, users = made
    assert [path for path in differences(pod, patch.pod) if not may_differ(path, users)] == []
    assert pod["spec"].get("runtimeClassName") in (None, patch.pod["spec"].get("runtimeClassName"))


@given(placements())
def test_the_patch_gives_the_api_server_the_same_pod(
    made: tuple[dict[str, Any], PodPatch, Placed, tuple[str, ...]],
) -> None:
    pod, patch, _, _ = made
    assert jsonpatch.apply_patch(pod, patch.ops) == patch.pod


@given(placements())
def test_stripping_gives_back_what_the_user_wrote(
    made: tuple[dict[str, Any], PodPatch, Placed, tuple[str, ...]],
) -> None:
    pod, patch, _, _ = made
    back = PodPatch(patch.pod)
    strip(back)
    assert comparable(back.pod) == comparable(pod)
    assert not is_marked(back.pod)


@given(placements())
def test_without_its_marks_a_pod_demands_what_it_did_when_it_was_placed(
    made: tuple[dict[str, Any], PodPatch, Placed, tuple[str, ...]],
) -> None:
    pod, patch, _, _ = made
    back = PodPatch(patch.pod)
    strip(back)
    before, after = (read_constraints(each, without=is_booked) for each in (pod, back.pod))
    assert digest_of(after) == digest_of(before)


@given(placements())
def test_pod_ledger_and_pin_say_the_same(made: tuple[dict[str, Any], PodPatch, Placed, tuple[str, ...]]) -> None:
    _, patch, placed, _ = made
    assert reservation_of(patch.pod) == ID
    assert booked_shares(patch.pod) == placed.booking
    assert pinned_node(patch.pod["spec"]) == placed.node


@given(placements(), st.booleans(), st.booleans())
def test_a_placed_pod_agrees_with_itself_whatever_helper_is_added(
    made: tuple[dict[str, Any], PodPatch, Placed, tuple[str, ...]], helper: bool, defaulted: bool
) -> None:
    _, patch, placed, _ = made
    if defaulted:
        for container in patch.pod["spec"]["containers"]:
            if any(CARD.fullmatch(resource) for resource in (container.get("resources") or {}).get("limits") or ()):
                container["resources"]["limits"]["nvidia.com/gpu"] = "0"
    if helper:
        patch.pod["spec"]["containers"].insert(0, {"name": "proxy", "resources": {"limits": {"cpu": "1"}}})
    refuse_disagreement(patch.pod, placed.node, CLUSTER.nodes[placed.node].inventory)
    told = {(share.container, share.index, share.gb) for share in read_record(patch.pod).shares}
    assert told == {(share.container, share.card.index, share.gb) for share in placed.shares}


@given(placements())
def test_a_pin_selects_its_node_and_no_other(made: tuple[dict[str, Any], PodPatch, Placed, tuple[str, ...]]) -> None:
    pod, patch, placed, _ = made
    before, after = read_constraints(pod), read_constraints(patch.pod)
    assert [state.name for state in CLUSTER if after.select(state.facts)] == [placed.node]
    assert before.select(CLUSTER.nodes[placed.node].facts)


def comparable(pod: dict[str, Any]) -> Any:
    """A pod without empty maps, its variables by name: one that was removed returns at the end of the list."""
    plain = without_empty(pod)
    for kind in ("containers", "initContainers"):
        for container in plain["spec"].get(kind, ()):
            if "env" in container:
                container["env"] = sorted(container["env"], key=lambda variable: str(variable["name"]))
    return plain
