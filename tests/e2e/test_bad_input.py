"""A malformed ask is refused by name: which field, which value, and what to write instead. Nothing else happens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from hack.devcluster.api import Api, ApiError, Json
from shared.api import names
from tests.e2e.conftest import MakePool, Pool, namespaces
from tests.e2e.kube import IMAGE, Namespace, deployment, ledger, pod, until

pytestmark = pytest.mark.e2e

_VRAM = f"metadata.annotations[{names.VRAM}]"
_RESOURCE = "containers[server].resources.limits"


@dataclass(frozen=True, slots=True)
class Bad:
    """A pod, and what its refusal has to name."""

    pod: Json
    field: str
    value: str
    fix: str


def _annotated(key: str, value: str, fix: str, *, named: str | None = None, **more: str) -> Bad:
    annotations = {names.VRAM: "6", **more, key: value}
    return Bad(pod("bad", annotations), f"metadata.annotations[{key}]", value if named is None else named, fix)


def _limited(resource: str, value: str, fix: str) -> Bad:
    return Bad(pod("bad", limits={resource: value}), f"{_RESOURCE}[{resource}]", value, fix)


def _vram(value: str, fix: str) -> Bad:
    return _annotated(names.VRAM, value, fix)


_SIDECAR = {"name": "sidecar", "image": IMAGE}

_CASES = {
    "unit-of-bytes": _vram("16GB", 'write "16"'),
    "negative": _vram("-1", 'write the GB per card, such as "6"'),
    "zero": _vram("0", 'write at least "1", or remove the ask'),
    "exponent": _vram("1e3", 'write the number out: "1000"'),
    "empty": _vram("", 'write the GB per card, such as "6"'),
    "word": _vram("lots", 'write the GB per card, such as "6"'),
    "larger-than-any-card": _vram("1000000", "at most"),
    "percentage-over-100": _vram("150%", 'up to 100, such as "50%"'),
    "part-of-a-card": _annotated(names.GPUS, "1.5", "write a whole number from 1"),
    "no-card": _annotated(names.GPUS, "0", "write a whole number from 1"),
    "misspelt-annotation": _annotated("kamiwaza.ai/vram-gbs", "6", f"write {names.VRAM}"),
    "misspelt-resource": _limited("kamiwaza.ai/vram-gbs", "6", f"write {names.VRAM}"),
    "annotation-of-one-card": _annotated(names.card_resource(0), "6", f"write {names.VRAM}"),
    "unknown-policy": _annotated(names.POLICY, "random", "binpack, spread, exclusive"),
    "unknown-vendor": _annotated(names.VENDOR, "voodoo", "nvidia"),
    "unknown-accelerator-version": _annotated(names.ACCEL_VERSION, "cuda=>12", 'write "cuda>=12.4"'),
    "unknown-container": _annotated(names.CONTAINER, "engine", "write one of: server"),
    "amount-for-a-missing-container": _annotated(f"{names.VRAM}.engine", "6", "its containers are server"),
    "negative-in-a-resource": _limited(names.VRAM, "-1", 'write the GB per card, such as "6"'),
    "fraction-of-a-card-in-a-resource": Bad(
        pod("bad", {names.VRAM: "6"}, limits={names.GPUS: "1500m"}),
        f"{_RESOURCE}[{names.GPUS}]",
        "1500m",
        "write a whole number from 1",
    ),
    "label-instead-of-annotation": Bad(
        {**pod("bad"), "metadata": {"name": "bad", "labels": {names.VRAM: "6"}}},
        f"metadata.labels[{names.VRAM}]",
        "6",
        f"write the pod annotation {names.VRAM}",
    ),
    "two-amounts-for-one-container": Bad(
        pod("bad", {names.VRAM: "6"}, limits={names.VRAM: "8"}),
        f"{_RESOURCE}[{names.VRAM}]",
        "8",
        "keep one of the two",
    ),
    "two-annotations-for-one-container": _annotated(
        names.VRAM, "8", "keep one of the two", **{f"{names.VRAM}.server": "6"}
    ),
    "two-counts-for-one-container": Bad(
        pod("bad", {names.VRAM: "6", names.GPUS: "2"}, limits={names.NVIDIA_GPU: "1"}),
        f"{_RESOURCE}[{names.NVIDIA_GPU}]",
        "1",
        "keep one of the two",
    ),
    "ask-in-requests-only": Bad(
        pod("bad", requests={names.VRAM: "6"}),
        f"containers[server].resources.requests[{names.VRAM}]",
        "6",
        f"write {names.VRAM} in resources.limits",
    ),
    "vendor-ask-in-requests-only": Bad(
        pod("bad", requests={names.NVIDIA_GPU: "1"}),
        f"containers[server].resources.requests[{names.NVIDIA_GPU}]",
        "1",
        f"write {names.NVIDIA_GPU} in resources.limits",
    ),
    "any-of-two-containers": Bad(
        pod("bad", {names.VRAM: "6"}, containers=[{"name": "server", "image": IMAGE}, _SIDECAR]),
        _VRAM,
        "6",
        f"add the annotation {names.CONTAINER}",
    ),
    "count-without-an-amount": Bad(
        pod("bad", {names.GPUS: "2"}), f"metadata.annotations[{names.GPUS}]", "2", f"add the annotation {names.VRAM}"
    ),
    "every-card-with-nothing-booked": Bad(
        pod(
            "bad",
            containers=[
                {"name": "server", "image": IMAGE, "env": [{"name": names.NVIDIA_VISIBLE_DEVICES, "value": "all"}]}
            ],
        ),
        f"containers[server].env[{names.NVIDIA_VISIBLE_DEVICES}]",
        "all",
        f"ask for memory with the annotation {names.VRAM}",
    ),
    "words-of-another-system": _limited(names.NVIDIA_GPUMEM, "16Gi", 'write the MiB per card: "16384"'),
}


@pytest.fixture(scope="module")
def here(module_pool: MakePool) -> Pool:
    return module_pool(24)


@pytest.fixture(scope="module")
def tenant(api: Api, here: Pool) -> Iterator[Namespace]:
    with namespaces(api) as make:
        yield make()


@pytest.mark.parametrize("bad", _CASES.values(), ids=_CASES.keys())
def test_is_refused_with_field_value_and_the_right_form(api: Api, here: Pool, tenant: Namespace, bad: Bad) -> None:
    error = tenant.refusal(bad.pod)
    _check(error, bad)
    assert tenant.find("Pod", "bad") is None
    assert ledger(api, here.node) == {}


def test_a_dry_run_says_the_same(tenant: Namespace) -> None:
    bad = _vram("16GB", 'write "16"')
    _check(tenant.refusal(bad.pod, dry_run=True), bad)


def test_a_deployment_is_told_and_is_placed_once_its_template_is_right(api: Api, here: Pool, tenant: Namespace) -> None:
    tenant.create(deployment("chat", {names.VRAM: "16GB"}, pool=here.name))
    status = tenant.waiting("chat", "invalid_request")
    waiting = {condition["type"]: condition["status"] for condition in status["conditions"]}
    assert waiting["Waiting"] == "False"
    assert status["lastErrorMessage"].startswith(f"invalid_request: {_VRAM} is '16GB'")
    event = until("the Deployment has an event", lambda: tenant.events("Deployment", "chat", "NoFit"))[0]
    assert event["type"] == "Warning"
    assert "'16GB'" in event["message"]

    right = {"spec": {"template": {"metadata": {"annotations": {names.VRAM: "16"}}}}}
    tenant.merge("Deployment", "chat", right)
    tenant.running("chat")
    until("the refusal is gone", lambda: tenant.placement("Deployment", "chat").get("phase") == "Running")
    assert "lastErrorMessage" not in tenant.placement("Deployment", "chat")


def _check(error: ApiError, bad: Bad) -> None:
    assert (error.status, error.reason) == (403, "Forbidden")
    assert "invalid_request: " in error.message
    assert f"{bad.field} is {bad.value!r}" in error.message
    assert bad.fix in error.message
    (cause,) = error.details["causes"]
    assert cause["reason"] == "invalid_request"
    assert cause["field"] == bad.field
    assert repr(bad.value) in cause["message"]
    assert bad.fix in cause["message"]
