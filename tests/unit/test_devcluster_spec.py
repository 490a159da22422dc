"""Cluster descriptions: what is accepted, and how a mistake is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.devcluster.spec import SpecError, load_spec, parse_spec

CLUSTERS = Path(__file__).resolve().parents[2] / "hack" / "clusters"
CARD = {"model": "NVIDIA L4", "vendor": "nvidia", "vramGB": 24}


@pytest.mark.parametrize(
    ("file", "nodes", "cards"), [("demo.yaml", 5, 8), ("small.yaml", 2, 4), ("bench.yaml", 100, 800)]
)
def test_the_shipped_descriptions_have_these_nodes_and_cards(file: str, nodes: int, cards: int) -> None:
    spec = load_spec(CLUSTERS / file)

    assert len(spec.nodes) == nodes
    assert sum(len(node.cards()) for node in spec.nodes) == cards


def test_a_count_stamps_out_numbered_nodes_whose_cards_all_differ() -> None:
    group = {"name": "node", "count": 3, "labels": {"pool": "x"}, "gpus": [{**CARD, "count": 2}]}
    spec = parse_spec({"nodes": [group]}, source="test")

    assert [node.name for node in spec.nodes] == ["node-0", "node-1", "node-2"]
    assert all(node.labels == {"pool": "x"} for node in spec.nodes)
    assert len({uuid for node in spec.nodes for uuid, _ in node.cards()}) == 6


def test_the_uuid_of_a_card_is_the_given_one_or_else_the_same_in_every_run() -> None:
    node = {"name": "a", "gpus": [CARD, {**CARD, "uuid": "GPU-mine"}]}
    first, second = (parse_spec({"nodes": [node]}, source="test").nodes[0].cards() for _ in range(2))

    assert [uuid for uuid, _ in first] == [uuid for uuid, _ in second]
    assert first[1][0] == "GPU-mine"


@pytest.mark.parametrize(
    ("node", "said"),
    [
        pytest.param({"gpus": []}, "nodes.0.name: Field required", id="a node without a name"),
        pytest.param({"name": "A_b"}, "nodes.0.name: String should match", id="a name that is no node name"),
        pytest.param({"name": "a", "gpu": []}, "nodes.0.gpu: Extra inputs are not permitted", id="a misspelt field"),
        pytest.param({"name": "a", "cuda": 12.4}, "nodes.0.cuda", id="a version that YAML reads as a number"),
        pytest.param({"name": "a", "gpus": [{**CARD, "vendor": "nvidea"}]}, "(is 'nvidea')", id="an unknown vendor"),
        pytest.param(
            {"name": "a", "gpus": [{**CARD, "memoryMiB": 24576}]},
            "nodes.0.gpus.0: write exactly one of vramGB and memoryMiB",
            id="memory given twice",
        ),
        pytest.param(
            {"name": "a", "gpus": [{**CARD, "uuid": "GPU-1", "count": 2}]},
            "nodes.0.gpus.0: uuid names one card",
            id="one uuid for two cards",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(node: dict[str, object], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_spec({"nodes": [node]}, source="my.yaml")

    assert str(caught.value).startswith("my.yaml: ")
    assert said in str(caught.value)


def test_two_nodes_of_one_name_are_refused() -> None:
    with pytest.raises(SpecError, match="several nodes are named a-0"):
        parse_spec({"nodes": [{"name": "a", "count": 2}, {"name": "a-0"}]}, source="test")


@pytest.mark.parametrize(
    ("content", "said"),
    [pytest.param(None, "No such file", id="no file"), pytest.param("nodes: [", "not YAML", id="broken YAML")],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: str | None, said: str) -> None:
    path = tmp_path / "cluster.yaml"
    if content is not None:
        path.write_text(content)

    with pytest.raises(SpecError, match=f"{path}: .*{said}"):
        load_spec(path)
