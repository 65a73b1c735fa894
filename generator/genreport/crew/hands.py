"""A worker as its crew sees it, and the way to one on this machine."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

from genreport.client import Call, Clock
from genreport.load import until
from genreport.records import ClientFacts, HostClock, Request
from genreport.worker import FACTS, RECORD, Share, Target, message, order

PATIENCE_S = 3.0  # what a worker gets to hand over and end in
SILENCE_S = 20.0  # beyond what a request may take: a worker that says nothing for so long is stopped, or hangs
OnDone = Callable[[Request], None]


class Link(Protocol):
    """The way to a worker, wherever it is; `host` tells how a clock of another host stands to ours."""

    host: HostClock | None

    async def open(self, target: Target) -> None:
        """Starts it."""

    def send(self, data: bytes) -> None: ...

    async def message(self) -> bytes:
        """What it says next; EOFError where it is gone."""

    def stop(self) -> None:
        """Bids it hand over what has finished, and end."""

    async def close(self) -> None:
        """Ends it, by force where it does not by itself."""

    async def end(self) -> str:
        """How it ended, for a person."""


class Pipe:
    """The way to a worker process of this machine: a socket that is its standard input."""

    host = None

    async def open(self, target: Target) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = started(theirs)
        self._reader, self._writer = await asyncio.open_unix_connection(sock=ours)
        self.send(order(target))

    def send(self, data: bytes) -> None:
        self._writer.write(data)

    async def message(self) -> bytes:
        return await message(self._reader)

    def stop(self) -> None:
        if not self._writer.is_closing():
            self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()
        await self._ended()
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        await asyncio.gather(self._writer.wait_closed(), return_exceptions=True)

    async def _ended(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None and time.monotonic() < deadline:  # noqa: ASYNC110 (as for an engine's process)
            await asyncio.sleep(0.005)

    async def end(self) -> str:
        await self._ended()
        return f"exit code {self.process.poll()}"


def started(given: socket.socket) -> subprocess.Popen[bytes]:
    """A worker's process, in a session of its own: what a terminal sends to all its processes is for the parent."""
    command = [sys.executable, "-m", "genreport.worker"]
    return subprocess.Popen(command, stdin=given, stdout=subprocess.DEVNULL, start_new_session=True)


def pipes(count: int) -> list[Pipe]:
    """Ways to so many processes of this machine."""
    return [Pipe() for _ in range(count)]


class Hand:
    """One worker of a crew: what it was given, and what it has handed back of that."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self.share, self.alive, self.silent = Share([]), True, False
        self._done: set[int] = set()
        self._reading: asyncio.Task[None] | None = None
        self._answers: asyncio.Queue[bytes | Exception | None] = asyncio.Queue()

    async def hire(self, target: Target) -> None:
        self._clock, self._most_s = Clock(target.origin_us), target.stall_s + target.request_s + SILENCE_S
        await self.link.open(target)
        self._reading = asyncio.create_task(self._read())

    async def begin(self, share: Share, on_done: OnDone) -> None:
        """Gives it its share; returns when its connections stand."""
        self.share, self._done, self.on_done = share, set(), on_done
        if self.alive:
            self.link.send(order(share))
        async with self._watched(lambda: 0):
            await self._answer()

    async def hold(self, start_us: int) -> ClientFacts | None:
        """Has it hold its share from then on; what it says of itself at the end, `None` where it died."""
        if self.alive:
            self.link.send(order(start_us))
        async with self._watched(lambda: start_us + min((call.due_us for call in self.unfinished), default=0)):
            facts = await self._answer()
        return None if facts is None else ClientFacts.model_validate_json(facts)

    @property
    def unfinished(self) -> list[Call]:
        return [call for call in self.share.calls if call.index not in self._done]

    async def end(self) -> str:
        """How it ended, for a person."""
        return f"silent for {self._most_s:g} s, so it was ended" if self.silent else await self.link.end()

    async def dismiss(self) -> None:
        """Has it hand over what has finished, and end."""
        self.link.stop()
        await asyncio.wait({self._reading}, timeout=PATIENCE_S)

    async def leave(self) -> None:
        if self._reading is None:
            return
        await self.link.close()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    @asynccontextmanager
    async def _watched(self, due_us: Callable[[], int]) -> AsyncIterator[None]:
        """Meanwhile it is ended, as if it had died, where it says nothing of what is due for longer than that can take."""
        self._heard_us = self._clock.now_us()
        watching = asyncio.create_task(self._watch(due_us))
        try:
            yield
        finally:
            if not self.silent:
                watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    async def _watch(self, due_us: Callable[[], int]) -> None:
        while (end_us := max(self._heard_us, due_us()) + round(self._most_s * 1e6)) > self._clock.now_us():
            await until(end_us, self._clock)
        self.silent = True
        await self.link.close()

    async def _answer(self) -> bytes | None:
        """What it answered to the last order; `None` from its death on."""
        told = await self._answers.get()
        if told is None:
            self._answers.put_nowait(None)
        if isinstance(told, Exception):
            raise told
        return told

    async def _read(self) -> None:
        """A task of its own, so that no cancelled load leaves a message half read."""
        try:
            while True:
                told = await self.link.message()
                self._heard_us = self._clock.now_us()
                self._take(told[:1], told[1:])
        except EOFError:
            self.alive = False
            self._answers.put_nowait(None)
        except Exception as error:  # of whoever takes the records: it ends the load
            self._answers.put_nowait(error)

    def _take(self, letter: bytes, data: bytes) -> None:
        if letter == RECORD:
            request = Request.model_validate_json(data)
            self._done.add(request.index)
            self.on_done(request)
        else:
            self._answers.put_nowait(data if letter == FACTS else b"")
