"""SGLang's OpenAI server: a running total of tokens in the stream, counters when started with `--enable-metrics`.

Written from its public documentation; it has not yet met a real server.
"""

from __future__ import annotations

from typing import Any

import httpx

from genreport.engines import openai

KIND = "sglang"
FRESH_CONNECTIONS = False
READY = "/health"
METRICS: str | None = "/metrics"
SLOTS: str | None = None
TOKENIZE: str | None = "/tokenize"
SAMPLING: str | None = None
ASKED = openai.ASKED
KEEPING = openai.KEEPING
SAMPLED = (
    "sglang:num_running_reqs",
    "sglang:num_queue_reqs",
    "sglang:token_usage",
    "sglang:prompt_tokens_total",
    "sglang:generation_tokens_total",
)
BUSY = SAMPLED[:2]
# newer versions name it without the verb
_INFO = ("/server_info", "/get_server_info")
# what is kept of the server's settings; the whole holds its keys
_SETTINGS = (
    "version", "attention_backend", "chunked_prefill_size", "context_length", "disable_cuda_graph",
    "disable_radix_cache", "dp_size", "dtype", "incremental_streaming_output", "kv_cache_dtype", "max_prefill_tokens",
    "max_running_requests", "max_total_num_tokens", "mem_fraction_static", "page_size", "quantization", "schedule_policy",
    "speculative_algorithm", "tp_size",
)  # fmt: skip


def body(model: str, prompt: list[int] | str, output: int, seed: int) -> dict[str, Any]:
    """The plain request with the usage on every event, for one may hold several tokens."""
    plain = openai.body(model, prompt, output, seed)
    return plain | {"stream_options": {"include_usage": True, "continuous_usage_stats": True}}


def tokenizing(model: str, text: str) -> dict[str, Any]:
    """What asks for the tokens of a text as it stands."""
    return {"model": model, "prompt": text, "add_special_tokens": False}


async def facts(client: httpx.AsyncClient) -> tuple[str | None, dict[str, Any]]:
    found = await openai.answers(client, *_INFO, "/v1/models")
    known = {path: _settings(found[path]) for path in _INFO if isinstance(found.get(path), dict)}
    versions = (openai.stated(known, path, "version") for path in known)
    models = {path: answer for path, answer in found.items() if path not in _INFO}
    return next((version for version in versions if version), None), known | models


def _settings(info: dict[str, Any]) -> dict[str, Any]:
    kept = {key: info[key] for key in _SETTINGS if key in info}
    return {key: value for key, value in kept.items() if value is None or isinstance(value, str | int | float)}
