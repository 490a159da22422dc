"""The text of every refusal, in one place: the denial, the event and the status all say the same.

The first line is complete in itself and short, because controllers cut what follows. Nothing in it changes by the
second, so that equal refusals are equal texts and Kubernetes folds their events.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from shared.api import names
from shared.core.cards import PARTITION_MARK, CardClass
from shared.core.holders import UNBORN
from shared.core.refusal import CardAttempt, Excluded, Invalid, NodeAttempt, NoFit, Reason, Refusal
from shared.core.unit_words import unit_advice, unit_cause, unit_outlook, unit_words

FIRST_LINE_LIMIT = 239
TEXT_LIMIT = 899
CAUSE_LIMIT = 500
MOST_CAUSES = 16
_LEAST_EXCLUDED_CAUSES = 6
_MOST_NAMED_HOLDERS = 4
_NAME_LIMIT = 50
_WORDS_LIMIT = 100
_LEAST_LINE = 60
_PATH_LIMIT = 400
_ASKED_LEAST = 40
_FIELD_LIMIT = 120
_VALUE_LIMIT = 60
_KINDS = {CardClass.DISCRETE: "card", CardClass.UNIFIED: "memory pool", CardClass.MIG: "partition"}
_ABOUT_THE_HARDWARE = frozenset({Reason.VENDOR_MISMATCH, Reason.ACCEL_VERSION_UNMET})


@dataclass(frozen=True, slots=True)
class Cause:
    """One entry of `status.details.causes`: the same facts for machines."""

    reason: str
    message: str
    field: str


def explain(refusal: Refusal) -> str:
    """The whole text: a first line under 240 characters, then who holds the memory and what would help; under 900."""
    if isinstance(refusal, Invalid):
        return _cut(_invalid(refusal), TEXT_LIMIT)
    first, left_out = _first_line(refusal)
    title = "Further exclusions" if len(left_out) < len(refusal.excluded) else "Excluded"
    further = f"{title}: {', '.join(left_out)}." if left_out else ""
    advice = _help(refusal)
    # What a person can do comes before further facts where there is no room for all.
    rest = (
        _update(refusal),
        _elsewhere(refusal),
        _undeclared(refusal),
        _held(refusal),
        _memory(refusal),
        further,
    )
    update, elsewhere, undeclared, held, memory, further = _fitted(rest, TEXT_LIMIT - len(first) - len(advice) - 1)
    lines = (first, further, held, memory, advice, elsewhere, update, undeclared)
    return "\n".join(line for line in lines if line)


def causes(refusal: Refusal) -> tuple[Cause, ...]:
    """The facts for machines: the refusal itself, then the excluded nodes and the nearest cards; at most 16."""
    if isinstance(refusal, Invalid):
        message = f"{_quote(refusal.value)} {_line(refusal.problem)}: {_line(refusal.fix)}"
        return (Cause(refusal.reason, _cut(message, CAUSE_LIMIT), _cut(refusal.field, _PATH_LIMIT)),)
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
    return (own, *excluded, *units, *cards)[:MOST_CAUSES]


def _fitted(lines: Sequence[str], room: int) -> Iterator[str]:
    """Each of `lines`, cut so that all with their ends fit into `room`; empty where too little is left to say it."""
    for line in lines:
        shown = _cut(line, room - 1) if room > _LEAST_LINE else ""
        room -= len(shown) + 1 if shown else 0
        yield shown


def _invalid(refusal: Invalid) -> str:
    field, fix = _cut(_line(refusal.field), _FIELD_LIMIT), _line(refusal.fix)
    what = f"{refusal.reason}: {field} is {_quote(refusal.value)}, which {_line(refusal.problem)}"
    full = f"{what}: {fix}."
    if len(full) <= FIRST_LINE_LIMIT:
        return full
    return f"{_cut(what + '.', FIRST_LINE_LIMIT)}\n{_sentence(fix)}"


def _first_line(refusal: NoFit) -> tuple[str, Sequence[str]]:
    """The first line, and the reasons of exclusion for which it has no room."""
    are = "is" if refusal.excluded_nodes == 1 else "are"
    lead = f"; {_count(refusal.excluded_nodes, 'node')} {are} excluded" if refusal.excluded else ""
    start, best = f"{refusal.reason}: needs ", f"; {_best(refusal)}"
    asked = _cut(_line(refusal.asked), max(_ASKED_LEAST, FIRST_LINE_LIMIT - len(start + best + lead) - 1))
    line = f"{start}{asked}{best}{lead}"
    words = [_words(item) for item in refusal.excluded]
    # With a single reason its number stands in front already.
    spoken = [words[0].removeprefix(f"{refusal.excluded_nodes} ")] if len(words) == 1 else words
    shown: list[int] = []
    full = _cut(f"{line}.", FIRST_LINE_LIMIT)
    for number in range(len(words)):
        more = [*shown, number]
        end = "." if len(more) == len(words) else ", ..."
        longer = f"{line}: {', '.join(spoken[each] for each in more)}{end}"
        if len(longer) <= FIRST_LINE_LIMIT:
            shown, full = more, longer
    return full, [word for number, word in enumerate(words) if number not in shown]


def _best(refusal: NoFit) -> str:
    """The nearest thing there is to what was asked, and what it lacks."""
    match refusal.reason:
        case Reason.VENDOR_MISMATCH:
            return f"{_nodes_it_may_use(refusal.usable_nodes)} {_join(refusal.found, 'and')} cards"
        case Reason.ACCEL_VERSION_UNMET:
            return f"{_nodes_it_may_use(refusal.usable_nodes)} {_join(refusal.found, 'or')}"
    if refusal.resource and refusal.usable_nodes:
        return _best_units(refusal)
    together = ", but not for all containers at once" if refusal.every_container_alone else ""
    shut = _is_shut(refusal)
    if best := refusal.best_node:
        node = f"the best node, {_cut(best.node, _NAME_LIMIT)}, has {_room(best)}"
        return f"{node}, but cannot take the pod" if shut else f"{node}{together}"
    if refusal.attempts:
        what = _KINDS[refusal.attempts[0].card_class]
        card = f"the best {what}, {_card(refusal.attempts[0])}, {_state(refusal.attempts[0])}"
        return f"{card}, but its node cannot take the pod" if shut else f"{card}{together}"
    if refusal.misnamed:
        return f"spec.nodeName is {_cut(refusal.node_name, _NAME_LIMIT)}, which is no node with cards"
    if refusal.node_name:
        return f"{_cut(refusal.node_name, _NAME_LIMIT)}, the node of spec.nodeName, is not left"
    return "no node with cards is left" if refusal.excluded else "no node of the cluster has a card"


def _best_units(refusal: NoFit) -> str:
    if refusal.unit is None:
        return f"no node it may use offers {refusal.resource}"
    if refusal.every_container_alone:
        return f"{unit_words(refusal.unit)}, but not for all containers at once"
    if refusal.reason is Reason.SHARING_NOT_CONFIGURED:
        return f"{unit_words(refusal.unit)} and gives whole ones only"
    return unit_words(refusal.unit) + (", but its node cannot take the pod" if _is_shut(refusal) else "")


def _room(node: NodeAttempt) -> str:
    if node.cards == 1:
        return "room on its only card" if node.fitting else "no room on its only card"
    return f"room on {node.fitting or 'none'} of its {node.cards} cards"


def _card(attempt: CardAttempt) -> str:
    _, mark, profile = attempt.model.rpartition(PARTITION_MARK)
    kind = f" ({profile})" if mark and attempt.card_class is CardClass.MIG else ""
    return f"gpu-{attempt.index}{kind} of {_cut(attempt.node, _NAME_LIMIT)}"


def _state(attempt: CardAttempt) -> str:
    if not attempt.healthy:
        return f"is unhealthy or cordoned ({attempt.budget_gb} GB)"
    if attempt.need_gb > attempt.budget_gb:
        return f"has {attempt.budget_gb} GB in all and is {attempt.need_gb - attempt.budget_gb} GB too small"
    free = f"has {attempt.free_gb} of {attempt.budget_gb} GB free"
    if attempt.whole_only and attempt.short_gb:
        return f"{free} and is only given away whole"
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
        where, unit = _cut(refusal.unit.node, _NAME_LIMIT), refusal.unit.resource
    elif refusal.attempts:
        where, unit = _card(refusal.attempts[0]), "GB"
    else:
        return ""
    holders = refusal.holders
    unborn = [amount for name, amount in holders.own if name == UNBORN]
    pods = [(name, amount) for name, amount in holders.own if name != UNBORN]
    named, unnamed = pods[:_MOST_NAMED_HOLDERS], pods[_MOST_NAMED_HOLDERS:]
    parts = [f"{amount} {unit} by {_cut(name, _NAME_LIMIT)}" for name, amount in named]
    if unborn:
        parts.append(f"{sum(unborn)} {unit} by {UNBORN if len(unborn) == 1 else f'{len(unborn)} pods being created'}")
    if unnamed:
        parts.append(f"{sum(amount for _, amount in unnamed)} {unit} by {len(unnamed)} more in this namespace")
    if holders.others:
        others = "another namespace" if holders.others == 1 else "other namespaces"
        parts.append(f"{holders.others_gb} {unit} by {_count(holders.others, 'pod')} in {others}")
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
    return f"Memory of {_cut(nearest.node, _NAME_LIMIT)}, {of.node_gb} GB: {', '.join(parts) or 'all of it free'}."


def _elsewhere(refusal: NoFit) -> str:
    """Which node would do if the pod let itself have it."""
    node = refusal.elsewhere
    if node is None:
        return ""
    bars = [
        f"does not tolerate its taint {_cut(_line(node.taint), _NAME_LIMIT)}" if node.taint else "",
        "names another node (spec.nodeName)" if node.unnamed else "",
        "does not select it (nodeSelector, node affinity)" if node.unselected else "",
    ]
    return f"Node {_cut(node.node, _NAME_LIMIT)} has room, but the pod {_join([bar for bar in bars if bar], 'and')}."


def _update(refusal: NoFit) -> str:
    """What to change where an update waits for itself."""
    of = refusal.update
    if of is None:
        return ""
    recreate = "strategy Recreate, or " if of.kind == "Deployment" else ""
    return (
        f"This is an update of {of.kind} {_cut(of.workload, _NAME_LIMIT)}, whose old pod {_cut(of.pod, _NAME_LIMIT)} "
        f"keeps the room until the new one runs: use {recreate}maxSurge 0 with maxUnavailable 1."
    )


def _undeclared(refusal: NoFit) -> str:
    """How to make cards known of which nobody tells the size."""
    if refusal.undeclared is None:
        return ""
    node = _cut(refusal.undeclared, _NAME_LIMIT)
    return f"{node} has cards of unknown size: declare it in spec.cards[].vramGB of GPUNode {node}."


def _is_shut(refusal: NoFit) -> bool:
    """Whether there are cards with room, on nodes that something else keeps the pod from."""
    if refusal.every_container_alone:
        return False
    if refusal.unit is not None:
        return refusal.unit.has_room
    if refusal.best_node:
        return refusal.best_node.fitting >= refusal.count
    return bool(refusal.attempts) and refusal.attempts[0].short_gb == 0


def _is_too_large(refusal: NoFit) -> bool:
    """Whether even the nearest card would not do if it were empty."""
    return bool(refusal.attempts) and refusal.attempts[0].too_small


def _is_whole_only(refusal: NoFit) -> bool:
    """Whether the nearest card is not shared, so that asking for less of it is no use."""
    return bool(refusal.attempts) and refusal.attempts[0].whole_only and not refusal.attempts[0].too_small


def _is_out_of_service(refusal: NoFit) -> bool:
    """Whether even the nearest card is unhealthy or cordoned."""
    return bool(refusal.attempts) and not refusal.attempts[0].healthy


def _help(refusal: NoFit) -> str:
    """Whether waiting helps, and what a person can do."""
    about_units = refusal.resource and refusal.usable_nodes and not _is_shut(refusal)
    advice = unit_advice(refusal) if about_units else _advice(refusal)
    if refusal.can_wait:
        return f"{_soon(refusal)} To be placed sooner, {advice}."
    return f"{_never(refusal)} {_sentence(advice)}"


def _soon(refusal: NoFit) -> str:
    """What a pod waits for that fits once something ends. One that nobody creates again has to be."""
    again = "it is placed by itself" if refusal.owned else "create the pod again"
    event = _event(refusal)
    return f"{again.capitalize()} as soon as {event}." if event else f"Full now: {again} as soon as there is room."


def _event(refusal: NoFit) -> str:
    """What has to happen so that the pod fits; empty where it is only that something ends."""
    too_few = refusal.best_node is not None and refusal.best_node.cards < refusal.count
    too_few = too_few or (refusal.unit is not None and refusal.unit.never)
    if refusal.reason in _ABOUT_THE_HARDWARE or not refusal.usable_nodes or _is_too_large(refusal) or too_few:
        return "an excluded node that suits it is back"
    if _is_shut(refusal):
        return "a node with room can take it"
    if _is_out_of_service(refusal):
        return "a card that would do is in service again"
    return ""


def _never(refusal: NoFit) -> str:
    """Why a pod waits in vain."""
    if refusal.every_container_alone:
        return "No node it may use can hold all its containers, so waiting does not help."
    if refusal.best_node and not _is_shut(refusal):
        return "No node it may use has that many such cards, so waiting does not help."
    if _is_too_large(refusal):
        if refusal.attempts[0].lacks_memory_most:
            return "More than its nodes have memory for, so waiting does not help."
        return "Larger than any card it may use, so waiting does not help."
    if refusal.unit is not None:
        return unit_outlook(refusal.unit)
    return "Waiting does not help."


def _advice(refusal: NoFit) -> str:
    """What a person can do."""
    waits = refusal.can_wait
    match refusal.reason:
        case Reason.VENDOR_MISMATCH:
            fix = "use an image for the cards that are there and ask for those"
            return f"{fix} ({names.VENDOR}), or add a node with the cards it needs"
        case Reason.ACCEL_VERSION_UNMET:
            return f"update a node's driver, or use an image for an older version and say so ({names.ACCEL_VERSION})"
    if not refusal.usable_nodes:
        return _advice_without_a_node(refusal)
    if _is_shut(refusal):
        return f"{'free' if waits else 'ask for less of'} what its nodes lack, or add a node"
    if refusal.every_container_alone and not waits:
        return f"ask for less ({names.VRAM}), move a container to a pod of its own, or add a larger node"
    if refusal.reason is Reason.INSUFFICIENT_GPU_COUNT:
        more = "free cards of one node" if waits else "add a node with more of them"
        less = "" if _is_whole_only(refusal) else f", for less on each ({names.VRAM})"
        return f"ask for fewer cards ({names.GPUS}){less}, or {more}"
    return _advice_on_a_card(refusal.attempts[0])


def _advice_without_a_node(refusal: NoFit) -> str:
    if not refusal.excluded:
        return "add a node with a card"
    if refusal.unsupported:
        declare = "declare the size of its cards, or " if refusal.undeclared else ""
        return f"{declare}add a node with a card that this version places"
    if refusal.unlabelled:
        return f"have a node labelled {refusal.unlabelled} (MiB), ask for whole GPUs without an amount, or add a node"
    if refusal.partitions_only:
        return f"ask for the GB of one partition ({names.VRAM}), or add a node with a card that has none"
    if refusal.misnamed:
        return "remove spec.nodeName or name a node with cards"
    if refusal.narrowed:
        return f"let the pod have other cards (annotations such as {names.NVIDIA_USE_TYPE}), or add one that suits it"
    here = "bring an excluded node back" if refusal.can_wait else "let the pod tolerate and select an excluded node"
    return f"{here}, or add a node that it may use"


def _advice_on_a_card(nearest: CardAttempt) -> str:
    if not nearest.healthy:
        return "bring that card back, or add one"
    less = f"ask for less ({names.VRAM})"
    if nearest.backing is not None and nearest.lacks_memory_most:
        own = "lower the pod's own memory request, " if nearest.backing.own_gb else ""
        more = "use" if nearest.too_small else "stop or shrink other pods of that node, or use"
        return f"{less}, {own}{'or ' if nearest.too_small else ''}{more} a node with more memory"
    if nearest.too_small and nearest.card_class is CardClass.DISCRETE:
        return f"{less}, split it over several cards ({names.GPUS}), or add a larger card"
    if nearest.too_small:
        return f"{less}, or add a larger card"
    if nearest.whole_only:
        return "stop a model that is no longer used, or add a card"
    return f"{less}, stop a model that is no longer used, or add a card"


def _nodes_it_may_use(count: int) -> str:
    return "the only node it may use has" if count == 1 else f"the {count} nodes it may use have"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _join(items: Sequence[str], word: str) -> str:
    *head, last = items
    return f"{', '.join(head)} {word} {last}" if head else last


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."


def _words(excluded: Excluded) -> str:
    return _cut(_line(excluded.words), _WORDS_LIMIT)


def _quote(value: str) -> str:
    return _cut(repr(value), _VALUE_LIMIT)


def _line(text: str) -> str:
    """A text that may hold what somebody wrote, without anything that ends a line or is no print."""
    return text if text.isprintable() else " ".join("".join(c if c.isprintable() else " " for c in text).split())


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 3].rstrip() + "..."
