"""SGLang over its own `/generate`: text, counts and the reason to finish in one object, with each event of the stream.

Written from its public documentation; it has not yet met a real server. Unless the server was started with
`--incremental-streaming-output` every event holds the whole text so far, so that an answer's bytes grow with the square
of its length.
"""

from __future__ import annotations

from typing import Any

from genreport.engines.sglang import (  # noqa: F401 (the rest is as for its OpenAI stream)
    BUSY,
    FRESH_CONNECTIONS,
    KEEPING,
    KIND,
    METRICS,
    READY,
    SAMPLED,
    SLOTS,
    TOKENIZE,
    facts,
    tokenizing,
)

SAMPLING: str | None = "sampling_params"
ASKED: dict[str, Any] = {"temperature": 0, "ignore_eos": True}


def body(model: str, prompt: list[int] | str, output: int, seed: int) -> dict[str, Any]:
    """A greedy stream of exactly `output` tokens; the server has one model, and no seed is documented for it."""
    given = {"text": prompt} if isinstance(prompt, str) else {"input_ids": prompt}
    return given | {"sampling_params": ASKED | {"max_new_tokens": output}, "stream": True}
