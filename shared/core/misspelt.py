"""Keys that look like ours and are not: a near miss is refused, since ignoring it would ignore the ask.

So are near misses of HAMi's and KAI's words: beside a number of cards they would turn a share into whole cards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from shared.api import names
from shared.core.containers import Container
from shared.core.found import annotation_field
from shared.core.invalid import InvalidRequest

_ASK_RESOURCES = frozenset({names.VRAM, names.GPUS})
_MEMORY = frozenset({names.VRAM})
_ALSO_MEANT = {
    "gpumem": {"gpumemory", "gpumemmib", "gpumemmb", "gpumem"},
    "gpumemory": {"gpumem", "gpumemorymib", "gpumemorymb"},
    "gpumempercentage": {"gpumempercent", "gpumemorypercentage", "gpumemorypercent"},
}
"""Further slips of a word, all written without separators."""

_LONG = 10
"""Letters of a word that has room for two slips."""

_SEPARATORS = str.maketrans("", "", "-_.")
_FOREIGN_RESOURCES = {
    names.NVIDIA_PREFIX: frozenset({names.NVIDIA_GPUMEM, names.NVIDIA_GPUMEM_PERCENTAGE, names.NVIDIA_GPUCORES}),
    names.AMD_PREFIX: frozenset({names.AMD_GPUMEM, names.AMD_GPUCORES}),
}
_FOREIGN_ANNOTATIONS = {
    names.NVIDIA_PREFIX: frozenset(key for key in names.HAMI_ANNOTATIONS if key.startswith(names.NVIDIA_PREFIX)),
    names.AMD_PREFIX: frozenset(key for key in names.HAMI_ANNOTATIONS if key.startswith(names.AMD_PREFIX)),
    "": names.KAI_ANNOTATIONS,
}


def refuse_misspelt(annotations: Mapping[str, str], labels: Mapping[str, str], containers: Sequence[Container]) -> None:
    """Raises `InvalidRequest` for a key that is nearly one of ours, stands in the wrong place or names no container."""
    known_containers = [container.name for container in containers]
    for key, value in annotations.items():
        _check_annotation(key, value, known_containers)
    for key, value in labels.items():
        if key in names.ASK_ANNOTATIONS or _near(key, _MEMORY):
            raise InvalidRequest(
                f"metadata.labels[{key}]",
                value,
                "stands in a label, where no ask is read",
                f"write the pod annotation {key if key in names.ASK_ANNOTATIONS else names.VRAM}",
            )
    for container in containers:
        for kind, amounts in (("limits", container.limits), ("requests", container.requests)):
            for resource, amount in amounts.items():
                _check_resource(container.field(resource, kind), resource, amount)


def _check_annotation(key: str, value: str, containers: Sequence[str]) -> None:
    if not key.startswith(names.PREFIX):
        if key in names.HAMI_RESOURCES:
            raise InvalidRequest(
                annotation_field(key), value, "stands in an annotation, where nobody reads it", "write it in the limits"
            )
        if meant := _near_foreign(key, _FOREIGN_ANNOTATIONS):
            raise InvalidRequest(annotation_field(key), value, "stands under a key that nobody reads", f"write {meant}")
        return
    if key in names.ASK_ANNOTATIONS or key in {names.PLACED, names.WARNINGS, names.RESERVATION}:
        return
    field = annotation_field(key)
    if key.startswith(names.VRAM_OF_CONTAINER_PREFIX):
        if key.removeprefix(names.VRAM_OF_CONTAINER_PREFIX) not in containers:
            raise InvalidRequest(
                field,
                value,
                "is for a container that the pod does not have",
                f"its containers are {', '.join(containers)}",
            )
        return
    if meant := _near(key, names.ASK_ANNOTATIONS):
        raise InvalidRequest(field, value, "stands under a key that nobody reads", f"write {meant}")


def _check_resource(field: str, resource: str, amount: str) -> None:
    if not resource.startswith(names.PREFIX):
        if meant := _near_foreign(resource, _FOREIGN_RESOURCES):
            raise InvalidRequest(field, amount, "is of a resource that nobody offers", f"write {meant}")
        return
    if resource in _ASK_RESOURCES or names.card_index(resource) is not None:
        return
    if meant := _near(resource, _ASK_RESOURCES):
        raise InvalidRequest(field, amount, "is of a resource that nobody offers", f"write {meant}")


def _near(key: str, known: frozenset[str]) -> str | None:
    """The key among `known` that `key` is a slip of, or None. Other software owns every other `kamiwaza.ai/` key."""
    if not key.startswith(names.PREFIX):
        return None
    word = _plain(key)
    if word.startswith("vram"):
        return names.VRAM
    for ours in sorted(known):
        target = _plain(ours)
        slips = 1 if len(target) <= 6 else 2
        if word[:1] == target[:1] and _distance(word, target) <= slips:
            return ours
    return None


def _near_foreign(key: str, families: Mapping[str, frozenset[str]]) -> str | None:
    """The word of HAMi or KAI that `key` is a slip of, or None. Everything else is of somebody else, and left alone."""
    domain, slash, word = key.rpartition("/")
    known = families.get(domain + slash, frozenset())
    if key in known:
        return None
    bare = _bare(word)
    for theirs in sorted(known, key=lambda each: _distance(bare, _last_word(each))):
        target = _last_word(theirs)
        slips = 1 if len(target) < _LONG else 2
        if _distance(bare, target) <= slips or bare.removeprefix("v") in _ALSO_MEANT.get(target, ()):
            return theirs
    return None


def _last_word(key: str) -> str:
    return _bare(key.rpartition("/")[2])


def _bare(word: str) -> str:
    return word.lower().translate(_SEPARATORS)


def _plain(key: str) -> str:
    return key.removeprefix(names.PREFIX).lower().replace("_", "-").replace(".", "-")


def _distance(a: str, b: str) -> int:
    """Levenshtein distance: single insertions, deletions and substitutions between two short words."""
    if abs(len(a) - len(b)) > 2:
        return 3
    row = list(range(len(b) + 1))
    for i, left in enumerate(a, 1):
        previous, row[0] = row[0], i
        for j, right in enumerate(b, 1):
            previous, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, previous + (left != right))
    return row[-1]
