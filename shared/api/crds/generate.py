"""Writes the chart's CRD templates from the models: `python -m shared.api.crds.generate [--check]`.

With `--check` nothing is written, and the exit status is 1 if a template differs from its model. Only a
checkout has the chart to write to.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

from shared.api.crds.definitions import DEFINITIONS, Definition

TEMPLATES = Path(__file__).parents[3] / "charts" / "placement-operator" / "templates" / "crds"

_TEMPLATE = """\
{{{{- /* Written by `make crds` from shared/api/crds/{module}.py. Change the model, not this file. */}}}}
{{{{- if .Values.crds.install }}}}
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: {name}
  annotations:
    helm.sh/resource-policy: keep
  labels:
    {{{{- include "placement-operator.labels" . | nindent 4 }}}}
{spec}{{{{- end }}}}
"""


def render(definition: Definition) -> str:
    """The chart template of `definition`."""
    return _TEMPLATE.format(
        module=definition.kind.lower(),
        name=definition.name,
        spec=yaml.safe_dump({"spec": definition.spec()}, sort_keys=False, width=120, allow_unicode=True),
    )


def drifted(folder: Path = TEMPLATES) -> list[Path]:
    """The templates in `folder` that are missing or differ from their model."""
    return [path for path, text in _templates(folder) if not path.exists() or path.read_text(encoding="utf-8") != text]


def write(folder: Path = TEMPLATES) -> list[Path]:
    """Writes every template into `folder` and returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in _templates(folder):
        path.write_text(text, encoding="utf-8")
    return [path for path, _ in _templates(folder)]


def _templates(folder: Path) -> list[tuple[Path, str]]:
    return [(folder / f"{definition.plural}.yaml", render(definition)) for definition in DEFINITIONS]


def main(arguments: Sequence[str] | None = None, folder: Path = TEMPLATES) -> int:
    parser = argparse.ArgumentParser(prog="python -m shared.api.crds.generate", description="Write the chart's CRDs.")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a template is out of date")
    if not parser.parse_args(arguments).check:
        sys.stdout.writelines(f"wrote {path}\n" for path in write(folder))
        return 0
    stale = drifted(folder)
    sys.stderr.writelines(f"{path} differs from its model: run `make crds`\n" for path in stale)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
