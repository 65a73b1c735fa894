"""What an engine's counters and log say of a cliff: preemptions, tokens computed twice, and the parts of the wait."""

from __future__ import annotations

import re

from genreport.figures import capacity
from genreport.figures.book import Absent, Book
from genreport.figures.layout import LevelView
from genreport.provenance import Line, Lines
from genreport.rounds import BEFORE, ENGINE_LOG, Level
from genreport.words import say

_STEP = r"Iteration\(\d+\): \d+ context requests, "
LOGGED = {
    "log_context_tokens": (rf"{_STEP}(\d+) context tokens", "tokens"),
    "log_generation_requests": (rf"{_STEP}\d+ context tokens, (\d+) generation requests", "count"),
    "log_generation_tokens": (
        rf"{_STEP}\d+ context tokens, \d+ generation requests, (\d+) generation tokens",
        "tokens",
    ),
}
BLOCK = r'^vllm:cache_config_info\{(?:.*?,)?block_size="(\d+)"'
WHOLE_BLOCKS = "(pool / block - 1) // -(-(input + output) // block)"


def enter(book: Book, level: LevelView, kind: str, pool: str) -> None:
    """Counts of one level of a cliff test; `pool` is the id of the engine's pool in tokens."""
    _preemptions(book, level.id)
    _computed_twice(book, level, kind)
    _blocks(book, level, kind, pool)
    _wait(book, level.id)


# ------------------------------------------------------------------------------------- preemptions


def _preemptions(book: Book, id: str) -> None:
    share, counts = f"{id}.cliff.preemption_share", {"tokens": f"{id}.output_tokens", "requests": f"{id}.completed"}
    book.derive(share, "share", "preemptions / (tokens - requests)", capacity.preemption_share,
                preemptions=f"{id}.preemptions", **counts)  # fmt: skip
    book.derive(f"{id}.cliff.percentile", "share", "1 - share", lambda share: 1 - share, share=share)
    book.derive(f"{id}.cliff.gaps_per_preemption", "1", "(tokens - requests) / preemptions", _gaps_per_preemption,
                preemptions=f"{id}.preemptions", **counts)  # fmt: skip
    # every sequence of the batch waits while one is computed again, at most as many as ever ran at once
    book.derive(f"{id}.cliff.touched_share", "share", "share * most", lambda share, most: share * most,
                share=share, most=f"{id}.running.max")  # fmt: skip
    book.derive(f"{id}.cliff.preemptions_each", "1", "preemptions / requests", lambda preemptions, requests: (
        preemptions / requests), preemptions=f"{id}.preemptions", requests=f"{id}.completed")  # fmt: skip
    book.derive(f"{id}.cliff.longest_itl", "s", "ecdf[-1]", lambda ecdf: ecdf[-1], n=book[f"{id}.itl_ecdf"].n,
                ecdf=f"{id}.itl_ecdf")  # fmt: skip


def _gaps_per_preemption(preemptions: float, tokens: float, requests: float) -> float:
    if not preemptions:
        raise Absent(say("missing.no_preemption"))
    return (tokens - requests) / preemptions


# ------------------------------------------------------------------------------------- computed twice


def _computed_twice(book: Book, level: LevelView, kind: str) -> None:
    """Prefill computed beyond the prompts asked, by each way there is to count it."""
    id = level.id
    if kind == "vllm":
        _by_log(book, level)
        _again(book, id, "counter", f"{id}.prefill_computed")
        book.derive(f"{id}.cliff.recomputed_by_iterations", "tokens", "tokens - prompt - output", _beyond,
                    tokens=f"{id}.iteration_tokens", prompt=f"{id}.prompt_tokens", output=f"{id}.output_tokens",
                    failed=f"{id}.failed")  # fmt: skip
    else:
        for way in ("log", "iterations"):
            why = "missing.llamacpp_preempts_nothing" if kind == "llamacpp" else "missing.unknown_kind"
            book.missing(f"{id}.cliff.recomputed_by_{way}", "tokens", "computed - asked", say(why))
        if kind == "llamacpp":
            _again(book, id, "counter", f"{id}.engine_prompt_tokens")
        else:
            book.missing(f"{id}.cliff.recomputed_by_counter", "tokens", "computed - asked", say("missing.unknown_kind"))
    book.derive(f"{id}.cliff.recomputed_share", "share", "again / asked", lambda again, asked: again / asked,
                again=f"{id}.cliff.recomputed_by_log", asked=f"{id}.prompt_tokens")  # fmt: skip


def _by_log(book: Book, level: LevelView) -> None:
    for repeat in level.repeats:
        _logged(book, f"{level.repeat_id(repeat)}.cliff", repeat)
    id = f"{level.id}.cliff"
    for name, (_, unit) in LOGGED.items():
        book.derive(f"{id}.{name}", unit, "sum(repeats)", lambda repeats: repeats.sum(),
                    repeats=level.ids(f"cliff.{name}"))  # fmt: skip
    # a sequence that returns is logged as a generation request with all its tokens: one of them is its next step
    book.derive(f"{id}.prefill_by_log", "tokens", "context + generated - steps", lambda context, generated, steps: (
        context + generated - steps), context=f"{id}.log_context_tokens", generated=f"{id}.log_generation_tokens",
                steps=f"{id}.log_generation_requests")  # fmt: skip
    _again(book, level.id, "log", f"{id}.prefill_by_log")


def _logged(book: Book, scope: str, repeat: Level) -> None:
    file = repeat.file(ENGINE_LOG)
    lines = book.lines(file)
    for name, (pattern, unit) in LOGGED.items():
        search = re.compile(pattern).search
        found = [(k, float(match[1])) for k, line in enumerate(lines, 1) if (match := search(line))]
        if file is None or not found:
            why = say("missing.no_iteration_lines" if file else "missing.no_log")
            book.missing(f"{scope}.{name}", unit, "sum(matches)", why)
            continue
        source = Lines(file, found[0][0], found[-1][0], pattern, len(found))
        book.enter(f"{scope}.{name}", sum(v for _, v in found), unit, "sum(matches)", source, n=len(found))


def _again(book: Book, id: str, way: str, computed: str) -> None:
    book.derive(f"{id}.cliff.recomputed_by_{way}", "tokens", "computed - asked", _recomputed, computed=computed,
                asked=f"{id}.prompt_tokens", failed=f"{id}.failed")  # fmt: skip


def _recomputed(computed: float, asked: float, failed: float) -> float:
    if failed:
        raise Absent(say("missing.failed_prompts"))
    return computed - asked


def _beyond(tokens: float, prompt: float, output: float, failed: float) -> float:
    return _recomputed(tokens, prompt + output, failed)


# ------------------------------------------------------------------------------------- blocks


def _blocks(book: Book, level: LevelView, kind: str, pool: str) -> None:
    """How many sequences fit at full length in whole blocks; vLLM keeps one block of the pool for itself."""
    id, file = f"{level.id}.cliff", level.repeats[0].file(BEFORE) if kind == "vllm" else None
    lines = book.lines(file)
    found = [(k, match) for k, line in enumerate(lines, 1) if (match := re.search(BLOCK, line))]
    if file is not None and found:
        line, match = found[0]
        book.enter(f"{id}.block_tokens", float(match[1]), "tokens", "number(line)", Line(file, line, BLOCK))
    else:
        book.missing(f"{id}.block_tokens", "tokens", "number(line)", say("missing.no_block_size"))
    book.derive(f"{id}.max_num_seqs_in_blocks", "count", WHOLE_BLOCKS, in_blocks, pool=pool,
                block=f"{id}.block_tokens", input=f"{level.id}.input", output=f"{level.id}.output")  # fmt: skip


def in_blocks(pool: float, block: float, input: float, output: float) -> float:
    """Sequences that whole blocks hold at full length, one block left out."""
    return (pool / block - 1) // -(-(input + output) // block)


# ------------------------------------------------------------------------------------- the wait


def _wait(book: Book, id: str) -> None:
    """What of the mean TTFT is queue, and what faster prefill would save; the parts are `anatomy`'s."""
    book.derive(f"{id}.cliff.queue_share", "share", "queue / ttft", lambda queue, ttft: queue / ttft,
                queue=f"{id}.queue.mean", ttft=f"{id}.ttft.mean")  # fmt: skip
    book.derive(
        f"{id}.cliff.prefill_half", "s", "prefill / 2", lambda prefill: prefill / 2, prefill=f"{id}.prefill.mean"
    )
