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
from shared.core.engines.limits import SelfLimit, keep_to_share
from webhook.devices import selects_within


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
        got = len(cards)
        may_fail = "and may not start" if needed > got else f"and may leave {got - needed} of them unused"
        warnings.append(
            f"container {container.name}: its arguments spread it over {needed} card(s), but it gets {got} {may_fail}: "
            f"set {_count_word(container)} to {needed} or change its arguments"
        )
    return warnings


def _count_word(container: Container) -> str:
    """Where the number of cards of a container is written: beside a vendor's own count, any other would contradict."""
    return next((resource for resource in VENDOR_RESOURCES if resource in container.limits), names.GPUS)
