"""What the client of this machine can do at most: a load from a server that costs next to nothing, at full speed."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from genreport import wire
from genreport.client import Call, Client, Clock
from genreport.engines.process import pinned
from genreport.load import Honesty, closed_loop
from genreport.records import ClientCeiling, Request

SECONDS = 10.0
STREAMS, TOKENS = 64, 256
METHOD = (
    f"{STREAMS} streams of {TOKENS} events of about 290 B from the null server at full speed, each parsed and made a line of "
    "requests.jsonl; server and client on the cores of engines and client"
)


def client_ceiling(cores: set[int] | None = None) -> ClientCeiling | None:
    """Events that this process reads in ten seconds; `cores` are the server's. `None` where no such server starts."""
    try:
        with _null_server(cores) as url:
            return wire.run(_read(url))
    except OSError:
        return None


@contextmanager
def _null_server(cores: set[int] | None) -> Iterator[str]:
    command = [sys.executable, "-m", "genreport.nullserver", "--ttft", "0", "--gap", "0", "--lifeline"]
    with pinned(cores) if cores else nullcontext():
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with server:
        try:
            url = server.stdout.readline().strip()
            if not url:
                raise OSError("the null server did not start")
            yield url
        finally:
            server.terminate()


async def _read(url: str) -> ClientCeiling:
    events, failed, end_s = 0, 0, time.monotonic() + SECONDS
    body = {"model": "null", "prompt": [1] * 64, "max_tokens": TOKENS, "stream": True}
    call = Call(index=0, seed=0, body=body, asked_input=64, asked_output=TOKENS)

    def done(request: Request) -> None:
        nonlocal events, failed
        events += len(request.kinds)
        failed += request.failure is not None
        request.model_dump_json()

    def calls() -> Iterator[Call]:
        while time.monotonic() < end_s:
            yield call

    async with Client(url) as client, Honesty() as honesty:
        await closed_loop(client, calls(), STREAMS, Clock(), done)
    facts = honesty.facts
    return ClientCeiling(
        streams=STREAMS, events=events, failed=failed, wall_us=facts.wall_us, cpu_us=facts.cpu_us, method=METHOD
    )
