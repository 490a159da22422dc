"""The JSON schema of `status.details.causes` that the documents publish."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from shared.core.explain import Cause, causes
from shared.core.refusal import Refusal

SCHEMA: dict[str, Any] = json.loads(
    (Path(__file__).resolve().parent.parent.parent / "docs" / "causes.schema.json").read_text()
)
VALIDATOR = Draft202012Validator(SCHEMA)


def as_json(listed: Iterable[Cause]) -> list[dict[str, str]]:
    """Causes as they stand in the answer."""
    return [{"reason": cause.reason, "message": cause.message, "field": cause.field} for cause in listed]


def violations(refusal: Refusal) -> list[str]:
    """Where the causes of a refusal differ from the schema."""
    return [error.message for error in VALIDATOR.iter_errors(as_json(causes(refusal)))]
