"""The watches together keep a picture of the whole cluster current, and say when it is not."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from shared.api import names
from shared.core.ledger import owner_hash
from shared.kube import paths
from shared.kube.cluster import Cluster
from shared.kube.fates import Fates
from shared.kube.watch_health import FRESH_S, watch_checks, watch_families
from shared.kube.watches import Watches
from shared.obs.health import Check
from shared.obs.metrics import Family
from tests.builders import a_node, a_pod
from tests.fakes import faults
from tests.fakes.objects import Json
from tests.fakes.serving import Served, eventually, serving
from tests.storage_builders import a_claim, a_class, a_volume
from tests.unit.admission import gpu_node, store

ID, OTHER = "aaaaaaaaaa", "bbbbbbbbbb"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


@asynccontextmanager
async def watching(served: Served, *, exclusive: bool = False) -> AsyncIterator[tuple[Cluster, Watches]]:
    cluster = Cluster()
    watches = Watches(served.client, cluster, exclusive=exclusive)
    running = asyncio.create_task(watches.run())
    try:
        await watches.synced()
        yield cluster, watches
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


def populate(served: Served) -> None:
    objects = served.server.objects
    store(objects, paths.nodes(), a_node("t4").raw())
    store(objects, paths.gpu_nodes(), gpu_node("t4", 16))
    store(objects, paths.namespaces(), {"metadata": {"name": "models", "labels": {"team": "a"}}})
    pod = a_pod().limited_to({names.card_resource(0): "6"}).label(names.RESERVATION, ID).on("t4")
    store(objects, paths.pods("models"), pod.raw())


async def test_what_is_there_is_in_the_picture_once_all_is_listed(served: Served) -> None:
    populate(served)
    async with watching(served) as (cluster, watches):
        assert [check for check in watch_checks(watches.reflectors, time.monotonic()) if check.problem] == []
        state = cluster.node("t4")
        assert state is not None
        assert state.free_gb == (10,)
        assert cluster.snapshot().namespaces.get("models") == {"team": "a"}
        assert [pod.name for pod in cluster.carriers(ID, "models")] == ["pod"]


async def test_what_changes_and_goes_is_followed(served: Served) -> None:
    populate(served)
    async with watching(served) as (cluster, _):
        finished = a_pod().label(names.RESERVATION, ID).on("t4").in_phase("Succeeded").raw()
        store(served.server.objects, paths.pods("models"), finished)
        await eventually(lambda: cluster.carriers(ID, "models") == ())
        await served.client.delete(paths.pods("models", "pod"))
        await served.client.delete(paths.namespaces("models"))
        await served.client.delete(paths.gpu_nodes("t4"))
        await served.client.delete(paths.nodes("t4"))
        await eventually(lambda: cluster.node("t4") is None and cluster.gpu_node("t4") is None)
        await eventually(lambda: "models" not in cluster.snapshot().namespaces)


STORAGE = (
    (paths.storage_classes(), a_class("local", default_since="")),
    (paths.volumes(), a_volume("bound", claim="models/cache", node="t4")),
    (paths.volumes(), a_volume("free", storageClassName="local")),
    (paths.volume_claims("models"), a_claim("cache", volume="bound")),
)
QUOTA: Json = {
    "metadata": {"name": "team"},
    "spec": {"hard": {"requests.nvidia.com/gpu": "4", "requests.cpu": "8", "limits.amd.com/gpu": "1", "pods": "9"}},
}
DISRUPTION_BUDGET: Json = {
    "metadata": {"name": "chat"},
    "spec": {"selector": {"matchLabels": {"app": "chat"}}, "maxUnavailable": 1},
    "status": {"disruptionsAllowed": 1},
}


async def test_storage_quotas_and_disruption_budgets_are_in_the_picture_and_followed(served: Served) -> None:
    for path, raw in STORAGE:
        store(served.server.objects, path, raw)
    store(served.server.objects, paths.resource_quotas("models"), QUOTA)
    store(served.server.objects, paths.disruption_budgets("models"), DISRUPTION_BUDGET)
    limited = {names.NVIDIA_GPU, names.AMD_GPU, "cpu"}
    async with watching(served) as (cluster, _):
        volumes = cluster.snapshot().volumes
        assert volumes.claims["models/cache"].volume == "bound"
        assert dict(volumes.set_aside) == {"models/cache": "bound"}
        assert {name: set(offered) for name, offered in volumes.offered.items()} == {"local": {"free"}}
        assert set(volumes.classes) == {"local"}
        assert list(cluster.quotas.limiting("models", limited)) == [("team", names.NVIDIA_GPU)]
        assert cluster.snapshot().disruption_budgets["models"]["chat"].allowed == 1
        changes = 0

        def count() -> None:
            nonlocal changes
            changes += 1

        end = cluster.storage.on_change(count)
        for path, raw in STORAGE:
            await served.client.delete(f"{path}/{raw['metadata']['name']}")
        await served.client.delete(f"{paths.resource_quotas('models')}/team")
        await served.client.delete(f"{paths.disruption_budgets('models')}/chat")
        await eventually(lambda: not cluster.snapshot().disruption_budgets)
        await eventually(lambda: not (volumes.claims or volumes.volumes or volumes.classes))
        await eventually(lambda: list(cluster.quotas.limiting("models", limited)) == [])
        assert not volumes.set_aside
        assert not volumes.offered
        assert changes == len(STORAGE)
        end()
        store(served.server.objects, *STORAGE[0])
        await eventually(lambda: set(volumes.classes) == {"local"})
        assert changes == len(STORAGE)


async def test_without_the_right_to_see_storage_quotas_and_disruption_budgets_the_rest_goes_on(served: Served) -> None:
    populate(served)
    for path in (
        "storageclasses",
        "persistentvolumes",
        "persistentvolumeclaims",
        "resourcequotas",
        "poddisruptionbudgets",
    ):
        served.server.fail(faults.respond(403), times=100, path=path)
    async with watching(served) as (cluster, watches):
        assert [check for check in watch_checks(watches.reflectors, time.monotonic()) if check.problem] == []
        assert cluster.node("t4") is not None
        assert not cluster.snapshot().volumes.volumes


async def test_the_choice_of_the_installation_reaches_every_node(served: Served) -> None:
    populate(served)
    async with watching(served, exclusive=True) as (cluster, _):
        state = cluster.node("t4")
        assert state is not None
        assert state.inventory.exclusive
        assert state.free_gb == (0,)


async def test_collections_that_are_not_listed_or_silent_for_long_are_named(served: Served) -> None:
    watches = Watches(served.client, Cluster(), exclusive=False)
    assert list(watch_checks(watches.reflectors, time.monotonic())) == [
        Check(collection, "is not listed yet")
        for collection in (
            "storageclasses",
            "persistentvolumes",
            "persistentvolumeclaims",
            "resourcequotas",
            "poddisruptionbudgets",
            "nodes",
            "gpunodes",
            "namespaces",
            "pods",
        )
    ]
    async with watching(served) as (_, followed):
        late = list(watch_checks(followed.reflectors, time.monotonic() + FRESH_S + 1))
        assert len(late) == 9
        assert all((check.problem or "").startswith("was last heard of ") for check in late)


async def test_age_size_lists_and_trouble_of_each_collection_are_metrics(served: Served) -> None:
    populate(served)
    served.server.fail(faults.respond(503), times=1, path="/nodes")
    async with watching(served) as (_, followed):
        families = {family.name: family for family in watch_families(followed.reflectors, time.monotonic() + 7)}
        pods = {name: sample(family, collection="pods") for name, family in families.items()}
        assert pods.pop("placement_watch_age_seconds") >= 7
        assert pods == {
            "placement_watch_objects": 1,
            "placement_watch_lists": 1,
            "placement_watch_interruptions": 0,
        }
        assert sample(families["placement_watch_interruptions"], collection="nodes") == 1


def test_a_collection_that_was_never_heard_of_has_no_age(served: Served) -> None:
    unheard = Watches(served.client, Cluster(), exclusive=False)
    (ages, *_) = watch_families(unheard.reflectors, time.monotonic())
    assert ages.samples == []


def sample(family: Family, **labels: str) -> float:
    """The value of the only sample with these labels."""
    (value,) = (each.value for each in family.samples if each.labels == labels)
    return value


async def test_the_fates_of_pods_are_kept_for_whoever_asks_for_them(served: Served) -> None:
    populate(served)
    fates = Fates()
    watches = Watches(served.client, Cluster(), exclusive=False, fates=fates)
    running = asyncio.create_task(watches.run())
    try:
        await watches.synced()
        assert list(fates.all()) == []
        path = paths.pods("models", "pod")
        await served.client.merge_patch(paths.status_of(path), {"status": {"phase": "Failed"}})
        await eventually(lambda: [fate.name for fate in fates.all()] == ["pod"])
        (fate,) = fates.all()
        await served.client.delete(path)
        await eventually(lambda: list(fates.all()) == [])
        assert fates.last_of(fate.key) == fate
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.parametrize(
    ("status", "leaves_seat"),
    [
        pytest.param({"phase": "Failed"}, True, id="failed"),
        pytest.param({"phase": "Succeeded"}, False, id="succeeded"),
        pytest.param({"phase": "Failed", "reason": "UnexpectedAdmissionError"}, False, id="rejected-by-its-kubelet"),
    ],
)
async def test_a_pod_that_ends_leaves_a_seat_unless_it_is_done_or_its_node_would_not_have_it(
    served: Served, status: dict[str, str], leaves_seat: bool
) -> None:
    populate(served)
    share = {names.card_resource(0): "6"}
    pod = a_pod("model").limited_to(share).label(names.RESERVATION, OTHER).on("t4").owned_by("Job", "train", "uid-job")
    raw = store(served.server.objects, paths.pods("models"), pod.raw())
    entry = f"models/{owner_hash('uid-job')};1790000000;0:6"
    await served.client.merge_patch(
        paths.status_of(paths.gpu_nodes("t4")), {"status": {"reservations": {OTHER: entry}}}
    )
    async with watching(served) as (cluster, _):
        await served.client.merge_patch(f"{paths.pods('models', 'model')}/status", {"status": status})
        await eventually(lambda: cluster.pod(raw["metadata"]["uid"]) is None)
        assert (OTHER in cluster.vacancies.left, OTHER in cluster.vacancies.gone) == (leaves_seat, not leaves_seat)
