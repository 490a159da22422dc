"""Reading and writing single objects."""

from __future__ import annotations

import pytest

from shared.kube import paths
from shared.kube.client import Json, KubeClient
from shared.kube.errors import AlreadyExists, Conflict, NotFound
from tests.contract.widgets import WIDGETS, created, fresh_name, path_of, widget


async def test_a_new_object_gets_its_identity_from_the_server(client: KubeClient) -> None:
    stored = await created(client)
    metadata = stored["metadata"]
    assert metadata["namespace"] == "default"
    assert metadata["generation"] == 1
    assert {"uid", "resourceVersion", "creationTimestamp"} <= metadata.keys()
    assert await client.get(path_of(stored)) == stored


async def test_a_name_is_generated_from_its_prefix(client: KubeClient) -> None:
    body = widget("")
    body["metadata"] = {"generateName": "made-"}
    first, second = await client.create(WIDGETS, body), await client.create(WIDGETS, body)
    assert first["metadata"]["name"].startswith("made-")
    assert first["metadata"]["name"] != second["metadata"]["name"]


async def test_a_name_that_is_taken_already_exists(client: KubeClient) -> None:
    stored = await created(client)
    with pytest.raises(AlreadyExists):
        await client.create(WIDGETS, widget(stored["metadata"]["name"]))


async def test_what_is_not_there_is_not_found(client: KubeClient) -> None:
    missing = f"{WIDGETS}/{fresh_name()}"
    with pytest.raises(NotFound):
        await client.get(missing)
    with pytest.raises(NotFound):
        await client.merge_patch(missing, {"spec": {"size": 2}})
    with pytest.raises(NotFound):
        await client.delete(missing)


async def test_a_status_cannot_be_patched_onto_an_object_that_is_not_there(client: KubeClient) -> None:
    with pytest.raises(NotFound):
        await client.merge_patch(paths.status_of(f"{WIDGETS}/{fresh_name()}"), {"status": {"ready": True}})


async def test_a_merge_patch_on_a_stale_version_conflicts_and_changes_nothing(client: KubeClient) -> None:
    stored = await created(client)
    stale = stored["metadata"]["resourceVersion"]
    newer = await client.merge_patch(path_of(stored), {"spec": {"size": 2}})
    with pytest.raises(Conflict):
        await client.merge_patch(path_of(stored), {"metadata": {"resourceVersion": stale}, "spec": {"size": 3}})
    assert await client.get(path_of(stored)) == newer


async def test_a_status_patch_on_a_stale_version_conflicts(client: KubeClient) -> None:
    stored = await created(client)
    status = paths.status_of(path_of(stored))
    body: Json = {"metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]}, "status": {"a": "1"}}
    newer = await client.merge_patch(status, body)
    with pytest.raises(Conflict):
        await client.merge_patch(status, {**body, "status": {"a": "2"}})
    assert await client.get(path_of(stored)) == newer


async def test_a_merge_patch_without_a_version_never_conflicts(client: KubeClient) -> None:
    stored = await created(client)
    await client.merge_patch(path_of(stored), {"spec": {"size": 2}})
    assert (await client.merge_patch(path_of(stored), {"spec": {"size": 3}}))["spec"] == {"size": 3}


async def test_a_replacement_on_a_stale_version_conflicts(client: KubeClient) -> None:
    stored = await created(client)
    await client.merge_patch(path_of(stored), {"spec": {"size": 2}})
    with pytest.raises(Conflict):
        await client.replace(path_of(stored), {**stored, "spec": {"size": 3}})


async def test_a_replacement_drops_what_it_does_not_hold(client: KubeClient) -> None:
    stored = await created(client, spec={"size": 1, "colour": "red"})
    assert (await client.replace(path_of(stored), {**stored, "spec": {"size": 2}}))["spec"] == {"size": 2}


async def test_null_in_a_merge_patch_removes_a_key_and_lists_are_replaced(client: KubeClient) -> None:
    stored = await created(client, spec={"map": {"a": "1", "b": "2"}, "list": [1, 2]})
    patched = await client.merge_patch(path_of(stored), {"spec": {"map": {"a": None, "c": "3"}, "list": [9]}})
    assert patched["spec"] == {"map": {"b": "2", "c": "3"}, "list": [9]}


async def test_status_and_the_rest_are_written_apart(client: KubeClient) -> None:
    stored = await created(client, status={"a": "at create"})
    assert "status" not in stored
    patch = {"metadata": {"labels": {"l": "1"}}, "spec": {"size": 2}, "status": {"a": "1"}}
    by_status = await client.merge_patch(paths.status_of(path_of(stored)), patch)
    assert (by_status["spec"], by_status["status"]) == ({"size": 1}, {"a": "1"})
    assert "labels" not in by_status["metadata"]
    by_main = await client.merge_patch(path_of(stored), {"spec": {"size": 3}, "status": {"a": "2"}})
    assert (by_main["spec"], by_main["status"]) == ({"size": 3}, {"a": "1"})


async def test_the_generation_counts_changes_of_the_spec_alone(client: KubeClient) -> None:
    stored = await created(client)
    labelled = await client.merge_patch(path_of(stored), {"metadata": {"labels": {"a": "b"}}})
    reported = await client.merge_patch(paths.status_of(path_of(stored)), {"status": {"a": "1"}})
    resized = await client.merge_patch(path_of(stored), {"spec": {"size": 2}})
    assert [raw["metadata"]["generation"] for raw in (labelled, reported, resized)] == [1, 1, 2]


async def test_a_patch_that_changes_nothing_makes_no_new_version(client: KubeClient) -> None:
    stored = await created(client)
    same = await client.merge_patch(path_of(stored), {"spec": {"size": 1}})
    assert same["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]


async def test_apply_creates_then_merges(client: KubeClient) -> None:
    name = fresh_name()
    path = f"{WIDGETS}/{name}"
    first = await client.apply(path, widget(name, spec={"map": {"a": "1"}}), "tester")
    second = await client.apply(path, widget(name, spec={"map": {"b": "2"}}), "another")
    assert first["spec"] == {"map": {"a": "1"}}
    assert second["spec"] == {"map": {"a": "1", "b": "2"}}
    assert second["metadata"]["uid"] == first["metadata"]["uid"]


async def test_forced_apply_takes_a_field_from_another_manager(client: KubeClient) -> None:
    name = fresh_name()
    path = f"{WIDGETS}/{name}"
    await client.apply(path, widget(name, spec={"size": 1}), "tester")
    assert (await client.apply(path, widget(name, spec={"size": 2}), "another"))["spec"] == {"size": 2}


async def test_forced_apply_to_an_object_that_has_moved_on_is_a_conflict(client: KubeClient) -> None:
    name = fresh_name()
    path = f"{WIDGETS}/{name}"
    seen = (await client.apply(path, widget(name, spec={"size": 1}), "tester"))["metadata"]["resourceVersion"]
    await client.merge_patch(path, {"spec": {"size": 2}})
    late = widget(name, spec={"size": 3})
    late["metadata"]["resourceVersion"] = seen
    with pytest.raises(Conflict):
        await client.apply(path, late, "tester")
    assert (await client.get(path))["spec"] == {"size": 2}


async def test_a_dry_run_answers_as_if_and_stores_nothing(client: KubeClient) -> None:
    dry = {"dryRun": "All"}
    name = fresh_name()
    assert (await client.create(WIDGETS, widget(name), dry))["metadata"]["name"] == name
    with pytest.raises(NotFound):
        await client.get(f"{WIDGETS}/{name}")
    stored = await created(client)
    assert (await client.merge_patch(path_of(stored), {"spec": {"size": 2}}, dry))["spec"] == {"size": 2}
    await client.delete(path_of(stored), params=dry)
    assert await client.get(path_of(stored)) == stored


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
async def test_a_delete_is_refused_when_its_precondition_does_not_hold(client: KubeClient, field: str) -> None:
    stored = await created(client)
    with pytest.raises(Conflict):
        await client.delete(path_of(stored), {"preconditions": {field: "1"}})
    await client.delete(path_of(stored), {"preconditions": {field: stored["metadata"][field]}})
    with pytest.raises(NotFound):
        await client.get(path_of(stored))
