"""Pods of the same owner that another replica of the webhook has promised and nobody has seen yet.

A ledger entry tells their node and GB. What it does not tell (labels, cpu, ports) is known all the same: one owner's
pods are made from one template, so they are like the pod that is being placed. Without them, replicas of a Deployment
that must not share a node would be sent to one by two webhooks that answer at the same moment.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from shared.core.ledger import owner_hash
from shared.core.pods import PodFacts
from shared.core.snapshot import NodeState, Snapshot
from shared.kube.cluster import Cluster


def picture_for(cluster: Cluster, pod: PodFacts, reservation: str, replaced: Collection[str] = ()) -> Snapshot:
    """The cluster as the decision about `pod` should see it: with its unseen siblings, without its own hold.

    The entries `replaced`, whose place the pod takes over, are left out as well, and so are those that other promised
    pods are about to replace.
    """
    snapshot = cluster.snapshot()
    changed: dict[str, NodeState] = {}
    for own in (reservation, *replaced):
        key = cluster.hold_key(own)
        held = cluster.pod(key)
        if held is not None and held.node in snapshot.nodes:
            changed[held.node] = changed.get(held.node, snapshot.nodes[held.node]).without_pod(key)
    own_places = [(each, located.node) for each in replaced if (located := cluster.locate(each)) is not None]
    for entry_id, node in (*own_places, *cluster.replaced()):
        if node in snapshot.nodes:
            changed[node] = changed.get(node, snapshot.nodes[node]).without_entry(entry_id)
    if pod.owner is not None:
        for other, located in cluster.unseen(pod.namespace, owner_hash(pod.owner.uid)):
            state = changed.get(located.node, snapshot.nodes.get(located.node))
            if other != reservation and other not in replaced and state is not None:
                entry = located.entry
                sibling = replace(
                    pod,
                    key=f"sibling/{other}",
                    node=located.node,
                    shares=entry.shares,
                    requests={**pod.requests, **dict(entry.units)},
                    reservation=other,
                )
                changed[located.node] = state.with_pod(sibling)
    return snapshot.changed(changed)
