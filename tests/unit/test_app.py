"""The HTTP side of the webhook: every request gets a proper answer in time."""

from __future__ import annotations

import asyncio
import base64
import io
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonpatch
import orjson
import pytest
from aiohttp import ClientResponse
from aiohttp.test_utils import TestClient, TestServer

from shared.api import names
from shared.kube import paths
from shared.kube.owners import Owners
from tests.builders import PodBuilder, a_node, a_pod
from tests.fakes import faults
from tests.fakes.apiserver import place_of
from tests.fakes.objects import RefusalError
from tests.fakes.serving import Served, eventually, serving
from tests.unit.admission import Webhook, gpu_node, reservation_id, reservations, store
from webhook.app import BODY_LIMIT, Handlers
from webhook.refusals import RefusalReports


class Site:
    """The webhook's routes on a free port."""

    def __init__(self, http: TestClient[Any, Any], handlers: Handlers, served: Served, webhook: Webhook) -> None:
        self.http = http
        self.handlers = handlers
        self.served = served
        self.webhook = webhook

    async def post(self, path: str, body: Any, **options: Any) -> ClientResponse:
        data = io.BytesIO(body if isinstance(body, bytes) else orjson.dumps(body))
        return await self.http.post(path, data=data, **{"headers": {"Content-Type": "application/json"}, **options})

    async def ask(self, path: str, pod: PodBuilder | dict[str, Any], **request: Any) -> dict[str, Any]:
        """The response to a review of a pod's CREATE."""
        answer = await self.post(path, review(pod, **request))
        assert answer.status == 200
        response: dict[str, Any] = orjson.loads(await answer.read())["response"]
        assert response["uid"] == "uid-1"
        return response


def review(pod: PodBuilder | dict[str, Any], **request: Any) -> dict[str, Any]:
    return {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "uid-1",
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "CREATE",
            "namespace": "models",
            "object": pod.raw() if isinstance(pod, PodBuilder) else pod,
            **request,
        },
    }


@asynccontextmanager
async def a_site(folder: Path) -> AsyncIterator[Site]:
    """The webhook before a fake API server, with one node that has a 16 GB card.

    Its times are so long that no machine is too slow for them. A review that is to run out of time names its own.
    """
    with pytest.MonkeyPatch.context() as patch:
        for limit in ("_BODY_S", "_DEFAULT_TIMEOUT_S", "_LONGEST_TIMEOUT_S"):
            patch.setattr(f"webhook.app.{limit}", 600.0)
        async with _a_site(folder) as site:
            yield site


@asynccontextmanager
async def _a_site(folder: Path) -> AsyncIterator[Site]:
    async with serving(folder) as served:
        webhook = Webhook(served)
        await webhook.see(a_node("t4"), gpu_node("t4", 16))
        refusals = RefusalReports(served.client, Owners(served.client))
        handlers = Handlers(webhook.mutator, webhook.validator, refusals)
        writing = asyncio.create_task(refusals.run())
        async with TestClient(TestServer(handlers.app())) as http:
            yield Site(http, handlers, served, webhook)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with a_site(tmp_path) as site:
        yield site


def asking(gb: str = "6") -> PodBuilder:
    return a_pod().annotated(names.VRAM, gb)


async def test_a_pod_goes_through_both_webhooks(site: Site) -> None:
    response = await site.ask("/mutate", asking())
    assert response["allowed"] is True
    ops = orjson.loads(base64.b64decode(response["patch"]))
    pod = jsonpatch.apply_patch(asking().raw(), ops)
    assert (await site.ask("/validate", pod))["allowed"] is True


async def test_a_replaced_variable_is_warned_of(site: Site) -> None:
    pod = asking().spec(containers=[{"name": "main", "env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}])
    (warning,) = (await site.ask("/mutate", pod))["warnings"]
    assert "NVIDIA_VISIBLE_DEVICES" in warning


@pytest.mark.parametrize("labels", [{}, {names.NAMESPACE_LABEL: "disabled"}, None], ids=["none", "other", "unknown"])
async def test_a_namespace_that_has_opted_in_for_the_api_server_is_looked_at_whatever_the_watch_shows(
    site: Site, labels: dict[str, str] | None
) -> None:
    if labels is not None:
        site.webhook.cluster.namespace_upserted("models", labels)
    assert "patch" in await site.ask("/mutate", asking())
    assert (await site.ask("/validate", asking()))["allowed"] is False


def logged(caplog: pytest.LogCaptureFixture) -> list[tuple[str, str, dict[str, Any]]]:
    """Level, event and fields of what the HTTP side wrote."""
    return [
        (record.levelname, record.getMessage(), record.__dict__["fields"])
        for record in caplog.records
        if record.name == "webhook.app"
    ]


async def test_a_placement_is_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    pod = await site.webhook.place(asking())
    with caplog.at_level(logging.INFO):
        await site.ask("/validate", pod)
    about = {"uid": "uid-1", "namespace": "models", "pod": "pod", "dry_run": False}
    assert logged(caplog) == [("INFO", "pod placed", {**about, "reservation": reservation_id(0), "node": "t4"})]


@pytest.mark.parametrize(
    ("gb", "why"),
    [
        pytest.param("20", {"reason": "insufficient_capacity"}, id="no-fit"),
        pytest.param(
            "16GB", {"reason": "invalid_request", "field": f"metadata.annotations[{names.VRAM}]"}, id="invalid"
        ),
    ],
)
async def test_a_refusal_is_logged_with_its_reason(
    site: Site, caplog: pytest.LogCaptureFixture, gb: str, why: dict[str, str]
) -> None:
    with caplog.at_level(logging.INFO):
        await site.ask("/mutate", {**asking(gb).raw(), "metadata": {"generateName": "chat-", **_annotated(gb)}})
    about = {"uid": "uid-1", "namespace": "models", "pod": "chat-", "dry_run": False}
    assert logged(caplog) == [("INFO", "pod refused", {**about, **why})]


async def test_what_could_not_be_looked_up_is_logged_as_a_warning(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    pod = await site.webhook.place(asking())
    pod["metadata"]["labels"][names.RESERVATION] = "zzzzzzzzzz"
    site.served.server.fail(faults.respond(500, "broken"), method="GET")
    with caplog.at_level(logging.INFO):
        response = await site.ask("/validate", pod)
    ((level, event, fields),) = logged(caplog)
    assert (level, event) == ("WARNING", "placement unavailable")
    assert fields["why"] in response["status"]["message"]
    assert fields["detail"] == "500 NotKubernetes: broken"
    assert "broken" not in response["status"]["message"]


async def test_a_pod_that_asks_for_nothing_is_not_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        await site.ask("/mutate", a_pod())
        await site.ask("/validate", a_pod())
    assert logged(caplog) == []


async def test_a_refusal_is_answered_and_then_reported_to_the_workload(site: Site) -> None:
    owner = {"metadata": {"name": "chat"}, "spec": {"replicas": 1}}
    uid = store(site.served.server.objects, "/apis/apps/v1/namespaces/models/replicasets", owner)["metadata"]["uid"]
    response = await site.ask("/mutate", asking("20").owned_by("ReplicaSet", "chat", uid))
    assert response["status"]["code"] == 403
    path = place_of(paths.model_placements("models", "replicaset-chat"))
    await eventually(lambda: "refusals" in (_stored(site, path).get("status") or {}))
    refusal = _stored(site, path)["status"]["refusals"]["ReplicaSet.chat"]
    assert refusal["message"] == response["status"]["message"]


async def test_a_refused_dry_run_is_reported_to_nobody(site: Site) -> None:
    owner = {"metadata": {"name": "real"}}
    uid = store(site.served.server.objects, "/apis/apps/v1/namespaces/models/statefulsets", owner)["metadata"]["uid"]
    dry = asking("20").owned_by("StatefulSet", "dry", "uid-dry")
    real = asking("20").owned_by("StatefulSet", "real", uid)
    assert (await site.ask("/mutate", dry, dryRun=True))["allowed"] is False
    assert (await site.ask("/mutate", real))["allowed"] is False
    place = place_of(paths.model_placements("models", "statefulset-real"))
    await eventually(lambda: "refusals" in (_stored(site, place).get("status") or {}))
    assert not any("dry" in each for each in site.served.server.requests)


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
@pytest.mark.parametrize(
    "request_fields",
    [
        pytest.param({"operation": "DELETE", "object": None}, id="a-delete"),
        pytest.param({"subResource": "eviction"}, id="a-subresource"),
        pytest.param(
            {"resource": {"group": "apps", "version": "v1", "resource": "deployments"}}, id="another-resource"
        ),
    ],
)
async def test_what_is_no_create_of_a_pod_passes(site: Site, path: str, request_fields: dict[str, Any]) -> None:
    assert await site.ask(path, asking("20"), **request_fields) == {"uid": "uid-1", "allowed": True}


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        pytest.param(b"{", "application/json", 400, id="not-json"),
        pytest.param(b"{}", "application/json", 400, id="no-review"),
        pytest.param(b"{}", "application/yaml", 415, id="another-content-type"),
        pytest.param(b"{}", "", 415, id="no-content-type"),
        pytest.param(b" " * (BODY_LIMIT + 1), "application/json", 413, id="too-large"),
    ],
)
async def test_a_request_that_is_no_review_is_a_client_error(
    site: Site, body: bytes, content_type: str, status: int
) -> None:
    answer = await site.post("/mutate", body, headers={"Content-Type": content_type})
    assert answer.status == status
    assert (await answer.json())["error"]
    assert (await site.ask("/mutate", asking()))["allowed"] is True


async def test_the_content_type_may_name_a_charset(site: Site) -> None:
    answer = await site.post("/mutate", review(a_pod()), headers={"Content-Type": "application/json; charset=utf-8"})
    assert answer.status == 200


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/mutate", 405), ("POST", "/other", 404)])
async def test_other_routes_and_methods_do_not_exist(site: Site, method: str, path: str, status: int) -> None:
    async with site.http.request(method, path) as answer:
        assert answer.status == status


async def unanswered(site: Site, path: str, forward: Callable[[float], None]) -> ClientResponse:
    """What is said of a pod for which the API server had to be asked, which was silent until no time was left."""
    pod = await site.webhook.place(asking("1"))
    pod["metadata"]["labels"][names.RESERVATION] = "zzzzzzzzzz"
    before = len(site.served.server.requests)
    site.served.server.fail(faults.hang(), times=2)
    asked = asyncio.create_task(site.post(f"{path}?timeout=60s", review(pod)))
    await eventually(lambda: len(site.served.server.requests) > before)
    forward(60.0)
    return await asked


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
async def test_an_api_server_that_is_silent_is_unavailable_in_time(
    site: Site, path: str, forward: Callable[[float], None]
) -> None:
    answer = await unanswered(site, path, forward)
    assert answer.status == 200
    response = orjson.loads(await answer.read())["response"]
    assert (response["allowed"], response["status"]["code"]) == (False, 503)
    assert "no time was left" in response["status"]["message"]
    assert len(reservations(site.served.server.objects, "t4")) == 1


@pytest.mark.parametrize("query", ["", "?timeout=", "?timeout=soon", "?timeout=-1s", "?timeout=nan", "?timeout=1e9s"])
async def test_a_timeout_that_makes_no_sense_is_not_an_error(site: Site, query: str) -> None:
    answer = await site.post(f"/mutate{query}", review(asking()))
    assert orjson.loads(await answer.read())["response"]["allowed"] is True


async def test_clients_are_asked_to_connect_anew_while_it_closes(site: Site) -> None:
    open_answer = await site.post("/mutate", review(a_pod()))
    site.handlers.closing = True
    closing_answer = await site.post("/mutate", review(a_pod()))
    assert open_answer.headers.get("Connection") != "close"
    assert closing_answer.headers["Connection"] == "close"
    assert closing_answer.status == 200


def _annotated(gb: str) -> dict[str, Any]:
    return {"annotations": {names.VRAM: gb}}


def _stored(site: Site, place: Any) -> dict[str, Any]:
    try:
        return site.served.server.objects.get(place)
    except RefusalError:
        return {}
