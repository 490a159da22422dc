"""Small cases for tests of the runner itself."""

from __future__ import annotations

from functools import cache
from typing import Any

from tests.cases.chart import Chart, render, rendered
from tests.cases.expect import differences
from tests.cases.owners import steps_of
from tests.cases.play import Played, play
from tests.fakes.objects import Json


@cache
def chart_text(*, sharing: bool = True) -> str:
    """The chart, rendered once in a run of the tests."""
    return render(sharing=sharing)


def chart() -> Chart:
    """The chart with sharing of cards."""
    return rendered(chart_text())


def a_gpu(index: int = 0, gb: int = 24, **fields: Any) -> Json:
    return {
        "index": index, "model": "NVIDIA A10", "vendor": "nvidia", "vramGB": gb, "memoryClass": "discrete",
        "driver": "580.95.05", "cuda": "13.0", **fields,
    }  # fmt: skip


def a_node(name: str = "n1", *gpus: Json, **fields: Any) -> Json:
    return {
        "name": name, "labels": {}, "taints": [], "unschedulable": False, "ready": True,
        "allocatable": {"cpu": "32", "memory": "256Gi", "pods": "110"}, "gpus": list(gpus) or [a_gpu()], **fields,
    }  # fmt: skip


def a_pod(name: str = "a", namespace: str = "models", **fields: Any) -> Json:
    """A pod as its client sends it. `owner` is kind and name, `spec`, `metadata` and `container` are merged in."""
    container = {"name": "server", "image": "registry.example/server:1", **fields.get("container", {})}
    metadata = {"name": name, "namespace": namespace, **fields.get("metadata", {})}
    if "owner" in fields:
        kind, owner = fields["owner"]
        metadata = {**metadata, "ownerReferences": [{"kind": kind, "name": owner, "controller": True}]}
    spec = {"containers": [container], **fields.get("spec", {})}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def named(name: str = "a", **fields: Any) -> Json:
    """A pod as a step names it."""
    return {"kind": "Pod", "name": name, "namespace": "models", **fields}


def creates(name: str = "a", gb: int | None = 8, gpus: int = 1, *, action: str = "create", **fields: Any) -> Json:
    """A create of a pod. Fields of `a_pod` are taken out of `fields`, the others are the step's."""
    of_pod = {key: fields.pop(key) for key in ("container", "metadata", "owner", "spec", "namespace") if key in fields}
    budget = {} if gb is None else {"budget": {"vramGB": gb, "gpus": gpus}}
    return {"action": action, "object": a_pod(name, **of_pod), **budget, **fields}


def holding(name: str = "held", gb: int = 16, gpu: int = 0, node: str = "n1", **fields: Any) -> Json:
    """A pod that is there already."""
    holds = [{"gpu": gpu, "vramGB": gb}]
    return {"name": name, "namespace": "models", "node": node, "phase": "Running", "holds": holds, **fields}


def a_case(*steps: Json, expect: Json | None = None, **given: Any) -> Json:
    """A case of these steps on one node with one card, unless `nodes`, `pods` or fields of `cluster` say otherwise."""
    nodes, pods = given.pop("nodes", None) or [a_node()], given.pop("pods", None) or []
    cluster = {"optedInNamespaces": ["models"], "managed": False, "gpuSharing": True, **given}
    when = steps[0] if len(steps) == 1 else {"action": "sequence", "steps": list(steps)}
    return {
        "id": "a-case",
        "given": {"cluster": cluster, "nodes": nodes, "pods": pods},
        "when": when,
        "expect": expect or {},
    }


def played(case: Json) -> Played:
    """What comes of a case."""
    return play(case, chart_text(sharing=case["given"]["cluster"]["gpuSharing"]))


def found(case: Json, *verdicts: Json, **rest: Any) -> list[str]:
    """Plays the case; the differences from the verdicts of its steps, the last ones first to be left out."""
    steps = steps_of(case["when"])
    told: Json = {"steps": [*([{}] * (len(steps) - len(verdicts))), *verdicts]} if len(steps) > 1 else verdicts[0]
    return differences({**case, "expect": {**told, **rest}}, played(case), chart())
