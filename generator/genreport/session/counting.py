"""Tokens of answers that came without a count: the server's own tokenizer counts their texts, after the level."""

from __future__ import annotations

import asyncio

from genreport.engines.server import Server
from genreport.rounds import LevelWriter

COUNT_S = 120.0  # for all answers of a repeat; what is not counted by then stays unknown


async def count_again(server: Server, model: str, writer: LevelWriter, remarks: list[str]) -> str | None:
    """Adds a count to each request that lacks one; the path it came from, `None` where there is none."""
    lacking, path = len(writer.uncounted) + writer.uncountable, server.kind.TOKENIZE
    if not lacking:
        return None
    counts = await _counts(server, model, writer) if path else {}
    if counts:
        writer.recount(counts)
    how = (
        f"{path} counted {len(counts)} of them afterwards"
        if path
        else f"a server of kind {server.kind.KIND} cannot be asked"
    )
    remarks.append(f"{lacking} answers came without a token count; {how}")
    return path if counts else None


async def _counts(server: Server, model: str, writer: LevelWriter) -> dict[int, int]:
    """Line and tokens of each answer; it gives up where the first is not counted, for then none will be."""
    found: dict[int, int] = {}
    try:
        async with asyncio.timeout(COUNT_S):
            for line, text in writer.texts():
                tokens = await server.tokens(model, text)
                if tokens is not None:
                    found[line] = tokens
                elif not found:
                    break
    except TimeoutError:
        pass
    return found
