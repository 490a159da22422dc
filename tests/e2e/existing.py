"""A cluster that somebody else runs, with the operator installed and kwok (or something like it) for the nodes."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import yaml

from hack.devcluster.api import Api
from hack.devcluster.binaries import find_binaries
from hack.devcluster.cluster import KubectlError


class ExistingCluster:
    """The cluster of a kubeconfig's current context. Raises `ValueError` if that has no token and authority inside."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
        by_name = {
            kind: {entry["name"]: entry[kind.removesuffix("s")] for entry in config[kind]}
            for kind in ("contexts", "clusters", "users")
        }
        context = by_name["contexts"][config["current-context"]]
        cluster, user = by_name["clusters"][context["cluster"]], by_name["users"][context["user"]]
        if "certificate-authority-data" not in cluster or "token" not in user:
            raise ValueError(
                f"E2E_KUBECONFIG={kubeconfig}: its current context needs certificate-authority-data and a token; "
                "make one with `kubectl create token` for an account with the role cluster-admin"
            )
        with tempfile.NamedTemporaryFile(suffix=".crt") as authority:
            authority.write(base64.b64decode(cluster["certificate-authority-data"]))
            authority.flush()
            self.api = Api(cluster["server"], Path(authority.name), user["token"])

    def kubectl(
        self,
        *arguments: str | Path,
        input: str | None = None,  # noqa: A002 - as subprocess has it
        check: bool = True,
    ) -> subprocess.CompletedProcess[str]:
        """Runs kubectl on this cluster. KubectlError with its words unless `check` is False."""
        argv = [shutil.which("kubectl") or find_binaries().path("kubectl"), *arguments]
        environment = {**os.environ, "KUBECONFIG": str(self.kubeconfig)}
        done = subprocess.run(argv, input=input, capture_output=True, text=True, check=False, env=environment)
        if check and done.returncode != 0:
            raise KubectlError(f"kubectl {' '.join(map(str, arguments))}: {done.stderr.strip() or done.stdout.strip()}")
        return done
