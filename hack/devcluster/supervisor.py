"""The process behind `make up`: it owns every process of one named cluster, and nothing outlives it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import FrameType
from typing import NoReturn

from hack.devcluster.api import ApiError
from hack.devcluster.chart import ChartError
from hack.devcluster.cluster import DevCluster, KubectlError
from hack.devcluster.nodes import NodesNotReadyError, seed_nodes
from hack.devcluster.operator import Operator
from hack.devcluster.processes import Process, ProcessError
from hack.devcluster.spec import load_spec

READY = "ready"
"""The last line of the progress, said only when the cluster is up."""

_CHECK_S = 2.0


def supervise(description: Path, state: Path, webhooks: int, progress: int) -> NoReturn:
    """Bring a cluster up, saying each step into the pipe `progress`, and keep it up until SIGTERM.

    A process that ends is started again, as the kubelet would. When nobody reads the pipe any more before the
    cluster is up, the person has gone, and so do we.
    """
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(sig, _stop)
    try:
        with contextlib.ExitStack() as stack:
            pipe = stack.enter_context(os.fdopen(progress, "w", encoding="utf-8"))

            def say(text: str) -> None:
                print(text, file=pipe, flush=True)

            cluster = stack.enter_context(DevCluster(state_dir=state, say=say))
            operator = stack.enter_context(Operator(cluster, webhooks=webhooks, say=say))
            nodes = load_spec(description).nodes
            seed_nodes(cluster.api, nodes)
            say(f"{len(nodes)} nodes are ready and have published their cards")
            say(READY)
            pipe.close()
            _keep_up((*cluster.processes, *operator.processes))
    except (ApiError, ChartError, KubectlError, NodesNotReadyError, ProcessError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        sys.exit(1)
    except Exception:  # noqa: BLE001 - whatever it is, the person who waits has to read it
        traceback.print_exc(file=sys.stderr)
        sys.exit(1)


def _keep_up(processes: Iterable[Process]) -> NoReturn:
    watched = tuple(processes)
    while True:
        time.sleep(_CHECK_S)
        for process in watched:
            if not process.alive:
                print(f"{process.name} ended with code {process.returncode}; starting it again", flush=True)
                process.start()


def _stop(signum: int, _frame: FrameType | None) -> NoReturn:
    sys.exit(128 + signum)
