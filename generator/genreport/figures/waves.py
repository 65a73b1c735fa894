"""Waves: a level's first requests, event by event, each in a lane of its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from genreport.figures.book import Book
from genreport.figures.frames import Table, table
from genreport.figures.layout import LevelView, TestView
from genreport.provenance import MEASURED, Ledger, Quantity, Rows
from genreport.rounds import Level

# lanes of one repeat at most, and text events in all of them together
LANES, EVENTS = 32, 1200
# a gap this many times the median one is a stall, as in `stall_share`
STALL = 2
# a stall share below this is no reason to draw a level
WORTH = 0.01
STALLS = f"sum(where(diff(text) > {STALL} * median, 1, 0))"
# stamps are whole microseconds
MICRO = 6


@dataclass(frozen=True)
class Chosen:
    """The level at which two engines' lanes are drawn, and why: `stalls` (the largest stall share) or `load`."""

    base: LevelView
    other: LevelView
    why: str
    staller: str | None


def enter_lanes(book: Book, test: TestView) -> None:
    """The lanes of each challenger and of the baseline at the level at which the two are drawn."""
    base, *others = test.engines
    for other in others:
        chosen = choose(book.ledger, test, base, other)
        for level in (chosen.base, chosen.other) if chosen else ():
            if f"{lanes_of(book.ledger, level)}.origin" not in book.ledger:
                _lanes(book, level)


def choose(ledger: Ledger, test: TestView, a: str, b: str) -> Chosen | None:
    """The common level with the largest stall share of either engine; where none stalls, the largest one."""
    both = [pair for pair in test.shared(a, b) if all(_drawn(ledger, level) for level in pair)]
    if not both:
        return None
    stalls = [max(ledger.value(f"{level.id}.stall_share") or 0 for level in pair) for pair in both]
    if max(stalls) < WORTH:
        return Chosen(*both[-1], "load", None)
    base, other = both[stalls.index(max(stalls))]
    staller = max((base, other), key=lambda level: ledger.value(f"{level.id}.stall_share") or 0)
    return Chosen(base, other, "stalls", staller.engine)


def lanes_of(ledger: Ledger, level: LevelView) -> str:
    """Scope of a level's lanes: its first repeat in which a request completed."""
    return f"{level.repeat_id(_drawn(ledger, level))}.lanes"


def _drawn(ledger: Ledger, level: LevelView) -> Level | None:
    return next((r for r in level.repeats if ledger.value(f"{level.repeat_id(r)}.completed")), None)


def _lanes(book: Book, level: LevelView) -> None:
    """Every lane's request, start, text events and stalls, in seconds after the repeat's first start."""
    scope, repeat = lanes_of(book.ledger, level), _drawn(book.ledger, level)
    rows = table(repeat.requests_file, book.round.requests(repeat)).measured
    first = rows.source(_order(rows)[:1])
    origin = book.enter(f"{scope}.origin", rows.start_s.values.min(), "s", "min(t0_s)", first, n=len(rows))
    kept = _kept(rows)
    for lane, (row, events) in enumerate(kept, 1):
        _lane(book, f"{scope}.{lane}", rows, row, events, origin, f"{level.id}.gap.p50")
    ids = [f"{scope}.{lane}" for lane in range(1, len(kept) + 1)]
    book.derive(f"{scope}.count", "count", "count(starts)", lambda starts: len(starts),
                starts=[f"{id}.start" for id in ids])  # fmt: skip
    book.derive(f"{scope}.end", "s", "max(text)", lambda text: text.max(), text=[f"{id}.text" for id in ids])
    book.derive(f"{scope}.stalls", "count", "sum(lanes)", lambda lanes: lanes.sum(),
                lanes=[f"{id}.stalls" for id in ids])  # fmt: skip


def _order(rows: Table) -> np.ndarray:
    return np.argsort(rows.start_s.values, kind="stable")


def _kept(rows: Table) -> list[tuple[int, int]]:
    """(row, text events drawn) of the first requests by start, cut at the moment that uses up the events."""
    single = ~rows.rows["index"].duplicated(keep=False).to_numpy()
    order = [int(row) for row in _order(rows) if single[row]][:LANES]
    stamps = np.sort(rows.text_s[np.isin(rows.text_row, order)])
    if not len(stamps):
        return []
    end = stamps[min(len(stamps), EVENTS) - 1]
    started = [row for row in order if rows.start_s.values[row] <= end]
    # of a request that still waits at the end, its first event is drawn all the same
    return [(row, max(1, int((rows.text_s[rows.text_row == row] <= end).sum()))) for row in started]


def _lane(book: Book, id: str, rows: Table, row: int, events: int, origin: Quantity, median: str) -> None:
    index, text = int(rows.rows["index"].iat[row]), rows.text_s[rows.text_row == row]
    cut = "" if events == len(text) else f"[:{events}]"
    source = Rows(rows.files, f"{MEASURED} and index == {index}", 1, (rows.place(row),))
    _read(book, f"{id}.request", index, "count", "max(index)", source)
    _read(book, f"{id}.start", rows.start_s.values[row] - origin.value, "s", "max(t0_s) - origin", source, origin)
    _read(book, f"{id}.text", text[:events] - origin.value, "s", f"text_s{cut} - origin", source, origin)
    for name, place in (("first", 0), ("last", -1)):
        book.derive(f"{id}.{name}", "s", f"text[{place}]", lambda text, place=place: text[place], text=f"{id}.text")
    book.derive(f"{id}.stalls", "count", STALLS, stalls, n=max(0, events - 1), text=f"{id}.text",
                median=median)  # fmt: skip


def _read(
    book: Book, id: str, value: Any, unit: str, formula: str, source: Rows, origin: Quantity | None = None
) -> None:
    """A figure of one record, counted from the repeat's first start."""
    rounded = np.round(value, MICRO)
    plain = tuple(float(v) for v in rounded) if np.ndim(rounded) else float(rounded)
    inputs = {"origin": origin.id} if origin else {}
    book.ledger.add(Quantity(id, plain, unit, formula, n=np.size(rounded), inputs=inputs, sources=(source,)))


def stalls(text: np.ndarray, median: float) -> int:
    """Gaps between text events longer than `STALL` medians of the level."""
    return int((np.diff(text) > STALL * median).sum())
