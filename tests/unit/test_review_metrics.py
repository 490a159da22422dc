"""What is counted of reviews, over the webhook's real handlers."""

from __future__ import annotations

import asyncio
import base64
import logging
import re
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from shared.api import names
from shared.core.refusal import Reason
from shared.kube import paths
from tests.builders import PodBuilder, a_node, a_pod
from tests.fakes import faults
from tests.fakes.apiserver import place_of
from tests.fakes.objects import Json
from tests.fakes.selectors import Selector
from tests.fakes.serving import eventually
from tests.unit.admission import gpu_node, store
from tests.unit.scraping import moved, value
from tests.unit.test_app import Site, a_site, asking, review, unanswered
from webhook.app import BODY_LIMIT

REVIEWS = "placement_reviews_total"


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    async with a_site(tmp_path) as site:
        yield site


async def test_a_pod_that_is_placed_counts_once_at_each_webhook(site: Site) -> None:
    placed = await site.webhook.place(asking())
    await site.ask("/mutate", asking())
    await site.ask("/validate", placed)
    assert moved(site.handlers.recorder, REVIEWS) == {("mutate", "placed", ""): 1, ("validate", "placed", ""): 1}


async def test_what_asks_for_nothing_is_passed(site: Site) -> None:
    await site.ask("/mutate", a_pod())
    await site.ask("/mutate", asking(), operation="DELETE", object=None)
    await site.ask("/validate", a_pod())
    assert moved(site.handlers.recorder, REVIEWS) == {("mutate", "passed", ""): 2, ("validate", "passed", ""): 1}


REFUSED: dict[Reason, PodBuilder] = {
    Reason.INVALID_REQUEST: asking("16GB"),
    Reason.VENDOR_MISMATCH: asking().annotated(names.VENDOR, "amd"),
    Reason.ACCEL_VERSION_UNMET: asking().annotated(names.ACCEL_VERSION, "cuda>=99.0"),
    Reason.INSUFFICIENT_GPU_COUNT: asking().annotated(names.GPUS, "2"),
    Reason.INSUFFICIENT_CAPACITY: asking("20"),
}


@pytest.mark.parametrize(("reason", "pod"), REFUSED.items(), ids=[str(reason) for reason in REFUSED])
async def test_a_refusal_is_counted_by_its_reason(site: Site, reason: Reason, pod: PodBuilder) -> None:
    assert (await site.ask("/mutate", pod))["allowed"] is False
    assert moved(site.handlers.recorder, REVIEWS) == {("mutate", "refused", str(reason)): 1}


async def test_an_answer_that_the_api_server_kept_from_us_is_unavailable(site: Site) -> None:
    site.served.server.fail(faults.respond(500, "broken"), method="PATCH")
    assert (await site.ask("/mutate", asking()))["status"]["code"] == 503
    assert moved(site.handlers.recorder, REVIEWS) == {("mutate", "unavailable", "api_server"): 1}


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
async def test_a_missed_deadline_is_counted(site: Site, path: str, forward: Callable[[float], None]) -> None:
    await unanswered(site, path, forward)
    assert moved(site.handlers.recorder, REVIEWS) == {(path[1:], "unavailable", "deadline"): 1}


@pytest.mark.parametrize(
    ("body", "content_type", "status"),
    [
        pytest.param(b"{", "application/json", "400", id="not-json"),
        pytest.param(b" " * (BODY_LIMIT + 1), "application/json", "413", id="too-large"),
        pytest.param(b"{}", "text/plain", "415", id="text"),
    ],
)
async def test_a_request_that_is_no_review_is_counted_by_its_status(
    site: Site, body: bytes, content_type: str, status: str
) -> None:
    await site.post("/mutate", body, headers={"Content-Type": content_type})
    assert moved(site.handlers.recorder, "placement_http_errors_total") == {(status,): 1}
    assert moved(site.handlers.recorder, REVIEWS) == {}


async def test_a_review_is_in_flight_until_it_is_answered_and_its_time_is_observed(
    site: Site, forward: Callable[[float], None]
) -> None:
    recorder = site.handlers.recorder
    site.served.server.fail(faults.hang(), method="PATCH")
    asked = asyncio.create_task(site.post("/mutate?timeout=60s", review(asking())))
    await eventually(lambda: value(recorder, "placement_reviews_in_flight") == 1)
    assert moved(recorder, "placement_review_seconds_count") == {}
    forward(60.0)
    await asked
    assert value(recorder, "placement_reviews_in_flight") == 0
    assert moved(recorder, "placement_review_seconds_count") == {("mutate",): 1}


async def test_every_verdict_is_exported_before_it_first_occurs(site: Site) -> None:
    """A rate over a series that begins with its first event does not see that event."""
    assert value(site.handlers.recorder, REVIEWS, webhook="mutate", verdict="refused", reason="vendor_mismatch") == 0
    assert value(site.handlers.recorder, REVIEWS, webhook="validate", verdict="unavailable", reason="deadline") == 0


async def test_the_number_of_series_does_not_grow_with_what_is_reviewed(site: Site) -> None:
    def series() -> set[str]:
        text = generate_latest(site.handlers.recorder).decode() + generate_latest(site.webhook.ledger.recorder).decode()
        return set(re.findall(r"^(placement_\S+) ", text, re.MULTILINE))

    before = series()
    for number in range(30):
        pod = a_pod(f"pod-{number}").annotated(names.VRAM, "1" if number % 2 else "20")
        await site.ask(
            "/mutate", pod.owned_by("ReplicaSet", f"owner-{number}", f"uid-{number}"), namespace=f"ns-{number}"
        )
    assert series() == before


CANARY = "canary-7f3d9b"


@pytest.mark.parametrize(
    ("gb", "allowed"), [("6", True), ("20", False), ("16GB", False)], ids=["placed", "refused", "malformed"]
)
async def test_nothing_secret_of_a_pod_reaches_metrics_logs_answers_or_objects(
    site: Site, caplog: pytest.LogCaptureFixture, gb: str, allowed: bool
) -> None:
    """Environment, arguments, foreign annotations and what is known of the caller stay where they are."""
    objects = site.served.server.objects
    owner = {"metadata": {"name": "chat"}, "spec": {"replicas": 1}}
    uid = store(objects, "/apis/apps/v1/namespaces/models/replicasets", owner)["metadata"]["uid"]
    container = {
        "name": "main",
        "env": [{"name": "HF_TOKEN", "value": CANARY}],
        "args": ["--api-key", CANARY],
        "envFrom": [{"secretRef": {"name": CANARY}}],
    }
    pod = asking(gb).annotated("example.org/note", CANARY).spec(containers=[container])
    caller = {"username": "chat", "extra": {"token": [CANARY]}}
    with caplog.at_level(logging.DEBUG):
        response = await site.ask("/mutate", pod.owned_by("ReplicaSet", "chat", uid), userInfo=caller)
        if not allowed:
            await eventually(lambda: any("refusals" in each.get("status", {}) for each in _placements(site)))
    assert response["allowed"] is allowed
    assert CANARY not in str(response)
    assert CANARY not in base64.b64decode(response.get("patch", "")).decode()
    assert CANARY not in " ".join(map(_everything, caplog.records))
    for recorder in (site.handlers.recorder, site.webhook.ledger.recorder, site.served.client.recorder):
        assert CANARY not in generate_latest(recorder).decode()
    assert CANARY not in str(_placements(site))
    assert CANARY not in str(objects.get(place_of(paths.gpu_nodes("t4"))))


def _placements(site: Site) -> list[Json]:
    return site.served.server.objects.select(place_of(paths.model_placements("models")), Selector())


def _everything(record: logging.LogRecord) -> str:
    return f"{record.getMessage()} {record.__dict__.get('fields', '')} {record.exc_text or ''}"


async def test_a_node_with_other_cards_is_no_new_series_of_the_webhook(site: Site) -> None:
    before = generate_latest(site.handlers.recorder)
    await site.webhook.see(a_node("other"), gpu_node("other", 8, 8))
    assert generate_latest(site.handlers.recorder) == before
