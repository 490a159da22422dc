"""What the creator of a placed pod should know although nothing is wrong with the pod."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from shared.api import names
from shared.core.advice import victims_words
from shared.core.constraints import Constraints
from shared.core.preemption import Preemption
from shared.kube.cluster import Cluster
from webhook.placed_record import read_record


def notices(cluster: Cluster, constraints: Constraints, pod: Mapping[str, Any], node: str) -> tuple[str, ...]:
    """The notices on a pod that is placed on `node`, as the patch leaves it."""
    return (*_quotas_evaded(cluster, constraints.namespace, pod), *_volumes_unknown(cluster, constraints, node))


def announced(preemption: Preemption | None, namespace: str) -> Iterator[str]:
    """Which pods have to leave before a pod that was created in `namespace` can start."""
    if preemption is not None:
        yield f"the scheduler will evict pods of lower priority for it: {victims_words(preemption.told(namespace))}"


def _quotas_evaded(cluster: Cluster, namespace: str, pod: Mapping[str, Any]) -> Iterator[str]:
    """Quotas that do not count the pod, because the resource they limit was replaced by shares of cards."""
    changed = read_record(pod).changed
    removed = {change.path[4] for change in changed if len(change.path) > 4 and change.path[2] == "resources"}
    for quota, resource in cluster.quotas.limiting(namespace, removed):
        yield (
            f"ResourceQuota {quota} does not count this pod: it limits requests.{resource}, "
            f"which the placement replaced with {names.CARD_RESOURCE_PREFIX}<slot>"
        )


def _volumes_unknown(cluster: Cluster, constraints: Constraints, node: str) -> Iterator[str]:
    """Claims of which nobody can tell yet where their volumes will be."""
    for claim in constraints.settled(cluster.storage.volumes).reach.unsettled:
        yield (
            f"claim {claim}: it is not known yet which nodes its volume will reach; "
            f"if {node} is not among them, the pod stays pending"
        )
