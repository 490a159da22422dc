"""The structural OpenAPI schema of a CRD, made from a pydantic model.

A CRD takes a small part of JSON schema: no references, no `null`, no titles, and an object has either named
properties or values of one type, never both.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from pydantic import BaseModel

Schema: TypeAlias = dict[str, Any]

_KEPT = (
    "description", "type", "format", "enum", "default", "pattern",
    "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties",
    "required", "x-kubernetes-list-type", "x-kubernetes-list-map-keys", "x-kubernetes-map-type",
)  # fmt: skip
_UNDERSTOOD = {
    *_KEPT, "title", "$ref", "$defs", "anyOf", "properties", "additionalProperties", "items", "propertyNames",
}  # fmt: skip


class UnsupportedSchemaError(ValueError):
    """A model uses something that a structural schema cannot say."""


def structural_schema(model: type[BaseModel]) -> Schema:
    """The `openAPIV3Schema` of `model`. Raises `UnsupportedSchemaError` where a CRD cannot express it."""
    schema = model.model_json_schema(by_alias=True)
    return _structural(schema, schema.get("$defs", {}), model.__name__)


def _structural(node: Schema, definitions: Schema, path: str) -> Schema:
    node = _without_null(_without_reference(node, definitions), definitions, path)
    unknown = sorted(set(node) - _UNDERSTOOD)
    if unknown:
        raise UnsupportedSchemaError(f"{path}: a structural schema cannot say {', '.join(unknown)}")
    result = {keyword: node[keyword] for keyword in _KEPT if node.get(keyword) is not None}
    if "description" in result:
        result["description"] = " ".join(result["description"].split())
    if "properties" in node:
        result["properties"] = {
            name: _structural(child, definitions, f"{path}.{name}") for name, child in node["properties"].items()
        }
    elif isinstance(node.get("additionalProperties"), dict):
        result["additionalProperties"] = _structural(node["additionalProperties"], definitions, f"{path}.*")
    if "items" in node:
        result["items"] = _structural(node["items"], definitions, f"{path}[]")
    if "type" not in result:
        raise UnsupportedSchemaError(f"{path}: every part of a structural schema has exactly one type")
    return result


def _without_reference(node: Schema, definitions: Schema) -> Schema:
    """`node` with its reference, if it has one, replaced by what it stands for. A field's own words win."""
    if "$ref" not in node:
        return node
    target = definitions[node["$ref"].removeprefix("#/$defs/")]
    return {**target, **{keyword: value for keyword, value in node.items() if keyword != "$ref"}}


def _without_null(node: Schema, definitions: Schema, path: str) -> Schema:
    """`node` with pydantic's way to say optional, a choice between a type and null, made the type alone."""
    if "anyOf" not in node:
        return node
    choices = [choice for choice in node["anyOf"] if choice != {"type": "null"}]
    if len(choices) != 1:
        raise UnsupportedSchemaError(f"{path}: a structural schema has no choice between types")
    own = {keyword: value for keyword, value in node.items() if keyword != "anyOf"}
    return {**_without_reference(choices[0], definitions), **own}
