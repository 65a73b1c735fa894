"""Workers of a load on other hosts, reached through dask.distributed: one on each of its workers.

On each dask worker a task keeps a process as `hands.Pipe` does, and passes on what it says: so the load has a process of
its own there too, and stamps its reads undisturbed. What it says comes back as events of a dask topic, in order. Each host
has a CLOCK_MONOTONIC of its own: how far it is from ours is measured by question and answer before each repeat.

The parent gives signs of life; without them a task ends its process, for nobody takes its records any more.
"""

from __future__ import annotations

import asyncio
import math
import re
import secrets
import select
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from genreport import __version__
from genreport.crew.hands import PATIENCE_S, started
from genreport.errors import EngineError, OptionError
from genreport.records import HostClock
from genreport.wire import monotonic_us
from genreport.worker import SIZE, Target, order

if TYPE_CHECKING:
    from distributed import Client, Future

OPTION = "--workers"
PINGS = 30
SIGN_S, SILENCE_S = 1.0, 15.0
# dask itself leaves warnings behind where it cannot read one
ADDRESS = re.compile(r"(?:(?:tcp|tls|ws|wss|ucx)://)?[^\s/]+:\d+")
REACH_S = 10.0

# ---------------------------------------------------------------------------------------------------- on the other host

# key -> the socket of the process that this dask worker keeps, and when its parent last gave a sign of life
_kept: dict[str, list[Any]] = {}


def keep(topic: str, key: str) -> str:
    """The task: keeps a process until it ends or its parent is silent; how it ended."""
    from distributed import get_worker

    log_event = get_worker().log_event

    def say(data: bytes | None) -> None:
        log_event(topic, (key, data))

    ours, theirs = socket.socketpair()
    with ours:
        with theirs:
            process = started(theirs)
        _kept[key] = [ours, time.monotonic()]
        say(b"")
        while (data := _message(ours, key)) is not None:
            say(data)
        del _kept[key]
        process.wait()
    say(None)
    return f"exit code {process.returncode}"


def _message(ours: socket.socket, key: str) -> bytes | None:
    """What the process says next; `None` where that is nothing more."""
    head = _exactly(ours, key, SIZE.size)
    return None if head is None else _exactly(ours, key, SIZE.unpack(head)[0])


def _exactly(ours: socket.socket, key: str, size: int) -> bytes | None:
    data = b""
    while len(data) < size:
        if time.monotonic() - _kept[key][1] > SILENCE_S:
            dismiss(key)
        if select.select([ours], [], [], SIGN_S)[0]:
            more = _received(ours, size - len(data))
            if not more:
                return None
            data += more
    return data


def _received(ours: socket.socket, size: int) -> bytes:
    try:
        return ours.recv(size)
    except ConnectionError:
        return b""


def tell(key: str, data: bytes) -> None:
    """Passes an order on; without one, this is but a sign of life."""
    if key in _kept:
        _kept[key][1] = time.monotonic()
        _kept[key][0].sendall(data)


def dismiss(key: str) -> None:
    """Lets the process hand over what has finished, and end."""
    if key in _kept:
        with suppress(OSError):  # it has ended already
            _kept[key][0].shutdown(socket.SHUT_WR)


# --------------------------------------------------------------------------------------------------------- on this host


class Host:
    """The way to a worker on another host: a `Link`; `host` is how its clock stands to ours.

    The scheduler remembers the last events of every topic for ever, so a host has one topic, and each process a key.
    """

    def __init__(self, dask: Client, address: str) -> None:
        self._dask, self._address = dask, address
        self._topic, self._key = f"genreport-{dask.id}-{address}", secrets.token_hex(8)
        self._said: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._orders: asyncio.Queue[Callable[[], Awaitable[Any]]] = asyncio.Queue()
        self.host: HostClock | None = None
        self._task: Future | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self, target: Target) -> None:
        """Raises EngineError where the host, or the way to it, is gone."""
        try:
            async with asyncio.timeout(REACH_S):
                await self._open(target)
        except BaseException as error:
            await self.close()
            if isinstance(error, Exception):  # whatever dask makes of it
                raise EngineError("a worker's host cannot be reached", cure="look at the dask scheduler") from error
            raise

    async def _open(self, target: Target) -> None:
        self.host = await aligned(lambda: self._there(monotonic_us))
        self._dask.subscribe_topic(self._topic, self._hear)
        self._task = self._dask.submit(keep, self._topic, self._key, workers=[self._address], pure=False, retries=0)
        self._tasks = [asyncio.create_task(work) for work in (self._pass_on(), self._watch())]
        await self.message()
        self.send(order(replace(target, origin_us=target.origin_us + self.host.offset_us)))

    def _hear(self, event: tuple[float, tuple[str, bytes | None]]) -> None:
        key, said = event[1]
        if key == self._key:
            self._said.put_nowait(said)

    def send(self, data: bytes) -> None:
        self._orders.put_nowait(lambda: self._there(tell, self._key, data))

    async def message(self) -> bytes:
        said = await self._said.get()
        if said is None:
            raise EOFError
        return said

    def stop(self) -> None:
        self._orders.put_nowait(lambda: self._there(dismiss, self._key))

    async def close(self) -> None:
        if self._task is not None:
            self.stop()
            await self.end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with suppress(Exception):  # nothing can be said to a scheduler that is gone
            self._dask.unsubscribe_topic(self._topic)
            self._task = None

    async def end(self) -> str:
        try:
            return await asyncio.wait_for(self._task.result(), PATIENCE_S)
        except TimeoutError:
            return "its host is gone"
        except Exception as error:  # whatever came of the task there
            return f"its host says {type(error).__name__}"

    async def _there(self, function: Callable[..., Any], *given: Any) -> Any:
        return (await self._dask.run(function, *given, workers=[self._address]))[self._address]

    async def _pass_on(self) -> None:
        """Orders one after another, as they were given."""
        while True:
            await (await self._orders.get())()

    async def _watch(self) -> None:
        """Signs of life, both ways: a dask worker that is gone says nothing."""
        try:
            while self._address in await asyncio.wait_for(self._dask.nthreads(), SILENCE_S):
                self.send(b"")
                await asyncio.sleep(SIGN_S)
        finally:
            self._said.put_nowait(None)


async def aligned(asked: Callable[[], Awaitable[int]]) -> HostClock:
    """How far another host's clock is ahead of ours, by the quickest of many answers: it was read at most half its time off."""
    pings = [await _ping(asked) for _ in range(PINGS)]
    round_trip_us, offset_us = min(pings)
    return HostClock(offset_us=round(offset_us), error_us=math.ceil(round_trip_us / 2))


async def _ping(asked: Callable[[], Awaitable[int]]) -> tuple[int, float]:
    sent_us = monotonic_us()
    read_us = await asked()
    came_us = monotonic_us()
    return came_us - sent_us, read_us - (sent_us + came_us) / 2


@dataclass(frozen=True)
class Hosts:
    """The workers of a dask cluster that can hold loads."""

    dask: Client
    addresses: list[str]

    def links(self, count: int) -> list[Host]:
        """Ways to the first so many."""
        return [Host(self.dask, address) for address in self.addresses[:count]]


@asynccontextmanager
async def reached(scheduler: str) -> AsyncIterator[Hosts]:
    """The cluster of a scheduler's address; OptionError where it, its workers or dask itself is not there."""
    where = f"{OPTION} {scheduler}"
    if not ADDRESS.fullmatch(scheduler):
        raise OptionError(
            "is no address of a scheduler", where=where, cure=f"write for example {OPTION} tcp://host:8786"
        )
    try:
        from distributed import Client
    except ImportError:
        cure = "pip install 'genreport[hosts]'"
        raise OptionError("dask.distributed is not installed", where=where, cure=cure) from None
    try:
        dask = await Client(scheduler, asynchronous=True, set_as_default=False, timeout=REACH_S)
    except (OSError, ValueError) as error:
        cure = "start `dask scheduler`, and `dask worker` on each host"
        raise OptionError(f"no scheduler answers ({error})", where=where, cure=cure) from None
    async with dask:
        versions = await dask.run(version, on_error="return")
        if not versions:
            raise OptionError("has no workers", where=where, cure="start `dask worker` on each host")
        if wrong := {str(found) for found in versions.values() if found != __version__}:
            cure = f"install genreport {__version__} on each host"
            raise OptionError(f"a worker has another genreport: {', '.join(sorted(wrong))}", where=where, cure=cure)
        yield Hosts(dask, sorted(versions))


def version() -> str:
    return __version__


async def look(scheduler: str) -> None:
    """Says what is wrong with a cluster before anything is written."""
    async with reached(scheduler):
        pass
