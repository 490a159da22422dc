"""Ordinary init containers: they run before the container that serves, so they use its cards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from shared.core.asks import Ask
from shared.core.containers import Container, Role
from shared.core.invalid import InvalidRequest


def fold_init_containers(
    asks: Sequence[Ask], containers: Sequence[Container], may_carry: Sequence[str]
) -> tuple[Ask, ...]:
    """Moves what ordinary init containers ask onto the serving container with the most cards.

    A request of their own would make the kubelet end the running pod when it restarts while the device plugin is away.
    An init container that asks for nothing and sets the variable which shows it devices is given the same cards to see.
    Where only init containers ask, the one container of `may_carry` carries what they need. Raises `InvalidRequest`
    where they cannot use those cards.
    """
    ordinary = [container for container in containers if container.role is Role.INIT]
    names = {container.name for container in ordinary}
    init = [ask for ask in asks if ask.container in names]
    lasting = [ask for ask in asks if ask.container not in names]
    if not lasting:
        lasting = [_standing_in(init, may_carry)]
    # A sidecar runs beside the init containers and holds its memory then, an app container does not yet.
    apps = {container.name for container in containers if container.role is Role.APP}
    carrier = max(lasting, key=lambda ask: (ask.count, ask.container in apps))
    for ask in init:
        if ask.count > carrier.count:
            raise InvalidRequest(
                ask.count_field or ask.field,
                str(ask.count),
                f"is more cards than container {carrier.container} has, which init container {ask.container} uses",
                f"ask for at most {carrier.count}",
            )
    asking = {ask.container for ask in init}
    folded = replace(
        carrier,
        init=tuple(ask.amount for ask in init),
        init_words=tuple(ask.amount_words for ask in init),
        init_containers=tuple(
            container.name
            for container in ordinary
            if container.name in asking or container.visible_devices is not None
        ),
    )
    return tuple(folded if ask is carrier else ask for ask in lasting)


def _standing_in(init: Sequence[Ask], may_carry: Sequence[str]) -> Ask:
    """The ask of the container that carries what only init containers need: as many cards, as much as the first."""
    first = init[0]
    if len(may_carry) != 1:
        raise InvalidRequest(
            first.field,
            str(first.amount),
            f"is asked for init container {first.container} only",
            "ask for the container that serves too, whose cards it then uses",
        )
    most = max(init, key=lambda ask: ask.count)
    return replace(
        first, container=may_carry[0], count=most.count, count_words=most.count_words, count_field=most.count_field
    )
