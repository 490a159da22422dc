"""Containers read from a pod whose shape nobody has checked."""

from __future__ import annotations

from typing import Any

import pytest

from shared.core.containers import Container, Role, mapping, read_containers, sequence, text, texts
from shared.core.invalid import InvalidRequest
from tests.builders import a_pod

DEVICES = "NVIDIA_VISIBLE_DEVICES"


def container_with(env: list[dict[str, Any]]) -> Container:
    return read_containers({"spec": {"containers": [{"name": "main", "env": env}]}})[0]


def test_init_containers_and_sidecars_come_first_with_their_roles() -> None:
    pod = a_pod().init("fetch").sidecar("proxy").container("second")
    assert [(each.name, each.role) for each in read_containers(pod.raw())] == [
        ("fetch", Role.INIT),
        ("proxy", Role.SIDECAR),
        ("main", Role.APP),
        ("second", Role.APP),
    ]


def test_quantities_are_read_as_texts_whether_written_as_number_or_text() -> None:
    pod = a_pod().limited_to({"nvidia.com/gpu": 1, "cpu": "500m", "memory": 1.5})
    assert read_containers(pod.raw())[0].limits == {"nvidia.com/gpu": "1", "cpu": "500m", "memory": "1.5"}


def test_a_pod_without_a_spec_has_no_containers() -> None:
    assert read_containers({}) == ()


def test_the_last_entry_of_a_variable_wins_as_in_the_container() -> None:
    elsewhere = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}
    first_literal = container_with([{"name": "A", "value": "1"}, {"name": "A", **elsewhere}])
    assert (first_literal.env, first_literal.env_from_elsewhere) == ({}, frozenset({"A"}))
    last_literal = container_with([{"name": "A", **elsewhere}, {"name": "A", "value": "2"}])
    assert (last_literal.env, last_literal.env_from_elsewhere) == ({"A": "2"}, frozenset())


@pytest.mark.parametrize(
    ("env", "visible"),
    [
        pytest.param([], None, id="not-set"),
        pytest.param([{"name": DEVICES}], None, id="without-a-value"),
        pytest.param([{"name": DEVICES, "value": "void"}], None, id="void"),
        pytest.param([{"name": DEVICES, "value": "none"}], None, id="none"),
        pytest.param([{"name": DEVICES, "value": "all"}], "all", id="all"),
        pytest.param([{"name": DEVICES, "value": "GPU-1"}], "GPU-1", id="a-uuid"),
        pytest.param([{"name": DEVICES, "valueFrom": {"fieldRef": {}}}], "(from elsewhere)", id="from-elsewhere"),
        pytest.param(
            [{"name": DEVICES, "value": "all"}, {"name": DEVICES, "value": "void"}], None, id="taken-back-later"
        ),
    ],
)
def test_the_variable_tells_which_devices_a_container_sees(env: list[dict[str, Any]], visible: str | None) -> None:
    assert container_with(env).visible_devices == visible


def test_a_resource_is_named_by_container_and_list() -> None:
    container = container_with([])
    assert container.field("nvidia.com/gpu") == "containers[main].resources.limits[nvidia.com/gpu]"
    assert container.field("nvidia.com/gpu", "requests") == "containers[main].resources.requests[nvidia.com/gpu]"


@pytest.mark.parametrize(
    ("pod", "field", "value"),
    [
        pytest.param({"spec": []}, "spec", "[...]", id="spec-is-a-list"),
        pytest.param({"spec": {"containers": {}}}, "spec.containers", "{...}", id="containers-are-an-object"),
        pytest.param({"spec": {"initContainers": 7}}, "spec.initContainers", "7", id="init-containers-are-a-number"),
        pytest.param({"spec": {"containers": ["main"]}}, "spec.containers[0]", "main", id="a-container-is-a-text"),
        pytest.param(
            {"spec": {"containers": [{"name": ["a"]}]}}, "spec.containers[0].name", "[...]", id="a-name-is-a-list"
        ),
        pytest.param(
            {"spec": {"containers": [{"resources": True}]}}, "spec.containers[0].resources", "true", id="resources"
        ),
        pytest.param(
            {"spec": {"containers": [{"resources": {"limits": "6"}}]}},
            "spec.containers[0].resources.limits",
            "6",
            id="limits-are-a-text",
        ),
        pytest.param(
            {"spec": {"containers": [{"resources": {"requests": {"cpu": {}}}}]}},
            "spec.containers[0].resources.requests[cpu]",
            "{...}",
            id="a-quantity-is-an-object",
        ),
        pytest.param({"spec": {"containers": [{"env": {}}]}}, "spec.containers[0].env", "{...}", id="env"),
        pytest.param(
            {"spec": {"containers": [{"env": [{"name": "A", "value": [1]}]}]}},
            "spec.containers[0].env[A]",
            "[...]",
            id="a-variable-is-a-list",
        ),
    ],
)
def test_a_shape_that_no_pod_has_is_refused_by_its_field(pod: dict[str, Any], field: str, value: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_containers(pod)
    assert (refused.value.field, refused.value.value) == (field, value)


def test_what_is_absent_or_null_is_empty() -> None:
    assert mapping(None, "spec") == {}
    assert sequence(None, "spec.containers") == ()
    assert texts(None, "metadata.labels") == {}
    assert text(None, "value") == ""


def test_scalars_are_read_as_their_author_wrote_them() -> None:
    assert texts({"a": True, "b": False, "c": 2, "d": None, "e": "x"}, "labels") == {
        "a": "true",
        "b": "false",
        "c": "2",
        "d": "",
        "e": "x",
    }


def test_a_refusal_quotes_a_long_value_in_short() -> None:
    with pytest.raises(InvalidRequest) as refused:
        mapping("x" * 5000, "spec")
    assert refused.value.value == "x" * 37 + "..."


def test_a_value_nested_beyond_all_measure_is_refused_and_not_written_out() -> None:
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    with pytest.raises(InvalidRequest):
        texts({"kamiwaza.ai/vram-gb": nested}, "metadata.annotations")


def test_image_command_and_args_are_read_as_they_stand() -> None:
    (container,) = read_containers(
        {
            "spec": {
                "containers": [{"name": "a", "image": "vllm:v1", "command": ["vllm"], "args": ["--port", 8000, "$(X)"]}]
            }
        }
    )
    assert (container.image, container.command, container.args) == ("vllm:v1", ("vllm",), ("--port", "8000", "$(X)"))


def test_a_command_that_is_no_list_is_refused() -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_containers({"spec": {"containers": [{"name": "a", "command": "vllm serve"}]}})
    assert refused.value.field == "spec.containers[0].command"


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
def test_two_containers_of_one_name_are_no_pod(kind: str) -> None:
    spec = {"containers": [{"name": "a"}], kind: [{"name": "a"}, {"name": "a"}]}
    with pytest.raises(InvalidRequest) as refused:
        read_containers({"spec": spec})
    assert (refused.value.field, refused.value.value) == ("spec.containers.name", "a")
