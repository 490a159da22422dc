"""Checks of what else became of a pod: variables, arguments, affinity, and what must not have changed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

from tests.cases.outcome import Answer
from tests.cases.scheduler import chosen_node, required_terms
from tests.fakes.objects import Json
from tests.fakes.pod_rules import containers_of

_PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"


def flag_value(container: Mapping[str, Any], flag: str) -> str | None:
    """The value of a flag on a container's command line, in whatever spelling; the last one counts."""
    wanted = _spelling(flag)
    found = None
    words = [word for part in ("command", "args") for text in container.get(part) or () for word in _words(str(text))]
    for word, following in zip(words, [*words[1:], None], strict=True):
        name, equals, value = word.partition("=")
        if name.startswith("-") and _spelling(name) == wanted:
            found = value if equals else following
    return found


def _spelling(flag: str) -> str:
    return flag.lstrip("-").replace("_", "-")


def _words(text: str) -> list[str]:
    """The words of an argument, which may be a whole command line."""
    if not any(space in text for space in " \n\t"):
        return [text]
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


def _container(pod: Json, name: str) -> Json:
    return next((each for each in _all_containers(pod) if each.get("name") == name), {})


def _all_containers(pod: Json) -> list[Json]:
    return [*containers_of(pod), *((pod.get("spec") or {}).get("ephemeralContainers") or ())]


def _variables(container: Json) -> dict[str, Any]:
    """The literal variables of a container; of several of one name the last counts."""
    return {entry["name"]: entry.get("value", "(from elsewhere)") for entry in container.get("env") or ()}


def _env(wanted: Json, _verdict: Json, answer: Answer) -> Iterator[str]:
    for container, variables in wanted.items():
        got = _variables(_container(answer.after, container))
        for name, value in variables.items():
            if got.get(name) != str(value):
                yield f"env: {container} {name}: expected {value!r}, got {got.get(name)!r}"


def _env_absent(wanted: Json, _verdict: Json, answer: Answer) -> Iterator[str]:
    for container, variables in wanted.items():
        got = _variables(_container(answer.after, container))
        for name in variables:
            if name in got:
                yield f"envAbsent: {container} {name}: expected none, got {got[name]!r}"


def _env_must_not_match(wanted: Json, _verdict: Json, answer: Answer) -> Iterator[str]:
    for container in _all_containers(answer.after):
        for name, pattern in wanted.items():
            value = _variables(container).get(name)
            if value is not None and re.search(pattern, value):
                yield f"envMustNotMatch: {container['name']} {name}: expected no match of {pattern!r}, got {value!r}"


def _args(wanted: Json, _verdict: Json, answer: Answer) -> Iterator[str]:
    for container, flags in wanted.items():
        for flag, bounds in flags.items():
            value = flag_value(_container(answer.after, container), flag)
            try:
                number = float(value) if value is not None else None
            except ValueError:
                number = None
            low, high = bounds.get("min", float("-inf")), bounds.get("max", float("inf"))
            if number is None or not low <= number <= high:
                yield f"args: {container} {flag}: expected {low} to {high}, got {value}"


def _affinity(wanted: Json, _verdict: Json, answer: Answer) -> Iterator[str]:
    for key, value in wanted.items():
        yield from (f"affinity.{text}" for text in AFFINITY_KEYS[key](value, answer))


def _every_term_pins(_wanted: bool, answer: Answer) -> Iterator[str]:
    terms, node = required_terms(answer.after), chosen_node(answer.after)
    pins = [any(_names(each, node) for each in term.get("matchFields") or ()) for term in terms]
    if node is None or not pins or not all(pins):
        yield f"everyTermPinsChosenNode: expected a pin to {node} in every term, got {terms}"


def _names(requirement: Json, node: str | None) -> bool:
    return requirement == {"key": "metadata.name", "operator": "In", "values": [node]}


def _terms_kept(kind: str, key: str) -> Callable[[Any, Answer], Iterator[str]]:
    """Each remaining term has everything that one of the terms had before."""

    def check(_wanted: bool, answer: Answer) -> Iterator[str]:
        before, after = required_terms(answer.before), required_terms(answer.after)
        for term in after if before else ():
            if not any(all(each in (term.get(kind) or ()) for each in old.get(kind) or ()) for old in before):
                yield f"{key}: expected the {kind} of a term of {before}, got {term}"
        if before and not after:
            yield f"{key}: expected {before}, got no terms"

    return check


def _preferred_kept(_wanted: bool, answer: Answer) -> Iterator[str]:
    for kind in ("nodeAffinity", "podAffinity", "podAntiAffinity"):
        before, after = (
            (((pod.get("spec") or {}).get("affinity") or {}).get(kind) or {}).get(_PREFERRED)
            for pod in (answer.before, answer.after)
        )
        if before != after:
            yield f"preferredKept: {kind}: expected {before}, got {after}"


def _term_count(wanted: int, answer: Answer) -> Iterator[str]:
    got = len(required_terms(answer.after))
    if got > wanted:
        yield f"termCountMax: expected at most {wanted}, got {got}"


def _pinned(wanted: bool, answer: Answer) -> Iterator[str]:
    got = required_terms(answer.before) != required_terms(answer.after)
    if got is not wanted:
        yield f"pinned: expected {str(wanted).lower()}, got {str(got).lower()}: {required_terms(answer.after)}"


def _spec_kept(wanted: Json, _verdict: Json, answer: Answer) -> Iterator[str]:
    for field, value in wanted.items():
        got: Any = answer.after.get("spec") or {}
        for part in field.split("."):
            got = got.get(part) if isinstance(got, dict) else None
        if got != value:
            yield f"specKept: {field}: expected {value!r}, got {got!r}"


def _untouched(wanted: Sequence[str], _verdict: Json, answer: Answer) -> Iterator[str]:
    for name in wanted:
        before, after = _container(answer.before, name), _container(answer.after, name)
        if not before or before != after:
            yield f"untouchedContainers: {name}: expected {before}, got {after}"


def _labels_present(wanted: Any, _verdict: Json, answer: Answer) -> Iterator[str]:
    labels = answer.after["metadata"].get("labels") or {}
    for key in wanted:
        if key not in labels or (isinstance(wanted, dict) and labels[key] != str(wanted[key])):
            yield f"labelsPresent: expected {key}, got {labels}"


def _injected(wanted: Json, _verdict: Json, answer: Answer) -> Iterator[str]:
    for key, value in wanted.items():
        got = INJECTED_KEYS[key](answer.after) - INJECTED_KEYS[key](answer.before)
        if got != value:
            yield f"injected.{key}: expected {value}, got {got}"


def _host_paths(pod: Json) -> int:
    return sum("hostPath" in volume for volume in (pod.get("spec") or {}).get("volumes") or ())


def _privileged(pod: Json) -> int:
    return sum(bool((each.get("securityContext") or {}).get("privileged")) for each in _all_containers(pod))


AFFINITY_KEYS: Final[dict[str, Callable[[Any, Answer], Iterator[str]]]] = {
    "everyTermPinsChosenNode": _every_term_pins,
    "originalExpressionsKept": _terms_kept("matchExpressions", "originalExpressionsKept"),
    "matchFieldsKept": _terms_kept("matchFields", "matchFieldsKept"),
    "preferredKept": _preferred_kept,
    "termCountMax": _term_count,
    "pinned": _pinned,
}

INJECTED_KEYS: Final[dict[str, Callable[[Json], int]]] = {
    "containers": lambda pod: len(_all_containers(pod)),
    "hostPathVolumes": _host_paths,
    "privilegedContainers": _privileged,
}

CHECKS: Final[dict[str, Callable[[Any, Json, Answer], Iterator[str]]]] = {
    "env": _env,
    "envAbsent": _env_absent,
    "envMustNotMatch": _env_must_not_match,
    "args": _args,
    "affinity": _affinity,
    "specKept": _spec_kept,
    "untouchedContainers": _untouched,
    "labelsPresent": _labels_present,
    "injected": _injected,
}
