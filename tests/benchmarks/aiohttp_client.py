"""What most tools are built on: a bare aiohttp loop over lines, `json.loads` for each event and nothing else.

`python aiohttp_client.py URL STREAMS REQUESTS TOKENS OUT` in an environment that has aiohttp and uvloop; OUT as of
`raw_client.py`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import aiohttp
import uvloop


async def place(session: aiohttp.ClientSession, url: str, bodies: list[dict], seen: list[dict]) -> None:
    while bodies:
        body, stamps, wrote, sent_ns = bodies.pop(), [], [], time.monotonic_ns()
        async with session.post(f"{url}/v1/completions", json=body) as response:
            async for line in response.content:
                if line.startswith(b"data: {") and (choices := json.loads(line[6:])["choices"]):
                    stamps.append(time.monotonic_ns())
                    wrote.append(choices[0]["text"])
        seen.append({"sent_ns": sent_ns, "stamps_ns": stamps, "wrote": wrote})


async def hold(url: str, streams: int, requests: int, tokens: int) -> list[dict]:
    bodies = [{"model": "null", "prompt": [1] * 64, "max_tokens": tokens, "stream": True} for _ in range(requests)]
    seen: list[dict] = []
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(place(session, url, bodies, seen) for _ in range(streams)))
    return seen


def main(url: str, streams: str, requests: str, tokens: str, out: str) -> None:
    seen = uvloop.run(hold(url, int(streams), int(requests), int(tokens)))
    Path(out).write_text(json.dumps(seen))


if __name__ == "__main__":
    main(*sys.argv[1:])
