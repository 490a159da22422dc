"""Hostile reviews: whatever is sent, the webhook answers properly and lives on."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any, TypeAlias

import jsonpatch
import orjson
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from shared.api import names
from tests.property.asking_pods import asking_pods
from tests.unit.test_app import Site, a_site, review

PATHS = st.sampled_from(["/mutate", "/validate"])
KEYS = st.one_of(
    st.sampled_from(
        [
            "apiVersion", "kind", "request", "uid", "object", "metadata", "labels", "annotations", "spec", "containers",
            "initContainers", "name", "env", "resources", "limits", "requests", "affinity", names.VRAM,
            names.RESERVATION, names.PLACED, "nvidia.com/gpu", names.card_resource(0),
        ]
    ),
    st.text(max_size=3),
)  # fmt: skip
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(
        ["", "1", "6", "main", "In", "Always", "all", "aaaaaaaaaa", "t4", "metadata.name", '{"changed":[{}]}']
    ),
    st.text(max_size=4),
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)),
    max_leaves=12,
)
OWNER = [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "a/b", "uid": "uid-rs", "controller": True}]

Spot: TypeAlias = tuple[str | int, ...]


class Visitor:
    """Sends requests to one site for the whole module: starting it takes longer than a review."""

    def __init__(self, runner: asyncio.Runner, site: Site) -> None:
        self._runner = runner
        self._site = site

    def post(self, path: str, body: bytes) -> tuple[int, bytes]:
        async def send() -> tuple[int, bytes]:
            answer = await self._site.post(path, body)
            return answer.status, await answer.read()

        return self._runner.run(send())

    def place(self, pod: dict[str, Any]) -> dict[str, Any] | None:
        """The pod as a dry run of the mutating webhook makes it, or None where it is refused."""
        _, body = self.post("/mutate", orjson.dumps(review(pod, dryRun=True)))
        response = orjson.loads(body)["response"]
        return changed(pod, response) if response["allowed"] else None


@contextmanager
def visiting(folder: Path) -> Iterator[Visitor]:
    """A visitor of a site of its own."""
    with asyncio.Runner() as runner:
        context = a_site(folder)
        site = runner.run(context.__aenter__())
        yield Visitor(runner, site)
        runner.run(context.__aexit__(None, None, None))


@pytest.fixture(scope="module")
def visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    with visiting(Path(tmp_path_factory.mktemp("fake"))) as visitor:
        yield visitor


@pytest.fixture(scope="module")
def dry_visitor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Visitor]:
    """A visitor of a site where nobody books anything, so that there is always room."""
    with visiting(Path(tmp_path_factory.mktemp("dry"))) as visitor:
        yield visitor


def changed(pod: Any, response: dict[str, Any]) -> Any:
    if "patch" not in response:
        return pod
    assert response["patchType"] == "JSONPatch"
    return jsonpatch.apply_patch(pod, orjson.loads(base64.b64decode(response["patch"])))


def check_answer(pod: Any, status: int, body: bytes) -> None:
    """An answer to a valid envelope: a well-formed AdmissionReview that admits or refuses."""
    assert status == 200
    answer = orjson.loads(body)
    assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    response = answer["response"]
    assert response["uid"] == "uid-1"
    if response["allowed"]:
        changed(pod, response)
        return
    assert (response["status"]["code"], response["status"]["reason"]) == (403, "Forbidden")
    assert 1 <= len(response["status"]["details"]["causes"]) <= 16
    assert b"retryAfterSeconds" not in body


def check_echo(sent: dict[str, Any], status: int, body: bytes) -> None:
    """An answer to what may be a review: one of the same version to the same request, or a client error."""
    assert status == 200 or 400 <= status < 500
    if status == 200:
        answer = orjson.loads(body)
        assert (answer["apiVersion"], answer["response"]["uid"]) == (sent["apiVersion"], sent["request"]["uid"])


@given(path=PATHS, body=st.one_of(st.binary(max_size=40), JSON.map(orjson.dumps)))
def test_a_body_that_is_anything_is_a_client_error(visitor: Visitor, path: str, body: bytes) -> None:
    status, _ = visitor.post(path, body)
    assert 400 <= status < 500


@given(path=PATHS, field=st.sampled_from(["apiVersion", "kind", "request"]), value=JSON)
def test_an_envelope_with_anything_in_it_is_answered(visitor: Visitor, path: str, field: str, value: Any) -> None:
    sent = {**review({}), field: value}
    check_echo(sent, *visitor.post(path, orjson.dumps(sent)))


@given(
    path=PATHS,
    value=JSON,
    field=st.sampled_from(["uid", "resource", "operation", "namespace", "dryRun", "subResource"]),
)
def test_a_request_with_anything_in_it_is_answered(visitor: Visitor, path: str, field: str, value: Any) -> None:
    sent = review({}, **{field: value})
    check_echo(sent, *visitor.post(path, orjson.dumps(sent)))


@given(path=PATHS, pod=st.dictionaries(KEYS, JSON, max_size=4), dry_run=st.booleans())
@example(path="/validate", pod={"metadata": {"labels": {names.RESERVATION: "aaaaaaaaaa"}}}, dry_run=False)
@example(path="/mutate", pod={"metadata": {"labels": {names.RESERVATION: "aaaaaaaaaa"}}}, dry_run=False)
@example(path="/mutate", pod={"metadata": {"ownerReferences": OWNER}, "spec": [1]}, dry_run=False)
@example(path="/mutate", pod={"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": 1}}}]}}, dry_run=True)
@example(
    path="/mutate",
    pod={"spec": {"containers": [None, {"name": "main", "resources": {"limits": {"nvidia.com/gpu": 0}}}]}},
    dry_run=True,
)
def test_anything_for_a_pod_is_answered(visitor: Visitor, path: str, pod: dict[str, Any], dry_run: bool) -> None:
    body = orjson.dumps(review(pod, dryRun=dry_run))
    check_answer(orjson.loads(body)["request"]["object"], *visitor.post(path, body))


@settings(max_examples=250)
@given(
    path=PATHS,
    pod=asking_pods(),
    placed=st.booleans(),
    dry_run=st.booleans(),
    where=st.integers(0, 9_999),
    what=JSON,
)
def test_a_pod_with_one_thing_replaced_by_anything_is_answered(
    visitor: Visitor, path: str, pod: dict[str, Any], placed: bool, dry_run: bool, where: int, what: Any
) -> None:
    pod = (visitor.place(pod) if placed else None) or pod
    # Not drawn among them: how many there are depends on what others have booked meanwhile.
    found = list(spots(pod))
    pod = replaced(pod, found[where % len(found)], what)
    body = orjson.dumps(review(pod, dryRun=dry_run))
    check_answer(orjson.loads(body)["request"]["object"], *visitor.post(path, body))


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(pod=asking_pods())
def test_what_the_mutating_webhook_admits_the_validating_one_lets_in(dry_visitor: Visitor, pod: dict[str, Any]) -> None:
    placed = dry_visitor.place(pod)
    assume(placed is not None)
    _, body = dry_visitor.post("/validate", orjson.dumps(review(placed or {}, dryRun=True)))
    assert orjson.loads(body)["response"] == {"uid": "uid-1", "allowed": True}


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_a_pod_nested_deeper_than_any_is_answered(visitor: Visitor, path: str) -> None:
    nested = b'{"spec":' * 200 + b"{}" + b"}" * 200
    body = orjson.dumps(review({})).replace(b'"object":{}', b'"object":' + nested)
    check_answer(orjson.loads(nested), *visitor.post(path, body))


@pytest.mark.parametrize("path", ["/mutate", "/validate"])
def test_a_pod_nested_deeper_than_a_patch_can_be_is_a_client_error(visitor: Visitor, path: str) -> None:
    nested = b'{"spec":' * 300 + b"{}" + b"}" * 300
    status, body = visitor.post(path, orjson.dumps(review({})).replace(b'"object":{}', b'"object":' + nested))
    assert (status, orjson.loads(body)) == (400, {"error": "request.object is nested too deeply"})


def spots(value: Any, at: Spot = ()) -> Iterator[Spot]:
    """Every path in a pod but the root."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in items:
        yield (*at, key)
        yield from spots(item, (*at, key))


def replaced(pod: dict[str, Any], spot: Spot, value: Any) -> dict[str, Any]:
    result = deepcopy(pod)
    parent: Any = result
    for part in spot[:-1]:
        parent = parent[part]
    parent[spot[-1]] = value
    return result
