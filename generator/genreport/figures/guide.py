"""What the selection guide adds to a round's figures: choices, costs, likeness of answers, and what fits."""

from __future__ import annotations

from collections.abc import Sequence

from genreport.figures import answers, choosing, fitting, pricing
from genreport.figures.book import Book
from genreport.figures.layout import EngineView, TestView, engine_scope
from genreport.figures.limits import Limit
from genreport.rounds import MACHINE

# what an engine may show of itself, as figures of a level
SHOWN = (
    "running.mean", "waiting.mean", "kv_use.mean", "tokens_per_iteration", "preemptions", "prefix_hit_share",
    "counted_read_bytes", "counted_flops", "engine_requests", "queue.mean", "prefill.mean", "mixed_share",
)  # fmt: skip


def enter(book: Book, tests: Sequence[TestView], starts: Sequence[EngineView], given: Sequence[Limit] = ()) -> None:
    """Every figure of the guide, after all figures of engines, levels, sweeps and pairs."""
    for engine in starts:
        fitting.enter_engine(book, engine)
    if book.round.machine.gpus:
        book.pointer("machine.card_memory", "bytes", MACHINE, "/gpus/0/memory_bytes")
    pricing.enter_prices(book)
    _totals(book, tests)
    for test in tests:
        if test.kind == "concurrency":
            scopes = {engine: engine_scope(starts, test.levels_of(engine)[0]) for engine in test.engines}
            _sweep(book, test, scopes, given)


def _totals(book: Book, tests: Sequence[TestView]) -> None:
    completed, failed = ([f"test.{test.id}.{name}" for test in tests] for name in ("completed", "failed"))
    book.derive("test.completed", "count", "sum(tests)", lambda tests: tests.sum(), tests=completed)
    book.derive("test.failed", "count", "sum(tests)", lambda tests: tests.sum(), tests=failed)
    book.derive("test.tests", "count", "count(tests)", lambda tests: len(tests), tests=completed)
    levels = (level for test in tests for engine in test.engines for level in test.levels_of(engine))
    windows = book.observed(id for level in levels for id in level.ids("window_s"))
    book.derive("test.longest_s", "s", "max(windows)", lambda windows: windows.max(), windows=windows)


def _sweep(book: Book, test: TestView, scopes: dict[str, str], given: Sequence[Limit]) -> None:
    choosing.enter(book, test, given)
    answers.enter(book, test)
    pricing.enter(book, test, given)
    for engine, scope in scopes.items():
        _engine(book, test, engine, scope)
    base, *others = test.engines
    for other in others:
        book.derive(f"pair.{test.id}.{base}.{other}.pool_ratio", "ratio", "challenger / baseline",
                    lambda challenger, baseline: challenger / baseline,
                    challenger=f"{scopes[other]}.pool_tokens", baseline=f"{scopes[base]}.pool_tokens")  # fmt: skip


def _engine(book: Book, test: TestView, engine: str, start: str) -> None:
    scope, levels = f"{test.id}.{engine}", test.levels_of(engine)
    fitting.enter_load(book, scope, levels[-1].id, start)
    fitting.enter_example(book, scope, start)
    fitting.enter_shape(book, scope, levels[0].id)
    shares = book.observed(f"{level.id}.output_tokens_share" for level in levels)
    book.derive(f"{scope}.short_by", "share", "1 - min(shares)", lambda shares: 1 - shares.min(), shares=shares)
    seen = book.observed(f"{levels[-1].id}.{name}" for name in SHOWN)
    book.derive(f"{scope}.shown", "count", "count(seen)", lambda seen: len(seen), seen=seen)
