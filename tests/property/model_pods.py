"""Random pods that speak of GPUs in all the ways people do, in the JSON that the API server sends."""

from __future__ import annotations

from typing import Any, TypeAlias

from hypothesis import strategies as st

Json: TypeAlias = dict[str, Any]

CONTAINER_NAMES = ("main", "server", "proxy")
ASK_KEYS = (
    "kamiwaza.ai/vram-gb",
    "kamiwaza.ai/gpus",
    "kamiwaza.ai/container",
    "kamiwaza.ai/vendor",
    "kamiwaza.ai/accel-version",
    "kamiwaza.ai/policy",
    *(f"kamiwaza.ai/vram-gb.{name}" for name in CONTAINER_NAMES),
)
OTHER_KEYS = (
    "kamiwaza.ai/vram-gbs",
    "kamiwaza.ai/model",
    "kamiwaza.ai/placed",
    "kamiwaza.ai/reservation",
    "kamiwaza.ai",
    "nvidia.com/use-gputype",
    "nvidia.com/nouse-gpuuuid",
    "nvidia.com/gpumem",
    "amd.com/use-gputype",
    "nvidia.com/gpu.product",
    "nvidia.com",
    "gpu-memory",
    "gpu-fraction",
    "gpu-fraction-num-devices",
    "gpu-fraction-container-name",
    "gpu-memory-mib",
    "gpu",
    "gpu-fractions",
    "amd.com/gpu",
    "app",
    "",
)
RESOURCES = (
    "cpu",
    "memory",
    "kamiwaza.ai/vram-gb",
    "kamiwaza.ai/gpus",
    "kamiwaza.ai/vram-gb-gpu-0",
    "nvidia.com/gpu",
    "nvidia.com/gpu.shared",
    "nvidia.com/mig-1g.5gb",
    "nvidia.com/gpumem",
    "nvidia.com/gpumem-percentage",
    "nvidia.com/gpucores",
    "nvidia.com/priority",
    "nvidia.com/gpu-mem",
    "amd.com/gpu",
    "amd.com/gpumem",
    "gpu.intel.com/i915",
    "gpu.intel.com",
    "example.com/nvidia.com/gpu",
    "hugepages-2Mi",
)
VALUES = ("6", "6Gi", "50%", "whole", "1", "2", "0", "-1", "16GB", "", "main", "server", "nvidia", "amd", "cuda>=12.4",
          "0.5", "8192", "spread", "exclusive", "1500m")  # fmt: skip


texts = st.sampled_from(VALUES)
quantities = st.sampled_from(["0", "1", "2", "6", "5k", "1500m", "6Gi", "x"])


def record(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """An object in which any field may be missing."""
    return st.fixed_dictionaries({}, optional=fields)


keys_of_metadata = st.dictionaries(st.sampled_from(ASK_KEYS + OTHER_KEYS), texts, max_size=3)
amounts = st.dictionaries(st.sampled_from(RESOURCES), quantities, max_size=3)
variables = st.fixed_dictionaries(
    {"name": st.sampled_from(["NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "NVIDIA_REQUIRE_CUDA", "HOME"])},
    optional={
        "value": st.sampled_from(["all", "0,1", "GPU-1", "none", "void", ""]),
        "valueFrom": st.just({"configMapKeyRef": {"name": "c", "key": "k"}}),
    },
)


def containers(names: tuple[str, ...], **more: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Json]]:
    """Containers of different names."""
    fields = {"resources": record(limits=amounts, requests=amounts), "env": st.lists(variables, max_size=2), **more}
    return st.lists(
        st.fixed_dictionaries({"name": st.sampled_from(names)}, optional=fields),
        max_size=len(names),
        unique_by=lambda container: container["name"],
    )


model_pods = st.fixed_dictionaries(
    {
        "metadata": record(annotations=keys_of_metadata, labels=keys_of_metadata),
        "spec": st.fixed_dictionaries(
            {"containers": st.none() | containers(CONTAINER_NAMES)},
            optional={
                "initContainers": containers(("fetch", "warm"), restartPolicy=st.just("Always")),
            },
        ),
    }
)


def few(values: tuple[str, ...]) -> st.SearchStrategy[str | None]:
    """One of `values`, or as often nothing."""
    return st.none() | st.sampled_from(values)


@st.composite
def asking_pods(draw: st.DrawFn) -> Json:
    """Pods whose words are well formed: most of them ask for something that can be had."""
    names = CONTAINER_NAMES[: draw(st.integers(1, 3))]
    annotations = {
        "kamiwaza.ai/vram-gb": draw(few(("6", "6Gi", "50%", "whole"))),
        "kamiwaza.ai/gpus": draw(few(("1", "2"))) if draw(st.booleans()) else None,
        "kamiwaza.ai/container": draw(st.sampled_from(names)),
        "kamiwaza.ai/policy": draw(few(("spread", "exclusive"))),
        "kamiwaza.ai/vram-gb.fetch": draw(few(("8",))),
        "gpu-memory": draw(st.sampled_from((None, None, "6144"))),
        "nvidia.com/use-gputype": draw(st.sampled_from((None, None, "A10,L4"))),
        **{f"kamiwaza.ai/vram-gb.{name}": draw(few(("6", "12"))) for name in names[1:]},
    }
    limits = st.sampled_from(
        [
            {},
            {},
            {"nvidia.com/gpu": "1"},
            {"nvidia.com/gpu": "0"},
            {"kamiwaza.ai/vram-gb": "6"},
            {"nvidia.com/gpumem": "6144"},
            {"nvidia.com/gpu": "2", "nvidia.com/gpumem-percentage": "50"},
            {"nvidia.com/gpucores": "30"},
        ]
    )
    env = st.sampled_from([[], [], [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]])
    return {
        "metadata": {"annotations": {key: value for key, value in annotations.items() if value is not None}},
        "spec": {
            "containers": [{"name": name, "resources": {"limits": draw(limits)}} for name in names],
            "initContainers": [
                {"name": "fetch", "env": draw(env)},
                {"name": "helper", "restartPolicy": "Always", "resources": {"limits": draw(limits)}},
            ],
        },
    }
