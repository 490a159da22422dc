"""The chart as Helm renders it, read into plain objects."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import yaml

CHART = Path(__file__).parents[2] / "charts" / "placement-operator"
RELEASE = "placement-operator"
NAMESPACE = "placement-system"

Manifest: TypeAlias = dict[str, Any]


class ChartError(Exception):
    """Helm refused; the text is what a user would read."""


@dataclass(frozen=True, slots=True)
class Rendered:
    """What one `helm template` printed."""

    text: str
    manifests: tuple[Manifest, ...]

    def all(self, kind: str) -> list[Manifest]:
        """Every manifest of `kind`, in the order of their names."""
        return sorted((m for m in self.manifests if m["kind"] == kind), key=lambda m: str(m["metadata"]["name"]))

    def one(self, kind: str, name: str) -> Manifest:
        """The manifest of `kind` called `name`."""
        (found,) = (m for m in self.all(kind) if m["metadata"]["name"] == name)
        return found


@dataclass(frozen=True, slots=True)
class Helm:
    """Helm, and the chart of this checkout."""

    binary: Path
    home: Path
    """A folder for what Helm keeps between runs, so that a developer's own settings play no part."""

    def template(self, values: Mapping[str, Any] | None = None, *, namespace: str = NAMESPACE) -> Rendered:
        """The rendered chart. Raises `ChartError` with Helm's words."""
        text = self._run("template", RELEASE, str(CHART), "--namespace", namespace, values=values)
        return Rendered(text, tuple(m for m in yaml.safe_load_all(text) if m))

    def notes(self, values: Mapping[str, Any] | None = None) -> str:
        """What a user reads after an installation."""
        text = self._run("install", RELEASE, str(CHART), "--namespace", NAMESPACE, "--dry-run=client", values=values)
        return text.split("\nNOTES:\n", 1)[1]

    def lint(self) -> str:
        """Helm's own opinion of the chart, warnings counted as errors. Raises `ChartError`."""
        return self._run("lint", "--strict", str(CHART), "--namespace", NAMESPACE)

    def _run(self, *arguments: str, values: Mapping[str, Any] | None = None) -> str:
        environment = {
            "HOME": str(self.home),
            "HELM_CACHE_HOME": str(self.home / "cache"),
            "HELM_CONFIG_HOME": str(self.home / "config"),
            "HELM_DATA_HOME": str(self.home / "data"),
            "KUBECONFIG": "/dev/null",
        }
        done = subprocess.run(
            [self.binary, *arguments, *(["--values", "-"] if values is not None else [])],
            input=yaml.safe_dump(dict(values)) if values is not None else None,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        if done.returncode:
            raise ChartError(done.stdout + done.stderr)
        return done.stdout


def paths_of(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every leaf and branch below `value` with its path."""
    yield path, value
    if isinstance(value, Mapping):
        for key, child in value.items():
            yield from paths_of(child, f"{path}.{key}")
    elif isinstance(value, list):
        for index, child in enumerate(value):
            yield from paths_of(child, f"{path}[{index}]")


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Whether a label selector made of In and NotIn terms matches `labels`."""
    return all(
        (labels.get(term["key"]) in term["values"]) == (term["operator"] == "In")
        for term in selector["matchExpressions"]
    )
