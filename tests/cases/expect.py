"""Whether what came of a case is what it expects: every key of a verdict is a check of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from tests.cases import configuration, placement, podchecks
from tests.cases.admission import PRODUCT
from tests.cases.chart import Chart
from tests.cases.outcome import Answer, Result, State
from tests.cases.parsing import ENGINE, engine_key, parsed
from tests.cases.play import Played
from tests.fakes.objects import Json
from tests.fakes.pod_rules import amount as quantity

NOFIT: Final = frozenset({
    "insufficient_capacity", "insufficient_system_memory", "insufficient_gpu_count", "vendor_mismatch",
    "accel_version_unmet", "sharing_not_configured",
})  # fmt: skip
INVALID: Final = "invalid_request"
UNAVAILABLE: Final = "unavailable"
_PEOPLES: Final = frozenset({"note", "notes", "because"})
_THE_CASES: Final[tuple[Json | None, ...]] = (None,)
_WHOLE_CASE: Final = frozenset({"steps", "final", "webhookConfig", "acceptable"})
_ONLY_IF: Final = "onlyIf"
_NOT_OF_A_STEP: Final = _WHOLE_CASE | _PEOPLES | {_ONLY_IF}

Differences: TypeAlias = Iterator[str]
_Check: TypeAlias = Callable[[Any, Json, Sequence[Result], int], Differences]


def differences(case: Json, played: Played, chart: Chart) -> list[str]:
    """What a case expects and did not get; empty if it passes."""
    expect = case["expect"]
    main = _judge(expect, expect.get("final"), played, chart)
    if not main:
        return []
    for other in expect.get("acceptable") or ():
        if _is_asked_for(other, played.results) and not _judge(
            other, other.get("final", expect.get("final")), played, chart
        ):
            return []
    return main


def _judge(expect: Json, final: Json | None, played: Played, chart: Chart) -> list[str]:
    """The differences from one whole expectation: verdicts, final state and shipped configuration."""
    found = [*configuration.differences(expect.get("webhookConfig") or {}, chart)]
    asked_for = _is_asked_for(expect, played.results)
    own = {key: value for key, value in expect.items() if asked_for and key not in _NOT_OF_A_STEP}
    steps = expect.get("steps")
    found += _nothing_to_act_on(expect if steps is None else steps, played.results)
    if steps is None:
        found += _verdict(own, played.results, len(played.results))
        return [*found, *_final(final, played.final)]
    finals: list[list[Json | None]] = []
    for number, verdict in enumerate(steps, 1):
        failed, passed = _step(verdict, played.results, number)
        found += [f"step {number}: {text}" for text in failed]
        finals.append(passed if passed else list(_THE_CASES))
    found += _verdict(own, played.results, len(played.results))
    return [*found, *_any_final(finals, final, played.final)]


def _nothing_to_act_on(verdicts: Json | Sequence[Json], results: Sequence[Result]) -> Differences:
    """The steps that had no object to act on, although the step that was to make it had to succeed.

    `verdicts` are those of all steps, or that of the last.
    """
    told = [*({} for _ in results[1:]), verdicts] if isinstance(verdicts, dict) else verdicts
    for number, (result, verdict) in enumerate(zip(results, told, strict=True), 1):
        if result.missing is None or _ONLY_IF in verdict:
            continue
        kind, name = result.missing
        makers = [
            one for earlier, one in zip(results[: number - 1], told, strict=False) if _makes(earlier.step, kind, name)
        ]
        if not any(map(_may_be_refused, makers)):
            yield f"step {number}: {result.step['action']}: there is no {kind} {name} to act on"


def _makes(step: Json, kind: str, name: str) -> bool:
    raw = step.get("object") or {}
    created = step["action"].startswith("create") and raw.get("kind") == kind
    return bool(created and raw["metadata"].get("name") == name)


def _may_be_refused(verdict: Json) -> bool:
    choices = (verdict, *(verdict.get("acceptable") or ()))
    return _ONLY_IF in verdict or any(each.get("allowed") is False for each in choices)


def _step(verdict: Json, results: Sequence[Result], number: int) -> tuple[list[str], list[Json | None]]:
    """The differences from a step's verdict, and the `final`s of all its alternatives that pass (None: the case's)."""
    if not _is_asked_for(verdict, results):
        return [], [None]
    own = {key: value for key, value in verdict.items() if key not in _NOT_OF_A_STEP}
    main = list(_verdict(own, results, number))
    passed: list[Json | None] = [verdict.get("final")] if not main else []
    for other in verdict.get("acceptable") or ():
        keys = {key: value for key, value in other.items() if key not in _NOT_OF_A_STEP}
        if _is_asked_for(other, results) and not list(_verdict(keys, results, number)):
            passed.append(other.get("final"))
    return ([], passed) if passed else (main, [])


def _is_asked_for(verdict: Json, results: Sequence[Result]) -> bool:
    """Whether the earlier step that a verdict hangs on ended as it says. One that hangs on none always counts."""
    only_if = verdict.get(_ONLY_IF)
    if only_if is None:
        return True
    answers = results[only_if["step"] - 1].answers
    return bool(answers) and answers[0].allowed is only_if["allowed"]


def _any_final(finals: list[list[Json | None]], usual: Json | None, state: State) -> list[str]:
    """The differences from the final state, for the choice of alternatives that comes nearest."""
    best: list[str] | None = None
    for choice in itertools.product(*finals):
        own: list[Json | None] = [final for final in choice if final is not None]
        found = [text for final in own or [usual] for text in _final(final, state)]
        if best is None or len(found) < len(best):
            best = found
    return best or []


def _verdict(verdict: Json, results: Sequence[Result], number: int) -> Differences:
    for key, wanted in verdict.items():
        yield from VERDICT_KEYS[key](wanted, verdict, results, number)
    if placement.KEYS & verdict.keys():
        for answer in _answers(results[number - 1]):
            yield from placement.limits_equal_requests(answer.after)


def _answers(result: Result) -> list[Answer]:
    if not result.answers:
        raise LookupError("this step sends no request, so there is no answer to check")
    return result.answers


def _each_answer(check: Callable[[Any, Json, Answer], Differences]) -> _Check:
    """A check of every answer of a step."""

    def checked(wanted: Any, verdict: Json, results: Sequence[Result], number: int) -> Differences:
        result = results[number - 1]
        if not result.answers:
            yield "expected an answer, got none: the step sends no request"
        for answer in result.answers:
            yield from check(wanted, verdict, answer)

    return checked


def _state(check: Callable[[Any, State], Differences]) -> _Check:
    """A check of the cluster after a step."""

    def checked(wanted: Any, _verdict: Json, results: Sequence[Result], number: int) -> Differences:
        yield from check(wanted, results[number - 1].after)

    return checked


def _differs(key: str, wanted: object, got: object) -> Differences:
    if wanted != got:
        yield f"{key}: expected {_text(wanted)}, got {_text(got)}"


def _allowed(wanted: bool, _verdict: Json, answer: Answer) -> Differences:
    if answer.allowed is not wanted:
        got = "true" if answer.refusal is None else f"false, by {answer.refusal.by}: {_first_line(answer)}"
        yield f"allowed: expected {_text(wanted)}, got {got}"


def refusal_code(answer: Answer) -> str | None:
    """The reason that the product gave for a refusal, as a machine reads it; None if it was not the product."""
    if answer.refusal is None or answer.refusal.by != PRODUCT:
        return None
    causes = (answer.refusal.status.get("details") or {}).get("causes") or [{}]
    return str(causes[0].get("reason") or answer.refusal.message.partition(":")[0])


def _reason(wanted: str, _verdict: Json, results: Sequence[Result], number: int) -> Differences:
    refused = [answer for answer in results[number - 1].answers if not answer.allowed]
    if not refused:
        yield f"reason: expected {wanted}, got no refusal"
    for answer in refused:
        code = refusal_code(answer)
        if code is None:
            assert answer.refusal is not None
            by = answer.refusal.by
            yield f"reason: expected {wanted} of the product, got a refusal by {by}: {_first_line(answer)}"
        elif not _is_reason(wanted, code, answer):
            yield f"reason: expected {wanted}, got {code}: {_first_line(answer)}"


def _is_reason(wanted: str, code: str, answer: Answer) -> bool:
    assert answer.refusal is not None
    undecided = code not in NOFIT | {INVALID} and int(answer.refusal.status.get("code") or 403) >= 500
    if wanted == UNAVAILABLE:
        return undecided
    if wanted == INVALID:
        return code not in NOFIT and not undecided
    return code == wanted


def _by(wanted: str, _verdict: Json, answer: Answer) -> Differences:
    got = answer.refusal.by if answer.refusal is not None else "nobody"
    if got != wanted:
        yield f"by: expected {wanted}, got {got}{': ' + _first_line(answer) if answer.refusal else ''}"


def _count(*, allowed: bool) -> _Check:
    key = "allowedCount" if allowed else "rejectedCount"

    def checked(wanted: int, _verdict: Json, results: Sequence[Result], number: int) -> Differences:
        got = sum(answer.allowed is allowed for answer in results[number - 1].answers)
        if got != wanted:
            refused = [answer for answer in results[number - 1].answers if not answer.allowed]
            why = f" (first refusal: {_first_line(refused[0])})" if refused else ""
            yield f"{key}: expected {wanted}, got {got}{why}"

    return checked


def _reserved(wanted: bool, _verdict: Json, results: Sequence[Result], number: int) -> Differences:
    result = results[number - 1]
    new = sorted(result.after.bookings - result.before.bookings)
    more = result.after.total_used_gb - result.before.total_used_gb
    if new or more > 0:
        yield f"reserved: expected {_text(wanted)}, got {len(new)} new bookings and {more} GB more in use"


def _warning(wanted: bool, _verdict: Json, answer: Answer) -> Differences:
    if not answer.warnings:
        yield f"warning: expected {_text(wanted)}, got none"


def _warning_must(wanted: Sequence[str], _verdict: Json, answer: Answer) -> Differences:
    for text in wanted:
        if not any(text.lower() in warning.lower() for warning in answer.warnings):
            yield f"warningMust: expected {text!r} in a warning, got {list(answer.warnings)}"


def _message(answer: Answer) -> str:
    return answer.refusal.message if answer.refusal is not None else ""


def _message_must(wanted: Sequence[str], _verdict: Json, answer: Answer) -> Differences:
    for text in wanted:
        if str(text).lower() not in _message(answer).lower():
            yield f"messageMust: expected {text!r}, got {_message(answer)!r}"


def _message_max(wanted: int, _verdict: Json, answer: Answer) -> Differences:
    if answer.refusal is None or len(_message(answer)) > wanted:
        yield f"messageMaxChars: expected at most {wanted}, got {len(_message(answer))}"


def _first_line_max(wanted: int, _verdict: Json, answer: Answer) -> Differences:
    got = len(_message(answer).split("\n", 1)[0])
    if answer.refusal is None or got > wanted:
        yield f"firstLineMaxChars: expected at most {wanted}, got {got}"


def _answered_within(key: str, seconds: Callable[[Answer], float]) -> _Check:
    """A check of the slowest answer of a step, by the case's clock where that is what counts, else by `seconds`."""

    def checked(wanted: float, _verdict: Json, results: Sequence[Result], number: int) -> Differences:
        result = results[number - 1]
        got = max((one.waited_virtual_s if result.virtual else seconds(one) for one in result.answers), default=None)
        if got is None or got > wanted:
            yield f"{key}: expected at most {wanted} s, got {'no answer' if got is None else f'{got:.2f} s'}"

    return checked


def _patched(wanted: bool, _verdict: Json, answer: Answer) -> Differences:
    if bool(answer.ops) is not wanted:
        changed = ", ".join(op["path"] for op in answer.ops[:4])
        yield f"patched: expected {_text(wanted)}, got {f'a patch of {changed}' if answer.ops else 'no patch'}"


def _same_card(wanted: int, _verdict: Json, results: Sequence[Result], number: int) -> Differences:
    earlier, own = (placement.cards_of(_answers(results[step - 1])[0].after) for step in (wanted, number))
    if not own[1] or own != earlier:
        yield f"sameCardAsStep {wanted}: expected {_place_text(earlier)}, got {_place_text(own)}"


def _different_node(wanted: int, _verdict: Json, results: Sequence[Result], number: int) -> Differences:
    earlier, own = (placement.cards_of(_answers(results[step - 1])[0].after)[0] for step in (wanted, number))
    if own is None or own == earlier:
        yield f"differentNodeFromStep {wanted}: expected another node than {earlier}, got {own}"


def _capacity(wanted: Json, state: State) -> Differences:
    for node, amounts in wanted.items():
        for resource, amount in amounts.items():
            got = state.capacity.get(node, {}).get(resource)
            if got is None or quantity(got) != quantity(amount):
                yield f"nodeCapacity: {node} {resource}: expected {amount}, got {got}"


def _pod_running(wanted: Json, state: State) -> Differences:
    owner = (wanted["ownerKind"], wanted["namespace"], wanted["ownerName"])
    if owner not in state.running_owners:
        yield f"podRunning: expected a Running pod of {' '.join(owner)}, got none"


def _pod_gone(wanted: Json, state: State) -> Differences:
    if (wanted["namespace"], wanted["name"]) in state.pods:
        yield f"podGone: expected no pod {wanted['name']}, got one"


def _events(wanted: int, state: State) -> Differences:
    if state.events_written > wanted:
        yield f"maxEventsWrittenByProduct: expected at most {wanted}, got {state.events_written}"


def _parsed(wanted: Json, verdict: Json, answer: Answer) -> Differences:
    got = parsed(answer.before, verdict.get("container"))
    for key, value in wanted.items():
        if key != ENGINE or engine_key(value) != engine_key(got.get(key)):
            yield from _differs(f"parsed.{key}", value, got.get(key))


def _final(final: Json | None, state: State) -> Differences:
    for key, wanted in (final or {}).items():
        if key not in _PEOPLES:
            yield from (f"final: {text}" for text in FINAL_KEYS[key](wanted, state))


def _used_gb(wanted: Json, state: State) -> Differences:
    for node, cards in wanted.items():
        got = {str(card.index): card.used_gb for card in state.used.get(node, ())}
        summed = state.summed.get(node, {})
        for index, gb in cards.items():
            yield from _differs(f"usedGB: {node} card {index}", gb, got.get(str(index)))
            stored = summed.get(int(index), got.get(str(index)))
            if stored != got.get(str(index)):
                yield f"usedGB: {node} card {index}: the product says {got[str(index)]}, the stored objects {stored}"


def _used_by_uuid(wanted: Json, state: State) -> Differences:
    for node, cards in wanted.items():
        got = {card.uuid: card.used_gb for card in state.used.get(node, ())}
        for uuid, gb in cards.items():
            yield from _differs(f"usedByUuid: {node} {uuid}", gb, got.get(uuid))


def _total_used(wanted: int, state: State) -> Differences:
    yield from _differs("totalUsedGB", wanted, state.total_used_gb)


def _bookings(wanted: Sequence[str], state: State) -> Differences:
    yield from _differs("bookings", sorted(wanted), sorted(state.booked_pods))


def _first_line(answer: Answer) -> str:
    return _message(answer).split("\n", 1)[0]


def _place_text(place: tuple[str | None, tuple[int, ...]]) -> str:
    return f"{place[0] or 'no node'} cards {list(place[1])}"


def _text(value: object) -> str:
    if value is None:
        return "nothing"
    return str(value).lower() if isinstance(value, bool) else str(value)


VERDICT_KEYS: Final[dict[str, _Check]] = {
    "allowed": _each_answer(_allowed),
    "reason": _reason,
    "by": _each_answer(_by),
    "allowedCount": _count(allowed=True),
    "rejectedCount": _count(allowed=False),
    "reserved": _reserved,
    "warning": _each_answer(_warning),
    "warningMust": _each_answer(_warning_must),
    "messageMust": _each_answer(_message_must),
    "messageMaxChars": _each_answer(_message_max),
    "firstLineMaxChars": _each_answer(_first_line_max),
    "answeredWithinSeconds": _answered_within("answeredWithinSeconds", lambda answer: answer.waited_s),
    "maxLatencySeconds": _answered_within("maxLatencySeconds", lambda answer: answer.worked_s),
    "patched": _each_answer(_patched),
    "sameCardAsStep": _same_card,
    "differentNodeFromStep": _different_node,
    "nodeCapacity": _state(_capacity),
    "podRunning": _state(_pod_running),
    "podGone": _state(_pod_gone),
    "maxEventsWrittenByProduct": _state(_events),
    "parsed": _each_answer(_parsed),
    **{key: _each_answer(check) for key, check in placement.CHECKS.items()},
    **{key: _each_answer(check) for key, check in podchecks.CHECKS.items()},
}

FINAL_KEYS: Final[dict[str, Callable[[Any, State], Differences]]] = {
    "usedGB": _used_gb,
    "usedByUuid": _used_by_uuid,
    "totalUsedGB": _total_used,
    "nodeCapacity": _capacity,
    "bookings": _bookings,
}
