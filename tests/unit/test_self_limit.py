"""What a model server is told of the cards it gets, and what its owner is told where its command line disagrees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from shared.core.card_choice import Share
from shared.core.cards import Card
from shared.core.engines.limits import SelfLimit
from tests.unit.core_builders import card, partition
from tests.unit.model_servers import serving
from webhook.self_limit import ServerAdvice, advise_server

FLAG = "--gpu-memory-utilization"
EIGHTY = card(0, 80)


def shares(gb: int, *cards: Card, own_gb: int | None = None) -> list[Share]:
    return [Share("server", each, gb, gb if own_gb is None else own_gb) for each in cards or (EIGHTY,)]


def about_cards(*cards: Card, **container: Any) -> list[str]:
    """The warnings on a share that needs no limit, about which cards are meant."""
    return list(advise_server(serving(**container), shares(80, *cards)).warnings)


def test_a_container_without_a_server_we_know_is_told_nothing() -> None:
    assert advise_server(serving("example/worker"), shares(16)) == ServerAdvice()


def test_a_server_is_told_its_share() -> None:
    advice = advise_server(serving(args=["--model", "org/small"]), shares(16))
    assert advice.limit == SelfLimit(FLAG, "0.187")
    (warning,) = advice.warnings
    assert warning.startswith("container server: ")
    assert warning.endswith("; it is set to 0.187")


def test_memory_of_init_containers_is_not_for_the_server() -> None:
    """The request covers the larger of the two, the server's own limit is its own share."""
    told = advise_server(serving(), shares(40, own_gb=16)).limit
    assert told == advise_server(serving(), shares(16)).limit
    assert told != advise_server(serving(), shares(40)).limit


def test_of_unequal_cards_the_smallest_share_and_the_largest_card_count() -> None:
    """A server has one value for all its cards, so it must hold on each of them."""
    uneven = [Share("server", card(0, 40), 20, 20), Share("server", card(1, 80), 40, 40)]
    within = (20 - 2) * 1000 // 80
    assert advise_server(serving(args=["-tp", "2"]), uneven).limit == SelfLimit(FLAG, f"0.{within:03}".rstrip("0"))


def test_a_share_of_a_partition_is_a_part_of_the_partition() -> None:
    assert advise_server(serving(), shares(20, partition(1, 39))).limit == SelfLimit(FLAG, "0.487")
    assert advise_server(serving(), shares(39, partition(1, 39))) == ServerAdvice()


def test_a_server_in_a_shell_text_cannot_be_told_so_its_owner_is() -> None:
    container = serving(command=["/bin/sh", "-c"], args=["vllm serve org/small"])
    advice = advise_server(container, shares(16))
    assert advice.limit is None
    (warning,) = advice.warnings
    assert warning.endswith("; set it to 0.187 in the container's command line")


def test_a_server_without_such_a_flag_is_left_to_its_owner() -> None:
    advice = advise_server(serving("ollama/ollama:0.11"), shares(16))
    assert advice.limit is None
    assert len(advice.warnings) == 1
    assert "OLLAMA_CONTEXT_LENGTH is not set" in advice.warnings[0]


@pytest.mark.parametrize(
    ("args", "count", "outcome"),
    [
        pytest.param(["--tensor-parallel-size", "2"], 1, "may not start", id="more-than-it-gets"),
        pytest.param([], 2, "may leave 1 of them unused", id="fewer-than-it-gets"),
    ],
)
def test_arguments_for_another_number_of_cards_are_told(args: list[str], count: int, outcome: str) -> None:
    needed = 2 if args else 1
    (warning,) = about_cards(*(card(index, 80) for index in range(count)), args=args)
    assert warning == (
        f"container server: its arguments spread it over {needed} card(s), but it gets {count} and {outcome}: "
        f"set kamiwaza.ai/gpus to {needed} or change its arguments"
    )


def test_the_count_to_change_is_the_one_that_the_container_has() -> None:
    container = replace(serving(args=["-tp=4"]), limits={"nvidia.com/gpu": "1"})
    (warning,) = advise_server(container, shares(80)).warnings
    assert warning.endswith("it gets 1 and may not start: set nvidia.com/gpu to 4 or change its arguments")


def test_arguments_for_as_many_cards_as_it_gets_are_not_mentioned() -> None:
    assert about_cards(card(0, 80), card(1, 80), args=["-tp=2"]) == []


def test_arguments_that_tell_no_number_are_not_mentioned() -> None:
    assert about_cards(card(0, 80), card(1, 80), image="ollama/ollama:0.11") == []


@pytest.mark.parametrize(
    ("devices", "told"),
    [("0", False), ("3", True), ("0,1", True), ("GPU-0", False), ("GPU-other", True), ("all", True)],
)
def test_devices_that_the_command_line_itself_sets_are_told_where_they_lie_outside(devices: str, told: bool) -> None:
    text = f"CUDA_VISIBLE_DEVICES={devices} vllm serve org/small"
    warnings = about_cards(EIGHTY, command=["/bin/sh", "-c"], args=[text])
    expected = (
        f"container server: its command line sets CUDA_VISIBLE_DEVICES to {devices!r}, which cannot be changed from "
        "outside; the container sees 1 card(s), numbered from 0"
    )
    assert [warning for warning in warnings if "command line sets" in warning] == ([expected] if told else [])
