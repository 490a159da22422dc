"""What a scenario is played in: the cluster, a seed, and hands that break things."""

from __future__ import annotations

import contextlib
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hack.devcluster.api import Api, ApiError
from hack.devcluster.chart import NAMESPACE
from hack.devcluster.processes import Process
from shared.api import names
from tests.chaos.operator import ChaosOperator
from tests.chaos.rules import stream
from tests.e2e.conftest import MakeNamespace, MakePool, Pool
from tests.e2e.creates import Created, Outcome, Stream, churn
from tests.e2e.kube import Namespace, deployment, find, until
from tests.e2e.trouble import OwnStage, repeatedly, revive

_LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/placement-operator-controller"
_PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
_CARD_GB = 26
_GROUPS = 3
"""Deployments that come, grow, shrink and go beside the pods that callers create."""
_ROLLOUT_STEP_S = 0.7
_WHOLE_GPUS = 2
_WHOLE_PAUSE_S = 1.0
_LONGEST_MORE_S = 60.0


@dataclass(frozen=True, slots=True)
class ChaosStage(OwnStage):
    """The cluster, and the operator with proxies around it."""

    operator: ChaosOperator


@dataclass(slots=True)
class Scene:
    """One scenario under way. `seconds` is how long trouble should last."""

    stage: ChaosStage
    seed: int
    name: str
    seconds: float
    make_pool: MakePool
    make_namespace: MakeNamespace
    least_admitted: int = 0
    nodes: list[str] = field(default_factory=list)
    created: Counter[str] = field(default_factory=Counter)
    figures: dict[str, str] = field(default_factory=dict)
    """Measured by the scenario itself, for people."""
    _streams: list[Stream] = field(default_factory=list)
    """Loads under way, which are not counted yet."""

    @property
    def api(self) -> Api:
        return self.stage.api

    @property
    def operator(self) -> ChaosOperator:
        return self.stage.operator

    def chance(self, what: str) -> Random:
        """Random numbers for one thing, the same ones under the same seed."""
        return stream(self.seed, self.name, what)

    def pool(self, *gbs: int, nodes: int = 1, **more: Any) -> Pool:
        """Nodes with cards, which are watched from now on."""
        here = self.make_pool(*gbs, nodes=nodes, **more)
        self.nodes += here.nodes
        return here

    def tell(self, fault: str, where: str = "", what: str = "") -> None:
        """Writes down a fault that was injected by hand."""
        self.operator.schedule.add(where, fault, what)

    def count(self, creates: list[Created]) -> None:
        """Adds creates to those that were tried."""
        self.created.update(str(one.outcome) for one in creates)

    def lasting(self, enough: Callable[[], bool] = lambda: True) -> Iterator[float]:
        """The time that is left, again and again, until the trouble is to be over.

        On a machine that is too busy to have admitted enough by then it goes on for a while: of what was not admitted
        nothing can be lost. So it does until there is `enough` of what else the scenario needs.
        """
        end = time.monotonic() + self.seconds
        while (left := end - time.monotonic()) > 0 or (
            left > -_LONGEST_MORE_S and not (self._has_admitted_enough() and enough())
        ):
            yield max(left, 0.0)

    def _has_admitted_enough(self) -> bool:
        """Whether `least_admitted` creates were admitted, and one at least of every load."""
        admitted = [stream.outcomes()[Outcome.ADMITTED] for stream in self._streams]
        return all(admitted) and sum(admitted) + self.created[Outcome.ADMITTED] >= self.least_admitted

    @contextlib.contextmanager
    def load(self, *, callers: int = 4, pause_s: float = 0.15) -> Iterator[Stream]:
        """While the context lasts, models come and go on pools of their own: bare pods, Deployments, and whole GPUs."""
        here, namespace = self.pool(_CARD_GB, _CARD_GB, _CARD_GB, nodes=3), self.make_namespace()
        with (
            self._counted(churn(namespace, here.name, self.seed, gb=6, callers=callers, pause_s=pause_s)) as creates,
            self.rollouts(namespace, here),
            self.whole_gpus(),
        ):
            yield creates

    @contextlib.contextmanager
    def rollouts(self, namespace: Namespace, pool: Pool) -> Iterator[None]:
        """While the context lasts, Deployments come, grow, shrink, roll and go. What was done is told as a figure."""
        rollouts = _Rollouts(namespace, pool, self.chance("rollouts"))
        with repeatedly(rollouts.step, _ROLLOUT_STEP_S):
            yield
        self.figures["Deployments"] = ", ".join(f"{count} {what}" for what, count in sorted(rollouts.done.items()))
        assert rollouts.done, "no step of the Deployments was taken by the API server"

    @contextlib.contextmanager
    def whole_gpus(self) -> Iterator[None]:
        """While the context lasts, pods with whole GPUs come and go on a node whose GPUs a vendor's plugin gives away:
        more are tried than there are. What came of them is told as a figure.
        """
        labels = {f"{names.GFD_PREFIX}memory": "23028"}
        here = self.pool(offers={names.NVIDIA_GPU: _WHOLE_GPUS}, labels=labels)
        one, namespace = {names.NVIDIA_GPU: "1"}, self.make_namespace()
        with self._counted(
            churn(namespace, here.name, self.seed, limits=one, callers=2, pause_s=_WHOLE_PAUSE_S)
        ) as stream:
            yield
        admitted = stream.outcomes()[Outcome.ADMITTED]
        self.figures["whole GPUs"] = f"{admitted} of {len(stream.creates)} admitted"
        assert admitted, "no pod with a whole GPU was admitted"

    @contextlib.contextmanager
    def _counted(self, load: AbstractContextManager[Stream]) -> Iterator[Stream]:
        """A load, which counts as under way until the context ends."""
        with load as stream:
            self._streams.append(stream)
            try:
                yield stream
            finally:
                self._streams.remove(stream)
        self.count(stream.creates)

    def kill(self, process: Process, sig: signal.Signals = signal.SIGKILL) -> None:
        """Sends a signal, and writes it down."""
        self.tell(sig.name, process.name)
        process.kill(sig)

    def strike(self, process: Process, down_s: float) -> None:
        """Kills a process and starts it again so many seconds later, without waiting until it is ready."""
        self.kill(process)
        time.sleep(down_s)
        process.start()

    def leads(self) -> str:
        """The identity of the leading controller; empty while there is none."""
        return str(self.api.get(_LEASE)["spec"].get("holderIdentity") or "")

    def leader(self) -> Process:
        """The controller that leads, once one does."""
        leads = until("a controller leads", self.leads)
        return next(each for each in self.operator.controllers if identity(each) == leads)

    def priority_class(self, name: str, value: int) -> str:
        """The name of a PriorityClass, which is made where it is missing and stays."""
        body = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        if find(self.api, f"{_PRIORITIES}/{name}") is None:
            self.api.create(_PRIORITIES, {**body, "value": value})
        return name

    def calm(self) -> None:
        """Ends all faults and starts what was killed."""
        self.operator.calm()
        for process in (*self.stage.cluster.processes, *self.operator.processes):
            process.kill(signal.SIGCONT)
        revive(*self.stage.cluster.processes, *self.operator.processes)


@dataclass(slots=True)
class _Rollouts:
    """Deployments of 3 GB a pod, one step at a time."""

    namespace: Namespace
    pool: Pool
    chance: Random
    done: Counter[str] = field(default_factory=Counter)

    def step(self) -> None:
        name = f"group-{self.chance.randrange(_GROUPS)}"
        acts = {"scaled": self._scale, "rolled": self._roll, "deleted": self._remove}
        what = self.chance.choice(["scaled", "scaled", "rolled", "deleted"])
        with contextlib.suppress(ApiError, OSError):
            if self.namespace.find("Deployment", name) is None:
                what, acts = "created", {"created": self._create}
            acts[what](name)
            self.done[what] += 1

    def _create(self, name: str) -> None:
        replicas = self.chance.randint(1, 4)
        self.namespace.create(deployment(name, {names.VRAM: "3"}, pool=self.pool.name, replicas=replicas))

    def _scale(self, name: str) -> None:
        self.namespace.merge("Deployment", name, {"spec": {"replicas": self.chance.randint(0, 6)}})

    def _roll(self, name: str) -> None:
        annotations = {"example.com/roll": str(self.chance.random())}
        self.namespace.merge("Deployment", name, {"spec": {"template": {"metadata": {"annotations": annotations}}}})

    def _remove(self, name: str) -> None:
        self.namespace.delete("Deployment", name)


def identity(process: Process) -> str:
    """By which a controller is known in the Lease."""
    assert process.env is not None
    return process.env["PLACEMENT_IDENTITY"]
