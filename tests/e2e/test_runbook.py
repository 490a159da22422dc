"""The runbook's commands, as far as they need no pods of the operator: here it runs as processes.

What reads is run as it stands. `logs`, `describe`, `port-forward` and `--raw` speak of those pods, and deleting the
Secret is what `tests/e2e/test_certificates.py` tries.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from tests.e2e.conftest import AnyCluster, MakePool
from tests.e2e.kube import Namespace

pytestmark = pytest.mark.e2e

RUNBOOK = Path(__file__).parents[2] / "docs" / "runbook.md"
_OF_PODS = {"logs", "describe", "port-forward", "--raw", "delete"}


def _commands() -> list[str]:
    blocks = re.findall(r"^```sh\n(.*?)^```$", RUNBOOK.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [line.partition(" | ")[0] for line in lines if not _OF_PODS & set(line.split())]


def test_enough_of_the_runbook_is_tried() -> None:
    assert len(_commands()) >= 8


@pytest.mark.parametrize("command", _commands())
def test_a_command_of_the_runbook_works(
    cluster: AnyCluster, pool: MakePool, namespace: Namespace, command: str
) -> None:
    filled = command.replace("$NODE", pool(16).node).replace("namespace models", f"namespace {namespace.name}")
    program, *arguments = shlex.split(filled)
    assert program == "kubectl"
    cluster.kubectl(*arguments)
