"""One control plane with the operator for the whole run; each test brings its own nodes and namespaces.

`E2E_KUBECONFIG=<file>` takes that cluster instead: the operator has to be installed there and something has to run the
nodes that the tests create (kwok). Tests that start, kill or configure processes are skipped then.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import pytest

from hack.devcluster.api import Api, ApiError, Json
from hack.devcluster.cluster import DevCluster
from hack.devcluster.nodes import node_manifest, seed_nodes, wait_nodes_ready
from hack.devcluster.operator import Operator
from hack.devcluster.spec import GpuSpec, NodeSpec
from shared.api import names
from shared.core.cards import Vendor
from tests.cases.chart import Chart, render, rendered
from tests.e2e.case_world import RealWorld
from tests.e2e.caught_up import wait_caught_up
from tests.e2e.existing import ExistingCluster
from tests.e2e.kube import Namespace, create_namespace, find, pod, until
from tests.e2e.reviews import NOWHERE, WebhookPort, webhook_ports

AnyCluster: TypeAlias = DevCluster | ExistingCluster

PATIENT: Mapping[str, Any] = {"webhook": {"timeoutSeconds": 10}}
"""Chart values. A machine that runs other tests beside may stand still for longer than the default, 3 s."""

_RUN = secrets.token_hex(2)
_numbers = itertools.count(1)
_MODELS = {
    Vendor.NVIDIA: "NVIDIA L4",
    Vendor.AMD: "AMD Radeon PRO W7900",
}


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes that carry the label `pool: <name>`."""

    name: str
    nodes: tuple[str, ...]

    @property
    def node(self) -> str:
        """The only node."""
        (node,) = self.nodes
        return node


class MakePool(Protocol):
    """Creates nodes with a card of each of `gbs`; they are gone after the test (or the module).

    With `offers` a vendor's plugin gives units away there instead of an agent, as many of each resource.
    """

    def __call__(
        self,
        *gbs: int,
        nodes: int = 1,
        vendor: Vendor = Vendor.NVIDIA,
        cuda: str | None = "12.4",
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        offers: Mapping[str, int] | None = None,
        **capacity: Any,
    ) -> Pool: ...


class MakeNamespace(Protocol):
    """Creates a namespace with the label that opts it in, or without one where `mode` is None."""

    def __call__(self, mode: str | None = names.MODE_ENABLED, **labels: str) -> Namespace: ...


@dataclass(frozen=True, slots=True)
class Stage:
    """The cluster, and the operator's processes if they are ours."""

    cluster: AnyCluster
    operator: Operator | None

    @property
    def api(self) -> Api:
        return self.cluster.api


@pytest.fixture(scope="session")
def stage() -> Iterator[Stage]:
    """A cluster with the operator at work: two webhooks behind a forwarder and one controller."""
    if given := os.environ.get("E2E_KUBECONFIG"):
        existing = ExistingCluster(Path(given))
        yield Stage(existing, None)
        existing.api.close()
        return
    with DevCluster() as cluster, Operator(cluster, webhooks=2, values=PATIENT) as operator:
        yield Stage(cluster, operator)


@pytest.fixture(scope="session")
def cluster(stage: Stage) -> AnyCluster:
    return stage.cluster


@pytest.fixture(scope="session")
def api(stage: Stage) -> Api:
    return stage.api


@pytest.fixture
def operator(stage: Stage) -> Operator:
    """The operator's processes. Whoever kills one restarts it."""
    if stage.operator is None:
        pytest.skip("E2E_KUBECONFIG is set: the operator's processes there are not ours to touch")
    return stage.operator


@pytest.fixture
def webhooks(stage: Stage, operator: Operator) -> list[WebhookPort]:
    """The ports of the webhook processes, past the API server."""
    return webhook_ports(stage.api, operator)


@pytest.fixture
def pool(stage: Stage) -> Iterator[MakePool]:
    with pools(stage) as make:
        yield make


@pytest.fixture(scope="module")
def module_pool(stage: Stage) -> Iterator[MakePool]:
    """As `pool`, for nodes that the tests of a module share."""
    with pools(stage) as make:
        yield make


@pytest.fixture
def make_namespace(stage: Stage, pool: MakePool) -> Iterator[MakeNamespace]:
    """After `pool`, so that pods are gone before their nodes."""
    with namespaces(stage.api) as make:
        yield make


@pytest.fixture
def namespace(make_namespace: MakeNamespace) -> Namespace:
    """A namespace that is opted in."""
    return make_namespace()


@pytest.fixture(scope="session")
def world(stage: Stage) -> Iterator[RealWorld]:
    """The cluster as one that becomes that of a case, again and again."""
    if stage.operator is None:
        pytest.skip("E2E_KUBECONFIG is set: the nodes of that cluster have cards, and its webhooks cannot be asked")
    world = RealWorld(stage.api, webhook_ports(stage.api, stage.operator))
    world.begin()
    yield world
    world.end()


@pytest.fixture(scope="session")
def chart() -> Chart:
    """The chart as it is installed on `stage`."""
    return rendered(render(sharing=True))


@contextlib.contextmanager
def pools(stage: Stage) -> Iterator[MakePool]:
    """A function that creates nodes, which are deleted at the end."""
    made: list[str] = []

    def make(
        *gbs: int,
        nodes: int = 1,
        vendor: Vendor = Vendor.NVIDIA,
        cuda: str | None = "12.4",
        labels: Mapping[str, str] | None = None,
        taints: Sequence[Mapping[str, str]] = (),
        offers: Mapping[str, int] | None = None,
        **capacity: Any,
    ) -> Pool:
        title = f"pool-{_RUN}-{next(_numbers)}"
        here = [f"{title}-{letter}" for letter in itertools.islice(_letters(), nodes)]
        specs = [
            NodeSpec(
                name=node,
                labels={"pool": title, **(labels or {})},
                taints=[dict(taint) for taint in taints],
                gpus=[GpuSpec(model=_MODELS[vendor], vendor=vendor, vramGB=gb) for gb in gbs],
                cuda=cuda if vendor is Vendor.NVIDIA else None,
                rocm="6.2" if vendor is Vendor.AMD else None,
                **capacity,
            )
            for node in here
        ]
        made.extend(here)
        if offers is None:
            seed_nodes(stage.api, specs)
            _wait_known(stage, here)
        else:
            seed_managed_nodes(stage.api, specs, offers)
            _wait_offered(stage, title, offers)
        return Pool(title, tuple(here))

    try:
        yield make
    finally:
        stage.api.each(lambda node: _delete(stage.api, f"/api/v1/nodes/{node}"), made)


@contextlib.contextmanager
def namespaces(api: Api) -> Iterator[MakeNamespace]:
    """A function that creates namespaces, which are deleted at the end, their pods at once."""
    made: list[str] = []

    def make(mode: str | None = names.MODE_ENABLED, **labels: str) -> Namespace:
        name = f"ns-{_RUN}-{next(_numbers)}"
        opted = {names.NAMESPACE_LABEL: mode} if mode is not None else {}
        made.append(name)
        create_namespace(api, name, {**labels, **opted})
        return Namespace(api, name)

    try:
        yield make
    finally:
        for name in made:
            _delete(api, f"/api/v1/namespaces/{name}")
            _delete(api, f"/api/v1/namespaces/{name}/pods?gracePeriodSeconds=0")


def seed_managed_nodes(api: Api, nodes: Sequence[NodeSpec], offers: Mapping[str, int]) -> None:
    """Creates nodes without an agent, whose plugin offers these units, and waits until they take pods."""
    for node in nodes:
        manifest = node_manifest(node)
        capacity = {**manifest["status"]["capacity"], **{key: str(count) for key, count in offers.items()}}
        api.create("/api/v1/nodes", {**manifest, "status": {"capacity": capacity, "allocatable": capacity}})
    wait_nodes_ready(api, [node.name for node in nodes])


def _wait_offered(stage: Stage, pool: str, offers: Mapping[str, int]) -> None:
    """Waits until every webhook would give a unit away."""
    tenant = Namespace(stage.api, NOWHERE) if stage.operator is not None else _probe_namespace(stage.api)
    probe = pod("probe", limits={next(iter(offers)): "1"}, pool=pool)
    until(f"the webhooks know {pool}", partial(_is_admitted, stage, probe, tenant))


def _letters() -> Iterator[str]:
    """a, b, ..., z, aa, ab, ..."""
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    return ("".join(letters) for length in itertools.count(1) for letters in itertools.product(alphabet, repeat=length))


def _wait_known(stage: Stage, nodes: Sequence[str]) -> None:
    """Waits until every webhook would place a pod on each of `nodes` that has cards and no taint.

    The API server tells of a node first, the webhooks' watches a moment later.
    """
    tenant = Namespace(stage.api, NOWHERE) if stage.operator is not None else _probe_namespace(stage.api)
    listed = {node["metadata"]["name"]: node for node in stage.api.get("/api/v1/nodes")["items"]}
    for name in nodes:
        node = listed[name]
        if any(map(_is_card, node["status"]["capacity"])) and not node["spec"].get("taints"):
            # A model that has waited for this node may have come already: not more is asked than is left beside it.
            probe = pod("probe", {names.VRAM: "1"}, nodeSelector={"kubernetes.io/hostname": name})
            until(f"the webhooks know {name}", partial(_is_admitted, stage, probe, tenant))


def _is_admitted(stage: Stage, manifest: Json, tenant: Namespace) -> bool:
    return admitted(stage, manifest, tenant) == {True}


def _is_card(resource: str) -> bool:
    return names.card_index(resource) is not None


def admitted(stage: Stage, manifest: Json, tenant: Namespace) -> set[bool]:
    """Whether a dry run of a pod is admitted, as each webhook says that is ours; elsewhere as the API server says."""
    if stage.operator is not None:
        ports = webhook_ports(stage.api, stage.operator)
        return {port.mutate(manifest, tenant.name, dryRun=True).allowed for port in ports}
    try:
        tenant.create(manifest, dry_run=True)
    except ApiError:
        return {False}
    return {True}


def wait_heard(stage: Stage) -> None:
    """Waits until every webhook knows what is stored now. Of those that are not ours nobody can tell."""
    if stage.operator is not None:
        wait_caught_up(stage.api, webhook_ports(stage.api, stage.operator))


def _probe_namespace(api: Api) -> Namespace:
    name = "e2e-probe"
    if find(api, f"/api/v1/namespaces/{name}") is None:
        create_namespace(api, name, {names.NAMESPACE_LABEL: names.MODE_ENABLED})
    return Namespace(api, name)


def _delete(api: Api, path: str) -> None:
    with contextlib.suppress(ApiError):
        api.delete(path)
