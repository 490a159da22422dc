"""What is counted of reviews: how they were answered, how long it took, how many are under way."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product

from shared.core.refusal import Reason
from shared.obs import metrics
from shared.obs.metrics import AtScrape, counter, family, histogram
from shared.obs.recorders import Recorder
from webhook.outcome import Admitted, Cause, Outcome, Refused

_PLACED = ("placed", "")
_PASSED = ("passed", "")
_ANSWERS = (
    _PLACED,
    _PASSED,
    *(("refused", str(reason)) for reason in Reason),
    *(("unavailable", str(why)) for why in Cause),
)
"""Every verdict with every reason that it can have: all are exported from the start, so that a first one shows."""


class ReviewRecorder(Recorder):
    """The reviews of both webhooks."""

    MUTATE = "mutate"
    VALIDATE = "validate"

    def __init__(self) -> None:
        reviews, seconds = counter(metrics.REVIEWS), histogram(metrics.REVIEW_SECONDS)
        self._errors = counter(metrics.HTTP_ERRORS)
        webhooks = (self.MUTATE, self.VALIDATE)
        self._reviews = {
            (webhook, answer): reviews.labels(webhook, *answer) for webhook, answer in product(webhooks, _ANSWERS)
        }
        self._seconds = {webhook: seconds.labels(webhook) for webhook in webhooks}
        self._in_flight = 0
        in_flight = AtScrape(lambda: [family(metrics.REVIEWS_IN_FLIGHT, [({}, self._in_flight)])])
        super().__init__(reviews, seconds, self._errors, in_flight)

    @contextmanager
    def under_way(self, webhook: str) -> Iterator[None]:
        """Measures one request from its arrival to its answer."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._in_flight += 1
        try:
            yield
        finally:
            self._in_flight -= 1
            self._seconds[webhook].observe(loop.time() - began)

    def decided(self, webhook: str, outcome: Outcome) -> None:
        """A review has its outcome."""
        self._reviews[webhook, _answer(outcome)].inc()

    def no_review(self, status: int) -> None:
        """A request was answered with an HTTP error."""
        self._errors.labels(str(status)).inc()


def _answer(outcome: Outcome) -> tuple[str, str]:
    match outcome:
        case Admitted(reservation=None):
            return _PASSED
        case Admitted():
            return _PLACED
        case Refused(refusal):
            return "refused", str(refusal.reason)
        case unrecorded:
            return "unavailable", str(unrecorded.cause)
