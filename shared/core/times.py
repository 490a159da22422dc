"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import datetime


def in_seconds(time: datetime) -> str:
    """A time in UTC as it stands in metadata, conditions and events: the order as texts is that of the times."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def unix_seconds(timestamp: str) -> int:
    """The seconds of Unix time that a timestamp tells; 0 where it tells none."""
    try:
        return int(datetime.fromisoformat(timestamp).timestamp())
    except ValueError:
        return 0
