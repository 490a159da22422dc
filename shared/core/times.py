"""Times as Kubernetes writes them."""

from __future__ import annotations

from datetime import datetime


def unix_seconds(timestamp: str) -> int:
    """The seconds of Unix time that a timestamp tells; 0 where it tells none."""
    try:
        return int(datetime.fromisoformat(timestamp).timestamp())
    except ValueError:
        return 0
