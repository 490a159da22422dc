"""KAI's annotations: MiB or a fraction of each card for one container, never beside whole cards."""

from __future__ import annotations

from fractions import Fraction

import pytest

from shared.core.amounts import WHOLE, Amount
from shared.core.demand import read_pod
from shared.core.found import Source
from tests.builders import PodBuilder, a_pod
from tests.unit.asking import ask_of, demand_of, refusal_of, with_limits

MEMORY, FRACTION, DEVICES, CONTAINER = (
    "gpu-memory",
    "gpu-fraction",
    "gpu-fraction-num-devices",
    "gpu-fraction-container-name",
)
OURS = "kamiwaza.ai/container"
NVIDIA = "nvidia.com/gpu"
HALF = Amount(percent=Fraction(50))


def field(key: str) -> str:
    return f"metadata.annotations[{key}]"


@pytest.mark.parametrize(
    ("annotations", "amount", "count"),
    [
        pytest.param({MEMORY: "2000"}, Amount(gb=2), 1, id="mib-round-up"),
        pytest.param({MEMORY: "8192"}, Amount(gb=8), 1, id="mib"),
        pytest.param({FRACTION: "0.5"}, HALF, 1, id="half-a-card"),
        pytest.param({FRACTION: ".5"}, HALF, 1, id="without-a-zero"),
        pytest.param({FRACTION: "500m"}, HALF, 1, id="any-quantity"),
        pytest.param({FRACTION: "0.125"}, Amount(percent=Fraction(25, 2)), 1, id="exact"),
        pytest.param({FRACTION: "1"}, WHOLE, 1, id="all-of-it"),
        pytest.param({FRACTION: "1.0"}, WHOLE, 1, id="all-of-it-as-1.0"),
        pytest.param({FRACTION: "0.5", DEVICES: "2"}, HALF, 2, id="of-each-of-two-cards"),
        pytest.param({MEMORY: "4096", DEVICES: "3"}, Amount(gb=4), 3, id="mib-of-each-of-three-cards"),
        pytest.param({MEMORY: "4096", "kamiwaza.ai/gpus": "2"}, Amount(gb=4), 2, id="our-count"),
        pytest.param({MEMORY: "4096", "kamiwaza.ai/vram-gb": "4"}, Amount(gb=4), 1, id="the-same-in-our-words"),
    ],
)
def test_an_amount_is_that_of_each_card(annotations: dict[str, str], amount: Amount, count: int) -> None:
    pod = a_pod()
    for key, value in annotations.items():
        pod = pod.annotated(key, value)
    ask = ask_of(pod)
    assert (ask.container, ask.amount, ask.count) == ("main", amount, count)
    assert ask.source is (Source.ANNOTATION if "kamiwaza.ai/vram-gb" in annotations else Source.KAI)


@pytest.mark.parametrize("value", ["1.5", "0", "-0.5", "2", "NaN", "50%", "half", "", " 0.5", "1e1"])
def test_what_is_no_part_of_a_card_is_refused(value: str) -> None:
    refused = refusal_of(a_pod().annotated(FRACTION, value))
    assert (refused.field, refused.value) == (field(FRACTION), value)
    assert refused.fix == 'write a number above 0 and up to 1, such as "0.5"'


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        ("2000mb", '"2000"'),
        ("8000Mi", '"8000"'),
        ("8Gi", '"8192"'),
        ("8 GB", '"8192"'),
        ("1.5G", '"1536"'),
        ("5k", ", such as"),
        ("4e3", ", such as"),
        ("1.5", ", such as"),
        ("-1", ", such as"),
        ("", ", such as"),
        ("٤", ", such as"),
    ],
)
def test_what_is_no_plain_number_of_mib_is_refused_with_what_was_meant(value: str, fix: str) -> None:
    refused = refusal_of(a_pod().annotated(MEMORY, value))
    assert (refused.field, refused.value, refused.problem) == (field(MEMORY), value, "is not a whole number of MiB")
    assert fix in refused.fix


@pytest.mark.parametrize(
    ("pod", "at", "problem"),
    [
        pytest.param(a_pod().annotated(MEMORY, "0"), MEMORY, "asks for no memory", id="no-memory"),
        pytest.param(a_pod().annotated(MEMORY, "9999999"), MEMORY, "is larger than any card", id="a-slip-of-the-unit"),
        pytest.param(
            a_pod().annotated(MEMORY, "4096").annotated(FRACTION, "0.5"), FRACTION, "two amounts", id="both-amounts"
        ),
        pytest.param(a_pod().annotated(DEVICES, "2"), DEVICES, "not how much memory", id="a-count-alone"),
        pytest.param(
            a_pod().annotated(DEVICES, "2").limited_to({NVIDIA: 2}), DEVICES, "not how much", id="two-counts-alone"
        ),
        pytest.param(
            a_pod().annotated(FRACTION, "0.5").annotated(DEVICES, "1.5"), DEVICES, "is not a number", id="half-a-device"
        ),
        pytest.param(
            a_pod().annotated(FRACTION, "0.5").annotated(DEVICES, "0"), DEVICES, "is not a number", id="no-device"
        ),
        pytest.param(
            a_pod().annotated(FRACTION, "0.5").limited_to({NVIDIA: 1}), FRACTION, "beside whole ones", id="whole-card"
        ),
        pytest.param(
            a_pod().annotated(MEMORY, "4096").limited_to({NVIDIA: 1}), MEMORY, "beside whole ones", id="mib-and-whole"
        ),
        pytest.param(
            a_pod().annotated(FRACTION, "0.5").container("web", **with_limits({NVIDIA: "1"})),
            FRACTION,
            "beside whole ones",
            id="whole-card-of-another-container",
        ),
        pytest.param(
            a_pod().annotated(FRACTION, "0.5").container("web"), FRACTION, "may be meant for any", id="two-containers"
        ),
        pytest.param(
            a_pod().annotated(FRACTION, "0.5").annotated(CONTAINER, "web"), CONTAINER, "is no container", id="unknown"
        ),
        pytest.param(
            a_pod().container("web").annotated(FRACTION, "0.5").annotated(CONTAINER, "web").annotated(OURS, "main"),
            CONTAINER,
            "contradicts",
            id="two-containers-named",
        ),
        pytest.param(
            a_pod().annotated(FRACTION, "0.5").annotated(DEVICES, "2").annotated("kamiwaza.ai/gpus", "1"),
            DEVICES,
            "two counts",
            id="and-our-count",
        ),
        pytest.param(
            a_pod().annotated(FRACTION, "0.5").annotated("kamiwaza.ai/vram-gb", "6"),
            FRACTION,
            "two amounts",
            id="and-our-amount",
        ),
    ],
)
def test_what_kai_refuses_and_what_contradicts_is_refused(pod: PodBuilder, at: str, problem: str) -> None:
    refused = refusal_of(pod)
    assert refused.field == field(at)
    assert problem in refused.problem


def test_an_unclear_container_is_named_in_kais_own_way() -> None:
    refused = refusal_of(a_pod().annotated(MEMORY, "4096").container("web"))
    assert refused.fix == f"add the annotation {CONTAINER}"


def test_a_zero_of_whole_cards_beside_it_is_a_contradiction_only_on_its_own_container() -> None:
    elsewhere = (
        a_pod().annotated(FRACTION, "0.5").annotated(CONTAINER, "main").container("web", **with_limits({NVIDIA: 0}))
    )
    assert ask_of(elsewhere).container == "main"
    assert read_pod(elsewhere.raw()).hidden == ("web",)
    assert "asks for no card" in refusal_of(a_pod().annotated(FRACTION, "0.5").limited_to({NVIDIA: 0})).problem


@pytest.mark.parametrize(
    ("pod", "container"),
    [
        pytest.param(a_pod().container("web").annotated(CONTAINER, "web"), "web", id="named-in-kais-way"),
        pytest.param(a_pod().container("web").annotated(OURS, "web"), "web", id="named-in-our-way"),
        pytest.param(
            a_pod().container("web").annotated(OURS, "web").annotated(CONTAINER, "web"), "web", id="named-in-both"
        ),
        pytest.param(a_pod().init("fetch").sidecar("mesh"), "main", id="the-only-one"),
        pytest.param(a_pod().sidecar("engine").annotated(CONTAINER, "engine"), "engine", id="a-sidecar"),
    ],
)
def test_the_ask_is_for_the_container_that_is_named_or_the_only_one(pod: PodBuilder, container: str) -> None:
    assert [(ask.container, ask.amount) for ask in demand_of(pod.annotated(FRACTION, "0.5")).asks] == [
        (container, HALF)
    ]


def test_a_container_that_is_named_for_no_ask_is_passed_over() -> None:
    assert read_pod(a_pod().annotated(CONTAINER, "nobody").raw()).demand is None


def test_hamis_words_of_another_container_stand_beside_kais() -> None:
    pod = (
        a_pod()
        .annotated(FRACTION, "0.5")
        .annotated(CONTAINER, "main")
        .container("b", **with_limits({"nvidia.com/gpumem": 2048}))
    )
    assert [(ask.container, ask.source) for ask in demand_of(pod).asks] == [("main", Source.KAI), ("b", Source.HAMI)]
