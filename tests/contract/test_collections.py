"""Listing and watching, and what is built on them."""

from __future__ import annotations

import asyncio
import logging

import pytest

from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.elector import Elector
from shared.kube.errors import Gone
from shared.kube.reflector import Pace, Reflector
from tests.contract.widgets import WIDGETS, created, fresh_name, path_of, watched, widget
from tests.fakes.serving import eventually


async def test_a_watch_from_a_list_misses_nothing_and_repeats_nothing(client: KubeClient) -> None:
    before = await created(client)
    listing = await client.list(WIDGETS)
    assert before["metadata"]["name"] in {raw["metadata"]["name"] for raw in listing.items}
    added = await created(client)
    changed = await client.merge_patch(path_of(added), {"spec": {"size": 2}})
    await client.delete(path_of(added))
    events = await watched(client, listing.resource_version, events=3)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    assert [event["object"] for event in events[:2]] == [added, changed]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    rest = await watched(client, str(versions[0]), events=2)
    assert rest == events[1:]


async def test_selectors_narrow_lists_and_watches(client: KubeClient) -> None:
    label = fresh_name()
    listing = await client.list(WIDGETS)
    inside = await created(client, metadata={"name": fresh_name(), "labels": {"pick": label}})
    await created(client)
    for params in (
        {"labelSelector": f"pick={label}"},
        {"fieldSelector": f"metadata.name={inside['metadata']['name']}"},
    ):
        picked = await client.list(WIDGETS, params)
        assert [raw["metadata"]["name"] for raw in picked.items] == [inside["metadata"]["name"]]
        [event] = await watched(client, listing.resource_version, params, events=1)
        assert (event["type"], event["object"]) == ("ADDED", inside)


async def test_an_object_that_leaves_a_label_selection_is_deleted_for_its_watchers(client: KubeClient) -> None:
    label = fresh_name()
    stored = await created(client, metadata={"name": fresh_name(), "labels": {"pick": label}})
    await client.merge_patch(path_of(stored), {"metadata": {"labels": {"pick": None}}})
    version = stored["metadata"]["resourceVersion"]
    [event] = await watched(client, version, {"labelSelector": f"pick={label}"}, events=1)
    assert event["type"] == "DELETED"
    assert int(event["object"]["metadata"]["resourceVersion"]) > int(version)


async def test_a_watch_from_an_ancient_version_is_gone(client: KubeClient) -> None:
    await created(client)
    with pytest.raises(Gone):
        await watched(client, "1", events=1)


async def test_a_bookmark_tells_a_watcher_without_events_how_far_it_is(client: KubeClient) -> None:
    listing = await client.list(WIDGETS)
    unseen = await created(client)

    async def write_on() -> None:
        while True:
            await created(client)
            await asyncio.sleep(1.0)

    # The real server tells it two seconds before the end, if anything was written since the watch began, and leaves it
    # out where it stands still just then.
    writing = asyncio.create_task(write_on())
    params = {"allowWatchBookmarks": "true", "labelSelector": "pick=nothing"}
    for _ in range(5):
        if events := await watched(client, listing.resource_version, params, events=1, seconds=10):
            break
    writing.cancel()
    await asyncio.gather(writing, return_exceptions=True)
    (event,) = events
    assert event["type"] == "BOOKMARK"
    last = event["object"]["metadata"]
    assert int(last["resourceVersion"]) >= int(unseen["metadata"]["resourceVersion"])
    assert "name" not in last


async def test_a_list_in_pages_is_one_list(client: KubeClient) -> None:
    label = fresh_name()
    names = sorted(fresh_name() for _ in range(5))
    for name in names:
        await client.create(WIDGETS, widget(name, metadata={"name": name, "labels": {"pick": label}}))
    params = {"labelSelector": f"pick={label}"}
    listing = await client.list_as(lambda raw: raw["metadata"]["name"], WIDGETS, params, page=2)
    assert list(listing.items) == names
    assert listing.resource_version.isdecimal()


async def test_a_reflector_follows_the_collection(client: KubeClient) -> None:
    class Quiet:
        def upserted(self, key: str, new: int, old: int | None) -> None: ...
        def deleted(self, key: str, old: int) -> None: ...
        def synced(self) -> None: ...

    label = fresh_name()
    first = await created(client, metadata={"name": fresh_name(), "labels": {"pick": label}})
    reflector = Reflector(
        client,
        WIDGETS,
        lambda raw: int(raw["spec"]["size"]),
        Quiet(),
        label_selector=f"pick={label}",
        pace=Pace(watch_s=1, first_retry_s=0.05),
    )
    running = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    key = f"default/{first['metadata']['name']}"
    assert reflector.store == {key: 1}
    await client.merge_patch(path_of(first), {"spec": {"size": 2}})
    await eventually(lambda: reflector.store == {key: 2})
    await client.delete(path_of(first))
    await eventually(lambda: reflector.store == {})
    running.cancel()
    await asyncio.wait({running})


async def test_the_lead_passes_on_when_it_is_released(client: KubeClient, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    lease = fresh_name()
    leaders: list[str] = []

    async def lead_as(identity: str) -> None:
        leaders.append(identity)
        await asyncio.sleep(0.1)

    async def run(identity: str) -> None:
        elector = Elector(client, "default", lease, identity, lease_s=60, renew_deadline_s=40, retry_s=0.2)
        await elector.run(lambda: lead_as(identity))

    await asyncio.gather(run("a"), run("b"))
    assert sorted(leaders) == ["a", "b"]
    spec = (await client.get(paths.leases("default", lease)))["spec"]
    late = [each for each in caplog.records if "no answer in time" in str(getattr(each, "fields", {}).get("error"))]
    assert not spec.get("holderIdentity") or late
    assert spec["leaseTransitions"] == 1
