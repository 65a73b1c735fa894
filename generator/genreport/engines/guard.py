"""Ends an engine whose runner was killed: `python guard.py GROUP PATIENCE`, with the runner at the other end of its input.

A runner that ends in order stops its engine itself and says so with a byte; one that is killed says nothing, and its end
of the pipe closes. An engine that outlived it would keep the port and the memory that the next attempt needs.
"""

from __future__ import annotations

import os
import signal
import sys
import time


def main(group: int, patience_s: float) -> None:
    """Waits for the runner's last word, and where none comes ends the group: SIGTERM, then SIGKILL."""
    if sys.stdin.buffer.read(1):
        return
    deadline = time.monotonic() + patience_s
    _signal(group, signal.SIGTERM)
    while _signal(group, 0) and time.monotonic() < deadline:
        time.sleep(0.1)
    _signal(group, signal.SIGKILL)


def _signal(group: int, number: int) -> bool:
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]))
