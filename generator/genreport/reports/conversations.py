"""08: what does a turn wait for as a conversation grows?"""

from __future__ import annotations

from dataclasses import dataclass

from genreport.charts.conversations import waits
from genreport.figures import Figures, LevelView, TestView
from genreport.figures.talking import turns_of
from genreport.reports.page import Drawn, Page, repeated, tests_of
from genreport.reports.rows import Row, RowMaker


@dataclass(frozen=True)
class Level:
    """One level: its scope, those of its turns, and whether turns were left unsent."""

    id: str
    turns: tuple[str, ...]
    unsent: bool


@dataclass(frozen=True)
class Talk:
    """One engine's levels by conversations under way; `first` and `last` are the turns compared, of the busiest level."""

    engine: str
    levels: tuple[Level, ...]
    first: str | None
    last: str | None


def pages(figures: Figures) -> list[Page]:
    """A page for each test with conversations, the first at the usual place."""
    return [_page(figures, test, place) for test, place in tests_of(figures, "conversation")]


def _page(figures: Figures, test: TestView, place: str) -> Page:
    talks = [_talk(figures, engine, test.levels_of(engine)) for engine in test.engines]
    context = {
        "test": test,
        "talks": talks,
        "ran": repeated(figures, [level.id for talk in talks for level in talk.levels]),
        "chat": test.levels_of(test.engines[0])[0].repeats[0].facts.chat,
        "flags": [flag for flag in figures.flags if flag.scope.startswith(f"{test.id}.")],
        "charts": Drawn(turns=waits(_drawn(RowMaker(figures), talks))),
    }
    return Page(f"{place}/index.md", "conversations.md", context)


def _drawn(rows: RowMaker, talks: list[Talk]) -> list[Row]:
    """The turns of each engine's lowest and highest level: more lines hide each other."""
    ends = [(talk.engine, level) for talk in talks for level in dict.fromkeys((talk.levels[0], talk.levels[-1]))]
    return [row for engine, level in ends for row in rows.over_turns(engine, level.id, level.turns)]


def _talk(figures: Figures, engine: str, views: tuple[LevelView, ...]) -> Talk:
    levels = tuple(_level(figures, view) for view in views)
    told = [turn for turn in levels[-1].turns if not figures.ledger[f"{turn}.ttft.p50"].missing]
    first, last = (told[0], told[-1]) if told else (None, None)
    return Talk(engine, levels, first, last)


def _level(figures: Figures, view: LevelView) -> Level:
    turns = tuple(f"{view.id}.turn{turn + 1}" for turn in turns_of(view))
    return Level(view.id, turns, bool(figures.ledger[f"{view.id}.unsent"].value))
