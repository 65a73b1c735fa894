"""What a round measured: tests, engines and levels in the plan's order; requests are loaded a level at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from genreport.errors import RoundError
from genreport.figures.frames import Table, pooled, table
from genreport.records import LaunchFacts
from genreport.rounds import Level, Round
from genreport.words import say


@dataclass(frozen=True)
class Finding:
    """Something in the evidence that no figure may rest on: where it stands and what is wrong with it."""

    file: str
    line: int | None
    what: str


@dataclass(frozen=True)
class LevelView:
    """One level of a sweep with its repeats; `id` is the scope of its figures, `tables[k]` belongs to `repeats[k]`."""

    id: str
    name: str
    test: str
    kind: str
    engine: str
    concurrency: int | None  # `None` in an open loop
    input: int
    output: int
    repeats: tuple[Level, ...]
    tables: tuple[Table, ...] = field(default=(), repr=False)

    @property
    def open_loop(self) -> bool:
        """Whether requests come when they are due, however many are under way."""
        return self.concurrency is None

    @cached_property
    def measured(self) -> Table:
        """Completed requests of all repeats."""
        return pooled([t.measured for t in self.tables])

    def each(self) -> Iterator[tuple[str, Level, Table]]:
        """(scope, files, requests) of each repeat."""
        for level, rows in zip(self.repeats, self.tables, strict=True):
            yield self.repeat_id(level), level, rows

    def repeat_id(self, level: Level) -> str:
        return f"{self.id}.r{level.facts.repeat}"

    def ids(self, figure: str) -> list[str]:
        """Ids of one figure in every repeat."""
        return [f"{self.repeat_id(level)}.{figure}" for level in self.repeats]


@dataclass(frozen=True)
class TestView:
    """One test: its engines (baseline first, then as planned) and their levels."""

    __test__ = False

    id: str
    kind: str
    engines: tuple[str, ...]
    levels: dict[str, tuple[LevelView, ...]] = field(repr=False)

    def levels_of(self, engine: str) -> tuple[LevelView, ...]:
        return self.levels.get(engine, ())

    def shared(self, a: str, b: str) -> list[tuple[LevelView, LevelView]]:
        """Levels that two engines have in common, by name."""
        others = {level.name: level for level in self.levels_of(b)}
        return [(level, others[level.name]) for level in self.levels_of(a) if level.name in others]


@dataclass(frozen=True)
class EngineView:
    """One start of an engine that figures describe: `id` is the scope after `engine.`, `launch` its folder."""

    id: str
    engine: str
    launch: str
    facts: LaunchFacts


def engines(round: Round) -> list[EngineView]:
    """Each engine's first start in use, baseline first, then the starts that a test has for itself (`engine+test`)."""
    used = {level.facts.launch for level in round.levels}
    known = sorted(round.launches.items(), key=lambda item: item[0] not in used)  # stable: order of start within
    own = {facts.engine: launch for launch, facts in reversed(known) if facts.test is None}
    for launch, facts in known:
        own.setdefault(facts.engine, launch)
    planned = list(dict.fromkeys(key.split("/")[1] for key in round.head.planned))
    ids = sorted(own, key=lambda e: (not round.launches[own[e]].baseline, planned.index(e) if e in planned else 99))
    found = [EngineView(e, e, own[e], round.launches[own[e]]) for e in ids]
    extra = {launch.rsplit("/", 1)[0]: launch for launch, facts in reversed(known) if facts.test is not None}
    return found + [
        EngineView(name, round.launches[launch].engine, launch, round.launches[launch])
        for name, launch in sorted(extra.items())
        if launch not in own.values()
    ]


def engine_scope(starts: Sequence[EngineView], level: LevelView) -> str:
    """Where the figures of the engine's start that served a level stand."""
    folder = level.repeats[0].facts.launch.rsplit("/", 1)[0]
    own = (start.id for start in starts if start.launch.rsplit("/", 1)[0] == folder)
    return f"engine.{next(own, level.engine)}"


def kind_of(round: Round, level: LevelView) -> str:
    """Kind of the engine that served a level."""
    launch = round.launches.get(level.repeats[0].facts.launch)
    return launch.kind if launch else "openai"


def levels(round: Round) -> list[LevelView]:
    """Every level with a sealed repeat, in the plan's order, without its requests."""
    found: dict[tuple[str, str, str], list[Level]] = {}
    for level in round.levels:
        found.setdefault((level.facts.test, level.facts.engine, level.facts.level), []).append(level)
    return [_level(repeats) for repeats in found.values()]


def _level(repeats: list[Level]) -> LevelView:
    facts = repeats[0].facts
    ordered = tuple(sorted(repeats, key=lambda level: level.facts.repeat))
    return LevelView(
        f"{facts.test}.{facts.engine}.{facts.level}", facts.level, facts.test, facts.kind, facts.engine,
        facts.concurrency, facts.shape.input, facts.shape.output, ordered,
    )  # fmt: skip


def loaded(round: Round, level: LevelView, findings: list[Finding]) -> LevelView | None:
    """The level with its requests; a repeat that cannot be read becomes a finding, none left gives `None`."""
    read = []
    for repeat in level.repeats:
        try:
            rows = table(repeat.requests_file, round.requests(repeat))
        except RoundError as error:
            findings.append(Finding(repeat.requests_file, None, error.what))
            continue
        findings += _unsound(rows)
        read.append((repeat, rows))
    if not read:
        return None
    repeats, tables = zip(*read, strict=True)
    return replace(level, repeats=repeats, tables=tables)


def tests(levels: list[LevelView], order: list[str]) -> list[TestView]:
    """Levels by test, the tests in the plan's order."""
    found: dict[str, list[LevelView]] = {}
    for level in levels:
        found.setdefault(level.test, []).append(replace(level, tables=()))
    return [_test(levels, order) for levels in found.values()]


def _unsound(rows: Table) -> Iterator[Finding]:
    for row in (~rows.rows["sound"]).to_numpy().nonzero()[0]:
        why = "finding.unsound" if rows.rows["possible"].iat[row] else "finding.impossible"
        yield Finding(*rows.place(row), say(why))


def _load(level: LevelView) -> tuple[float, int]:
    """What levels rise by: requests in flight, or in an open loop requests a second."""
    arrivals = level.repeats[0].facts.arrivals
    return (arrivals.rate or 0 if arrivals else level.concurrency or 0), level.input


def _test(levels: list[LevelView], order: list[str]) -> TestView:
    found: dict[str, list[LevelView]] = {}
    if levels[0].kind != "cliff":  # a cliff's shapes stand in the plan's order, sweeps rise
        levels = sorted(levels, key=_load)
    for level in levels:
        found.setdefault(level.engine, []).append(level)
    ids = sorted(found, key=lambda e: order.index(e) if e in order else len(order))
    return TestView(levels[0].test, levels[0].kind, tuple(ids), {e: tuple(found[e]) for e in ids})
