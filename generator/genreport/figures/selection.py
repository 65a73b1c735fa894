"""Which levels pages show of a test that has more than a reader can take in; all of them stay in the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from genreport.figures.book import Book
from genreport.figures.choosing import on_front
from genreport.figures.layout import LevelView, TestView

# rows of a table that a page can hold, of all engines together, and levels of one engine in any case
ROWS, LEAST = 45, 8


def enter(book: Book, tests: Sequence[TestView]) -> tuple[TestView, ...]:
    """The tests as pages show them; where that is not all, `test.T.shown` counts the levels."""
    return tuple(_test(book, test) for test in tests)


def _test(book: Book, test: TestView) -> TestView:
    most = max(LEAST, ROWS // max(1, len(test.engines)))
    if all(len(levels) <= most for levels in test.levels.values()):
        return test
    names = _names(book, test, most)
    shown = {engine: _shown(levels, names, most) for engine, levels in test.levels.items()}
    book.derive(f"test.{test.id}.shown", "count", "count(levels)", lambda levels: len(levels),
                levels=[f"{level.id}.completed" for levels in shown.values() for level in levels])  # fmt: skip
    return replace(test, levels=shown)


def _names(book: Book, test: TestView, most: int) -> set[str]:
    """The levels that sentences and fronts rest on, then others evenly between, under the names that all engines share."""
    longest = max(test.levels.values(), key=len)
    needed = dict.fromkeys(name for levels in test.levels.values() for name in _needed(book, test.id, levels))
    kept = set(needed)
    for place in np.linspace(0, len(longest) - 1, most).round().astype(int):
        if len(kept) < most:
            kept.add(longest[place].name)
    return kept


def _needed(book: Book, test: str, levels: Sequence[LevelView]) -> list[str]:
    """First, last and best level, the knee, and the front that none beats on both wait and throughput."""
    measured = [level for level in levels if book.value(f"{level.id}.output_throughput")]
    best = max(measured, key=lambda level: book.value(f"{level.id}.output_throughput"), default=levels[0])
    knee = book.value(f"{test}.{levels[0].engine}.knee")
    knees = [level for level in levels if level.concurrency == knee]
    return [level.name for level in (levels[0], levels[-1], best, *knees, *on_front(book.ledger, levels))]


def _shown(levels: Sequence[LevelView], names: set[str], most: int) -> tuple[LevelView, ...]:
    """Those of the names; of an engine that shares none of them, some evenly between."""
    found = tuple(level for level in levels if level.name in names)
    places = np.unique(np.linspace(0, len(levels) - 1, min(most, len(levels))).round().astype(int))
    return found or tuple(levels[place] for place in places)
