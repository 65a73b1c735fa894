"""Does the client's memory stay flat? `python tests/benchmarks/soak.py 1000000` sends so many to the null server."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import psutil

from genreport import wire
from genreport.client import Call, Client, Clock
from genreport.load import closed_loop
from genreport.records import Request
from genreport.rounds import LevelWriter

PLACES, TOKENS = 16, 4
LOOKS = 200  # at the memory, over a run
# the server keeps what it knows until it is asked
FORGET = 5_000


@dataclass
class Soak:
    """What a run showed: resident bytes after so many requests, failures and seconds."""

    requests: int
    failed: int = 0
    seconds: float = 0.0
    done: list[int] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)

    @property
    def slope(self) -> float:
        """Bytes a request, by least squares over the second half: at full speed unread answers fill their room first."""
        first = len(self.done) // 2
        return float(np.polyfit(self.done[first:], self.resident[first:], 1)[0])


@contextmanager
def null_server(ttft: float = 0, gap: float = 0) -> Iterator[str]:
    command = [sys.executable, "-m", "genreport.nullserver", "--ttft", str(ttft), "--gap", str(gap)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server.stdout.readline().strip()
        finally:
            server.terminate()


async def soak(url: str, folder: Path, requests: int) -> Soak:
    """Sends the requests as a level does, each record written to disk as it ends."""
    seen, writer, me, count = Soak(requests), LevelWriter(folder), psutil.Process(), 0
    body = {"model": "null", "prompt": [1] * 64, "max_tokens": TOKENS, "stream": True}
    call = Call(index=0, seed=0, body=body, asked_input=64, asked_output=TOKENS)

    def done(request: Request) -> None:
        nonlocal count
        writer.request(request)
        count += 1
        seen.failed += request.failure is not None
        if count % max(1, requests // LOOKS) == 0:
            seen.done.append(count)
            seen.resident.append(me.memory_info().rss)
        if count % FORGET == 0:
            urllib.request.urlopen(f"{url}/truth").close()

    began = time.monotonic()
    async with Client(url) as client:
        await closed_loop(client, (call for _ in range(requests)), PLACES, Clock(), done)
    writer.abandon()
    seen.seconds = time.monotonic() - began
    return seen


def main(requests: int) -> None:
    with tempfile.TemporaryDirectory() as folder, null_server() as url:
        seen = wire.run(soak(url, Path(folder), requests))
    first, last = (seen.resident[at] / 2**20 for at in (0, -1))
    print(f"{requests} requests, {seen.failed} failed, {requests / seen.seconds:.0f} requests/s")
    print(f"resident memory: {first:.1f} MiB to {last:.1f} MiB, slope {seen.slope:.2f} B a request")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
