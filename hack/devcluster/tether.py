"""Run a command that dies with the process that started it: `tether.py PARENT_PID COMMAND [ARGUMENT...]`.

The kernel kills the command as soon as the thread that started it is gone, also after a kill -9. This is a
program of its own, and no function between fork and exec, because those are unsafe once there are threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Ask the kernel for the signal, check that the parent is still there, and become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"cannot tie {command[0]} to its parent: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        sys.exit(f"{command[0]} is not started: its parent {parent} has gone")
    try:
        os.execvp(command[0], command)  # noqa: S606 - there is no shell to inject into
    except OSError as error:
        sys.exit(f"cannot start {command[0]}: {error.strerror}")


if __name__ == "__main__":
    main()
