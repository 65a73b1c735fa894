"""One engine's process: in the foreground of a group of its own, its output in a file, stopped whatever happens."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil

from genreport.errors import EngineError

POLL_S = 0.1
LINE_BYTES = 4096


class Log:
    """An engine's output as a growing file; offsets are bytes. A file that went away reads as empty."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def size(self) -> int:
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def bytes(self, start: int, end: int) -> bytes:
        try:
            with self.path.open("rb") as file:
                file.seek(start)
                return file.read(max(0, end - start))
        except OSError:
            return b""

    def text(self, start: int, end: int) -> str:
        """A byte range as text; bytes that are no UTF-8 become U+FFFD."""
        return self.bytes(start, end).decode("utf-8", "replace")

    def last_line(self) -> str:
        size = self.size()
        lines = self.text(max(0, size - LINE_BYTES), size).split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "none")


class Process:
    """A server started from a command line; stdout and stderr go to a file, so that a flood of log never blocks it."""

    def __init__(self, command: Sequence[str], *, env: Mapping[str, str], cpus: set[int] | None) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="genreport-")
        self.log = Log(Path(self._folder.name) / "engine.log")
        self.command = list(command)
        try:
            with self.log.path.open("wb") as output, pinned(cpus):
                self._child = subprocess.Popen(
                    self.command,
                    env={**os.environ, **env},
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )
        except OSError as error:
            self._folder.cleanup()
            raise EngineError(
                f"cannot start {self.command[0]!r}: {error.strerror}", cure="check the plan's launch command"
            ) from None

    @property
    def exit_code(self) -> int | None:
        """`None` while it runs; negative = killed by that signal."""
        return self._child.poll()

    def resident_bytes(self) -> int | None:
        """Resident memory of the process and its children together; pages they share count once for each of them."""
        try:
            leader = psutil.Process(self._child.pid)
            return sum(each.memory_info().rss for each in (leader, *leader.children(recursive=True)))
        except psutil.Error:
            return None

    def death(self) -> str:
        """How it ended, in one line with the last one it logged."""
        return f"exit code {self.exit_code}, last log line: {self.log.last_line()}"

    def stop(self, patience_s: float) -> None:
        """Asks the group to end; kills what is left of it after `patience_s`, or at once on a second Ctrl-C."""
        try:
            self._signal(signal.SIGTERM)
            deadline = time.monotonic() + patience_s
            while self._alive() and time.monotonic() < deadline:
                time.sleep(POLL_S)
        finally:
            if self._alive():
                self._signal(signal.SIGKILL)
            self._child.wait()
            self._folder.cleanup()

    def _alive(self) -> bool:
        """Whether anything of the group still runs; what ended and waits to be collected does not."""
        self._child.poll()
        return any(_running_in(self._child.pid, pid) for pid in psutil.pids())

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)


def _running_in(group: int, pid: int) -> bool:
    try:
        return os.getpgid(pid) == group and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, PermissionError, psutil.Error):
        return False


async def wait_ready(client: httpx.AsyncClient, path: str, timeout_s: float, process: Process | None) -> None:
    """Returns when a GET of the path answers 200; EngineError when the process died or the time is up."""
    deadline = time.monotonic() + timeout_s
    while not await answers(client, path):
        if process and process.exit_code is not None:
            by_hand = shlex.join(process.command)
            raise EngineError(f"died before it was ready: {process.death()}", cure=f"try it by hand: {by_hand}")
        if time.monotonic() > deadline:
            said = f", last log line: {process.log.last_line()}" if process else ""
            raise EngineError(f"{path} did not answer 200 within {timeout_s:g} s{said}", cure="look at its log")
        await asyncio.sleep(POLL_S)
    if process and process.exit_code is not None:
        raise EngineError(f"another server answers in its place: {process.death()}", cure="free the port")


async def answers(client: httpx.AsyncClient, path: str) -> bool:
    """Whether a GET of the path answers 200 now."""
    try:
        return (await client.get(path, timeout=2)).status_code == httpx.codes.OK
    except httpx.HTTPError:
        return False


@contextmanager
def pinned(cpus: set[int] | None) -> Iterator[None]:
    """The calling thread, and what it starts meanwhile, on these cores only."""
    if not cpus:
        yield
        return
    if not hasattr(os, "sched_setaffinity"):
        raise EngineError("this system cannot pin a process to cores", cure="leave cpus out of the plan")
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, cpus)
    except OSError:
        raise EngineError(f"no such cores: {sorted(cpus)}", cure=f"this process may use {sorted(before)}") from None
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
