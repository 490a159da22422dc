"""`make demo` tells no lies: every step of it is checked, and it ends with success only if all are true."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest

from hack.devcluster.cluster import ROOT

pytestmark = pytest.mark.e2e


def test_the_demo_passes() -> None:
    if os.environ.get("E2E_KUBECONFIG"):
        pytest.skip("E2E_KUBECONFIG is set: the demo brings a cluster of its own")
    done = subprocess.run(
        [sys.executable, "-m", "hack.demo"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=580
    )
    assert done.returncode == 0, done.stdout + done.stderr
    claims = re.search(r"(\d+) claims, all true", done.stdout)
    assert claims is not None
    assert int(claims[1]) == done.stdout.count("  ok ")
