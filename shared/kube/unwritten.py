"""Why a `ModelPlacement` could not be written, for the log: without it nobody is told of a refusal, nor woken.

What passes by itself, or is a made-up owner, is information. What an admin has to mend is a warning, now and then.
"""

from __future__ import annotations

import re
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from shared.kube import paths
from shared.kube.errors import ApiError, Forbidden, Invalid, NotFound
from shared.kube.recent import remember
from shared.obs.logs import get_logger

log = get_logger(__name__)

_QUIET_S: Final = 600.0
_MOST_WARNED: Final = 1000

_RESOURCE: Final = paths.model_placements().removeprefix("/apis/").split("/")
_COUNT: Final = f"count/{_RESOURCE[-1]}.{_RESOURCE[0]}"
_QUOTA: Final = re.compile(rf"exceeded quota: ([\w.-]+),.* limited: .*?{re.escape(_COUNT)}=(\w+)")


@dataclass(frozen=True, slots=True)
class Obstacle:
    """What keeps an object from being written: which field of what, its value, and what mends it."""

    field: str
    value: str
    fix: str


def obstacle(error: Exception) -> Obstacle | None:
    """What an admin has to mend, or None where it is nothing of the kind."""
    match error:
        case Forbidden() if _is_going(error):
            return None
        case Forbidden() if found := _QUOTA.search(error.message):
            field = f"ResourceQuota {found[1]}: spec.hard[{_COUNT}]"
            return Obstacle(field, found[2], "remove the line, or raise it to one for each workload of the namespace")
        case Forbidden():
            what = "allow the operator's accounts to do so: rights, quotas, webhooks and policies decide"
            return Obstacle("a write of the operator in this namespace", error.message, what)
        case NotFound() if error.reason != "NotFound":  # the kind rather than an object
            name = f"CustomResourceDefinition {_RESOURCE[-1]}.{_RESOURCE[0]}"
            return Obstacle(name, "missing", "install it: helm upgrade of the release")
        case Invalid():
            causes = (error.body.get("details") or {}).get("causes") or ()
            fields = [str(cause.get("field")) for cause in causes if str(cause.get("field")).startswith("status")]
            if fields:
                return Obstacle(fields[0], error.message, "install the CRDs of this release: helm upgrade")
    return None


class Unwritten:
    """Logs `event` for each object that could not be written. `clock` is monotonic, in seconds."""

    def __init__(self, event: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._event = event
        self._clock = clock
        self._warned_at: OrderedDict[tuple[str, str], float] = OrderedDict()

    def tell(self, namespace: str, workload: str, error: ApiError | paths.InvalidName) -> None:
        """Of equal obstacles in a namespace one in ten minutes is a warning."""
        found = obstacle(error)
        if found is None or self._is_quiet((namespace, found.field)):
            log.info(self._event, namespace=namespace, workload=workload, error=error)
            return
        log.warning(
            self._event,
            namespace=namespace,
            workload=workload,
            field=found.field,
            value=found.value,
            fix=found.fix,
            error=error,
        )

    def _is_quiet(self, key: tuple[str, str]) -> bool:
        now = self._clock()
        if now - self._warned_at.get(key, float("-inf")) < _QUIET_S:
            return True
        remember(self._warned_at, key, now, _MOST_WARNED)
        return False


def _is_going(error: ApiError) -> bool:
    """Whether the namespace is being deleted."""
    causes = (error.body.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)
