"""Plays the creates of a case on a real control plane, and tells what its API server answered.

What comes of it is judged by the case runner's own expectations.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping
from typing import Final

import jsonpatch

from hack.devcluster.api import Reply
from shared.api import names
from tests.cases.admission import API_SERVER, POD_SECURITY, PRODUCT, RESOURCE_QUOTA, Refusal
from tests.cases.kinds import api_version_of, namespace_of
from tests.cases.outcome import Answer, Result
from tests.cases.owners import fill_in, steps_of, with_wishes
from tests.cases.play import Played
from tests.cases.scheduler import chosen_node
from tests.e2e.case_world import AS_SENT, RealWorld, wait_running
from tests.e2e.kube import Namespace
from tests.fakes.objects import Json, copied
from tests.fakes.pod_rules import with_defaults

_DENIED: Final = re.compile(r'admission webhook "[^"]*' + re.escape(names.GROUP) + '" denied the request: ')
_STAGES: Final[Mapping[str, str]] = {
    "ValidatingAdmissionPolicy": PRODUCT,
    "exceeded quota": RESOURCE_QUOTA,
    "violates PodSecurity": POD_SECURITY,
}
_WARNING: Final = re.compile(r'\d{3} \S+ ("(?:[^"\\]|\\.)*")')
_RANDOM_NAME: Final = re.compile(r"kube-api-access-[a-z0-9]{5}")
_COMPARED: Final = ("labels", "annotations")


def play(case: Json, world: RealWorld) -> Played:
    """Plays a case in a world that was built for it. ValueError for an action that is none of the creates."""
    results: list[Result] = []
    state = world.state()
    for step in steps_of(case["when"]):
        create = _ACTIONS.get(step["action"])
        if create is None:
            raise ValueError(f"{step['action']} is not played on a real control plane; the case runner plays it")
        if step.get("afterSeconds"):
            time.sleep(float(step["afterSeconds"]))
        answers = create(world, step)
        _settle(world, step, answers)
        before, state = state, world.state()
        results.append(Result(step, before, state, answers))
    return Played(tuple(results), state)


def _create(world: RealWorld, step: Json) -> list[Answer]:
    return [_answer(world, step)]


def _create_many(world: RealWorld, step: Json) -> list[Answer]:
    return [_answer(world, step) for _ in range(step["count"])]


def _create_concurrent(world: RealWorld, step: Json) -> list[Answer]:
    return world.api.each(lambda _: _answer(world, step), range(step["count"]))


_ACTIONS: Final[Mapping[str, Callable[[RealWorld, Json], list[Answer]]]] = {
    "create": _create,
    "create-many": _create_many,
    "create-concurrent": _create_concurrent,
}


def _answer(world: RealWorld, step: Json) -> Answer:
    """Sends one create."""
    dry_run = bool(step.get("dryRun"))
    raw = _object(world, step, dry_run=dry_run)
    namespace = raw["metadata"]["namespace"]
    before, common = _as_sent(world, raw)
    began = time.monotonic()
    reply = world.api.send("POST", _pods(namespace, dry_run=dry_run), raw)
    waited = time.monotonic() - began
    warnings = tuple(text for text in _warnings(reply) if text not in common)
    said: Json = json.loads(reply.body)
    if reply.status >= 400:
        return Answer(_refusal(said), (), warnings, before, copied(before), waited, waited, waited)
    after = comparable(said)
    return Answer(None, _changes(before, after), warnings, before, after, waited, waited, waited)


def _object(world: RealWorld, step: Json, *, dry_run: bool) -> Json:
    """What a step's client sends."""
    raw = copied(step["object"])
    if raw["kind"] != "Pod":
        raise ValueError(f"a create of a {raw['kind']} is not played here")
    if raw["metadata"].get("ownerReferences") and not dry_run:
        raise ValueError("a pod with an owner is not played here: a real controller makes its pods itself")
    raw = fill_in(with_wishes(raw, step), world.find)
    raw.setdefault("apiVersion", api_version_of(raw["kind"]))
    raw["metadata"]["namespace"] = namespace_of(raw)
    return raw


def _as_sent(world: RealWorld, raw: Json) -> tuple[Json, tuple[str, ...]]:
    """The pod with the API server's defaults and without anything of ours, and the warnings about it."""
    elsewhere = {**raw, "metadata": {**raw["metadata"], "namespace": AS_SENT}}
    reply = world.api.send("POST", _pods(AS_SENT, dry_run=True), elsewhere)
    if reply.status >= 400:
        return with_defaults(raw), ()
    read: Json = json.loads(reply.body)
    read["metadata"]["namespace"] = raw["metadata"]["namespace"]
    return comparable(read), _warnings(reply)


def _pods(namespace: str, *, dry_run: bool) -> str:
    return f"/api/v1/namespaces/{namespace}/pods{'?dryRun=All' if dry_run else ''}"


def comparable(raw: Json) -> Json:
    """An object in which the API server's random names are equal."""
    read: Json = json.loads(_RANDOM_NAME.sub("kube-api-access", json.dumps(raw)))
    return read


def _changes(before: Json, after: Json) -> tuple[Json, ...]:
    """What our webhooks changed, as a JSON patch."""

    def ours(raw: Json) -> Json:
        return {"metadata": {key: raw["metadata"].get(key) or {} for key in _COMPARED}, "spec": raw["spec"]}

    return tuple(jsonpatch.make_patch(ours(before), ours(after)).patch)


def _refusal(status: Json) -> Refusal:
    """Who refused, and the words without the API server's own in front."""
    message = str(status.get("message"))
    denied = _DENIED.search(message)
    if denied:
        return Refusal(PRODUCT, {**status, "message": message[denied.end() :]})
    by = next((stage for words, stage in _STAGES.items() if words in message), API_SERVER)
    return Refusal(by, status)


def _warnings(reply: Reply) -> tuple[str, ...]:
    found = (_WARNING.search(header) for header in reply.warning_headers)
    return tuple(str(json.loads(match[1])) for match in found if match)


def _settle(world: RealWorld, step: Json, answers: list[Answer]) -> None:
    """Waits until the scheduler has bound what it may bind, and the webhooks have heard of everything."""
    if step.get("dryRun"):
        return
    for answer in answers:
        if answer.allowed:
            _wait_running(world, answer.after)
    world.catch_up()


def _wait_running(world: RealWorld, created: Json) -> None:
    """A pod that the scheduler looks after runs, on the node that it was given."""
    spec, name = created["spec"], created["metadata"]["name"]
    if spec.get("schedulingGates") or spec["schedulerName"] != names.DEFAULT_SCHEDULER:
        return
    namespace = Namespace(world.api, created["metadata"]["namespace"])
    wait_running(namespace, name)
    bound, chosen = namespace.get("Pod", name)["spec"]["nodeName"], chosen_node(created)
    assert chosen in {None, bound}, f"{name} was given {chosen} and runs on {bound}"
