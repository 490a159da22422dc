"""The work queue hands out each key once, again after trouble, and never to two workers at a time."""

from __future__ import annotations

import asyncio

import pytest

from shared.kube.errors import ApiError, Conflict, Throttled, Unavailable
from shared.kube.workqueue import WorkQueue
from tests.fakes.serving import eventually


def a_queue() -> WorkQueue[str]:
    return WorkQueue("test", first_retry_s=0.001, longest_retry_s=0.01)


async def drain(queue: WorkQueue[str]) -> list[str]:
    """The keys that wait now, in order, each looked at and done."""
    keys = []
    while len(queue):
        key = await queue.get()
        keys.append(key)
        queue.done(key)
    return keys


async def test_a_key_that_waits_is_not_added_twice() -> None:
    queue = a_queue()
    for key in ("a", "b", "a", "a"):
        queue.add(key)
    assert len(queue) == 2
    assert await drain(queue) == ["a", "b"]


async def test_a_key_added_while_in_work_is_handed_out_once_more_after_that() -> None:
    queue = a_queue()
    queue.add("a")
    assert await queue.get() == "a"
    queue.add("a")
    queue.add("a")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await queue.get()
    queue.done("a")
    assert await drain(queue) == ["a"]


async def test_of_two_delays_for_a_key_the_shorter_counts() -> None:
    queue = a_queue()
    queue.add_after("a", 60)
    queue.add_after("a", 0.001)
    queue.add_after("a", 60)
    async with asyncio.timeout(120):
        assert await queue.get() == "a"


async def test_the_back_off_of_a_key_doubles_up_to_its_limit_and_starts_anew_after_forget() -> None:
    queue: WorkQueue[str] = WorkQueue("test", first_retry_s=1, longest_retry_s=4)
    delays = [queue.retry("a") for _ in range(4)]
    limits = [1, 2, 4, 4]
    assert all(limit / 2 <= delay <= limit for delay, limit in zip(delays, limits, strict=True))
    assert 0.5 <= queue.retry("b") <= 1
    queue.forget("a")
    assert 0.5 <= queue.retry("a") <= 1
    assert queue.retry("a", at_least_s=30) == 30


@pytest.mark.parametrize(
    ("error", "quiet"),
    [
        pytest.param(Unavailable(0, "Timeout", "away"), True, id="server-away"),
        pytest.param(Conflict(409, "Conflict", "stale"), True, id="stale-write"),
        pytest.param(Throttled(429, "TooManyRequests", "slow"), True, id="throttled"),
        pytest.param(ApiError(400, "BadRequest", "our mistake"), False, id="request-of-ours-is-wrong"),
        pytest.param(ZeroDivisionError(), False, id="bug"),
    ],
)
async def test_a_key_whose_worker_failed_comes_again_and_only_the_unexpected_is_loud(
    error: Exception, quiet: bool, caplog: pytest.LogCaptureFixture
) -> None:
    if isinstance(error, Throttled):
        error.retry_after = 0.001
    caplog.set_level("INFO")
    queue = a_queue()
    done = asyncio.Event()
    seen: list[str] = []

    async def worker(key: str) -> None:
        seen.append(key)
        if len(seen) < 3:
            raise error
        done.set()

    queue.add("a")
    running = asyncio.create_task(queue.run(worker))
    async with asyncio.timeout(120):
        await done.wait()
    running.cancel()
    await asyncio.wait({running})
    assert seen == ["a", "a", "a"]
    assert [record.levelname for record in caplog.records] == ["INFO" if quiet else "ERROR"] * 2
    assert queue.retry("a") <= 0.001, "success lets the back-off begin anew"


async def test_a_throttled_key_waits_as_long_as_the_server_asks(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    throttled = Throttled(429, "TooManyRequests", "slow")
    throttled.retry_after = 600

    async def worker(key: str) -> None:
        raise throttled

    queue = a_queue()
    queue.add("a")
    running = asyncio.create_task(queue.run(worker))
    await eventually(lambda: bool(caplog.records))
    running.cancel()
    await asyncio.wait({running})
    assert [record.__dict__["fields"]["retry_s"] for record in caplog.records] == [600]


async def test_workers_share_the_keys_and_none_is_in_two_hands() -> None:
    queue = a_queue()
    in_hand: set[str] = set()
    most_at_once = 0
    handled = 0
    enough = asyncio.Event()

    async def worker(key: str) -> None:
        nonlocal most_at_once, handled
        assert key not in in_hand
        in_hand.add(key)
        most_at_once = max(most_at_once, len(in_hand))
        queue.add(key)
        await asyncio.sleep(0)
        in_hand.remove(key)
        handled += 1
        if handled >= 300:
            enough.set()

    for number in range(10):
        queue.add(str(number))
    running = asyncio.create_task(queue.run(worker, workers=3))
    async with asyncio.timeout(120):
        await enough.wait()
    running.cancel()
    await asyncio.wait({running})
    assert running.cancelled()
    assert most_at_once == 3


async def test_a_cancelled_worker_gives_its_key_back() -> None:
    queue = a_queue()
    started = asyncio.Event()

    async def worker(key: str) -> None:
        started.set()
        await asyncio.Event().wait()

    queue.add("a")
    running = asyncio.create_task(queue.run(worker))
    await started.wait()
    queue.add("a")
    running.cancel()
    await asyncio.wait({running})
    assert await drain(queue) == ["a"]


async def test_of_a_queue_that_nobody_works_at_any_more_nothing_comes_due() -> None:
    queue = a_queue()
    queue.add_after("a", 0.01)
    running = asyncio.create_task(queue.run(_nothing))
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running})
    await asyncio.sleep(0.02)
    assert len(queue) == 0


async def _nothing(_: str) -> None:
    """Work that is done at once."""


async def test_a_queue_is_idle_when_no_key_waits_or_is_in_work() -> None:
    queue = a_queue()
    await queue.idle()
    queue.add("a")
    idle = asyncio.create_task(queue.idle())
    key = await queue.get()
    queue.add("a")
    queue.done(key)
    await asyncio.sleep(0)
    assert not idle.done()
    queue.add_after(await queue.get(), 3600.0)
    queue.done("a")
    await idle
