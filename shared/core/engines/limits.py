"""How a server is kept to its share of a card: what to tell it, and what to tell its owner where that cannot be done.

An engine's memory fraction is a fraction of something else in each engine, so one rule does not serve them all. Only
vLLM since 0.9.1 counts its own use against the total of the card, which makes `(share - headroom) / total` right
whatever its neighbours do.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from fractions import Fraction

from shared.core.cards import MIB_PER_GB
from shared.core.engines.engine import Engine, EngineName, Version

_HEADROOM_ONE_CARD_MIB = 1024
_HEADROOM_MORE_CARDS_MIB = 2048
"""Memory that a server takes outside its fraction: the driver's context and, over several cards, NCCL's buffers."""
_LARGEST_HEADROOM = 4
"""The headroom is at most this part of a share, so that a small share leaves something."""

_INJECTED_SINCE: Version = (0, 9, 1)
_CHARGES_NEIGHBOURS: tuple[tuple[Version, Version], ...] = (((0, 6, 4), (0, 6, 5)), ((0, 8), (0, 9, 1)))
"""Versions of vLLM, first and behind the last, that count all memory in use on the card as their own."""


class Basis(Enum):
    """What an engine's memory fraction is a fraction of."""

    TOTAL = auto()
    """The card's memory, for its own use alone."""
    WHOLE_CARD = auto()
    """The card's memory, as a ceiling for all programs on it together."""
    FREE_BEFORE_LOAD = auto()
    FREE_AFTER_LOAD = auto()
    NONE = auto()
    """The engine has no fraction: its size follows from other settings."""


@dataclass(frozen=True, slots=True)
class MemoryRule:
    """How one engine takes memory: `setting` is what limits it, `advice` what to do with it where no value is known."""

    basis: Basis
    setting: str
    advice: str = ""


RULES: dict[EngineName, MemoryRule] = {
    EngineName.VLLM: MemoryRule(Basis.TOTAL, "--gpu-memory-utilization"),
    EngineName.SGLANG: MemoryRule(
        Basis.FREE_BEFORE_LOAD, "--mem-fraction-static", "set it so that weights and cache stay within the share"
    ),
    EngineName.TGI: MemoryRule(
        Basis.WHOLE_CARD,
        "--cuda-memory-fraction",
        "set it to the part of the card that is in use once this server runs, or ask for a whole card",
    ),
    EngineName.LLAMA_CPP: MemoryRule(
        Basis.NONE, "--ctx-size", "set it, with --n-gpu-layers and --fit off, so that the model stays within the share"
    ),
    EngineName.OLLAMA: MemoryRule(
        Basis.NONE,
        "OLLAMA_CONTEXT_LENGTH",
        "set it, with OLLAMA_NUM_PARALLEL and OLLAMA_MAX_LOADED_MODELS=1, so that the model stays within the share",
    ),
    EngineName.TENSORRT_LLM: MemoryRule(
        Basis.FREE_AFTER_LOAD,
        "--kv_cache_free_gpu_memory_fraction",
        "set it so that weights and cache stay within the share",
    ),
    EngineName.TRITON: MemoryRule(
        Basis.NONE,
        "--model-load-gpu-limit",
        "set it, and the memory settings of its backends, to stay within the share",
    ),
    EngineName.LMDEPLOY: MemoryRule(
        Basis.FREE_AFTER_LOAD, "--cache-max-entry-count", "set it so that weights and cache stay within the share"
    ),
    EngineName.NIM: MemoryRule(
        Basis.TOTAL,
        "NIM_KVCACHE_PERCENT",
        "set it, or from 2.0 on --gpu-memory-utilization in NIM_PASSTHROUGH_ARGS, to stay within the share",
    ),
    EngineName.RAY: MemoryRule(
        Basis.NONE, "gpu_memory_utilization", "set it for the engines that its deployments start"
    ),
    EngineName.TEI: MemoryRule(Basis.NONE, "MAX_BATCH_TOKENS", "set it so that a batch stays within the share"),
    EngineName.INFINITY: MemoryRule(Basis.NONE, "--batch-size", "set it so that a batch stays within the share"),
    EngineName.DJL: MemoryRule(
        Basis.TOTAL, "OPTION_GPU_MEMORY_UTILIZATION", "set it for the vLLM inside so that it stays within the share"
    ),
}

DEFAULT_FRACTION: dict[EngineName, tuple[tuple[Version, float], ...]] = {
    EngineName.VLLM: (((), 0.9), ((0, 21), 0.92)),
    EngineName.TGI: (((), 1.0),),
    EngineName.TENSORRT_LLM: (((), 0.9),),
    EngineName.LMDEPLOY: (((), 0.8),),
}
"""What an engine takes when nobody says otherwise, by the version since which it does. SGLang computes its own."""


@dataclass(frozen=True, slots=True)
class SelfLimit:
    """A flag to append to the container's `args`. The last of equal flags counts, so a user's own may stand before."""

    flag: str
    value: str


@dataclass(frozen=True, slots=True)
class Advice:
    """What follows from a share: the flag to give, if one can be given, and sentences for the pod's owner.

    `breaks_share` means that the user's own setting would take more than the share.
    """

    limit: SelfLimit | None = None
    breaks_share: bool = False
    warnings: tuple[str, ...] = ()


def default_fraction(name: EngineName, version: Version | None) -> float | None:
    """The fraction an engine takes by itself, None if it has none. An unknown version counts as the newest."""
    rows = DEFAULT_FRACTION.get(name, ())
    fitting = [value for since, value in rows if version is None or since <= version]
    return fitting[-1] if fitting else None


def keep_to_share(engine: Engine, container: str, share_gb: int, card_mib: int, cards: int = 1) -> Advice:
    """What to tell `engine` so that it keeps to `share_gb` GB on each of `cards` cards of `card_mib` MiB.

    One value serves all cards of a server, so of unequal cards the largest total counts. For a partition the total is
    that of the partition. A share of the whole card needs no limit.
    """
    share = _Share(engine, container, share_gb, card_mib, cards)
    own = engine.memory_fraction
    if share_gb * MIB_PER_GB >= card_mib - card_mib % MIB_PER_GB:
        return share.advice_on_a_whole_card()
    if engine.name is EngineName.VLLM:
        return _vllm(engine, share)
    if own is not None:
        return share.advice_on_own(own)
    if share.rule.basis is Basis.NONE and engine.context_length is not None:
        return Advice()  # the user has sized it
    return share.advice_on_nothing_set()


@dataclass(frozen=True, slots=True)
class _Share:
    """A share of a card, and how to speak of it."""

    engine: Engine
    container: str
    gb: int
    card_mib: int
    cards: int

    @property
    def rule(self) -> MemoryRule:
        return RULES[self.engine.name]

    @property
    def setting(self) -> str:
        return self.rule.setting

    @property
    def mib(self) -> int:
        return self.gb * MIB_PER_GB

    @property
    def thousandths(self) -> int:
        """The largest fraction of the card that leaves the headroom inside the share, in thousandths, rounded down."""
        headroom = _HEADROOM_ONE_CARD_MIB if self.cards == 1 else _HEADROOM_MORE_CARDS_MIB
        within = self.mib - min(headroom, self.mib // _LARGEST_HEADROOM)
        return max(1, within * 1000 // self.card_mib)

    def exceeded_by(self, fraction: float) -> bool:
        return _exactly(fraction) * self.card_mib > self.mib

    def taken(self, fraction: float) -> str:
        gb = float(_exactly(fraction) * self.card_mib / MIB_PER_GB)
        return f"would take {round(gb, 1):g} GB of a share of {self.gb} GB"

    @property
    def absent(self) -> str:
        """What is wrong with a setting of which no value is known."""
        if self.engine.fraction_unknown:
            return f"has a value that cannot be read here, so it may take more than the share of {self.gb} GB"
        on_command_line = self.setting.startswith("--")
        return "is not seen on the command line" if self.engine.hidden and on_command_line else "is not set"

    def says(self, sentence: str) -> str:
        return f"container {self.container}: {sentence}"

    def advice_on_a_whole_card(self) -> Advice:
        own = self.engine.memory_fraction
        if own is None or own <= 1:
            return Advice()
        sentence = f"{self.setting} {own:g} is more than a whole card; write at most 1"
        return Advice(breaks_share=True, warnings=(self.says(sentence),))

    def advice_on_own(self, own: float) -> Advice:
        """A user's own fraction, of whatever it is a fraction: on an idle card it takes that part of the total."""
        if not self.exceeded_by(own):
            return Advice()
        sentence = f"{self.setting} {own:g} {self.taken(own)}; {self.rule.advice}"
        return Advice(breaks_share=True, warnings=(self.says(sentence),))

    def advice_on_nothing_set(self) -> Advice:
        default = default_fraction(self.engine.name, self.engine.version)
        if self.engine.fraction_unknown:
            return Advice(warnings=(self.says(f"{self.setting} {self.absent}; {self.rule.advice}"),))
        if default is None:
            problem = f"and {self.engine.name.label} does not know its share of {self.gb} GB"
        else:
            problem = f"and {self.engine.name.label}'s default of {default:g} {self.taken(default)}"
        return Advice(warnings=(self.says(f"{self.setting} {self.absent} {problem}; {self.rule.advice}"),))


def _vllm(engine: Engine, share: _Share) -> Advice:
    version = engine.version
    if version is not None and any(first <= version < behind for first, behind in _CHARGES_NEIGHBOURS):
        spelled = ".".join(map(str, version))
        sentence = (
            f"vLLM {spelled} counts its neighbours' memory as its own, so no {share.setting} keeps it to a share of "
            f"{share.gb} GB; use 0.9.1 or newer, or ask for a whole card"
        )
        return Advice(warnings=(share.says(sentence),))
    warnings = []
    if engine.kv_cache_bytes is not None and engine.kv_cache_bytes > share.mib * 1024**2:
        warnings.append(share.says(f"--kv-cache-memory-bytes alone is more than the share of {share.gb} GB; lower it"))
    own = engine.memory_fraction
    default = default_fraction(EngineName.VLLM, version)
    assert default is not None
    fine = _exactly(default) * 1000 <= share.thousandths if own is None else not share.exceeded_by(own)
    if fine and not engine.fraction_unknown:
        return Advice(breaks_share=bool(warnings), warnings=tuple(warnings))
    value = f"{share.thousandths / 1000:.3f}".rstrip("0")
    injected = engine.appendable and (version is None or version >= _INJECTED_SINCE)
    if own is not None:
        problem = f"{share.setting} {own:g} {share.taken(own)}"
    elif engine.fraction_unknown:
        problem = f"{share.setting} {share.absent}"
    else:
        problem = f"{share.setting} {share.absent} and vLLM's default of {default:g} {share.taken(default)}"
    remedy = f"it is set to {value}" if injected else f"set it to {value} in the container's command line"
    return Advice(
        limit=SelfLimit(share.setting, value) if injected else None,
        breaks_share=own is not None or bool(warnings),
        warnings=(*warnings, share.says(f"{problem}; {remedy}")),
    )


def _exactly(fraction: float) -> Fraction:
    """A fraction as it was written: 0.2 is a fifth."""
    return Fraction(str(fraction))
