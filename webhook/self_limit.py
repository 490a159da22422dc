"""Tells a model server to keep to its share of a card, and its owner where the server cannot be told.

A share is enforced by the server's own memory setting: on a card that several share, nothing else holds it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from shared.api import names
from shared.core.asks import VENDOR_RESOURCES
from shared.core.card_choice import Share
from shared.core.containers import Container
from shared.core.engines import Engine, read_engine
from shared.core.engines.card_count import cards_on_this_pod
from shared.core.engines.limits import RULES, SelfLimit, keep_to_share
from shared.core.snapshot import NodeState
from shared.core.unit_choice import UnitShare
from shared.core.units import vendor_of
from webhook.container_edits import place_of
from webhook.devices import selects_within
from webhook.patch import PodPatch
from webhook.placed_record import Change


@dataclass(frozen=True, slots=True)
class ServerAdvice:
    """What follows from the cards of a container: a flag to append to its `args`, and warnings for the pod's owner."""

    limit: SelfLimit | None = None
    warnings: tuple[str, ...] = ()


def advise_server(container: Container, shares: Sequence[Share]) -> ServerAdvice:
    """What the model server in `container`, if we know it, is to be told about `shares`, the cards it gets."""
    engine = read_engine(container)
    if engine is None:
        return ServerAdvice()
    advice = keep_to_share(
        engine,
        container.name,
        share_gb=min(share.own_gb for share in shares),
        card_mib=max(share.card.memory_mib for share in shares),
        cards=len(shares),
    )
    return ServerAdvice(advice.limit, (*_about_cards(engine, container, shares), *advice.warnings))


def advise_server_on_units(container: Container, share: UnitShare, state: NodeState) -> ServerAdvice:
    """The same about `share`, the units that it gets of `state`: of those only replicas of a card need a limit.

    Neither time-slicing nor MPS with its defaults keeps a program from the memory of the whole card.
    """
    engine = read_engine(container)
    kind = next((kind for kind in state.kinds if kind.resource == share.resource), None)
    if engine is None:
        return ServerAdvice()
    needed = cards_on_this_pod(engine) or 1
    # Fewer than it gets may be meant: of slices and replicas each may be for a process of its own.
    warnings = [_other_count(container, needed, share.count)] if needed > share.count else []
    if kind is None or kind.per_card == 1:
        return ServerAdvice(warnings=tuple(warnings))
    if not kind.gb:
        if engine.memory_fraction is None:
            warnings.append(_unknown_part(engine, container.name, share))
        return ServerAdvice(warnings=tuple(warnings))
    vendor = vendor_of(kind.resource)
    card_mib = max((card.memory_mib for card in state.inventory.cards if card.vendor is vendor), default=0)
    advice = keep_to_share(engine, container.name, share_gb=kind.gb, card_mib=card_mib, cards=share.count)
    return ServerAdvice(advice.limit, (*warnings, *advice.warnings))


def _unknown_part(engine: Engine, container: str, share: UnitShare) -> str:
    return (
        f"container {container}: {share.resource} is a part of a card here, of a size that nothing tells, and "
        f"{engine.name.label} may take all of the card; set {RULES[engine.name].setting} so that it keeps to its part"
    )


def tell_server(
    patch: PodPatch, container: Container, advice: ServerAdvice, changed: list[Change], warnings: list[str]
) -> None:
    """Puts the flag of `advice` behind the server's own arguments, since the last of equal flags counts; notes what it
    changed and what the pod's creator is warned of.
    """
    warnings += advice.warnings
    if advice.limit is None:
        return
    kind, position = place_of(patch, container.name)
    was = patch.get("spec", kind, position, "args")
    changed.append(Change((kind, container.name, "args"), was))
    patch.set([*(was or ()), advice.limit.flag, advice.limit.value], "spec", kind, position, "args")


def _about_cards(engine: Engine, container: Container, shares: Sequence[Share]) -> Sequence[str]:
    """Warnings where the command line itself speaks of other cards than the container gets."""
    cards = [share.card for share in shares]
    warnings = [
        f"container {container.name}: its command line sets {variable} to {value!r}, which cannot be changed from "
        f"outside; the container sees {len(cards)} card(s), numbered from 0"
        for variable, value in engine.devices
        if not selects_within(value, cards)
    ]
    needed = cards_on_this_pod(engine)
    if needed is not None and needed != len(cards):
        warnings.append(_other_count(container, needed, len(cards)))
    return warnings


def _other_count(container: Container, needed: int, got: int) -> str:
    may_fail = "and may not start" if needed > got else f"and may leave {got - needed} of them unused"
    # Beside a vendor's own count, any other would contradict.
    word = next((resource for resource in VENDOR_RESOURCES if resource in container.limits), names.GPUS)
    return (
        f"container {container.name}: its arguments spread it over {needed} card(s), but it gets {got} {may_fail}: set "
        f"{word} to {needed} or change its arguments"
    )
