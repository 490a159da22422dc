"""How a refusal speaks of units of a vendor's resource: GPUs, replicas of GPUs and MIG slices."""

from __future__ import annotations

from shared.api import names
from shared.core.asked_words import EXCLUSIVE_POLICY, named
from shared.core.refusal import NoFit, Reason, UnitAttempt
from shared.core.units import is_partition
from shared.core.wording import NAME_LIMIT, cut


def unit_words(unit: UnitAttempt) -> str:
    """The nearest offer of a resource and what it lacks, within a sentence."""
    node = cut(unit.node, NAME_LIMIT)
    size = f" of {unit.gb} GB" if unit.gb is not None else ""
    if not unit.total and not (unit.too_small or unit.parts):
        return f"{node} advertises no {unit.resource} now"
    if unit.too_small:
        return f"the largest {unit.resource}, on {node}, has {unit.gb} GB and is {unit.need_gb_missing} GB too small"
    if unit.server_cards > 1:
        return f"{unit.resource} of {node} is a part of a card, and its server spreads over {unit.server_cards} cards"
    if unit.exclusive:
        return f"{unit.resource} of {node} is a part of a card, and a card of its own is asked ({EXCLUSIVE_POLICY})"
    if unit.parts:
        return f"{unit.resource} of {node} is a part of a card, and two of them may lie on one card"
    return f"the best node, {node}, has {unit.free} of {unit.total} {unit.resource}{size} free"


def unit_cause(unit: UnitAttempt) -> str:
    """The same as one word for programs."""
    if not unit.total and not (unit.too_small or unit.parts):
        return "UnitsNotOffered"
    if unit.too_small:
        return "UnitTooSmall"
    if unit.parts:
        return "UnitsShareCards"
    return "UnitsFree" if unit.has_room else "UnitsTaken"


def unit_outlook(unit: UnitAttempt) -> str:
    """Why a pod waits in vain for units."""
    if unit.too_small:
        return "Larger than any unit it may use, so waiting does not help."
    if unit.server_cards > 1:
        return "No server can spread over parts of cards, so waiting does not help."
    if unit.parts:
        return "Parts of cards do not become cards, so waiting does not help."
    if unit.need > unit.total:
        return f"No node it may use has that many {unit.resource}, so waiting does not help."
    return "Waiting does not help."


def unit_advice(refusal: NoFit) -> str:
    """What a person can do."""
    resource, unit = refusal.resource, refusal.unit
    if refusal.reason is Reason.SHARING_NOT_CONFIGURED:
        return (
            "ask the admin to share the GPUs (time-slicing or MPS in the device plugin's configuration), "
            "or stop a model that holds a whole one"
        )
    if unit is None:
        return f"ask for a resource that a node offers, or configure a node's device plugin to offer {resource}"
    if unit.server_cards > 1:
        one = "one slice" if is_partition(resource) else "one replica"
        return f"run it on {one}, with its parallel sizes at 1, or ask for whole cards ({names.NVIDIA_GPU}) instead"
    if unit.exclusive:
        return f"do without {EXCLUSIVE_POLICY}, or add a node that gives whole GPUs away"
    if unit.parts and refusal.count == 1:
        return (
            f"ask for the GB of one of them ({named(refusal.words.amount)}), or add a node that gives whole GPUs away"
        )
    if unit.parts:
        one = "one of them to a container" if resource in refusal.words.count else "one card"
        return f"ask for {one} ({named(refusal.words.count)}), or add a node that gives whole GPUs away"
    if unit.too_small:
        return f"ask for less ({named(refusal.words.amount)}), or add a node with larger GPUs or fewer replicas of each"
    if unit.away:
        return f"look at the device plugin of {cut(unit.node, NAME_LIMIT)}, or add a node that offers {resource}"
    if refusal.count > 1:
        return f"ask for fewer of them ({named(refusal.words.count)}), or add a node with more"
    what = "a slice" if is_partition(resource) else "a GPU"
    return f"stop a model that is no longer used, or add {what}"
