"""The cards of a node without an agent, read from the labels that vendors and clouds put on it.

Labels tell of sizes and names, the node's allocatable amounts tell how many there are. A label that cannot be read is
named and passed over: it is never taken for zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from shared.api import names
from shared.core.accel import parse_version, spell
from shared.core.cards import MIB_PER_GB, Card, CardClass, Vendor, budget_gb
from shared.core.gpu_models import CUDA_OF_DRIVER, GKE_ACCELERATOR_MIB
from shared.core.mig_profiles import gb_by_name
from shared.core.unit_kinds import UnitKind
from shared.core.units import is_partition, is_unit, vendor_of

MOST_CARDS = 64
_BYTES_FROM = 1048576
"""A number of MiB this large is a number of bytes: early versions of GPU Feature Discovery wrote those."""

_NUMBER = re.compile(r"[0-9]{1,15}\Z")
_AMD_SIZE = re.compile(r"([0-9]{1,9})(G|GB|GiB|Gi|M|MB|MiB|Mi|T|TB|TiB|Ti)?\Z", re.IGNORECASE)
_AMD_SCALE = {"m": 1, "g": 1024, "t": 1024 * 1024}


@dataclass(frozen=True, slots=True)
class LabelledCards:
    """What a node's labels and allocatable amounts say of its cards; `unread` are labels that say nothing usable."""

    cards: tuple[Card, ...]
    kinds: tuple[UnitKind, ...]
    accel: Mapping[str, str]
    unread: tuple[str, ...]


@dataclass(slots=True)
class _Labels:
    """The labels of a node; remembers those that could not be read."""

    labels: Mapping[str, str]
    unread: set[str] = field(default_factory=set)

    def text(self, key: str) -> str | None:
        return self.labels.get(key)

    def number(self, *keys: str) -> int | None:
        """The first of `keys` that holds a whole number above 0."""
        for key in keys:
            text = self.labels.get(key)
            if text is None:
                continue
            if _NUMBER.match(text):
                if int(text):
                    return int(text)
                continue  # zero: the writer does not know, or means something else
            self.unread.add(key)
        return None


def names_cards(labels: Mapping[str, str], allocatable: Mapping[str, int]) -> bool:
    """Whether a node has, or says that it has, cards that a vendor's device plugin gives away."""
    return any(is_unit(resource) and amount for resource, amount in allocatable.items()) or (
        next(_vendors(labels), None) is not None
    )


def read_labels(node: str, labels: Mapping[str, str], allocatable: Mapping[str, int]) -> LabelledCards:
    """The cards of a node, and the vendor's resources that book them. Never more than the node advertises."""
    read = _Labels(labels)
    offered = {resource: amount for resource, amount in allocatable.items() if is_unit(resource)}
    kinds: list[UnitKind] = []
    cards: list[Card] = []
    for vendor in _vendors_of_node(labels, offered):
        memory = _nvidia_mib(read) if vendor is Vendor.NVIDIA else _amd_mib(read)
        for resource in _whole_resources(vendor, offered):
            kind = _whole_kind(read, resource, vendor, memory, offered.get(resource, 0))
            kinds.append(kind)
            cards += _cards(node, read, vendor, memory, -(-offered.get(resource, 0) // kind.per_card), len(cards))
    kinds += [UnitKind(resource, _slice_gb(read, resource), partition=True) for resource in _slices(offered)]
    accel = _cuda(read)
    return LabelledCards(
        tuple(cards[:MOST_CARDS]),
        tuple(sorted(kinds, key=lambda kind: kind.resource)),
        {} if accel is None else {"cuda": accel},
        tuple(sorted(read.unread)),
    )


def _vendors(labels: Mapping[str, str]) -> Iterator[Vendor]:
    """The vendors whose cards labels tell of."""
    clouds = {labels.get(key, "") for key in names.AKS_ACCELERATORS}
    clouds |= {labels.get(f"{prefix}manufacturer", "") for prefix in names.EKS_GPU_PREFIXES}
    told_by_gfd = not {names.GFD_PRODUCT, names.GFD_COUNT, names.GFD_MEMORY}.isdisjoint(labels)
    if told_by_gfd or labels.get(names.GKE_ACCELERATOR, "").startswith("nvidia") or "nvidia" in clouds:
        yield Vendor.NVIDIA
    if "amd" in clouds or any(key.startswith(names.AMD_PREFIXES) for key in labels):
        yield Vendor.AMD


def _vendors_of_node(labels: Mapping[str, str], offered: Mapping[str, int]) -> list[Vendor]:
    by_resource = {vendor_of(resource) for resource, amount in offered.items() if amount}
    return sorted(by_resource | set(_vendors(labels)), reverse=True)


def _whole_resources(vendor: Vendor, offered: Mapping[str, int]) -> list[str]:
    """The resources under which cards of a vendor are given away; its usual one where none is offered at the moment.

    A node whose cards are all cut into slices offers none, and that is no trouble of its device plugin.
    """
    own = [name for name in offered if vendor_of(name) is vendor]
    whole = sorted(name for name in own if offered[name] and not is_partition(name))
    if whole or any(offered[name] for name in own):
        return whole
    return [names.AMD_GPU if vendor is Vendor.AMD else names.NVIDIA_GPU]


def _slices(offered: Mapping[str, int]) -> list[str]:
    """MIG resources; one with a count of 0 is left over from cards that are no longer cut."""
    return sorted(resource for resource, amount in offered.items() if amount and is_partition(resource))


def _whole_kind(read: _Labels, resource: str, vendor: Vendor, memory_mib: int | None, amount: int) -> UnitKind:
    partition = _is_partitioned(read, vendor)
    count = read.number(names.GFD_COUNT, names.GKE_COUNT, *(f"{prefix}count" for prefix in names.EKS_GPU_PREFIXES))
    shared = read.number(names.GFD_REPLICAS, names.GKE_CLIENTS) if vendor is Vendor.NVIDIA else None
    # More units than cards are parts of cards, whatever the labels say of sharing.
    per_card = max(shared or 1, -(-amount // count) if count and vendor is Vendor.NVIDIA else 1)
    if resource == names.NVIDIA_GPU_SHARED and per_card == 1:
        per_card = max(2, amount)  # renamed because it is shared, by how many is not said
    gb = None if memory_mib is None else budget_gb(memory_mib // per_card)
    return UnitKind(resource, gb, per_card, partition)


def _is_partitioned(read: _Labels, vendor: Vendor) -> bool:
    """Whether the vendor's usual resource stands for hardware partitions here."""
    if vendor is Vendor.AMD:
        mode = next((text for key in _amd_keys("compute-memory-partition") if (text := read.text(key))), "")
        return bool(mode) and not mode.upper().startswith("SPX")
    return "-MIG-" in (read.text(names.GFD_PRODUCT) or "") or bool(read.text(names.GKE_PARTITION))


def _cards(node: str, read: _Labels, vendor: Vendor, memory_mib: int | None, count: int, first: int) -> Iterator[Card]:
    """Labels tell of one model: all cards are taken to be of it."""
    model = _model(read, vendor)
    for index in range(first, min(first + count, MOST_CARDS)):
        memory = memory_mib or 0
        yield Card(index, f"{node}/gpu-{index}", model, vendor, CardClass.DISCRETE, memory, memory // MIB_PER_GB)


def _model(read: _Labels, vendor: Vendor) -> str:
    if vendor is Vendor.AMD:
        keys = [*_amd_keys("product-name")]
    else:
        keys = [names.GFD_PRODUCT, names.GKE_ACCELERATOR, *(f"{prefix}name" for prefix in names.EKS_GPU_PREFIXES)]
    found = next((text for key in keys if (text := read.text(key))), "")
    return found.removesuffix("-SHARED").replace("-", " ").replace("_", " ")[:128]


def _nvidia_mib(read: _Labels) -> int | None:
    """MiB of one card, or of one slice where the cards are cut into equal ones."""
    number = read.number(names.GFD_MEMORY)
    if number is not None:
        return number // _BYTES_FROM if number >= _BYTES_FROM else number
    partition = read.text(names.GKE_PARTITION)
    if partition:
        gb = gb_by_name(partition)
        return None if gb is None else gb * MIB_PER_GB
    cloud = read.number(*(f"{prefix}memory" for prefix in names.EKS_GPU_PREFIXES))
    return cloud if cloud is not None else GKE_ACCELERATOR_MIB.get(read.text(names.GKE_ACCELERATOR) or "")


def _amd_mib(read: _Labels) -> int | None:
    """MiB of one card: `64G` means GiB. Where cards differ, `amd.com/gpu.vram.64G: "2"` counts them: the smallest."""
    for key in _amd_keys("vram"):
        text = read.text(key)
        if text is not None:
            mib = _amd_size(text)
            if mib is not None:
                return mib
            read.unread.add(key)
        counted = [
            mib
            for label in read.labels
            if label.startswith(f"{key}.") and (mib := _amd_size(label.removeprefix(f"{key}."))) is not None
        ]
        if counted:
            return min(counted)
    return None


def _amd_size(text: str) -> int | None:
    match = _AMD_SIZE.match(text)
    if match is None or not int(match[1]):
        return None
    return int(match[1]) * _AMD_SCALE[(match[2] or "G")[0].lower()]


def _amd_keys(name: str) -> Iterator[str]:
    return (prefix + name for prefix in names.AMD_PREFIXES)


def _slice_gb(read: _Labels, resource: str) -> int | None:
    """GB of a MIG slice."""
    memory = read.number(f"{resource}.memory")
    return gb_by_name(resource) if memory is None else budget_gb(memory)


def _cuda(read: _Labels) -> str | None:
    """The highest CUDA version that the node's driver serves."""
    texts = [read.text(names.GFD_CUDA_VERSION)]
    for major, minor in names.GFD_CUDA_PARTS:
        if read.text(major) is not None:
            texts.append(f"{read.text(major)}.{read.text(minor) or 0}")
    for text in texts:
        version = None if text is None else parse_version(text)
        if version is not None:
            return spell(version[:2])
    driver = read.number(*names.GFD_DRIVER_MAJORS)
    full = read.text(names.GFD_DRIVER_VERSION) or ""
    if driver is None and _NUMBER.match(full.partition(".")[0]):
        driver = int(full.partition(".")[0])
    known = [major for major in CUDA_OF_DRIVER if driver is not None and major <= driver]
    return CUDA_OF_DRIVER[max(known)] if known else None
