"""The counting rule: what a pod takes from its node."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.pod_requests import pod_requests
from shared.core.quantity import QuantityError
from tests.builders import PodBuilder, a_pod

GI = 2**30


def requests_of(pod: PodBuilder) -> dict[str, int]:
    raw = pod.raw()
    return pod_requests(raw["spec"], raw["status"])


def container_status(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, **fields}


@pytest.mark.parametrize(
    ("pod", "requests"),
    [
        pytest.param(a_pod(), {}, id="nothing-asked"),
        pytest.param(
            a_pod().requesting(cpu="250m", memory="1Gi", **{"ephemeral-storage": "1k"}),
            {"cpu": 250, "memory": GI, "ephemeral-storage": 1000},
            id="cpu-in-millicores-the-rest-in-base-units",
        ),
        pytest.param(
            a_pod().requesting(cpu="1").container("second", resources={"requests": {"cpu": "2"}}),
            {"cpu": 3000},
            id="app-containers-add-up",
        ),
        pytest.param(
            a_pod().limited_to({"example.com/fpga": "2"}, cpu="2"),
            {"example.com/fpga": 2, "cpu": 2000},
            id="limits-stand-in-for-requests",
        ),
        pytest.param(
            a_pod().limited_to(cpu="2").requesting(cpu="0"),
            {"cpu": 0},
            id="a-request-of-zero-is-not-defaulted",
        ),
        pytest.param(
            a_pod().requesting(cpu="1").init("setup", {"cpu": "3"}),
            {"cpu": 3000},
            id="a-larger-init-container-counts-instead",
        ),
        pytest.param(
            a_pod().requesting(cpu="4").init("one", {"cpu": "3"}).init("two", {"cpu": "3"}),
            {"cpu": 4000},
            id="init-containers-run-one-after-the-other",
        ),
        pytest.param(
            a_pod().requesting(cpu="1").sidecar("proxy", {"cpu": "1"}),
            {"cpu": 2000},
            id="a-sidecar-runs-beside-the-app",
        ),
        pytest.param(
            a_pod().requesting(cpu="1").sidecar("proxy", {"cpu": "1"}).init("setup", {"cpu": "3"}),
            {"cpu": 4000},
            id="an-init-container-runs-beside-sidecars-started-before-it",
        ),
        pytest.param(
            a_pod().requesting(cpu="1").init("setup", {"cpu": "3"}).sidecar("proxy", {"cpu": "1"}),
            {"cpu": 3000},
            id="an-init-container-runs-without-sidecars-started-after-it",
        ),
        pytest.param(
            a_pod()
            .sidecar("one", {"cpu": "1"})
            .init("setup", {"cpu": "1"})
            .sidecar("two", {"cpu": "5"})
            .init("last", {"memory": "1Gi"}),
            {"cpu": 6000, "memory": GI},
            id="all-sidecars-count-however-they-are-mixed",
        ),
        pytest.param(
            a_pod().requesting(memory="1Gi").init("setup", {"cpu": "1"}),
            {"cpu": 1000, "memory": GI},
            id="each-resource-has-its-own-maximum",
        ),
        pytest.param(
            a_pod().requesting(cpu="1").spec(overhead={"cpu": "100m", "memory": "64Mi"}),
            {"cpu": 1100, "memory": 64 * 2**20},
            id="the-overhead-of-the-runtime-class-is-added",
        ),
        pytest.param(
            a_pod().requesting(cpu="100u").container("second", resources={"requests": {"cpu": "100u"}}),
            {"cpu": 2},
            id="each-amount-rounds-up-to-thousandths-as-the-API-server-stores-it",
        ),
        pytest.param(
            a_pod().requesting(memory="100m").container("second", resources={"requests": {"memory": "100m"}}),
            {"memory": 1},
            id="thousandths-of-a-byte-are-added-and-rounded-up-once",
        ),
        pytest.param(
            a_pod().requesting(cpu="1", memory="1Gi").spec(resources={"requests": {"cpu": "4"}}),
            {"cpu": 4000, "memory": GI},
            id="pod-level-requests-stand-above-the-containers",
        ),
        pytest.param(
            a_pod().requesting(cpu="4").spec(resources={"requests": {"cpu": "1"}}, overhead={"cpu": "1"}),
            {"cpu": 2000},
            id="pod-level-requests-may-be-less-and-overhead-comes-on-top",
        ),
        pytest.param(
            a_pod().spec(resources={"limits": {"memory": "2Gi"}}),
            {"memory": 2 * GI},
            id="a-pod-level-limit-stands-in-where-no-container-asks",
        ),
        pytest.param(
            a_pod().requesting(memory="1Gi").spec(resources={"limits": {"memory": "2Gi"}}),
            {"memory": GI},
            id="a-pod-level-limit-does-not-raise-what-containers-ask",
        ),
        pytest.param(
            a_pod().limited_to({"hugepages-2Mi": "2Mi"}).spec(resources={"limits": {"hugepages-2Mi": "4Mi"}}),
            {"hugepages-2Mi": 4 * 2**20},
            id="a-pod-level-hugepages-limit-is-the-request",
        ),
        pytest.param(
            a_pod().requesting(cpu="1").spec(resources={"requests": {"example.com/fpga": "1"}}),
            {"cpu": 1000},
            id="pod-level-resources-know-no-extended-resources",
        ),
    ],
)
def test_counting_rule(pod: PodBuilder, requests: dict[str, int]) -> None:
    assert requests_of(pod) == requests


SETTLED = container_status(allocatedResources={"cpu": "2"}, resources={"requests": {"cpu": "2"}})
SHRINKING = container_status(allocatedResources={"cpu": "2"}, resources={"requests": {"cpu": "3"}})
INFEASIBLE = [{"type": "Ready"}, {"type": "PodResizePending", "reason": "Infeasible"}]
DEFERRED = [{"type": "PodResizePending", "reason": "Deferred"}]


@pytest.mark.parametrize(
    ("pod", "millicores"),
    [
        pytest.param(a_pod().requesting(cpu="2").status(containerStatuses=[SETTLED]), 2000, id="no-resize"),
        pytest.param(
            a_pod().requesting(cpu="4").status(containerStatuses=[SETTLED], conditions=DEFERRED),
            4000,
            id="a-deferred-growth-is-counted-at-once",
        ),
        pytest.param(
            a_pod().requesting(cpu="4").status(containerStatuses=[SETTLED], conditions=INFEASIBLE),
            2000,
            id="a-growth-that-cannot-be-is-not-counted",
        ),
        pytest.param(
            a_pod().requesting(cpu="1").status(containerStatuses=[SHRINKING]),
            3000,
            id="a-shrinking-pod-counts-what-it-still-has",
        ),
        pytest.param(
            a_pod().requesting(cpu="1").status(containerStatuses=[container_status(allocatedResources={"cpu": "2"})]),
            2000,
            id="without-actual-resources-the-promised-ones-count",
        ),
        pytest.param(
            a_pod()
            .requesting(cpu="4")
            .container("new", resources={"requests": {"cpu": "1"}})
            .status(containerStatuses=[SETTLED], conditions=INFEASIBLE),
            2000,
            id="an-infeasible-resize-counts-nothing-for-a-container-without-status",
        ),
        pytest.param(
            a_pod().requesting(cpu="4").status(conditions=INFEASIBLE).spec(overhead={"cpu": "1"}),
            1000,
            id="an-infeasible-resize-without-any-status-counts-the-overhead-alone",
        ),
        pytest.param(
            a_pod()
            .requesting(cpu="1")
            .sidecar("proxy", {"cpu": "1"})
            .status(initContainerStatuses=[container_status("proxy", allocatedResources={"cpu": "5"})]),
            6000,
            id="sidecars-are-resized-too",
        ),
        pytest.param(
            a_pod()
            .requesting(cpu="1")
            .status(
                containerStatuses=[SETTLED],
                allocatedResources={"cpu": "7"},
                resources={"requests": {"cpu": "6"}},
            ),
            7000,
            id="the-pod-s-own-sums-stand-for-those-of-its-containers",
        ),
        pytest.param(
            a_pod()
            .requesting(cpu="1")
            .spec(resources={"requests": {"cpu": "2"}})
            .status(resources={"requests": {"cpu": "3"}}, allocatedResources={"cpu": "4"}),
            4000,
            id="pod-level-growth-counts-the-largest",
        ),
        pytest.param(
            a_pod()
            .requesting(cpu="1")
            .spec(resources={"requests": {"cpu": "9"}})
            .status(resources={"requests": {"cpu": "3"}}, conditions=INFEASIBLE),
            3000,
            id="pod-level-growth-that-cannot-be-is-not-counted",
        ),
    ],
)
def test_a_pod_that_is_resized_in_place(pod: PodBuilder, millicores: int) -> None:
    assert requests_of(pod) == {"cpu": millicores}


def test_an_amount_that_is_no_quantity_is_refused_not_ignored() -> None:
    with pytest.raises(QuantityError, match="'lots'"):
        requests_of(a_pod().requesting(memory="lots"))
