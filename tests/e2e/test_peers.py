"""Rules between pods hold although two webhooks answer at once and each pod is pinned before the scheduler sees it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hack.devcluster.api import Json
from shared.api import names
from tests.e2e.conftest import MakePool
from tests.e2e.kube import Namespace, deployment, node_of

pytestmark = pytest.mark.e2e

_HOSTNAME = "kubernetes.io/hostname"
_NODES = 8
_WORKLOADS = 3


def _apart(app: str) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": _HOSTNAME}
    return {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}}


def _spread(app: str) -> Json:
    rule = {"maxSkew": 1, "topologyKey": _HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"}
    return {"topologySpreadConstraints": [{**rule, "labelSelector": {"matchLabels": {"app": app}}}]}


@pytest.mark.parametrize("rule", [pytest.param(_apart, id="anti-affinity"), pytest.param(_spread, id="spread")])
def test_replicas_that_must_not_share_a_node_each_get_one(
    rule: Callable[[str], Json], pool: MakePool, namespace: Namespace
) -> None:
    nodes = pool(40, nodes=_NODES)
    apps = [f"apart-{number}" for number in range(_WORKLOADS)]
    for app in apps:
        namespace.create(deployment(app, {names.VRAM: "4"}, pool=nodes.name, replicas=_NODES, **rule(app)))
    for app in apps:
        assert {node_of(pod) for pod in namespace.running(app, _NODES)} == set(nodes.nodes)
