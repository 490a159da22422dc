"""The volume filters against a second, slow reading of what kube-scheduler's volume plugins do.

As in `test_scheduler_filters`, the model works on the raw JSON alone and shares no code with the product.
"""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from shared.core.constraints import read_constraints
from shared.core.filters import load_exclusions, node_exclusions
from shared.core.nodes import node_facts
from shared.core.peers import Peers
from shared.core.pods import pod_facts
from shared.core.snapshot import NodeState, Snapshot
from tests.builders import a_node, a_pod
from tests.property.test_scheduler_filters import maybe, record
from tests.scheduler_model import Json, is_met, selects
from tests.storage_builders import a_claim, a_class, a_volume, storage

ZONE, OLD_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
CLASSES = ("local", "cloud", "now", "")
CLAIMS = ("c0", "c1")
SCRATCH = "tmp"

node_terms = record(
    matchExpressions=maybe(
        st.lists(
            record(
                key=st.sampled_from(["disk", ZONE]),
                operator=st.sampled_from(["In", "NotIn"]),
                values=st.sampled_from([["a"], ["b"], ["a", "b"]]),
            ),
            max_size=1,
        )
    )
)
volumes = st.builds(
    lambda terms, labels, **fields: a_volume(terms=terms, labels=labels, **fields),
    terms=maybe(st.lists(node_terms, min_size=1, max_size=2)),
    labels=record(**{ZONE: maybe(st.sampled_from(["a", "b", "a__b"])), OLD_ZONE: maybe(st.sampled_from(["a", "b"]))}),
    claim=maybe(st.sampled_from(["models/c0", "models/c1", "other/c0"])),
    phase=maybe(st.sampled_from(["Released", "Available"])),
    gib=st.sampled_from([1, 5]),
    storageClassName=st.sampled_from(CLASSES),
    volumeMode=maybe(st.sampled_from(["Block", "Filesystem"])),
)
wishes: dict[str, st.SearchStrategy[Any]] = {
    "of_class": maybe(st.sampled_from([*CLASSES, "unknown"])),
    "gib": st.sampled_from([1, 5, 9]),
    "modes": st.sampled_from([("ReadWriteOnce",), ("ReadWriteOnce", "ReadOnlyMany"), ("ReadWriteOncePod",)]),
    "selector": st.sampled_from([{}, {"matchLabels": {ZONE: "a"}}]),
}


@st.composite
def worlds(draw: st.DrawFn) -> tuple[list[Json], list[Json], list[Json], list[Json], Json, Json]:
    """Nodes, volumes, claims, classes, a pod that runs, and one that is to be placed."""
    nodes = []
    for index in range(draw(st.integers(1, 3))):
        node = a_node(f"n{index}")
        for key in ("disk", ZONE, OLD_ZONE):
            value = draw(maybe(st.sampled_from(["a", "b"])))
            if value is not None:
                node.label(key, value)
        nodes.append(node.raw())
    made = draw(st.lists(volumes, max_size=3))
    for index, volume in enumerate(made):
        volume["metadata"]["name"] = f"v{index}"
    claims = []
    for name in CLAIMS:
        if not draw(st.booleans()):
            continue
        selected = draw(st.sampled_from([None, None, None, "n0"]))
        annotations = {} if selected is None else {"volume.kubernetes.io/selected-node": selected}
        bound = draw(st.sampled_from([None, None, "v0", "v1"]))
        claims.append(a_claim(name, volume=bound, annotations=annotations, **draw(st.fixed_dictionaries(wishes))))
    default = draw(st.sampled_from([None, "2026-01-01T00:00:00Z"]))
    classes = [
        a_class("local", default_since=default),
        a_class("cloud", provisioner="example.com/csi", zones=draw(st.sampled_from([(), ("a",)]))),
        a_class("now", waits=False, provisioner="example.com/csi", default_since="2025-01-01T00:00:00Z"),
    ]
    running = a_pod("running", draw(st.sampled_from(["models", "other"]))).on("n0")
    running.claiming(*draw(st.sets(st.sampled_from(CLAIMS))))
    pod = a_pod("incoming").claiming(*sorted(draw(st.sets(st.sampled_from(CLAIMS)))))
    if draw(st.booleans()):
        pod.with_scratch(SCRATCH, **a_claim(**draw(st.fixed_dictionaries(wishes)))["spec"])
    return nodes, made, claims, classes, running.raw(), pod.raw()


# --- the model -----------------------------------------------------------------------------------------------------


def claim_names(pod: Json) -> set[str]:
    volumes = pod["spec"].get("volumes", [])
    return {each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each}


def gib(amounts: Json) -> int:
    return int(amounts["storage"].removesuffix("Gi"))


class Model:
    """One decision: which nodes the volumes of a pod leave open."""

    def __init__(self, made: list[Json], claims: list[Json], classes: list[Json], running: Json, pod: Json) -> None:
        self.volumes = {volume["metadata"]["name"]: volume for volume in made}
        self.claims = {claim["metadata"]["name"]: claim for claim in claims}
        self.classes = {each["metadata"]["name"]: each for each in classes}
        self.running, self.pod = running, pod
        self.bound: list[Json] = []
        self.unbound: list[Json] = []
        for volume in pod["spec"].get("volumes", []):
            if "ephemeral" in volume:
                self.sort({"metadata": {}, "spec": volume["ephemeral"]["volumeClaimTemplate"]["spec"]}, None)
            else:
                name = volume["persistentVolumeClaim"]["claimName"]
                self.sort(self.claims.get(name), name)

    def sort(self, claim: Json | None, name: str | None) -> None:
        """Puts a claim among the bound or the waiting ones; what is neither says nothing of nodes."""
        own = [each for each in self.volumes.values() if self.belongs_to(each, name)]
        if claim and claim["spec"].get("volumeName"):
            own = [self.volumes[key] for key in [claim["spec"]["volumeName"]] if key in self.volumes]
            if not own:
                return
        if own:
            self.bound.append(own[-1])
        elif claim and self.class_of(claim).get("volumeBindingMode") == "WaitForFirstConsumer":
            self.unbound.append(claim)

    @staticmethod
    def belongs_to(volume: Json, name: str | None) -> bool:
        reference = volume["spec"].get("claimRef", {})
        return (
            volume["status"]["phase"] != "Released"
            and name is not None
            and (reference.get("namespace"), reference.get("name")) == ("models", name)
        )

    def class_of(self, claim: Json) -> Json:
        name = claim["spec"].get("storageClassName")
        if name is None:
            defaults = [each for each in self.classes.values() if "creationTimestamp" in each["metadata"]]
            return max(defaults, key=lambda each: str(each["metadata"]["creationTimestamp"]))
        return self.classes.get(name, {})

    def reaches(self, node: Json, volume: Json) -> bool:
        labels = node["metadata"]["labels"]
        affinity = volume["spec"].get("nodeAffinity")
        if affinity is not None and not any(
            term.get("matchExpressions") and all(is_met(each, labels) for each in term["matchExpressions"])
            for term in affinity["required"]["nodeSelectorTerms"]
        ):
            return False
        if ZONE not in labels and OLD_ZONE not in labels:
            return True
        for key in (ZONE, OLD_ZONE):
            zones = volume["metadata"]["labels"].get(key)
            here = labels.get(key, labels.get(ZONE))
            if zones is not None and here not in zones.split("__"):
                return False
        return True

    def serves(self, volume: Json, claim: Json) -> bool:
        spec, wish = volume["spec"], claim["spec"]
        return (
            "claimRef" not in spec
            and volume["status"]["phase"] == "Available"
            and spec["storageClassName"] == self.class_of(claim)["metadata"]["name"]
            and gib(spec["capacity"]) >= gib(wish["resources"]["requests"])
            and set(wish["accessModes"]) <= set(spec["accessModes"])
            and (spec.get("volumeMode") or "Filesystem") == wish.get("volumeMode", "Filesystem")
            and selects(wish["selector"], volume["metadata"]["labels"])
        )

    def is_made_on(self, node: Json, claim: Json) -> bool:
        storage_class = self.class_of(claim)
        selected = claim["metadata"].get("annotations", {}).get("volume.kubernetes.io/selected-node")
        if selected not in (None, node["metadata"]["name"]):
            return False
        zones = [each["matchLabelExpressions"][0] for each in storage_class.get("allowedTopologies", [])]
        return storage_class["provisioner"] != "kubernetes.io/no-provisioner" and (
            not zones or any(node["metadata"]["labels"].get(each["key"]) in each["values"] for each in zones)
        )

    def can_bind(self, node: Json) -> bool:
        """The smallest claim first gets the smallest free volume; what gets none has to be made."""
        free = [each for each in self.volumes.values() if self.reaches(node, each)]
        for claim in sorted(self.unbound, key=lambda each: gib(each["spec"]["resources"]["requests"])):
            serving = [each for each in free if self.serves(each, claim)]
            if serving and not claim["metadata"].get("annotations"):
                free.remove(min(serving, key=lambda each: gib(each["spec"]["capacity"])))
            elif not self.is_made_on(node, claim):
                return False
        return True

    def reasons(self, node: Json) -> set[str]:
        both = claim_names(self.pod) & claim_names(self.running)
        in_use = self.running["metadata"]["namespace"] == "models" and any(
            "ReadWriteOncePod" in self.claims[name]["spec"]["accessModes"] for name in both & self.claims.keys()
        )
        checks = {
            "volume": all(self.reaches(node, volume) for volume in self.bound),
            "volume_to_come": self.can_bind(node),
            "claim_in_use": not in_use,
        }
        return {name for name, passed in checks.items() if not passed}


@settings(max_examples=300)
@given(worlds())
def test_the_volume_filters_agree_with_the_scheduler(
    world: tuple[list[Json], list[Json], list[Json], list[Json], Json, Json],
) -> None:
    nodes, made, claims, classes, running, pod = world
    facts = pod_facts(running)
    assert facts is not None
    states = {
        raw["metadata"]["name"]: NodeState.of(
            node_facts(raw), pods={facts.key: facts} if raw["metadata"]["name"] == "n0" else {}
        )
        for raw in nodes
    }
    snapshot = Snapshot(states, volumes=storage(*made, *claims, *classes))
    constraints = read_constraints(pod).settled(snapshot.volumes)
    peers = Peers.of(snapshot, constraints)
    model = Model(made, claims, classes, running, pod)
    for raw in nodes:
        state = states[raw["metadata"]["name"]]
        found = {*node_exclusions(state.facts, constraints), *load_exclusions(state, constraints, peers)}
        assert found == model.reasons(raw)
