"""What a refusal says at its end: whether waiting helps, and what a person can do."""

from __future__ import annotations

from collections.abc import Mapping

from shared.api import names
from shared.core.asked_words import EXCLUSIVE_POLICY, named
from shared.core.filters import Exclusion
from shared.core.refusal import NoFit, Reason, Victims
from shared.core.unit_words import unit_advice, unit_outlook
from shared.core.wording import NAME_LIMIT, counted, cut, join, one_line, sentence

_MOST_NAMED_VICTIMS = 3
_OF_RULES: Mapping[str, str] = {
    Exclusion.POD_AFFINITY: "change its pod affinity",
    Exclusion.POD_ANTI_AFFINITY: "change its pod anti-affinity",
    Exclusion.TOPOLOGY_SPREAD: "change its topology spread",
    Exclusion.EXISTING_ANTI_AFFINITY: "stop the pods whose anti-affinity keeps it away",
}
_ABOUT_THE_HARDWARE = frozenset({Reason.VENDOR_MISMATCH, Reason.ACCEL_VERSION_UNMET})


def is_shut(refusal: NoFit) -> bool:
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
    return bool(refusal.attempts) and refusal.attempts[0].is_whole and not refusal.attempts[0].too_small


def _is_out_of_service(refusal: NoFit) -> bool:
    """Whether even the nearest card is unhealthy or cordoned."""
    return bool(refusal.attempts) and not refusal.attempts[0].healthy


def advise(refusal: NoFit) -> str:
    """Whether waiting helps, and what a person can do."""
    about_units = refusal.resource and refusal.usable_nodes and not is_shut(refusal)
    advice = unit_advice(refusal) if about_units else _advice(refusal)
    if refusal.can_wait:
        return f"{_soon(refusal)} To be placed sooner, {advice}."
    return f"{_never(refusal)} {sentence(advice)}"


def _soon(refusal: NoFit) -> str:
    """What a pod waits for that fits once something ends. One that nobody creates again has to be, and of custom kinds
    nobody knows when they do.
    """
    again = "it is placed by itself" if refusal.owned else "create the pod again"
    if refusal.creator:
        again = f"{cut(one_line(refusal.creator), NAME_LIMIT)} has to create it again"
    event = _event(refusal)
    if not event:
        return f"Full now: {again} as soon as there is room."
    return f"{again[0].upper()}{again[1:]} as soon as {event}."


def _event(refusal: NoFit) -> str:
    """What has to happen so that the pod fits; empty where it is only that something ends."""
    unit = refusal.unit
    if unit is not None and unit.away and not unit.never:
        return f"the device plugin of {cut(unit.node, NAME_LIMIT)} offers {unit.resource} again"
    too_few = refusal.best_node is not None and refusal.best_node.cards < refusal.count
    too_few = too_few or (unit is not None and unit.never)
    if refusal.reason in _ABOUT_THE_HARDWARE or not refusal.usable_nodes or _is_too_large(refusal) or too_few:
        return "an excluded node that suits it is back"
    if is_shut(refusal):
        return "a node with room can take it"
    if _is_out_of_service(refusal):
        return "a card that would do is in service again"
    return ""


def _never(refusal: NoFit) -> str:
    """Why a pod waits in vain."""
    if refusal.every_container_alone:
        return "No node it may use can hold all its containers, so waiting does not help."
    if refusal.best_node and not is_shut(refusal) and (refusal.best_node.fitting or not _is_too_large(refusal)):
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
            return f"{fix} ({named(refusal.words.vendor)}), or add a node with the cards it needs"
        case Reason.ACCEL_VERSION_UNMET:
            if refusal.versionless:
                return _advice_on_a_version(refusal.versionless)
            say = f"say so ({named(refusal.words.version)})"
            return f"update a node's driver, or use an image for an older version and {say}"
    if not refusal.usable_nodes:
        return _advice_without_a_node(refusal)
    if is_shut(refusal):
        lack = f"{'free' if waits else 'ask for less of'} what its nodes lack"
        rules = [_OF_RULES[rule] for rule in refusal.ruled_out]
        return f"{', '.join([lack, *rules] if refusal.lacking or not rules else rules)}, or add a node"
    if refusal.every_container_alone and not waits and refusal.attempts and refusal.attempts[0].could_share:
        return f"do without {EXCLUSIVE_POLICY}, move a container to a pod of its own, or add a larger node"
    if refusal.every_container_alone and not waits:
        return (
            f"ask for less ({named(refusal.words.amount)}), move a container to a pod of its own, or add a larger node"
        )
    if refusal.reason is Reason.INSUFFICIENT_GPU_COUNT:
        return _advice_on_several_cards(refusal)
    return _advice_on_a_card(refusal)


def _advice_on_a_version(runtime: str) -> str:
    label = f"the label {names.GFD_CUDA_VERSION} or " if runtime == "CUDA" else ""
    return f"let a node tell its {runtime} version ({label}status.accelVersions of its GPUNode)"


def _advice_on_several_cards(refusal: NoFit) -> str:
    best = refusal.best_node
    more = "free cards of one node" if refusal.can_wait else "add a node with more of them"
    fewer = f"ask for fewer cards ({named(refusal.words.count)})"
    less = f"for less on each ({named(refusal.words.amount)})"
    if best is not None and best.out and best.fitting and best.fitting + best.out >= refusal.count:
        back = "bring that card back" if best.out == 1 else "bring those cards back"
        return f"{back}, {fewer}, or add a node with enough of them"
    if best is None or best.fitting:
        if best is not None and best.cards >= refusal.count and refusal.attempts and refusal.attempts[0].could_share:
            return f"do without {EXCLUSIVE_POLICY}, {fewer}, or {more}"
        return f"{fewer}, or {more}" if _is_whole_only(refusal) else f"{fewer}, {less}, or {more}"
    # No card has room: fewer of them would have none either.
    nearest = refusal.attempts[0]
    if not nearest.healthy:
        return "bring those cards back, or add a node with more of them"
    if nearest.too_small:
        larger = "more memory" if nearest.lacks_memory_most else "larger cards"
        return f"ask {less}, or add a node with {larger}"
    if nearest.could_share and best.cards >= refusal.count:
        return f"do without {EXCLUSIVE_POLICY}, or {more}"
    if nearest.is_whole:
        return more
    return f"{fewer} and {less}, or {more}" if best.cards < refusal.count else f"ask {less}, or {more}"


def _advice_without_a_node(refusal: NoFit) -> str:
    if not refusal.excluded:
        return "add a node with a card"
    if refusal.unsupported:
        declare = "declare the size of its cards, or " if refusal.undeclared else ""
        return f"{declare}add a node with a card that this version places"
    if refusal.unlabelled:
        return f"have a node labelled {refusal.unlabelled} (MiB), ask for whole GPUs without an amount, or add a node"
    if refusal.partitions_only:
        amount = named(refusal.words.amount)
        if refusal.count > 1:
            one = f"one card ({named(refusal.words.count)}) with the GB of one partition ({amount})"
            return f"ask for {one}, since partitions are never joined, or add a node with cards that have none"
        return f"ask for the GB of one partition ({amount}), or add a node with a card that has none"
    if refusal.misnamed:
        return "remove spec.nodeName or name a node with cards"
    if refusal.narrowed:
        return f"let the pod have other cards ({named(refusal.words.choice)}), or add one that suits it"
    here = "bring an excluded node back" if refusal.can_wait else "let the pod tolerate and select an excluded node"
    return f"{here}, or add a node that it may use"


def _advice_on_a_card(refusal: NoFit) -> str:
    nearest = refusal.attempts[0]
    if not nearest.healthy:
        return "bring that card back, or add one"
    if nearest.could_share:
        return f"do without {EXCLUSIVE_POLICY}, stop a model that is no longer used, or add a card"
    less = f"ask for less ({named(refusal.words.amount)})"
    if nearest.backing is not None and nearest.lacks_memory_most:
        own = "lower the pod's own memory request, " if nearest.backing.own_gb else ""
        more = "use" if nearest.too_small else "stop or shrink other pods of that node, or use"
        return f"{less}, {own}{'or ' if nearest.too_small else ''}{more} a node with more memory"
    if nearest.too_small and refusal.divisible:
        return f"{less}, split it over several cards ({named(refusal.words.count)}), or add a larger card"
    if nearest.too_small:
        return f"{less}, or add a larger card"
    if nearest.is_whole:
        return "stop a model that is no longer used, or add a card"
    return f"{less}, stop a model that is no longer used, or add a card"


def elsewhere_words(refusal: NoFit) -> str:
    """Which node would do if the pod let itself have it."""
    node = refusal.elsewhere
    if node is None:
        return ""
    bars = [
        f"does not tolerate its taint {cut(one_line(node.taint), NAME_LIMIT)}" if node.taint else "",
        "names another node (spec.nodeName)" if node.unnamed else "",
        "does not select it (nodeSelector, node affinity)" if node.unselected else "",
    ]
    return f"Node {cut(node.node, NAME_LIMIT)} has room, but the pod {join([bar for bar in bars if bar], 'and')}."


def update_words(refusal: NoFit) -> str:
    """What to change where an update waits for itself."""
    of = refusal.update
    if of is None:
        return ""
    recreate = "strategy Recreate, or " if of.kind == "Deployment" else ""
    return (
        f"This is an update of {of.kind} {cut(of.workload, NAME_LIMIT)}, whose old pod {cut(of.pod, NAME_LIMIT)} "
        f"keeps the room until the new one runs: use {recreate}maxSurge 0 with maxUnavailable 1."
    )


def undeclared_words(refusal: NoFit) -> str:
    """How to make cards known of which nobody tells the size."""
    if refusal.undeclared is None:
        return ""
    node = cut(refusal.undeclared, NAME_LIMIT)
    return f"{node} has cards of unknown size: declare it in spec.cards[].vramGB of GPUNode {node}."


def victims_words(victims: Victims) -> str:
    """Which pods, and where they are: `chat, embed and 2 pods in other namespaces (24 GB of gpu-0 of t4)`."""
    named, unnamed = victims.own[:_MOST_NAMED_VICTIMS], len(victims.own) - _MOST_NAMED_VICTIMS
    who = [cut(name, NAME_LIMIT) for name in named]
    if unnamed > 0:
        who.append(f"{unnamed} more in this namespace")
    if victims.others:
        namespaces = "another namespace" if victims.others == 1 else "other namespaces"
        who.append(f"{counted(victims.others, 'pod')} in {namespaces}")
    cards = [f"gpu-{index}" for index in victims.cards]
    where = f"{victims.gb} GB of {join(cards, 'and')} of" if cards else "on"
    return f"{join(who, 'and')} ({where} {cut(victims.node, NAME_LIMIT)})"


def preemption_words(refusal: NoFit) -> str:
    """Whose place the pod would have if pods might take that of others."""
    if refusal.victims is None:
        return ""
    what = "With the chart value placement.preemption=enabled it takes their place."
    return f"Pods of lower priority hold enough: {victims_words(refusal.victims)}. {what}"
