"""The walk from a pod's owner to the object that a person wrote."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from shared.core.owners import OwnerRef
from shared.kube.errors import Forbidden, Unavailable
from shared.kube.owners import Owners
from tests.fakes import faults
from tests.fakes.serving import Served, serving
from tests.unit.admission import store
from tests.unit.controlling import adopt, adopted, an_owner

APPS = "/apis/apps/v1/namespaces/models"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


@pytest.mark.parametrize(
    ("kinds", "api"),
    [
        pytest.param(("Deployment", "ReplicaSet"), "apps/v1", id="deployment"),
        pytest.param(("CronJob", "Job"), "batch/v1", id="cron-job"),
        pytest.param(("StatefulSet",), "apps/v1", id="stateful-set"),
    ],
)
async def test_the_top_is_the_object_that_a_person_wrote(served: Served, kinds: tuple[str, ...], api: str) -> None:
    top: OwnerRef | None = None
    owner: OwnerRef | None = None
    for kind in kinds:
        owner = an_owner(served, kind, f"chat-{kind.lower()}", owner, api)
        top = top or owner
    assert owner is not None
    assert await Owners(served.client).top("models", owner) == top


async def test_the_walk_ends_at_an_owner_that_is_gone(served: Served) -> None:
    gone = OwnerRef("apps/v1", "Deployment", "chat", "uid-gone")
    owner = an_owner(served, "ReplicaSet", "chat-1", gone)
    assert await Owners(served.client).top("models", owner) == gone


@pytest.mark.parametrize(
    "above",
    [
        pytest.param(OwnerRef("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "chat", "uid"), id="an-unknown-kind"),
        pytest.param(OwnerRef("apps/v1", "Deployment", "../secrets", "uid"), id="a-name-that-is-none"),
    ],
)
async def test_the_walk_ends_at_what_cannot_be_read(served: Served, above: OwnerRef) -> None:
    owner = an_owner(served, "ReplicaSet", "chat-1", above)
    assert await Owners(served.client).top("models", owner) == above


async def test_the_walk_ends_where_it_goes_round(served: Served) -> None:
    first = an_owner(served, "ReplicaSet", "a")
    second = an_owner(served, "ReplicaSet", "b", first)
    raw = {
        "metadata": {
            "name": "a",
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "b", "uid": second.uid, "controller": True}
            ],
        }
    }
    store(served.server.objects, f"{APPS}/replicasets", raw)
    assert await Owners(served.client).top("models", first) in {first, second}


async def test_what_was_walked_once_is_remembered(served: Served) -> None:
    owner = an_owner(served, "ReplicaSet", "chat-1", an_owner(served, "Deployment", "chat"))
    owners = Owners(served.client)
    first = await owners.top("models", owner)
    before = len(served.server.requests)
    assert await owners.top("models", owner) == first
    assert len(served.server.requests) == before


async def test_what_a_deployment_left_behind_belongs_to_the_one_that_adopts_it(served: Served) -> None:
    old = an_owner(served, "Deployment", "chat")
    owner = an_owner(served, "ReplicaSet", "chat-1", old)
    owners = Owners(served.client)
    assert await owners.living_top("models", owner) == old
    new = adopted(served, owner, old)
    assert await owners.living_top("models", owner) == new
    assert await owners.top("models", owner) == new


async def test_what_was_nobodys_when_it_was_read_belongs_to_the_one_that_adopts_it_later(served: Served) -> None:
    owner = an_owner(served, "ReplicaSet", "chat-1")
    owners = Owners(served.client)
    assert await owners.living_top("models", owner) == owner
    new = an_owner(served, "Deployment", "chat")
    adopt(served, f"{APPS}/replicasets/chat-1", new)
    assert await owners.top("models", owner) == owner, "remembered until it is read for another reason"
    assert await owners.living_top("models", owner) == new
    assert await owners.top("models", owner) == new


async def test_the_living_top_costs_one_read_once_it_is_remembered(served: Served) -> None:
    top = an_owner(served, "Deployment", "chat")
    owner = an_owner(served, "ReplicaSet", "chat-1", top)
    owners = Owners(served.client)
    assert await owners.living_top("models", owner) == top
    before = len(served.server.requests)
    assert await owners.living_top("models", owner) == top
    assert len(served.server.requests) == before + 1


async def test_of_what_is_being_deleted_with_its_owner_there_is_no_living_top(served: Served) -> None:
    top = an_owner(served, "Deployment", "chat")
    owner = an_owner(served, "ReplicaSet", "chat-1", top)
    await served.client.delete(f"{APPS}/deployments/chat")
    assert await Owners(served.client).living_top("models", owner) is None


async def test_an_owner_that_could_not_be_read_is_not_remembered_as_the_top(served: Served) -> None:
    missing = OwnerRef("apps/v1", "ReplicaSet", "chat-1", "uid-missing")
    owners = Owners(served.client)
    assert await owners.top("models", missing) == missing
    before = len(served.server.requests)
    await owners.top("models", missing)
    assert len(served.server.requests) == before + 1


async def test_a_server_that_is_away_is_an_error_and_not_an_end(served: Served) -> None:
    owner = an_owner(served, "ReplicaSet", "chat-1")
    owners = Owners(served.client)
    served.server.fail(faults.respond(503, "?"), times=2)
    with pytest.raises(Unavailable):
        await owners.top("models", owner)
    with pytest.raises(Unavailable):
        await owners.is_gone("models", owner)


async def test_an_owner_is_read_as_long_as_it_is_the_same_object(served: Served) -> None:
    owner = an_owner(served, "Deployment", "chat")
    owners = Owners(served.client)
    read = await owners.read("models", owner)
    assert read is not None
    assert read["metadata"]["name"] == "chat"
    assert await owners.read("models", OwnerRef("apps/v1", "Deployment", "chat", "uid-old")) is None
    assert await owners.read("models", OwnerRef("apps/v1", "Deployment", "other", owner.uid)) is None


@pytest.mark.parametrize(
    ("owner", "gone"),
    [
        pytest.param(OwnerRef("apps/v1", "Deployment", "chat", "uid-old"), True, id="replaced-by-another-of-its-name"),
        pytest.param(OwnerRef("apps/v1", "Deployment", "other", "uid"), True, id="not-found"),
        pytest.param(OwnerRef("example.org/v1", "Model", "chat", "uid"), False, id="of-an-unknown-kind"),
        pytest.param(OwnerRef("apps/v1", "Deployment", "a/b", "uid"), False, id="of-a-name-that-is-none"),
    ],
)
async def test_an_owner_is_gone_only_when_that_is_certain(served: Served, owner: OwnerRef, gone: bool) -> None:
    an_owner(served, "Deployment", "chat")
    assert await Owners(served.client).is_gone("models", owner) is gone


MODEL_KINDS = {("example.org/v1", "Model"): "models"}


async def test_a_kind_that_the_admin_named_is_walked_and_read_like_any_other(served: Served) -> None:
    model = an_owner(served, "Model", "chat", None, "example.org/v1")
    owner = an_owner(served, "ReplicaSet", "chat-1", an_owner(served, "Model", "part", model, "example.org/v1"))
    owners = Owners(served.client, MODEL_KINDS)
    assert await owners.top("models", owner) == model
    read = await owners.read("models", model)
    assert read is not None
    assert read["metadata"]["uid"] == model.uid
    assert not await owners.is_gone("models", model)
    assert await owners.is_gone("models", OwnerRef("example.org/v1", "Model", "chat", "uid-old"))
    assert await owners.is_gone("models", OwnerRef("example.org/v1", "Model", "other", "uid"))


@pytest.mark.parametrize(
    ("owner", "readable"),
    [
        (OwnerRef("apps/v1", "Deployment", "chat", "uid"), True),
        (OwnerRef("example.org/v1", "Model", "chat", "uid"), True),
        (OwnerRef("example.org/v2", "Model", "chat", "uid"), False),
        (OwnerRef("ray.io/v1", "RayCluster", "chat", "uid"), False),
    ],
)
async def test_which_kinds_can_be_read(served: Served, owner: OwnerRef, readable: bool) -> None:
    assert Owners(served.client, MODEL_KINDS).can_read(owner) is readable


async def test_an_owner_whose_kind_the_cluster_does_not_serve_is_not_called_gone(served: Served) -> None:
    served.server.fail(faults.respond(404, "404 page not found"))
    assert not await Owners(served.client, MODEL_KINDS).is_gone(
        "models", OwnerRef("example.org/v1", "Model", "chat", "uid")
    )


async def test_an_owner_that_may_not_be_read_is_not_called_gone(served: Served) -> None:
    owner = an_owner(served, "Deployment", "chat")
    owners = Owners(served.client)
    assert not await owners.is_gone("models", owner)
    served.server.fail(faults.respond(403, '{"reason":"Forbidden"}'), times=3)
    assert not await owners.is_gone("models", OwnerRef("apps/v1", "Deployment", "chat", "uid-old"))
    assert await Owners(served.client).top("models", owner) == owner
    with pytest.raises(Forbidden):
        await owners.read("models", owner)
    assert await owners.read("models", owner) is not None
