"""Creates that fail after our yes: nothing of them is held for longer than a moment, and never more than is wanted."""

from __future__ import annotations

import contextlib
import signal
import time
from collections.abc import Iterator
from functools import partial

import pytest

from hack.devcluster.api import ApiError
from shared.api import names
from tests.chaos.holding import Holding, owner_claim
from tests.chaos.scenarios.scenario import Scenario
from tests.chaos.scene import Scene
from tests.chaos.webhook_proxy import Moment, TcpRule, reset
from tests.e2e.conftest import Pool
from tests.e2e.creates import create
from tests.e2e.kube import Namespace, delete_if_there, deployment, pod, reservation, until
from tests.e2e.trouble import repeatedly, start_api_server

_FREE_S = 30.0
"""So long after the last try nothing is held any more."""

_GB, _REPLICAS = 4, 3
_TRIES = 100
_LOOK_S = 0.05
_AND_ITS_PODS = "?propagationPolicy=Background"
_LONGEST_BACK_OFF_S = 0.25
_POLICIES = "/apis/admissionregistration.k8s.io/v1"


def _lost(scene: Scene) -> None:
    here = scene.pool(40, 40)
    wrong = []
    for part in (_refused_by_quota, _denied_later, _name_taken, _answers_lost, _server_killed, _batches):
        namespace = scene.make_namespace()
        try:
            part(scene, here, namespace)
        except (AssertionError, pytest.fail.Exception) as error:
            wrong.append(f"{part.__name__.strip('_')}: {error}")
        scene.operator.front.rules.clear()
        for kind in ("Deployment", "ReplicaSet"):
            for owner in namespace.listed(kind):
                delete_if_there(scene.api, namespace.path(kind, owner["metadata"]["name"]) + _AND_ITS_PODS)
        until(f"nothing is held after {part.__name__}", partial(_holds_nothing, scene, here), within_s=_FREE_S)
    assert not wrong, "; ".join(wrong)


def _refused_by_quota(scene: Scene, here: Pool, namespace: Namespace) -> None:
    """A hundred tries of one ReplicaSet, one after another as its controller makes them while all of them fail."""
    hard = {f"requests.{names.card_resource(slot)}": "0" for slot in range(2)}
    namespace.create(
        {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none"}, "spec": {"hard": hard}}
    )
    until("the quota is in force", lambda: namespace.get("ResourceQuota", "none")["status"].get("hard"))
    manifest = deployment("strict", {names.VRAM: str(_GB)}, pool=here.name, replicas=_REPLICAS)
    owner = namespace.create({**manifest, "kind": "ReplicaSet"})
    with _never_more(scene, here, owner_claim(owner), _REPLICAS * _GB):
        _fail(scene, here, namespace, owner, "quota refusal", _TRIES)


def _denied_later(scene: Scene, here: Pool, namespace: Namespace) -> None:
    """A policy that is asked after our yes denies; once it is gone the pods come."""
    name = f"deny-{namespace.name}"
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]
    labels = {"matchLabels": {"kubernetes.io/metadata.name": namespace.name}}
    match = {"resourceRules": rules, "namespaceSelector": labels}
    spec = {"matchConstraints": match, "validations": [{"expression": "false", "message": "not today"}]}
    policy, binding = (f"{_POLICIES}/validatingadmissionpolic{end}" for end in ("ies", "ybindings"))
    head = {"apiVersion": "admissionregistration.k8s.io/v1", "metadata": {"name": name}}
    scene.api.create(policy, {**head, "kind": "ValidatingAdmissionPolicy", "spec": spec})
    bound = {"policyName": name, "validationActions": ["Deny"]}
    scene.api.create(binding, {**head, "kind": "ValidatingAdmissionPolicyBinding", "spec": bound})
    probe = pod("probe")
    until("the policy is enforced", lambda: _is_denied(namespace, probe))
    manifest = deployment("denied", {names.VRAM: str(_GB)}, pool=here.name, replicas=_REPLICAS)
    owner = namespace.create({**manifest, "kind": "ReplicaSet"})
    with _never_more(scene, here, owner_claim(owner), _REPLICAS * _GB):
        _fail(scene, here, namespace, owner, "later denial", _TRIES // 4)
        scene.api.delete(f"{binding}/{name}")
        scene.api.delete(f"{policy}/{name}")
        # Its controller is in a long back-off by now, which a change of the object ends.
        until("its pods come", partial(_prod, namespace, "denied"), within_s=_FREE_S)


def _name_taken(scene: Scene, here: Pool, namespace: Namespace) -> None:
    """The name is taken when the pod is to be stored, as a generated one may be."""
    same = pod("same", {names.VRAM: str(_GB)}, pool=here.name)
    scene.count([create(namespace, same)])
    for _ in range(_TRIES // 10):
        assert namespace.refusal(same).reason == "AlreadyExists"
        scene.tell("name taken", "api server")
        scene.created["refused after our yes"] += 1
    until("only the first is recorded", lambda: _held_gb(scene, here) == _GB, within_s=_FREE_S)
    namespace.delete("Pod", "same")


def _answers_lost(scene: Scene, here: Pool, namespace: Namespace) -> None:
    """What a webhook answers does not reach the API server, now and then."""
    chance = scene.chance("answers lost")
    scene.operator.front.rules.append(TcpRule("answer lost", reset(), chance, 0.3, moment=Moment.ANSWER))
    namespace.create(deployment("patient", {names.VRAM: str(_GB)}, pool=here.name, replicas=8))
    scene.created["by owners"] += 8
    for number in range(20):
        scene.count([create(namespace, pod(f"lost-{number}", {names.VRAM: "1"}, pool=here.name))])
    scene.operator.front.rules.clear()
    until("all of its pods are there", lambda: len(namespace.pods("patient")) == 8, within_s=60.0)
    for each in namespace.listed("Pod"):
        if each["metadata"]["name"].startswith("lost-"):
            namespace.delete("Pod", each["metadata"]["name"])


def _server_killed(scene: Scene, here: Pool, namespace: Namespace) -> None:
    """The API server dies at the moment at which a webhook has answered, before it can store the pod."""
    server = scene.stage.cluster.process("kube-apiserver")

    async def kill() -> None:
        server.kill()

    rule = TcpRule("API server killed", kill, times=1, moment=Moment.ANSWER)
    scene.operator.front.rules.append(rule)
    scene.created["by owners"] += _REPLICAS
    with contextlib.suppress(OSError):
        namespace.create(deployment("orphan", {names.VRAM: str(_GB)}, pool=here.name, replicas=_REPLICAS))
    until("the API server is gone", lambda: not server.alive)
    scene.operator.front.rules.clear()
    start_api_server(scene.stage.cluster)
    until("all of its pods are there", lambda: len(namespace.pods("orphan")) == _REPLICAS, within_s=60.0)


def _batches(scene: Scene, here: Pool, namespace: Namespace) -> None:
    """A ReplicaSet creates 1, 2, 4, 8 pods side by side: each has an entry of its own."""
    for number in range(3):
        name = f"batch-{number}"
        namespace.create(deployment(name, {names.VRAM: str(_GB)}, pool=here.name, replicas=16))
        scene.created["by owners"] += 16
        pods = until("all of its pods are there", partial(_all, namespace, name, 16))
        ids = {reservation(each) for each in pods}
        assert len(ids) == 16, f"16 pods share {len(ids)} entries"
        namespace.delete("Deployment", name)
        until("they are gone", partial(_none, namespace, name))


@contextlib.contextmanager
def _never_more(scene: Scene, here: Pool, claim: str, gb: int) -> Iterator[None]:
    """Fails if an owner is ever seen to hold more than `gb`, or holds anything `_FREE_S` after the end."""
    holding = Holding(scene.api, here.nodes, claim)
    with repeatedly(holding.look, _LOOK_S):
        yield
    title = claim.partition("/")[0]
    scene.figures[f"most held in {title}"] = f"{holding.most_gb} of {gb} GB"
    assert holding.most_gb <= gb, f"an owner that wants {gb} GB was seen to hold {holding.most_gb} GB"


def _fail(scene: Scene, here: Pool, namespace: Namespace, owner: dict[str, object], fault: str, tries: int) -> None:
    """So many creates for a ReplicaSet that are all refused, in the place of its controller, which stands still."""
    controllers = scene.stage.cluster.process("kube-controller-manager")
    controllers.kill(signal.SIGSTOP)
    try:
        for number in range(tries):
            namespace.refusal(_child(owner, f"try-{number}", here))
            scene.tell(fault, "api server")
            scene.created["refused after our yes"] += 1
            time.sleep(_back_off_s(number))
    finally:
        controllers.kill(signal.SIGCONT)


def _back_off_s(tries: int) -> float:
    """As a controller's queue waits after so many tries, but no longer than it takes to make many."""
    return min(0.005 * 2.0**tries, _LONGEST_BACK_OFF_S)


def _child(owner: dict[str, object], name: str, here: Pool) -> dict[str, object]:
    """A pod as the ReplicaSet controller creates it."""
    metadata = owner["metadata"]
    assert isinstance(metadata, dict)
    child = pod(name, {names.VRAM: str(_GB)}, pool=here.name)
    ref = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": metadata["name"], "uid": metadata["uid"]}
    child["metadata"]["ownerReferences"] = [{**ref, "controller": True, "blockOwnerDeletion": True}]
    return child


def _is_denied(namespace: Namespace, probe: dict[str, object]) -> bool:
    try:
        namespace.create(probe, dry_run=True)
    except ApiError as error:
        return "not today" in str(error)
    return False


def _prod(namespace: Namespace, name: str) -> bool:
    namespace.merge("ReplicaSet", name, {"metadata": {"annotations": {"example.com/now": str(time.monotonic())}}})
    time.sleep(1.0)
    return len(namespace.pods(name)) == _REPLICAS


def _all(namespace: Namespace, name: str, count: int) -> list[dict[str, object]]:
    pods = namespace.pods(name)
    return pods if len(pods) == count else []


def _none(namespace: Namespace, name: str) -> bool:
    return not namespace.listed("Pod", app=name)


def _holds_nothing(scene: Scene, here: Pool) -> bool:
    return _held_gb(scene, here) == 0


def _held_gb(scene: Scene, here: Pool) -> int:
    return Holding(scene.api, here.nodes, "").total_gb()


LOST_CREATES = Scenario("lost-creates", _lost, 60.0, short_s=None, least_admitted=1)
