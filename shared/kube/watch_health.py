"""How current the watched collections are, as checks of readiness and as metrics."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import Any, Final

from shared.kube.reflector import Reflector
from shared.obs import metrics
from shared.obs.health import Check
from shared.obs.metrics import Family, family

FRESH_S: Final = 150.0
"""A watch that heard nothing for this long is behind; a healthy one hears a renewal every 75 s at most."""


def watch_checks(reflectors: Iterable[Reflector[Any]], now: float) -> Iterator[Check]:
    """Whether each collection is listed and was heard of lately, at `now` of `time.monotonic`."""
    for reflector in reflectors:
        age_s = reflector.age_s(now)
        if not reflector.synced.is_set():
            yield Check(reflector.collection, "is not listed yet")
        elif age_s > FRESH_S:
            yield Check(reflector.collection, f"was last heard of {age_s:.0f} s ago")
        else:
            yield Check(reflector.collection)


def watch_families(reflectors: Iterable[Reflector[Any]], now: float) -> Iterator[Family]:
    """The metrics of the watches at `now` of `time.monotonic`."""
    labelled = [({"collection": watch.collection}, watch) for watch in reflectors]
    ages = ((labels, watch.age_s(now)) for labels, watch in labelled)
    yield family(metrics.WATCH_AGE, ((labels, age_s) for labels, age_s in ages if math.isfinite(age_s)))
    yield family(metrics.WATCH_OBJECTS, ((labels, len(watch.store)) for labels, watch in labelled))
    yield family(metrics.WATCH_LISTS, ((labels, watch.lists) for labels, watch in labelled))
    yield family(metrics.WATCH_INTERRUPTIONS, ((labels, watch.interruptions) for labels, watch in labelled))
