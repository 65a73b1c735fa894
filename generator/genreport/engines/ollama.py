"""Ollama over its own `/api/generate`: lines of JSON, with counts and durations in the last one. It has no counters.

Written from its public documentation; it has not yet met a real server. It takes text, no token ids, and cannot be told
to go on after an end of sequence. Its OpenAI endpoint is measured by the kind `openai`.
"""

from __future__ import annotations

from typing import Any

import httpx

from genreport.engines import openai

KIND = "ollama"
FRESH_CONNECTIONS = False
READY = "/api/version"
METRICS: str | None = None
SLOTS: str | None = None
TOKENIZE: str | None = None
# sampling parameters of a plan, and `num_ctx`, go below this key of the body
SAMPLING: str | None = "options"
ASKED: dict[str, Any] = {"temperature": 0}
KEEPING = openai.KEEPING
SAMPLED: tuple[str, ...] = ()
BUSY: tuple[str, ...] = ()


def body(model: str, prompt: list[int] | str, output: int, seed: int) -> dict[str, Any]:
    """A greedy stream of at most `output` tokens; `raw` keeps the model's template away from the prompt."""
    options = ASKED | {"num_predict": output, "seed": seed}
    return {"model": model, "prompt": prompt, "raw": True, "stream": True, "options": options}


async def facts(client: httpx.AsyncClient) -> tuple[str | None, dict[str, Any]]:
    found = await openai.answers(client, "/api/version", "/v1/models")
    return openai.stated(found, "/api/version", "version"), found
