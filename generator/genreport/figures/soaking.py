"""A soak: whether a server's memory grows, and whether it fails, over equal parts of the time that its load lasts."""

from __future__ import annotations

import numpy as np

from genreport.figures.book import Book
from genreport.figures.frames import Table
from genreport.figures.latency import few, interpolated
from genreport.figures.layout import LevelView
from genreport.figures.samples import Series, of_window
from genreport.rounds import Level
from genreport.words import say

# parts of the time, and samples over which a growth can be told
PARTS, FEWEST = 12, 8
GROWTH = "3600 * sum((t_s - mean(t_s)) * (sample - mean(sample))) / sum((t_s - mean(t_s)) ** 2) / 2 ** 20"


def enter(book: Book, level: LevelView, kind: str, started: bool) -> None:
    """Parts and growth of each repeat; `started`: the runner started the engine, and could see its memory."""
    if level.kind != "soak":
        return
    for scope, files, rows in level.each():
        _repeat(book, scope, files, rows, kind, started)


def _repeat(book: Book, scope: str, files: Level, rows: Table, kind: str, started: bool) -> None:
    lasts_s = files.facts.duration_s or 0
    book.pointer(
        f"{scope}.lasts", "min", files.facts_file, "/duration_s", formula="field / 60", function=lambda s: s / 60
    )
    book.derive(f"{scope}.part_lasts", "min", f"lasts / {PARTS}", lambda lasts: lasts / PARTS, lasts=f"{scope}.lasts")
    due = rows.rows["due_s"].to_numpy(dtype=float)[~rows.rows["warmup"].to_numpy() & rows.rows["sound"].to_numpy()]
    begins_s = float(due.min()) if len(due) else 0.0
    edges = [float(edge) for edge in begins_s + lasts_s * np.arange(PARTS + 1) / PARTS]
    why = say("missing.no_gauge" if started else "missing.not_our_process")
    _growth(book, scope, of_window(book.round, files, kind, "memory", (edges[0], edges[-1])), why)
    for part in range(PARTS):
        since, until = edges[part], edges[part + 1]
        id = f"{scope}.part{part + 1}"
        book.derive(
            f"{id}.from", "min", f"{part} * lasts", lambda lasts, part=part: part * lasts, lasts=f"{scope}.part_lasts"
        )
        _requests(book, id, scope, rows, since, until)
        _memory(book, id, of_window(book.round, files, kind, "memory", (since, until)), why)


def _growth(book: Book, scope: str, series: Series | None, why: str) -> None:
    """Slope of the process's memory over time, by least squares."""
    id, unit = f"{scope}.memory_growth", "MiB/h"
    if series is None or len(series.t_s) < FEWEST:
        book.missing(id, unit, GROWTH, why if series is None else say("missing.few_samples"))
        return
    apart, n = series.t_s - series.t_s.mean(), len(series.t_s)
    slope = 3600 * (apart * (series.sample - series.sample.mean())).sum() / (apart**2).sum() / 2**20
    book.enter(id, slope, unit, GROWTH, series.source, n=n)


def _memory(book: Book, id: str, series: Series | None, why: str) -> None:
    if series is None:
        book.missing(f"{id}.memory", "bytes", "mean(sample)", why)
        return
    book.enter(f"{id}.memory", series.sample.mean(), "bytes", "mean(sample)", series.source, n=len(series.sample))


def _requests(book: Book, id: str, scope: str, rows: Table, since: float, until: float) -> None:
    """Requests that were due in this part: completed, failed, failed a minute, and their median wait from then."""
    due, warm = rows.rows["due_s"].to_numpy(dtype=float), rows.rows["warmup"].to_numpy()
    inside = ~warm & (due >= since) & (due < until)
    ok = rows.rows["ok"].to_numpy()
    when = f"not warmup and due_s >= {since!r} and due_s < {until!r}"
    for name, mask, where in (
        ("completed", inside & ok, f"ok and {when}"),
        ("failed", inside & ~ok, f"not ok and {when}"),
    ):
        kept = rows.only(mask)
        source = kept.source(range(min(1, len(kept))), where)
        book.enter(f"{id}.{name}", len(kept), "count", "count(index)", source, n=len(kept))
    book.derive(f"{id}.failures", "req/min", "failed / lasts", lambda failed, lasts: failed / lasts,
                failed=f"{id}.failed", lasts=f"{scope}.part_lasts")  # fmt: skip
    _wait(book, f"{id}.due_ttft.p50", rows.only(inside & ok), f"ok and {when}")


def _wait(book: Book, id: str, kept: Table, where: str) -> None:
    formula = "percentile(due_ttft_s, 50)"
    if not len(kept):
        book.missing(id, "s", formula, say("missing.none_completed"))
        return
    waits = kept.due_ttft_s
    notes = ["n_too_small"] if few(len(waits), 50) else []
    source = kept.source(waits.row[list(interpolated(waits.values, 50))], where)
    book.enter(id, np.percentile(waits.values, 50), "s", formula, source, n=len(waits), notes=notes)
