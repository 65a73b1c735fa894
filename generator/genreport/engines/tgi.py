"""Hugging Face's Text Generation Inference over its own `/generate_stream`: an event a token, counts at the end.

Written from its public documentation; it has not yet met a real server. It takes text, no token ids, and cannot be told
to go on after an end of sequence: an answer may be shorter than asked for, and its `details` say by how much.
"""

from __future__ import annotations

from typing import Any

import httpx

from genreport.engines import openai

KIND = "tgi"
FRESH_CONNECTIONS = False
READY = "/health"
METRICS: str | None = "/metrics"
SLOTS: str | None = None
TOKENIZE: str | None = "/tokenize"
# sampling parameters of a plan go below this key of the body
SAMPLING: str | None = "parameters"
ASKED: dict[str, Any] = {"do_sample": False}
KEEPING = openai.KEEPING
SAMPLED = ("tgi_batch_current_size", "tgi_queue_size")
BUSY = SAMPLED


def body(model: str, prompt: list[int] | str, output: int, seed: int) -> dict[str, Any]:
    """A greedy stream of at most `output` tokens; the server has one model, so it is not named."""
    asked = {"max_new_tokens": output, "seed": seed, "details": True, "return_full_text": False}
    return {"inputs": prompt, "parameters": ASKED | asked}


def tokenizing(model: str, text: str) -> dict[str, Any]:
    """What asks for the tokens of a text; a token that it adds to mark the beginning has no letters, and is not counted."""
    return {"inputs": text}


async def facts(client: httpx.AsyncClient) -> tuple[str | None, dict[str, Any]]:
    found = await openai.answers(client, "/info", "/v1/models")
    return openai.stated(found, "/info", "version"), found
