"""The text of every refusal, in one place: the denial, the event and the status all say the same.

The first line is complete in itself and short, because controllers cut what follows. Nothing in it changes by the
second, so that equal refusals are equal texts and Kubernetes folds their events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shared.core.advice import (
    advise,
    elsewhere_words,
    is_shut,
    preemption_words,
    undeclared_words,
    update_words,
    victims_words,
)
from shared.core.asked_words import EXCLUSIVE_POLICY
from shared.core.cards import PARTITION_MARK, CardClass
from shared.core.holders import KEPT, UNBORN
from shared.core.refusal import CardAttempt, Excluded, Invalid, NodeAttempt, NoFit, Reason, Refusal
from shared.core.unit_words import unit_cause, unit_words
from shared.core.wording import NAME_LIMIT, counted, cut, join, one_line, sentence

FIRST_LINE_LIMIT = 239
TEXT_LIMIT = 899
CAUSE_LIMIT = 500
MOST_CAUSES = 16
_LEAST_EXCLUDED_CAUSES = 6
_MOST_NAMED_HOLDERS = 4
_WORDS_LIMIT = 100
_LEAST_LINE = 60
_PATH_LIMIT = 400
_ASKED_LEAST = 40
_FIELD_LIMIT = 120
_VALUE_LIMIT = 60
_KINDS = {CardClass.DISCRETE: "card", CardClass.UNIFIED: "memory pool", CardClass.MIG: "partition"}


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `status.details.causes`: the same facts for machines."""

    reason: str
    message: str
    field: str


def explain(refusal: Refusal) -> str:
    """The whole text: a first line under 240 characters, then who holds the memory and what would help; under 900."""
    if isinstance(refusal, Invalid):
        return cut(_invalid(refusal), TEXT_LIMIT)
    first, left_out = _first_line(refusal)
    further = _further(refusal, left_out)
    advice = advise(refusal)
    # What a person can do comes before further facts where there is no room for all.
    rest = (
        update_words(refusal),
        preemption_words(refusal),
        elsewhere_words(refusal),
        undeclared_words(refusal),
        _held(refusal),
        _memory(refusal),
        further,
    )
    fitted = _fitted(rest, TEXT_LIMIT - len(first) - len(advice) - 1)
    update, preemption, elsewhere, undeclared, held, memory, further = fitted
    lines = (first, update, further, held, memory, preemption, advice, elsewhere, undeclared)
    return "\n".join(line for line in lines if line)


def causes(refusal: Refusal) -> tuple[Cause, ...]:
    """The facts for machines: the refusal itself, then the excluded nodes and the nearest cards; at most 16."""
    if isinstance(refusal, Invalid):
        message = f"{_quote(refusal.value)} {one_line(refusal.problem)}: {one_line(refusal.fix)}"
        return (Cause(refusal.reason, cut(message, CAUSE_LIMIT), cut(refusal.field, _PATH_LIMIT)),)
    own = Cause(refusal.reason, _first_line(refusal)[0], "")
    most = max(_LEAST_EXCLUDED_CAUSES, MOST_CAUSES - 1 - len(refusal.attempts))
    excluded = [Cause("NodesExcluded", _words(item), "") for item in refusal.excluded[:most]]
    cards = [
        Cause(_card_cause(attempt), f"{_card(attempt)} {_state(attempt)}", f"{attempt.node}/{attempt.index}")
        for attempt in refusal.attempts
    ]
    units = (
        [Cause(unit_cause(unit), unit_words(unit), f"{unit.node}/{unit.resource}")] if (unit := refusal.unit) else []
    )
    victims = (
        [Cause("LowerPriorityPods", victims_words(refusal.victims), refusal.victims.node)] if refusal.victims else []
    )
    return (own, *victims, *excluded, *units, *cards)[:MOST_CAUSES]


def _fitted(lines: Sequence[str], room: int) -> Iterator[str]:
    """Each of `lines`, cut so that all with their ends fit into `room`; empty where too little is left to say it."""
    for line in lines:
        shown = cut(line, room - 1) if room > _LEAST_LINE else ""
        room -= len(shown) + 1 if shown else 0
        yield shown


def _invalid(refusal: Invalid) -> str:
    field, fix = cut(one_line(refusal.field), _FIELD_LIMIT), one_line(refusal.fix)
    what = f"{refusal.reason}: {field} is {_quote(refusal.value)}, which {one_line(refusal.problem)}"
    full = f"{what}: {fix}."
    if len(full) <= FIRST_LINE_LIMIT:
        return full
    return f"{cut(what + '.', FIRST_LINE_LIMIT)}\n{sentence(fix)}"


def _first_line(refusal: NoFit) -> tuple[str, Sequence[str]]:
    """The first line, and the reasons of exclusion for which it has no room."""
    are = "is" if refusal.excluded_nodes == 1 else "are"
    lead = f"; {counted(refusal.excluded_nodes, 'node')} {are} excluded" if refusal.excluded else ""
    start, best = f"{refusal.reason}: needs ", f"; {_best(refusal)}"
    asked = cut(one_line(refusal.asked), max(_ASKED_LEAST, FIRST_LINE_LIMIT - len(start + best + lead) - 1))
    line = f"{start}{asked}{best}{lead}"
    words = [_words(item) for item in refusal.excluded]
    # With a single reason its number stands in front already.
    spoken = [words[0].removeprefix(f"{refusal.excluded_nodes} ")] if len(words) == 1 else words
    shown: list[int] = []
    full = cut(f"{line}.", FIRST_LINE_LIMIT)
    for number in range(len(words)):
        more = [*shown, number]
        end = "." if len(more) == len(words) else ", ..."
        longer = f"{line}: {', '.join(spoken[each] for each in more)}{end}"
        if len(longer) <= FIRST_LINE_LIMIT:
            shown, full = more, longer
    return full, [word for number, word in enumerate(words) if number not in shown]


def _further(refusal: NoFit, left_out: Sequence[str]) -> str:
    """Which nodes are excluded where they are few, else the reasons for which the first line has no room."""
    if refusal.excluded_by_name:
        named = [
            f"{cut(node.node, NAME_LIMIT)} ({cut(one_line(', '.join(node.reasons)), _WORDS_LIMIT)})"
            for node in refusal.excluded_by_name
        ]
        return f"Excluded: {', '.join(named)}."
    title = "Further exclusions" if len(left_out) < len(refusal.excluded) else "Excluded"
    return f"{title}: {', '.join(left_out)}." if left_out else ""


def _best(refusal: NoFit) -> str:
    """The nearest thing there is to what was asked, and what it lacks."""
    match refusal.reason:
        case Reason.VENDOR_MISMATCH:
            return f"{_nodes_it_may_use(refusal.usable_nodes)} {join(refusal.found, 'and')} cards"
        case Reason.ACCEL_VERSION_UNMET:
            return f"{_nodes_it_may_use(refusal.usable_nodes)} {join(refusal.found, 'or')}"
    if refusal.resource and refusal.usable_nodes:
        return _best_units(refusal)
    # Where no card has room for its part of the ask, it is the nearest card that tells what is short.
    together = ", but not for all containers at once" if refusal.every_container_alone else ""
    shut = is_shut(refusal)
    if (best := refusal.best_node) and best.fitting:
        node = f"the best node, {cut(best.node, NAME_LIMIT)}, has {_room(best)}"
        return f"{node}, but cannot take the pod" if shut else f"{node}{together}"
    if refusal.attempts:
        what = _KINDS[refusal.attempts[0].card_class]
        card = f"the best {what}, {_card(refusal.attempts[0])}, {_state(refusal.attempts[0])}"
        return f"{card}, but its node cannot take the pod" if shut else f"{card}{together}"
    if refusal.misnamed:
        return f"spec.nodeName is {cut(refusal.node_name, NAME_LIMIT)}, which is no node with cards"
    if refusal.node_name:
        return f"{cut(refusal.node_name, NAME_LIMIT)}, the node of spec.nodeName, is not left"
    return "no node with cards is left" if refusal.excluded else "no node of the cluster has a card"


def _best_units(refusal: NoFit) -> str:
    if refusal.unit is None:
        return f"no node it may use offers {refusal.resource}"
    if refusal.every_container_alone:
        return f"{unit_words(refusal.unit)}, but not for all containers at once"
    if refusal.reason is Reason.SHARING_NOT_CONFIGURED:
        return f"{unit_words(refusal.unit)} and gives whole ones only"
    return unit_words(refusal.unit) + (", but its node cannot take the pod" if is_shut(refusal) else "")


def _room(node: NodeAttempt) -> str:
    if node.cards == 1:
        return "room on its only card"
    out = f", and {node.out} {'is' if node.out == 1 else 'are'} unhealthy or cordoned" if node.out else ""
    return f"room on {node.fitting} of its {node.cards} cards{out}"


def _card(attempt: CardAttempt) -> str:
    _, mark, profile = attempt.model.rpartition(PARTITION_MARK)
    kind = f" ({profile})" if mark and attempt.card_class is CardClass.MIG else ""
    return f"gpu-{attempt.index}{kind} of {cut(attempt.node, NAME_LIMIT)}"


def _state(attempt: CardAttempt) -> str:
    if not attempt.healthy:
        return f"is unhealthy or cordoned ({attempt.budget_gb} GB)"
    if attempt.need_gb > attempt.budget_gb:
        return f"has {attempt.budget_gb} GB in all and is {attempt.need_gb - attempt.budget_gb} GB too small"
    free = f"has {attempt.free_gb} of {attempt.budget_gb} GB free"
    if attempt.is_whole and attempt.short_gb and not attempt.too_small:
        why = "is only given away whole" if attempt.whole_only else f"is wanted whole ({EXCLUSIVE_POLICY})"
        return f"{free} and {why}"
    if attempt.backing is not None and attempt.lacks_memory_most:
        if attempt.too_small:
            return (
                f"has {attempt.budget_gb} GB, but its node's memory would do for {attempt.backing.most_gb} GB at most"
            )
        return f"{free}, but its node has memory for {attempt.backing.room_gb} GB only: {attempt.short_gb} GB short"
    return f"{free} and is {attempt.short_gb} GB short" if attempt.short_gb else free


def _card_cause(attempt: CardAttempt) -> str:
    if not attempt.healthy:
        return "CardOutOfService"
    if attempt.too_small:
        return "CardTooSmall"
    return "CardTooFull" if attempt.short_gb else "CardHasRoom"


def _held(refusal: NoFit) -> str:
    """Who has what is short."""
    if refusal.unit is not None:
        where, unit = cut(refusal.unit.node, NAME_LIMIT), refusal.unit.resource
    elif refusal.attempts:
        where, unit = _card(refusal.attempts[0]), "GB"
    else:
        return ""
    holders = refusal.holders
    unborn = [amount for name, amount in holders.own if name == UNBORN]
    kept = [amount for name, amount in holders.own if name == KEPT]
    pods = [(name, amount) for name, amount in holders.own if name not in {UNBORN, KEPT}]
    named, unnamed = pods[:_MOST_NAMED_HOLDERS], pods[_MOST_NAMED_HOLDERS:]
    parts = [f"{amount} {unit} by {cut(name, NAME_LIMIT)}" for name, amount in named]
    if unborn:
        parts.append(f"{sum(unborn)} {unit} by {UNBORN if len(unborn) == 1 else f'{len(unborn)} pods being created'}")
    if kept:
        of = KEPT if len(kept) == 1 else f"{len(kept)} pods being replaced"
        parts.append(f"{sum(kept)} {unit} kept for {of}")
    if unnamed:
        parts.append(f"{sum(amount for _, amount in unnamed)} {unit} by {len(unnamed)} more in this namespace")
    if holders.others:
        others = "another namespace" if holders.others == 1 else "other namespaces"
        parts.append(f"{holders.others_gb} {unit} by {counted(holders.others, 'pod')} in {others}")
    if holders.foreign_gb:
        parts.append(f"{holders.foreign_gb} {unit} by programs that no reservation stands for")
    return f"Held on {where}: {', '.join(parts)}." if parts else ""


def _memory(refusal: NoFit) -> str:
    """Who has the node's memory, where that is what the nearest card lacks."""
    nearest = refusal.attempts[0] if refusal.attempts else None
    if nearest is None or nearest.backing is None or not nearest.lacks_memory_most:
        return ""
    of = nearest.backing
    parts = [
        f"{gb} GB {whose}"
        for gb, whose in (
            (of.requested_gb, "requested by pods"),
            (of.booked_gb, "booked for models"),
            (of.kept_gb, "kept for cards"),
            (of.own_gb, "requested by this pod"),
        )
        if gb
    ]
    return f"Memory of {cut(nearest.node, NAME_LIMIT)}, {of.node_gb} GB: {', '.join(parts) or 'all of it free'}."


def _nodes_it_may_use(count: int) -> str:
    return "the only node it may use has" if count == 1 else f"the {count} nodes it may use have"


def _words(excluded: Excluded) -> str:
    return cut(one_line(excluded.words), _WORDS_LIMIT)


def _quote(value: str) -> str:
    return cut(repr(value), _VALUE_LIMIT)
