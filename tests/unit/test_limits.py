"""What is too large, too deep, too slow or too much for the webhook is refused at once, and nothing is left of it."""

from __future__ import annotations

import asyncio
import gzip
import io
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import ClientConnectionError, ClientSession, ClientTimeout, TCPConnector, web
from aiohttp.test_utils import TestClient, TestServer
from aiohttp.typedefs import Handler

from shared.api import names
from shared.obs.connections import ARRIVED
from tests.builders import a_node, a_pod
from tests.fakes import faults
from tests.fakes.serving import eventually
from tests.unit.admission import gpu_node
from tests.unit.test_app import Site, a_site, asking, review
from webhook.app import BODIES_LIMIT, BODY_LIMIT, KEPT_FOR_SMALL

JSON = {"Content-Type": "application/json"}
CHUNK = 64 * 1024
OVERLOADED = {
    "code": 503,
    "reason": "ServiceUnavailable",
    "message": "unavailable: the placement could not be recorded (too many reviews are under way); try again.",
}


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with a_site(tmp_path) as site:
        yield site


async def spaces(size: int) -> AsyncIterator[bytes]:
    """A body of an unknown length."""
    for _ in range(size // CHUNK):
        yield b" " * CHUNK


async def until(go_on: asyncio.Event, body: bytes) -> AsyncIterator[bytes]:
    """A body of which the end comes later."""
    yield body[:10]
    await go_on.wait()
    yield body[10:]


async def refused_or_reset(site: Site, body: bytes) -> bool:
    """Whether a body finds no room. The connection may close under the rest of it."""
    try:
        async with site.http.post("/mutate", data=io.BytesIO(body), headers=JSON) as answer:
            return answer.status == 503
    except ClientConnectionError:
        return True


async def status_of(site: Site, body: Any, path: str = "/mutate", **headers: str) -> int:
    """The status of the answer; 413 also where it came so early that the connection was closed under the body."""
    try:
        async with site.http.post(path, data=body, headers={**JSON, **headers}) as answer:
            return answer.status
    except ClientConnectionError:
        return 413


@pytest.mark.parametrize(
    "body_of", [spaces, lambda size: io.BytesIO(b" " * size)], ids=["of-unknown-length", "of-known-length"]
)
async def test_a_body_that_is_too_large_takes_no_memory(site: Site, body_of: Any) -> None:
    body = body_of(64 * 2**20)
    tracemalloc.start()
    try:
        assert await status_of(site, body) == 413
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 30 * 2**20
    assert site.handlers.bodies.inside == 0


async def test_a_body_of_7_mib_is_read(site: Site) -> None:
    pod = a_pod().spec(containers=[{"name": "main", "env": [{"name": "X", "value": "x" * (7 * 2**20)}]}])
    assert (await site.ask("/mutate", pod))["allowed"] is True
    assert BODY_LIMIT > 7 * 2**20


async def test_bodies_that_are_too_much_together_are_refused(site: Site) -> None:
    """Such as have arrived: they keep their room until their answers, and small ones have a part of their own."""
    go_on = asyncio.Event()

    async def hold(request: web.Request, proceed: faults.Proceed) -> web.StreamResponse:
        await go_on.wait()
        return await proceed(request)

    site.served.server.fail(hold, times=10_000, method="PATCH")
    body = orjson.dumps(review(asking("1")))
    large = orjson.dumps(review(asking("1"), oldObject="x" * (7 * 2**20)))
    many = (BODIES_LIMIT - KEPT_FOR_SMALL) // len(large)
    under_way = [asyncio.create_task(status_of(site, io.BytesIO(large), "/mutate")) for _ in range(many)]
    await eventually(lambda: site.handlers.placing.inside == many)
    assert site.handlers.bodies.inside == many * len(large)
    assert await refused_or_reset(site, large)
    asks_for_nothing = orjson.dumps(review(a_pod()))
    assert await status_of(site, asks_for_nothing) == 200
    go_on.set()
    assert await asyncio.gather(*under_way) == [200] * many
    assert await status_of(site, body) == 200
    assert site.handlers.bodies.inside == 0


async def test_a_body_that_does_not_arrive_in_time_is_refused(site: Site) -> None:
    body = until(asyncio.Event(), orjson.dumps(review(asking())))
    async with site.http.post("/mutate?timeout=0.1s", data=body, headers=JSON) as answer:
        assert answer.status == 408
        assert answer.headers["Connection"] == "close"
    assert site.handlers.bodies.inside == 0


async def test_the_time_that_a_request_waited_before_it_was_looked_at_counts(site: Site) -> None:
    @web.middleware
    async def late(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[ARRIVED] = asyncio.get_running_loop().time() - 3
        return await handler(request)

    app = site.handlers.app()
    app.middlewares.append(late)
    async with TestClient(TestServer(app)) as http:
        for timeout, is_answered in (("3s", False), ("600s", True)):
            async with http.post(f"/mutate?timeout={timeout}", json=review(asking())) as answer:
                body = await answer.json()
                assert (answer.status == 200 and body["response"]["allowed"]) is is_answered


async def test_a_compressed_body_is_refused_unread(site: Site) -> None:
    body = gzip.compress(orjson.dumps(review(asking())))
    assert await status_of(site, body, **{"Content-Encoding": "gzip"}) == 415


DEEP_PLACES = [
    pytest.param({"spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "DEEP"}]}]}}, id="env"),
    pytest.param({"spec": {"containers": [{"name": "main", "resources": {"limits": "DEEP"}}]}}, id="limits"),
    pytest.param({"spec": {"containers": [{"name": "main", "lifecycle": "DEEP"}]}}, id="a-field-nobody-reads"),
    pytest.param({"spec": {"affinity": "DEEP", "containers": [{"name": "main"}]}}, id="affinity"),
    pytest.param({"spec": {"tolerations": ["DEEP"], "containers": [{"name": "main"}]}}, id="tolerations"),
    pytest.param({"spec": {"volumes": ["DEEP"], "containers": [{"name": "main"}]}}, id="volumes"),
    pytest.param({"spec": "DEEP"}, id="spec"),
    pytest.param({"metadata": {"labels": "DEEP"}, "spec": {"containers": [{"name": "main"}]}}, id="labels"),
]


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize(
    ("levels", "statuses"),
    [(50, {200}), (120, {200}), (124, {200, 400}), (126, {200, 400}), (128, {400}), (500, {400})],
    ids=lambda value: f"{2 * value}-deep" if isinstance(value, int) else "",
)
@pytest.mark.parametrize("place", DEEP_PLACES)
async def test_json_of_any_depth_gets_a_proper_answer(
    site: Site, place: Any, levels: int, statuses: set[int], path: str
) -> None:
    marked = {"annotations": {names.VRAM: "6"}, "name": "deep"}
    pod = {**place, "metadata": {**marked, **place.get("metadata", {})}}
    body = orjson.dumps(review(pod)).replace(b'"DEEP"', b'{"a":[' * levels + b'"x"' + b"]}" * levels)
    assert await status_of(site, body, path) in statuses


async def test_a_deep_record_in_an_annotation_gets_a_proper_answer(site: Site) -> None:
    was = '{"name":"NVIDIA_VISIBLE_DEVICES","a":' * 400 + "1" + "}" * 400
    record = f'{{"changed":[{{"path":"containers/main/env/NVIDIA_VISIBLE_DEVICES","was":{was}}}]}}'
    pod = asking().annotated(names.PLACED, record).label(names.RESERVATION, "aaaaaaaaaa")
    assert await status_of(site, orjson.dumps(review(pod))) == 200


@pytest.mark.parametrize(
    ("env", "status"),
    [
        pytest.param(b'{"name":"A","name":"B"}', 200, id="a-key-twice"),
        pytest.param(b'{"name":"A","value":"\\ud800"}', 400, id="a-lone-surrogate"),
        pytest.param(b'{"name":"A","value":NaN}', 400, id="nan"),
        pytest.param(b'{"name":"A","value":1e999}', 400, id="a-number-without-end"),
        pytest.param(b'{"name":"A","value":123456789012345678901234567890}', 200, id="a-huge-number"),
        pytest.param(b'{"name":"A","value":"\\u0000"}', 200, id="a-nul"),
    ],
)
async def test_odd_json_gets_a_proper_answer(site: Site, env: bytes, status: int) -> None:
    pod = asking().spec(containers=[{"name": "main", "env": ["ENV"]}])
    body = orjson.dumps(review(pod)).replace(b'"ENV"', env)
    for path in ("/mutate", "/validate"):
        assert await status_of(site, body, path) == status


async def test_reviews_beyond_the_limit_are_told_at_once_to_come_again(site: Site) -> None:
    site.handlers.placing.most = 200
    for name in ("a", "b"):
        await site.webhook.see(a_node(name), gpu_node(name, 200))
    go_on = asyncio.Event()

    async def hold(request: web.Request, proceed: faults.Proceed) -> web.StreamResponse:
        await go_on.wait()
        return await proceed(request)

    site.served.server.fail(hold, times=10_000, method="PATCH")
    body = orjson.dumps(review(asking("1")))

    async def placed(session: ClientSession) -> dict[str, Any]:
        async with session.post(site.http.make_url("/mutate"), data=body, headers=JSON) as answer:
            response: dict[str, Any] = orjson.loads(await answer.read())["response"]
            return response

    async with ClientSession(connector=TCPConnector(limit=0), timeout=ClientTimeout(total=None)) as session:
        under_way = [asyncio.create_task(placed(session)) for _ in range(200)]
        await eventually(lambda: site.handlers.placing.inside == 200)
        refused = await asyncio.gather(*(placed(session) for _ in range(40)))
        assert [answer["status"] for answer in refused] == [OVERLOADED] * 40
        go_on.set()
        assert all(answer["allowed"] for answer in await asyncio.gather(*under_way))
        assert (await placed(session))["allowed"]
    assert site.handlers.placing.inside == 0
