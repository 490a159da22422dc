"""Every version of a ledger is judged, whatever becomes of the watch; and what is judged wrong."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import cast

import pytest

from hack.devcluster.api import Api, ApiError, Json, Reply
from shared.api import names
from tests.chaos.every_ledger import EveryLedger
from tests.e2e.invariants import over_budget

GPU = names.NVIDIA_GPU


def a_ledger(version: int, *entries: str, budget: int = 16) -> Json:
    reservations = {f"{number:010x}": entry for number, entry in enumerate(entries)}
    status = {"cards": [{"index": 0, "budgetGB": budget}], "reservations": reservations}
    return {"metadata": {"name": "t4", "resourceVersion": str(version)}, "status": status}


@pytest.mark.parametrize(
    ("entries", "found"),
    [
        pytest.param([], [], id="empty"),
        pytest.param(["models/00000000;1;0:9", "models/00000000;1;0:7"], [], id="full"),
        pytest.param(
            ["models/00000000;1;0:9", "models/00000000;1;0:8"],
            ["over-commit on t4 gpu-0: 17 GB are reserved of 16"],
            id="over",
        ),
        pytest.param(["models/00000000;1;0:9", "models/00000000;1;0:8;preempting"], [], id="preempting"),
        pytest.param(
            ["models/00000000;1;1:1"], ["over-commit on t4 gpu-1: 1 GB are reserved of 0"], id="of-a-card-that-is-not"
        ),
    ],
)
def test_a_version_of_a_ledger_that_promises_too_much_is_found(entries: list[str], found: list[str]) -> None:
    assert [str(each) for each in over_budget(a_ledger(1, *entries), {})] == found


@pytest.mark.parametrize(
    ("entries", "allocatable", "found"),
    [
        pytest.param(2, {GPU: "2"}, [], id="full"),
        pytest.param(8, {GPU: "2"}, [f"over-commit on t4 {GPU}: 8 units are reserved of 2"], id="over"),
        pytest.param(1, {}, [f"over-commit on t4 {GPU}: 1 units are reserved of 0"], id="not-offered"),
        pytest.param(8, None, [], id="node-unknown"),
    ],
)
def test_a_version_that_promises_more_units_than_there_are_is_found(
    entries: int, allocatable: dict[str, str] | None, found: list[str]
) -> None:
    ledger = a_ledger(1, *[f"models/00000000;1;{GPU}=1"] * entries)
    assert [str(each) for each in over_budget(ledger, allocatable)] == found


class _Server:
    """Answers with these one after another, and remembers from which version on it was asked."""

    def __init__(self, *answers: Reply | OSError) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.nodes: list[Json] = []
        self.nodes_fail = 0

    def get(self, path: str) -> Json:
        if path == "/api/v1/nodes":
            if self.nodes_fail:
                self.nodes_fail -= 1
                raise ConnectionError
            return {"items": self.nodes}
        self.asked.append("list")
        return {"metadata": {"resourceVersion": "5"}, "items": [a_ledger(3)]}

    def send(self, _method: str, path: str) -> Reply:
        self.asked.append(path.partition("resourceVersion=")[2].partition("&")[0])
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer


def _events(*events: tuple[str, Json]) -> Reply:
    lines = [json.dumps({"type": kind, "object": each}).encode() for kind, each in events]
    return Reply(200, b"\n".join(lines), ())


def _followed(server: _Server) -> tuple[list[str], int]:
    """Which versions were judged until the server had no more to say, and how often it ended in an error."""
    versions: list[str] = []
    every = EveryLedger(cast(Api, server), lambda raw, _: versions.append(raw["metadata"]["resourceVersion"]))
    errors = 0
    while server.answers:
        try:
            every.follow()
        except (ApiError, OSError):
            errors += 1
    assert every.judged == len(versions)
    return versions, errors


def test_each_version_is_judged_once_and_the_next_watch_goes_on_after_it() -> None:
    server = _Server(_events(("MODIFIED", a_ledger(6)), ("DELETED", a_ledger(7))), _events(("ADDED", a_ledger(8))))
    assert _followed(server) == (["3", "6", "7", "8"], 0)
    assert server.asked == ["list", "5", "7"]


def test_a_lost_connection_or_a_server_in_trouble_loses_no_version() -> None:
    server = _Server(ConnectionError(), Reply(503, b"", ()), _events(("MODIFIED", a_ledger(6))))
    assert _followed(server) == (["3", "6"], 2)
    assert server.asked == ["list", "5", "5", "5"]


@pytest.mark.parametrize(
    "gone", [Reply(410, b"", ()), _events(("ERROR", {"kind": "Status", "code": 410}))], ids=["answer", "event"]
)
def test_where_the_server_has_forgotten_all_is_listed_again(gone: Reply) -> None:
    server = _Server(gone, _events(("MODIFIED", a_ledger(6))))
    assert _followed(server) == (["3", "3", "6"], 1)
    assert server.asked == ["list", "5", "list", "5"]


def test_each_version_is_judged_by_what_its_node_offers_or_offered_last() -> None:
    server = _Server(_events(("MODIFIED", a_ledger(6))), _events(("DELETED", a_ledger(7))))
    judged: list[tuple[str, Mapping[str, str] | None]] = []
    every = EveryLedger(
        cast(Api, server), lambda raw, offered: judged.append((raw["metadata"]["resourceVersion"], offered))
    )
    server.answers.insert(0, _events())
    every.follow()
    assert judged.pop() == ("3", None)
    server.nodes = [{"metadata": {"name": "t4"}, "status": {"allocatable": {GPU: "2"}}}]
    every.follow()
    server.nodes = []
    every.follow()
    assert judged == [("6", {GPU: "2"}), ("7", {GPU: "2"})]


def test_while_the_nodes_cannot_be_read_no_version_is_lost() -> None:
    server = _Server(_events(("MODIFIED", a_ledger(6))))
    server.nodes_fail = 1
    assert _followed(server) == (["3", "6"], 1)
    assert server.asked == ["list", "list", "5"]
