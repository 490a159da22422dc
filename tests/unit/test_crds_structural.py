"""What a model may say so that a CRD can say it too."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from shared.api.crds.definitions import DEFINITIONS
from shared.api.crds.model import camel_case
from shared.api.crds.structural import UnsupportedSchemaError, structural_schema

Schema = dict[str, Any]


class Inner(BaseModel):
    """The inner part."""

    size: int = 3


class Outer(BaseModel):
    inner: Inner | None = None
    names: Annotated[dict[str, str], Field(max_length=4)] | None = None


def test_references_null_and_titles_are_gone_and_descriptions_and_bounds_stay() -> None:
    assert structural_schema(Outer) == {
        "type": "object",
        "properties": {
            "inner": {
                "type": "object",
                "description": "The inner part.",
                "properties": {"size": {"type": "integer", "default": 3}},
            },
            "names": {"type": "object", "maxProperties": 4, "additionalProperties": {"type": "string"}},
        },
    }


class Either(BaseModel):
    value: int | str


class Anything(BaseModel):
    value: Any


class Multiple(BaseModel):
    value: Annotated[int, Field(multiple_of=2)]


@pytest.mark.parametrize(
    ("model", "message"),
    [
        pytest.param(Either, r"Either\.value: .* no choice between types", id="a choice between two types"),
        pytest.param(Anything, r"Anything\.value: .* exactly one type", id="a value of any type"),
        pytest.param(
            Multiple,
            r"Multiple\.value: .* cannot say multipleOf",
            id="a bound that the generator does not know",
        ),
    ],
)
def test_what_a_crd_cannot_say_is_an_error_that_names_the_field(model: type[BaseModel], message: str) -> None:
    with pytest.raises(UnsupportedSchemaError, match=message):
        structural_schema(model)


@pytest.mark.parametrize(
    ("field", "want"),
    [
        ("budget_gb", "budgetGB"),
        ("memory_mib", "memoryMiB"),
        ("largest_free_gb", "largestFreeGB"),
        ("gb", "gb"),
        ("uid", "uid"),
    ],
)
def test_fields_are_spelled_as_kubernetes_spells_them(field: str, want: str) -> None:
    assert camel_case(field) == want


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind)
def test_every_list_map_and_text_of_our_kinds_has_an_upper_bound(definition: Any) -> None:
    unbounded = [path for path, part in _parts(definition.schema()) if not _bounded(path, part)]
    assert unbounded == []


@pytest.mark.parametrize("definition", DEFINITIONS, ids=lambda definition: definition.kind)
def test_every_field_of_our_kinds_has_a_type_and_every_list_says_how_it_is_merged(definition: Any) -> None:
    for path, part in _parts(definition.schema()):
        assert "type" in part, path
        assert not ("properties" in part and "additionalProperties" in part), path
        if part["type"] == "array":
            assert part["x-kubernetes-list-type"] in {"map", "atomic"}, path
            keys = set(part.get("x-kubernetes-list-map-keys", []))
            assert keys <= set(part["items"]["required"]), path


def _bounded(path: str, part: Schema) -> bool:
    match part["type"]:
        case "array":
            return "maxItems" in part
        case "string":
            return path in {".apiVersion", ".kind"} or bool({"maxLength", "enum", "format"} & set(part))
        case "object" if "additionalProperties" in part:
            return "maxProperties" in part
        case _:
            return True


def _parts(schema: Schema, path: str = "") -> list[tuple[str, Schema]]:
    """Every part of `schema` with its path, the whole first."""
    children = [(f"{path}.{name}", child) for name, child in schema.get("properties", {}).items()]
    for keyword, mark in (("additionalProperties", ".*"), ("items", "[]")):
        if keyword in schema:
            children.append((path + mark, schema[keyword]))
    return [(path, schema), *(part for where, child in children for part in _parts(child, where))]
