"""Of how many pods a server consists: what flags, scripts and variables tell about the group."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from shared.api import names
from shared.core.engines.command_line import Invocation
from shared.core.engines.spec import Setting
from shared.core.engines.values import Value
from shared.core.engines.words import Variables, Word
from shared.core.engines.wrappers import basename

_SIZE = re.compile(r"--(?:(?:ray[-_])?(?:cluster|group)[-_]size|nnodes|num[-_]nodes)(?:=(.*))?\Z")
_WHOLE = re.compile(r"[0-9]{1,6}\Z")
_ROLES = frozenset({"leader", "worker", "head", "follower"})


def pods_of_group(settings: Mapping[Setting, Value], helpers: Iterable[Invocation], variables: Variables) -> int | None:
    """How many pods share the parallel sizes: 1 for a server of its own, None for a group of unknown size.

    `settings` is what the engine's own flags say, `helpers` are the other programs of the container.
    """
    if Setting.NNODES in settings:
        return _whole(settings[Setting.NNODES])
    in_group = settings.get(Setting.IN_GROUP, False) is not False or names.RAY_ADDRESS in variables
    sizes = [_number(variables[names.LWS_GROUP_SIZE])] if names.LWS_GROUP_SIZE in variables else []
    for helper in helpers:
        in_group = in_group or _joins_group(helper.words)
        sizes.extend(_sizes(helper.words))
    if sizes:
        return sizes[0]
    return None if in_group else 1


def _joins_group(words: tuple[Word, ...]) -> bool:
    """`ray start ...`, or a start script with a role: `bash multi-node.sh leader`."""
    texts = [word.text for word in words]
    if basename(words[0]) == "ray":
        return texts[1:2] == ["start"]
    return any(text.endswith(".sh") for text in texts[:2]) and not _ROLES.isdisjoint(texts)


def _sizes(words: tuple[Word, ...]) -> Iterable[int | None]:
    for at, word in enumerate(words):
        if match := _SIZE.match(word.text):
            following = words[at + 1].text if at + 1 < len(words) else None
            yield _number(match[1] if match[1] is not None else following)


def _number(text: str | None) -> int | None:
    return int(text) or None if text is not None and _WHOLE.match(text) else None


def _whole(value: Value) -> int | None:
    return value if isinstance(value, int) else None
