"""Which engine an image holds, and which version of it.

Only the repository and the tag are looked at: the host is a mirror's choice, and a digest says nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from shared.core.engines.engine import EngineName, Version
from shared.core.engines.spec import EngineSpec
from shared.core.engines.tables import SPECS

_LONGEST = 512
# fmt: off
_HELPERS = frozenset(
    {
        "bench", "benchmark", "client", "controller", "dashboard", "docs", "downloader", "exporter",
        "gateway", "metrics", "operator", "proxy", "router", "routing", "scheduler", "sidecar", "sim",
        "simulator", "test", "tests", "ui", "webui",
    }
)
# fmt: on
"""Words that tell a helper of an engine from the engine: `vllm-router`, `ollama-webui`."""
_FOREIGN_TAGS = frozenset({"lmcache"})
"""Owners that publish an engine's image under version numbers of their own."""

_WORDS = re.compile(r"[a-z0-9]+")
_VERSION = re.compile(r"(?:^|[-_])v?([0-9]{1,4}(?:\.[0-9]{1,4}){1,3})")
_NAMED_VERSION = re.compile(r"(?:^|[-_.])(vllm|sglang|lmdeploy)[-_]?v?([0-9]{1,4}(?:\.[0-9]{1,4}){1,3})")
_NVIDIA_MONTH = re.compile(r"([0-9]{2})\.([0-9]{2})-py3")

_NVIDIA_VLLM: tuple[tuple[Version, Version], ...] = (
    ((25, 10), (0, 10, 2)),
    ((26, 1), (0, 11, 1)),
    ((26, 3), (0, 17, 1)),
    ((26, 5), (0, 20, 1)),
    ((26, 10), (0, 31, 0)),
)
"""vLLM inside `nvcr.io/nvidia/vllm`, by month. A month between two has at least the version of the earlier one.

https://docs.nvidia.com/deeplearning/frameworks/vllm-release-notes/
"""

_KSERVE = "huggingfaceserver"
_KSERVE_VLLM: tuple[tuple[Version, Version], ...] = (
    ((0, 12), (0, 2, 7)),
    ((0, 13), (0, 4, 2)),
    ((0, 14), (0, 6, 1)),
    ((0, 15), (0, 8, 1)),
    ((0, 15, 1), (0, 8, 5)),
    ((0, 16), (0, 9, 2)),
    ((0, 17), (0, 15, 1)),
    ((0, 18), (0, 19, 0)),
    ((0, 19), (0, 20, 0)),
    ((0, 20), (0, 24, 0)),
)
"""vLLM inside `kserve/huggingfaceserver`, by KServe's version.

`VLLM_VERSION` in https://github.com/kserve/kserve/blob/v0.15.2/python/huggingface_server.Dockerfile and its other tags
"""


@dataclass(frozen=True, slots=True)
class Image:
    """What an image's name tells. `model` only where the repository is named after the model it holds."""

    spec: EngineSpec | None = None
    version: Version | None = None
    model: str | None = None


def read_image(reference: str) -> Image:
    """The engine in an image such as `docker.io/vllm/vllm-openai:v0.11.0@sha256:...`. Never raises."""
    return _read(reference[:_LONGEST])


@lru_cache(maxsize=1024)
def _read(reference: str) -> Image:
    path, tag = _split(reference.lower())
    spec = _engine(path, tag)
    if spec is None:
        return Image()
    model = None
    if spec.name is EngineName.NIM and "nim" in path[:-1]:
        model = "/".join(path[path.index("nim") + 1 :])
    return Image(spec, _version(spec, path, tag), model)


def _split(reference: str) -> tuple[list[str], str]:
    """The segments of the repository without the host, and the tag."""
    name, _, _ = reference.partition("@")
    *owners, last = name.split("/")
    base, _, tag = last.partition(":")
    if owners and (":" in owners[0] or "." in owners[0] or owners[0] == "localhost"):
        owners = owners[1:]
    return [*owners, base], tag


def _engine(path: list[str], tag: str) -> EngineSpec | None:
    base = _WORDS.findall(path[-1])
    if _HELPERS.intersection(base):
        return None
    whole = [word for segment in path for word in _WORDS.findall(segment)]
    for spec in SPECS.values():
        for image in spec.images:
            if _contains(whole if "/" in image else base, _WORDS.findall(image)):
                return spec
    named = _NAMED_VERSION.search(tag)
    return SPECS[EngineName(named[1])] if named else None


def _contains(words: list[str], wanted: list[str]) -> bool:
    size = len(wanted)
    return any(words[at : at + size] == wanted for at in range(len(words) - size + 1))


def _version(spec: EngineSpec, path: list[str], tag: str) -> Version | None:
    named = _NAMED_VERSION.search(tag)
    if named:
        return _numbers(named[2]) if named[1] == spec.name else None
    if spec.name is EngineName.VLLM and (month := _NVIDIA_MONTH.match(tag)):
        return _contained(_NVIDIA_VLLM, (int(month[1]), int(month[2])))
    if _KSERVE in _WORDS.findall(path[-1]):
        kserve = _VERSION.search(tag)
        return _contained(_KSERVE_VLLM, _numbers(kserve[1])) if kserve else None
    own = path[-1] in spec.own_tags or spec.name is EngineName.NIM
    if not own or _FOREIGN_TAGS.intersection(path[:-1]):
        return None
    match = _VERSION.search(tag)
    return _numbers(match[1]) if match else None


def _contained(table: tuple[tuple[Version, Version], ...], release: Version) -> Version | None:
    """The engine's version in an image's release: that of the last row which is not newer."""
    known = [version for since, version in table if since <= release]
    return known[-1] if known else None


def _numbers(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))
