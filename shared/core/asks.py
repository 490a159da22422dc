"""What each container of a pod asks: GB per card and number of cards, from annotations and resources.

A wrong value is refused and never read as zero or as a whole card.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from shared.api import names
from shared.core.amounts import WHOLE, Amount, parse_amount
from shared.core.asked_words import word_of
from shared.core.cards import Vendor
from shared.core.containers import Container, Role
from shared.core.engines import cards_on_this_pod, read_engine
from shared.core.found import (
    MOST_CARDS,
    FoundAmount,
    FoundCount,
    Source,
    annotation_field,
    limit_of,
    number_of_cards,
    the_one,
)
from shared.core.hami_words import check_hami_details, hami_amounts, hami_vendors, hami_whole_card
from shared.core.invalid import InvalidRequest
from shared.core.kai_words import KaiAsk, read_kai

MOST_ASKS = 16
"""Containers of one pod that may ask: how to share cards among more takes too long to work out."""

VENDOR_RESOURCES: Mapping[str, Vendor] = {
    names.NVIDIA_GPU: Vendor.NVIDIA,
    names.AMD_GPU: Vendor.AMD,
    **dict.fromkeys(names.INTEL_GPUS, Vendor.INTEL),
}

VendorCounts: TypeAlias = Mapping[str, Mapping[str, int]]
"""Container name to its vendor GPU resources and their counts, zeros included."""


@dataclass(frozen=True, slots=True)
class Ask:
    """`amount` GB on each of `count` distinct cards of one node, for one container.

    `init` are the amounts that ordinary init containers need on the same cards before the container starts: the request
    covers them, the engine's own limit does not. `init_containers` are all that use the cards, asking or not.
    `amount_words`, those of `init` in `init_words`, and `count_words` say what to change for another amount or number.
    `count_field` is where the number stands, empty where it stands nowhere.
    """

    container: str
    amount: Amount
    count: int
    source: Source
    field: str
    init: tuple[Amount, ...] = ()
    init_containers: tuple[str, ...] = ()
    amount_words: tuple[str, ...] = (names.VRAM,)
    count_words: tuple[str, ...] = (names.GPUS,)
    init_words: tuple[tuple[str, ...], ...] = ()
    count_field: str = ""

    def words_for(self, budget_gb: int) -> tuple[str, ...]:
        """The words of the amount that takes most of a card with such a budget."""
        amounts = zip((self.amount, *self.init), (self.amount_words, *self.init_words), strict=False)
        return max(amounts, key=lambda each: each[0].of(budget_gb))[1]

    @property
    def least_gb(self) -> int:
        """GB that it takes of any card at the least."""
        return max(amount.gb or 1 for amount in (self.amount, *self.init))


@dataclass(frozen=True, slots=True)
class _PodLevel:
    """What is asked for the pod as a whole, and the container that it is for."""

    container: str
    kai: KaiAsk | None


def vendor_counts(containers: Sequence[Container]) -> VendorCounts:
    """The vendor GPU resources of every container. Raises `InvalidRequest`."""
    return {container.name: _vendor_counts(container) for container in containers}


def read_asks(
    annotations: Mapping[str, str],
    containers: Sequence[Container],
    counts: VendorCounts,
    meant: Collection[str] = (),
) -> tuple[Ask, ...]:
    """The asks of `containers`, those of ordinary init containers included. Raises `InvalidRequest`.

    Where the ask of the pod as a whole may be for any of several, it is for the one that is `meant`.
    """
    pod_level = _pod_level(annotations, containers, counts, meant)
    found = (
        _ask(
            annotations,
            container,
            counts[container.name],
            pod_level if pod_level and container.name == pod_level.container else None,
        )
        for container in containers
    )
    asks = tuple(ask for ask in found if ask is not None)
    if len(asks) > MOST_ASKS:
        one_more = asks[MOST_ASKS]
        raise InvalidRequest(
            one_more.field,
            str(one_more.amount),
            f"is the ask of one container more than the {MOST_ASKS} that may ask in one pod",
            "spread the containers over several pods",
        )
    return asks


def _ask(
    annotations: Mapping[str, str], container: Container, vendor: Mapping[str, int], pod_level: _PodLevel | None
) -> Ask | None:
    none_wanted = bool(vendor) and not any(vendor.values())
    amounts = _amounts(annotations, container, pod_level, none_wanted=none_wanted)
    counts = _counts(annotations, container, vendor, pod_level)
    amount, count = the_one(amounts, "amounts"), the_one(counts, "counts")
    count_words = tuple(word_of(each.field) for each in counts)
    if amount is None and count is None:
        amount = hami_whole_card(container)
    check_hami_details(container, asks=amount is not None or (count is not None and count.number > 0))
    if amount is None:
        if count is None or count.number == 0:
            return None
        if count.source is not Source.VENDOR_COUNT:
            raise InvalidRequest(
                count.field,
                str(count.number),
                "says how many cards but not how much memory of each",
                f'add the annotation {names.VRAM} with the GB per card, or "whole"',
            )
        return Ask(
            container.name,
            WHOLE,
            count.number,
            count.source,
            count.field,
            count_words=count_words,
            count_field=count.field,
        )
    if count is not None and count.number == 0:
        raise InvalidRequest(
            count.field,
            "0",
            f"asks for no card beside {amount.field}, which asks for {amount.amount}",
            "remove one of the two",
        )
    number = count.number if count else _cards_without_count(container, amount)
    by_arguments = count is None and number > 1
    if by_arguments:
        count_words = (f"the arguments of {container.name} say {number}",)
    return Ask(
        container.name,
        amount.amount,
        number,
        amount.source,
        amount.field,
        amount_words=tuple(word_of(each.field) for each in amounts) or (names.VRAM,),
        count_words=count_words or (_count_word(amount),),
        count_field=count.field if count else f"containers[{container.name}].args" if by_arguments else "",
    )


def _count_word(amount: FoundAmount) -> str:
    """What would say the number of cards, in the same words as the amount."""
    match amount.source:
        case Source.KAI:
            return names.KAI_DEVICES
        case Source.HAMI:
            return names.AMD_GPU if word_of(amount.field).startswith(names.AMD_PREFIX) else names.NVIDIA_GPU
    return names.GPUS


def _cards_without_count(container: Container, amount: FoundAmount) -> int:
    """How many cards an amount without a count is for: one, if no arguments tell of more.

    `kamiwaza.ai/vram-gb` is for as many as the model server in the container spreads over. What is written for one
    container by name, and other systems' amounts, are for one card.
    """
    if amount.field not in (annotation_field(names.VRAM), container.field(names.VRAM)):
        return 1
    engine = read_engine(container)
    number = cards_on_this_pod(engine) if engine else None
    return number if number is not None and 1 <= number <= MOST_CARDS else 1


def _pod_level(
    annotations: Mapping[str, str], containers: Sequence[Container], counts: VendorCounts, meant: Collection[str]
) -> _PodLevel | None:
    """The ask of the pod as a whole, or None if there is none."""
    kai = read_kai(annotations, counts)
    lasting = [container for container in containers if container.role is not Role.INIT]
    named = _named(annotations, lasting)
    asked = [key for key in (names.VRAM, names.GPUS) if key in annotations]
    if kai is not None:
        named = _named_for_kai(annotations, containers, named)
    if not asked and kai is None:
        return None
    if named is not None:
        return _PodLevel(named, kai)
    candidates = _candidates(lasting, counts)
    candidates = [container for container in candidates if container in meant] or candidates
    if len(candidates) == 1:
        return _PodLevel(candidates[0], kai)
    key = asked[0] if asked else next(key for key in (names.KAI_MEMORY, names.KAI_FRACTION) if key in annotations)
    raise InvalidRequest(
        annotation_field(key),
        annotations[key],
        f"may be meant for any of several containers ({', '.join(candidates)})",
        f"add the annotation {names.CONTAINER}, or write {names.VRAM_OF_CONTAINER_PREFIX}<container>"
        if asked
        else f"add the annotation {names.KAI_CONTAINER}",
    )


def _candidates(lasting: Sequence[Container], counts: VendorCounts) -> list[str]:
    """The containers that an ask of the pod as a whole may be meant for.

    Those that name a GPU, else the apps; if that leaves several, those of them that run a model server we know.
    Sidecars come last: the helpers that meshes and agents add do not make it unclear which container serves.
    """
    with_gpu = [
        container for container in lasting if any(counts[container.name].values()) or any(hami_vendors(container))
    ]
    candidates = with_gpu or [container for container in lasting if container.role is Role.APP]
    if len(candidates) > 1:
        candidates = [container for container in candidates if read_engine(container)] or candidates
    return [container.name for container in candidates]


def _named(annotations: Mapping[str, str], lasting: Sequence[Container]) -> str | None:
    named = annotations.get(names.CONTAINER)
    if named is not None and named not in {container.name for container in lasting}:
        raise InvalidRequest(
            annotation_field(names.CONTAINER),
            named,
            "is no container of this pod that keeps running",
            f"write one of: {', '.join(container.name for container in lasting)}",
        )
    return named


def _named_for_kai(annotations: Mapping[str, str], containers: Sequence[Container], ours: str | None) -> str | None:
    """The container that KAI's words name, which may be an init container, else the one that ours name."""
    named = annotations.get(names.KAI_CONTAINER)
    if named is None:
        return ours
    known = [container.name for container in containers]
    if named not in known:
        raise InvalidRequest(
            annotation_field(names.KAI_CONTAINER),
            named,
            "is no container of this pod",
            f"write one of: {', '.join(known)}",
        )
    if ours not in (None, named):
        raise InvalidRequest(
            annotation_field(names.KAI_CONTAINER),
            named,
            f"contradicts {annotation_field(names.CONTAINER)}, which is {ours!r}",
            "keep one of the two",
        )
    return named


def _amounts(
    annotations: Mapping[str, str], container: Container, pod_level: _PodLevel | None, *, none_wanted: bool
) -> list[FoundAmount]:
    """Every amount that is written for a container, ours first."""
    found: list[FoundAmount] = []
    for key in (names.VRAM_OF_CONTAINER_PREFIX + container.name, *((names.VRAM,) if pod_level else ())):
        if key in annotations:
            field, text = annotation_field(key), annotations[key]
            found.append(FoundAmount(field, text, parse_amount(text, field, annotation=True), Source.ANNOTATION))
    resource = limit_of(container, names.VRAM)
    if resource is not None:
        field = container.field(names.VRAM)
        found.append(FoundAmount(field, resource, parse_amount(resource, field, annotation=False), Source.RESOURCE))
    found += hami_amounts(container, none_wanted=none_wanted)
    if pod_level and pod_level.kai:
        found.append(pod_level.kai.amount)
    return found


def _counts(
    annotations: Mapping[str, str], container: Container, vendor: Mapping[str, int], pod_level: _PodLevel | None
) -> list[FoundCount]:
    """Every number of cards that is written for a container, ours first."""
    found: list[FoundCount] = []
    if pod_level and names.GPUS in annotations:
        field = annotation_field(names.GPUS)
        found.append(FoundCount(field, number_of_cards(annotations[names.GPUS], field), Source.ANNOTATION))
    resource = limit_of(container, names.GPUS)
    if resource is not None:
        field = container.field(names.GPUS)
        found.append(FoundCount(field, number_of_cards(resource, field), Source.RESOURCE))
    if pod_level and pod_level.kai and pod_level.kai.count:
        found.append(pod_level.kai.count)
    # A zero for one vendor's cards takes nothing away from the cards of another.
    wanted = {name: number for name, number in vendor.items() if number} or vendor
    return found + [FoundCount(container.field(name), number, Source.VENDOR_COUNT) for name, number in wanted.items()]


def _vendor_counts(container: Container) -> dict[str, int]:
    texts = {resource: limit_of(container, resource) for resource in VENDOR_RESOURCES}
    return {
        resource: number_of_cards(text, container.field(resource), least=0)
        for resource, text in texts.items()
        if text is not None
    }
