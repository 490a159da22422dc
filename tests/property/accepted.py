"""Values that a CRD's schema accepts, whoever wrote them: what somebody with the right to write a status may store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from hypothesis import strategies as st

MAX_INT64: Final = 2**63 - 1
TIMES: Final = (
    "0001-01-01T00:00:00Z",
    "2026-11-30T09:29:59.999Z",
    "2026-11-30T09:30:00Z",
    "2026-11-30T09:55:00+01:00",
    "2026-11-30T09:58:00Z",
    "2026-11-30T10:00:00Z",
    "2026-11-30T10:00:30Z",
    "9999-12-31T23:59:59Z",
)
_FEW: Final = 3


def accepted(schema: Mapping[str, Any], words: Sequence[str] = ()) -> st.SearchStrategy[Any]:
    """Any value that `schema` takes. Among its texts are `words`, where they fit."""
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    match schema["type"]:
        case "object" if "properties" in schema:
            parts = {name: accepted(part, words) for name, part in schema["properties"].items()}
            required = schema.get("required", ())
            return st.fixed_dictionaries(
                {name: part for name, part in parts.items() if name in required},
                optional={name: part for name, part in parts.items() if name not in required},
            )
        case "object":
            values = accepted(schema["additionalProperties"], words)
            return st.dictionaries(_text({}, words), values, max_size=min(_FEW, schema.get("maxProperties", _FEW)))
        case "array":
            keys = schema.get("x-kubernetes-list-map-keys")
            return st.lists(
                accepted(schema["items"], words),
                max_size=min(_FEW, schema.get("maxItems", _FEW)),
                unique_by=(lambda item: tuple(item[key] for key in keys)) if keys else None,
            )
        case "integer":
            low, high = schema.get("minimum", -MAX_INT64 - 1), schema.get("maximum", MAX_INT64)
            return st.sampled_from([low, high]) | st.integers(max(low, -2), min(high, 64))
        case "boolean":
            return st.booleans()
        case "string":
            return _text(schema, words)
    raise NotImplementedError(schema["type"])


def _text(schema: Mapping[str, Any], words: Sequence[str]) -> st.SearchStrategy[str]:
    if schema.get("format") == "date-time":
        return st.sampled_from(TIMES)
    if "pattern" in schema:
        return st.from_regex(schema["pattern"], fullmatch=True).filter(lambda text: len(text) <= schema["maxLength"])
    low, high = schema.get("minLength", 0), schema.get("maxLength", 253)
    known = [word for word in words if low <= len(word) <= high]
    text = st.text(min_size=low, max_size=min(high, 12)) | st.just("x" * high)
    return st.sampled_from(known) | text if known else text
