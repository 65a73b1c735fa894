"""A raw HTTP server on loopback that answers each request with the next script, faults included.

A script is an async function of a `Peer`. It writes bytes, waits and breaks off as it likes; the peer notes the
monotonic time just before each write, which is the truth that a client's stamps are held against.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from genreport.wire import monotonic_us

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n"


@dataclass
class Peer:
    """One request at the server: its body, when it had been read, and when each write of the answer began."""

    writer: asyncio.StreamWriter
    connection: int
    head: str
    body: dict
    read_us: int
    wrote_us: list[int] = field(default_factory=list)

    async def send(self, *pieces: bytes) -> None:
        """Writes all pieces at once."""
        self.wrote_us.append(monotonic_us())
        self.writer.write(b"".join(pieces))
        await self.writer.drain()

    async def start(self, extra: bytes = b"") -> None:
        await self.send(HEAD + extra + b"\r\n")

    async def event(self, *payloads: object) -> None:
        """Writes events at once, each a chunk of its own, as uvicorn and llama-server do."""
        await self.send(*(chunk(sse(payload)) for payload in payloads))

    async def end(self, *payloads: object) -> None:
        await self.send(*(chunk(sse(payload)) for payload in payloads), b"0\r\n\r\n")

    def hang_up(self) -> None:
        self.writer.transport.abort()


Script = Callable[[Peer], Awaitable[None]]


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def sse(payload: object) -> bytes:
    """An event as it stands on the wire; a string or bytes go out as they are."""
    if isinstance(payload, bytes):
        return payload
    return f"data: {payload if isinstance(payload, str) else json.dumps(payload)}\n\n".encode()


@dataclass
class FaultServer:
    """Where it listens, and every request it has seen."""

    scripts: list[Script]
    url: str = ""
    peers: list[Peer] = field(default_factory=list)
    connections: int = 0
    changed: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def has_seen(self, requests: int) -> None:
        """Waits until that many requests have come."""
        async with self.changed:
            await self.changed.wait_for(lambda: len(self.peers) >= requests)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        connection = self.connections
        try:
            while not writer.is_closing():
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = next(
                    int(line[15:]) for line in head.splitlines() if line.lower().startswith("content-length:")
                )
                body = json.loads(await reader.readexactly(length))
                self.peers.append(Peer(writer, connection, head, body, monotonic_us()))
                async with self.changed:
                    self.changed.notify_all()
                await self.script()(self.peers[-1])
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client has gone
        finally:
            writer.transport.abort()

    def script(self) -> Script:
        """The next script; the last one serves for ever."""
        return self.scripts.pop(0) if len(self.scripts) > 1 else self.scripts[0]


@asynccontextmanager
async def serving(*scripts: Script, tls: ssl.SSLContext | None = None) -> AsyncIterator[FaultServer]:
    faults = FaultServer(list(scripts))
    tasks: set[asyncio.Task] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.ensure_future(faults.serve(reader, writer)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0, ssl=tls)
    host, port = server.sockets[0].getsockname()
    faults.url = f"http{'s' if tls else ''}://{host}:{port}"
    try:
        yield faults
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)
