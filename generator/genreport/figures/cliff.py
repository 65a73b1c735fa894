"""The cliff: one load in a normal and in a longer shape, and what the KV pool makes of the difference."""

from __future__ import annotations

from collections.abc import Sequence

from genreport.figures import capacity, cliff_counts, cliff_time
from genreport.figures.book import Absent, Book
from genreport.figures.layout import EngineView, LevelView, TestView, engine_scope, kind_of
from genreport.words import say

# name of the ratio -> the figure of both shapes that it divides
RATIOS = {
    "oversubscription": "cliff.oversubscription",
    "running": "running.mean",
    "output_throughput": "output_throughput",
    "ttft_p50": "ttft.p50",
    "ttft_p99": "ttft.p99",
    "itl_p50": "itl.p50",
    "itl_p99": "itl.p99",
    "e2el_p50": "e2el.p50",
}
GROWTH = "long / normal if long > normal else 1"
BEYOND = "long / (normal + prefill - prefill_normal)"


def enter(book: Book, tests: Sequence[TestView], starts: Sequence[EngineView]) -> None:
    """Figures of every cliff test, after those of its levels; tests of another kind are passed over."""
    for test in tests:
        if test.kind == "cliff":
            for engine in test.engines:
                _engine(book, test.levels_of(engine), starts)


def _engine(book: Book, levels: Sequence[LevelView], starts: Sequence[EngineView]) -> None:
    for level in levels:
        scope, kind = engine_scope(starts, level), kind_of(book.round, level)
        _demand(book, level.id, scope)
        _residency(book, level.id, scope)
        cliff_counts.enter(book, level, kind, f"{scope}.pool_tokens")
        cliff_time.enter(book, level, kind, f"{scope}.pool_tokens")
    normal, *longer = by_length(levels)
    for level in longer:
        _against(book, level, normal)


def by_length(levels: Sequence[LevelView]) -> list[LevelView]:
    """The shapes from the shortest to the longest: the first is what the others are held against."""
    return sorted(levels, key=lambda level: level.input + level.output)


def over(level: LevelView, normal: LevelView) -> str:
    """Scope of the ratios of a longer shape to the normal one."""
    return f"{level.id}.over.{normal.name}"


def oversubscription(c: float, input: float, output: float, pool: float) -> float:
    """Tokens that C requests need at their full length, as a multiple of the pool."""
    return c * (input + output) / pool


def expected_residents(pool: float, input: float, output: float) -> float:
    """Sequences that the pool holds at the mean context of their decode phase."""
    return pool / (input + output / 2)


def _demand(book: Book, id: str, engine: str) -> None:
    shape = {"input": f"{id}.input", "output": f"{id}.output"}
    pool, c = f"{engine}.pool_tokens", f"{id}.concurrency"
    book.derive(f"{id}.cliff.kv_demand", "bytes", "c * (input + output) * kv", capacity.demand, c=c, **shape,
                kv=f"{engine}.kv_bytes_per_token")  # fmt: skip
    book.derive(f"{id}.cliff.oversubscription", "ratio", "c * (input + output) / pool", oversubscription, c=c, **shape,
                pool=pool)  # fmt: skip
    book.derive(f"{id}.cliff.expected_residents", "1", "pool / (input + output / 2)", expected_residents, pool=pool,
                **shape)  # fmt: skip
    book.derive(f"{id}.cliff.fits", "1", "pool / (input + output)", lambda pool, input, output: pool / (input + output),
                pool=pool, **shape)  # fmt: skip
    book.derive(f"{id}.cliff.max_num_seqs", "count", "fits // 1", lambda fits: fits // 1, fits=f"{id}.cliff.fits")


def _residency(book: Book, id: str, engine: str) -> None:
    book.derive(f"{id}.cliff.residency_over_announced", "share", "running / announced - 1", _over_announced,
                running=f"{id}.running.mean", announced=f"{engine}.announced_concurrency")  # fmt: skip
    book.derive(f"{id}.cliff.overshoot", "1", "most - mean", lambda most, mean: most - mean,
                most=f"{id}.running.max", mean=f"{id}.running.mean")  # fmt: skip


def _over_announced(running: float, announced: float) -> float:
    if not announced:
        raise Absent(say("missing.announced_zero"))
    return capacity.over_announced(running, announced)


def times(long: float, normal: float) -> float:
    """How many times the normal shape's value the longer one's is."""
    return long / normal


def _against(book: Book, long: LevelView, normal: LevelView) -> None:
    scope = over(long, normal)
    for name, figure in RATIOS.items():
        book.derive(f"{scope}.{name}", "ratio", "long / normal", times,
                    long=f"{long.id}.{figure}", normal=f"{normal.id}.{figure}")  # fmt: skip
    book.derive(f"{scope}.prompt", "ratio", GROWTH, lambda long, normal: long / normal if long > normal else 1,
                long=f"{long.id}.input", normal=f"{normal.id}.input")  # fmt: skip
    # a prompt that is six times as long takes about six times as long to read: that is no cliff
    book.derive(f"{scope}.ttft_beyond_prompt", "ratio", "ttft / prompt", lambda ttft, prompt: ttft / prompt,
                ttft=f"{scope}.ttft_p50", prompt=f"{scope}.prompt")  # fmt: skip
    book.derive(f"{scope}.ttft_beyond_prefill", "ratio", BEYOND, beyond_prefill, long=f"{long.id}.ttft.mean",
                normal=f"{normal.id}.ttft.mean", prefill=f"{long.id}.prefill.mean",
                prefill_normal=f"{normal.id}.prefill.mean")  # fmt: skip


def beyond_prefill(long: float, normal: float, prefill: float, prefill_normal: float) -> float:
    """Mean TTFT as a multiple of the normal shape's plus what prefill grew by, all as measured."""
    accounted = normal + prefill - prefill_normal
    if accounted <= 0:
        raise Absent(say("missing.prefill_too_long"))
    return long / accounted
