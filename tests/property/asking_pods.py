"""Pods that ask for cards in every way, for property tests."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

VRAM = "kamiwaza.ai/vram-gb"
GPUS = "kamiwaza.ai/gpus"

_TERMS = st.sampled_from(
    [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["west"]}]},
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]},
        {"matchExpressions": [{"key": "gone", "operator": "DoesNotExist"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["elsewhere"]}]},
        {"matchExpressions": [], "matchFields": []},
        {},
    ]
)
_AFFINITY: st.SearchStrategy[dict[str, Any] | None] = st.one_of(
    st.none(),
    st.just({}),
    st.just({"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}}),
    st.lists(_TERMS, min_size=1, max_size=3).map(
        lambda terms: {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms},
                "preferredDuringSchedulingIgnoredDuringExecution": [],
            }
        }
    ),
)
_VARIABLES: st.SearchStrategy[list[dict[str, Any]]] = st.lists(
    st.sampled_from(
        [
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "ROCR_VISIBLE_DEVICES", "value": "0"},
            {"name": "HIP_VISIBLE_DEVICES", "value": "1"},
            {"name": "HIP_VISIBLE_DEVICES", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}},
            {"name": "GPU_DEVICE_ORDINAL", "value": "0,1"},
            {"name": "NVIDIA_REQUIRE_CUDA", "value": "cuda>=1.0"},
            {"name": "CUDA_VISIBLE_DEVICES", "value": "0"},
            {"name": "CUDA_VISIBLE_DEVICES", "value": "5"},
            {"name": "MODEL", "value": "$(NVIDIA_VISIBLE_DEVICES)"},
            {"name": "PORT", "value": "8000"},
        ]
    ),
    max_size=4,
    unique_by=lambda variable: str(variable["name"]),
)
_PLAIN: st.SearchStrategy[dict[str, Any]] = st.sampled_from(
    [{}, {"limits": {"cpu": "2"}}, {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": None}]
)


@st.composite
def asking_pods(draw: st.DrawFn) -> dict[str, Any]:
    """A pod of which `main` asks, and perhaps others; some of them ask for what cannot be."""
    main, annotations = draw(_asking_containers())
    spec: dict[str, Any] = {"containers": draw(st.permutations([main, *draw(_helpers())]))}
    init = draw(_init_containers())
    if draw(st.booleans()) or init:
        spec["initContainers"] = init
    affinity = draw(_AFFINITY)
    if draw(st.booleans()) or affinity is not None:
        spec["affinity"] = affinity
    if draw(st.booleans()):
        spec["runtimeClassName"] = "kata"
    metadata: dict[str, Any] = {"name": "pod", "namespace": "models"}
    if draw(st.booleans()) or annotations:
        metadata["annotations"] = annotations
    if draw(st.booleans()):
        metadata["labels"] = draw(st.sampled_from([None, {}, {"app": "chat"}]))
    return {"metadata": metadata, "spec": spec}


@st.composite
def _asking_containers(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, str]]:
    """A container that asks, and the annotations of its pod that belong to the ask."""
    main = draw(_containers("main"))
    both = draw(st.booleans())
    gb = str(draw(st.integers(1, 16)))
    count = draw(st.sampled_from(["1", "2"]))
    match draw(
        st.sampled_from(["annotation", "of-container", "resource", "count", "hami", "kai", "annotation-and-count"])
    ):
        case "annotation":
            return main, {VRAM: gb, GPUS: count, "kamiwaza.ai/container": "main"}
        case "of-container":
            return main, {f"{VRAM}.main": gb}
        case "resource":
            _limit(main, {VRAM: gb, GPUS: count}, both=both)
            return main, {}
        case "count":
            _limit(main, {"nvidia.com/gpu": count}, both=both)
            return main, {}
        case "hami":
            words = draw(
                st.sampled_from(
                    [
                        {"nvidia.com/gpumem": "5k"},
                        {"nvidia.com/gpumem": "4096", "nvidia.com/gpucores": "30", "nvidia.com/priority": "1"},
                        {"nvidia.com/gpumem-percentage": "25", "nvidia.com/gpu": count},
                        {"amd.com/gpumem": "4096", "amd.com/gpu": count},
                    ]
                )
            )
            _limit(main, words, both=both)
            return main, draw(st.sampled_from([{}, {"nvidia.com/nouse-gpuuuid": "GPU-0"}]))
        case "kai":
            amount = draw(st.sampled_from([{"gpu-memory": "5000"}, {"gpu-fraction": "0.3"}]))
            return main, {**amount, "gpu-fraction-num-devices": count, "gpu-fraction-container-name": "main"}
    _limit(main, {draw(st.sampled_from(["nvidia.com/gpu", "amd.com/gpu"])): count}, both=both)
    return main, {VRAM: gb}


@st.composite
def _helpers(draw: st.DrawFn) -> list[dict[str, Any]]:
    """None or one more app container, which seldom asks too."""
    if draw(st.booleans()):
        return []
    helper = {"name": "helper", **draw(st.sampled_from([{}, {"env": [{"name": "PATH", "value": "/"}]}]))}
    if draw(st.integers(0, 3)) == 0:
        _limit(helper, {VRAM: "2"}, both=False)
    return [helper]


@st.composite
def _init_containers(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Perhaps an ordinary init container and a sidecar, which may ask too."""
    found = []
    if draw(st.booleans()):
        early = draw(_containers("early"))
        _limit(
            early,
            draw(st.sampled_from([{}, {"nvidia.com/gpu": "1"}, {VRAM: "3"}, {"nvidia.com/gpumem": "3072"}])),
            both=False,
        )
        found.append(early)
    if draw(st.booleans()):
        beside: dict[str, Any] = {"name": "beside", "restartPolicy": "Always"}
        _limit(beside, draw(st.sampled_from([{}, {VRAM: "1"}])), both=False)
        found.append(beside)
    return found


@st.composite
def _containers(draw: st.DrawFn, name: str) -> dict[str, Any]:
    container: dict[str, Any] = {"name": name, "image": f"example/{name}"}
    resources = draw(st.one_of(st.none(), _PLAIN))
    if resources is not None:
        container["resources"] = {key: value if value is None else dict(value) for key, value in resources.items()}
    env = draw(_VARIABLES)
    if env:
        container["env"] = env
    return container


def _limit(container: dict[str, Any], resources: dict[str, str], *, both: bool) -> None:
    for where in ("limits", "requests") if both else ("limits",):
        there = container.setdefault("resources", {}).get(where) or {}
        container["resources"][where] = {**there, **resources}
