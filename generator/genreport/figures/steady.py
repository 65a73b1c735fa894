"""Do a level's repeats agree, and does it stand where the level before it lets one expect? What rules out a cause."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from genreport.figures.book import Absent, Book
from genreport.figures.layout import LevelView
from genreport.rounds import Level
from genreport.words import say

OVER_LOAD = "(ttft / before) / (c / c_before)"
# percentiles whose lowest and highest repeat stand beside them
RANGED = ("ttft.p50", "ttft.p99", "itl.p50")


def enter(book: Book, level: LevelView) -> None:
    """Range of a level's repeats, and how far apart the starts of the engine lie that they ran on."""
    id = level.id
    book.derive(f"{id}.repeat_spread", "share", "(high - low) / x", spread, n=len(level.repeats),
                high=f"{id}.output_throughput.max", low=f"{id}.output_throughput.min", x=f"{id}.output_throughput",
                repeats=f"{id}.repeats")  # fmt: skip
    _ranges(book, level)
    for scope, files in ((level.repeat_id(files), files) for files in level.repeats):
        _start(book, f"{scope}.engine_started", files)
    book.derive(f"{id}.starts_apart", "s", "max(starts) - min(starts)", lambda starts: np.ptp(starts),
                n=len(level.repeats), starts=level.ids("engine_started"))  # fmt: skip


def _ranges(book: Book, level: LevelView) -> None:
    """The lowest and the highest repeat of what is shown with a range."""
    for statistic in RANGED:
        ids = level.ids(statistic)
        for name, extreme in (("min", min), ("max", max)):
            book.derive(f"{level.id}.{statistic}.{name}", "s", f"{name}(repeats)",
                        lambda repeats, extreme=extreme: extreme(repeats), n=len(ids),
                        repeats=book.observed(ids) or ids)  # fmt: skip


def spread(high: float, low: float, x: float, repeats: float) -> float:
    """Range of the repeats' throughput as a share of the level's."""
    if repeats < 2:
        raise Absent(say("missing.one_repeat"))
    return (high - low) / x


def _start(book: Book, id: str, files: Level) -> None:
    """When the engine was started that a repeat ran on, by the wall clock."""
    launch = files.facts.launch
    if launch not in book.round.launches:
        book.missing(id, "s", "field / 1e6", say("missing.not_recorded"))
        return
    book.pointer(id, "s", book.round.launch_file(launch), "/started_unix_us", formula="field / 1e6",
                 function=lambda us: us / 1e6)  # fmt: skip


def enter_sweep(book: Book, levels: Sequence[LevelView]) -> None:
    """Growth of TTFT over that of the load, and of ITL, from the level before; both medians."""
    for before, level in zip((None, *levels), levels, strict=False):
        id = level.id
        if before is None:
            book.missing(f"{id}.ttft_over_load", "ratio", OVER_LOAD, say("missing.first_level"))
            book.missing(f"{id}.itl_over_before", "ratio", "itl / before", say("missing.first_level"))
            continue
        book.derive(f"{id}.ttft_over_load", "ratio", OVER_LOAD, over_load, ttft=f"{id}.ttft.p50",
                    before=f"{before.id}.ttft.p50", c=f"{id}.concurrency", c_before=f"{before.id}.concurrency")  # fmt: skip
        book.derive(f"{id}.itl_over_before", "ratio", "itl / before", lambda itl, before: itl / before,
                    itl=f"{id}.itl.p50", before=f"{before.id}.itl.p50")  # fmt: skip


def over_load(ttft: float, before: float, c: float, c_before: float) -> float:
    """How much faster TTFT grew than the load; 1 = in proportion."""
    return (ttft / before) / (c / c_before)
