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
_AFFINITY = st.one_of(
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
_VARIABLES = st.lists(
    st.sampled_from(
        [
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_VISIBLE_DEVICES", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "ROCR_VISIBLE_DEVICES", "value": "0"},
            {"name": "CUDA_VISIBLE_DEVICES", "value": "0"},
            {"name": "CUDA_VISIBLE_DEVICES", "value": "5"},
            {"name": "MODEL", "value": "$(NVIDIA_VISIBLE_DEVICES)"},
            {"name": "PORT", "value": "8000"},
        ]
    ),
    max_size=4,
    unique_by=lambda variable: variable["name"],
)
_PLAIN = st.sampled_from([{}, {"limits": {"cpu": "2"}}, {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": None}])


@st.composite
def asking_pods(draw: st.DrawFn) -> dict[str, Any]:
    """A pod of which `main` asks, and perhaps others; some of them ask for what cannot be."""
    annotations: dict[str, str] = {}
    main = draw(_containers("main"))
    gb = str(draw(st.integers(1, 16)))
    match draw(st.sampled_from(["annotation", "of-container", "resource", "count", "annotation-and-count"])):
        case "annotation":
            annotations |= {VRAM: gb, "kamiwaza.ai/container": "main"}
            if draw(st.booleans()):
                annotations[GPUS] = "2"
        case "of-container":
            annotations |= {f"{VRAM}.main": gb}
        case "resource":
            _limit(main, {VRAM: gb, **draw(st.sampled_from([{}, {GPUS: "2"}]))}, both=draw(st.booleans()))
        case "count":
            _limit(main, {"nvidia.com/gpu": draw(st.sampled_from(["1", "2"]))}, both=draw(st.booleans()))
        case _:
            annotations |= {VRAM: gb}
            _limit(main, {draw(st.sampled_from(["nvidia.com/gpu", "amd.com/gpu"])): "2"}, both=draw(st.booleans()))
    helpers = []
    if draw(st.booleans()):
        helper = {"name": "helper", **draw(st.sampled_from([{}, {"env": [{"name": "PATH", "value": "/"}]}]))}
        if draw(st.integers(0, 3)) == 0:
            _limit(helper, {VRAM: "2"}, both=False)
        helpers.append(helper)
    init = []
    if draw(st.booleans()):
        early = draw(_containers("early"))
        _limit(early, draw(st.sampled_from([{}, {"nvidia.com/gpu": "1"}, {VRAM: "3"}])), both=False)
        init.append(early)
    if draw(st.booleans()):
        beside: dict[str, Any] = {"name": "beside", "restartPolicy": "Always"}
        _limit(beside, draw(st.sampled_from([{}, {VRAM: "1"}])), both=False)
        init.append(beside)
    spec: dict[str, Any] = {"containers": draw(st.permutations([main, *helpers]))}
    if init or draw(st.booleans()):
        spec["initContainers"] = init
    affinity = draw(_AFFINITY)
    if affinity is not None or draw(st.booleans()):
        spec["affinity"] = affinity
    if draw(st.booleans()):
        spec["runtimeClassName"] = "kata"
    metadata: dict[str, Any] = {"name": "pod", "namespace": "models"}
    if annotations or draw(st.booleans()):
        metadata["annotations"] = annotations
    if draw(st.booleans()):
        metadata["labels"] = draw(st.sampled_from([None, {}, {"app": "chat"}]))
    return {"metadata": metadata, "spec": spec}


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
