"""What an engine said of itself while it started: facts by meaning, each with the line that states it.

Wording differs between versions (`GPU KV cache size` on a CPU in vLLM 0.27, `CPU KV cache size` in 0.32, both figures
on one line or on two), so patterns look for the statement, not for the line. llama.cpp prints its memory lines twice, a
dry run with 0 MiB first: the last statement of a fact counts.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

GIB, MIB = 2**30, 2**20

# fact -> (pattern, scale to tokens, bytes, seconds), tried in order; `(?i)` where versions differ in case
STATEMENTS: dict[str, tuple[tuple[str, float], ...]] = {
    "pool_tokens": ((r"(?i)KV cache size:?\s+([\d,]+)\s+tokens", 1),),
    "max_model_len": (
        (r"(?i)maximum concurrency for ([\d,]+) tokens per request", 1),
        (r"\bn_ctx_slot\s*=\s*(\d+)", 1),
        (r"\bn_ctx_seq\s*=\s*(\d+)", 1),
    ),
    "announced_concurrency": ((r"(?i)maximum concurrency for [\d,]+ tokens per request:\s+([\d.,]+)x", 1),),
    "slots": ((r"\bn_slots\s*=\s*(\d+)", 1), (r"\bn_parallel\s*=\s*(\d+)", 1)),
    "context_tokens": ((r"llama_context:\s+n_ctx\s*=\s*(\d+)", 1),),
    "batch_tokens": (
        (r"llama_context:\s+n_batch\s*=\s*(\d+)", 1),
        (r"\bmax_num_batched_tokens['\"]?\s*[:=]\s*(\d+)", 1),
    ),
    "micro_batch_tokens": ((r"llama_context:\s+n_ubatch\s*=\s*(\d+)", 1),),
    "kv_bytes": (
        (r"(?i)available KV cache memory:?\s+([\d.]+) GiB", GIB),
        (r"(?i)set \(([\d.]+)/[\d.]+\) GiB for KV cache", GIB),
        (r"llama_kv_cache\w*:\s+size\s*=\s*([\d.]+) MiB", MIB),
        (r"KV buffer size\s*=\s*([\d.]+) MiB", MIB),
    ),
    "model_bytes": (
        (r"(?i)model loading took ([\d.]+) GiB", GIB),
        (r"(?i)checkpoint size:\s+([\d.]+) GiB", GIB),
        (r"model buffer size\s*=\s*([\d.]+) MiB", MIB),
        (r"print_info: file size\s*=\s*([\d.]+) MiB", MIB),
    ),
    "compute_bytes": ((r"compute buffer size\s*=\s*([\d.]+) MiB", MIB),),
    "graph_bytes": ((r"(?i)graph capturing finished in .*?took ([\d.]+) GiB", GIB),),
    "engine_start_s": ((r"(?i)init engine .*?took ([\d.]+) s", 1),),
    "unified": ((r"\bkv_unified\s*=\s*'?(true|false)", 1),),
}


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement: `value` = first group of `pattern` on `line` (from 1) × `scale`; `unified` is 1 or 0."""

    name: str
    value: float
    line: int
    pattern: str
    scale: float = 1


def facts(log: str) -> list[Fact]:
    """The last statement of each fact, in the order of `STATEMENTS`; what a log does not say is not in the list."""
    lines = log.split("\n")
    found = (_fact(name, patterns, lines) for name, patterns in STATEMENTS.items())
    return [fact for fact in found if fact is not None]


def _fact(name: str, patterns: tuple[tuple[str, float], ...], lines: list[str]) -> Fact | None:
    for pattern, scale in patterns:
        search = re.compile(pattern).search
        hits = [(k, match[1]) for k, line in enumerate(lines, 1) if (match := search(line[:4000]))]
        stated = [(k, value) for k, group in hits if (value := _number(group)) is not None]
        # a zero is the dry run's, and no statement
        telling = [hit for hit in stated if hit[1] or name == "unified"]
        if telling:
            line, value = telling[-1]
            return Fact(name, value * scale, line, pattern, scale)
    return None


def _number(group: str) -> float | None:
    if group in ("true", "false"):
        return float(group == "true")
    try:
        return float(group.replace(",", ""))
    except ValueError:  # "1.2.3" or "," in a hostile line
        return None
