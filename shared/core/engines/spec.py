"""The form of an engine's table: how it is recognised, and which of its flags and variables say what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum, auto

from shared.core.engines.engine import EngineName
from shared.core.engines.values import Reader, boolean, name


class Setting(Enum):
    """What a flag or a variable may say."""

    MODEL = auto()
    TENSOR = auto()
    PIPELINE = auto()
    DATA = auto()
    DATA_LOCAL = auto()
    DATA_ONE_RANK = auto()
    """The process is one data-parallel rank of many, started one by one."""
    TENSOR_GROUP_SPLIT = auto()
    CONTEXT_PARALLEL = auto()
    EXPERT = auto()
    EXPERT_OVER_ALL = auto()
    """Experts are spread over all tensor- and data-parallel ranks."""
    SHARDS = auto()
    ONE_CARD = auto()
    NNODES = auto()
    IN_GROUP = auto()
    """The process is part of a group of pods, of a size that this flag does not tell."""
    CONTEXT = auto()
    FRACTION = auto()
    KV_BYTES = auto()
    MORE_FLAGS = auto()
    """A file with further flags."""


class Arity(Enum):
    """How many words a flag takes."""

    SWITCH = auto()
    ONE = auto()
    MANY = auto()


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag, under all its spellings. Without a `setting` it says nothing about cards or memory."""

    arity: Arity
    setting: Setting | None = None
    read: Reader = name


@dataclass(frozen=True, slots=True)
class EnvironmentRow:
    """A variable that says the same as a flag. A later row beats an earlier one, a flag beats both."""

    variable: str
    setting: Setting
    read: Reader


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineSpec:
    """One engine.

    `programs` start it, followed by one of `serving` if there is any, `direct_programs` and `modules` by themselves.
    `clients` are subcommands, and `client_programs` programs and modules, that use no card. `images` are names of
    repositories (`images.py` says how they are compared), `own_tags` the repositories whose tag is the engine's
    version. `entrypoint` is what the usual image runs in front of `args`, empty if it runs nothing or `args` must name
    the program. `defaults_to_one` are the sizes that are 1 unless told otherwise. `variable_prefixes` turn variables
    into flags: `SM_VLLM_DTYPE` is `--dtype`.
    """

    name: EngineName
    programs: tuple[str, ...]
    direct_programs: frozenset[str] = frozenset()
    modules: tuple[str, ...] = ()
    serving: tuple[tuple[str, ...], ...] = ()
    clients: frozenset[str] = frozenset()
    client_programs: frozenset[str] = frozenset()
    images: tuple[str, ...] = ()
    own_tags: frozenset[str] = frozenset()
    entrypoint: tuple[str, ...] = ()
    flags: Mapping[str, Flag]
    environment: tuple[EnvironmentRow, ...] = ()
    variable_prefixes: tuple[str, ...] = ()
    flags_variable: str = ""
    """A variable that holds further flags as one shell text."""
    positional_model: bool = False
    abbreviates: bool = False
    """Takes any beginning of a long flag that only one flag has, as Python's argparse does."""
    defaults_to_one: frozenset[Setting] = frozenset()
    axes: frozenset[Setting] = frozenset()
    """The sizes whose product is the number of cards. An engine without any counts shards."""
    spreads_over_visible: bool = False
    """Without a word about shards it uses every device it sees."""


def flag_table(
    rows: Iterable[tuple[str, Setting, Reader]] = (),
    *,
    on: Iterable[tuple[str, Setting]] = (),
    values: str = "",
    lists: str = "",
    switches: str = "",
) -> dict[str, Flag]:
    """Flags by spelling, dashes for underscores. `rows` take a value and `on` none; the rest is passed over."""
    table: dict[str, Flag] = {}
    for spellings, arity in ((values, Arity.ONE), (lists, Arity.MANY), (switches, Arity.SWITCH)):
        for spelling in spellings.split():
            table[spelling] = Flag(arity)
    for spellings, setting, read in rows:
        flag = Flag(Arity.ONE, setting, read)
        table.update(dict.fromkeys(spellings.split(), flag))
    for spellings, setting in on:
        flag = Flag(Arity.SWITCH, setting, boolean)
        table.update(dict.fromkeys(spellings.split(), flag))
    return table
