"""What all tools have in common: the columns of a look, a program's lines, and looks in time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress

COLUMNS = (
    "index", "power.draw [W]", "clocks.current.sm [MHz]", "clocks.current.memory [MHz]", "temperature.gpu",
    "utilization.gpu [%]", "utilization.memory [%]", "memory.used [MiB]", "clocks_event_reasons.active",
)  # fmt: skip
HEAD = ", ".join(COLUMNS) + "\n"
UNKNOWN = "[N/A]"
MIB = 2**20
Row = list[str]


async def printed(command: Sequence[str]) -> AsyncIterator[str]:
    """What a program prints until it ends or nobody listens any more."""
    child = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL,
        limit=MIB,
    )  # fmt: skip
    assert child.stdout is not None
    try:
        async for line in child.stdout:
            yield line.decode("utf-8", "replace")
    finally:
        with suppress(ProcessLookupError):
            child.kill()
        await child.wait()


async def looks(period_s: float, look: Callable[[], Awaitable[list[Row]]]) -> AsyncIterator[str]:
    """The columns' names, then the rows of a look each period; a look that took longer makes the next one late."""
    yield HEAD
    due = time.monotonic()
    while True:
        for row in await look():
            yield ", ".join(row) + "\n"
        due = max(due + period_s, time.monotonic())
        await asyncio.sleep(due - time.monotonic())
