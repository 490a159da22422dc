"""A kind of object without meaning: namespaced, any fields, with a status subresource as our own kinds have it."""

from __future__ import annotations

import uuid
from contextlib import aclosing

from shared.kube.client import Json, KubeClient, Params
from shared.kube.errors import from_status

WIDGETS = "/apis/contract.example.com/v1/namespaces/default/widgets"

DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.contract.example.com}
spec:
  group: contract.example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
    - name: v1
      served: true
      storage: true
      subresources: {status: {}}
      schema:
        openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


def fresh_name() -> str:
    """A name that no other test uses."""
    return f"w-{uuid.uuid4().hex[:12]}"


def widget(name: str, **fields: object) -> Json:
    """A widget as a client writes it."""
    return {
        "apiVersion": "contract.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": {"size": 1},
        **fields,
    }


async def created(client: KubeClient, **fields: object) -> Json:
    """A new widget as stored."""
    return await client.create(WIDGETS, widget(fresh_name(), **fields))


def path_of(raw: Json) -> str:
    """Where a stored widget is found."""
    return f"{WIDGETS}/{raw['metadata']['name']}"


async def watched(
    client: KubeClient, version: str, params: Params | None = None, *, events: int, seconds: int = 5
) -> list[Json]:
    """The first `events` events after `version`, or fewer if the server ends the watch. Its error is raised."""
    seen: list[Json] = []
    query = {"watch": "true", "resourceVersion": version, "timeoutSeconds": str(seconds), **(params or {})}
    async with aclosing(client.stream(WIDGETS, query, read_timeout_s=seconds + 5)) as stream:
        async for event in stream:
            if event["type"] == "ERROR":
                raise from_status(event["object"])
            seen.append(event)
            if len(seen) == events:
                break
    return seen
