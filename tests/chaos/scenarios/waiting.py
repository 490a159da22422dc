"""Hundreds of owners of all kinds wait while memory comes free bit by bit: the first in rank are woken, nobody else."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from hack.devcluster.api import Json
from shared.api import names
from tests.chaos.holding import Holding
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene
from tests.chaos.standstill import standstills
from tests.e2e.conftest import Pool
from tests.e2e.kube import Namespace, pod, template, until, workload
from tests.e2e.trouble import CONVERGED_S

_WHOLE = {names.VRAM: "16"}
_CARDS, _NODES = 4, 4
_FREED = 4
"""So many cards come free at once."""
_KINDS = {"Deployment": 50, "ReplicaSet": 50, "StatefulSet": 50, "Job": 10, "CronJob": 2, "DaemonSet": 1}
_RANKED = ("deployment", "replicaset", "statefulset", "job-")
"""The others come each minute, or ask for certain nodes, and so have no certain place among them."""
_PRIORITIES = 4
_REFUSED_S = 120.0
_WALKS_S = 1.5
"""Time for one more walk, and less than room is kept for owners that were woken: it goes to the next ones then."""
_WOKEN = {"replicasets": "ReplicaSet", "statefulsets": "StatefulSet", "daemonsets": "DaemonSet", "jobs": "Job"}
_MOST_WAKES = 3
"""How often one owner may be touched in a round, in which none of the touched can do anything."""

Rank: TypeAlias = tuple[int, str, str]
"""Priority, lowest for the highest, then since when it waits."""


@dataclass(slots=True)
class _Wakes:
    """The owners of a namespace that a controller has touched, in order: `ReplicaSet.chat-5d4f`."""

    namespace: Namespace
    owners: list[str] = field(default_factory=list)

    def hear(self, method: str, path: str) -> None:
        """Of one request."""
        parts = path.split("/")
        if method == "PATCH" and len(parts) > 3 and parts[-3] == self.namespace.name and parts[-2] in _WOKEN:
            self.owners.append(f"{_WOKEN[parts[-2]]}.{parts[-1]}")


def _waiting(scene: Scene) -> None:
    here, namespace = scene.pool(*[16] * _CARDS, nodes=_NODES), scene.make_namespace()
    holders = [pod(f"holder-{number}", _WHOLE, pool=here.name) for number in range(_CARDS * _NODES)]
    scene.api.each(namespace.create, holders)
    owners = list(_owners(scene, here))
    scene.api.each(namespace.create, owners)
    scene.created["by owners"] += len(owners)
    ranked = sum(owner["metadata"]["name"].startswith(_RANKED) for owner in owners)
    until("all wait", lambda: len(_ranks(namespace)) == ranked, within_s=_REFUSED_S)
    woken: set[str] = set()
    slowest_s = 0.0
    for start in range(0, len(holders), _FREED):
        woken |= _round(scene, here, namespace, holders[start : start + _FREED], woken)
        began = time.monotonic()
        until("nobody waits who fits", lambda: not standstills(scene.api, here.nodes), within_s=CONVERGED_S)
        slowest_s = max(slowest_s, time.monotonic() - began)
    scene.figures["woken"] = str(len(woken))
    scene.figures["all who fit were placed within"] = f"{slowest_s:.1f} s"


def _round(scene: Scene, here: Pool, namespace: Namespace, holders: list[Json], earlier: set[str]) -> set[str]:
    """Frees some cards while the owners' controllers stand still, which else try by themselves; who is woken.

    Those woken `earlier` may be paused, and who has a pod may be shown as waiting a little longer.
    """
    controllers = scene.stage.cluster.process("kube-controller-manager")
    scene.kill(controllers, signal.SIGSTOP)
    try:
        placed = {_owner(each) for each in namespace.listed("Pod")}
        ranks = {owner: rank for owner, rank in _ranks(namespace).items() if owner not in placed | earlier}
        with _listening(scene, namespace) as wakes:
            for holder in holders:
                namespace.delete("Pod", holder["metadata"]["name"])
                scene.tell("memory freed", here.name)
            until("somebody is woken", lambda: wakes.owners)
            time.sleep(_WALKS_S)
        cards = _CARDS * _NODES * 16 - Holding(scene.api, here.nodes, "").total_gb()
    finally:
        controllers.kill(signal.SIGCONT)
    distinct = list(dict.fromkeys(wakes.owners))
    too_early = list(passed_over(distinct, ranks))
    assert not too_early, f"woken too early: {'; '.join(too_early[:3])}"
    # For those that did nothing when they were woken before no room is kept, so they are woken beside the others.
    first_time = set(distinct) - earlier
    assert len(first_time) <= cards // 16, f"{len(first_time)} owners were woken for {cards // 16} cards"
    assert len(wakes.owners) <= _MOST_WAKES * len(distinct), f"{len(wakes.owners)} wakes of {len(distinct)} owners"
    return set(distinct)


def _owners(scene: Scene, here: Pool) -> Iterator[Json]:
    """Owners of all kinds that want a card for each of their pods, in any order of priority."""
    chance = scene.chance("priorities")
    classes = [scene.priority_class(f"chaos-{rank}", rank) for rank in range(_PRIORITIES)]
    for kind, count in _KINDS.items():
        for number in range(count):
            name = f"{kind.lower()}-{number}"
            pods = template(name, _WHOLE, here.name, priorityClassName=chance.choice(classes))
            match kind:
                case "Job":
                    yield _job(name, pods)
                case "CronJob":
                    spec: dict[str, Any] = {"schedule": "* * * * *", "concurrencyPolicy": "Forbid"}
                    spec["jobTemplate"] = {"spec": _job(name, pods)["spec"]}
                    yield {"apiVersion": "batch/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}
                case _:
                    yield workload(kind, name, pods)


def _job(name: str, pods: Json) -> Json:
    spec = {"template": {**pods, "spec": {**pods["spec"], "restartPolicy": "Never"}}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": spec}


def _ranks(namespace: Namespace) -> dict[str, Rank]:
    """Every owner that waits and has a place among the others, by its name in a status: `ReplicaSet.chat-5d4f`."""
    return {
        owner: (-refusal["priority"], refusal["since"], refusal["uid"])
        for placement in namespace.listed(names.MODEL_PLACEMENT)
        for owner, refusal in (placement.get("status", {}).get("refusals") or {}).items()
        if owner.partition(".")[2].startswith(_RANKED)
    }


def _owner(each: Json) -> str:
    return next((f"{ref['kind']}.{ref['name']}" for ref in each["metadata"].get("ownerReferences") or ()), "")


def passed_over(woken: list[str], ranks: dict[str, Rank]) -> Iterator[str]:
    """Owners that were woken before one of lower rank was, or though it never was."""
    first = [owner for owner in woken if owner in ranks]
    never = [owner for owner in ranks if owner not in first]
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


WAITING = Scenario("waiting", _waiting, 45.0)
