"""Child processes: readiness, endings, and that none outlives its parent. Real processes, no stand-ins."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from hack.devcluster.processes import Process, ProcessError, free_ports, log_tail, runs, start_time, stop_all

ROOT = Path(__file__).resolve().parents[2]
SLEEP = ["sleep", "60"]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Callable[..., Process]]:
    """Makes processes that are ended with the test."""
    made: list[Process] = []

    def make_one(argv: list[str], ready: Callable[[], bool] | None = None) -> Process:
        made.append(Process("child", argv, log=tmp_path / "log", ready=ready))
        return made[-1]

    yield make_one
    stop_all(made, grace=0.0)


def eventually(true: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 120
    while not true() and time.monotonic() < deadline:
        time.sleep(0.02)
    return true()


def test_it_is_ready_when_its_check_says_so_and_no_answer_counts_as_no(make: Callable[..., Process]) -> None:
    answers: Iterator[OSError | bool] = iter([ConnectionRefusedError(), False, True])

    def ready() -> bool:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    child = make(SLEEP, ready)
    child.start()
    child.wait_ready()

    assert child.alive
    assert next(answers, None) is None


def test_one_that_ends_early_is_reported_with_its_code_and_its_last_words(make: Callable[..., Process]) -> None:
    child = make(["sh", "-c", "echo no such flag; exit 3"], lambda: False)
    child.start()

    with pytest.raises(ProcessError, match=r"(?s)child ended with code 3.*no such flag"):
        child.wait_ready()


def test_one_that_is_never_ready_is_reported_after_the_timeout(make: Callable[..., Process]) -> None:
    child = make(SLEEP, lambda: False)
    child.start()

    with pytest.raises(ProcessError, match="child was not ready"):
        child.wait_ready(timeout=0.1)


def test_a_program_that_does_not_exist_is_named(make: Callable[..., Process]) -> None:
    child = make(["/no/such/program"], lambda: False)
    child.start()

    with pytest.raises(ProcessError, match="cannot start /no/such/program: No such file"):
        child.wait_ready()


def test_one_that_ignores_sigterm_is_killed_after_the_grace_period(
    make: Callable[..., Process], tmp_path: Path
) -> None:
    child = make(["sh", "-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"])
    child.start()
    assert eventually(lambda: "deaf" in log_tail(tmp_path / "log"))

    child.stop(grace=0.2)

    assert child.returncode == -signal.SIGKILL


def test_a_restart_is_a_new_process_with_the_same_command(make: Callable[..., Process]) -> None:
    child = make(SLEEP)
    child.start()
    first = child.pid

    child.kill()
    child.restart()

    assert child.alive
    assert child.pid != first


def test_starting_elsewhere_than_in_the_main_thread_is_refused(make: Callable[..., Process]) -> None:
    child = make(SLEEP)
    errors: list[Exception] = []

    def start() -> None:
        try:
            child.start()
        except RuntimeError as error:
            errors.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()

    assert "main thread" in str(errors[0])
    assert not child.alive


def test_the_child_dies_with_its_parent_even_after_kill_minus_9(tmp_path: Path) -> None:
    program = (
        "import time; from pathlib import Path; from hack.devcluster.processes import Process\n"
        f"child = Process('child', ['sleep', '60'], log=Path({str(tmp_path / 'log')!r}))\n"
        "child.start(); print(child.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, cwd=ROOT) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        began = start_time(child)
        assert began is not None
        parent.kill()

    assert eventually(lambda: not runs(child, began))


def test_a_child_whose_parent_has_gone_before_it_could_be_tied_does_not_start() -> None:
    tether = ROOT / "hack" / "devcluster" / "tether.py"
    not_our_pid = str(os.getppid())
    done = subprocess.run(
        [sys.executable, "-I", tether, not_our_pid, "echo", "started"], capture_output=True, text=True, check=False
    )

    assert done.returncode == 1
    assert "has gone" in done.stderr
    assert done.stdout == ""


def test_free_ports_are_different_and_can_be_bound() -> None:
    assert len(set(free_ports(20))) == 20


def test_a_process_is_told_from_a_later_one_with_its_pid() -> None:
    assert runs(os.getpid(), start_time(os.getpid()))
    assert not runs(os.getpid(), "1")
