"""Manifests as people write them: each document, and each pod that comes of one, is answered as the table says.

The table with its reasons is `tests/manifests/answers.yaml`. What it lists is what there is, no more and no less.
"""

from __future__ import annotations

import http
import json
import re
import subprocess
from collections.abc import Iterator
from typing import Final

import pytest
import yaml

from hack.devcluster.cluster import ROOT
from shared.api import names
from tests.cases.chart import Chart
from tests.cases.expect import differences
from tests.e2e.case_play import comparable, play
from tests.e2e.case_world import AS_SENT, RealWorld
from tests.e2e.conftest import AnyCluster, Stage
from tests.e2e.kube import until
from tests.e2e.template_pods import pods_of
from tests.fakes.objects import Json, copied
from tests.fakes.pod_rules import with_defaults

pytestmark = pytest.mark.e2e

_MANIFESTS: Final = ROOT / "tests" / "manifests"
_CLUSTER: Final = _MANIFESTS / "cluster"
_OBJECTS: Final = ("crds.yaml", "objects.yaml")
_GIVEN: Final[Json] = yaml.safe_load((_CLUSTER / "nodes.yaml").read_text())
_NODES: Final = {node["name"]: node["labels"] for node in _GIVEN["nodes"]}
_ANSWERS: Final[Json] = yaml.safe_load((_MANIFESTS / "answers.yaml").read_text())
_KUBECTLS_OWN: Final = "kubectl.kubernetes.io/last-applied-configuration"


def _documents(file: str) -> dict[str, Json]:
    """The documents of a file by kind and name."""
    read = yaml.safe_load_all((_MANIFESTS / file).read_text())
    return {_title(document): document for document in read}


def _title(document: Json) -> str:
    metadata = document["metadata"]
    return f"{document['kind']} {metadata.get('name') or metadata['generateName']}"


_FILES: Final = {path.name: _documents(path.name) for path in sorted(_MANIFESTS.glob("[0-9]*.yaml"))}
_TITLES: Final = [(file, title) for file, documents in _FILES.items() for title in documents]
_PODS: Final = {
    (file, title, part): pod
    for file, documents in _FILES.items()
    for title, document in documents.items()
    for part, pod in pods_of(document, _NODES).items()
}


def _readable(text: str) -> str:
    return text.removesuffix(".yaml").replace(" ", "/")


@pytest.fixture(scope="module")
def cluster_of_manifests(stage: Stage, world: RealWorld) -> Iterator[RealWorld]:
    """The cluster that the manifests come to."""
    files = [argument for name in _OBJECTS for argument in ("-f", _CLUSTER / name)]
    try:
        world.build(
            _GIVEN, {document["metadata"]["namespace"] for file in _FILES.values() for document in file.values()}
        )
        stage.cluster.kubectl("apply", "--server-side", *files)
        until("the volume is bound", lambda: _phase_of_claim(stage, "gguf-models") == "Bound")
        until("the kinds of others are served", lambda: _knows_all_kinds(stage))
        world.catch_up()
        yield world
        stage.cluster.kubectl("delete", "--wait=false", *files)
    finally:
        world.clear()


@pytest.fixture(scope="module")
def sent(stage: Stage, cluster_of_manifests: RealWorld) -> dict[str, Json]:
    """What `kubectl apply` says of the documents where no webhook of ours is asked, by kind and name."""
    elsewhere = [
        {**document, "metadata": {**document["metadata"], "namespace": AS_SENT}}
        for documents in _FILES.values()
        for document in documents.values()
        if "name" in document["metadata"]
    ]
    done = _apply(stage.cluster, "\n---\n".join(json.dumps(document) for document in elsewhere))
    assert not done.stderr, done.stderr
    return {_title(raw): raw for raw in _objects(done.stdout)}


def test_the_table_lists_every_document_and_every_pod() -> None:
    assert {file: list(documents) for file, documents in _FILES.items()} == {
        file: list(answers) for file, answers in _ANSWERS.items()
    }
    listed = {
        (file, title, part)
        for file, answers in _ANSWERS.items()
        for title, answer in answers.items()
        for part in answer.get("pods") or ()
    }
    assert listed == set(_PODS)
    assert all(
        each["because"]
        for answers in _ANSWERS.values()
        for answer in answers.values()
        for each in (answer, *(answer.get("pods") or {}).values())
    )


@pytest.mark.parametrize(("file", "title"), _TITLES, ids=_readable)
def test_kubectl_apply_is_answered_as_listed(file: str, title: str, stage: Stage, sent: dict[str, Json]) -> None:
    done = _apply(stage.cluster, json.dumps(_FILES[file][title]))
    stored = _objects(done.stdout)
    said = _answer(stored[0], sent[title]) if stored else _refusal(done.stderr)
    assert said == _ANSWERS[file][title]["apply"]


@pytest.mark.parametrize(("file", "title", "part"), _PODS, ids=_readable)
def test_the_pod_of_a_controller_is_answered_as_listed(
    file: str, title: str, part: str, cluster_of_manifests: RealWorld, chart: Chart
) -> None:
    create = {"action": "create", "object": _PODS[file, title, part], "dryRun": True}
    case = {"when": create, "expect": _ANSWERS[file][title]["pods"][part]["expect"]}
    found = differences(case, play(case, cluster_of_manifests), chart)
    assert not found, "\n".join(found)


def test_the_mirror_pod_of_a_kubelet_stays_as_it_is(stage: Stage, cluster_of_manifests: RealWorld) -> None:
    mirror = copied(_FILES["23-static-pod-with-gpu.yaml"]["Pod kiosk-asr-edge-03"])
    node = mirror["spec"]["nodeName"]
    (owner,) = mirror["metadata"]["ownerReferences"]
    owner["uid"] = stage.api.get(f"/api/v1/nodes/{node}")["metadata"]["uid"]
    kubelet = (f"--as=system:node:{node}", "--as-group=system:nodes", "--as-group=system:authenticated")
    done = stage.cluster.kubectl(
        "create", "--dry-run=server", "--validate=false", "-o", "json", *kubelet, "-f", "-", input=json.dumps(mirror)
    )
    stored = json.loads(done.stdout)
    assert stored["spec"]["containers"][0]["resources"] == with_defaults(mirror)["spec"]["containers"][0]["resources"]
    assert names.PREFIX not in done.stdout


def _apply(cluster: AnyCluster, documents: str) -> subprocess.CompletedProcess[str]:
    return cluster.kubectl("apply", "--dry-run=server", "-o", "json", "-f", "-", input=documents, check=False)


def _objects(printed: str) -> list[Json]:
    """The objects that kubectl printed: one, several in a list, or none."""
    if not printed.strip():
        return []
    read: Json = json.loads(printed)
    return read["items"] if read["kind"] == "List" else [read]


def _answer(stored: Json, sent: Json) -> str:
    """What became of an object that was taken."""
    if names.PLACED in (stored["metadata"].get("annotations") or {}):
        return "placed"
    return "as it is" if _without_names(stored) == _without_names(sent) else "changed"


def _refusal(error: str) -> str:
    """Who refused: a webhook of ours with its reason, or kubectl itself."""
    denied = re.search(r"denied the request: (\w+):", error)
    return f"refused: {denied[1]}" if denied else f"not sent: {error.strip().rpartition(': ')[2]}"


def _without_names(raw: Json) -> Json:
    """An object without what differs from one namespace to another."""
    metadata = raw["metadata"]
    annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key != _KUBECTLS_OWN}
    rest = {key: value for key, value in raw.items() if key not in {"metadata", "status"}}
    compared = comparable({**rest, "labels": metadata.get("labels"), "annotations": annotations})
    # A Job's selector has its uid, which a dry run makes up.
    read: Json = json.loads(json.dumps(compared).replace(metadata["uid"], "uid"))
    return read


def _phase_of_claim(stage: Stage, name: str) -> str:
    claim = stage.api.get(f"/api/v1/namespaces/models/persistentvolumeclaims/{name}")
    return str(claim["status"]["phase"])


def _knows_all_kinds(stage: Stage) -> bool:
    for crd in yaml.safe_load_all((_CLUSTER / "crds.yaml").read_text()):
        spec = crd["spec"]
        path = f"/apis/{spec['group']}/{spec['versions'][0]['name']}/{spec['names']['plural']}"
        if stage.api.send("GET", path).status != http.HTTPStatus.OK:
            return False
    return True
