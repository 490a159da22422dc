"""Every name that the product writes into a cluster or reads from one, spelled once.

Nothing else in the code spells a label, annotation, resource or API group of ours or of a vendor.
"""

from __future__ import annotations

import re
from typing import Final

PRODUCT: Final = "placement-operator"
PREFIX: Final = "kamiwaza.ai/"

# API.
GROUP: Final = "placement.kamiwaza.ai"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
GPU_NODE: Final = "GPUNode"
MODEL_PLACEMENT: Final = "ModelPlacement"

# What an admin writes.
NAMESPACE_LABEL: Final = PREFIX + "placement"
MODE_ENABLED: Final = "enabled"
MODE_AUTO: Final = "auto"

# What a user writes.
VRAM: Final = PREFIX + "vram-gb"
GPUS: Final = PREFIX + "gpus"
CONTAINER: Final = PREFIX + "container"
VENDOR: Final = PREFIX + "vendor"
ACCEL_VERSION: Final = PREFIX + "accel-version"
POLICY: Final = PREFIX + "policy"
VRAM_OF_CONTAINER_PREFIX: Final = VRAM + "."
"""`kamiwaza.ai/vram-gb.<container>`: an amount for one container, as a pod annotation."""
ASK_ANNOTATIONS: Final = frozenset({VRAM, GPUS, CONTAINER, VENDOR, ACCEL_VERSION, POLICY})

# What the product writes on a pod.
RESERVATION: Final = PREFIX + "reservation"
PLACED: Final = PREFIX + "placed"
WARNINGS: Final = PREFIX + "warnings"
CARD_RESOURCE_PREFIX: Final = PREFIX + "vram-gb-gpu-"

# What the product writes on a workload.
WOKEN: Final = PREFIX + "woken"
"""Touched on a ReplicaSet, StatefulSet, DaemonSet or Job so that its controller tries again at once."""

# Vendors.
NVIDIA_PREFIX: Final = "nvidia.com/"
NVIDIA_GPU: Final = NVIDIA_PREFIX + "gpu"
NVIDIA_GPU_SHARED: Final = NVIDIA_PREFIX + "gpu.shared"
NVIDIA_MIG_PREFIX: Final = NVIDIA_PREFIX + "mig-"
AMD_PREFIX: Final = "amd.com/"
AMD_GPU: Final = AMD_PREFIX + "gpu"
INTEL_GPU_PREFIX: Final = "gpu.intel.com/"
INTEL_GPUS: Final = (INTEL_GPU_PREFIX + "i915", INTEL_GPU_PREFIX + "xe")
"""Intel's cards by their kernel driver. Its other resources (`monitoring`, `millicores`) count no cards."""

# HAMi.
NVIDIA_GPUMEM: Final = NVIDIA_PREFIX + "gpumem"
NVIDIA_GPUMEM_PERCENTAGE: Final = NVIDIA_PREFIX + "gpumem-percentage"
NVIDIA_GPUCORES: Final = NVIDIA_PREFIX + "gpucores"
NVIDIA_PRIORITY: Final = NVIDIA_PREFIX + "priority"
AMD_GPUMEM: Final = AMD_PREFIX + "gpumem"
AMD_GPUCORES: Final = AMD_PREFIX + "gpucores"
HAMI_RESOURCES: Final = frozenset(
    {NVIDIA_GPUMEM, NVIDIA_GPUMEM_PERCENTAGE, NVIDIA_GPUCORES, NVIDIA_PRIORITY, AMD_GPUMEM, AMD_GPUCORES}
)
NVIDIA_USE_TYPE: Final = NVIDIA_PREFIX + "use-gputype"
NVIDIA_NO_USE_TYPE: Final = NVIDIA_PREFIX + "nouse-gputype"
NVIDIA_USE_UUID: Final = NVIDIA_PREFIX + "use-gpuuuid"
NVIDIA_NO_USE_UUID: Final = NVIDIA_PREFIX + "nouse-gpuuuid"
AMD_USE_TYPE: Final = AMD_PREFIX + "use-gputype"
AMD_NO_USE_TYPE: Final = AMD_PREFIX + "nouse-gputype"
AMD_USE_UUID: Final = AMD_PREFIX + "use-gpu-uuid"
AMD_NO_USE_UUID: Final = AMD_PREFIX + "nouse-gpu-uuid"
HAMI_ANNOTATIONS: Final = frozenset(
    {NVIDIA_USE_TYPE, NVIDIA_NO_USE_TYPE, NVIDIA_USE_UUID, NVIDIA_NO_USE_UUID}
    | {AMD_USE_TYPE, AMD_NO_USE_TYPE, AMD_USE_UUID, AMD_NO_USE_UUID}
)

# KAI, as pod annotations.
KAI_MEMORY: Final = "gpu-memory"
KAI_FRACTION: Final = "gpu-fraction"
KAI_DEVICES: Final = "gpu-fraction-num-devices"
KAI_CONTAINER: Final = "gpu-fraction-container-name"
KAI_ANNOTATIONS: Final = frozenset({KAI_MEMORY, KAI_FRACTION, KAI_DEVICES, KAI_CONTAINER})

# Variables by which a container is shown cards, or picks among those it sees.
NVIDIA_VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"
CUDA_VISIBLE_DEVICES: Final = "CUDA_VISIBLE_DEVICES"
ROCR_VISIBLE_DEVICES: Final = "ROCR_VISIBLE_DEVICES"
HIP_VISIBLE_DEVICES: Final = "HIP_VISIBLE_DEVICES"
GPU_DEVICE_ORDINAL: Final = "GPU_DEVICE_ORDINAL"
NVIDIA_REQUIRE_CUDA: Final = "NVIDIA_REQUIRE_CUDA"
NVIDIA_DISABLE_REQUIRE: Final = "NVIDIA_DISABLE_REQUIRE"
NO_DEVICES: Final = frozenset({"none", "void", ""})

# Groups of pods that serve one model.
LWS_GROUP_SIZE: Final = "LWS_GROUP_SIZE"
"""Set by LeaderWorkerSet on every pod of a group."""
RAY_ADDRESS: Final = "RAY_ADDRESS"

# Kubernetes.
MIRROR_POD: Final = "kubernetes.io/config.mirror"
DEFAULT_SCHEDULER: Final = "default-scheduler"
PREEMPT_NEVER: Final = "Never"
"""The `preemptionPolicy` of pods that wait for room instead of taking it from others."""
POD_SLOTS: Final = "pods"
CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
HUGEPAGES_PREFIX: Final = "hugepages-"
NODE_NAME_FIELD: Final = "metadata.name"
"""The one field that a node affinity term may match by `matchFields`."""
POD_TEMPLATE_HASH: Final = "pod-template-hash"
"""The label that tells the ReplicaSets of one Deployment apart, and the end of their names."""
CONTROLLER_REVISION_HASH: Final = "controller-revision-hash"
"""The label that tells the revisions of one DaemonSet or StatefulSet apart."""
NODE_CONDITION_PREFIX: Final = "node.kubernetes.io/"
"""Begins the taints that Kubernetes sets by itself where a node is in trouble or takes no pods."""
TAINT_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
TAINT_NOT_READY: Final = "node.kubernetes.io/not-ready"
TAINT_UNREACHABLE: Final = "node.kubernetes.io/unreachable"
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
OLD_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION: Final = "failure-domain.beta.kubernetes.io/region"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
"""The provisioner of storage classes whose volumes an admin makes."""
CLAIM_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""The annotation by which a claim named its class before it had a field for it."""
CLAIM_SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)

# Node labels that tell of a vendor's cards.
GFD_PREFIX: Final = "nvidia.com/gpu."
GFD_COUNT: Final = "nvidia.com/gpu.count"
GFD_MEMORY: Final = "nvidia.com/gpu.memory"
GFD_PRODUCT: Final = "nvidia.com/gpu.product"
GFD_REPLICAS: Final = "nvidia.com/gpu.replicas"
GFD_CUDA_VERSION: Final = "nvidia.com/cuda.runtime-version.full"
GFD_CUDA_PARTS: Final = (
    ("nvidia.com/cuda.runtime-version.major", "nvidia.com/cuda.runtime-version.minor"),
    ("nvidia.com/cuda.runtime.major", "nvidia.com/cuda.runtime.minor"),
)
GFD_DRIVER_MAJORS: Final = ("nvidia.com/cuda.driver-version.major", "nvidia.com/cuda.driver.major")
GFD_DRIVER_VERSION: Final = "nvidia.com/cuda.driver-version.full"
AMD_PREFIXES: Final = ("amd.com/gpu.", "beta.amd.com/gpu.")
AMD_VRAM: Final = "amd.com/gpu.vram"
GKE_ACCELERATOR: Final = "cloud.google.com/gke-accelerator"
GKE_CLIENTS: Final = "cloud.google.com/gke-max-shared-clients-per-gpu"
GKE_COUNT: Final = "cloud.google.com/gke-accelerator-count"
GKE_PARTITION: Final = "cloud.google.com/gke-gpu-partition-size"
EKS_GPU_PREFIXES: Final = ("karpenter.k8s.aws/instance-gpu-", "eks.amazonaws.com/instance-gpu-")
"""Followed by `name`, `manufacturer`, `count` or `memory` (MiB)."""
AKS_ACCELERATORS: Final = ("kubernetes.azure.com/accelerator", "accelerator")
"""Their value is the vendor."""

_CARD_RESOURCE = re.compile(re.escape(CARD_RESOURCE_PREFIX) + r"(0|[1-9][0-9]{0,2})\Z")


def card_resource(index: int) -> str:
    """The extended resource of the card in slot `index`, counted in GB: `kamiwaza.ai/vram-gb-gpu-0`."""
    return f"{CARD_RESOURCE_PREFIX}{index}"


def card_index(resource: str) -> int | None:
    """The slot a per-card resource name stands for, or None if `resource` is something else."""
    match = _CARD_RESOURCE.match(resource)
    return int(match[1]) if match else None
