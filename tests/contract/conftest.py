"""One API server after the other for the same tests."""

from __future__ import annotations

import http
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hack.devcluster.cluster import DevCluster
from shared.kube.client import KubeClient
from tests.contract.widgets import DEFINITION, WIDGETS
from tests.e2e.kube import until
from tests.fakes.api import Api
from tests.fakes.inprocess import Network, in_process_client
from tests.fakes.objects import ObjectStore
from tests.fakes.serving import serving


@pytest.fixture(scope="session")
def real_kubeconfig() -> Iterator[str]:
    """A real API server that knows widgets."""
    with DevCluster() as cluster:
        cluster.kubectl("apply", "-f", "-", input=DEFINITION)
        cluster.kubectl("wait", "--for=condition=Established", "crd/widgets.contract.example.com")
        # Established, its first watch may still be told to come back later.
        watch = f"{WIDGETS}?watch=true&timeoutSeconds=1"
        until("widgets can be watched", lambda: cluster.api.send("GET", watch).status == http.HTTPStatus.OK)
        yield str(cluster.kubeconfig)


@pytest.fixture(params=["fake", "in-process", pytest.param("real", marks=pytest.mark.e2e)])
async def client(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[KubeClient]:
    """A client of the API server whose turn it is."""
    if request.param == "fake":
        async with serving(tmp_path) as served:
            yield served.client
    elif request.param == "in-process":
        in_process, _ = in_process_client(Network(Api(ObjectStore())))
        async with in_process:
            yield in_process
    else:
        async with await KubeClient.connect(request.getfixturevalue("real_kubeconfig")) as real:
            yield real
