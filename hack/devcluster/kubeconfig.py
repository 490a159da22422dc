"""Kubeconfig files: one user with a token, and the authority embedded, so that a copy works as well."""

from __future__ import annotations

import base64
from pathlib import Path

import yaml


def write_kubeconfig(path: Path, *, url: str, ca_file: Path, user: str, token: str) -> None:
    """Write the file, readable by us only."""
    authority = base64.b64encode(ca_file.read_bytes()).decode()
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "dev", "cluster": {"server": url, "certificate-authority-data": authority}}],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": user}}],
        "current-context": "dev",
    }
    path.touch(mode=0o600)
    path.write_text(yaml.safe_dump(config, sort_keys=False), encoding="utf-8")
