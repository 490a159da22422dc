"""The reference as a test reads it: its examples, the cluster that they run on, and what comes of them.

An example is a fenced block of YAML, a part of a pod. What it leaves out is one container named `server` that runs
`example/server`. A block `outcome` follows with what both webhooks say, and perhaps a block `becomes` with parts of the
pod as it is then.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonpatch
import yaml

from controller.managed_nodes import ManagedNodes
from shared.api import names
from shared.core.explain import explain
from shared.core.nodes import node_facts
from tests.builders import NodeBuilder, a_node, a_pod
from tests.fakes.serving import Served
from tests.unit.admission import Webhook, gpu_node
from tests.unit.test_managed_nodes import NOW
from tests.unit.units import GPU, SLICE, managed_node
from webhook.outcome import Admitted, Outcome, Refused
from webhook.placed_record import read_record

DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs" / "reference.md"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

CLUSTER = """\
| node | cards | and |
|---|---|---|
| `t4` | 1 Tesla T4, 16 GB | CUDA 12.4; the pod `chat` of this namespace holds 10 GB |
| `l4` | 2 NVIDIA L4, 22 GB each | CUDA 12.8 |
| `h100` | 4 NVIDIA H100, 79 GB each | CUDA 13.0 |
| `mi300x` | 2 AMD Instinct MI300X, 191 GB each | ROCm 6.4 |
| `spark` | a GB10 pool of 111 GB | CUDA 13.0; taint `kind=workstation` |
| `eks` | 1 NVIDIA A10G, given away whole by NVIDIA's plugin | taint `plugin=vendor`; the pod `notebook` holds it |
| `gke` | 1 Tesla T4, time-sliced into 4 by NVIDIA's plugin | taint `plugin=vendor` |
| `mig` | 2 MIG slices `nvidia.com/mig-1g.10gb` | taint `plugin=vendor` |
"""


@dataclass(frozen=True, slots=True)
class Example:
    """A part of a pod, what is said of it, and parts of what it becomes. `line` is where it stands in the document."""

    line: int
    part: Mapping[str, Any]
    outcome: str
    becomes: Mapping[str, Any] | None

    def pod(self) -> dict[str, Any]:
        """The whole pod."""
        metadata = {"name": "llm", "namespace": "models", **(self.part.get("metadata") or {})}
        spec = dict(self.part.get("spec") or {})
        containers = spec.get("containers") or [{}]
        spec["containers"] = [{"name": "server", "image": "example/server", **each} for each in containers]
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def blocks(text: str) -> list[tuple[int, str, str]]:
    """Line, language and content of every fenced block."""
    return [(text.count("\n", 0, at.start()) + 1, at[1], at[2]) for at in _BLOCK.finditer(text)]


def examples(text: str) -> Iterator[Example]:
    """The examples of a document, in its order."""
    found = blocks(text)
    for number, (line, language, content) in enumerate(found):
        following = [*found[number + 1 : number + 3], (0, "", ""), (0, "", "")]
        if language == "yaml" and following[0][1] == "outcome":
            becomes = yaml.safe_load(following[1][2]) if following[1][1] == "becomes" else None
            yield Example(line, yaml.safe_load(content), following[0][2], becomes)


async def example_cluster(served: Served) -> Webhook:
    """A webhook that sees the cluster of the reference."""
    webhook = Webhook(served)
    await webhook.see(a_node("t4"), _cards("t4", "Tesla T4", 16, cuda="12.4"))
    await webhook.see(a_node("l4"), _cards("l4", "NVIDIA L4", 22, 22, cuda="12.8"))
    await webhook.see(a_node("h100"), _cards("h100", "NVIDIA H100", 79, 79, 79, 79, cuda="13.0"))
    await webhook.see(a_node("mi300x"), _cards("mi300x", "AMD Instinct MI300X", 191, 191, vendor="amd", rocm="6.4"))
    spark = a_node("spark").offering(memory="119Gi").tainted("kind", "workstation")
    await webhook.see(spark, _cards("spark", "NVIDIA GB10", 111, card_class="unified", cuda="13.0"))
    await _publish(
        served,
        webhook,
        managed_node("eks", {GPU: 1}, memory="23028", count="1", product="NVIDIA-A10G", replicas="1"),
    )
    await _publish(
        served,
        webhook,
        managed_node("gke", {GPU: 4}, memory="16384", count="1", product="Tesla-T4-SHARED", replicas="4"),
    )
    await _publish(served, webhook, managed_node("mig", {SLICE: 2}, {f"{SLICE}.memory": "9728"}, count="1"))
    webhook.see_pod(a_pod("chat").limited_to({names.card_resource(0): "10"}).on("t4").raw(), "uid-chat")
    webhook.see_pod(a_pod("notebook").limited_to({GPU: "1"}).on("eks").raw(), "uid-notebook")
    return webhook


async def run(webhook: Webhook, example: Example) -> tuple[str, dict[str, Any]]:
    """What both webhooks say of an example, as an `outcome` block says it, and the pod as it is then."""
    pod = example.pod()
    outcome = await webhook.mutate(pod)
    if not isinstance(outcome, Admitted):
        return _refused(outcome), pod
    placed: dict[str, Any] = jsonpatch.apply_patch(pod, list(outcome.ops))
    final = await webhook.validate(placed)
    assert isinstance(final, Admitted), final
    lines = [_placed(placed, outcome), *_told(pod, placed), *(f"warning: {warning}" for warning in outcome.warnings)]
    return "".join(f"{line}\n" for line in lines), placed


def within(part: Any, whole: Any) -> bool:
    """Whether `whole` has everything that `part` has; lists are as long as they are."""
    if isinstance(part, Mapping):
        return isinstance(whole, Mapping) and all(key in whole and within(part[key], whole[key]) for key in part)
    if isinstance(part, list):
        return isinstance(whole, list) and len(part) == len(whole) and all(map(within, part, whole))
    return bool(part == whole)


def _refused(outcome: Outcome) -> str:
    assert isinstance(outcome, Refused), outcome
    return f"refused: {explain(outcome.refusal).splitlines()[0]}\n"


def _placed(pod: Mapping[str, Any], outcome: Admitted) -> str:
    if outcome.node is None:
        return "passes, " + ("without a change" if not outcome.ops else "and sees no card")
    record = read_record(pod)
    parts = []
    for container in dict.fromkeys(share.container for share in record.shares):
        gbs = [share.gb for share in record.shares if share.container == container]
        cards = "1 card" if len(gbs) == 1 else f"each of {len(gbs)} cards"
        parts.append(f"{container} {gbs[0]} GB on {cards}")
    parts += [f"{unit.container} {unit.count} {unit.resource}" for unit in record.units]
    return f"placed on {outcome.node}: {'; '.join(parts)}"


def _told(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """What is appended to the arguments of a server."""
    for old, new in zip(before["spec"]["containers"], after["spec"]["containers"], strict=True):
        if old.get("args") != new.get("args"):
            yield f"appended: {' '.join(new['args'][len(old.get('args') or ()) :])}"


def _cards(
    name: str, model: str, *gbs: int, vendor: str = "nvidia", card_class: str = "discrete", **accel: str
) -> dict[str, Any]:
    raw = gpu_node(name, *gbs, vendor=vendor, accelVersions=accel)
    for card in raw["status"]["cards"]:
        card.update({"model": model, "class": card_class})
    return raw


async def _publish(served: Served, webhook: Webhook, node: NodeBuilder) -> None:
    """The controller publishes the cards of a node without an agent, and the webhook hears of it."""
    raw = node.tainted("plugin", "vendor").raw()
    webhook.cluster.node_upserted(node_facts(raw))
    await ManagedNodes(served.client, webhook.cluster, NOW, exclusive=False).reconcile(raw["metadata"]["name"])
