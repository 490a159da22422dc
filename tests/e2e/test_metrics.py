"""What the processes export on a real control plane agrees with what was asked of them and with what runs."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

import pytest

from hack.devcluster.operator import Operator
from hack.devcluster.processes import Process
from shared.api import names
from tests.e2e.conftest import MakePool
from tests.e2e.kube import Namespace, deployment, pod, until
from tests.e2e.reviews import NOWHERE, WebhookPort
from tests.e2e.scrape import read, samples

pytestmark = pytest.mark.e2e

REVIEWS = "placement_reviews_total"


def cards(controller: Process, node: str) -> Mapping[str, float]:
    kinds = ("budget", "reserved", "free")
    return {kind: samples(controller, f"placement_card_{kind}_gb", node=node) for kind in kinds}


def test_each_verdict_of_a_webhook_counts_once(webhooks: list[WebhookPort], pool: MakePool) -> None:
    webhook, here = webhooks[0], pool(16)
    sent = {
        ("placed", ""): pod("fits", {names.VRAM: "6"}, pool=here.name),
        ("passed", ""): pod("plain"),
        ("refused", "insufficient_capacity"): pod("large", {names.VRAM: "20"}, pool=here.name),
        ("refused", "invalid_request"): pod("wrong", {names.VRAM: "16GB"}),
    }
    for (verdict, reason), manifest in sent.items():
        labels = {"webhook": "mutate", "verdict": verdict, "reason": reason}
        before = samples(webhook.process, REVIEWS, **labels)
        answer = webhook.mutate(manifest, NOWHERE, dryRun=True)
        assert answer.allowed == (verdict != "refused")
        assert samples(webhook.process, REVIEWS, **labels) == before + 1


def test_creates_are_counted_over_the_replicas(operator: Operator, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)

    def placed(webhook: str) -> float:
        return sum(samples(each, REVIEWS, webhook=webhook, verdict="placed") for each in operator.webhooks)

    mutated, validated = placed("mutate"), placed("validate")
    for number in range(3):
        namespace.create(pod(f"p-{number}", {names.VRAM: "2"}, pool=here.name))
    assert (placed("mutate"), placed("validate")) == (mutated + 3, validated + 3)


def test_the_leader_tells_the_gb_that_the_pods_hold(operator: Operator, pool: MakePool, namespace: Namespace) -> None:
    here, controller = pool(16), operator.controller
    until("the card is known", lambda: cards(controller, here.node) == {"budget": 16, "reserved": 0, "free": 16})
    namespace.create(deployment("chat", {names.VRAM: "6"}, replicas=2, pool=here.name))
    until("both are booked", lambda: cards(controller, here.node) == {"budget": 16, "reserved": 12, "free": 4})
    namespace.create(deployment("waits", {names.VRAM: "6"}, pool=here.name))
    until(
        "one owner waits",
        lambda: samples(controller, "placement_waiting_owners", reason="insufficient_capacity") >= 1,
    )
    namespace.delete("Deployment", "chat")
    namespace.running("waits")
    until("one is booked", lambda: cards(controller, here.node) == {"budget": 16, "reserved": 6, "free": 10})


def test_every_process_says_what_it_is_and_that_all_its_checks_pass(operator: Operator) -> None:
    for process in (*operator.webhooks, *operator.controllers):
        checks = [line for line in read(process, "/readyz").splitlines() if line.startswith("[")]
        assert len(checks) >= 8
        assert all(line.startswith("[+]") for line in checks)
        assert samples(process, "placement_ready") == len(checks)
        assert samples(process, "placement_build_info") == 1
        assert samples(process, "placement_watch_age_seconds", collection="pods") < 100
        # A controller tells it while it leads.
        expiry = partial(samples, process, "placement_serving_certificate_expiry_timestamp_seconds")
        assert until("the certificate's end is told", expiry) > 0
        assert samples(process, "placement_api_requests_total", verb="GET", code="2xx") > 0
    until("a controller leads", lambda: samples(operator.controller, "placement_leader") == 1)
