"""Only namespaces that opted in are touched, and there only pods that say a word about GPUs."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Iterator

import pytest

from hack.devcluster.api import Api, ApiError, Json
from shared.api import names
from tests.e2e.conftest import MakeNamespace, MakePool
from tests.e2e.kube import (
    Namespace,
    booked,
    deployment,
    ledger,
    node_of,
    pod,
    reservation,
    shares,
    until,
    wait_balanced,
)

pytestmark = pytest.mark.e2e


def _is_untouched(stored: Json) -> bool:
    metadata = stored["metadata"]
    return (
        not reservation(stored)
        and names.PLACED not in metadata.get("annotations", {})
        and "affinity" not in stored["spec"]
        and not shares(stored)
    )


def test_a_namespace_without_the_label_is_left_alone(api: Api, pool: MakePool, make_namespace: MakeNamespace) -> None:
    here, plain = pool(16), make_namespace(None)
    plain.create(deployment("chat", {names.VRAM: "6"}, pool=here.name))
    assert all(_is_untouched(each) for each in plain.running("chat"))
    assert ledger(api, here.node) == {}
    assert plain.placement("Deployment", "chat") == {}


@pytest.mark.parametrize("kind", ["containers", "initContainers"])
@pytest.mark.parametrize("mode", [None, "disabled"])
def test_a_share_by_hand_is_refused_by_policy_elsewhere(
    make_namespace: MakeNamespace, kind: str, mode: str | None
) -> None:
    plain = make_namespace(mode)
    container = {"name": "by-hand", "image": "none", "resources": {"limits": {names.card_resource(0): "6"}}}
    manifest = pod("chat")
    manifest["spec"].setdefault(kind, []).append(container)
    error = plain.refusal(manifest)
    assert (error.status, error.reason) == (403, "Forbidden")
    assert f"Label the namespace {names.NAMESPACE_LABEL}: {names.MODE_ENABLED}" in error.message
    assert f'{names.VRAM}, for example "6"' in error.message
    assert plain.find("Pod", "chat") is None


def test_after_the_label_the_next_pod_is_placed(api: Api, pool: MakePool, make_namespace: MakeNamespace) -> None:
    here, tenant = pool(16), make_namespace(None)
    before = tenant.create(pod("before", {names.VRAM: "6"}, pool=here.name))
    assert _is_untouched(before)
    _label(api, tenant.name, names.MODE_ENABLED)
    until("the API server knows", lambda: _would_be_placed(tenant, _asking(here.name)))
    tenant.create(_asking(here.name))
    assert shares(tenant.running("chat")[0]) == {0: 6}
    assert _is_untouched(tenant.get("Pod", "before"))
    wait_balanced(api, here.nodes)

    _label(api, tenant.name, None)
    after = pod("after", {names.VRAM: "6"}, pool=here.name)
    until("the API server knows", lambda: _would_be_untouched(tenant, after))
    assert _is_untouched(tenant.create(after))
    assert booked(api, here.node) == {0: 6}


def test_an_auto_namespace_places_explicit_asks(api: Api, pool: MakePool, make_namespace: MakeNamespace) -> None:
    here, tenant = pool(16), make_namespace(names.MODE_AUTO)
    tenant.create(_asking(here.name))
    (placed,) = tenant.running("chat")
    assert (node_of(placed), shares(placed)) == (here.node, {0: 6})
    assert "invalid_request" in tenant.refusal(pod("wrong", {names.VRAM: "16GB"})).message
    wait_balanced(api, here.nodes)


@pytest.mark.parametrize("system", ["kube-system", "placement-system"])
def test_a_system_namespace_is_never_touched(api: Api, pool: MakePool, system: str) -> None:
    here, tenant = pool(16), Namespace(api, system)
    with _labelled(api, system, names.MODE_ENABLED), _removed(tenant, "chat"):
        stored = tenant.create(_asking(here.name))
        assert _is_untouched(stored)
        by_hand = pod("by-hand", limits={names.card_resource(0): "6"})
        error = until("the policy knows of the label", lambda: _refusal(tenant, by_hand))
        assert error is not None
        assert names.NAMESPACE_LABEL in error.message
    assert ledger(api, here.node) == {}


@pytest.mark.parametrize("mode", [names.MODE_ENABLED, names.MODE_AUTO])
def test_a_pod_without_a_word_about_gpus_is_created_as_elsewhere(make_namespace: MakeNamespace, mode: str) -> None:
    manifest = pod(
        "web",
        {"example.com/note": "x"},
        limits={"cpu": "1", "memory": "1Gi"},
        initContainers=[{"name": "fetch", "image": "none"}],
    )
    elsewhere = make_namespace(None).create(manifest)
    here = make_namespace(mode).create(manifest)
    assert _comparable(here) == _comparable(elsewhere)


def test_only_creates_of_pods_are_looked_at(api: Api, pool: MakePool, namespace: Namespace) -> None:
    here = pool(16)
    namespace.create(_asking(here.name))
    namespace.running("chat")
    changed = namespace.merge("Pod", "chat", {"metadata": {"annotations": {names.VRAM: "16GB"}}})
    assert changed["metadata"]["annotations"][names.VRAM] == "16GB"
    wait_balanced(api, here.nodes)


def _asking(pool: str) -> Json:
    return pod("chat", {names.VRAM: "6"}, pool=pool)


def _label(api: Api, namespace: str, mode: str | None) -> None:
    api.merge(f"/api/v1/namespaces/{namespace}", {"metadata": {"labels": {names.NAMESPACE_LABEL: mode}}})


@contextlib.contextmanager
def _labelled(api: Api, namespace: str, mode: str) -> Iterator[None]:
    _label(api, namespace, mode)
    try:
        yield
    finally:
        _label(api, namespace, None)


@contextlib.contextmanager
def _removed(tenant: Namespace, name: str) -> Iterator[None]:
    try:
        yield
    finally:
        tenant.api.delete(tenant.path("Pod", name) + "?gracePeriodSeconds=0")


def _refusal(tenant: Namespace, manifest: Json) -> ApiError | None:
    try:
        tenant.create(manifest, dry_run=True)
    except ApiError as error:
        return error
    return None


def _would_be_placed(tenant: Namespace, manifest: Json) -> bool:
    """Not while only the validating webhook is called: it refuses a model pod that nobody placed."""
    try:
        return bool(reservation(tenant.create(manifest, dry_run=True)))
    except ApiError:
        return False


def _would_be_untouched(tenant: Namespace, manifest: Json) -> bool:
    """Not while the webhooks are still called, nor while the policy is in force already."""
    try:
        return _is_untouched(tenant.create(manifest, dry_run=True))
    except ApiError:
        return False


def _comparable(stored: Json) -> Json:
    """What of a stored pod does not differ between two creates of the same manifest."""
    metadata = {key: stored["metadata"][key] for key in ("name", "labels", "annotations")}
    text = json.dumps({"metadata": metadata, "spec": copy.deepcopy(stored["spec"])})
    for volume in stored["spec"]["volumes"]:
        text = text.replace(volume["name"], "token")
    comparable: Json = json.loads(text)
    return comparable
