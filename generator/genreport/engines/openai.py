"""Any server that speaks OpenAI's completions stream: no counters, ready when it lists its models."""

from __future__ import annotations

import json
from typing import Any

import httpx

from genreport.engines.asking import asked

KIND = "openai"
# whether each request opens its own connection
FRESH_CONNECTIONS = False
READY = "/v1/models"
METRICS: str | None = None
SLOTS: str | None = None
# where it tells the tokens of a text, `None` = nowhere that is known
TOKENIZE: str | None = None
# the key of the body that holds the sampling parameters, `None` = the body itself
SAMPLING: str | None = None
# what every body asks of the sampler, as the facts of a level tell it
ASKED: dict[str, Any] = {"temperature": 0, "ignore_eos": True}
# what a turn of a conversation asks, so that the server may keep what it computed for the turns before
KEEPING: dict[str, Any] = {}
DEEPEST = 50  # levels of an answer that is kept: what is read again and again must not exhaust the stack
# gauges and counters sampled during a level, and those among them that are 0 when the server is idle
SAMPLED: tuple[str, ...] = ()
BUSY: tuple[str, ...] = ()


def body(model: str, prompt: list[int] | str, output: int, seed: int) -> dict[str, Any]:
    """A greedy streaming completion of exactly `output` tokens."""
    return {
        "model": model,
        "prompt": prompt,
        "max_tokens": output,
        **ASKED,
        "seed": seed,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def facts(client: httpx.AsyncClient) -> tuple[str | None, dict[str, Any]]:
    """Version, and what the server says of itself by endpoint path; an endpoint it lacks is left out."""
    return None, await answers(client, "/v1/models")


async def answers(client: httpx.AsyncClient, *paths: str) -> dict[str, Any]:
    """The JSON answers of those paths that answer 200 with JSON of a sane depth, fit to be written as UTF-8."""
    found = {}
    for path in paths:
        try:
            if (body := await asked(client, path)) is not None:
                found[path] = _writable(json.loads(body))
        except (ValueError, RecursionError):
            continue
    return found


def _writable(body: Any) -> Any:
    """Without halves of surrogate pairs and numbers that are none, which Python reads but nobody else does."""
    if _deeper(body, DEEPEST):
        raise ValueError("nested too deep")
    text = json.dumps(body, ensure_ascii=False).encode("utf-8", "replace")
    return json.loads(text, parse_constant=lambda _: None)


def _deeper(value: Any, left: int) -> bool:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return left == 0 or any(_deeper(each, left - 1) for each in inner)


def stated(found: dict[str, Any], path: str, key: str) -> str | None:
    """A text that an endpoint's answer holds under a key."""
    answer = found.get(path)
    value = answer.get(key) if isinstance(answer, dict) else None
    return value if isinstance(value, str) else None
