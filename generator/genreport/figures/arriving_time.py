"""An open loop while it happens: what requests waited that were due in each stretch of the load, and how many failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from genreport.figures.arriving import FEWEST
from genreport.figures.book import Book
from genreport.figures.frames import Table, pooled
from genreport.figures.layout import LevelView
from genreport.provenance import MEASURED
from genreport.words import say

# stretches of a load, and how many requests each should have
FEWEST_BINS, MOST_BINS, EACH = 6, 24, 12
FAILED = "sound and not ok and not warmup"
SINCE = "since(due_s, starts, counts)"
PERCENTILES = (50, 99)


def enter(book: Book, level: LevelView) -> None:
    """`L.over_time.…`: curves over equal stretches of the load, the repeats laid over each other.

    `t` is the middle of each stretch in which something is, `n` how many requests; `p50` and `p99` of their waits for the
    first token; `failed_t` and `failed` likewise of those that failed.
    """
    if level.kind != "open":
        return
    id, repeats = level.id, [(s, rows) for s, _, rows in level.each() if book.value(f"{s}.due_span") is not None]
    book.derive(f"{id}.due_span", "s", "max(repeats)", lambda repeats: repeats.max(),
                repeats=[f"{s}.due_span" for s, _ in repeats])  # fmt: skip
    bins = int(np.clip(sum(book.value(f"{s}.due_requests") for s, _ in repeats) // EACH, FEWEST_BINS, MOST_BINS))
    for scope, rows in repeats:
        failed = _failed(rows)
        book.enter(
            f"{scope}.due_failed",
            len(failed),
            "count",
            "count(index)",
            failed.source(range(min(1, len(failed))), FAILED),
        )
    span = book.value(f"{id}.due_span")
    _waits(book, id, _Clock(book, repeats, [rows.measured for _, rows in repeats], "completed"), bins, span)
    _failures(book, id, _Clock(book, repeats, [_failed(rows) for _, rows in repeats], "due_failed"), bins, span)


def _failed(rows: Table) -> Table:
    kept = rows.rows
    return rows.only(kept["sound"].to_numpy() & ~kept["ok"].to_numpy() & ~kept["warmup"].to_numpy())


class _Clock:
    """Requests of several repeats with the time at which each was due, counted from the first one of its repeat."""

    def __init__(self, book: Book, repeats: Sequence[tuple[str, Any]], tables: Sequence[Table], count: str) -> None:
        self.rows = pooled(tables) if tables else None
        starts = [book.value(f"{scope}.due_start") for scope, _ in repeats]
        due = self.rows.rows["due_s"].to_numpy(dtype=float) if tables else np.array([])
        self.since = due - np.repeat(starts, [len(table) for table in tables])
        scopes = [scope for scope, _ in repeats]
        self.inputs = {
            "starts": tuple(f"{s}.due_start" for s in scopes),
            "counts": tuple(f"{s}.{count}" for s in scopes),
        }

    def __len__(self) -> int:
        return len(self.since)

    def stretches(self, span: float, bins: int) -> np.ndarray:
        """In which of so many equal stretches of the span each request was due."""
        return np.minimum(np.floor(self.since * bins / span), bins - 1)


def _waits(book: Book, id: str, clock: _Clock, bins: int, span: float | None) -> None:
    formulas = {"t": f"bin_middle({SINCE}, span, {bins})", "n": f"bin_count({SINCE}, span, {bins})"}
    formulas |= {f"p{q}": f"bin_percentile({SINCE}, due_ttft_s, span, {bins}, {q})" for q in PERCENTILES}
    if len(clock) < FEWEST or not span:
        for name, formula in formulas.items():
            unit = "count" if name == "n" else "s"
            book.missing(f"{id}.over_time.{name}", unit, formula, say("missing.few_arrivals"))
        return
    waits, stretch = clock.rows.due_ttft_s.values, clock.stretches(span, bins)
    facts = {"n": len(clock), "inputs": clock.inputs | {"span": f"{id}.due_span"}}
    source = clock.rows.source((int(np.argmax(waits)),), MEASURED)
    _times(book, f"{id}.over_time", ("t", "n"), stretch, bins, span, formulas, source, facts)
    for q in PERCENTILES:
        curve = _each(stretch, lambda inside, q=q: np.percentile(waits[inside], q))
        book.enter(f"{id}.over_time.p{q}", curve, "s", formulas[f"p{q}"], source, **facts)


def _failures(book: Book, id: str, clock: _Clock, bins: int, span: float | None) -> None:
    formulas = {"failed_t": f"bin_middle({SINCE}, span, {bins})", "failed": f"bin_count({SINCE}, span, {bins})"}
    if not len(clock) or not span:
        for name, unit in (("failed_t", "s"), ("failed", "count")):
            book.missing(f"{id}.over_time.{name}", unit, formulas[name], say("missing.none_failed"))
        return
    facts = {"n": len(clock), "inputs": clock.inputs | {"span": f"{id}.due_span"}}
    source = clock.rows.source((0,), FAILED)
    _times(
        book,
        f"{id}.over_time",
        ("failed_t", "failed"),
        clock.stretches(span, bins),
        bins,
        span,
        formulas,
        source,
        facts,
    )


def _times(
    book: Book,
    id: str,
    names: tuple[str, str],
    stretch: np.ndarray,
    bins: int,
    span: float,
    formulas: dict[str, str],
    source: Any,
    facts: dict[str, Any],
) -> None:
    """The middle of each stretch in which something is, and how many requests."""
    middle, count = names
    book.enter(f"{id}.{middle}", (np.unique(stretch) + 0.5) * span / bins, "s", formulas[middle], source, **facts)
    book.enter(f"{id}.{count}", _each(stretch, np.sum), "count", formulas[count], source, **facts)


def _each(stretch: np.ndarray, of: Callable[[np.ndarray], float]) -> list[float]:
    """A value of the requests (as a mask) of each stretch in which some are."""
    return [of(stretch == place) for place in np.unique(stretch)]
