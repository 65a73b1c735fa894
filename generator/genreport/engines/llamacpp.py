"""llama.cpp's llama-server: per-token timings, `/slots`, and connections it closes though it announces keep-alive."""

from __future__ import annotations

from typing import Any

import httpx

from genreport.engines import openai

KIND = "llamacpp"
FRESH_CONNECTIONS = True
READY = "/health"
METRICS: str | None = "/metrics"
SLOTS: str | None = "/slots"
TOKENIZE: str | None = "/tokenize"
SAMPLING: str | None = None
ASKED = openai.ASKED
KEEPING = {"cache_prompt": True}
SAMPLED = (
    "llamacpp:requests_processing",
    "llamacpp:requests_deferred",
    "llamacpp:prompt_tokens_total",
    "llamacpp:tokens_predicted_total",
    "llamacpp:n_decode_total",
)
BUSY = SAMPLED[:2]


def body(model: str, prompt: list[int] | str, output: int, seed: int) -> dict[str, Any]:
    """The plain request, uncached, with a count on every event, for one may hold several tokens."""
    return openai.body(model, prompt, output, seed) | {"timings_per_token": True, "cache_prompt": False}


def tokenizing(model: str, text: str) -> dict[str, Any]:
    """What asks for the tokens of a text as it stands."""
    return {"content": text, "add_special": False}


async def facts(client: httpx.AsyncClient) -> tuple[str | None, dict[str, Any]]:
    found = await openai.answers(client, "/props", "/v1/models")
    return openai.stated(found, "/props", "build_info"), found


def busy_slots(slots: list[dict[str, Any]]) -> list[list[int]]:
    """[id, prompt tokens processed, prompt tokens cached, tokens decoded] of each slot at work, as whole numbers."""
    return [[int(value) for value in _counts(slot)] for slot in slots if slot["is_processing"]]


def _counts(slot: dict[str, Any]) -> list[Any]:
    return [slot["id"], slot["n_prompt_tokens_processed"], slot["n_prompt_tokens_cache"], _decoded(slot)]


def _decoded(slot: dict[str, Any]) -> int:
    """Tokens decoded so far; `next_token` is a list in newer versions, one object in older ones."""
    state = slot["next_token"]
    return (state[0] if isinstance(state, list) else state)["n_decoded"]
