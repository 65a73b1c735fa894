"""One engine's process: in the foreground of a group of its own, its output in a file, stopped whatever happens."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import httpx
import psutil

from genreport.engines import guard
from genreport.engines.asking import asked
from genreport.errors import EngineError

POLL_S = 0.1
LOOK_S = 2.0
LINE_BYTES = 4096
ORPHAN_S = 20.0  # what an engine gets to stop in when its runner was killed


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

    def lines(self, start: int, end: int, *, ended: bool = False) -> tuple[int, bytes]:
        """The lines that end between two offsets, or just behind the second, and where the first of them begins.

        No line is cut, so that nothing in it can escape a rule that needs all of it. One that is still being written is
        left out, unless its writer has `ended`.
        """
        start, end = self._line_start(start), self._line_start(end)
        data = self.bytes(start, end)
        return start, data if ended else data[: data.rfind(b"\n") + 1]

    def _line_start(self, offset: int) -> int:
        """The first offset from here on where a line begins, or the file ends."""
        if offset == 0:
            return 0
        try:
            with self.path.open("rb") as file:
                file.seek(offset - 1)
                while (piece := file.readline(LINE_BYTES)) and not piece.endswith(b"\n"):
                    pass
                return max(offset, file.tell())
        except OSError:
            return offset

    def last_line(self) -> str:
        """The last line that says something, whole or not at all."""
        size = self.size()
        start = max(0, size - LINE_BYTES)
        lines = self.bytes(start, size).decode("utf-8", "replace").split("\n")
        whole = lines[1:] if start else lines
        missing = "none" if not start else f"longer than {LINE_BYTES} bytes"
        return next((line.strip() for line in reversed(whole) if line.strip()), missing)


class Process:
    """A server started from a command line; stdout and stderr go to a file, so that a flood of log never blocks it.

    It never outlives this process: a guard ends it when this one was killed.
    """

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
        self._guard = self._with_guard()

    def _with_guard(self) -> subprocess.Popen[bytes]:
        """Its guard; where none can be started, the engine does not run either."""
        try:
            return _guarded(self._child.pid)
        except OSError as error:
            self._signal(signal.SIGKILL)
            self._child.wait()
            self._folder.cleanup()
            cure = "make room for one more process: memory, or `ulimit -u`"
            raise EngineError(f"cannot start a guard for the engine: {error.strerror}", cure=cure) from None

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
            with suppress(BrokenPipeError):
                self._guard.communicate(b".")
            self._folder.cleanup()

    def _alive(self) -> bool:
        """Whether anything of the group still runs; what ended and waits to be collected does not."""
        self._child.poll()
        return any(_running_in(self._child.pid, pid) for pid in psutil.pids())

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._child.pid, number)


def _guarded(group: int) -> subprocess.Popen[bytes]:
    """The guard of a process group; it needs no library, and starts in a few milliseconds."""
    command = [sys.executable, "-I", "-S", guard.__file__, str(group), str(ORPHAN_S)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)


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
            cure = "look at its log" if process else "start it, or mend `url` in the plan"
            what = (
                f"{_address(client, path)} did not answer 200 within {timeout_s:g} s ({await _instead(client, path)})"
            )
            raise EngineError(f"{what}{said}", cure=cure)
        await asyncio.sleep(POLL_S)
    if process and process.exit_code is not None:
        raise EngineError(f"another server answers in its place: {process.death()}", cure="free the port")


def _address(client: httpx.AsyncClient, path: str) -> str:
    """What was asked, without what its address may say of who asks."""
    base = client.base_url
    return f"{base.scheme}://{base.netloc.decode()}{path}" if base.host else path


async def _instead(client: httpx.AsyncClient, path: str) -> str:
    """What a GET of the path meets that is no 200: another status, or why there is none."""
    try:
        async with asyncio.timeout(LOOK_S), client.stream("GET", path) as response:
            return f"it answers {response.status_code}"
    except TimeoutError:
        return "no answer"
    except httpx.HTTPError as error:
        return _of_the_system(error) or "no connection"


def _of_the_system(error: BaseException | None) -> str:
    """The system's word for why there is no connection, from what lies behind an error of a library."""
    while error is not None:
        if isinstance(error, OSError) and error.errno and error.errno > 0:
            return os.strerror(error.errno)
        error = error.__cause__ or error.__context__
    return ""


async def answers(client: httpx.AsyncClient, path: str) -> bool:
    """Whether a GET of the path answers 200 now."""
    return await asked(client, path, LOOK_S) is not None


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
