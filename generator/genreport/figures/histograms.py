"""An engine's histograms between two scrapes: percentiles by interpolation in a bucket, its width as their error."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from genreport.figures.book import Absent, Book
from genreport.figures.latency import few
from genreport.figures.layout import LevelView
from genreport.provenance import Lines
from genreport.rounds import AFTER, BEFORE
from genreport.words import say

PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class Buckets:
    """One histogram of a scrape: finite upper bounds, cumulative counts (one more, for +Inf), and its lines."""

    bounds: tuple[float, ...]
    counts: tuple[float, ...]
    lines: tuple[int, int]


def patterns(name: str) -> tuple[str, str]:
    """What finds the finite bounds and the counts of a histogram in its bucket lines."""
    start = rf"^{re.escape(name)}_bucket\{{"
    return rf'{start}(?:.*,)?le="(?!\+Inf")([^"]+)"', rf"{start}.*\}}\s+(\S+)"


def read(scrape: Sequence[str], name: str) -> Buckets:
    """The histogram of that name in a scrape's lines; `Absent` where there is none or, as with label sets, no single one."""
    start = f"{name}_bucket{{"
    lines = [(k, line) for k, line in enumerate(scrape, 1) if line.startswith(start)]
    if not lines:
        raise Absent(say("missing.no_histogram", name=name))
    try:
        bounds, counts = (_numbers(pattern, lines) for pattern in patterns(name))
    except ValueError:
        raise Absent(say("missing.histogram_broken", name=name)) from None
    if len(counts) != len(bounds) + 1 or not all(a < b for a, b in pairwise(bounds)):
        raise Absent(say("missing.histogram_several", name=name))
    return Buckets(bounds, counts, (lines[0][0], lines[-1][0]))


def _numbers(pattern: str, lines: Sequence[tuple[int, str]]) -> tuple[float, ...]:
    search = re.compile(pattern).search
    return tuple(float(match[1]) for _, line in lines if (match := search(line)))


def enter(book: Book, level: LevelView, figure: str, name: str) -> None:
    """Percentiles of a histogram of seconds over all repeats of a level, each with the width of its bucket."""
    id = f"{level.id}.{figure}"
    enter_buckets(book, level, figure, name, "s")
    counts = book.value(f"{id}.buckets")
    n = int(counts[-1]) if counts else None
    given = {"bounds": f"{level.ids(figure)[0]}.bounds", "buckets": f"{id}.buckets"}
    for q in PERCENTILES:
        notes = ["n_too_small"] if n is not None and few(n, q) else []
        book.derive(f"{id}.p{q}", "s", f"histogram_percentile(bounds, buckets, {q})",
                    lambda bounds, buckets, q=q: percentile(bounds, buckets, q), n=n, notes=notes, **given)  # fmt: skip
        book.derive(f"{id}.p{q}.width", "s", f"histogram_width(bounds, buckets, {q})",
                    lambda bounds, buckets, q=q: width(bounds, buckets, q), n=n, **given)  # fmt: skip


def enter_buckets(book: Book, level: LevelView, figure: str, name: str, unit: str) -> None:
    """Bounds and cumulative counts of each repeat, and the level's counts as their sum."""
    for scope, files, _ in level.each():
        id = f"{scope}.{figure}"
        for moment, file in (("before", files.file(BEFORE)), ("after", files.file(AFTER))):
            _moment(book, id, moment, file, name, unit)
        book.derive(f"{id}.buckets", "count", "after - before", _delta,
                    after=f"{id}.buckets.after", before=f"{id}.buckets.before")  # fmt: skip
    repeats = {f"r{files.facts.repeat}": f"{scope}.{figure}.buckets" for scope, files, _ in level.each()}
    book.derive(f"{level.id}.{figure}.buckets", "count", " + ".join(repeats), _added, **repeats)


def _moment(book: Book, id: str, moment: str, file: str | None, name: str, unit: str) -> None:
    counts, bounds = f"{id}.buckets.{moment}", f"{id}.bounds"
    try:
        found = read(_scrape(book, file), name)
    except Absent as absent:
        book.missing(counts, "count", "matches", str(absent))
        if moment == "after":
            book.missing(bounds, unit, "matches", str(absent))
        return
    limits, numbers = patterns(name)
    book.enter(counts, found.counts, "count", "matches", Lines(file, *found.lines, numbers, len(found.counts)))
    if moment == "after":
        book.enter(bounds, found.bounds, unit, "matches", Lines(file, *found.lines, limits, len(found.bounds)))


def _scrape(book: Book, file: str | None) -> list[str]:
    lines = book.lines(file)
    if not lines:
        raise Absent(say("missing.no_scrape"))
    return lines


def _delta(after: np.ndarray, before: np.ndarray) -> np.ndarray:
    if after.shape != before.shape or (after < before).any():
        raise Absent(say("missing.counter_fell"))
    return after - before


def _added(**repeats: np.ndarray) -> np.ndarray:
    if len({counts.shape for counts in repeats.values()}) > 1:
        raise Absent(say("missing.buckets_differ"))
    return sum(repeats.values())


def percentile(bounds: np.ndarray, buckets: np.ndarray, q: float) -> float:
    """Percentile of a cumulative histogram whose values start at 0, straight inside the bucket."""
    low, high, share = _place(bounds, buckets, q)
    return low + share * (high - low)


def width(bounds: np.ndarray, buckets: np.ndarray, q: float) -> float:
    """Width of the bucket in which that percentile lies: no interpolation inside it can be further off."""
    low, high, _ = _place(bounds, buckets, q)
    return high - low


def _place(bounds: np.ndarray, buckets: np.ndarray, q: float) -> tuple[float, float, float]:
    """Ends of the bucket that holds the percentile, and how far into its observations that is."""
    if buckets[-1] <= 0:
        raise Absent(say("missing.none_between_scrapes"))
    rank = q / 100 * buckets[-1]
    k = int(np.searchsorted(buckets[:-1], rank))
    if k == len(bounds):
        raise Absent(say("missing.beyond_last_bound"))
    low, below = (bounds[k - 1], buckets[k - 1]) if k else (0.0, 0.0)
    return float(low), float(bounds[k]), float((rank - below) / (buckets[k] - below))
