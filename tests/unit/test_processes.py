"""Webhook and controller as they are wired, on one fake API server: from nothing to a placed pod, and to the end."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import jsonpatch
import orjson
import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller import __main__ as controller_process
from shared.api import names
from shared.kube import paths
from shared.obs.metrics import Of, definitions
from shared.settings import CommonSettings, ControllerSettings, WebhookSettings
from tests.builders import a_node, a_pod
from tests.fakes.apiserver import place_of
from tests.fakes.faults import hold, respond
from tests.fakes.serving import Served, eventually, serving
from tests.unit.admission import gpu_node, reservations, store
from tests.unit.controlling import stored
from tests.unit.test_app import review
from tests.unit.test_health import HOST, free_port
from webhook import __main__ as webhook_process

SYSTEM = "placement-system"


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    """A cluster with the chart installed and one node with a card of 16 GB."""
    async with serving(tmp_path) as both:
        for path, name in (
            (paths.mutating_webhooks(), "zz-placement-operator"),
            (paths.validating_webhooks(), "placement-operator"),
        ):
            webhooks = [{"name": f"{name}.kamiwaza.ai", "clientConfig": {"service": {"name": "webhook"}}}]
            store(both.server.objects, path, {"metadata": {"name": name}, "webhooks": webhooks})
        store(both.server.objects, paths.nodes(), a_node("t4").raw())
        store(both.server.objects, paths.gpu_nodes(), gpu_node("t4", 16))
        yield both


def common(served: Served, folder: Path) -> CommonSettings:
    return CommonSettings(SYSTEM, served.server.kubeconfig(folder), health_host=HOST, health_port=free_port())


@asynccontextmanager
async def running(work: Any) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(work)
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def ready(session: aiohttp.ClientSession, settings: CommonSettings) -> tuple[int, str]:
    """What `/readyz` says; 0 while nobody listens."""
    try:
        async with session.get(f"http://{HOST}:{settings.health_port}/readyz") as answer:
            return answer.status, await answer.text()
    except aiohttp.ClientConnectionError:
        return 0, ""


async def until_health(session: aiohttp.ClientSession, settings: CommonSettings, status: int, words: str = "") -> str:
    """Waits until `/readyz` answers with `status` and `words` in its text, which is returned."""
    async with asyncio.timeout(120):
        while True:
            seen, text = await ready(session, settings)
            if seen == status and words in text:
                return text
            await asyncio.sleep(0.01)


def bundle(served: Served) -> bytes:
    """What the API server trusts the webhook by; empty until the controller has written it."""
    raw = stored(served.server.objects, paths.mutating_webhooks("zz-placement-operator"))
    assert raw is not None
    return base64.b64decode(raw["webhooks"][0]["clientConfig"].get("caBundle", ""))


async def test_a_pod_is_placed_recorded_and_released_by_both_together(served: Served, tmp_path: Path) -> None:
    stop_controller = asyncio.Event()
    webhook = WebhookSettings(common(served, tmp_path), listen_host=HOST, listen_port=free_port())
    controller = ControllerSettings(common(served, tmp_path), "controller-0", extra_sans=(HOST,))
    async with (
        aiohttp.ClientSession() as session,
        running(webhook_process._serve(webhook, asyncio.Event())),
        running(controller_process._control(controller, stop_controller)) as controlling,
    ):
        await until_health(session, controller.common, 200)
        await until_health(session, webhook.common, 200)
        url = f"https://{HOST}:{webhook.listen_port}"
        await eventually(lambda: bundle(served) != b"")
        trusting = ssl.create_default_context(cadata=bundle(served).decode())
        pod = a_pod().annotated(names.VRAM, "6").raw()
        options: dict[str, Any] = {"ssl": trusting, "headers": {"Content-Type": "application/json"}}
        async with session.post(f"{url}/mutate", data=orjson.dumps(review(pod)), **options) as answer:
            response = orjson.loads(await answer.read())["response"]
        placed = jsonpatch.apply_patch(pod, orjson.loads(base64.b64decode(response["patch"])))
        async with session.post(f"{url}/validate", data=orjson.dumps(review(placed)), **options) as answer:
            assert orjson.loads(await answer.read())["response"]["allowed"] is True

        store(served.server.objects, paths.pods("models"), {**placed, "spec": {**placed["spec"], "nodeName": "t4"}})
        path = paths.model_placements("models", "pod-pod")
        await eventually(lambda: stored(served.server.objects, path) is not None)
        assert len(reservations(served.server.objects, "t4")) == 1
        await served.client.delete(paths.pods("models", "pod"))
        await eventually(lambda: reservations(served.server.objects, "t4") == {})

        stop_controller.set()
        await controlling
        lease = stored(served.server.objects, paths.leases(SYSTEM, "placement-operator-controller"))
        assert lease is not None
        assert not lease["spec"].get("holderIdentity")


async def test_a_webhook_that_is_told_to_end_is_unready_and_answers_until_its_pause_is_over(
    served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, pause_is_over, sleep = asyncio.Event(), asyncio.Event(), asyncio.sleep

    async def pause(seconds: float) -> None:
        await (pause_is_over.wait() if seconds == webhook_process._LINGER_S else sleep(seconds))

    monkeypatch.setattr(asyncio, "sleep", pause)
    webhook = WebhookSettings(common(served, tmp_path), listen_host=HOST, listen_port=free_port())
    controller = ControllerSettings(common(served, tmp_path), "controller-0", extra_sans=(HOST,))
    async with (
        aiohttp.ClientSession() as session,
        running(webhook_process._serve(webhook, stop)) as serving_reviews,
        running(controller_process._control(controller, asyncio.Event())),
    ):
        await until_health(session, webhook.common, 200)
        await eventually(lambda: bundle(served) != b"")
        trusting = ssl.create_default_context(cadata=bundle(served).decode())
        stop.set()
        await until_health(session, webhook.common, 503, "shutting down")
        url, body = f"https://{HOST}:{webhook.listen_port}/mutate", orjson.dumps(review(a_pod()))
        options: dict[str, Any] = {"ssl": trusting, "headers": {"Content-Type": "application/json"}}
        for _ in range(3):
            async with session.post(url, data=body, **options) as answer:
                assert (answer.status, answer.headers["Connection"]) == (200, "close")
        assert not serving_reviews.done()
        pause_is_over.set()
        await serving_reviews
        with pytest.raises(aiohttp.ClientConnectionError):
            await session.post(url, data=body, **options)


async def scraped(session: aiohttp.ClientSession, settings: CommonSettings) -> str:
    """What `/metrics` says; empty while nobody listens."""
    try:
        async with session.get(f"http://{HOST}:{settings.health_port}/metrics") as answer:
            assert answer.status == 200
            return await answer.text()
    except aiohttp.ClientConnectionError:
        return ""


async def until_scraped(session: aiohttp.ClientSession, settings: CommonSettings, *words: str) -> str:
    """Waits until `/metrics` has all `words` in its text, which is returned."""
    async with asyncio.timeout(120):
        while True:
            text = await scraped(session, settings)
            if all(each in text for each in words):
                return text
            await asyncio.sleep(0.01)


async def test_both_export_what_is_defined_for_them_and_nothing_secret(
    served: Served, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    served.server.token = "a-token-that-nobody-may-see"
    webhook = WebhookSettings(common(served, tmp_path), listen_host=HOST, listen_port=free_port())
    controller = ControllerSettings(common(served, tmp_path), "controller-0")
    async with (
        aiohttp.ClientSession() as session,
        running(webhook_process._serve(webhook, asyncio.Event())),
        running(controller_process._control(controller, asyncio.Event())),
    ):
        await until_health(session, webhook.common, 200)
        await until_health(session, controller.common, 200)
        known = ("placement_card_free_gb{", "\nplacement_serving_certificate_expiry_timestamp_seconds ")
        told = await until_scraped(session, controller.common, *known)
        exported = {"webhook": await scraped(session, webhook.common), "controller": told}
    for process, of in (("webhook", {Of.WEBHOOK, Of.BOTH}), ("controller", {Of.LEADER, Of.CONTROLLER, Of.BOTH})):
        _assert_labelled_as_defined(exported[process])
        kinds = dict(re.findall(r"^# TYPE (placement_\w+) (\w+)$", exported[process], re.MULTILINE))
        assert kinds == {each.name: str(each.kind) for each in definitions() if each.of in of}
        assert "process_resident_memory_bytes " in exported[process]
        assert served.server.token not in exported[process]
    assert served.server.token not in caplog.text
    assert "placement_leader 1.0\n" in told
    assert "placement_leader_terms_total 1.0\n" in told
    assert 'placement_card_budget_gb{card="0",node="t4"} 16.0\n' in told
    expiry = re.compile(r"^placement_serving_certificate_expiry_timestamp_seconds (\S+)$", re.MULTILINE)
    assert len({found[1] for text in exported.values() if (found := expiry.search(text))}) == 1


def _assert_labelled_as_defined(text: str) -> None:
    labels = {each.name: set(each.labels) for each in definitions()}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            name = re.sub(r"_(bucket|count|sum)$", "", sample.name)
            assert sample.labels.keys() - {"le"} == labels.get(name, sample.labels.keys()), sample


async def test_a_webhook_tells_of_its_connections(served: Served, tmp_path: Path) -> None:
    webhook = WebhookSettings(common(served, tmp_path), listen_host=HOST, listen_port=free_port())
    controller = ControllerSettings(common(served, tmp_path), "controller-0")
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    async with (
        aiohttp.ClientSession() as session,
        running(webhook_process._serve(webhook, asyncio.Event())),
        running(controller_process._control(controller, asyncio.Event())),
    ):
        await until_health(session, webhook.common, 200)
        assert "placement_connections 0.0\n" in await scraped(session, webhook.common)
        _, writer = await asyncio.open_connection(HOST, webhook.listen_port, ssl=trusting)
        told = await until_scraped(session, webhook.common, "placement_connections 1.0\n")
        writer.transport.abort()
    assert "placement_connections_turned_away_total 0.0\n" in told


async def test_a_controller_that_stands_by_tells_nothing_of_the_cluster(served: Served, tmp_path: Path) -> None:
    first, second = (ControllerSettings(common(served, tmp_path), f"controller-{number}") for number in range(2))
    async with aiohttp.ClientSession() as session, running(controller_process._control(first, asyncio.Event())):
        await until_scraped(session, first.common, "placement_leader 1.0\n")
        async with running(controller_process._control(second, asyncio.Event())):
            await until_health(session, second.common, 200)
            told = await scraped(session, second.common)
    assert "placement_leader 0.0\n" in told
    assert "placement_card_budget_gb" not in told
    assert "placement_waiting_owners" not in told


@pytest.mark.parametrize("missing", [paths.pods(), paths.model_placements()], ids=["pods", "reports"])
async def test_a_leader_changes_nothing_before_it_has_seen_every_collection_and_makes_the_certificate_first(
    served: Served, tmp_path: Path, missing: str
) -> None:
    broken = {"reservations": {"zzzzzzzzzz": "not an entry"}}
    served.server.objects.update(
        place_of(paths.status_of(paths.gpu_nodes("t4"))), lambda old: {**old, "status": {**old["status"], **broken}}
    )
    go_on = asyncio.Event()
    served.server.fail(hold(go_on), path=missing, times=10_000)
    controller = ControllerSettings(common(served, tmp_path), "controller-0")
    async with aiohttp.ClientSession() as session, running(controller_process._control(controller, asyncio.Event())):
        await eventually(lambda: bundle(served) != b"")
        await until_health(session, controller.common, 503, "[+]gpunodes ok\n")
        await asyncio.sleep(0.2)
        assert reservations(served.server.objects, "t4") == broken["reservations"]
        go_on.set()
        await eventually(lambda: reservations(served.server.objects, "t4") == {})


async def test_a_webhook_that_is_told_to_end_before_it_could_serve_ends(served: Served, tmp_path: Path) -> None:
    served.server.fail(respond(503, "?"), times=10_000)
    stop = asyncio.Event()
    settings = WebhookSettings(common(served, tmp_path), listen_host=HOST, listen_port=free_port())
    async with aiohttp.ClientSession() as session, running(webhook_process._serve(settings, stop)) as process:
        why = await until_health(session, settings.common, 503)
        assert "[-]certificate: there is none yet\n" in why
        assert "[-]pods: is not listed yet\n" in why
        stop.set()
        await process


async def test_a_webhook_answers_nobody_before_it_has_seen_every_collection(served: Served, tmp_path: Path) -> None:
    go_on, stop = asyncio.Event(), asyncio.Event()
    served.server.fail(hold(go_on), path=paths.gpu_nodes(), times=10_000)
    webhook = WebhookSettings(common(served, tmp_path), listen_host=HOST, listen_port=free_port())
    controller = ControllerSettings(common(served, tmp_path), "controller-0", extra_sans=(HOST,))
    async with (
        aiohttp.ClientSession() as session,
        running(webhook_process._serve(webhook, stop)),
        running(controller_process._control(controller, asyncio.Event())),
    ):
        why = await until_health(session, webhook.common, 503, "[+]certificate ok\n[+]")
        assert "[-]gpunodes: is not listed yet\n" in why
        await asyncio.sleep(0.2)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(HOST, webhook.listen_port)
        go_on.set()
        await until_health(session, webhook.common, 200)
        await eventually(lambda: bundle(served) != b"")
        trusting = ssl.create_default_context(cadata=bundle(served).decode())
        async with session.get(f"https://{HOST}:{webhook.listen_port}/mutate", ssl=trusting) as answer:
            assert answer.status == 405


@pytest.mark.parametrize("process", [webhook_process, controller_process], ids=["webhook", "controller"])
def test_a_process_that_lacks_a_setting_says_so_in_one_line(
    process: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("PLACEMENT_NAMESPACE", raising=False)
    assert process.main() == 2
    assert capsys.readouterr().err.startswith("cannot start: PLACEMENT_NAMESPACE is not set")


def test_every_reservation_gets_an_id_of_its_own() -> None:
    made = {webhook_process._new_id() for _ in range(1000)}
    assert len(made) == 1000
    assert {len(each) for each in made} == {10}
