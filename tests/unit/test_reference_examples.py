"""The reference tells the truth: its examples run through both webhooks, and no name that users meet is missing.

After a change that is meant, write the outcomes anew and read the difference:

    PLACEMENT_WRITE_REFERENCE=1 python -m pytest tests/unit/test_reference_examples.py
    git diff docs/reference.md
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import BaseModel

from shared.api import names
from shared.api.crds.gpunode import GPUNode
from shared.api.crds.modelplacement import ModelPlacement
from shared.core.engines import EngineName
from shared.core.engines.limits import RULES
from shared.core.refusal import Reason
from tests.fakes.serving import Served, serving
from tests.unit.admission import Webhook
from tests.unit.causes_schema import SCHEMA
from tests.unit.reference import CLUSTER, DOCUMENT, Example, blocks, example_cluster, examples, run, within

TEXT = DOCUMENT.read_text()
EXAMPLES = list(examples(TEXT))
REWRITE = "PLACEMENT_WRITE_REFERENCE"

KUBERNETES_OWN = frozenset(
    {
        "MIRROR_POD",
        "DEFAULT_SCHEDULER",
        "POD_SLOTS",
        "CPU",
        "MEMORY",
        "EPHEMERAL_STORAGE",
        "HUGEPAGES_PREFIX",
        "NODE_NAME_FIELD",
        "POD_TEMPLATE_HASH",
        "CONTROLLER_REVISION_HASH",
        "NODE_CONDITION_PREFIX",
        "TAINT_UNSCHEDULABLE",
        "TAINT_NOT_READY",
        "TAINT_UNREACHABLE",
        "HOSTNAME",
        "ZONE",
        "REGION",
        "OLD_ZONE",
        "OLD_REGION",
        "NO_PROVISIONER",
        "CLAIM_CLASS",
        "CLAIM_SELECTED_NODE",
        "DEFAULT_CLASS",
    }
)
"""Names that mean here what they mean everywhere in Kubernetes. Every other name of `names` is in the reference."""


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path) as both:
        yield both


@pytest.fixture
async def webhook(served: Served) -> Webhook:
    return await example_cluster(served)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"line-{example.line}")
async def test_an_example_comes_out_as_the_reference_says(webhook: Webhook, example: Example) -> None:
    outcome, pod = await run(webhook, example)
    if os.environ.get(REWRITE):
        _rewrite(example, outcome)
        return
    assert outcome == example.outcome
    if example.becomes is not None:
        assert within(example.becomes, pod)


def test_every_block_of_yaml_is_executed() -> None:
    executed = {example.line for example in EXAMPLES}
    for line, language, content in blocks(TEXT):
        if language == "yaml" and line not in executed:
            document = yaml.safe_load(content)
            assert document.get("kind") == "GPUNode", f"line {line}: no outcome follows"
            GPUNode.model_validate({key: document[key] for key in ("spec", "status") if key in document})
    assert len(EXAMPLES) > 40


def test_the_cluster_of_the_examples_is_described() -> None:
    assert CLUSTER in TEXT


@pytest.mark.parametrize("name", sorted(set(dir(names)) - KUBERNETES_OWN))
def test_a_name_that_users_meet_is_in_the_reference(name: str) -> None:
    if name.isupper():
        assert [each for each in _texts(getattr(names, name)) if each not in TEXT] == []


@pytest.mark.parametrize("model", [GPUNode, ModelPlacement])
def test_every_field_of_an_object_is_in_the_reference(model: type[BaseModel]) -> None:
    assert [field for field in _fields(model) if f"`{field}`" not in TEXT] == []


def test_every_reason_and_every_kind_of_cause_is_in_the_reference() -> None:
    kinds = [each["$ref"].rpartition("/")[2] for each in SCHEMA["items"]["oneOf"]]
    causes = [SCHEMA["$defs"][kind]["properties"]["reason"]["const"] for kind in kinds]
    assert [each for each in (*Reason, *causes) if f"| `{each}` |" not in TEXT] == []


def test_every_reason_has_an_example() -> None:
    outcomes = [example.outcome for example in EXAMPLES]
    assert [each for each in Reason if not any(f"refused: {each}: " in outcome for outcome in outcomes)] == []


def test_every_engine_and_its_setting_is_in_the_reference() -> None:
    assert [name for name in EngineName if f"| {name.label} |" not in TEXT] == []
    assert [rule.setting for rule in RULES.values() if f"`{rule.setting}`" not in TEXT] == []


def _texts(value: Any) -> Iterator[str]:
    """The texts that a constant holds: its own, or those in it."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, tuple | frozenset):
        for item in value:
            yield from _texts(item)


def _fields(model: type[BaseModel]) -> Iterator[str]:
    for field in model.model_fields.values():
        yield field.alias or ""
        for part in _models(field.annotation):
            yield from _fields(part)


def _models(annotation: Any) -> Iterator[type[BaseModel]]:
    """The models within a type."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in getattr(annotation, "__args__", ()):
        yield from _models(part)


def _rewrite(example: Example, outcome: str) -> None:
    text = DOCUMENT.read_text()
    lines = TEXT.splitlines(keepends=True)
    start = "".join(lines[example.line - 1 :])
    block = start[: start.index("```outcome\n") + len("```outcome\n")]
    old = f"{block}{example.outcome}```\n"
    assert text.count(old) == 1, f"line {example.line}: two examples are the same"
    DOCUMENT.write_text(text.replace(old, f"{block}{outcome}```\n"))
