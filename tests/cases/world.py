"""What a case finds: `given`, and the owners that its steps name, as objects in the fake API server."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from shared.api import names
from tests.cases import booked
from tests.cases.authority import Authority
from tests.cases.chart import NAMESPACE, Chart
from tests.cases.given import node_object, pod_object, texts
from tests.cases.inventory import ALLOCATABLE, CAPACITY, Agent
from tests.cases.kinds import api_version_of, place_of_object
from tests.cases.owners import made_by_steps, named_by_steps, owners_of, steps_of
from tests.fakes.api import merged, place_of
from tests.fakes.objects import Json, ObjectStore, RefusalError, timestamp
from tests.fakes.pod_rules import with_defaults

_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ms|h|m|s)")
_SECONDS: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_CONFIGURATION: Final = frozenset({
    "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration",
    "ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding",
})  # fmt: skip
_POD_SECURITY: Final = "pod-security.kubernetes.io/enforce"
_OLD_S: Final = 3600.0
"""How long what is given has existed."""


class AbsentError(LookupError):
    """An object that a step names is not there, as when the create that should have made it was refused."""

    def __init__(self, kind: str, name: str) -> None:
        super().__init__(f'{kind} "{name}" not found')
        self.kind, self.name = kind, name


class World:
    """The objects of a case. `agents` are those of the nodes, none where somebody else manages the cards."""

    def __init__(self, case: Json, chart: Chart) -> None:
        self.case = case
        self.cluster: Json = case["given"]["cluster"]
        self.chart = chart
        self._numbers = 0
        self.store = ObjectStore(self.new_uid)
        self.agents: dict[str, Agent] = {}
        self.originals: dict[str, Json] = {}
        """Pods by uid as their client sent them, before the product changed them."""
        self.unbooked: list[tuple[Json, Json, str]] = []
        """Given pods whose nodes have no agent, with what they asked and their uid: only the running product can say
        how it would have left them.
        """
        self.authority: Authority | None = None
        """Who signed the serving pair that the product found, where a case renews it from the same authority."""
        self._nodes = {node["name"]: node for node in case["given"]["nodes"]}
        self._build()

    def new_uid(self) -> str:
        """A uid that nobody has."""
        self._numbers += 1
        return f"00000000-0000-4000-8000-{self._numbers:012d}"

    def new_suffix(self) -> str:
        """What completes a `generateName`."""
        self._numbers += 1
        return f"{self._numbers:05d}"

    def put(self, raw: Json, uid: str | None = None) -> Json:
        """Stores a new object with its status."""
        place = place_of_object(raw)
        stored = self.store.create(place, raw, uid=uid)
        return self.change_status(stored, raw["status"]) if raw.get("status") else stored

    def change(self, raw: Mapping[str, Any], change: Callable[[Json], Json], subresource: str = "") -> Json:
        """Changes a stored object, given whole or by kind, namespace and name."""
        place = place_of_object(raw)
        if subresource:
            place = type(place)(place.prefix, place.plural, place.namespace, place.name, subresource)
        return self.store.update(place, change)

    def change_status(self, raw: Mapping[str, Any], status: Json) -> Json:
        """Merges into the status of a stored object."""
        return self.change(raw, lambda old: merged(old, {"status": status}), "status")

    def find(self, raw: Mapping[str, Any]) -> Json | None:
        """A stored object, given whole or by kind, namespace and name."""
        try:
            return self.store.get(place_of_object(raw))
        except RefusalError:
            return None

    def existing(self, named: Mapping[str, Any]) -> Json:
        """A stored object that a step names. Raises `AbsentError` if it is not there at this step, ValueError if it
        never can be.
        """
        stored = self.find(named)
        if stored is None or named.get("uid", stored["metadata"]["uid"]) != stored["metadata"]["uid"]:
            name = (named.get("metadata") or named).get("name")
            if (named["kind"], name) not in self._spoken_of():
                raise ValueError(f"{named['kind']} {name}: nothing in this case makes it")
            raise AbsentError(named["kind"], str(name))
        return stored

    def _spoken_of(self) -> set[tuple[str, str]]:
        """Kind and name of everything that is there at some step, or could be."""
        given = self.case["given"]
        found = {("Pod", pod["name"]) for pod in given["pods"]} | {("Node", node["name"]) for node in given["nodes"]}
        for raw in (*owners_of(self.case["when"]), *(step.get("object") or {} for step in steps_of(self.case["when"]))):
            found.add((str(raw.get("kind")), str((raw.get("metadata") or {}).get("name"))))
        found |= {("Node", step["node"]) for step in steps_of(self.case["when"]) if "node" in step}
        return found

    def all(self, path: str) -> list[Json]:
        """Every object of a collection."""
        return self.store.everything(place_of(path))

    def pods(self) -> list[Json]:
        """Every pod."""
        return self.all("/api/v1/pods")

    def nodes(self) -> list[Json]:
        """Every node."""
        return self.all("/api/v1/nodes")

    def volumes_of(self, pod: Json) -> list[Json]:
        """The bound volumes that a pod claims."""
        claims = {
            (volume.get("persistentVolumeClaim") or {}).get("claimName") for volume in pod["spec"].get("volumes") or ()
        }
        return [
            volume
            for volume in self.all("/api/v1/persistentvolumes")
            if volume["spec"]["claimRef"]["namespace"] == pod["metadata"]["namespace"]
            and volume["spec"]["claimRef"]["name"] in claims
        ]

    def opt_in(self, namespace: str, *, opted_in: bool) -> None:
        """Sets or takes away the opt-in label."""
        label = {names.NAMESPACE_LABEL: names.MODE_ENABLED if opted_in else None}
        named = {"kind": "Namespace", "name": namespace}
        self.change(named, lambda old: merged(old, {"metadata": {"labels": label}}))

    def join(self, name: str, gpus: list[Json], pinned: Mapping[str, int] = {}) -> None:
        """Stores a node with these cards, and has its agent look at them. `pinned` are the slots that cards had, by
        UUID, when pods were booked on them.
        """
        given = self._nodes.get(name, {"name": name})
        node = node_object(given)
        self.put(node)
        if not self.cluster["managed"]:
            self.agents[name] = Agent(node, exclusive=not self.cluster["gpuSharing"])
            self.agents[name].remember(pinned, gpus)
            self.look(name, gpus)

    def add_serving_secret(self, named: Json, authority: Authority, host: str) -> None:
        """Stores the webhook's serving pair before the product has made one."""
        self.authority = authority
        self.put({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls",
            "metadata": {"name": named["name"], "namespace": named["namespace"]}, "data": authority.serving_pair(host),
        })  # fmt: skip

    def look(self, node: str, gpus: list[Json] | None = None) -> None:
        """Has a node's agent look at `gpus`, if they are given, and write what it knows."""
        agent = self.agents.get(node)
        if agent is None:
            return
        if gpus is not None:
            agent.find(gpus)
        raw: Json = {"apiVersion": api_version_of("GPUNode"), "kind": "GPUNode", "metadata": {"name": node}}
        if self.find(raw) is None:
            stored_node = self.find({"kind": "Node", "name": node})
            assert stored_node is not None
            raw["metadata"]["ownerReferences"] = [_reference(stored_node)]
            self.put(raw)
            age_s = _seconds(self._nodes.get(node, {}).get("inventoryAge") or "0s")
            confirmed = timestamp(time.time() - age_s)
            self.change(raw, lambda old: merged(old, {"metadata": {"creationTimestamp": confirmed}}))
        self.change(raw, lambda old: {**old, "spec": agent.spec})
        self.change(raw, lambda old: {**old, "status": {**(old.get("status") or {}), **agent.status}}, "status")
        advertised = agent.advertised
        status = {CAPACITY: advertised[CAPACITY], ALLOCATABLE: advertised[ALLOCATABLE]}
        self.change_status({"kind": "Node", "name": node}, status)

    def remove(self, raw: Mapping[str, Any]) -> None:
        """Removes an object at once, and whatever it owns."""
        stored = self.find(raw)
        if stored is None:
            return
        self.store.delete(place_of_object(stored), {})
        if stored["kind"] == "Node":
            name = stored["metadata"]["name"]
            self.agents.pop(name, None)
            for pod in self.pods():
                if pod["spec"].get("nodeName") == name:
                    self.remove(pod)
        self._collect(stored["metadata"]["uid"])

    def _collect(self, uid: str) -> None:
        """Kubernetes' garbage collection: what is owned goes too."""
        for dependent in self.store.owned_by(uid):
            self.remove(dependent)

    def _build(self) -> None:
        for namespace in sorted(self._namespaces()):
            self._add_namespace(namespace)
        for raw in self.chart.objects:
            if raw["kind"] in _CONFIGURATION:
                self.store.create(place_of_object(raw), raw)
        for volume in self.cluster.get("persistentVolumes") or ():
            self._add_volume(volume)
        for node in self.case["given"]["nodes"]:
            self.join(node["name"], node["gpus"], self._pinned_to(node["name"]))
        made = made_by_steps(self.case["when"])
        for owner in owners_of(self.case["when"]):
            metadata = owner["metadata"]
            if (owner["kind"], metadata["namespace"], metadata["name"]) not in made and self.find(owner) is None:
                self.put(owner)
        for pod in self.case["given"]["pods"]:
            self._add_pod(pod)

    def _namespaces(self) -> set[str]:
        when = self.case["when"]
        found = {name for kind, _, name in named_by_steps(when) - made_by_steps(when) if kind == "Namespace"}
        found |= {NAMESPACE, "kube-system", "kube-public", "kube-node-lease", "default"}
        found |= set(self.cluster["optedInNamespaces"])
        found |= {pod["namespace"] for pod in self.case["given"]["pods"]}
        for volume in self.cluster.get("persistentVolumes") or ():
            found.add(volume["claim"].partition("/")[0])
        return found

    def _add_namespace(self, name: str) -> None:
        labels = {"kubernetes.io/metadata.name": name}
        if name in self.cluster["optedInNamespaces"]:
            labels[names.NAMESPACE_LABEL] = names.MODE_ENABLED
            if self.cluster.get("podSecurity"):
                labels[_POD_SECURITY] = self.cluster["podSecurity"]
        self.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        if name in self.cluster["optedInNamespaces"] and self.cluster.get("resourceQuota"):
            hard = texts(self.cluster["resourceQuota"])
            metadata = {"name": "case", "namespace": name}
            quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}
            self.put({**quota, "status": {"hard": hard}})

    def _add_volume(self, volume: Json) -> None:
        namespace, _, claim = volume["claim"].partition("/")
        terms = [{"matchExpressions": volume.get("nodeAffinity") or []}]
        affinity = {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}} if volume.get("nodeAffinity") else {}
        claimed = {"kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim}
        self.put({
            "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume["name"]},
            "spec": {"claimRef": claimed, **affinity}, "status": {"phase": "Bound"},
        })  # fmt: skip
        self.put({
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": claim, "namespace": namespace},
            "spec": {"volumeName": volume["name"]}, "status": {"phase": "Bound"},
        })  # fmt: skip

    def _add_pod(self, given: Json) -> None:
        pod = pod_object(given)
        uid = given.get("uid") or self.new_uid()
        if given.get("holds"):
            given = {**given, "node": self._node_of(given)}
        agent = self.agents.get(given.get("node") or "")
        self.originals[uid] = pod
        if given.get("holds") and agent is None:
            asking = booked.asking_for_units(pod, given["holds"], self._nodes[given["node"]])
            self.unbooked.append((given, asking, uid))
            return
        if given.get("holds"):
            pod = self._with_its_booking(pod, given)
        self.add_given(given, pod, uid)
        if agent is not None and given.get("actualGpus"):
            agent.report_devices(uid, [agent.uuid_at(slot) for slot in given["actualGpus"]])
            self.look(given["node"])

    def _node_of(self, given: Json) -> str:
        """The node whose cards a pod holds: its own, or the only one where it is bound to none yet."""
        return str(given.get("node") or next(iter(self._nodes)))

    def _pinned_to(self, node: str) -> dict[str, int]:
        """The slot of each card of a node that a given pod was pinned to, by the card's UUID."""
        return {
            uuid: hold["gpu"]
            for pod in self.case["given"]["pods"]
            if pod.get("holds") and self._node_of(pod) == node
            for uuid, hold in zip(pod.get("uuids") or (), pod["holds"], strict=False)
        }

    def add_given(self, given: Json, pod: Json, uid: str) -> None:
        """Stores a pod that has existed for a while."""
        stored = self.put(with_defaults(pod), uid)
        since = timestamp(time.time() - _OLD_S)
        times = {"creationTimestamp": since}
        if given.get("deletionTimestamp"):
            times["deletionTimestamp"] = timestamp(time.time())
        self.store.set_metadata(place_of_object(stored), times)

    def _with_its_booking(self, pod: Json, given: Json) -> Json:
        node = self.find({"kind": "Node", "name": given["node"]})
        gpu_node = self.find({"kind": "GPUNode", "name": given["node"]})
        assert node is not None
        assert gpu_node is not None
        reservation = booked.reservation_id(len(self.originals))
        finished = given.get("phase") in {"Succeeded", "Failed"}
        placed, entry = booked.on_own_node(pod, given, node, gpu_node, reservation, int(time.time() - _OLD_S))
        if not finished:
            self.change_status(gpu_node, {"reservations": {reservation: entry}})
        return placed


def _reference(owner: Json) -> Json:
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }


def _seconds(duration: str) -> float:
    """A Go duration such as `1h30m`."""
    parts: Iterable[tuple[str, str]] = _DURATION.findall(duration)
    return sum(float(number) * _SECONDS[unit] for number, unit in parts)
