"""What an engine said of itself while it started: facts by meaning, each with the line that states it.

Wording differs between versions (`GPU KV cache size` on a CPU in vLLM 0.27, `CPU KV cache size` in 0.32, both figures
on one line or on two), so patterns look for the statement, not for the line. llama.cpp prints its memory lines twice, a
dry run with 0 MiB first: the last statement of a fact counts. Where each rank or each device speaks for itself, each
statement is a fact of its own: `each`, and `memory`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

GIB, MIB = 2**30, 2**20
# characters of a line that are read
LINE = 4000
PARTS = ("weights", "kv", "compute", "graphs", "other")
CARD, HOST = "card", "host"

_OF_CONTEXT = "llama_(?:context|new_context_with_model|init_from_model):"
# fact -> (pattern, scale to tokens, bytes, seconds), tried in order; `(?i)` where versions differ in case
STATEMENTS: dict[str, tuple[tuple[str, float], ...]] = {
    "max_model_len": (
        (r"(?i)maximum concurrency for ([\d,]+) tokens per request", 1),
        (r"\bn_ctx_slot\s*=\s*(\d+)", 1),
        (r"\bn_ctx_(?:per_)?seq\s*=\s*(\d+)", 1),
    ),
    "slots": (
        (r"\bn_slots\s*=\s*(\d+)", 1),
        (r"\bn_parallel\s*=\s*(\d+)", 1),
        (r"\bmax_num_seqs['\"]?\s*[:=]\s*(\d+)", 1),
    ),
    "context_tokens": ((rf"{_OF_CONTEXT}\s+n_ctx\s*=\s*(\d+)", 1),),
    "batch_tokens": (
        (rf"{_OF_CONTEXT}\s+n_batch\s*=\s*(\d+)", 1),
        (r"\bmax_num_batched_tokens['\"]?\s*[:=]\s*(\d+)", 1),
    ),
    "micro_batch_tokens": ((rf"{_OF_CONTEXT}\s+n_ubatch\s*=\s*(\d+)", 1),),
    "block_size": ((r"(?<![a-z_])block_size['\"]?\s*[:=]\s*(\d+)", 1),),
    "engine_start_s": ((r"(?i)init engine .*?took ([\d.]+) s", 1),),
    "unified": ((r"\bkv_unified\s*=\s*'?(true|false)", 1),),
    "tensor_parallel": ((r"\btensor_parallel_size=(\d+)", 1),),
    "pipeline_parallel": ((r"\bpipeline_parallel_size=(\d+)", 1),),
    "data_parallel": ((r"\bdata_parallel_size=(\d+)", 1),),
}

# what the core of each engine of a server states: one of them as a rule, several with data parallelism
SPOKEN: dict[str, str] = {
    "pool_tokens": r"(?i)KV cache size:?\s+([\d,]+)\s+tokens",
    "announced_concurrency": r"(?i)maximum concurrency for [\d,]+ tokens per request:\s+([\d.,]+)x",
    "gpu_blocks": r"# (?!CPU)\w+ blocks:\s*([\d,]+)",
}
_AVAILABLE = r"(?i)available KV cache memory:?\s+(-?[\d.]+) GiB"
# a block override that the plan asks for, under which the pool is not what memory allows; vLLM's own while it profiles graphs
# is none
OVERRIDE = r"(?<!num_gpu_blocks=0 with )num_gpu_blocks_override['\"]?\s*[:=]\s*\d"

# part of the memory -> wordings of vLLM, the first that a log uses counts; a rank states its own share
VLLM: dict[str, tuple[tuple[str, float], ...]] = {
    "weights": (
        (r"(?i)model (?:loading|weights) took ([\d.]+) Gi?B", GIB),  # GB in old versions, which divided by 2**30 too
        (r"(?i)model weights take ([\d.]+)\s*GiB", GIB),
        (r"(?i)([\d.]+) GiB for weights?\b", GIB),
        (r"(?i)checkpoint size:\s+([\d.]+) GiB", GIB),
    ),
    "kv": (
        (_AVAILABLE, GIB),
        (r"(?i)current kv cache memory(?: in use)?(?: is|:)\s+([\d.]+) GiB", GIB),
        (r"(?i)reserved ([\d.]+) GiB memory for KV cache", GIB),
        (r"(?i)reserved for KV cache is ([\d.]+)\s*GiB", GIB),
        (r"(?i)set \(([\d.]+)/[\d.]+\) GiB for KV cache", GIB),
    ),
    "compute": (
        (r"(?i)([\d.]+) GiB for peak activation", GIB),
        (r"(?i)activation peak memory takes ([\d.]+)\s*GiB", GIB),
        (r"(?i)torch peak memory increase:\s*([\d.]+)\s*GiB", GIB),
    ),
    "graphs": (
        (r"(?i)graph capturing finished in .*?took (-?[\d.]+) GiB", GIB),
        (r"(?i)graph pool memory:\s+([\d.]+) GiB", GIB),
        (r"(?i)([\d.]+) GiB for \w+ ?graph memory", GIB),
    ),
    "other": (
        (r"(?i)(-?[\d.]+) GiB for non-torch memory", GIB),
        (r"(?i)non_torch_memory takes (-?[\d.]+)\s*GiB", GIB),
        (r"(?i)non-torch forward increase memory:\s*(-?[\d.]+)\s*GiB", GIB),
    ),
    # weights and what is outside PyTorch together, where a version states no more
    "consumed": ((r"(?i)([\d.]+) GiB for consumed memory", GIB),),
}
# what one process says of the whole model, whoever else loads a part of it
WHOLE = re.compile("(?i)checkpoint size")

LLAMA: dict[str, tuple[str, ...]] = {
    "weights": (r"model buffer size\s*=\s*([\d.]+) MiB", r"llm_load_tensors:\s+\S+\s+buffer size\s*=\s*([\d.]+) MiB"),
    "kv": (r"\b(?:KV|RS) buffer size\s*=\s*([\d.]+) MiB",),
    "compute": (r"compute buffer size\s*=\s*([\d.]+) MiB",),
    "other": (r"output buffer size\s*=\s*([\d.]+) MiB",),
}
# sums that llama.cpp prints, for logs that have no line a device
LLAMA_SUMS: dict[str, tuple[str, ...]] = {
    "weights": (r"print_info: file size\s*=\s*([\d.]+) MiB",),
    "kv": (r"llama_kv_cache\w*:\s+size\s*=\s*([\d.]+) MiB", r"KV self size\s*=\s*([\d.]+) MiB"),
}
# stated again when a context is set up anew: the last statement of a device counts
_AGAIN = {"compute", "other"}
_DEVICE = re.compile(r"(\S+)\s+(?:(?:model|KV|RS|compute|output)\s+)?buffer size")
_ON_HOST = re.compile(r"(?:CPU|AMX|BLAS|Host)|\w+_Host$")
_MODEL, _CONTEXT = (
    "loaded meta data with",
    re.compile(r"constructing llama_context|llama_(?:new_context_with_model|init_from_model): n_ctx\s"),
)
_DRY = re.compile(r"no_alloc\s*=\s*1\b")
_SPEAKER = re.compile(r"(?:\x1b\[[\d;]*m)*\(([A-Za-z][^()]{0,80})\)")


@dataclass(frozen=True, slots=True)
class Fact:
    """One statement: `value` = first group of `pattern` on `line` (from 1) × `scale`; `unified` is 1 or 0.

    `who` = the rank or the device that it is of, a name in letters and digits; `place` = `CARD`, `HOST`, or empty for what
    is no memory; `whole` = it speaks for all ranks.
    """

    name: str
    value: float
    line: int
    pattern: str
    scale: float = 1
    who: str = ""
    place: str = ""
    whole: bool = False


def facts(log: str) -> list[Fact]:
    """The last statement of each fact, in the order of `STATEMENTS`; what a log does not say is not in the list."""
    lines = log.split("\n")
    found = (_fact(name, patterns, lines) for name, patterns in STATEMENTS.items())
    return [fact for fact in found if fact is not None]


def each(log: str) -> dict[str, list[Fact]]:
    """The facts of `SPOKEN`, by name a statement of each engine of a server that makes one.

    An engine with several ranks may state its pool once a rank and uses the smallest. What it states before it knows how
    much memory there is, while it profiles, does not count.
    """
    lines = log.split("\n")
    since = max((hit.line for hit in _hits("", _AVAILABLE, 1, lines)), default=0)
    return {name: _spoken(name, pattern, lines, since) for name, pattern in SPOKEN.items()}


def memory(log: str, kind: str) -> list[Fact]:
    """What a log says of memory, by part (`PARTS`, and `consumed`), a fact each device or rank; `who` is unique in a part."""
    lines = log.split("\n")
    found = _memory_of_llama(lines) if kind == "llamacpp" else _memory_of_vllm(lines)
    return _distinct(found)


def _fact(name: str, patterns: tuple[tuple[str, float], ...], lines: list[str]) -> Fact | None:
    for pattern, scale in patterns:
        # a zero is the dry run's, and no statement
        telling = [hit for hit in _hits(name, pattern, scale, lines) if hit.value or name == "unified"]
        if telling:
            return telling[-1]
    return None


def _hits(name: str, pattern: str, scale: float, lines: Sequence[str]) -> Iterator[Fact]:
    """Every line that states it; a number that the limit might cut is none."""
    search = re.compile(pattern).search
    for k, line in enumerate(lines, 1):
        match = search(line, 0, LINE)
        if match and match.end(1) < LINE and (value := _number(match[1])) is not None:
            yield Fact(name, value * scale, k, pattern, scale)


def _number(group: str) -> float | None:
    if group in ("true", "false"):
        return float(group == "true")
    try:
        return float(group.replace(",", ""))
    except ValueError:  # "1.2.3" or "," in a hostile line
        return None


# ------------------------------------------------------------------------------------- vLLM


def _spoken(name: str, pattern: str, lines: list[str], since: int) -> list[Fact]:
    hits = [hit for hit in _hits(name, pattern, 1, lines) if hit.value]
    hits = [hit for hit in hits if hit.line > since] or hits
    found: dict[str, Fact] = {}
    for hit in hits:
        who = _speaker(lines[hit.line - 1])
        if who not in found or hit.value <= found[who].value:
            found[who] = hit
    return _distinct([replace(fact, who=who) for who, fact in found.items()])


def _memory_of_vllm(lines: list[str]) -> list[Fact]:
    place = HOST if any("device_config=cpu" in line[:LINE] for line in lines) else CARD
    return [
        replace(fact, who=who, place=place, whole=bool(WHOLE.search(fact.pattern)))
        for part, wordings in VLLM.items()
        for who, fact in _last_of_each(part, wordings, lines).items()
    ]


def _last_of_each(part: str, wordings: tuple[tuple[str, float], ...], lines: list[str]) -> dict[str, Fact]:
    """The last statement of each rank, in the first wording that the log uses; one that speaks for all, once."""
    for pattern, scale in wordings:
        whole = WHOLE.search(pattern)
        found = {"" if whole else _speaker(lines[hit.line - 1]): hit for hit in _hits(part, pattern, scale, lines)}
        if found:
            return found
    return {}


def _speaker(line: str) -> str:
    """Which of a server's processes logged the line, as vLLM and Ray put it before it: `Worker_TP0 pid=77`."""
    found = _SPEAKER.match(line)
    return found[1] if found else ""


# ------------------------------------------------------------------------------------- llama.cpp


def _memory_of_llama(lines: list[str]) -> list[Fact]:
    """The buffers of each device, those of a dry run left out, else the sums; a draft model's count too."""
    sections, buffers = list(_sections(lines)), list(_buffers(lines))
    dry = _dry(lines, sections, buffers)
    kept: dict[object, Fact] = {}
    for fact in buffers:
        section, context = sections[fact.line - 1]
        if section not in dry and fact.value:
            kept[(context, fact.name, fact.who) if fact.name in _AGAIN else fact.line] = fact
    stated = {fact.name for fact in kept.values()}
    sums = [_fact(part, tuple((p, MIB) for p in ps), lines) for part, ps in LLAMA_SUMS.items() if part not in stated]
    place = CARD if any(fact.place == CARD for fact in kept.values()) else HOST
    return [*kept.values(), *(replace(fact, place=place, whole=True) for fact in sums if fact)]


def _sections(lines: list[str]) -> Iterator[tuple[int, int]]:
    """For each line, how many models were loaded and how many contexts set up by then."""
    models = contexts = 0
    for line in lines:
        models += _MODEL in line
        contexts += bool(_CONTEXT.search(line, 0, LINE))
        yield models, contexts


def _buffers(lines: list[str]) -> Iterator[Fact]:
    for part, patterns in LLAMA.items():
        for pattern in patterns:
            for hit in _hits(part, pattern, MIB, lines):
                device = _DEVICE.search(lines[hit.line - 1], 0, LINE)
                who = device[1] if device else ""
                yield replace(hit, who=who, place=HOST if _ON_HOST.match(who) else CARD)


def _dry(lines: list[str], sections: list[tuple[int, int]], buffers: list[Fact]) -> set[int]:
    """Loads that only measured: they say so, or all their weights take nothing."""
    said = {sections[k][0] for k, line in enumerate(lines) if _DRY.search(line, 0, LINE)}
    weights: dict[int, float] = {}
    for fact in buffers:
        if fact.name == "weights":
            section = sections[fact.line - 1][0]
            weights[section] = weights.get(section, 0) + fact.value
    return said | {section for section, size in weights.items() if not size}


# ------------------------------------------------------------------------------------- names


def _distinct(found: Sequence[Fact]) -> list[Fact]:
    """Each fact with a name of letters and digits that no other of its part has: `Worker_TP0`, `CUDA0`, `CUDA0-2`."""
    taken: set[tuple[str, str, str]] = set()
    named = []
    for fact in found:
        own = name = _label(fact)
        times = 1
        while (fact.name, fact.place, name) in taken:
            times += 1
            name = f"{own}-{times}"
        taken.add((fact.name, fact.place, name))
        named.append(replace(fact, who=name))
    return named


def _label(fact: Fact) -> str:
    name = re.sub(r",? *\b(?:pid|ip)=\S*", "", fact.who)
    return re.sub(r"[^A-Za-z0-9_+-]+", "-", name).strip("-")[:40] or ("all" if fact.whole else "engine")
