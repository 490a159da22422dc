"""The `ModelPlacement` of a workload: its name, and how it comes into being."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared.core.owners import OwnerRef
from shared.kube import paths
from shared.kube.errors import Conflict, Unavailable
from shared.kube.model_placements import patch_status, placement_name, read_status, refusal_key
from tests.fakes import faults
from tests.fakes.apiserver import place_of
from tests.fakes.serving import Served, serving

CHAT = OwnerRef("apps/v1", "Deployment", "chat", "uid-chat")


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


def stored(served: Served) -> dict[str, Any]:
    return served.server.objects.get(place_of(paths.model_placements("models", "deployment-chat")))


def test_it_is_named_after_kind_and_name_of_the_workload() -> None:
    assert placement_name(CHAT) == "deployment-chat"
    assert refusal_key(OwnerRef("apps/v1", "ReplicaSet", "chat-5d4f", "uid")) == "ReplicaSet.chat-5d4f"


def test_a_name_that_would_be_too_long_is_cut_and_stays_its_own() -> None:
    names = {placement_name(OwnerRef("apps/v1", "StatefulSet", "x" * 240 + end, "uid")) for end in ("", "a", "b", "-c")}
    longest = placement_name(OwnerRef("apps/v1", "Job", "y" * 249, "uid"))
    assert len(names) == 4
    assert {len(name) <= 253 for name in names} == {True}
    assert longest == "job-" + "y" * 249


def test_a_cut_never_leaves_a_dot_or_a_dash_before_the_hash() -> None:
    cut = placement_name(OwnerRef("apps/v1", "Job", "y" * 239 + "..--" + "z" * 10, "uid"))
    assert ".-" not in cut
    assert "--" not in cut


async def test_the_object_is_created_for_its_first_status_and_goes_with_its_workload(served: Served) -> None:
    await patch_status(served.client, "models", CHAT, {"phase": "Failed"})
    assert stored(served)["status"] == {"phase": "Failed"}
    (owner,) = stored(served)["metadata"]["ownerReferences"]
    assert owner == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "chat", "uid": "uid-chat"}


async def test_a_status_is_merged_into_the_one_that_is_there(served: Served) -> None:
    await patch_status(served.client, "models", CHAT, {"phase": "Failed", "refusals": {"a": {"uid": "1"}}})
    await patch_status(served.client, "models", CHAT, {"refusals": {"a": None, "b": {"uid": "2"}}})
    assert stored(served)["status"] == {"phase": "Failed", "refusals": {"b": {"uid": "2"}}}


async def test_somebody_else_may_create_it_at_the_same_moment(served: Served) -> None:
    async def create_first(request: Any, proceed: Any) -> Any:
        served.server.objects.create(
            place_of(paths.model_placements("models")), {"metadata": {"name": "deployment-chat"}}
        )
        return await proceed(request)

    served.server.fail(create_first, method="POST")
    await patch_status(served.client, "models", CHAT, {"phase": "Failed"})
    assert stored(served)["status"] == {"phase": "Failed"}


async def test_a_write_based_on_an_old_state_is_a_conflict(served: Served) -> None:
    await patch_status(served.client, "models", CHAT, {"phase": "Failed"})
    version = stored(served)["metadata"]["resourceVersion"]
    await patch_status(served.client, "models", CHAT, {"phase": "Placed"}, version)
    with pytest.raises(Conflict):
        await patch_status(served.client, "models", CHAT, {"phase": "Running"}, version)
    assert stored(served)["status"] == {"phase": "Placed"}


async def test_the_status_is_read_live_and_empty_where_there_is_none(served: Served) -> None:
    assert await read_status(served.client, "models", CHAT) == {}
    await patch_status(served.client, "models", CHAT, {"phase": "Failed"})
    assert await read_status(served.client, "models", CHAT) == {"phase": "Failed"}


async def test_a_server_that_is_away_is_an_error_and_no_empty_status(served: Served) -> None:
    served.server.fail(faults.respond(503, "?"))
    with pytest.raises(Unavailable):
        await read_status(served.client, "models", CHAT)
