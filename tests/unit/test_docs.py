"""What the documents point at exists, and nothing in them waits to be filled in."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
DOCUMENTS = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "agent/*.md", "cli/*.md", "charts/*/*.md")
    for path in ROOT.glob(pattern)
)
LINK = re.compile(r"\]\(([^)#:]+)\)")
SOURCE = re.compile(r"`((?:shared|webhook|controller|hack|tests|charts|docs)/[\w./-]+\.(?:py|md|yaml|tpl))`")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_document_points_at_what_exists(document: Path) -> None:
    text = document.read_text()
    links = [document.parent / target for target in LINK.findall(text)]
    sources = [ROOT / target for target in SOURCE.findall(text)]
    assert [path for path in (*links, *sources) if not path.exists()] == []
    assert "@@" not in text


def test_there_are_documents() -> None:
    assert ROOT / "README.md" in DOCUMENTS
    assert len(DOCUMENTS) > 5
