"""A cliff while it happens: the sampled gauges of one repeat as curves over its own time."""

from __future__ import annotations

import json
from typing import Any

from genreport.errors import RoundError
from genreport.figures.book import Book
from genreport.figures.layout import LevelView
from genreport.figures.samples import RESIDENT
from genreport.provenance import Samples
from genreport.rounds import Round
from genreport.words import say

POINTS = 240  # of a curve at most: beyond, every second, third … sample is drawn
PREEMPTED = ("vllm:num_preemptions_total", "vllm:num_preemptions")


def enter(book: Book, level: LevelView, kind: str, pool: str) -> None:
    """`L.over_time.<gauge>.{t,value}` of the first repeat whose running requests were sampled."""
    id, repeat = f"{level.id}.over_time", _sampled(book, level)
    for gauge in ("running", "waiting"):
        _curve(book, f"{id}.{gauge}", "1", _source(book, repeat, gauge))
    if kind == "llamacpp":
        _curve(book, f"{id}.resident", "tokens", _source(book, repeat, RESIDENT))
        _same_time(book, f"{id}.kv_use", f"{id}.resident")
        book.derive(f"{id}.kv_use.value", "share", "resident / pool", lambda resident, pool: resident / pool,
                    resident=f"{id}.resident.value", pool=pool)  # fmt: skip
    else:
        _curve(book, f"{id}.kv_use", "share", _source(book, repeat, "kv_use"))
    _preempted(book, id, repeat)


def _sampled(book: Book, level: LevelView) -> str | None:
    scopes = (level.repeat_id(repeat) for repeat in level.repeats)
    return next((scope for scope in scopes if _source(book, scope, "running")), None)


def _source(book: Book, repeat: str | None, gauge: str) -> Samples | None:
    """The stretch of samples inside the repeat's window, as its mean was taken over it."""
    means = (book.ledger.get(f"{repeat}.{gauge}{by}.mean") for by in (".sampled", ""))
    return next((s for mean in means if mean for s in mean.sources if isinstance(s, Samples)), None)


def _preempted(book: Book, id: str, repeat: str | None) -> None:
    """Preemptions since the repeat began: the sampled total less the scrape before it."""
    beside = _source(book, repeat, "running")
    names = _series(book.round, beside.file) if beside else []
    name = next((name for name in PREEMPTED if name in names), None)
    _curve(book, f"{id}.preemptions_total", "count", Samples(beside.file, name, beside.lines) if name else None)
    _same_time(book, f"{id}.preemptions", f"{id}.preemptions_total")
    before = f"{repeat}.preemptions.before"
    if before in book.ledger:
        book.derive(f"{id}.preemptions.value", "count", "total - before", lambda total, before: total - before,
                    total=f"{id}.preemptions_total.value", before=before)  # fmt: skip
    else:
        book.missing(f"{id}.preemptions.value", "count", "total - before", say("missing.no_preemption_counter"))


def _same_time(book: Book, id: str, other: str) -> None:
    book.derive(f"{id}.t", "s", "t", lambda t: t, t=f"{other}.t")


def _curve(book: Book, id: str, unit: str, source: Samples | None) -> None:
    points = _points(book.round, source) if source else []
    step = max(1, -(-len(points) // POINTS))
    every = "" if step == 1 else f"[::{step}]"
    start = points[0][0] if points else 0
    for name, unit_, formula, values in (
        ("t", "s", f"t_s{every} - t_s[0]", [t - start for t, _ in points[::step]]),
        ("value", unit, f"sample{every}", [value for _, value in points[::step]]),
    ):
        if points:
            book.enter(f"{id}.{name}", values, unit_, formula, source, n=len(points))
        else:
            book.missing(f"{id}.{name}", unit_, formula, say("missing.no_gauge"))


def _points(round: Round, source: Samples) -> list[tuple[float, float]]:
    """(seconds, value) of one series on the source's lines; a sample without it is left out."""
    lines, (first, last) = _decoded(round, source.file), source.lines
    slots = source.series == RESIDENT
    if not lines:
        return []
    place = 1 if slots else lines[0]["series"].index(source.series) + 1
    inside = (row for row in lines[first - 1 : last] if isinstance(row, list) and len(row) > place)
    found = [(row[0] / 1e6, _resident(row[place]) if slots else row[place]) for row in inside]
    return [(t, float(value)) for t, value in found if value is not None]


def _resident(busy: Any) -> float | None:
    """Tokens that all busy slots hold together."""
    return sum(sum(slot[1:4]) for slot in busy) if isinstance(busy, list) else None


def _series(round: Round, file: str) -> list[str]:
    return (_decoded(round, file) or [{}])[0].get("series", [])


def _decoded(round: Round, file: str) -> list[Any]:
    """All lines of a sampled file, the head first; empty where one of them is no data."""
    try:
        return [json.loads(line) for line in round.text(file).split("\n") if line]
    except (RoundError, ValueError):
        return []
