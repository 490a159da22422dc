"""What people write: a table for each thing that a pod or a cluster may say.

A new word, engine or card is one more line here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias, TypeVar

import orjson

Json: TypeAlias = dict[str, Any]
Options: TypeAlias = Sequence[str]
T = TypeVar("T")


def fresh(value: T) -> T:
    """A copy of JSON that may be changed."""
    copy: T = orjson.loads(orjson.dumps(value))
    return copy


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
OURS = "kamiwaza.ai/"
VRAM, GPUS, CONTAINER = OURS + "vram-gb", OURS + "gpus", OURS + "container"
CARD = OURS + "vram-gb-gpu-"

# --- asks ----------------------------------------------------------------------------------------------------------

_GB = ("4", "1", "2", "6", "6Gi", "6144Mi", "10", "16", "20", "40", "70")
_AMOUNT: Options = (*_GB, "50%", "whole", "25%", "6.5", "0.5")
_QUANTITY: Options = (*_GB, "1500m", "2k")
_COUNT: Options = ("1", "1", "1", "2", "2", "4")
_QUANTITY_OF_CARDS: Options = (*_COUNT, "1000m", "1e0", "2e0", "8")
_MIB: Options = ("4096", "1000", "5k", "16Gi", "20000", "40960")
_PERCENT: Options = ("25", "10", "50", "100")
_FRACTION: Options = ("0.5", "0.1", "0.25", "1")


@dataclass(frozen=True, slots=True)
class Words:
    """One way to ask: keys with the values that they take. `weight` says how often it is met.

    `annotations` stand on the pod, `limits` on the container that asks.
    """

    annotations: Mapping[str, Options] = field(default_factory=dict)
    limits: Mapping[str, Options] = field(default_factory=dict)
    weight: int = 2


ASKS: Sequence[Words] = (
    Words(annotations={VRAM: _AMOUNT}, weight=12),
    Words(annotations={VRAM: _AMOUNT, GPUS: _COUNT}, weight=6),
    Words(annotations={VRAM + ".main": _AMOUNT}, weight=6),
    Words(annotations={VRAM + ".main": _AMOUNT, VRAM + ".helper": _GB}),
    Words(annotations={VRAM: _GB}, limits={"nvidia.com/gpu": _COUNT}, weight=4),
    Words(annotations={VRAM: _GB}, limits={"amd.com/gpu": _COUNT}),
    Words(limits={VRAM: _QUANTITY}, weight=6),
    Words(limits={VRAM: _QUANTITY, GPUS: _COUNT}),
    Words(limits={"nvidia.com/gpu": _QUANTITY_OF_CARDS}, weight=6),
    Words(limits={"amd.com/gpu": _QUANTITY_OF_CARDS}, weight=4),
    Words(limits={"gpu.intel.com/i915": _COUNT}, weight=1),
    Words(limits={"gpu.intel.com/xe": _COUNT}, weight=1),
    Words(limits={"nvidia.com/gpumem": _MIB}),
    Words(limits={"nvidia.com/gpu": _COUNT, "nvidia.com/gpumem": _MIB}),
    Words(limits={"nvidia.com/gpu": _COUNT, "nvidia.com/gpumem-percentage": _PERCENT, "nvidia.com/gpucores": _PERCENT}),
    Words(limits={"amd.com/gpu": _COUNT, "amd.com/gpumem": _MIB}),
    Words(limits={"nvidia.com/gpu.shared": _COUNT}),
    Words(limits={"nvidia.com/mig-1g.10gb": ("1",)}),
    Words(limits={"nvidia.com/mig-3g.40gb": ("1", "2")}),
    Words(annotations={"gpu-memory": _MIB}),
    Words(annotations={"gpu-fraction": _FRACTION}),
    Words(annotations={"gpu-fraction": _FRACTION, "gpu-fraction-num-devices": _COUNT}),
)

DETAILS: Mapping[str, Options] = {
    OURS + "vendor": ("nvidia", "amd", "nvidia", "intel"),
    OURS + "accel-version": ("cuda>=12.4", "cuda 12.9", "cuda>=11.8", "cuda>=13.1", "rocm>=6.2", "cuda 13.0"),
    OURS + "policy": ("binpack", "spread", "exclusive"),
    CONTAINER: ("main",),
    "nvidia.com/use-gputype": ("A100", "L4,H100", "Tesla"),
    "nvidia.com/nouse-gputype": ("T4",),
    "nvidia.com/use-gpuuuid": ("GPU-n0-0,GPU-n1-0",),
    "nvidia.com/nouse-gpuuuid": ("GPU-n0-0",),
}
"""What an ask may say besides."""

OTHER_ANNOTATIONS: Sequence[tuple[str, str]] = (
    ("app.kubernetes.io/part-of", "chat"),
    (OURS + "model", "llama"),
    ("nvidia.com/gpu.product", "Tesla-T4"),
    ("kubectl.kubernetes.io/last-applied-configuration", '{"a/b~c":"\u00e9"}'),
    ("", ""),
)

WRONG_VALUES: Options = (
    "16GB", "-1", "0", "", "1.5", " 6", "six", "6 GB", "1e3", "NaN", "Infinity", "-0", "0x10", "+6", "1_000", "\u0666",
    "101%", "0%", "auto", "true", "99999999999999999999", "9" * 400, "1e999999999", "1e-999999999", "cuda", "cuda>=x",
    "best", "nobody", "null", "{}", "6;7", "\u0000", "\ud7ff",
)  # fmt: skip

MISSPELT_KEYS: Options = (
    OURS + "vram", OURS + "vram_gb", OURS + "vram-gib", OURS + "gpu", OURS + "gpu-count", OURS + "VRAM-GB",
    OURS + "vram-gb.nobody", OURS + "vram-gb.", OURS + "policies", OURS + "vendors", CARD + "0", CARD + "00",
    CARD + "x", "nvidia.com/gpus", "nvidia.com/gpu-memory", "gpu-fractions", "kamiwaza.ai",
)  # fmt: skip

# --- containers ----------------------------------------------------------------------------------------------------

PLAIN_RESOURCES: Sequence[Json] = (
    {},
    {"requests": {"cpu": "500m", "memory": "1Gi"}},
    {"requests": {"cpu": "2"}, "limits": {"cpu": "4", "memory": "8Gi"}},
    {"limits": {"example.com/fpga": "1"}},
    {"requests": {"ephemeral-storage": "1Gi", "memory": "128974848"}},
    {"requests": {"cpu": 1, "memory": "1e9"}},
    {"limits": None, "requests": None},
    {"requests": {"cpu": "40"}},
)

DEVICE_VARIABLES: Mapping[str, Options] = {
    "NVIDIA_VISIBLE_DEVICES": ("all", "none", "void", "", "0", "0,1", "GPU-n0-0", "$(SLOT)"),
    "CUDA_VISIBLE_DEVICES": ("0", "1", "5", "0,1", "", "-1", "GPU-n0-0", "NoDevFiles"),
    "ROCR_VISIBLE_DEVICES": ("0", "GPU-n0-0"),
    "HIP_VISIBLE_DEVICES": ("0", "1"),
    "GPU_DEVICE_ORDINAL": ("0",),
    "ZE_AFFINITY_MASK": ("0", "0.1"),
    "NVIDIA_REQUIRE_CUDA": ("cuda>=12.4", "cuda>=12.4 brand=tesla,driver>=470", "cuda>=99"),
    "NVIDIA_DRIVER_CAPABILITIES": ("compute,utility",),
}
OTHER_VARIABLES: Sequence[Json] = (
    {"name": "PORT", "value": "8000"},
    {"name": "SLOT", "value": "$(NVIDIA_VISIBLE_DEVICES)"},
    {"name": "EMPTY"},
    {"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": {"name": "hf", "key": "token"}}},
    {"name": "TP", "value": "2"},
)
ELSEWHERE: Sequence[Json] = (
    {"fieldRef": {"fieldPath": "metadata.name"}},
    {"configMapKeyRef": {"name": "c", "key": "k"}},
    {"resourceFieldRef": {"resource": "limits.cpu"}},
)


@dataclass(frozen=True, slots=True)
class Engine:
    """A model server as people start it; `lines` are whole command lines, of which one is taken."""

    image: str
    lines: Sequence[Json]


ENGINES: Sequence[Engine] = (
    Engine("example/main", ({}, {"command": ["sleep"], "args": ["inf"]}, {"command": None, "args": []})),
    Engine(
        "vllm/vllm-openai:v0.11.0",
        (
            {"args": ["--model", "Qwen/Qwen3-8B"]},
            {"args": ["--model=meta-llama/Llama-3.1-70B", "--tensor-parallel-size=2", "--gpu-memory-utilization=0.9"]},
            {"args": ["-tp", "2", "--gpu_memory_utilization", "0.5", "--tensor-parallel-size", "4"]},
            {"args": ["--tensor-parallel-size", "$(TP)", "--gpu-memory-utilization", "high"]},
            {"command": ["sh", "-c", "CUDA_VISIBLE_DEVICES=1 vllm serve Qwen/Qwen3-8B -tp=2 && echo 'done"]},
        ),
    ),
    Engine("lmsysorg/sglang:v0.5.3", ({"command": ["python3", "-m", "sglang.launch_server", "--tp", "2"]},)),
    Engine("ghcr.io/huggingface/text-generation-inference:3.3", ({"args": ["--num-shard", "2"]}, {})),
    Engine("ghcr.io/ggml-org/llama.cpp:server-cuda", ({"args": ["-m", "/m.gguf", "-ngl", "99", "-ts", "1,1"]},)),
    Engine("ollama/ollama:0.12", ({}, {"args": ["serve"]})),
    Engine("nvcr.io/nvidia/tritonserver:25.08-trtllm-python-py3", ({"args": ["mpirun", "-n", "2", "tritonserver"]},)),
    Engine("openmmlab/lmdeploy:v0.10", ({"args": ["lmdeploy", "serve", "api_server", "m", "--tp", "2"]},)),
    Engine("rayproject/ray-ml:2.49", ({"command": ["ray", "start", "--num-gpus=2", "--block"]},)),
)

PORTS: Sequence[Json] = (
    {"containerPort": 8000},
    {"containerPort": 8000, "hostPort": 8000},
    {"containerPort": 8000, "hostPort": 8000, "protocol": "UDP"},
    {"containerPort": 8000, "hostPort": 8000, "hostIP": "10.0.0.1"},
)

# --- the rest of a pod -----------------------------------------------------------------------------------------------


def _affinity(kind: str, *terms: Json) -> Json:
    """A pod spec with required affinity of one kind."""
    required = {"nodeSelectorTerms": list(terms)} if kind == "nodeAffinity" else list(terms)
    return {"affinity": {kind: {REQUIRED: required}}}


def _where(*requirements: tuple[str, str, Sequence[str]], by: str = "matchExpressions") -> Json:
    """A node selector term."""
    return {by: [{"key": key, "operator": op, **({"values": list(v)} if v else {})} for key, op, v in requirements]}


_APP: Json = {"matchLabels": {"app": "chat"}}

SPECS: Sequence[Json] = (
    {"nodeSelector": {"zone": "west"}},
    {"nodeSelector": {"zone": "nowhere"}},
    {"nodeSelector": None, "affinity": None, "tolerations": None, "topologySpreadConstraints": None},
    {"affinity": {}},
    {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 5, "preference": _where(("zone", "In", ("east",)))}]}}},
    _affinity("nodeAffinity", _where(("zone", "In", ("west", "east")))),
    _affinity("nodeAffinity", _where(("zone", "NotIn", ("west",)), ("speed", "Exists", ()))),
    _affinity("nodeAffinity", _where(("speed", "DoesNotExist", ())), _where(("speed", "Gt", ("3",)))),
    _affinity("nodeAffinity", _where(("speed", "Lt", ("9",)), ("zone", "In", ("west",))), {}),
    _affinity("nodeAffinity", _where(("metadata.name", "NotIn", ("n0",)), by="matchFields")),
    _affinity("nodeAffinity", _where(("metadata.name", "In", ("n1",)), by="matchFields"), {"matchExpressions": []}),
    _affinity("podAffinity", {"topologyKey": "zone", "labelSelector": _APP}),
    _affinity("podAntiAffinity", {"topologyKey": "kubernetes.io/hostname", "labelSelector": _APP}),
    _affinity("podAntiAffinity", {"topologyKey": "zone", "labelSelector": _APP, "namespaceSelector": {}}),
    _affinity("podAntiAffinity", {"topologyKey": "zone", "labelSelector": _APP, "matchLabelKeys": ["version"]}),
    {"affinity": {"podAntiAffinity": {PREFERRED: []}, "podAffinity": None}},
    {
        "topologySpreadConstraints": [
            {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": _APP}
        ]
    },
    {
        "topologySpreadConstraints": [
            {
                "topologyKey": "kubernetes.io/hostname",
                "maxSkew": 2,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "Exists"}]},
                "minDomains": 2,
                "nodeTaintsPolicy": "Honor",
            },
            {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": _APP},
        ]
    },
    {"tolerations": [{"operator": "Exists"}]},
    {"tolerations": [{"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}]},
    {"tolerations": [{"key": "gpu", "value": "t4"}, {"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]},
    {"hostNetwork": True},
    {"overhead": {"cpu": "100m", "memory": "64Mi"}, "runtimeClassName": "kata"},
    {"runtimeClassName": "nvidia"},
    {"resources": {"requests": {"cpu": "3"}, "limits": {"memory": "4Gi"}}},
    {"schedulingGates": [{"name": "example.com/queue"}]},
    {"nodeName": "n0"},
    {"nodeName": "nowhere"},
    {"schedulerName": "other", "priority": 1000, "priorityClassName": "high"},
    {"volumes": [{"name": "cache", "emptyDir": {}}, {"name": "shm", "emptyDir": {"medium": "Memory"}}]},
    {"volumes": [{"name": "models", "persistentVolumeClaim": {"claimName": "models"}}]},
    {"volumes": [{"name": "scratch", "persistentVolumeClaim": {"claimName": "scratch"}}]},
    {"volumes": [{"name": "models", "hostPath": {"path": "/models"}}], "hostPID": True},
    {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}]},
    {"restartPolicy": "Never", "activeDeadlineSeconds": 60, "terminationGracePeriodSeconds": 0},
)
"""Fragments of a pod spec that say where it may go and what it has besides."""

LABELS: Sequence[Json] = (
    {"app": "chat"},
    {"app": "chat", "version": "1"},
    {"app": "search", "pod-template-hash": "5d4f"},
    {},
)

OWNER_KINDS: Sequence[tuple[str, str]] = (
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("apps/v1", "DaemonSet"),
    ("batch/v1", "Job"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    ("v1", "a/b"),
)
ONE_AT_A_TIME = "chat-3"
BY_NAME = frozenset({"StatefulSet", "DaemonSet"})
WANTED = {"chat-1": 1000, "chat-2": 1000, ONE_AT_A_TIME: 1}
"""How many pods an owner of that name wants: those of the last one, and those of kinds by name, replace each other."""

# --- clusters --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CardKind:
    """A model of card. `more` are further fields of the card's status, and `node` what its nodes have besides."""

    model: str
    gb: int
    vendor: str = "nvidia"
    kind: str = "discrete"
    more: Mapping[str, Any] = field(default_factory=dict)
    weight: int = 2


CARDS: Sequence[CardKind] = (
    CardKind("Tesla T4", 15, weight=5),
    CardKind("NVIDIA L4", 22, weight=4),
    CardKind("NVIDIA A100-SXM4-40GB", 40, weight=3),
    CardKind("NVIDIA H100 80GB HBM3", 79, weight=3),
    CardKind("AMD Instinct MI210", 63, "amd", weight=3),
    CardKind("Intel Data Center GPU Flex 170", 16, "intel", weight=1),
    CardKind("NVIDIA GB10", 111, kind="unified"),
    CardKind("AMD Strix Halo", 96, "amd", kind="unified"),
    CardKind("NVIDIA H100 MIG 3g.40gb", 39, kind="mig"),
    CardKind("NVIDIA H100 80GB HBM3", 0, more={"partitioned": True, "memoryMiB": 81559}, weight=1),
    CardKind("NVIDIA GH200 480GB", 94, more={"onlinedAsSystemMemory": True}, weight=1),
    CardKind("NVIDIA T400", 4, more={"computeCapable": False}, weight=1),
    CardKind("unknown", 0, weight=1),
)


@dataclass(frozen=True, slots=True)
class ManagedKind:
    """A node without an agent of ours: what the vendor's device plugin offers there, and what a unit of it is."""

    model: str
    offered: Mapping[str, int]
    units: Sequence[Json]
    cards: int
    vendor: str = "nvidia"


MANAGED: Sequence[ManagedKind] = (
    ManagedKind("NVIDIA-A10G", {"nvidia.com/gpu": 4}, ({"resource": "nvidia.com/gpu", "gb": 22},), cards=4),
    ManagedKind("Tesla-T4", {"nvidia.com/gpu": 8}, ({"resource": "nvidia.com/gpu", "gb": 3, "perCard": 4},), cards=2),
    ManagedKind(
        "Tesla-T4-SHARED",
        {"nvidia.com/gpu.shared": 4},
        ({"resource": "nvidia.com/gpu.shared", "gb": 3, "perCard": 4},),
        1,
    ),
    ManagedKind(
        "NVIDIA-H100-80GB",
        {"nvidia.com/mig-3g.40gb": 4},
        ({"resource": "nvidia.com/mig-3g.40gb", "gb": 39, "partition": True},),
        0,
    ),
    ManagedKind("AMD_Instinct_MI300X", {"amd.com/gpu": 8}, ({"resource": "amd.com/gpu", "gb": 191},), 8, "amd"),
    ManagedKind("of a size that no label tells", {"nvidia.com/gpu": 2}, ({"resource": "nvidia.com/gpu"},), 2),
)

ACCEL_VERSIONS: Mapping[str, Sequence[Json]] = {
    "nvidia": ({"cuda": "12.8"}, {"cuda": "12.4"}, {"cuda": "13.0"}, {"cuda": "11.8"}, {}),
    "amd": ({"rocm": "6.4.1"}, {"rocm": "6.1"}, {}),
    "intel": ({},),
}
NODE_LABELS: Mapping[str, Options] = {"zone": ("west", "east"), "speed": ("2", "5", "12"), "rack": ("1",)}
TAINTS: Sequence[Json] = (
    {"key": "gpu", "value": "t4", "effect": "NoSchedule"},
    {"key": "gpu", "effect": "NoExecute"},
    {"key": "team", "value": "red", "effect": "PreferNoSchedule"},
    {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute"},
)
NAMESPACES: Mapping[str, Mapping[str, str]] = {
    "models": {OURS + "placement": "enabled", "team": "red"},
    "auto": {OURS + "placement": "auto"},
    "other": {"team": "blue"},
}
"""The namespaces with their labels; the last did not opt in."""
