"""Which cards a pod wants, or does not want, by model and by UUID: HAMi's `use-gputype` and its siblings.

A type is matched as whole words of the model's name: `A10` is `NVIDIA A10` and not `NVIDIA A100-SXM4-80GB`, of which
`A100` and `a100-sxm4` are types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from shared.api import names
from shared.core.cards import Card, Vendor
from shared.core.found import annotation_field

_MOST_NAMED = 3
_MANY_MODELS = 1024
_WORD = re.compile(r"[a-z0-9]+")
_MAKERS = frozenset(vendor.value for vendor in Vendor)
_KEYS: Mapping[Vendor, tuple[str, str, str, str]] = {
    Vendor.NVIDIA: (
        names.NVIDIA_USE_TYPE,
        names.NVIDIA_NO_USE_TYPE,
        names.NVIDIA_USE_UUID,
        names.NVIDIA_NO_USE_UUID,
    ),
    Vendor.AMD: (names.AMD_USE_TYPE, names.AMD_NO_USE_TYPE, names.AMD_USE_UUID, names.AMD_NO_USE_UUID),
}


@dataclass(frozen=True, slots=True)
class CardFilter:
    """A card passes if it is of one of `types` and `uuids`, where these say anything, and of none of the `no_` ones.
    All are as written.
    """

    types: tuple[str, ...] = ()
    no_types: tuple[str, ...] = ()
    uuids: tuple[str, ...] = ()
    no_uuids: tuple[str, ...] = ()

    @property
    def tells_uuids(self) -> bool:
        """Whether it tells apart cards of one model."""
        return bool(self.uuids or self.no_uuids)

    def admits(self, card: Card) -> bool:
        """Whether a pod with this filter may have `card`."""
        uuid = card.uuid.lower()
        return (
            (not self.types or _is_one_of(card.model, self.types))
            and not _is_one_of(card.model, self.no_types)
            and (not self.uuids or uuid in _lower(self.uuids))
            and uuid not in _lower(self.no_uuids)
        )

    def __str__(self) -> str:
        parts = [
            f"of type {_list(self.types)}" if self.types else "",
            f"not of type {_list(self.no_types)}" if self.no_types else "",
            f"with UUID {_list(self.uuids)}" if self.uuids else "",
            f"without UUID {_list(self.no_uuids)}" if self.no_uuids else "",
        ]
        return " and ".join(filter(None, parts))


def read_card_filters(annotations: Mapping[str, str]) -> dict[Vendor, CardFilter]:
    """The filters of a pod by the vendor whose cards each is about. Lists are separated by commas."""
    filters: dict[Vendor, CardFilter] = {}
    for vendor, (types, no_types, uuids, no_uuids) in _KEYS.items():
        made = CardFilter(
            _items(annotations.get(types, "")),
            _items(annotations.get(no_types, "")),
            _items(annotations.get(uuids, "")),
            _items(annotations.get(no_uuids, "")),
        )
        if made != CardFilter():
            filters[vendor] = made
    return filters


def filter_keys(annotations: Mapping[str, str], vendor: Vendor) -> tuple[str, ...]:
    """The annotations by which a pod chooses among the cards of a vendor."""
    return tuple(key for key in _KEYS.get(vendor, ()) if _items(annotations.get(key, "")))


def filter_words(annotations: Mapping[str, str]) -> Iterator[tuple[str, str, Vendor]]:
    """Whose cards the filters of a pod are about, with field and text."""
    for vendor in _KEYS:
        for key in filter_keys(annotations, vendor):
            yield annotation_field(key), annotations[key], vendor


def _items(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (item.strip() for item in text.split(","))))


@lru_cache(maxsize=_MANY_MODELS)
def _lower(uuids: Sequence[str]) -> frozenset[str]:
    """UUIDs as they are compared: tools write them with capital letters or without."""
    return frozenset(uuid.lower() for uuid in uuids)


def _is_one_of(model: str, types: Sequence[str]) -> bool:
    """Whether the words of some type stand in a row in the model's name."""
    return any(_words(kind) in _words(model) for kind in types)


@lru_cache(maxsize=_MANY_MODELS)
def _words(name: str) -> str:
    """The words of a model or type, each between blanks, without the maker's name, which not every tool puts in
    front. The maker's name alone is part of every name.
    """
    words = [word for word in _WORD.findall(name.lower()) if word not in _MAKERS]
    return f" {' '.join(words)} " if words else ""


def _list(items: Sequence[str]) -> str:
    *head, last = items if len(items) <= _MOST_NAMED else (*items[:_MOST_NAMED], f"{len(items) - _MOST_NAMED} more")
    return f"{', '.join(head)} or {last}" if head else last
