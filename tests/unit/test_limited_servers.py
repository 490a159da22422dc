"""A placed model server is told to keep to its share, behind its own arguments, and told nothing twice."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from shared.api import names
from shared.core.invalid import InvalidRequest
from tests.builders import PodBuilder, a_node, a_pod
from tests.fakes.serving import Served, serving
from tests.unit.admission import Webhook, gpu_node
from tests.unit.model_servers import VLLM_IMAGE
from tests.unit.rewriting import NODE, Rewritten, placed, stripped, without_empty
from webhook.agreement import refuse_disagreement
from webhook.outcome import Admitted

FLAG = "--gpu-memory-utilization"
SIX_OF_SIXTEEN = "0.312"
SHELL: dict[str, Any] = {"command": ["/bin/sh", "-c"], "args": ["vllm serve org/small"]}


def server(gb: str = "6", image: str = VLLM_IMAGE, **fields: Any) -> PodBuilder:
    """A pod that serves a model on 6 GB of one card."""
    return a_pod().annotated(names.VRAM, gb).spec(containers=[{"name": "main", "image": image, **fields}])


def args_change(rewritten: Rewritten) -> list[Any]:
    """What the record says of arguments that were there before."""
    record = orjson.loads(rewritten.pod["metadata"]["annotations"][names.PLACED])
    return [change["was"] for change in record["changed"] if change["path"] == "containers/main/args"]


@pytest.mark.parametrize(
    "fields",
    [
        pytest.param({}, id="the-image-alone"),
        pytest.param({"args": []}, id="empty-arguments"),
        pytest.param({"args": ["--model", "org/small"]}, id="arguments"),
        pytest.param({"command": ["vllm", "serve", "org/small"]}, id="a-command"),
        pytest.param({"command": ["vllm"], "args": ["serve", "org/small"]}, id="both"),
        pytest.param({"args": ["--gpu-memory-utilization=0.9"]}, id="a-fraction-that-breaks-the-share"),
        pytest.param({"args": [FLAG, "0.9"]}, id="a-fraction-in-two-words"),
    ],
)
def test_the_limit_stands_behind_the_servers_own_arguments(fields: dict[str, Any]) -> None:
    rewritten = placed(server(**fields))
    own = fields.get("args")
    assert rewritten.container()["args"] == [*(own or []), FLAG, SIX_OF_SIXTEEN]
    assert rewritten.container().get("command") == fields.get("command")
    assert args_change(rewritten) == [own]
    assert any(FLAG in warning for warning in rewritten.warnings)


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(server(args=[FLAG, "0.3"]), id="a-fraction-inside-the-share"),
        pytest.param(server("whole"), id="a-whole-card"),
        pytest.param(server(**SHELL), id="a-shell-text"),
        pytest.param(server(image="ollama/ollama:0.11"), id="a-server-without-the-flag"),
        pytest.param(server(image="example/worker", args=["run"]), id="no-server-we-know"),
    ],
)
def test_arguments_are_left_alone_where_nothing_is_to_be_or_can_be_told(pod: PodBuilder) -> None:
    rewritten = placed(pod)
    assert rewritten.container().get("args") == pod.raw()["spec"]["containers"][0].get("args")
    assert args_change(rewritten) == []


def test_every_server_of_a_pod_is_told_its_own_share_and_helpers_are_not() -> None:
    pod = server("4").annotated(names.CONTAINER, "main").annotated(f"{names.VRAM}.draft", "8")
    pod.container("draft", image=VLLM_IMAGE).container("idle", image=VLLM_IMAGE)
    rewritten = placed(pod)
    assert rewritten.container("main")["args"] == [FLAG, "0.187"]
    assert rewritten.container("draft")["args"] == [FLAG, "0.437"]
    assert "args" not in rewritten.container("idle")


def test_an_init_container_that_runs_a_server_on_the_same_cards_is_not_limited() -> None:
    """It runs alone on the cards, before the one that it prepares for."""
    pod = server().init("convert", image=VLLM_IMAGE, resources={"limits": {names.VRAM: "10"}})
    rewritten = placed(pod)
    assert rewritten.container("main")["args"] == [FLAG, SIX_OF_SIXTEEN]
    assert "args" not in rewritten.container("convert")


def test_a_native_sidecar_is_limited_like_any_server() -> None:
    pod = server().sidecar("draft", image=VLLM_IMAGE, resources={"limits": {names.VRAM: "4"}})
    assert placed(pod).container("draft")["args"] == [FLAG, "0.187"]


@pytest.mark.parametrize("fields", [{}, {"args": ["--model", "org/small"]}, {"args": [FLAG, "0.9"]}], ids=str)
def test_a_copied_manifest_gets_its_own_arguments_back(fields: dict[str, Any]) -> None:
    pod = server(**fields)
    assert without_empty(stripped(placed(pod).pod)) == without_empty(pod.raw())


@pytest.mark.parametrize("was", [["ok", 1], "text", {"a": "b"}, 7])
def test_an_edited_record_puts_back_nothing_that_are_no_arguments(was: object) -> None:
    pod = placed(server()).pod
    record = orjson.loads(pod["metadata"]["annotations"][names.PLACED])
    for change in record["changed"]:
        if change["path"] == "containers/main/args":
            change["was"] = was
    pod["metadata"]["annotations"][names.PLACED] = orjson.dumps(record).decode()
    assert stripped(pod)["spec"]["containers"][0]["args"] == [FLAG, SIX_OF_SIXTEEN]


def test_arguments_of_a_container_that_is_gone_are_not_put_back() -> None:
    pod = placed(server(args=["--model", "org/small"])).pod
    pod["spec"]["containers"][0]["name"] = "renamed"
    assert stripped(pod)["spec"]["containers"][0]["args"] == ["--model", "org/small", FLAG, SIX_OF_SIXTEEN]


def test_a_limited_server_agrees_with_its_placement() -> None:
    for pod in (server(), server(args=["-tp", "2"]), server(args=["-tp", "2"]).annotated(names.GPUS, "1")):
        refuse_disagreement(placed(pod).pod, NODE.name, NODE.inventory)


def test_arguments_that_another_webhook_changes_to_more_cards_disagree() -> None:
    """With no count but that of the arguments, they are the ask."""
    pod = placed(server(args=["-tp", "2"])).pod
    pod["spec"]["containers"][0]["args"] = ["-tp", "4"]
    with pytest.raises(InvalidRequest) as refused:
        refuse_disagreement(pod, NODE.name, NODE.inventory)
    assert refused.value.field == f"metadata.annotations[{names.VRAM}]"


class TestBothWebhooks:
    @pytest.fixture
    async def served(self, tmp_path: Path) -> AsyncIterator[Served]:
        async with serving(tmp_path) as both:
            yield both

    @pytest.fixture
    async def webhook(self, served: Served) -> Webhook:
        webhook = Webhook(served)
        await webhook.see(a_node("twin"), gpu_node("twin", 16, 16))
        return webhook

    @pytest.mark.parametrize(
        "pod", [server(), server(args=["-tp", "2"]), server(args=[FLAG, "0.9"]), server(**SHELL)], ids=range(4)
    )
    async def test_a_second_run_changes_nothing_and_the_final_pod_passes(
        self, webhook: Webhook, pod: PodBuilder
    ) -> None:
        once = await webhook.place(pod)
        assert await webhook.mutate(once) == Admitted()
        assert isinstance(await webhook.validate(once), Admitted)

    async def test_a_copy_is_told_its_share_once(self, webhook: Webhook) -> None:
        first = await webhook.place(server(args=["--model", "org/small"]))
        webhook.see_pod(first)
        copy = await webhook.place(first)
        assert copy["spec"]["containers"][0]["args"] == ["--model", "org/small", FLAG, SIX_OF_SIXTEEN]
