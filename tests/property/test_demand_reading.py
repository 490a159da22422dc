"""Reading a pod that may be anything: a demand that holds together, or a refusal that says what to write."""

from __future__ import annotations

from typing import Any

from hypothesis import event, example, given, settings
from hypothesis import strategies as st

from shared.core.containers import Role
from shared.core.demand import ReadPod, read_pod
from shared.core.explain import causes, explain
from shared.core.found import MOST_CARDS
from shared.core.invalid import InvalidRequest
from shared.core.refusal import Invalid
from tests.property.model_pods import ASK_KEYS, RESOURCES, Json, asking_pods, model_pods

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=12)
any_json = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=12,
)
any_value = any_json | st.sampled_from(["6", 6, "50%", "all"])


def loose(keys: list[str], inner: st.SearchStrategy[Any] = any_value) -> st.SearchStrategy[Any]:
    """An object with some of `keys`, or now and then something else."""
    return st.dictionaries(st.sampled_from(keys), inner, max_size=4) | any_json


keys_of_metadata = loose([*ASK_KEYS, "kamiwaza.ai/vram-gbs", "gpu-memory", "app"])
amounts = loose(list(RESOURCES))
env = st.lists(loose(["name", "value", "valueFrom"]), max_size=2) | any_json
container = st.fixed_dictionaries(
    {},
    optional={
        "name": st.sampled_from(["main", "server"]) | any_json,
        "resources": st.fixed_dictionaries({}, optional={"limits": amounts, "requests": amounts}) | any_json,
        "env": env,
        "restartPolicy": st.just("Always") | any_json,
    },
)
containers = st.lists(container | any_json, max_size=3) | any_json
hostile_pods: st.SearchStrategy[Json] = st.fixed_dictionaries(
    {},
    optional={
        "metadata": st.fixed_dictionaries({}, optional={"annotations": keys_of_metadata, "labels": keys_of_metadata})
        | any_json,
        "spec": st.fixed_dictionaries({}, optional={"containers": containers, "initContainers": containers}) | any_json,
    },
)


def read(pod: Json) -> ReadPod | Invalid:
    try:
        return read_pod(pod)
    except InvalidRequest as error:
        return Invalid.of(error)


@settings(max_examples=500)
@given(hostile_pods | st.dictionaries(st.text(max_size=12), any_json, max_size=4))
@example({"metadata": {"annotations": {"kamiwaza.ai/vram-gb": "9" * 5000}}, "spec": {"containers": [{"name": "main"}]}})
@example({"metadata": {"annotations": {"kamiwaza.ai/vram-gb": "1e9999999"}}, "spec": {"containers": [{"name": "m"}]}})
@example({"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "1e-9999999999"}}}]}})
def test_anything_at_all_is_read_or_refused(pod: Json) -> None:
    outcome = read(pod)
    event(type(outcome).__name__)
    if isinstance(outcome, Invalid):
        assert outcome.field
        assert outcome.problem
        assert outcome.fix
        text = explain(outcome)
        assert text.startswith("invalid_request: ")
        assert len(text.partition("\n")[0]) < 240
        assert len(text) < 900
        assert len(causes(outcome)) == 1


@settings(max_examples=500)
@given(asking_pods() | model_pods)
def test_a_demand_holds_together(pod: Json) -> None:
    outcome = read(pod)
    if isinstance(outcome, Invalid) or outcome.demand is None:
        return
    demand = outcome.demand
    roles = {each.name: each.role for each in outcome.containers}
    asking = [ask.container for ask in demand.asks]
    event(f"asks: {len(asking)}")
    assert asking or demand.units
    assert len(set(asking)) == len(asking)
    assert not set(asking) & set(outcome.hidden)
    for ask in demand.asks:
        assert roles[ask.container] is not Role.INIT
        assert all(roles[name] is Role.INIT for name in ask.init_containers)
        assert 1 <= ask.count <= MOST_CARDS
        assert (ask.amount.gb is None) != (ask.amount.percent is None)
    assert str(demand)


@settings(max_examples=300)
@given(asking_pods() | model_pods)
def test_what_is_read_does_not_depend_on_the_order_of_keys(pod: Json) -> None:
    def mirrored(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: mirrored(item) for key, item in reversed(list(value.items()))}
        return [mirrored(item) for item in value] if isinstance(value, list) else value

    one, other = read(pod), read(mirrored(pod))
    if isinstance(one, Invalid) or isinstance(other, Invalid):
        # Which of several wrong values is named first is free to differ.
        assert type(one) is type(other)
    else:
        assert (one.demand, one.hidden) == (other.demand, other.hidden)
