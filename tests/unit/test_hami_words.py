"""HAMi's resources: MiB or a percentage of each card, beside a number of cards that is 1 where it is left out."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from shared.core.amounts import WHOLE, Amount
from shared.core.demand import read_pod
from shared.core.found import Source
from tests.builders import PodBuilder, a_pod
from tests.unit.asking import ask_of, demand_of, refusal_of, with_limits

NVIDIA, AMD, INTEL = "nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915"
MEMORY = "nvidia.com/gpumem"
PERCENTAGE = "nvidia.com/gpumem-percentage"
CORES = "nvidia.com/gpucores"
PRIORITY = "nvidia.com/priority"
VRAM = "kamiwaza.ai/vram-gb"


def limit(resource: str) -> str:
    return f"containers[main].resources.limits[{resource}]"


def percent(number: int) -> Amount:
    return Amount(percent=Fraction(number))


@pytest.mark.parametrize(
    ("limits", "amount", "count"),
    [
        pytest.param({NVIDIA: 1, MEMORY: 8192}, Amount(gb=8), 1, id="mib"),
        pytest.param({NVIDIA: 2, MEMORY: 8192}, Amount(gb=8), 2, id="on-each-of-two-cards"),
        pytest.param({NVIDIA: "1", MEMORY: "5k"}, Amount(gb=5), 1, id="thousands-of-mib-round-up"),
        pytest.param({NVIDIA: 1, MEMORY: "8Ki"}, Amount(gb=8), 1, id="a-binary-thousand"),
        pytest.param({NVIDIA: 1, MEMORY: "8e3"}, Amount(gb=8), 1, id="an-exponent"),
        pytest.param({NVIDIA: 1, MEMORY: "8193"}, Amount(gb=9), 1, id="one-mib-more"),
        pytest.param({NVIDIA: 1, MEMORY: "1"}, Amount(gb=1), 1, id="one-mib"),
        pytest.param({NVIDIA: "1000m", MEMORY: "6000000m"}, Amount(gb=6), 1, id="canonical-thousandths"),
        pytest.param({MEMORY: 8192}, Amount(gb=8), 1, id="without-a-count"),
        pytest.param({NVIDIA: 1, PERCENTAGE: 50}, percent(50), 1, id="percentage"),
        pytest.param({NVIDIA: 1, PERCENTAGE: "1"}, percent(1), 1, id="one-percent"),
        pytest.param({NVIDIA: 2, PERCENTAGE: "100"}, WHOLE, 2, id="a-hundred-percent"),
        pytest.param({PERCENTAGE: "5e1"}, percent(50), 1, id="percentage-without-a-count"),
        pytest.param({CORES: 30}, WHOLE, 1, id="cores-alone-are-one-whole-card"),
        pytest.param({NVIDIA: 1, CORES: 30, PRIORITY: 1}, WHOLE, 1, id="cores-and-priority-have-no-memory"),
        pytest.param({NVIDIA: 1, MEMORY: 8192, CORES: 100, PRIORITY: 0}, Amount(gb=8), 1, id="all-words"),
        pytest.param({AMD: 1, "amd.com/gpumem": "16384"}, Amount(gb=16), 1, id="amd"),
        pytest.param({"amd.com/gpumem": "16384", "amd.com/gpucores": 50}, Amount(gb=16), 1, id="amd-without-a-count"),
        pytest.param({NVIDIA: 0, AMD: 1, "amd.com/gpumem": 1024}, Amount(gb=1), 1, id="zero-of-another-vendor"),
        pytest.param({NVIDIA: 1, MEMORY: 8192, VRAM: 8}, Amount(gb=8), 1, id="the-same-in-our-words"),
    ],
)
def test_memory_is_per_card_and_the_count_is_one_where_it_is_left_out(
    limits: dict[str, Any], amount: Amount, count: int
) -> None:
    ask = ask_of(a_pod().limited_to(limits))
    assert (ask.container, ask.amount, ask.count) == ("main", amount, count)


@pytest.mark.parametrize(("limits", "source"), [({MEMORY: 1}, Source.HAMI), ({CORES: 1}, Source.HAMI),
                                                ({VRAM: 1, MEMORY: 1}, Source.RESOURCE)])  # fmt: skip
def test_the_first_word_that_matches_is_told_as_the_source(limits: dict[str, Any], source: Source) -> None:
    assert ask_of(a_pod().limited_to(limits)).source is source


def test_each_container_has_its_own_words_wherever_it_stands() -> None:
    pod = (
        a_pod()
        .limited_to({NVIDIA: 1, MEMORY: 4096})
        .container("embed", **with_limits({PERCENTAGE: 20}))
        .sidecar("draft", **with_limits({MEMORY: "2048"}))
        .container("web")
    )
    assert [(ask.container, str(ask.amount)) for ask in demand_of(pod).asks] == [
        ("draft", "2 GB"),
        ("main", "4 GB"),
        ("embed", "20 % of the memory"),
    ]


def test_our_ask_for_the_whole_pod_goes_to_the_container_with_hamis_words() -> None:
    pod = a_pod().container("server", **with_limits({CORES: 30})).annotated(VRAM, "6")
    assert (ask_of(pod).container, ask_of(pod).amount) == ("server", Amount(gb=6))


@pytest.mark.parametrize(
    ("resource", "value", "problem", "fix"),
    [
        (MEMORY, "16Gi", "is larger than any card, since it counts MiB", 'write the MiB per card: "16384"'),
        (MEMORY, "8192Mi", "is larger than any card, since it counts MiB", 'write the MiB per card: "8192"'),
        (MEMORY, "8G", "is larger than any card, since it counts MiB", 'write the MiB per card: "8192"'),
        (MEMORY, "17179869184", "is larger than any card, since it counts MiB", 'write the MiB per card: "16384"'),
        (MEMORY, "16M", "is larger than any card, since it counts MiB", 'write the MiB per card: "16"'),
        (MEMORY, "90M", "is larger than any card, since it counts MiB", 'write the MiB per card: "90"'),
        (MEMORY, "16GB", "is not a whole number of MiB", 'write the MiB per card: "16384"'),
        (MEMORY, "9e18", "is larger than any card, since it counts MiB", 'write the MiB per card, such as "8192"'),
        (MEMORY, "0.5", "is not a whole number of MiB", 'write the MiB per card, such as "8192"'),
        (MEMORY, "1500m", "is not a whole number of MiB", 'write the MiB per card, such as "8192"'),
        (MEMORY, "-1", "is not a whole number of MiB", 'write the MiB per card, such as "8192"'),
        (MEMORY, "", "is not a whole number of MiB", 'write the MiB per card, such as "8192"'),
        (MEMORY, "0", "asks for no memory", "write the MiB per card, or remove the ask"),
        (PERCENTAGE, "0", "is not a percentage of a card", "write a whole number from 1 to 100"),
        (PERCENTAGE, "101", "is not a percentage of a card", "write a whole number from 1 to 100"),
        (PERCENTAGE, "99.1", "is not a percentage of a card", "write a whole number from 1 to 100"),
        (PERCENTAGE, "50m", "is not a percentage of a card", "write a whole number from 1 to 100"),
        (PERCENTAGE, "-1", "is not a percentage of a card", "write a whole number from 1 to 100"),
        (PERCENTAGE, "50%", "is not a percentage of a card", "write a whole number from 1 to 100"),
        (CORES, "101", "is not a percentage of a card's cores", "write a whole number from 0 to 100"),
        (CORES, "half", "is not a percentage of a card's cores", "write a whole number from 0 to 100"),
        (CORES, "0.5", "is not a percentage of a card's cores", "write a whole number from 0 to 100"),
        (PRIORITY, "high", "is not a priority", "write 0 (high) or 1 (low)"),
        (PRIORITY, "-1", "is not a priority", "write 0 (high) or 1 (low)"),
    ],
)
@pytest.mark.parametrize("counted", [True, False], ids=["with-count", "without-count"])
def test_a_wrong_value_is_refused_with_what_was_meant(
    resource: str, value: str, problem: str, fix: str, counted: bool
) -> None:
    refused = refusal_of(a_pod().limited_to({resource: value, **({NVIDIA: 1} if counted else {})}))
    assert (refused.field, refused.value) == (limit(resource), value)
    assert (refused.problem, refused.fix) == (problem, fix)


@pytest.mark.parametrize(
    ("pod", "field", "problem"),
    [
        pytest.param(
            a_pod().limited_to({NVIDIA: 1, MEMORY: 8192, PERCENTAGE: 50}),
            limit(PERCENTAGE),
            "two amounts for one container",
            id="memory-and-percentage",
        ),
        pytest.param(
            a_pod().limited_to({MEMORY: 8192, VRAM: 6}), limit(MEMORY), "two amounts for one container", id="and-ours"
        ),
        pytest.param(
            a_pod().limited_to({MEMORY: 8192}).annotated(VRAM, "6"),
            limit(MEMORY),
            "two amounts for one container",
            id="and-our-annotation",
        ),
        pytest.param(
            a_pod().limited_to({NVIDIA: 2, MEMORY: 8192}).annotated("kamiwaza.ai/gpus", "1"),
            limit(NVIDIA),
            "two counts for one container",
            id="two-counts",
        ),
        pytest.param(a_pod().limited_to({NVIDIA: 0, MEMORY: 8192}), limit(NVIDIA), "asks for no card", id="no-card"),
        pytest.param(
            a_pod().limited_to({NVIDIA: 0, CORES: 30}), limit(CORES), "says more about an ask", id="cores-of-no-card"
        ),
        pytest.param(a_pod().limited_to({PRIORITY: 1}), limit(PRIORITY), "says more about an ask", id="priority-alone"),
        pytest.param(
            a_pod().limited_to({MEMORY: 8192}).annotated("gpu-memory", "4096"),
            "metadata.annotations[gpu-memory]",
            "two amounts for one container",
            id="and-kais",
        ),
    ],
)
def test_contradictions_are_refused(pod: PodBuilder, field: str, problem: str) -> None:
    refused = refusal_of(pod)
    assert refused.field == field
    assert problem in refused.problem


@pytest.mark.parametrize("resource", [MEMORY, PERCENTAGE, CORES, PRIORITY, "amd.com/gpumem", "amd.com/gpucores", INTEL])
def test_words_in_requests_only_are_refused_as_the_api_server_would(resource: str) -> None:
    refused = refusal_of(a_pod().limited_to({NVIDIA: 1}).requesting({resource: "10"}))
    assert refused.field == f"containers[main].resources.requests[{resource}]"
    assert refused.problem == "stands in requests without limits"


@pytest.mark.parametrize(
    "limits",
    [
        {NVIDIA: 0, MEMORY: 0},
        {NVIDIA: "0", PERCENTAGE: "0", CORES: "0", PRIORITY: "0"},
        {NVIDIA: "0m", AMD: "0e3", MEMORY: "0k"},
        {AMD: 0, "amd.com/gpumem": 0},
        {INTEL: "0"},
    ],
)
def test_zero_of_everything_is_no_ask_and_sees_no_card(limits: dict[str, Any]) -> None:
    read = read_pod(a_pod().limited_to(limits).raw())
    assert (read.demand, read.hidden) == (None, ("main",))


@pytest.mark.parametrize(
    "limits", [{CORES: 0}, {PRIORITY: "0"}, {"gpu.intel.com/monitoring": 1}, {"nvidia.com/rdma": 1}]
)
def test_words_that_ask_for_nothing_leave_the_pod_alone(limits: dict[str, Any]) -> None:
    read = read_pod(a_pod().limited_to(limits).raw())
    assert (read.demand, read.hidden) == (None, ())
