"""Main figures over many rounds of one kind, and where they changed: the home of a nightly run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from urllib.parse import quote

from genreport.charts import history as charts
from genreport.comparing import FAMILIES, Comparison, Difference, LevelPair
from genreport.comparing.lineage import setting
from genreport.display import shown
from genreport.figures import Figures, LevelView
from genreport.places import derivation_href
from genreport.provenance import Quantity
from genreport.reports.against import Row, ranked
from genreport.reports.page import Drawn, Page
from genreport.reports.rows import Row as ChartRow

# what is followed over time, at the lowest and the highest load of the newest round's sweep
FIGURES = ("output_throughput", "ttft.p99", "itl.p50")
# rounds on one page; earlier ones are in the site, and left out here
MOST_ROUNDS = 40
# changes of one round that its entry names; its comparison has them all
MOST_CHANGES = 4
# conditions of a recording that can be why a figure changed; a plan's own keys cannot
CAUSES = ("machine", "system", "tool", "engine", "model", "flags", "env", "sampling")


@dataclass(frozen=True)
class Entry:
    """One round of a history with its comparisons with earlier ones: the nearest first, none for the first of its kind."""

    figures: Figures
    comparisons: tuple[Comparison, ...] = ()

    @property
    def name(self) -> str:
        return self.figures.round.name


@dataclass(frozen=True)
class Point:
    """One level in one round: which line it is on, and how it was compared with the point before."""

    entry: Entry
    level: LevelView
    line: int
    comparison: Comparison | None = None
    pair: LevelPair | None = None


@dataclass(frozen=True)
class Changed:
    """What changed in one round: the comparison that tells it, the most important figures, and what was changed around it."""

    entry: Entry
    comparison: Comparison
    rows: tuple[Row, ...]
    more: bool
    causes: tuple[Difference, ...]


class History:
    """Rounds in time as the newest one tells of them: their figures stand in its ledger as borrowed ones."""

    def __init__(self, entries: Sequence[Entry], borrow) -> None:
        self.entries, self.newest = list(entries)[-MOST_ROUNDS:], entries[-1]
        self.left_out = len(entries) > MOST_ROUNDS
        self._borrow = borrow
        self.points = list(self._points())

    def id(self, entry: Entry, figure: str) -> str | None:
        """A figure of a round as it is called in the newest one's ledger, borrowed at the first call."""
        if entry.figures is self.newest.figures:
            return figure
        return self._borrow(entry.figures, figure)

    def get(self, entry: Entry, figure: str) -> Quantity | None:
        """The figure itself, in the newest round's ledger."""
        id = self.id(entry, figure)
        return None if id is None else self.newest.figures.ledger.get(id)

    def _points(self) -> Iterator[Point]:
        """Every level of every round on its line; a level that no earlier round has begins one."""
        lines: dict[tuple[str, str], int] = {}
        for entry in self.entries:
            pairs = {p.new.id: (c, p) for c in reversed(entry.comparisons) for p in c.levels if p.state == "matched"}
            for level in _levels(entry.figures):
                comparison, pair = pairs.get(level.id, (None, None))
                before = lines.get((comparison.name, pair.old.id)) if comparison else None
                line = lines[entry.name, level.id] = len(lines) if before is None else before
                yield Point(entry, level, line, *((comparison, pair) if before is not None else ()))

    def loads(self) -> list[int]:
        """The lowest and the highest load of the newest round's sweep."""
        found = sorted({level.concurrency for level in _levels(self.newest.figures) if level.kind == "concurrency"})
        return sorted({found[0], found[-1]}) if found else []

    def at(self, load: int) -> list[Point]:
        """Points of all sweeps at one load."""
        return [p for p in self.points if p.level.kind == "concurrency" and p.level.concurrency == load]

    def engines(self) -> dict[str, str]:
        """The place of each engine's colour, of any of the rounds."""
        return self.newest.figures.colours

    def changed(self) -> list[Changed]:
        """Rounds with a figure that improved or regressed, the newest first."""
        return [found for entry in reversed(self.entries) for c in entry.comparisons for found in _changed(entry, c)]


def _levels(figures: Figures) -> Iterable[LevelView]:
    return (level for test in figures.tests for engine in test.engines for level in test.levels_of(engine))


def _nearest(entry: Entry) -> dict[str, Comparison]:
    """The comparison that follows each level of a round: the nearest one that has it, however many others do as well."""
    return {p.new.id: c for c in reversed(entry.comparisons) for p in c.levels if p.state == "matched"}


def _changed(entry: Entry, c: Comparison) -> Iterator[Changed]:
    nearest = _nearest(entry)
    rows = [row for row in ranked(c)
            if row.figure.verdict in ("improved", "regressed") and nearest[row.level.new.id] is c]  # fmt: skip
    if rows:
        causes = tuple(d for d in c.environment if not d.same and d.topic in CAUSES)
        named = _named(rows)
        yield Changed(entry, c, tuple(named), len(rows) > len(named), causes)


def _named(rows: Sequence[Row]) -> list[Row]:
    """The most important change of each figure of each engine, the main figures before others."""
    first: dict[tuple[str, str], Row] = {}
    for row in sorted(rows, key=lambda row: row.figure.figure not in FAMILIES["main"]):
        first.setdefault((row.engine, row.figure.figure), row)
    return list(first.values())[:MOST_CHANGES]


def borrow(history: History) -> None:
    """Takes everything that the page shows of earlier rounds into the newest one's ledger."""
    for load in history.loads():
        for point in history.at(load):
            for figure in ("concurrency", *FIGURES):
                history.id(point.entry, f"{point.level.id}.{figure}")
            for row in _verdicts(point):
                history.id(point.entry, f"{row.figure.scope}.verdict")
    for found in history.changed():
        for row in found.rows:
            for name in ("verdict", "ratio", "low", "high", "then", "now"):
                history.id(found.entry, f"{row.figure.scope}.{name}")


def _verdicts(point: Point) -> Iterator[Row]:
    """The followed figures of a point as they were compared with the point before."""
    for figure in point.pair.figures if point.pair else ():
        if figure.figure in FIGURES:
            yield Row(point.pair, figure)


def page(history: History) -> Page:
    """The page in the newest round's folder."""
    charts = {(figure, load): _chart(history, figure, load) for load in history.loads() for figure in FIGURES}
    changes = history.changed()
    latest = [found for found in changes if found.entry is changes[0].entry]
    context = {
        "history": history,
        "rounds": list(reversed(history.entries)),
        "parted": _parted(history),
        "changes": changes,
        "changed_engines": list(dict.fromkeys(row.engine for found in latest for row in found.rows)),
        "loads": [(_load(history, load), _newest_first(history.at(load)), load) for load in history.loads()],
        "verdict_of": {(p.entry.name, p.level.id, row.figure.figure): row for load in history.loads()
                       for p in history.at(load) for row in _verdicts(p)},
        "charts": Drawn((key, chart) for key, chart in charts.items() if chart is not None),
        "figures": FIGURES,
        "colour_class": {name: f"gr-e{(int(place) - 1) % 8 + 1}" for name, place in history.engines().items()},
        "home": lambda entry: f"../../{quote(entry.name)}/",
    }  # fmt: skip
    return Page("history/index.md", "history.md", context)


def _newest_first(points: Sequence[Point]) -> list[Point]:
    """Rounds from the newest on, the engines of each in their order."""
    rounds = list(dict.fromkeys(point.entry.name for point in points))
    return sorted(points, key=lambda point: -rounds.index(point.entry.name))


def _load(history: History, load: int) -> Quantity:
    """The load as a figure of the newest round."""
    level = next(
        level for level in _levels(history.newest.figures) if (level.kind, level.concurrency) == ("concurrency", load)
    )
    return history.newest.figures.ledger[f"{level.id}.concurrency"]


def _parted(history: History) -> dict[str, tuple[Difference, ...]]:
    """Rounds that nothing joins to an earlier one, with what makes their machine another than that of the round before."""
    return {
        after.name: tuple(setting(after.figures, before.figures))
        for before, after in pairwise(history.entries)
        if not after.comparisons
    }


def _chart(history: History, figure: str, load: int):
    return charts.over_rounds(list(_rows(history, figure, load)), [entry.name for entry in history.entries], figure)


def _rows(history: History, figure: str, load: int) -> Iterator[ChartRow]:
    colours = history.engines()
    for point in history.at(load):
        q = history.get(point.entry, f"{point.level.id}.{figure}")
        if q is None or q.missing:
            continue
        verdict = next((row.figure.verdict for row in _verdicts(point) if row.figure.figure == figure), "")
        home = "" if point.entry is history.newest else f"../{quote(point.entry.name)}/"
        yield {
            "engine": point.level.engine, "colour": colours[point.level.engine], "round": point.entry.name,
            "level": point.level.name, "line": letters(point.line), "value": q.value, "value_id": q.id,
            "shown": shown(q.value, q.unit), "verdict": verdict if verdict in ("improved", "regressed") else "",
            "href": home + derivation_href(f"{point.level.id}.{figure}"),
        }  # fmt: skip


def letters(number: int) -> str:
    """A number as letters, a to z, then ba: the name of a line is no number."""
    head, last = divmod(number, 26)
    return (letters(head) if head else "") + chr(ord("a") + last)
