"""The containers of a raw pod, read without trusting its shape."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from shared.api import names
from shared.core.invalid import InvalidRequest

_FIX = "write it as Kubernetes defines it"
_LONGEST_SHOWN = 40


class Role(StrEnum):
    """When a container runs: beside the others (app, sidecar) or before them (init)."""

    APP = "app"
    SIDECAR = "sidecar"
    INIT = "init"


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod. `limits` and `requests` are its quantities as texts, `env` the literal values.

    `env_from_elsewhere` names the variables whose value comes from a Secret, a ConfigMap or a field. `command` and
    `args` are as written, `$(VAR)` references included; empty where the image's own hold.
    """

    name: str
    role: Role
    limits: Mapping[str, str]
    requests: Mapping[str, str]
    env: Mapping[str, str]
    env_from_elsewhere: frozenset[str]
    image: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()

    @property
    def visible_devices(self) -> str | None:
        """What `NVIDIA_VISIBLE_DEVICES` lets the container see, None for no device."""
        if names.NVIDIA_VISIBLE_DEVICES in self.env_from_elsewhere:
            return "(from elsewhere)"
        value = self.env.get(names.NVIDIA_VISIBLE_DEVICES, "")
        return None if value in names.NO_DEVICES else value

    def field(self, resource: str, kind: str = "limits") -> str:
        """Where a resource of this container stands, for a refusal."""
        return f"containers[{self.name}].resources.{kind}[{resource}]"


def read_containers(pod: Mapping[str, Any]) -> tuple[Container, ...]:
    """Init containers and sidecars first, then the app containers. Raises `InvalidRequest` on a shape no pod has.

    Two containers of one name are such a shape: everything that is asked and booked goes by names.
    """
    spec = mapping(pod.get("spec"), "spec")
    containers = tuple(_read(spec))
    names_seen: set[str] = set()
    for container in containers:
        if container.name in names_seen:
            raise InvalidRequest(
                "spec.containers.name", container.name, "is the name of two containers", "give each a name of its own"
            )
        names_seen.add(container.name)
    return containers


def _read(spec: Mapping[str, Any]) -> Iterator[Container]:
    for kind in ("initContainers", "containers"):
        for index, raw in enumerate(sequence(spec.get(kind), f"spec.{kind}")):
            where = f"spec.{kind}[{index}]"
            container = mapping(raw, where)
            resources = mapping(container.get("resources"), f"{where}.resources")
            literal: dict[str, str] = {}
            elsewhere: set[str] = set()
            for entry in sequence(container.get("env"), f"{where}.env"):
                variable = mapping(entry, f"{where}.env")
                name = text(variable.get("name"), f"{where}.env.name")
                # A later entry of the same name wins in the container.
                literal.pop(name, None)
                elsewhere.discard(name)
                if variable.get("valueFrom") is not None:
                    elsewhere.add(name)
                else:
                    literal[name] = text(variable.get("value"), f"{where}.env[{name}]")
            yield Container(
                name=text(container.get("name"), f"{where}.name"),
                role=_role(kind, container),
                limits=texts(resources.get("limits"), f"{where}.resources.limits"),
                requests=texts(resources.get("requests"), f"{where}.resources.requests"),
                env=literal,
                env_from_elsewhere=frozenset(elsewhere),
                image=text(container.get("image"), f"{where}.image"),
                command=_words(container.get("command"), f"{where}.command"),
                args=_words(container.get("args"), f"{where}.args"),
            )


def spec_of(containers: Iterable[tuple[Role, Mapping[str, Any]]]) -> dict[str, list[Mapping[str, Any]]]:
    """The part of a pod's spec that holds `containers`, as raw JSON, each where its role has it stand."""
    spec: dict[str, list[Mapping[str, Any]]] = {"initContainers": [], "containers": []}
    for role, container in containers:
        if role is Role.APP:
            spec["containers"].append(container)
        else:
            policy = "Always" if role is Role.SIDECAR else None
            spec["initContainers"].append({**container, "restartPolicy": policy})
    return spec


def _words(value: Any, where: str) -> tuple[str, ...]:
    return tuple(text(word, f"{where}[{index}]") for index, word in enumerate(sequence(value, where)))


def _role(kind: str, container: Mapping[str, Any]) -> Role:
    if kind == "containers":
        return Role.APP
    return Role.SIDECAR if container.get("restartPolicy") == "Always" else Role.INIT


def mapping(value: Any, where: str) -> Mapping[str, Any]:
    """`value` if it is an object, an empty one if it is absent. Raises `InvalidRequest` otherwise."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise InvalidRequest(where, _shown(value), "is not an object", _FIX)
    return value


def sequence(value: Any, where: str) -> Sequence[Any]:
    """`value` if it is a list, an empty one if it is absent. Raises `InvalidRequest` otherwise."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise InvalidRequest(where, _shown(value), "is not a list", _FIX)
    return value


def texts(value: Any, where: str) -> dict[str, str]:
    """An object whose values are read as texts (quantities, labels, annotations). Raises `InvalidRequest` otherwise."""
    return {str(key): text(item, f"{where}[{key}]") for key, item in mapping(value, where).items()}


def text(value: Any, where: str) -> str:
    """A JSON scalar as the text a user would have written for it. Raises `InvalidRequest` for a list or an object."""
    if isinstance(value, (Mapping, list)):
        raise InvalidRequest(where, _shown(value), "is not a text", "write it in quotes")
    return _scalar(value)


def _scalar(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _shown(value: Any) -> str:
    """`value` as a refusal may quote it. What is nested is not written out: its depth is the caller's choice."""
    if isinstance(value, Mapping):
        return "{...}"
    if isinstance(value, list):
        return "[...]"
    shown = _scalar(value)
    return shown if len(shown) <= _LONGEST_SHOWN else shown[: _LONGEST_SHOWN - 3] + "..."
