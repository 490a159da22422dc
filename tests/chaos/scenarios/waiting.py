"""Hundreds of owners of all kinds wait while memory comes free bit by bit: the first in rank are woken, nobody else."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hack.devcluster.api import Json
from shared.api import names
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene
from tests.chaos.standstill import standstills
from tests.e2e.conftest import Pool
from tests.e2e.kube import Namespace, pod, template, until, workload
from tests.e2e.trouble import CONVERGED_S

_WHOLE = {names.VRAM: "16"}
_CARDS, _NODES = 6, 4
_KINDS = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
_EACH = 50
_CRON_JOBS = 2
_UNRANKED = ("cronjob", "daemonset")
"""They come each minute, or ask for certain nodes, and so have no certain place among the others."""
_PRIORITIES = 4
_REFUSED_S = 120.0
_WOKEN = {"replicasets": "ReplicaSet", "statefulsets": "StatefulSet", "daemonsets": "DaemonSet", "jobs": "Job"}
_MOST_WAKES = 2.0
"""For each pod that was placed: an owner that was woken may be too late, since others try by themselves."""


@dataclass(slots=True)
class _Wakes:
    """The owners of a namespace that a controller has touched, in order: `ReplicaSet.chat-5d4f`."""

    namespace: Namespace
    owners: list[str] = field(default_factory=list)

    def hear(self, method: str, path: str) -> None:
        parts = path.split("/")
        if method == "PATCH" and parts[-3:-1] and parts[-3] == self.namespace.name and parts[-2] in _WOKEN:
            self.owners.append(f"{_WOKEN[parts[-2]]}.{parts[-1]}")


def _waiting(scene: Scene) -> None:
    here, namespace = scene.pool(*[16] * _CARDS, nodes=_NODES), scene.make_namespace()
    holders = [pod(f"holder-{number}", _WHOLE, pool=here.name) for number in range(_CARDS * _NODES)]
    scene.api.each(namespace.create, holders)
    owners = list(_owners(scene, here))
    scene.api.each(namespace.create, owners)
    scene.created["by owners"] += len(owners)
    known = len(_KINDS) * _EACH
    ranks = until("all wait", lambda: _all(_ranks(namespace), known), within_s=_REFUSED_S)
    with _listening(scene, namespace) as wakes:
        for holder in holders:
            namespace.delete("Pod", holder["metadata"]["name"])
            scene.tell("memory freed", here.name)
            time.sleep(scene.seconds / len(holders))
        began = time.monotonic()
        until("nobody waits who fits", lambda: not standstills(scene.api, here.nodes), within_s=CONVERGED_S)
        scene.figures["all who fit were placed within"] = f"{time.monotonic() - began:.1f} s"
    left = set(_ranks(namespace))
    placed = len(ranks.keys() - left)
    scene.figures["placed"] = f"{placed} of {known}"
    scene.figures["wakes"] = str(len(wakes.owners))
    passed_over = list(_passed_over(wakes.owners, ranks, left))
    assert placed >= len(holders), f"only {placed} owners were placed on {len(holders)} cards"
    assert not passed_over, f"{len(passed_over)} woken too early: {'; '.join(passed_over[:3])}"
    assert len(wakes.owners) <= _MOST_WAKES * placed, f"{len(wakes.owners)} wakes for {placed} owners"


def _owners(scene: Scene, here: Pool) -> Iterator[Json]:
    """Owners of all kinds that want a card for each of their pods, in any order of priority."""
    chance = scene.chance("priorities")
    classes = [scene.priority_class(f"chaos-{rank}", rank) for rank in range(_PRIORITIES)]
    for number in range(_EACH):
        for kind in _KINDS:
            name = f"{kind.lower()}-{number}"
            pods = template(name, _WHOLE, here.name, priorityClassName=chance.choice(classes))
            yield _job(name, pods) if kind == "Job" else workload(kind, name, pods)
    for number in range(_CRON_JOBS):
        name = f"cronjob-{number}"
        job = {"spec": _job(name, template(name, _WHOLE, here.name))["spec"]}
        spec = {"schedule": "* * * * *", "concurrencyPolicy": "Forbid", "jobTemplate": job}
        yield {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": name}, "spec": spec}
    yield workload("DaemonSet", "daemonset", template("daemonset", _WHOLE, here.name))


def _job(name: str, pods: Json) -> Json:
    spec = {"template": {**pods, "spec": {**pods["spec"], "restartPolicy": "Never"}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def _ranks(namespace: Namespace) -> dict[str, tuple[int, str, str]]:
    """Every owner that waits and could go to any node, as its ModelPlacement says: the first in turn ranks lowest."""
    return {
        owner: (-refusal["priority"], refusal["since"], refusal["uid"])
        for placement in namespace.listed(names.MODEL_PLACEMENT)
        for owner, refusal in (placement.get("status", {}).get("refusals") or {}).items()
        if not owner.partition(".")[2].startswith(_UNRANKED)
    }


def _all(ranks: dict[str, tuple[int, str, str]], count: int) -> dict[str, tuple[int, str, str]]:
    return ranks if len(ranks) == count else {}


def _passed_over(woken: list[str], ranks: dict[str, tuple[int, str, str]], left: set[str]) -> Iterator[str]:
    """Owners that were woken while one of lower rank waited, which was woken later, or never and still waits."""
    first = [owner for owner in dict.fromkeys(woken) if owner in ranks]
    never = [owner for owner in ranks if owner in left and owner not in first]
    for place, owner in enumerate(first):
        before = [each for each in (*first[place + 1 :], *never) if ranks[each] < ranks[owner]]
        if before:
            yield f"{owner} {ranks[owner]} before {before[0]} {ranks[before[0]]}"


@contextmanager
def _listening(scene: Scene, namespace: Namespace) -> Iterator[_Wakes]:
    wakes = _Wakes(namespace)
    proxies = [scene.operator.proxy_of(each) for each in scene.operator.controllers]
    for proxy in proxies:
        proxy.listeners.append(wakes.hear)
    try:
        yield wakes
    finally:
        for proxy in proxies:
            proxy.listeners.remove(wakes.hear)


WAITING = Scenario("waiting", _waiting, 20.0)
