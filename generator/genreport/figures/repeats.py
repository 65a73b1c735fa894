"""Each repeat by itself: what two rounds are compared by, for the repeat is the unit of replication."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from genreport.figures import crossing, latency, planned
from genreport.figures.book import Book
from genreport.figures.choosing import slos
from genreport.figures.frames import Table
from genreport.figures.layout import LevelView
from genreport.figures.limits import Limit
from genreport.provenance import MEASURED, Rows
from genreport.words import say

# percentiles of every repeat; the ratios of two engines, a plan's hypotheses and service levels add theirs
STATISTICS: dict[str, tuple[str, ...]] = {
    "ttft": ("p50", "p99"),
    "tpot": ("p50",),
    "itl": ("p50", "p99"),
    "e2el": ("p50", "p99"),
}
# of an open loop also from when a request was due
FROM_DUE: dict[str, tuple[str, ...]] = {"due_ttft": ("p50", "p99"), "due_e2el": ("p50", "p99")}
# those of one value a request are resampled as well, when rounds are compared
RESAMPLED = ("ttft", "tpot", "e2el")
RESAMPLES, SEED = 200, 20261130


def enter(book: Book, level: LevelView, wanted: Mapping[str, Sequence[str]], *, resampled: bool) -> None:
    """Rates and percentiles of each repeat, by latency; `resampled`: also the level's errors by a two-level bootstrap."""
    from_due = FROM_DUE if level.open_loop else {}
    for scope, _, rows in level.each():
        _rates(book, scope, rows.measured)
        for figure, statistics in wanted.items():
            latency.of_figure(book, f"{scope}.{figure}", figure, statistics, rows.measured)
        for figure, statistics in from_due.items():
            latency.of_column(book, f"{scope}.{figure}", f"{figure}_s", statistics, rows.measured)
    if resampled:
        for figure in (*RESAMPLED, *from_due):
            for statistic in (STATISTICS | FROM_DUE)[figure]:
                _error(book, level, figure, statistic)


def wanted(plan: Mapping[str, Any], given: Sequence[Limit] = ()) -> dict[str, list[str]]:
    """Percentiles by latency: the usual ones, and what the plan's hypotheses and all service levels are about."""
    found = {figure: list(statistics) for figure, statistics in STATISTICS.items()}
    named = [entry.get("figure") for _, entry in planned.entries(plan, "hypotheses")]
    for name in [*named, *crossing.REPEATED, *(slo.statistic for slo in slos(plan, given))]:
        figure, _, statistic = str(name).partition(".")
        if figure in found and statistic in latency.STATISTICS[figure][1] and statistic not in found[figure]:
            found[figure].append(statistic)
    return found


def _rates(book: Book, scope: str, kept: Table) -> None:
    for name, count in (("request_throughput", "completed"), ("goodput", "good_requests")):
        if f"{scope}.{count}" in book.ledger:
            book.derive(f"{scope}.{name}", "req/s", "count / window", lambda count, window: count / window,
                        count=f"{scope}.{count}", window=f"{scope}.window_s", n=len(kept))  # fmt: skip


def _error(book: Book, level: LevelView, figure: str, statistic: str) -> None:
    """Standard error of the mean log percentile, requests resampled inside resampled repeats."""
    id, column, q = f"{level.id}.{figure}.{statistic}.boot_error", f"{figure}_s", float(statistic[1:])
    formula = f"bootstrap_error({column}, repeats, {q:g}, {RESAMPLES}, {SEED})"
    scopes = [scope for scope, _, rows in level.each() if len(rows.measured)]
    repeats = [rows.measured for _, _, rows in level.each() if len(rows.measured)]
    found = [getattr(rows, column) for rows in repeats]
    if len(found) < 2 or any(len(c) < len(rows) or c.values.min() <= 0 for c, rows in zip(found, repeats, strict=True)):
        book.missing(id, "1", formula, say("against.not_resampled"))
        return
    counts = {f"{scope}.completed": len(rows) for scope, rows in zip(scopes, repeats, strict=True)}
    error = bootstrap_error([c.values for c in found], q, RESAMPLES, SEED)
    source = Rows(tuple(file for rows in repeats for file in rows.files), MEASURED, sum(counts.values()), ())
    book.enter(id, error, "1", formula, source, inputs={"repeats": tuple(counts)})


def bootstrap_error(repeats: Sequence[np.ndarray], q: float, resamples: int, seed: int) -> float:
    """Standard deviation of a two-level bootstrap of the mean log percentile q over repeats (arrays of positive values).

    Each resample draws as many repeats as there are, then in each, in the order drawn, as many of its values as it has,
    all from one PCG64 stream.
    """
    draw, ordered, found = np.random.default_rng(seed), [np.sort(values) for values in repeats], np.empty(resamples)
    for k in range(resamples):
        drawn = (ordered[i] for i in draw.integers(0, len(ordered), len(ordered)))
        found[k] = np.mean([np.log(_percentile(part, draw.integers(0, len(part), len(part)), q)) for part in drawn])
    return float(np.std(found, ddof=1))


def _percentile(ordered: np.ndarray, places: np.ndarray, q: float) -> float:
    """Percentile of the values at these places of a sorted array."""
    rank = q / 100 * (len(places) - 1)
    low, high = int(rank), min(int(rank) + 1, len(places) - 1)
    found = ordered[np.partition(places, (low, high))[[low, high]]]
    return float(found[0] + (found[1] - found[0]) * (rank - low))
