"""Logs: one line per event, as `key=value` pairs, on standard error.

An event is a constant string; what varies goes into fields. A field is a plain value and never an object from
the cluster, so that no pod, Secret or environment value can end up in a log.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import time
from typing import TypeAlias

Field: TypeAlias = str | int | float | bool | BaseException | None

_LONGEST_VALUE = 2000
_PLAIN = re.compile(r"[^\s\"=]+\Z")
_FIELDS = "fields"


class Logger:
    """Writes events with fields through the standard library's logger of the same name."""

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, event: str, /, **fields: Field) -> None:
        """What only somebody who looks for a fault wants to see."""
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, /, **fields: Field) -> None:
        """What happens in normal running, retries included."""
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, /, **fields: Field) -> None:
        """What an admin may want to look into."""
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, /, **fields: Field) -> None:
        """What an admin has to look into."""
        self._write(logging.ERROR, event, fields)

    def exception(self, event: str, /, **fields: Field) -> None:
        """An error of the program itself, with the traceback of the exception being handled."""
        self._write(logging.ERROR, event, fields, with_traceback=True)

    def _write(self, level: int, event: str, fields: dict[str, Field], *, with_traceback: bool = False) -> None:
        self._logger.log(level, event, extra={_FIELDS: fields}, exc_info=with_traceback)


def get_logger(name: str) -> Logger:
    """The logger of a module; pass `__name__`."""
    return Logger(logging.getLogger(name))


def configure(level: str) -> None:
    """Sends all logs of the process to standard error, from `level` (`debug`, `info`, `warning`, `error`) on.

    Raises ValueError for another level.
    """
    if level.lower() not in {"debug", "info", "warning", "error"}:
        raise ValueError(f"log level {level!r}: use debug, info, warning or error")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LineFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    logging.captureWarnings(capture=True)
    for library in (
        "aiohttp",
        "asyncio",
        "kubernetes_asyncio",
    ):  # at debug level they print bodies and tokens
        logging.getLogger(library).setLevel(logging.WARNING)


class _LineFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        pairs: dict[str, Field] = {
            "ts": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "event": record.getMessage(),
            **getattr(record, _FIELDS, {}),
        }
        if record.exc_info:
            pairs["traceback"] = self.formatException(record.exc_info)[-_LONGEST_VALUE:]
        return " ".join(f"{key}={_value(value)}" for key, value in pairs.items())


def _value(value: Field) -> str:
    """`value` on one line: quoted as JSON when it holds spaces, quotes or control characters."""
    if isinstance(value, BaseException):
        text = str(value) or type(value).__name__
    elif isinstance(value, float):
        text = f"{value:.3f}"
    else:
        text = str(value)
    text = text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."
    return text if _PLAIN.match(text) and text.isprintable() else json.dumps(text)
