"""The client speaks to an API server over real HTTP, and every trouble on the way is an `ApiError` in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from shared.kube import errors, paths
from shared.kube.client import Json, KubeClient
from shared.kube.credentials import NoClusterError
from tests.fakes import faults
from tests.fakes.apiserver import place_of
from tests.fakes.serving import Served, serving

POD = paths.pods("team-a", "llm")


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


def a_pod(name: str, **labels: str) -> Json:
    return {"metadata": {"name": name, "labels": labels}}


async def watched(client: KubeClient, *, events: int = 1_000) -> list[Json]:
    """The first `events` events of a short watch on all pods, or fewer when the server ends it before."""
    params = {"watch": "true", "resourceVersion": "100", "timeoutSeconds": "1"}
    seen: list[Json] = []
    async with aclosing(client.stream(paths.pods(), params, read_timeout_s=5.0)) as stream:
        async for event in stream:
            seen.append(event)
            if len(seen) == events:
                break
    return seen


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        pytest.param(faults.drop(), errors.Unavailable, id="connection-dropped"),
        pytest.param(faults.respond(502, "Bad Gateway"), errors.Unavailable, id="text-of-a-proxy"),
        pytest.param(faults.respond(500, '{"reason":"InternalError"}'), errors.Unavailable, id="server-error"),
        pytest.param(faults.respond(200, "<html>log in</html>"), errors.Unavailable, id="success-but-no-json"),
        pytest.param(faults.respond(200, "[]"), errors.Unavailable, id="success-but-no-object"),
        pytest.param(faults.respond(302, "", {"Location": "http://elsewhere.test/"}), errors.ApiError, id="redirect"),
        pytest.param(faults.respond(429, "slow", {"Retry-After": "9"}), errors.Throttled, id="throttled"),
        pytest.param(faults.respond(403, '{"reason":"Forbidden"}'), errors.Forbidden, id="no-right"),
    ],
)
async def test_trouble_on_the_way_is_an_api_error(
    served: Served, act: faults.Act, expected: type[errors.ApiError]
) -> None:
    served.server.fail(act, times=2)  # aiohttp itself repeats a GET once when the connection drops
    with pytest.raises(errors.ApiError) as caught:
        await served.client.get(paths.pods(), timeout_s=600.0)
    assert type(caught.value) is expected


async def test_no_answer_in_time_is_unavailable(served: Served) -> None:
    served.server.fail(faults.hang())
    with pytest.raises(errors.Unavailable, match="no answer in time"):
        await served.client.get(paths.pods(), timeout_s=0.2)


async def test_a_server_that_is_not_there_is_unavailable_and_back_when_it_is(served: Served) -> None:
    await served.server.stop()
    with pytest.raises(errors.Unavailable) as caught:
        await served.client.get(paths.pods())
    assert isinstance(caught.value.__cause__, OSError)
    await served.server.start()
    assert (await served.client.list(paths.pods())).items == ()


async def test_a_write_whose_answer_was_lost_is_unavailable_though_it_happened(served: Served) -> None:
    served.server.fail(faults.lose_answer(), method="POST")
    with pytest.raises(errors.Unavailable):
        await served.client.create(paths.pods("team-a"), a_pod("llm"))
    assert (await served.client.get(POD))["metadata"]["name"] == "llm"


Call = Callable[[KubeClient], Awaitable[Json]]


@pytest.mark.parametrize(
    ("call", "request_line"),
    [
        pytest.param(lambda client: client.get(POD), f"GET {POD}", id="get"),
        pytest.param(
            lambda client: client.create(paths.pods("team-a"), a_pod("other"), {"dryRun": "All"}),
            "POST /api/v1/namespaces/team-a/pods?dryRun=All",
            id="create-dry-run",
        ),
        pytest.param(lambda client: client.replace(POD, a_pod("llm", a="b")), f"PUT {POD}", id="replace"),
        pytest.param(
            lambda client: client.merge_patch(POD, {"metadata": {"labels": {"a": "b"}}}),
            f"PATCH {POD}",
            id="merge-patch",
        ),
        pytest.param(
            lambda client: client.apply(POD, a_pod("llm", a="b"), "tester"),
            f"PATCH {POD}?fieldManager=tester&force=true",
            id="apply",
        ),
        pytest.param(lambda client: client.delete(POD), f"DELETE {POD}", id="delete"),
    ],
)
async def test_each_verb_is_one_request(served: Served, call: Call, request_line: str) -> None:
    await served.client.create(paths.pods("team-a"), a_pod("llm"))
    served.server.requests.clear()
    await call(served.client)
    assert served.server.requests == [request_line]


async def test_a_name_with_url_characters_reaches_the_server_as_it_is(served: Served) -> None:
    with pytest.raises(errors.NotFound, match=r"a\?watch=true b"):
        await served.client.get(paths.nodes("a?watch=true b"))


async def test_a_long_list_comes_in_pages_and_each_item_is_converted(served: Served) -> None:
    for number in range(7):
        await served.client.create(paths.pods("team-a"), a_pod(f"llm-{number}"))
    served.server.requests.clear()
    listing = await served.client.list_as(lambda raw: raw["metadata"]["name"], paths.pods(), page=3)
    assert listing.items == tuple(f"llm-{number}" for number in range(7))
    assert listing.resource_version == str(served.server.objects.version)
    assert len(served.server.requests) == 3


async def test_a_list_whose_continue_token_expired_starts_over_in_one_piece(served: Served) -> None:
    for number in range(5):
        await served.client.create(paths.pods("team-a"), a_pod(f"llm-{number}"))
    served.server.requests.clear()

    async def forget_then_proceed(request: Any, proceed: faults.Proceed) -> Any:
        served.server.expire_continue_tokens()
        return await proceed(request)

    def name(raw: Json) -> str:
        if raw["metadata"]["name"] == "llm-1" and len(served.server.requests) == 1:
            served.server.fail(forget_then_proceed)
        return str(raw["metadata"]["name"])

    listing = await served.client.list_as(name, paths.pods(), page=2)
    assert listing.items == tuple(f"llm-{number}" for number in range(5))
    assert len(served.server.requests) == 3
    assert "limit" not in served.server.requests[-1]


async def test_a_page_of_huge_objects_is_asked_for_again_in_small_pages(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(served.client, "_longest_answer", 30_000)
    for number in range(45):
        await served.client.create(paths.pods("team-a"), a_pod(f"llm-{number:02}", big="x" * 1000))
    served.server.requests.clear()
    listing = await served.client.list(paths.pods())
    assert [raw["metadata"]["name"] for raw in listing.items] == [f"llm-{number:02}" for number in range(45)]
    assert [each.partition("limit=")[2][:2] for each in served.server.requests] == ["50", "20", "20", "20"]


async def test_an_answer_without_end_is_given_up(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served.client, "_longest_answer", 30_000)
    served.server.fail(faults.respond(200, '{"a":"' + "x" * 100_000 + '"}'), times=2)
    with pytest.raises(errors.AnswerTooLong, match="no end within 30000 bytes"):
        await served.client.get(paths.nodes("n"))
    with pytest.raises(errors.AnswerTooLong):
        await served.client.list_as(dict, paths.nodes(), page=20)


@pytest.mark.parametrize("answer", ["{}", '{"items":[]}', '{"metadata":{"resourceVersion":"5"}}'])
async def test_an_object_that_is_no_list_is_not_taken_for_an_empty_one(served: Served, answer: str) -> None:
    served.server.fail(faults.respond(200, answer))
    with pytest.raises(errors.Unavailable, match="no list"):
        await served.client.list(paths.pods())


async def test_a_watch_brings_events_until_the_server_ends_it(served: Served) -> None:
    await served.client.create(paths.pods("team-a"), a_pod("llm"))
    await served.client.delete(POD)
    assert [event["type"] for event in await watched(served.client)] == ["ADDED", "DELETED"]


async def test_an_event_larger_than_any_read_buffer_arrives_whole(served: Served) -> None:
    served.server.objects.create(place_of(paths.pods("team-a")), {**a_pod("llm"), "spec": {"text": "x" * 5_000_000}})
    [event] = await watched(served.client, events=1)
    assert len(event["object"]["spec"]["text"]) == 5_000_000


@pytest.mark.parametrize(
    ("act", "complete"),
    [
        pytest.param(faults.stream(b'{"type":"A"}\n', b"garbage\n"), 1, id="garbage-line"),
        pytest.param(faults.stream(b'{"type":"A"}\n{"ty'), 1, id="ends-in-a-line"),
        pytest.param(faults.stream(b'{"type":"A"}\n{"ty', cut=True), 1, id="cut-off-in-a-line"),
        pytest.param(faults.respond(502, "Bad Gateway"), 0, id="text-of-a-proxy"),
    ],
)
async def test_a_watch_that_goes_wrong_ends_with_an_error_after_what_was_whole(
    served: Served, act: faults.Act, complete: int
) -> None:
    served.server.fail(act, watch=True)
    seen: list[Json] = []

    async def watch() -> None:
        params = {"watch": "true"}
        stream = served.client.stream(paths.pods(), params, read_timeout_s=600.0, timeout_s=600.0)
        async for event in stream:
            seen.append(event)  # noqa: PERF401 - a comprehension would lose what came before the error

    with pytest.raises(errors.Unavailable):
        await watch()
    assert len(seen) == complete


async def test_a_watch_that_falls_silent_ends_with_an_error_after_what_was_whole(
    served: Served, forward: Callable[[float], None]
) -> None:
    served.server.fail(faults.stream(b'{"type":"A"}\n', silent=True), watch=True)
    stream = served.client.stream(paths.pods(), {"watch": "true"}, read_timeout_s=600.0, timeout_s=600.0)
    assert await anext(stream) == {"type": "A"}
    forward(601.0)
    with pytest.raises(errors.Unavailable):
        await anext(stream)


async def test_a_watch_that_never_begins_ends_with_an_error(served: Served) -> None:
    served.server.fail(faults.hang(), watch=True)
    stream = served.client.stream(paths.pods(), {"watch": "true"}, read_timeout_s=600.0, timeout_s=0.2)
    with pytest.raises(errors.Unavailable):
        await anext(stream)


async def test_a_call_that_is_cancelled_is_cancelled_and_no_error(served: Served) -> None:
    served.server.fail(faults.hang())
    call = asyncio.create_task(served.client.get(paths.pods()))
    await asyncio.sleep(0.05)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


async def test_a_token_that_was_rotated_is_read_again_after_a_refusal(served: Served, tmp_path: Path) -> None:
    served.server.token = "rotated"
    (tmp_path / "token").write_text("rotated\n")
    with pytest.raises(errors.ApiError, match="401"):
        await served.client.get(paths.pods())
    assert (await served.client.list(paths.pods())).items == ()


async def test_credentials_that_cannot_be_read_again_are_kept(served: Served, tmp_path: Path) -> None:
    served.server.fail(faults.respond(401))
    (tmp_path / "token").unlink()
    with pytest.raises(errors.ApiError, match="401"):
        await served.client.get(paths.pods())
    assert (await served.client.list(paths.pods())).items == ()


async def test_a_kubeconfig_that_is_missing_is_named_with_the_fix(tmp_path: Path) -> None:
    with pytest.raises(NoClusterError, match=r"kubeconfig '.*/absent'.*set KUBECONFIG"):
        await KubeClient.connect(str(tmp_path / "absent"))


async def test_outside_a_pod_the_missing_service_account_is_named_with_the_fix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(NoClusterError, match=r"service account.*set KUBECONFIG"):
        await KubeClient.connect(None)


async def test_a_text_is_read_as_it_is(served: Served) -> None:
    served.server.fail(faults.respond(200, "CUDA out of memory\n"), path="/log")
    assert await served.client.text(paths.log_of(POD), {"tailLines": "5"}) == "CUDA out of memory\n"
    assert served.server.requests[-1] == "GET /api/v1/namespaces/team-a/pods/llm/log?tailLines=5"
    with pytest.raises(errors.NotFound):
        await served.client.text(POD)
