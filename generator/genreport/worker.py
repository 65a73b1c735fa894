"""A process that holds its share of a load: it is told what to send and when, and hands back each record as it ends.

`python -m genreport.worker` is started by `crew`, with a socket as its standard input. To it go pickled orders: who the
server is, then for each load a `Share` and the stamp at which it starts. From it come `READY` when its connections stand,
a `RECORD` for each request, in pauses of the load (`desk`), and `FACTS` at the end. When the socket is closed it stops,
hands over what has finished, and ends: so it outlives nobody.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import socket
import ssl
import struct
import sys
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from genreport import wire
from genreport.client import Call, Client, Clock
from genreport.errors import GenreportError
from genreport.load import Honesty, Patience, closed_loop, open_loop, until
from genreport.records import ClientFacts, Request

READY, RECORD, FACTS = b"o", b"r", b"f"
SIZE = struct.Struct(">Q")


@dataclass(frozen=True)
class Target:
    """A client in plain values, to be made elsewhere, and the clock that its stamps are on; `ca` is text in PEM format."""

    url: str
    origin_us: int
    headers: dict[str, str]
    fresh_connections: bool
    ca: str | None
    stall_s: float
    request_s: float

    def client(self) -> Client:
        return Client(
            self.url,
            headers=self.headers,
            fresh_connections=self.fresh_connections,
            verify=ssl.create_default_context(cadata=self.ca) if self.ca else True,
            stall_s=self.stall_s,
            request_s=self.request_s,
        )


@dataclass(frozen=True)
class Share:
    """What one worker does of a load: a closed loop of so many places, or an open loop where there are none.

    `refused`: connections refused in a row after which it begins nothing more.
    """

    calls: list[Call]
    places: int | None = None
    max_in_flight: int | None = None
    refused: int | None = None


def framed(data: bytes) -> bytes:
    """A message with its length before it."""
    return SIZE.pack(len(data)) + data


def order(what: Any) -> bytes:
    """What a worker is told, as it goes to it."""
    return framed(pickle.dumps(what))


async def message(reader: asyncio.StreamReader) -> bytes:
    """The next message; EOFError where the other side is gone."""
    try:
        (size,) = SIZE.unpack(await reader.readexactly(SIZE.size))
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        raise EOFError from None


async def work(given: socket.socket) -> None:
    """Holds one load after another until the socket is closed."""
    reader, writer = await asyncio.open_unix_connection(sock=given)
    try:
        await _loads(reader, lambda letter, data: writer.write(framed(letter + data)))
    except EOFError:
        pass
    finally:
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)


async def _loads(reader: asyncio.StreamReader, say: Callable[[bytes, bytes], None]) -> None:
    target: Target = pickle.loads(await message(reader))
    clock = Clock(target.origin_us)
    async with target.client() as client:
        while True:
            share: Share = pickle.loads(await message(reader))
            await client.open(share.places or 0)
            say(READY, b"")
            start_us: int = pickle.loads(await message(reader))
            facts = await _unless_left(hold(client, clock, share, start_us, lambda line: say(RECORD, line)), reader)
            say(FACTS, facts.model_dump_json().encode())


async def _unless_left(load: Coroutine[None, None, ClientFacts], reader: asyncio.StreamReader) -> ClientFacts:
    """The load's facts; where the socket is closed meanwhile it is cancelled, and EOFError raised."""
    running, left = asyncio.create_task(load), asyncio.create_task(reader.read(1))  # nothing is said while it works
    try:
        await asyncio.wait({running, left}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            raise EOFError
        return running.result()
    finally:
        running.cancel()
        left.cancel()
        await asyncio.gather(running, left, return_exceptions=True)


async def hold(
    client: Client, clock: Clock, share: Share, start_us: int, hand_over: Callable[[bytes], None]
) -> ClientFacts:
    """Holds one share from its start to its end."""
    patience = Patience(share.refused)
    calls = patience.calls(share.calls)

    def done(request: Request) -> None:
        patience.seen(request)
        hand_over(request.model_dump_json().encode())

    await until(start_us, clock)
    async with Honesty() as honesty:
        if share.places:
            await closed_loop(client, calls, share.places, clock, done, start_us)
        else:
            await open_loop(client, calls, clock, done, share.max_in_flight, start_us)
    return honesty.facts


def main() -> None:
    """Ctrl-C goes to all processes of a terminal: how a worker ends is for its parent to say."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        wire.run(work(socket.socket(fileno=os.dup(0))))
    except GenreportError as error:
        sys.exit(f"genreport worker: {error}")


if __name__ == "__main__":
    main()
