"""This package's client on the load of `client.py`: `python own_client.py URL STREAMS REQUESTS TOKENS OUT [LOOP]`.

Requests, parsing and the lines of `requests.jsonl` are those of a recorded level; OUT is that file.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from genreport import load, wire
from genreport.client import Call, Client, Clock
from genreport.records import Request


def call(index: int, tokens: int) -> Call:
    body = {"model": "null", "prompt": [1] * 64, "max_tokens": tokens, "stream": True, "ignore_eos": True,
            "stream_options": {"include_usage": True}}  # fmt: skip
    return Call(index=index, seed=1, body=body, asked_input=64, asked_output=tokens)


async def hold(url: str, streams: int, requests: int, tokens: int, out: Path) -> None:
    calls = [call(index, tokens) for index in range(requests)]
    with out.open("w") as file:

        def written(request: Request) -> None:
            file.write(request.model_dump_json() + "\n")

        async with Client(url) as client:
            await load.closed_loop(client, calls, streams, Clock(0), written)


def main(url: str, streams: str, requests: str, tokens: str, out: str, loop: str = "uvloop") -> None:
    held = hold(url, int(streams), int(requests), int(tokens), Path(out))
    (wire.run if loop == "uvloop" else asyncio.run)(held)


if __name__ == "__main__":
    main(*sys.argv[1:])
