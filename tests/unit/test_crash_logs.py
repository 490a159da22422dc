"""The logs of crashed containers: read once, only where needed, and nothing but a known phrase is kept of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from controller.crash_logs import CrashLogs
from shared.core.oom import Memory, Shortage
from tests.fakes import faults
from tests.fakes.serving import eventually
from tests.unit.controlling import Control, controlling
from tests.unit.fates import a_crash, a_fate

WORDS = "api_key=hunter2\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has\nGoodbye."
SHORT = Shortage(Memory.CARD, "CUDA out of memory (it asked for 2.00 GiB)", 2)
UNKNOWN = a_crash(None)
KEY = "uid-chat-1"


@pytest.fixture
async def control(tmp_path: Path) -> AsyncIterator[Control]:
    """The surroundings of a reader of logs."""
    async with controlling(tmp_path) as control:
        control.start(CrashLogs(control.served.client, control.fates).run())
        yield control


def logs_read(control: Control) -> list[str]:
    return [line for line in control.served.server.requests if "/log?" in line]


async def looked_at(control: Control, key: str = KEY) -> None:
    await eventually(lambda: control.fates.is_looked_at(key, UNKNOWN.key))


def says(control: Control, text: str, status: int = 200, times: int = 1) -> None:
    control.served.server.fail(faults.respond(status, text), path="/log", times=times)


async def test_the_log_of_a_crash_without_words_tells_its_cause(control: Control) -> None:
    says(control, WORDS)
    control.fates.seen(KEY, a_fate(crashes=[UNKNOWN]))
    await looked_at(control)
    fate = control.fates.of(KEY)
    assert fate is not None
    assert [crash.shortage for crash in fate.crashes] == [SHORT]
    assert logs_read(control) == [
        "GET /api/v1/namespaces/models/pods/chat-1/log?container=server&previous=false&tailLines=200&limitBytes=65536"
    ]


async def test_of_a_container_that_was_restarted_the_previous_log_is_read(control: Control) -> None:
    says(control, WORDS)
    control.fates.seen(KEY, a_fate(crashes=[replace(UNKNOWN, restarted=True)]))
    await looked_at(control)
    assert ["previous=true" in line for line in logs_read(control)] == [True]


async def test_crashes_that_were_there_before_it_began_are_looked_at(tmp_path: Path) -> None:
    async with controlling(tmp_path) as control:
        says(control, WORDS)
        control.fates.seen(KEY, a_fate(crashes=[UNKNOWN]))
        control.start(CrashLogs(control.served.client, control.fates).run())
        await looked_at(control)


async def test_each_crash_is_looked_at_once_and_the_next_one_again(control: Control) -> None:
    says(control, "Segmentation fault", times=2)
    control.fates.seen(KEY, a_fate(crashes=[UNKNOWN]))
    await looked_at(control)
    control.fates.seen(KEY, a_fate(crashes=[replace(UNKNOWN, restarted=True)]))
    later = a_crash(None, at="2026-11-30T09:50:00Z")
    control.fates.seen(KEY, a_fate(crashes=[later]))
    await eventually(lambda: control.fates.is_looked_at(KEY, later.key))
    assert len(logs_read(control)) == 2


async def test_a_crash_whose_status_tells_its_cause_needs_no_log(control: Control) -> None:
    says(control, WORDS)
    control.fates.seen("uid-told", a_fate("told", crashes=[a_crash()]))
    control.fates.seen(KEY, a_fate(crashes=[UNKNOWN]))
    await looked_at(control)
    assert ["/pods/told/" in line for line in logs_read(control)] == [False]


async def test_a_log_that_is_gone_is_not_asked_for_again(control: Control) -> None:
    says(control, '{"reason":"BadRequest"}', status=400)
    control.fates.seen(KEY, a_fate(crashes=[UNKNOWN]))
    await looked_at(control)
    control.fates.seen(KEY, a_fate(crashes=[replace(UNKNOWN, restarted=True)]))
    control.fates.seen("uid-chat-2", a_fate("chat-2", crashes=[UNKNOWN]))
    says(control, WORDS)
    await looked_at(control, "uid-chat-2")
    assert [line.split("/")[6] for line in logs_read(control)] == ["chat-1", "chat-2"]


async def test_a_server_that_is_busy_is_asked_again(control: Control) -> None:
    control.served.server.fail(faults.respond(429, "slow", {"Retry-After": "0"}), path="/log")
    says(control, WORDS)
    control.fates.seen(KEY, a_fate(crashes=[UNKNOWN]))
    await looked_at(control)
    fate = control.fates.of(KEY)
    assert fate is not None
    assert [crash.shortage for crash in fate.crashes] == [SHORT]


async def test_without_the_right_no_log_is_asked_for_any_more_and_one_line_says_so(
    control: Control, caplog: pytest.LogCaptureFixture
) -> None:
    says(control, '{"reason":"Forbidden"}', status=403, times=100)
    control.fates.seen(KEY, a_fate(crashes=[UNKNOWN]))
    await eventually(lambda: len(logs_read(control)) == 1)
    warned = "logs of crashed containers are not read: grant get on pods/log"
    await eventually(lambda: warned in caplog.messages)
    for number in range(2, 6):
        control.fates.seen(f"uid-chat-{number}", a_fate(f"chat-{number}", crashes=[UNKNOWN]))
    await asyncio.sleep(0.5)  # longer than the pause after a log
    assert [record.message for record in caplog.records if record.levelno >= logging.WARNING] == [warned]
    assert len(logs_read(control)) == 1


async def test_no_word_of_a_log_reaches_our_own(control: Control, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    says(control, WORDS)
    control.fates.seen(KEY, a_fate(crashes=[UNKNOWN]))
    await looked_at(control)
    assert "hunter2" not in caplog.text
    assert "hunter2" not in repr(control.fates.of(KEY))
