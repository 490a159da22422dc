"""A pod that is too large to be read is refused where it asks for a card, and passes where it does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from shared.api import names
from shared.core.engines.words import LONGEST_TEXT
from shared.core.invalid import InvalidRequest
from shared.core.pods import REQUIRED
from tests.builders import a_node, a_pod
from tests.fakes.serving import serving
from tests.unit.admission import Webhook, gpu_node
from webhook.outcome import Admitted, Refused
from webhook.pod_size import MOST_BYTES, MOST_RULES, MOST_TEXT, MOST_VALUES, passes_unread

Json = dict[str, Any]
MANY = MOST_VALUES + 1
READABLE = "x" * LONGEST_TEXT


def a_pod_of(main: Json | None = None, metadata: Json | None = None, **spec: Any) -> Json:
    return {"metadata": metadata or {}, "spec": {"containers": [{"name": "main", **(main or {})}], **spec}}


def asking(pod: Json) -> Json:
    annotations = {names.VRAM: "6", **pod["metadata"].get("annotations", {})}
    return {**pod, "metadata": {**pod["metadata"], "annotations": annotations}}


def texts(count: int) -> list[Json]:
    return [{"name": f"X{number}", "value": READABLE} for number in range(count)]


def host_names(count: int) -> Json:
    hosts = ["t4", *(f"n{each}" for each in range(count))]
    requirement = {"key": "kubernetes.io/hostname", "operator": "In", "values": hosts}
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [requirement]}]}}}


def conditions(count: int) -> Json:
    """Affinity to nodes with so many conditions: `count + 6` values."""
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{}] * count}]}}}


@pytest.fixture
async def webhook(tmp_path: Path) -> AsyncIterator[Webhook]:
    async with serving(tmp_path) as served:
        webhook = Webhook(served)
        await webhook.see(a_node("t4"), gpu_node("t4", 16))
        yield webhook


TOO_LARGE = [
    pytest.param(a_pod_of({"args": ["a"] * MANY}), "spec.containers[0].args", f"{MANY + 1} values", id="words"),
    pytest.param(a_pod_of({"env": [{"name": "A"}] * MANY}), "spec.containers[0].env", f"{MANY + 1} values", id="env"),
    pytest.param(
        a_pod_of(containers=[{"name": f"c{each}"} for each in range(MANY)]),
        "spec.containers",
        f"{MANY} values",
        id="containers",
    ),
    pytest.param(a_pod_of(volumes=[{}] * MANY), "spec.volumes", f"{MANY + 1} values", id="volumes"),
    pytest.param(
        a_pod_of(metadata={"annotations": {f"a{each}": "" for each in range(MANY)}}),
        "metadata.annotations",
        f"{MANY + 1} values",
        id="annotations",
    ),
    pytest.param(
        a_pod_of(affinity=conditions(MOST_RULES)),
        "spec.affinity",
        f"{MOST_RULES + 6} values of scheduling rules",
        id="conditions",
    ),
    pytest.param(
        a_pod_of(affinity=conditions(MOST_RULES // 2), tolerations=[{}] * (MOST_RULES // 2)),
        "spec.affinity",
        f"{MOST_RULES // 2 + 6} values of scheduling rules",
        id="rules-together",
    ),
    pytest.param(
        a_pod_of({"command": ["sh"], "env": texts(5)}),
        "spec.containers[0].env",
        f"{5 * LONGEST_TEXT} characters of command lines",
        id="scripts",
    ),
    pytest.param(
        a_pod_of({"env": [{"name": "X", "value": "x" * MOST_BYTES}]}),
        "object",
        " bytes",
        id="one-long-text",
    ),
]


@pytest.mark.parametrize(("pod", "field", "value"), TOO_LARGE)
async def test_it_is_refused_by_both_webhooks_where_it_asks(
    webhook: Webhook, pod: Json, field: str, value: str
) -> None:
    for outcome in (await webhook.mutate(asking(pod)), await webhook.validate(asking(pod))):
        assert isinstance(outcome, Refused)
        refusal: Any = outcome.refusal
        assert refusal.field == field
        assert "is too much" in refusal.problem
        assert refusal.fix


@pytest.mark.parametrize(("pod", "field", "value"), TOO_LARGE)
async def test_it_passes_where_it_asks_for_nothing(webhook: Webhook, pod: Json, field: str, value: str) -> None:
    assert await webhook.mutate(pod) == await webhook.validate(pod) == Admitted()


@pytest.mark.parametrize(("pod", "field", "value"), TOO_LARGE)
def test_the_refusal_says_what_is_too_much(pod: Json, field: str, value: str) -> None:
    variable = {"name": names.NVIDIA_VISIBLE_DEVICES, "value": "all"}
    init = [{"name": "init", "env": [variable]}]
    with pytest.raises(InvalidRequest) as refused:
        passes_unread({**pod, "spec": {**pod["spec"], "initContainers": init}})
    assert refused.value.value.endswith(value)


JUST_RIGHT = [
    pytest.param(a_pod_of({"args": ["a"] * (MOST_VALUES - 10)}), id="words"),
    pytest.param(a_pod_of(tolerations=[{}] * (MOST_RULES - 10)), id="rules"),
    pytest.param(a_pod_of(affinity=host_names(5000)), id="thousands-of-nodes-by-name"),
    pytest.param(a_pod_of({"env": texts(MOST_TEXT // LONGEST_TEXT)}), id="scripts"),
    pytest.param(a_pod_of({"env": [{"name": "X", "value": "x" * (MOST_BYTES - 1000)}]}), id="one-long-text"),
    pytest.param(a_pod_of(metadata={"managedFields": [{}] * MANY}), id="managed-fields"),
]


@pytest.mark.parametrize("pod", JUST_RIGHT)
async def test_what_is_just_within_the_limits_is_placed(webhook: Webhook, pod: Json) -> None:
    outcome = await webhook.mutate(asking(pod))
    assert isinstance(outcome, Admitted)
    assert outcome.node == "t4"


@pytest.mark.parametrize(
    "part",
    [
        {"env": [7] * MANY},
        {"env": {"name": "A"}},
        {"resources": [], "env": [{}] * MANY},
        {"env": [{"name": names.NVIDIA_VISIBLE_DEVICES, "value": ["all"]}] * MANY},
    ],
)
async def test_a_large_one_of_a_wrong_shape_is_refused(webhook: Webhook, part: Json) -> None:
    for outcome in (await webhook.mutate(a_pod_of(part)), await webhook.validate(a_pod_of(part))):
        assert isinstance(outcome, Refused)


class Counting(list[Any]):
    """A list that counts how often something looks at its items."""

    looked = 0

    def __iter__(self) -> Any:
        self.looked += 1
        return super().__iter__()


def test_of_a_long_list_only_the_length_is_looked_at() -> None:
    words = Counting(["a"] * MANY)
    with pytest.raises(InvalidRequest):
        passes_unread(asking(a_pod_of({"args": words})))
    assert words.looked == 0


def test_a_usual_pod_is_read() -> None:
    assert passes_unread(a_pod().annotated(names.VRAM, "6").raw()) is False
