"""Stages of admission that are not the product's: resource quota and pod security."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any, Final

from tests.fakes.objects import Json
from tests.fakes.pod_rules import amount, containers_of, requests_of

_COMPUTE: Final = frozenset({"cpu", "memory"})
_VOLUMES: Final = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
)
_SECCOMP: Final = frozenset({"RuntimeDefault", "Localhost"})


def quota_refusal(hard: Mapping[str, Any], stored: Iterable[Json], pod: Json) -> str | None:
    """Why a quota refuses one more pod beside those that are stored, or None."""
    missing = sorted({key for key in hard for container in containers_of(pod) if _must_say(key, container)})
    if missing:
        return f"failed quota: case: must specify {', '.join(missing)}"
    wanted = dict(_usage(hard, pod))
    used = {key: Fraction() for key in hard}
    for other in stored:
        if (other.get("status") or {}).get("phase") not in {"Succeeded", "Failed"}:
            for key, value in _usage(hard, other):
                used[key] += value
    over = [key for key, value in wanted.items() if value and used[key] + value > amount(hard[key])]
    if not over:
        return None
    figures = "; ".join(f"{key}: requested {wanted[key]}, used {used[key]}, limited {hard[key]}" for key in over)
    return f"exceeded quota: case, {figures}"


def pod_security_refusal(pod: Json) -> str | None:
    """Why Pod Security at the level `restricted` refuses a pod, or None."""
    found = list(dict.fromkeys(_violations(pod)))
    return f'violates PodSecurity "restricted:latest": {", ".join(found)}' if found else None


def _must_say(key: str, container: Json) -> bool:
    """Whether a quota's key obliges every container to name an amount that this one lacks."""
    kind, _, resource = key.rpartition(".")
    if resource not in _COMPUTE or kind not in {"", "requests", "limits"}:
        return False
    return resource not in ((container.get("resources") or {}).get(kind or "requests") or {})


def _usage(hard: Mapping[str, Any], pod: Json) -> Iterator[tuple[str, Fraction]]:
    requests = requests_of(pod)
    for key in hard:
        if key in {"pods", "count/pods"}:
            yield key, Fraction(1)
        elif key.startswith("limits."):
            yield key, _limits(pod, key.removeprefix("limits."))
        else:
            yield key, requests.get(key.removeprefix("requests."), Fraction())


def _limits(pod: Json, resource: str) -> Fraction:
    amounts = [(each.get("resources") or {}).get("limits") or {} for each in pod["spec"].get("containers") or ()]
    return sum((amount(each.get(resource, "0")) for each in amounts), Fraction())


def _violations(pod: Json) -> Iterator[str]:
    spec = pod.get("spec") or {}
    for field in ("hostNetwork", "hostPID", "hostIPC"):
        if spec.get(field):
            yield f"{field} is not allowed"
    for volume in spec.get("volumes") or ():
        for kind in volume.keys() - {"name"} - _VOLUMES:
            yield f"volume type {kind} is not allowed"
    for container in containers_of(pod):
        yield from _container_violations(container, spec.get("securityContext") or {})


def _container_violations(container: Json, of_pod: Json) -> Iterator[str]:
    own = container.get("securityContext") or {}
    if own.get("privileged"):
        yield "privileged container"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "allowPrivilegeEscalation != false"
    if not own.get("runAsNonRoot", of_pod.get("runAsNonRoot")):
        yield "runAsNonRoot != true"
    if own.get("runAsUser", of_pod.get("runAsUser")) == 0:
        yield "runAsUser=0"
    capabilities = own.get("capabilities") or {}
    if "ALL" not in (capabilities.get("drop") or ()) or set(capabilities.get("add") or ()) - {"NET_BIND_SERVICE"}:
        yield "unrestricted capabilities"
    if (own.get("seccompProfile") or of_pod.get("seccompProfile") or {}).get("type") not in _SECCOMP:
        yield "seccompProfile"
    if any(port.get("hostPort") for port in container.get("ports") or ()):
        yield "hostPort"
