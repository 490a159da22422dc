"""GPU models as cloud providers name them in node labels, with the memory that the driver reports, as data.

Values are MiB as nvidia-smi prints them, rounded down where drivers differ. A model that is not here has no known size.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

GKE_ACCELERATOR_MIB: Final[Mapping[str, int]] = {
    "nvidia-tesla-k80": 11441,
    "nvidia-tesla-p4": 7611,
    "nvidia-tesla-p100": 16280,
    "nvidia-tesla-v100": 16160,
    "nvidia-tesla-t4": 15360,
    "nvidia-tesla-a100": 40536,
    "nvidia-a100-80gb": 81251,
    "nvidia-l4": 23034,
    "nvidia-h100-80gb": 81559,
    "nvidia-h100-mega-80gb": 81559,
    "nvidia-h200-141gb": 143771,
    "nvidia-b200": 183359,
    "nvidia-rtx-pro-6000": 97887,
}
"""Values of the label `cloud.google.com/gke-accelerator`."""

CUDA_OF_DRIVER: Final[Mapping[int, str]] = {
    450: "11.0", 460: "11.2", 465: "11.3", 470: "11.4", 495: "11.5", 510: "11.6", 515: "11.7", 520: "11.8",
    525: "12.0", 530: "12.1", 535: "12.2", 545: "12.3", 550: "12.4", 555: "12.5", 560: "12.6", 565: "12.7",
    570: "12.8", 575: "12.9", 580: "13.0", 590: "13.1",
}  # fmt: skip
"""The highest CUDA version that a branch of NVIDIA's driver serves, by its major version."""
