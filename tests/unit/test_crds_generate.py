"""The chart's CRD templates and the models they come from."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from shared.api import names
from shared.api.crds import generate
from shared.api.crds.definitions import DEFINITIONS, GPU_NODES, MODEL_PLACEMENTS


def test_the_templates_in_the_chart_are_those_of_the_models() -> None:
    assert generate.drifted() == []


def test_check_says_which_template_is_out_of_date_and_changes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = generate.write(tmp_path)
    written[0].write_text("edited by hand", encoding="utf-8")
    written[1].unlink()
    assert generate.drifted(tmp_path) == written
    assert generate.main(["--check"], tmp_path) == 1
    assert [line.split(" differs")[0] for line in capsys.readouterr().err.splitlines()] == [
        str(path) for path in written
    ]
    assert written[0].read_text(encoding="utf-8") == "edited by hand"
    assert generate.main([], tmp_path) == 0
    assert generate.main(["--check"], tmp_path) == 0


def test_generating_twice_gives_the_same_bytes() -> None:
    assert [generate.render(definition) for definition in DEFINITIONS] == [
        generate.render(definition) for definition in DEFINITIONS
    ]


def test_nothing_in_a_model_can_be_taken_for_a_template_instruction() -> None:
    for definition in DEFINITIONS:
        spec = generate.render(definition).split("\nspec:\n", 1)[1]
        assert spec.count("{{") == 1, "only the closing {{- end }} is ours"


def test_kinds_are_named_as_the_code_names_them() -> None:
    assert [definition.kind for definition in DEFINITIONS] == [names.GPU_NODE, names.MODEL_PLACEMENT]
    assert GPU_NODES.name == "gpunodes.placement.kamiwaza.ai"
    assert MODEL_PLACEMENTS.name == "modelplacements.placement.kamiwaza.ai"


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind)
def test_every_column_shows_a_field_that_exists_with_its_type(definition: Any) -> None:
    for column in definition.columns:
        part = definition.schema()
        if column.path.startswith(".metadata."):
            continue
        for step, kind in re.findall(r'\.(\w+)(?:\[\?\(@\.type=="(\w+)"\)\])?', column.path):
            assert step in part["properties"], f"{column.name} shows {column.path}"
            part = part["properties"][step]
            if kind:
                assert part["x-kubernetes-list-map-keys"] == ["type"], f"{column.name} shows {column.path}"
                part = part["items"]
        assert part["type"] == column.type, column.name
