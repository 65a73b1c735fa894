"""vLLM's OpenAI server: token ids in the stream, Prometheus counters, `/version`."""

from __future__ import annotations

from typing import Any

import httpx

from genreport.engines import openai

KIND = "vllm"
FRESH_CONNECTIONS = False
READY = "/health"
METRICS: str | None = "/metrics"
SLOTS: str | None = None
TOKENIZE: str | None = "/tokenize"
SAMPLING: str | None = None
ASKED = openai.ASKED
KEEPING = openai.KEEPING
SAMPLED = (
    "vllm:num_requests_running",
    "vllm:num_requests_waiting",
    "vllm:kv_cache_usage_perc",
    "vllm:num_preemptions_total",
    "vllm:prompt_tokens_total",
    "vllm:generation_tokens_total",
)
BUSY = SAMPLED[:2]


def body(model: str, prompt: list[int] | str, output: int, seed: int) -> dict[str, Any]:
    """The plain request and the token ids of every event: an event of partial UTF-8 has no text but an id."""
    return openai.body(model, prompt, output, seed) | {"return_token_ids": True}


def tokenizing(model: str, text: str) -> dict[str, Any]:
    """What asks for the tokens of a text as it stands."""
    return {"model": model, "prompt": text, "add_special_tokens": False}


async def facts(client: httpx.AsyncClient) -> tuple[str | None, dict[str, Any]]:
    found = await openai.answers(client, "/version", "/v1/models")
    return openai.stated(found, "/version", "version"), found
