"""Whether a reservation's pod exists, by the API server's own word: the watch may be behind it."""

from __future__ import annotations

from shared.api import names
from shared.core.pods import Raw, pod_facts
from shared.core.quantity import QuantityError
from shared.kube import paths
from shared.kube.client import KubeClient
from shared.kube.cluster import Located


async def has_pod(client: KubeClient, reservation: str, located: Located) -> bool:
    """Whether a live pod takes something from the entry's node by that reservation. Raises `ApiError`.

    The label alone proves nothing: a copy of the pod may carry it, in another namespace, on another node or without
    what was placed.
    """
    selector = {"labelSelector": f"{names.RESERVATION}={reservation}"}
    listing = await client.list(paths.pods(located.entry.namespace), selector)
    return any(_holds(raw, located.node) for raw in listing.items)


def _holds(raw: Raw, node: str) -> bool:
    try:
        pod = pod_facts(raw)
    except QuantityError:
        return True  # What cannot be read is not known to take nothing.
    return pod is not None and pod.is_placed and pod.node == node
