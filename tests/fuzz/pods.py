"""Whole pods, as a client or a controller sends them. Most have a place, many have none, some ask nothing."""

from __future__ import annotations

from collections.abc import Sequence

from tests.fuzz import words
from tests.fuzz.dice import Dice
from tests.fuzz.words import Json, fresh

_SERVING, _HELPER = "main", "helper"

_KINDS = {"asking": 14, "wrong": 2, "odd": 1, "silent": 1, "zero": 1, "seeing": 1}
"""What kinds of pods there are, by weight."""
_ASK_WEIGHTS = [ask.weight for ask in words.ASKS]


def a_pod(dice: Dice, namespace: str = "models") -> Json:
    """A pod as the API server sends it to the webhook: defaults filled in or not, and never with a uid."""
    kind = dice.weighted(list(_KINDS), list(_KINDS.values()))
    pod = _bare_pod(dice, namespace)
    if kind in {"asking", "wrong", "odd"}:
        _ask(dice, pod)
    if kind == "wrong":
        _spoil(dice, pod)
    if kind == "zero":
        _limit(_main(pod), "nvidia.com/gpu", dice.one(("0", "0", "0m")))
    if kind == "seeing":
        _main(pod)["env"] = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]
    if kind == "odd":
        _oddly(dice, pod)
    return pod


def _bare_pod(dice: Dice, namespace: str) -> Json:
    metadata: Json = {"labels": dict(dice.one(words.LABELS))}
    if dice.chance(0.5):
        metadata["generateName"] = "chat-5d4f-"
    else:
        metadata["name"] = f"pod-{dice.number(0, 99)}"
    if dice.chance(0.8):
        metadata["namespace"] = namespace
    if dice.chance(0.5):
        metadata["ownerReferences"] = [_owner(dice)]
    if dice.chance(0.1):
        metadata["annotations"] = dict([dice.one(words.OTHER_ANNOTATIONS)])
    spec: Json = {"containers": [_container(dice, _SERVING)]}
    if dice.chance(0.25):
        spec["containers"].append(_container(dice, _HELPER))
        spec["containers"] = dice.shuffled(spec["containers"])
    if dice.chance(0.2):
        spec["initContainers"] = [_container(dice, "fetch")]
        if dice.chance(0.5):
            spec["initContainers"].append({**_container(dice, "proxy"), "restartPolicy": "Always"})
    if dice.chance(0.35):
        spec |= fresh(dice.one(words.SPECS))
    if dice.chance(0.05):
        spec |= fresh(dice.one(words.SPECS))
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _owner(dice: Dice) -> Json:
    api_version, kind = dice.one(words.OWNER_KINDS)
    name = dice.one(list(words.WANTED))
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{kind}-{name}", "controller": True}


def _container(dice: Dice, name: str) -> Json:
    engine = words.ENGINES[0] if dice.chance(0.6) else dice.one(words.ENGINES)
    container: Json = {"name": name, "image": engine.image, **fresh(dice.one(engine.lines))}
    if dice.chance(0.4):
        container["resources"] = fresh(dice.one(words.PLAIN_RESOURCES))
    if dice.chance(0.3):
        container["env"] = _variables(dice)
    if dice.chance(0.08):
        container["ports"] = [fresh(dice.one(words.PORTS))]
    return container


def _variables(dice: Dice) -> list[Json]:
    """Variables of a container. Those that show devices are seldom, since an ask beside them may be refused."""
    variables = [dict(variable) for variable in dice.some(words.OTHER_VARIABLES, 2)]
    if dice.chance(0.3):
        name = dice.one(list(words.DEVICE_VARIABLES))
        if dice.chance(0.2):
            variables.append({"name": name, "valueFrom": dict(dice.one(words.ELSEWHERE))})
        else:
            variables.append({"name": name, "value": dice.one(words.DEVICE_VARIABLES[name])})
        if dice.chance(0.1):
            variables.append({"name": name, "value": dice.one(words.DEVICE_VARIABLES[name])})
    return dice.shuffled(variables)


def _ask(dice: Dice, pod: Json) -> None:
    ask = dice.weighted(words.ASKS, _ASK_WEIGHTS)
    annotations = {key: dice.one(values) for key, values in ask.annotations.items()}
    if len(pod["spec"]["containers"]) == 1:
        annotations.pop(f"{words.VRAM}.{_HELPER}", None)
    elif words.VRAM in annotations and dice.chance(0.8):
        annotations[words.CONTAINER] = _SERVING
    if dice.chance(0.25):
        detail = dice.one(list(words.DETAILS))
        annotations[detail] = dice.one(words.DETAILS[detail])
    both = dice.chance(0.7)
    for resource, values in ask.limits.items():
        _limit(_main(pod), resource, dice.one(values), both=both)
    if "initContainers" in pod["spec"] and dice.chance(0.3):
        asking = dice.one(pod["spec"]["initContainers"])
        _limit(asking, words.VRAM, dice.one(("2", "8", "24")))
    if annotations:
        pod["metadata"]["annotations"] = {**(pod["metadata"].get("annotations") or {}), **annotations}


def _spoil(dice: Dice, pod: Json) -> None:
    """Makes one thing wrong that people get wrong."""
    metadata, main = pod["metadata"], _main(pod)
    annotations = metadata.setdefault("annotations", {})
    match dice.number(0, 7):
        case 0 | 1:
            key = dice.one([*annotations, words.VRAM])
            annotations[key] = dice.one(words.WRONG_VALUES)
        case 2:
            annotations[dice.one(words.MISSPELT_KEYS)] = "6"
        case 3:
            _limit(main, dice.one((words.VRAM, "nvidia.com/gpu", "nvidia.com/gpumem")), dice.one(words.WRONG_VALUES))
        case 4:
            _limit(main, dice.one(words.MISSPELT_KEYS), "6")
        case 5:
            main.setdefault("resources", {})["requests"] = {dice.one((words.VRAM, "nvidia.com/gpu")): "3"}
        case 6:
            metadata["labels"] = {dice.one((words.VRAM, words.GPUS, "kamiwaza.ai/reservation")): "6"}
        case _:
            _ask(dice, pod)
            _limit(main, dice.one((words.VRAM, words.GPUS, "amd.com/gpu")), "3")


def _oddly(dice: Dice, pod: Json) -> None:
    """Writes the same in an odd but legal way, and adds what is seldom seen."""
    for place, key in ((pod["metadata"], "labels"), (pod["metadata"], "annotations"), (pod["spec"], "initContainers")):
        if not place.get(key) and dice.chance(0.5):
            place[key] = dice.one((None, {} if key != "initContainers" else []))
    for container in pod["spec"]["containers"]:
        if dice.chance(0.3):
            container.setdefault("env", dice.one((None, [])))
        if dice.chance(0.3):
            container.setdefault("resources", dice.one((None, {}, {"limits": None}, {"limits": {}, "claims": []})))
        if dice.chance(0.3) and container.get("env"):
            container["env"] = [*container["env"], *container["env"]]
    if dice.chance(0.3):
        pod["spec"]["ephemeralContainers"] = [{"name": "debug", "image": "busybox", "targetContainerName": _SERVING}]
    if dice.chance(0.3):
        pod["metadata"].setdefault("annotations", None)
        pod["metadata"]["managedFields"] = [{"manager": "kubectl", "fieldsV1": {"f:spec": {}}}]
    if dice.chance(0.3):
        pod["status"] = {}
    if dice.chance(0.3):
        pod["metadata"] = dict(reversed(pod["metadata"].items()))


def _main(pod: Json) -> Json:
    return _named(pod["spec"]["containers"], _SERVING)


def _named(containers: Sequence[Json], name: str) -> Json:
    return next(container for container in containers if container["name"] == name)


def _limit(container: Json, resource: str, amount: str, *, both: bool = False) -> None:
    resources = container.get("resources") or {}
    for where in ("limits", "requests") if both else ("limits",):
        resources[where] = {**(resources.get(where) or {}), resource: amount}
    container["resources"] = resources
