"""What a server says beside the load: no endpoint may hold a measurement by dripping, or fill the memory by pouring."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx

WITHIN_S = 10.0
MOST_BYTES = 64 << 20


async def asked(
    client: httpx.AsyncClient, path: str, within_s: float = WITHIN_S, post: dict[str, Any] | None = None
) -> bytes | None:
    """The body of a GET that was answered with 200, whole, in time and of a sane size; `None` for any other.

    With `post` it is a POST of that as JSON.
    """
    method = "GET" if post is None else "POST"
    try:
        async with asyncio.timeout(within_s), client.stream(method, path, json=post) as response:
            return await _body(response) if response.status_code == httpx.codes.OK else None
    except (httpx.HTTPError, TimeoutError):
        return None


async def _body(response: httpx.Response) -> bytes | None:
    parts, size = [], 0
    async for part in response.aiter_bytes():
        parts.append(part)
        size += len(part)
        if size > MOST_BYTES:
            return None
    return b"".join(parts)
