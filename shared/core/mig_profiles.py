"""Memory of MIG partitions in MiB, by card and profile, for where the driver does not tell.

A profile's name rounds up: `1g.5gb` has 4864 MiB. The same name stands for other sizes on other cards, so the table is
keyed by card. The numbers are those of `nvidia-smi mig -lgip` on such cards (GiB there, times 1024), in the order of
the table: A30, A100 40 GB, A100 80 GB, H100 80 GB, H100 NVL, GH200 96 GB, H200, B200, RTX PRO 6000. Where drivers
differ the smallest is taken (https://github.com/NVIDIA/mig-parted/issues/120 for H200, NVIDIA/mig-parted/pull/187 and
NVIDIA/gpu-operator/issues/2155 for B200, of whose larger profiles no listing is known to us: they are the 2g.45gb in
proportion). Which profiles a card has:
https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from shared.core.cards import MIB_PER_GB


@dataclass(frozen=True, slots=True)
class _Family:
    """Cards whose product name holds one of `names`, of at least `least_gb` and less than `below_gb`."""

    names: tuple[str, ...]
    least_gb: int
    below_gb: int
    profiles: Mapping[str, int]


_FAMILIES = (
    _Family(("A30",), 20, 26, {"1g.6gb": 5952, "2g.12gb": 11968, "4g.24gb": 24000}),
    _Family(
        ("A100", "A800"),
        36,
        42,
        {"1g.5gb": 4864, "1g.10gb": 9984, "2g.10gb": 9984, "3g.20gb": 20096, "4g.20gb": 20096, "7g.40gb": 40320},
    ),
    _Family(
        ("A100", "A800"),
        76,
        82,
        {"1g.10gb": 9728, "1g.20gb": 19968, "2g.20gb": 19968, "3g.40gb": 40192, "4g.40gb": 40192, "7g.80gb": 80896},
    ),
    _Family(
        ("H100", "H800"),
        76,
        82,
        {"1g.10gb": 9984, "1g.20gb": 20096, "2g.20gb": 20096, "3g.40gb": 40448, "4g.40gb": 40448, "7g.80gb": 81152},
    ),
    _Family(
        ("H100 NVL", "H800 NVL"),
        90,
        96,
        {"1g.12gb": 11008, "1g.24gb": 22144, "2g.24gb": 22144, "3g.47gb": 47488, "4g.47gb": 47488, "7g.94gb": 95360},
    ),
    _Family(
        ("GH200", "H100", "H20"),
        90,
        98,
        {"1g.12gb": 11264, "1g.24gb": 23552, "2g.24gb": 23552, "3g.48gb": 47616, "4g.48gb": 47616, "7g.96gb": 95232},
    ),
    _Family(
        ("H200",),
        136,
        146,
        {"1g.18gb": 16384, "1g.35gb": 33024, "2g.35gb": 33024, "3g.71gb": 71168, "4g.71gb": 71168, "7g.141gb": 143360},
    ),
    _Family(
        ("B200",),
        174,
        184,
        {"1g.23gb": 20992, "1g.45gb": 45312, "2g.45gb": 45312, "3g.90gb": 90624, "4g.90gb": 90624, "7g.180gb": 181248},
    ),
    _Family(("RTX PRO 6000",), 92, 98, {"1g.24gb": 24192, "2g.48gb": 48512, "4g.96gb": 97280}),
)

PROFILE: Final = re.compile(r"[0-9]+g\.([0-9]{1,4})gb")
_SUFFIX = re.compile(r"[+-].*\Z")


def gb_by_name(text: str) -> int | None:
    """GB of a partition by the profile that `text` names, which says a little more than it has; None without one."""
    profile = PROFILE.search(text)
    return None if profile is None else max(0, int(profile[1]) - 1)


def partition_mib(model: str, memory_mib: int, profile: str) -> int | None:
    """MiB of a partition of a card of this product name and memory, or None for what the table does not know.

    What follows a profile's name (`+me`, `-me`, `+gfx`) is about its media engines and changes no memory.
    """
    name, gb = model.replace("-", " ").upper(), -(-memory_mib // MIB_PER_GB)
    base = _SUFFIX.sub("", profile)
    families = (
        family
        for family in _FAMILIES
        if family.least_gb <= gb < family.below_gb and any(_has_word(name, word) for word in family.names)
    )
    return next((family.profiles[base] for family in families if base in family.profiles), None)


def _has_word(name: str, words: str) -> bool:
    """Whether `words` stand in `name` as they are: `H20` is no `H200`, and `B200` no `GB200`."""
    return re.search(rf"(?<![A-Z0-9]){re.escape(words)}(?![A-Z0-9])", name) is not None
