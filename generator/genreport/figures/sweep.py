"""What a whole sweep says of an engine beside its curve: the load it bears calmly, its memory, bytes read a step."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genreport.figures.book import Absent, Book
from genreport.figures.layout import LevelView
from genreport.words import say


def enter(book: Book, scope: str, levels: Sequence[LevelView]) -> None:
    """Largest load without failure or queueing, peak resident memory, bytes read per iteration at the first level."""
    seen = [level.id for level in levels if book.value(f"{level.id}.waiting.max") is not None]
    book.derive(f"{scope}.calm_concurrency", "1", "max(where(failed + waiting == 0, c, 0))", calm, n=len(seen),
                c=[f"{id}.concurrency" for id in seen], failed=[f"{id}.failed" for id in seen],
                waiting=[f"{id}.waiting.max" for id in seen])  # fmt: skip
    sampled = [level.id for level in levels if book.value(f"{level.id}.memory.max") is not None]
    book.derive(f"{scope}.peak_memory", "bytes", "max(levels)", lambda levels: levels.max(), n=len(sampled),
                levels=[f"{id}.memory.max" for id in sampled])  # fmt: skip
    first = levels[0].id
    for of in ("read_bytes", "iterations"):
        if f"{first}.{of}" not in book.ledger:
            book.missing(f"{scope}.read_bytes_per_step", "bytes", "read / steps", say("missing.no_bytes"))
            return
    book.derive(f"{scope}.read_bytes_per_step", "bytes", "read / steps", lambda read, steps: read / steps,
                read=f"{first}.read_bytes", steps=f"{first}.iterations")  # fmt: skip


def calm(c: np.ndarray, failed: np.ndarray, waiting: np.ndarray) -> float:
    """The largest C of a level in which no request failed and none was seen waiting in the engine."""
    found = c[failed + waiting == 0]
    if not len(found):
        raise Absent(say("missing.never_calm"))
    return float(found.max())
