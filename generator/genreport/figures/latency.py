"""Latency of a level: percentiles over requests or gaps, each with the records it interpolates."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genreport.figures.book import Book
from genreport.figures.frames import Column, Table
from genreport.figures.layout import LevelView
from genreport.provenance import Quantity
from genreport.words import say

# quantiles of `itl_ecdf` in percent: even steps, then a tail that ends at the largest gap itself
GRID: tuple[float, ...] = (*range(0, 100, 2), 99, 99.5, 99.8, 99.9, 99.95, 99.99, 100)

# tokens an event above this are no chance: now and then one is held back for a character
SEVERAL = 1.05

# figure -> column of provenance.COLUMNS, statistics
STATISTICS: dict[str, tuple[str, tuple[str, ...]]] = {
    "ttft": ("ttft_s", ("mean", "p50", "p90", "p95", "p99")),
    "tpot": ("tpot_s", ("mean", "p50", "p90", "p95", "p99")),
    "itl": ("itl_s", ("p50", "p90", "p95", "p99")),
    "e2el": ("e2el_s", ("p50", "p90", "p95", "p99")),
    "client_queue": ("client_queue_s", ("mean", "p50", "p99")),
    "gap": ("gap_s", ("p50",)),
    "first_choices": ("first_choices_s", ("p50",)),
    "queue_stated": ("server_queue_s", ("mean", "p50", "p90", "p99")),
    "prefill_stated": ("server_prefill_s", ("mean", "p50", "p90", "p99")),
    "decode_stated": ("server_decode_s", ("mean", "p50", "p90", "p99")),
}
NEEDS_TOKENS = {"tpot_s"}
# what servers may state; why such a column is empty is in the catalogue under its name
STATED = {"server_queue_s", "server_prefill_s", "server_decode_s"}


def enter(book: Book, level: LevelView) -> None:
    """Every latency figure of a level, the curve of its ITL distribution, and how many gaps these rest on."""
    rows = level.measured
    notes = token_notes(rows)
    if _first_events(book, level.id, rows).value:
        notes |= {"tpot_s": [*notes["tpot_s"], "first_event_multi"]}
    for figure, (_, statistics) in STATISTICS.items():
        of_figure(book, f"{level.id}.{figure}", figure, statistics, rows, notes)
    _ecdf(book, level.id, rows, notes)
    _per_event(book, level.id, rows)
    _stalls(book, level.id, rows)


def of_figure(
    book: Book,
    id: str,
    figure: str,
    statistics: Sequence[str],
    rows: Table,
    notes: dict[str, list[str]] | None = None,
) -> None:
    """Statistics of one of the latencies over these requests; `notes` are warnings by column."""
    column = STATISTICS[figure][0]
    unknown = column in NEEDS_TOKENS and rows.rows["n"].isna().any()
    reason = say("missing.no_token_counts") if unknown else None
    _statistics(book, id, column, statistics, rows, token_notes(rows) if notes is None else notes, reason)


def of_column(book: Book, id: str, column: str, statistics: Sequence[str], rows: Table) -> None:
    """Statistics of a column of times that every completed request has."""
    _statistics(book, id, column, statistics, rows, {}, None)


def token_notes(rows: Table) -> dict[str, list[str]]:
    """Warnings by column where a count is not the server's own, or where an event's tokens are unknown."""
    stated, counted, known = (rows.rows[name].to_numpy() for name in ("usage", "counted", "n"))
    again = ~stated & ~counted & ~np.isnan(known.astype(float))
    notes = [] if (stated | again).all() else ["tokens_counted_by_client"]
    notes += ["tokens_retokenized"] if again.any() else []
    unknown = [] if counted.all() else ["tokens_per_event_unknown"]
    return {"tpot_s": notes, "n": notes, "itl_s": unknown}


def _first_events(book: Book, id: str, rows: Table) -> Quantity:
    """Requests whose first event held several tokens: their TPOT divides by n - 1 all the same."""
    id, formula = f"{id}.first_event_multi", "sum(first_event_multi)"
    if not len(rows) or not rows.rows["counted"].all():
        why = say("missing.no_event_counts" if len(rows) else "missing.none_completed")
        return book.missing(id, "count", formula, why)
    several = rows.first_tokens > 1
    return book.enter(id, several.sum(), "count", formula, rows.source(np.flatnonzero(several)[:1]), n=len(rows))


def _per_event(book: Book, id: str, rows: Table) -> None:
    """Tokens an event, where events hold several, as under speculation; nothing is said where one has one."""
    n = rows.rows["n"].to_numpy(dtype=float)
    if len(rows) and n.sum() / len(rows.text_s) > SEVERAL:
        book.enter(f"{id}.tokens_per_event", n.sum() / len(rows.text_s), "tokens", "sum(n) / count(text_s)",
                   rows.source((0,)), n=len(rows.text_s), notes=token_notes(rows)["n"])  # fmt: skip


def few(n: int, q: float) -> bool:
    """Whether n samples are too few for percentile q: no equal-tailed 95 % order-statistic interval exists."""
    p = max(q, 100 - q) / 100
    return p**n > 0.025


def interpolated(values: np.ndarray, q: float) -> tuple[int, ...]:
    """Positions of the order statistics that percentile q lies between (one where it falls on a value)."""
    place = q / 100 * (len(values) - 1)
    ranks = sorted({int(np.floor(place)), int(np.ceil(place))})
    ordered = np.partition(values, ranks)
    return tuple(dict.fromkeys(int(np.argmax(values == ordered[rank])) for rank in ranks))


def _statistics(
    book: Book,
    id: str,
    name: str,
    statistics: Sequence[str],
    rows: Table,
    notes: dict[str, list[str]],
    reason: str | None,
) -> None:
    for statistic in statistics:
        formula = f"mean({name})" if statistic == "mean" else f"percentile({name}, {statistic[1:]})"
        if reason or not len(rows):
            book.missing(f"{id}.{statistic}", "s", formula, reason or say("missing.none_completed"))
            continue
        column: Column = getattr(rows, name)
        if not len(column):
            why = say(f"missing.{name}" if name in STATED else "missing.no_second_token")
            book.missing(f"{id}.{statistic}", "s", formula, why)
        elif statistic == "mean":
            book.enter(f"{id}.mean", column.values.mean(), "s", formula, rows.source(column.row[:1]),
                       n=len(column), notes=notes.get(name, ()))  # fmt: skip
        else:
            _percentile(book, f"{id}.{statistic}", float(statistic[1:]), formula, rows, column, notes.get(name, ()))


def _percentile(book: Book, id: str, q: float, formula: str, rows: Table, column: Column, notes: Sequence[str]) -> None:
    picks = column.row[list(interpolated(column.values, q))]
    small = ["n_too_small"] if few(len(column), q) else []
    value = np.percentile(column.values, q)
    book.enter(id, value, "s", formula, rows.source(picks), n=len(column), notes=[*small, *notes])


def _ecdf(book: Book, scope: str, rows: Table, notes: dict[str, list[str]]) -> None:
    formula, count = f"percentile(itl_s, [{', '.join(f'{q:g}' for q in GRID)}])", f"{scope}.itl.count"
    if not len(rows) or not len(rows.itl_s):
        book.missing(f"{scope}.itl_ecdf", "s", formula, say("missing.no_token_gap"))
        book.missing(count, "count", "count(itl_s)", say("missing.no_token_gap"))
        return
    book.enter(count, len(rows.itl_s), "count", "count(itl_s)", rows.source(rows.itl_s.row[:1]), n=len(rows.itl_s))
    itl = rows.itl_s
    last = itl.row[[int(np.argmax(itl.values))]]
    book.enter(f"{scope}.itl_ecdf", np.percentile(itl.values, GRID), "s", formula, rows.source(last),
               n=len(itl), notes=notes["itl_s"])  # fmt: skip


def _stalls(book: Book, scope: str, rows: Table) -> None:
    """How much of the time between text events went into gaps far above the median one."""
    share = "sum(where(gap_s > 2 * median(gap_s), gap_s - median(gap_s), 0)) / sum(gap_s)"
    stalled = "mean(where(max_gap_s > 5 * median(gap_s), 1, 0))"
    coalesced = "mean(where(gap_s == 0, 1, 0))"
    if not len(rows) or not len(rows.gap_s):
        for name, formula in (
            ("stall_share", share), ("stalled_requests_share", stalled), ("coalesced_share", coalesced),
        ):  # fmt: skip
            book.missing(f"{scope}.{name}", "share", formula, say("missing.no_text_gap"))
        return
    gaps, longest = rows.gap_s, rows.max_gap_s
    values, median, total = gaps.values, np.median(gaps.values), gaps.values.sum()
    worst = rows.source(gaps.row[[int(np.argmax(values))]])
    stall = np.where(values > 2 * median, values - median, 0).sum() / total if total > 0 else None
    book.enter(f"{scope}.stall_share", stall, "share", share, worst, n=len(gaps), reason=say("missing.one_read"))
    book.enter(f"{scope}.stalled_requests_share", (longest.values > 5 * median).mean(), "share", stalled, worst,
               n=len(longest))  # fmt: skip
    together = values == 0
    first = gaps.row[[int(np.argmax(together))]]
    book.enter(f"{scope}.coalesced_share", together.mean(), "share", coalesced, rows.source(first), n=len(gaps))
