"""09: does it hold for hours?"""

from __future__ import annotations

from dataclasses import dataclass

from genreport.charts.soak import memory
from genreport.figures import Figures, TestView
from genreport.figures.soaking import PARTS
from genreport.reports.page import Drawn, Page, repeated, tests_of
from genreport.reports.rows import RowMaker

HOUR_S = 3600


@dataclass(frozen=True)
class Repeat:
    """One repeat of a soak: its scope, its name, those of its parts, the first and the last of them with a known memory."""

    id: str
    name: str
    parts: tuple[str, ...]
    first: str | None
    last: str | None


@dataclass(frozen=True)
class Soak:
    """One engine's soak; `short`: its growth an hour is told by less than an hour."""

    engine: str
    level: str
    repeats: tuple[Repeat, ...]
    short: bool


def pages(figures: Figures) -> list[Page]:
    """A page for each soak, the first at the usual place."""
    return [_page(figures, test, place) for test, place in tests_of(figures, "soak")]


def _page(figures: Figures, test: TestView, place: str) -> Page:
    soaks = [_soak(figures, test, engine) for engine in test.engines]
    drawn = [(soak.engine, part) for soak in soaks for part in soak.repeats[0].parts]
    context = {
        "test": test,
        "soaks": soaks,
        "ran": repeated(figures, [soak.level for soak in soaks]),
        "open": test.levels_of(test.engines[0])[0].concurrency is None,
        "flags": [flag for flag in figures.flags if flag.scope.startswith(f"{test.id}.")],
        "charts": Drawn(memory=memory(RowMaker(figures).over_minutes(drawn, "memory"))),
    }
    return Page(f"{place}/index.md", "soak.md", context)


def _soak(figures: Figures, test: TestView, engine: str) -> Soak:
    (level,) = test.levels_of(engine)
    short = any((repeat.facts.duration_s or 0) < HOUR_S for repeat in level.repeats)
    return Soak(engine, level.id, tuple(_repeat(figures, level.repeat_id(repeat)) for repeat in level.repeats), short)


def _repeat(figures: Figures, id: str) -> Repeat:
    parts = tuple(f"{id}.part{part + 1}" for part in range(PARTS))
    known = [part for part in parts if not figures.ledger[f"{part}.memory"].missing]
    return Repeat(id, id.rpartition(".")[2], parts, known[0] if known else None, known[-1] if known else None)
