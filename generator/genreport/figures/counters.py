"""The engine seen from its own counters: deltas between the two scrapes around a repeat, each with its lines."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from genreport.figures.book import Absent, Book
from genreport.figures.layout import LevelView
from genreport.provenance import Line, Lines, Source
from genreport.rounds import AFTER, BEFORE, Level
from genreport.words import say

# how the name of a file of chats ends
CHATS = ".jsonl"
# figure -> the counter's names, newest first
VLLM: dict[str, tuple[str, ...]] = {
    "preemptions": ("vllm:num_preemptions_total", "vllm:num_preemptions"),
    "prefix_hits": ("vllm:prefix_cache_hits_total", "vllm:gpu_prefix_cache_hits_total"),
    "prefix_queries": ("vllm:prefix_cache_queries_total", "vllm:gpu_prefix_cache_queries_total"),
    "iteration_tokens": ("vllm:iteration_tokens_total_sum",),
    "iterations": ("vllm:iteration_tokens_total_count",),
    "counted_read_bytes": ("vllm:estimated_read_bytes_per_gpu_total",),
    "counted_flops": ("vllm:estimated_flops_per_gpu_total",),
    "engine_requests": ("vllm:request_success_total",),
    "engine_prompt_tokens": ("vllm:prompt_tokens_total",),
    "engine_generation_tokens": ("vllm:generation_tokens_total",),
    # sums and counts of the histograms of a request's phases (see `anatomy`)
    "queue_time": ("vllm:request_queue_time_seconds_sum",),
    "queue_requests": ("vllm:request_queue_time_seconds_count",),
    "prefill_time": ("vllm:request_prefill_time_seconds_sum",),
    "prefill_requests": ("vllm:request_prefill_time_seconds_count",),
    "decode_time": ("vllm:request_decode_time_seconds_sum",),
    "decode_requests": ("vllm:request_decode_time_seconds_count",),
    "prefill_computed": ("vllm:request_prefill_kv_computed_tokens_sum",),
}
LLAMACPP: dict[str, tuple[str, ...]] = {
    "prompt_computed": ("llamacpp:prompt_tokens_total",),
    "prompt_cached": ("llamacpp:prompt_tokens_cached_total",),
    "engine_generation_tokens": ("llamacpp:tokens_predicted_total",),
    "iterations": ("llamacpp:n_decode_total",),
    "busy_slots": ("llamacpp:n_busy_slots_per_decode",),
}
# only what is known to mean the same; tokens of SGLang's cache are counted by source, so their sum is not known to be
SGLANG: dict[str, tuple[str, ...]] = {
    "engine_requests": ("sglang:num_requests_total",),
    "engine_prompt_tokens": ("sglang:prompt_tokens_total",),
    "engine_generation_tokens": ("sglang:generation_tokens_total",),
    "queue_time": ("sglang:queue_time_seconds_sum",),
    "queue_requests": ("sglang:queue_time_seconds_count",),
}
TGI: dict[str, tuple[str, ...]] = {
    "engine_requests": ("tgi_request_success",),
    "engine_prompt_tokens": ("tgi_request_input_length_sum",),
    "engine_generation_tokens": ("tgi_request_generated_tokens_sum",),
    "queue_time": ("tgi_request_queue_duration_sum",),
    "queue_requests": ("tgi_request_queue_duration_count",),
}
COUNTERS = {"vllm": VLLM, "llamacpp": LLAMACPP, "sglang": SGLANG, "tgi": TGI, "ollama": {}, "openai": {}}
UNITS = {
    "counted_read_bytes": "bytes",
    "counted_flops": "FLOP",
    "prefix_hits": "tokens",
    "prefix_queries": "tokens",
    "iteration_tokens": "tokens",
    "engine_prompt_tokens": "tokens",
    "engine_generation_tokens": "tokens",
    "prompt_computed": "tokens",
    "prompt_cached": "tokens",
    "prefill_computed": "tokens",
    "queue_time": "s",
    "prefill_time": "s",
    "decode_time": "s",
}
# gauges that no delta is taken of as they stand
AVERAGES = {"busy_slots"}


@dataclass(frozen=True)
class Reading:
    """Value of one counter in one scrape, summed over its label sets, and the lines it stands on."""

    value: float
    source: Source


def reading(scrape: Sequence[str], file: str, names: tuple[str, ...]) -> Reading | None:
    """The first of the names that the scrape has; `None` where it has none."""
    for name in names:
        pattern = rf"^{re.escape(name)}(?:\{{.*\}})?\s+(\S+)"
        search = re.compile(pattern).search
        lines = ((k, line) for k, line in enumerate(scrape, 1) if line.startswith(name))
        found = [(k, match[1]) for k, line in lines if (match := search(line))]
        if found:
            return _reading(file, pattern, found)
    return None


def _reading(file: str, pattern: str, found: list[tuple[int, str]]) -> Reading | None:
    try:
        value = sum(float(number) for _, number in found)
    except ValueError:
        return None
    lines = [line for line, _ in found]
    if len(lines) == 1:
        return Reading(value, Line(file, lines[0], pattern))
    return Reading(value, Lines(file, lines[0], lines[-1], pattern, len(lines)))


def enter(book: Book, level: LevelView, kind: str) -> None:
    """Counter deltas of every repeat, and of the level as their sum."""
    known = COUNTERS[kind]
    for scope, files, _ in level.each():
        _repeat(book, scope, files, known)
    for figure in known:
        unit = UNITS.get(figure, "count")
        book.derive(f"{level.id}.{figure}", unit, "sum(repeats)", lambda repeats: repeats.sum(),
                    repeats=level.ids(figure))  # fmt: skip
    _shares(book, level.id, kind)
    _checks(book, level, kind)


def _repeat(book: Book, scope: str, files: Level, known: dict[str, tuple[str, ...]]) -> None:
    scrapes = {moment: files.file(name) for moment, name in (("before", BEFORE), ("after", AFTER))}
    for figure, names in known.items():
        unit = UNITS.get(figure, "count")
        for moment, file in scrapes.items():
            _moment(book, f"{scope}.{figure}.{moment}", unit, file, names)
        if figure not in AVERAGES:
            book.derive(f"{scope}.{figure}", unit, "after - before", _delta,
                        after=f"{scope}.{figure}.after", before=f"{scope}.{figure}.before")  # fmt: skip
    if "busy_slots" in known:
        # the gauge is an average since the start: times its decodes it is a sum, and sums have differences
        book.derive(f"{scope}.busy_slots", "count", "after * decodes_after - before * decodes_before",
                    lambda after, before, decodes_after, decodes_before: _delta(
                        after * decodes_after, before * decodes_before),
                    after=f"{scope}.busy_slots.after", before=f"{scope}.busy_slots.before",
                    decodes_after=f"{scope}.iterations.after", decodes_before=f"{scope}.iterations.before")  # fmt: skip


def _moment(book: Book, id: str, unit: str, file: str | None, names: tuple[str, ...]) -> None:
    scrape = book.lines(file)
    found = reading(scrape, file, names) if scrape else None
    formula = "sum(matches)" if found and isinstance(found.source, Lines) else "number(line)"
    if found is None:
        why = say("missing.no_counter", name=names[0]) if scrape else say("missing.no_scrape")
        book.missing(id, unit, formula, why)
    else:
        book.enter(id, found.value, unit, formula, found.source)


def _delta(after: float, before: float) -> float:
    if after < before:
        raise Absent(say("missing.counter_fell"))
    return after - before


def _shares(book: Book, scope: str, kind: str) -> None:
    """Prefix cache hits and tokens per iteration, from whichever counters the kind has."""
    if kind == "vllm":
        book.derive(f"{scope}.prefix_hit_share", "share", "hits / queries", hit_share,
                    hits=f"{scope}.prefix_hits", queries=f"{scope}.prefix_queries")  # fmt: skip
        book.derive(f"{scope}.tokens_per_iteration", "tokens", "tokens / iterations",
                    lambda tokens, iterations: tokens / iterations,
                    tokens=f"{scope}.iteration_tokens", iterations=f"{scope}.iterations")  # fmt: skip
    elif kind == "llamacpp":
        book.derive(f"{scope}.prefix_hit_share", "share", "cached / (computed + cached)",
                    lambda cached, computed: _share_of(cached, computed + cached, "missing.no_prompt_counted"),
                    cached=f"{scope}.prompt_cached", computed=f"{scope}.prompt_computed")  # fmt: skip
        book.derive(f"{scope}.tokens_per_iteration", "tokens", "slots / iterations",
                    lambda slots, iterations: slots / iterations, notes=("busy_slots_per_decode",),
                    slots=f"{scope}.busy_slots", iterations=f"{scope}.iterations")  # fmt: skip
        book.missing(f"{scope}.preemptions", "count", "sum(repeats)", say("missing.llamacpp_no_counter"))
    else:
        for name, unit in (("prefix_hit_share", "share"), ("tokens_per_iteration", "tokens"), ("preemptions", "count")):
            why = "missing.no_such_counter" if COUNTERS[kind] else "missing.unknown_kind"
            book.missing(f"{scope}.{name}", unit, "after - before", say(why))


def hit_share(hits: float, queries: float) -> float:
    """Prompt tokens found in the prefix cache, of those looked up."""
    return _share_of(hits, queries, "missing.no_queries")


def _share_of(part: float, whole: float, none: str) -> float:
    if not whole:
        raise Absent(say(none))
    return part / whole


def _checks(book: Book, level: LevelView, kind: str) -> None:
    """The engine's totals held against the client's, and what every record says of itself; 0 = they agree."""
    id = level.id
    if kind == "llamacpp":
        book.missing(f"{id}.engine_requests", "count", "sum(repeats)", say("missing.llamacpp_no_requests"))
        book.derive(
            f"{id}.engine_prompt_tokens",
            "tokens",
            "computed + cached",
            lambda computed, cached: computed + cached,
            computed=f"{id}.prompt_computed",
            cached=f"{id}.prompt_cached",
        )
    for name, client in (("engine_requests", "completed"), ("engine_prompt_tokens", "prompt_tokens"),
                         ("engine_generation_tokens", "output_tokens")):  # fmt: skip
        if f"{id}.{name}" in book.ledger:
            book.derive(f"{id}.check.{name}", "count", "engine - client", lambda engine, client: engine - client,
                        engine=f"{id}.{name}", client=f"{id}.{client}")  # fmt: skip
        else:
            book.missing(f"{id}.check.{name}", "count", "engine - client", say("missing.unknown_kind"))
    book.derive(f"{id}.check.stamps", "count", "unsound", lambda unsound: unsound, unsound=f"{id}.unsound")
    _row_checks(book, level)


def _row_checks(book: Book, level: LevelView) -> None:
    rows = level.measured
    frame, some = rows.rows, len(rows) > 0
    counted = some and frame["counted"].all() and not frame["n"].isna().any()
    differ = frame["n"].to_numpy(dtype=float) != rows.event_tokens if counted else None
    reason = say("missing.no_event_counts" if some else "missing.none_completed")
    _differences(book, f"{level.id}.check.tokens_sum", "sum(tokens_differ)", level, differ, reason)
    known = some and not frame["prompt_n"].isna().any() and not _of_words(level)
    differ = (frame["prompt_n"] != frame["asked_input"]).to_numpy() if known else None
    unknown = "missing.prompt_of_words" if _of_words(level) else "missing.no_prompt_counts"
    reason = say(unknown if some else "missing.none_completed")
    _differences(book, f"{level.id}.check.prompt_tokens", "sum(prompt_differs)", level, differ, reason)
    _server_checks(book, level)


def _of_words(level: LevelView) -> bool:
    """Whether prompts hold a number of tokens that nobody asked for: what a chat template makes of texts."""
    facts = level.repeats[0].facts
    return (
        facts.kind == "conversation" or facts.chat or (facts.prompts is not None and facts.prompts.name.endswith(CHATS))
    )


def _server_checks(book: Book, level: LevelView) -> None:
    """Requests whose server counts other tokens, or claims more time than the client saw pass (1 ms allowed)."""
    frame = level.measured.rows
    n, e2e = frame["server_n"].to_numpy(float), frame["server_e2e_s"].to_numpy(float)
    later = e2e > level.measured.e2el_s.values + 0.001 if len(frame) else e2e
    for name, formula, known, differ in (
        ("server_tokens", "sum(server_n_differs)", ~np.isnan(n), n != frame["n"].to_numpy(float)),
        ("server_time", "sum(server_e2e_later)", ~np.isnan(e2e), later),
    ):
        found = differ & known if known.any() else None
        _differences(book, f"{level.id}.check.{name}", formula, level, found, say("missing.states_none"))


def _differences(book: Book, id: str, formula: str, level: LevelView, differ, reason: str) -> None:
    if differ is None:
        book.missing(id, "count", formula, reason)
    else:
        rows = level.measured
        book.enter(id, differ.sum(), "count", formula, rows.source(differ.nonzero()[0][:1]), n=len(rows))
