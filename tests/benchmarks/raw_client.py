"""What a client can reach in Python: bare asyncio protocols under uvloop, `json.loads` for each event and nothing else.

`python raw_client.py URL STREAMS REQUESTS TOKENS OUT` holds a closed loop and writes what it saw to OUT as JSON: for each
request when it was sent, when each event came, in nanoseconds of CLOCK_MONOTONIC, and what the server wrote in it.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections import deque
from pathlib import Path
from urllib.parse import urlsplit

import uvloop


class Stream(asyncio.Protocol):
    """One connection, one request after another until there are none."""

    def __init__(self, load: Load) -> None:
        self._load, self._rest = load, b""

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._next()

    def _next(self) -> None:
        if not self._load.left:
            self._transport.close()
            self._load.finished()
            return
        self._load.left -= 1
        self._sent_ns, self._stamps, self._wrote, self._rest = time.monotonic_ns(), [], [], b""
        self._transport.write(self._load.request)

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            if line.startswith(b"data: {") and (choices := json.loads(line[6:])["choices"]):
                self._stamps.append(now)
                self._wrote.append(choices[0]["text"])
        if self._rest.endswith(b"0\r\n\r\n") or data.endswith(b"0\r\n\r\n"):
            self._load.seen.append({"sent_ns": self._sent_ns, "stamps_ns": self._stamps, "wrote": self._wrote})
            self._next()


class Load:
    """The requests that are left, and what was seen of those that are done."""

    def __init__(self, url: str, streams: int, requests: int, tokens: int) -> None:
        self._address, self._streams, self.left = urlsplit(url), streams, requests
        body = json.dumps({"model": "null", "prompt": [1] * 64, "max_tokens": tokens, "stream": True}).encode()
        head = "POST /v1/completions HTTP/1.1\r\nHost: null\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
        self.request, self.seen = (head % len(body)).encode() + body, deque()

    async def hold(self) -> None:
        loop = asyncio.get_running_loop()
        self._open, self._done = self._streams, loop.create_future()
        address = self._address.hostname, self._address.port
        await asyncio.gather(*(loop.create_connection(lambda: Stream(self), *address) for _ in range(self._streams)))
        await self._done

    def finished(self) -> None:
        self._open -= 1
        if not self._open:
            self._done.set_result(None)


def main(url: str, streams: str, requests: str, tokens: str, out: str) -> None:
    load = Load(url, int(streams), int(requests), int(tokens))
    uvloop.run(load.hold())
    Path(out).write_text(json.dumps(list(load.seen)))


if __name__ == "__main__":
    main(*sys.argv[1:])
