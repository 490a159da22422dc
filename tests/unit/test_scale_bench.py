"""The made-up cluster of the bench is one that the product has nothing to mend in, and its server a good enough one."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import ClientSession, web

from controller.ledger_rules import Sightings, review_ledger
from hack.scale.objects import MODELS, everything
from hack.scale.server import Collections, application, parse
from shared.core.nodes import node_facts
from shared.core.pods import PodFacts, pod_facts
from shared.core.snapshot import NodeState
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.credentials import Connection
from shared.kube.errors import AlreadyExists, Conflict, NotFound
from shared.kube.gpunodes import gpu_node

NODES, PODS = 6, 120


@pytest.fixture
async def client() -> AsyncIterator[KubeClient]:
    """A client of the bench's server."""
    runner = web.AppRunner(application(Collections(everything(NODES, PODS))), handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()

    async def no_credentials() -> str | None:
        return None

    connection = Connection(f"http://127.0.0.1:{runner.addresses[0][1]}", ClientSession(), {}, no_credentials, None)
    async with KubeClient(connection) as client:
        yield client
    await runner.cleanup()


async def test_its_ledgers_agree_with_its_pods_and_no_card_is_over_full(client: KubeClient) -> None:
    pods: dict[str, dict[str, PodFacts]] = {}
    for raw in (await client.list(paths.pods())).items:
        facts = pod_facts(raw)
        assert facts is not None
        pods.setdefault(facts.node, {})[facts.key] = facts
    assert sum(map(len, pods.values())) == PODS
    nodes = {raw["metadata"]["name"]: node_facts(raw) for raw in (await client.list(paths.nodes())).items}
    placed = 0
    for raw in (await client.list(paths.gpu_nodes())).items:
        node = gpu_node(raw, exclusive=False)
        state = NodeState.of(nodes[node.name], node.inventory, node.ledger, pods[node.name])
        assert node.is_of(nodes[node.name].uid)
        assert review_ledger(node.ledger, state.pods, Sightings(), 0.0, 20.0, unix_now=0.0).changes == {}
        assert all(gb <= 80 for gb in state.used_gb.values())
        placed += len(node.ledger)
    assert placed == PODS // 2


async def test_its_server_pages_writes_and_watches_as_the_product_needs_it(client: KubeClient) -> None:
    listing = await client.list_as(lambda raw: raw["metadata"]["name"], paths.pods(MODELS), page=7)
    assert len(set(listing.items)) == PODS // 2
    node = (await client.list(paths.gpu_nodes())).items[0]
    path = paths.gpu_nodes(node["metadata"]["name"])
    stale = {"metadata": {"resourceVersion": node["metadata"]["resourceVersion"]}, "status": {"summary": {"cards": 8}}}
    written = await client.merge_patch(paths.status_of(path), stale)
    assert written["status"] == {**node["status"], "summary": {"cards": 8}}
    with pytest.raises(Conflict):
        await client.merge_patch(paths.status_of(path), stale)
    with pytest.raises(AlreadyExists):
        await client.create(paths.gpu_nodes(), node)
    with pytest.raises(NotFound):
        await client.get(paths.nodes("none"))
    query = {"watch": "true", "resourceVersion": listing.resource_version, "timeoutSeconds": "1"}
    events = [event async for event in client.stream(paths.gpu_nodes(), query, read_timeout_s=5)]
    assert events[0] == {"type": "MODIFIED", "object": written}


@pytest.mark.parametrize(
    ("path", "parts"),
    [
        ("/api/v1/nodes", ("/api/v1/nodes", "", "", "")),
        ("/api/v1/namespaces/a", ("/api/v1/namespaces", "", "a", "")),
        ("/api/v1/namespaces/a/pods/b", ("/api/v1/pods", "a", "b", "")),
        ("/apis/apps/v1/namespaces/a/replicasets/b/status", ("/apis/apps/v1/replicasets", "a", "b", "status")),
    ],
)
def test_paths_are_read(path: str, parts: tuple[str, ...]) -> None:
    assert parse(path) == parts
