"""Whether a pod that holds a card is a former revision of the workload that wants it: such an update waits for itself.

A Deployment creates the pods of its new ReplicaSet before it removes those of the old one. Their labels are the same
but for the hash of the template.
"""

from __future__ import annotations

from collections.abc import Mapping

from shared.api import names
from shared.core.owners import OwnerRef
from shared.core.pods import PodFacts

_REPLICA_SET = "ReplicaSet"
_OF_ONE_REVISION = frozenset({names.TEMPLATE_HASH, names.RESERVATION})


def is_former_revision(pod: PodFacts, namespace: str, labels: Mapping[str, str], owner: OwnerRef | None) -> bool:
    """Whether `pod` is of another revision of the workload whose pod has these labels and this controller."""
    if owner is None or owner.kind != _REPLICA_SET or pod.namespace != namespace or pod.owner == owner:
        return False
    ours = _lasting(labels)
    return bool(ours) and ours == _lasting(pod.labels)


def _lasting(labels: Mapping[str, str]) -> dict[str, str]:
    return {key: value for key, value in labels.items() if key not in _OF_ONE_REVISION}
