"""One line per event, whatever the values hold."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from shared.obs import logs


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)


def test_an_event_is_one_line_of_pairs(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info")
    logs.get_logger("shared.test").info("pod placed", node="gpu-1", gb=6, took_s=0.01234, dry_run=False)
    line = capsys.readouterr().err
    assert line.endswith(
        'level=info logger=shared.test event="pod placed" node=gpu-1 gb=6 took_s=0.012 dry_run=False\n'
    )


def test_a_value_cannot_forge_a_line_or_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info")
    logs.get_logger("t").info("seen", name='x" level=error\nts=now')
    written = capsys.readouterr().err
    assert written.count("\n") == 1
    assert r'name="x\" level=error\nts=now"' in written


def test_a_long_value_is_cut(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info")
    logs.get_logger("t").info("seen", text="x" * 100_000)
    assert len(capsys.readouterr().err) < 3000


def test_an_exception_brings_its_traceback_on_the_same_line(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info")
    try:
        int("boom")
    except ValueError:
        logs.get_logger("t").exception("work failed", key="a/b")
    written = capsys.readouterr().err
    assert written.count("\n") == 1
    assert "ValueError: invalid literal" in written


def test_an_error_without_words_is_named_by_its_type(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("info")
    logs.get_logger("t").warning("failed", error=TimeoutError())
    assert "error=TimeoutError" in capsys.readouterr().err


def test_libraries_do_not_print_bodies_and_tokens_at_debug_level(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure("debug")
    logging.getLogger("kubernetes_asyncio.client.rest").debug("response body: %s", "token")
    logs.get_logger("t").debug("shown")
    written = capsys.readouterr().err
    assert "token" not in written
    assert "event=shown" in written


def test_an_unknown_level_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="use debug, info, warning or error"):
        logs.configure("loud")
