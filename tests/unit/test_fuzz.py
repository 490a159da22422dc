"""The fuzz run in small, and proof that it finds what it is to find."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from shared.core.refusal import Reason
from tests.fuzz.run import Failure, replay, run_episode
from tests.fuzz.tally import Tally
from tests.fuzz.world import MutatorClass
from webhook.mutate import Mutator
from webhook.outcome import Admitted, Outcome
from webhook.review import Request

SEED = 4
REVIEWS_A_CLUSTER = 60
CLUSTERS = 70

VERDICTS = {
    *(str(reason) for reason in Reason),
    "placed", "hidden", "untouched", "unavailable", "validate: passed", "validate: invalid_request", "http 400",
}  # fmt: skip


def test_thousands_of_reviews_of_every_kind_keep_every_law() -> None:
    tally = Tally()
    for number in range(CLUSTERS):
        outcome = run_episode(SEED, number, REVIEWS_A_CLUSTER)
        assert outcome.failure is None, f"episode {number}: {outcome.failure.law} {outcome.failure.trace}"
        tally.add(outcome.tally)
    assert tally.verdicts.keys() >= VERDICTS
    assert tally.verdicts["placed"] > tally.reviews / 20
    assert len(tally.checks) == 3
    assert all(looked_at > 10 for looked_at in tally.checks.values())


def test_a_seed_gives_the_same_reviews_and_answers_every_time() -> None:
    one, other = (run_episode(SEED, 0, REVIEWS_A_CLUSTER) for _ in range(2))
    assert one.tally.verdicts == other.tally.verdicts
    assert one.tally.verdicts != run_episode(SEED + 1, 0, REVIEWS_A_CLUSTER).tally.verdicts


class ForgetsThePin(Mutator):
    async def review(self, request: Request, deadline: float) -> Outcome:
        outcome = await super().review(request, deadline)
        if not isinstance(outcome, Admitted):
            return outcome
        return replace(outcome, ops=tuple(op for op in outcome.ops if "/affinity" not in op["path"]))


class TouchesTheImage(Mutator):
    async def review(self, request: Request, deadline: float) -> Outcome:
        outcome = await super().review(request, deadline)
        if not isinstance(outcome, Admitted) or outcome.reservation is None:
            return outcome
        return replace(outcome, ops=(*outcome.ops, {"op": "add", "path": "/spec/containers/0/image", "value": "x"}))


class DoesNotKnowItself(Mutator):
    async def _own_entry(self, request: Request, pod: Any) -> None:
        return None


class Raises(Mutator):
    async def review(self, request: Request, deadline: float) -> Outcome:
        raise KeyError("spec")


class NeverAnswers(Mutator):
    async def review(self, request: Request, deadline: float) -> Outcome:
        await asyncio.Event().wait()
        raise AssertionError("waited for ever")


class RunsOverTime(Mutator):
    async def review(self, request: Request, deadline: float) -> Outcome:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(60)
        return Admitted()


def find_failure(make_mutator: MutatorClass = Mutator) -> Failure:
    for number in range(CLUSTERS):
        outcome = run_episode(SEED, number, REVIEWS_A_CLUSTER, make_mutator)
        if outcome.failure is not None:
            return outcome.failure
    raise AssertionError("no answer was found to be wrong")


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        pytest.param(ForgetsThePin, "pinned to its node", id="the-pin-is-forgotten"),
        pytest.param(TouchesTheImage, "the rest of a container stays", id="an-image-is-touched"),
        pytest.param(DoesNotKnowItself, "the second run changes nothing", id="its-own-output-is-placed-again"),
        pytest.param(Raises, "no handler raises: KeyError('spec')", id="an-exception"),
        pytest.param(NeverAnswers, "unavailable means that the API server is in trouble", id="no-decision"),
        pytest.param(RunsOverTime, "no answer is slower than the timeout", id="too-slow"),
    ],
)
def test_a_webhook_that_breaks_a_law_is_found(wrong: MutatorClass, law: str) -> None:
    assert law in find_failure(wrong).law


@pytest.mark.parametrize(
    ("where", "instead", "law"),
    [
        pytest.param(
            "shared.core.snapshot._used_gb",
            lambda *_: {},
            "kube-scheduler",
            id="use-is-not-counted",
        ),
        pytest.param(
            "shared.core.filters.untolerated", lambda *_: iter(()), "kube-scheduler", id="taints-are-not-seen"
        ),
        pytest.param(
            "webhook.validate.Validator._refuse_other_entry",
            lambda *_: asyncio.sleep(0, result=1 / 0),
            "no handler raises: ZeroDivisionError",
            id="an-exception-in-the-validating-webhook",
        ),
    ],
)
def test_a_core_that_breaks_a_law_is_found(
    monkeypatch: pytest.MonkeyPatch, where: str, instead: Callable[..., Any], law: str
) -> None:
    monkeypatch.setattr(where, instead)
    assert law in find_failure().law


def test_the_judge_of_reservations_finds_by_itself_that_use_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shared.core.snapshot._used_gb", lambda *_: {})
    monkeypatch.setattr("tests.fuzz.episode.Model.reasons", lambda *_: set())
    assert "no two reservations above a budget" in find_failure().law


def test_a_failure_is_kept_and_seen_again(tmp_path: Path) -> None:
    failure = find_failure(Raises)
    path = failure.write(tmp_path / "fuzz")
    assert replay(path, Raises) == ([], "KeyError('spec')")
    told, broken = replay(path)
    assert len(told) == len(failure.sent)
    assert broken == ""
