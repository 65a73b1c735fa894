"""What changed since an earlier round? One page for each round that a build compares with."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from genreport.charts import against as charts
from genreport.comparing import FAMILIES, Compared, Comparison, Difference, Exact, LevelPair
from genreport.figures.choosing import on_front
from genreport.provenance import Quantity
from genreport.reports.against_choices import SHOWN, chosen, crossed
from genreport.reports.against_rows import Levels, Side, sides, sweep
from genreport.reports.page import Drawn, Page

# what the page counts, in the order of its table
COUNTED = ("regressed", "improved", "equivalent", "inconclusive", "too_few", "not_comparable", "equal", "outside")
CHANGED = ("improved", "regressed")
# states of levels that are not compared
APART = ("different", "failed", "new", "gone")
# rows of figures that one page has room for; what is beyond stands on a page of its test
MOST_ROWS = 100
# the figures that the main table holds for every level, whatever their verdict
MAIN = FAMILIES["main"]
# of the earlier round, beside what the choices need: curves and fronts of its sweep
DRAWN = ("concurrency", "output_throughput", "ttft.p99", "itl.p50", "itl.p99", "itl_ecdf")


@dataclass(frozen=True)
class Row:
    """One compared figure of one level, as the tables have it."""

    level: LevelPair
    figure: Compared

    @property
    def engine(self) -> str:
        return (self.level.new or self.level.old).engine

    @property
    def test(self) -> str:
        return (self.level.new or self.level.old).test

    @property
    def kind(self) -> str:
        return (self.level.new or self.level.old).kind

    @property
    def name(self) -> str:
        return (self.level.new or self.level.old).name


@dataclass(frozen=True)
class Said:
    """One engine in the sentence on top.

    `case`: `better`, `worse`, `mixed`; `steady` (nothing changed by more than the margin), `open` (cannot be told), `few`
    (too few repeats), `apart` (nothing of it can be compared). `best` and `worst` are its most important changes.
    """

    engine: str
    case: str
    best: Row | None = None
    worst: Row | None = None


@dataclass(frozen=True)
class Part:
    """Figures of one test on a page of their own, or what another such page has no room for (`continued`)."""

    slug: str
    test: str
    continued: bool
    rows: tuple[Row, ...]


def borrow(c: Comparison) -> None:
    """Takes into this round's ledger what the page shows of the earlier round beyond the compared figures."""
    for id in [q.id for q in c.old.ledger if SHOWN.fullmatch(q.id)]:
        c.borrow(id)
    for _, scope in sweep(c.old):
        for figure in DRAWN:
            c.borrow(f"{scope}.{figure}")


def ranked(c: Comparison) -> list[Row]:
    """Every compared figure of every level, the most important first."""
    return [Row(level, figure) for level, figure in c.ranked()]


def pages(c: Comparison, judged: Sequence[Any] = ()) -> list[Page]:
    """The page of one comparison, and one for each test whose figures it has no room for."""
    rows = ranked(c)
    main = [row for row in rows if row.figure.verdict in CHANGED or row.figure.figure in MAIN][:MOST_ROWS]
    rest = _rest(rows, main)
    folder = f"against-{c.slug}"
    shared = {"c": c, "other": f"other.{c.slug}.", "old_home": f"../{quote(c.name)}/", "folder": folder}
    others = [
        Page(
            f"{folder}/{part.slug}/index.md",
            "against-test.md",
            shared | {"part": part, "rows": part.rows, **_fields(part.rows)},
        )
        for part in rest
    ]
    context = _context(c, rows, judged) | {"rows": main, **_fields(main), "rest": rest}
    return [Page(f"{folder}/index.md", "against.md", shared | context), *others]


def _rest(rows: Sequence[Row], main: Sequence[Row]) -> list[Part]:
    """What the main table leaves out, a page a test, or several where a test has too many."""
    kept, found = {row.figure.scope for row in main}, {}
    for row in rows:
        if row.figure.scope not in kept:
            found.setdefault(row.test, []).append(row)
    return [
        Part(f"{test}-{k // MOST_ROWS + 1}" if k else test, test, k > 0, tuple(some[k : k + MOST_ROWS]))
        for test, some in found.items()
        for k in range(0, len(some), MOST_ROWS)
    ]


def _fields(rows: Sequence[Row]) -> dict[str, list[str]]:
    """What the filter offers, each value once, in the order of the rows."""
    return {
        "verdicts": [verdict for verdict in COUNTED if any(row.figure.verdict == verdict for row in rows)],
        "tests_of": list(dict.fromkeys(row.test for row in rows)),
        "engines_of": list(dict.fromkeys(row.engine for row in rows)),
        "figures_of": list(dict.fromkeys(row.figure.figure for row in rows)),
    }


def _context(c: Comparison, rows: Sequence[Row], judged: Sequence[Any]) -> dict[str, Any]:
    choices = chosen(c)
    return {
        "case": case_of(c),
        "said": list(said_of(c, rows)),
        "turned": [choice for choice in choices if choice.case in ("changed", "gained", "lost")],
        "choices": choices,
        "crossed": crossed(c),
        "under_test": [d for d in c.environment if not d.same and d.topic in ("engine", "flags", "env", "sampling")],
        "changed": [d for d in c.environment if not d.same],
        "changed_at": [(d, _at(c, d.old_at, old=True), _at(c, d.new_at)) for d in c.environment if not d.same],
        "unchanged_of": _grouped(d for d in c.environment if d.same),
        "unfinished": [(f.round.name, f.round.unsealed) for f in (c.old, c.new) if f.round.unsealed],
        "counted": [verdict for verdict in COUNTED if c.new.ledger.value(c.count(verdict))],
        "sharpness": _sharpness(c, rows),
        "judged": [found for found in judged if found.entry.get("against_round") == c.name],
        "apart": {state: [pair for pair in c.levels if pair.state == state] for state in APART},
        "grouped": {state: _together(pair for pair in c.levels if pair.state == state) for state in ("new", "gone")},
        "cautions": [pair for pair in c.levels if pair.doubted],
        "exact": [found for found in _exact(c) if found[-1].verdict == "changed"],
        "exact_equal": any(exact.verdict == "equal" for *_, exact in _exact(c)),
        "lacking": _lacking(c, rows),
        **_drawn(c),
    }


def _together(pairs: Iterable[LevelPair]) -> list[tuple[str, str, list[LevelPair]]]:
    """Levels of one round alone by test and engine."""
    found: dict[tuple[str, str], list[LevelPair]] = {}
    for pair in pairs:
        level = pair.new or pair.old
        found.setdefault((level.test, level.engine), []).append(pair)
    return [(test, engine, levels) for (test, engine), levels in found.items()]


def case_of(c: Comparison) -> str:
    """What the page is about: `same` recording twice, `setting` (another machine), `nothing` in common, or `changes`."""
    if c.same:
        return "same"
    if c.setting:
        return "setting"
    return "changes" if c.failing or any(pair.state == "matched" for pair in c.levels) else "nothing"


def said_of(c: Comparison, rows: Sequence[Row]) -> Iterator[Said]:
    """Each engine of this round that was measured before, its case by the figures of the family."""
    for engine in dict.fromkeys(pair.new for pair in c.engines if pair.new and pair.old):
        own = [row for row in rows if row.engine == engine and row.level.state == "matched"]
        best, worst = (next((row for row in own if row.figure.verdict == v), None) for v in ("improved", "regressed"))
        yield Said(engine, _engine_case({row.figure.verdict for row in own}), best, worst)


def _engine_case(verdicts: set[str]) -> str:
    if {"improved", "regressed"} <= verdicts:
        return "mixed"
    for verdict, case in (
        ("improved", "better"),
        ("regressed", "worse"),
        ("inconclusive", "open"),
        ("equivalent", "steady"),
    ):
        if verdict in verdicts:
            return case
    return "few" if "too_few" in verdicts else "apart"


def _sharpness(c: Comparison, rows: Sequence[Row]) -> tuple[Quantity, Quantity] | None:
    """The smallest and the largest difference in throughput that a level of this pair of rounds would have shown."""
    own = (row for row in rows if row.figure.figure == "output_throughput" and row.level.state == "matched")
    known = [q for row in own if (q := c.new.ledger.get(f"{row.figure.scope}.detectable")) and not q.missing]
    return (min(known, key=lambda q: q.value), max(known, key=lambda q: q.value)) if known else None


def _exact(c: Comparison) -> Iterator[tuple[str, str, Exact]]:
    """Counted figures with the engine and the level that they are of."""
    yield from ((exact.new_id.split(".")[1], "", exact) for exact in c.exact)
    for pair in c.levels:
        yield from ((pair.new.engine, pair.new.name, exact) for exact in pair.exact)


def _lacking(c: Comparison, rows: Sequence[Row]) -> dict[str, list[str]]:
    """Why figures of common levels could not be compared: reason -> the figures."""
    found: dict[str, list[str]] = {}
    for row in rows:
        q = c.new.ledger.get(f"{row.figure.scope}.ratio")
        if row.level.state == "matched" and q is not None and q.missing:
            figures = found.setdefault(q.reason, [])
            figures += [row.figure.figure] if row.figure.figure not in figures else []
    return found


def _at(c: Comparison, place: Any, *, old: bool = False) -> str | None:
    """Where a round states a condition: the line in its listing, from the pages of a comparison."""
    home = f"../../{quote(c.name)}/" if old else "../"
    figures = c.old if old else c.new
    return None if place is None else home + figures.listings.href(place.file, place.line)


def _grouped(found: Iterable[Difference]) -> list[tuple[str, str, list[Difference]]]:
    """Conditions by topic and engine, in their order."""
    groups: dict[tuple[str, str], list[Difference]] = {}
    for d in found:
        groups.setdefault((d.topic, d.scope), []).append(d)
    return [(topic, scope, some) for (topic, scope), some in groups.items()]


# ------------------------------------------------------------------------------------- charts and their tables


def _drawn(c: Comparison) -> dict[str, Any]:
    """The curves of both rounds' sweeps over each other, and the levels whose numbers stand under them."""
    new, old = sides(c)
    levels = ((new, sweep(c.new)), (old, sweep(c.old)))
    top = _top(c)
    drawn = {
        "throughput": charts.throughput([row for side, found in levels for row in side.points(found, "output_throughput")]),
        "wait": charts.wait([row for side, found in levels for row in side.points(found, "ttft.p99")]),
        "fronts": charts.fronts([row for side, found in levels for row in side.fronts(_front(side, found))]),
        "distribution": charts.distribution([
            *new.distribution([(pair.new.engine, pair.new.id) for pair in top]),
            *old.distribution([(pair.old.engine, pair.old.id) for pair in top]),
        ]),
    }  # fmt: skip
    return {
        "charts": Drawn((name, chart) for name, chart in drawn.items() if chart is not None),
        "curves": [pair for pair in c.levels if _of_sweep(c, pair)],
        "top": top,
    }


def _of_sweep(c: Comparison, pair: LevelPair) -> bool:
    return any(level is not None and level.kind == "concurrency" for level in (pair.new, pair.old))


def _top(c: Comparison) -> list[LevelPair]:
    """The highest load of each engine that both rounds measured."""
    found: dict[str, LevelPair] = {}
    for pair in c.levels:
        if pair.new and pair.old and _of_sweep(c, pair):
            before = found.get(pair.new.engine)
            if before is None or pair.new.concurrency > before.new.concurrency:
                found[pair.new.engine] = pair
    return list(found.values())


def _front(side: Side, levels: Levels) -> Levels:
    """Those levels that are on their engine's front, by rising wait."""
    test = side.figures.sweep
    kept = (
        [(e, level.id) for e in test.engines for level in on_front(side.figures.ledger, test.levels_of(e))]
        if test
        else []
    )
    return [level for level in kept if level in levels]
