"""All figures of a round: records become plain frames, and each number enters the ledger with where it came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from genreport.figures import (
    anatomy,
    arriving,
    arriving_time,
    capacity,
    client,
    cliff,
    counters,
    crossing,
    effects,
    flags,
    graphs,
    guide,
    kv,
    latency,
    layout,
    length,
    memory,
    power,
    repeats,
    roofline,
    samples,
    scaling,
    selection,
    soaking,
    steady,
    sweep,
    talking,
    throughput,
    waves,
)
from genreport.figures.book import Book
from genreport.figures.flags import Flag
from genreport.figures.layout import EngineView, Finding, LevelView, TestView, engine_scope, kind_of
from genreport.figures.limits import Limit
from genreport.places import Listings
from genreport.provenance import Ledger
from genreport.rounds import MACHINE, Round

__all__ = ["EngineView", "Figures", "Finding", "Flag", "LevelView", "Limit", "TestView", "compute", "engines_of"]


@dataclass(frozen=True)
class Figures:
    """A round's ledger with the layout that reports walk: tests and engines in plan order, the baseline first.

    `given` are service levels beside those of the plan; `shown` are the tests with the levels that pages show; `palette`
    are the engines of all rounds of the site, in the order of their colours.
    """

    round: Round
    ledger: Ledger
    tests: tuple[TestView, ...]
    engines: tuple[str, ...]
    starts: tuple[EngineView, ...]
    flags: tuple[Flag, ...]
    findings: tuple[Finding, ...]
    given: tuple[Limit, ...] = ()
    shown: tuple[TestView, ...] = ()
    palette: tuple[str, ...] = ()

    @property
    def colours(self) -> dict[str, str]:
        """The place of each engine's colour, "1" the first; an engine has the same one in all rounds of a site."""
        return {engine: str(place) for place, engine in enumerate(dict.fromkeys((*self.palette, *self.engines)), 1)}

    @property
    def sweep(self) -> TestView | None:
        """The first concurrency sweep, which most pages are about."""
        return next((test for test in self.tests if test.kind == "concurrency"), None)

    @property
    def for_pages(self) -> Figures:
        """The same with no more levels than pages can show, and the flags of those."""
        left = {level.id for test in self.tests for levels in test.levels.values() for level in levels}
        left -= {level.id for test in self.shown for levels in test.levels.values() for level in levels}
        return replace(self, tests=self.shown, flags=tuple(flag for flag in self.flags if flag.scope not in left))

    @cached_property
    def listings(self) -> Listings:
        """Where the lines of the round's files are listed."""
        return Listings(self.round.unpacked)


def engines_of(rounds: Sequence[Round]) -> tuple[str, ...]:
    """Every engine of these rounds once, those of the earliest round first."""
    in_time = sorted(rounds, key=lambda round: (round.head.started_unix_us, round.name))
    return tuple(dict.fromkeys(view.engine for round in in_time for view in layout.engines(round)))


def compute(
    round: Round, given: Sequence[Limit] = (), *, resampled: bool = False, palette: Sequence[str] = ()
) -> Figures:
    """Every figure of a round; what a round lacks is missing with its reason, never an error.

    `given` are service levels beside those of the plan; `resampled`: also the errors that a comparison needs as a second
    opinion.
    """
    book, findings = Book(round), []
    for name, unit, pointer in (("cores", "count", "/cores"), ("memory", "bytes", "/memory_bytes"),
                                ("l3", "bytes", "/l3_bytes")):  # fmt: skip
        book.pointer(f"machine.{name}", unit, MACHINE, pointer)
    client.ceiling(book)
    starts = layout.engines(round)
    for engine in starts:
        capacity.enter(book, engine)
        memory.enter(book, engine)
        kv.enter_engine(book, engine)
    names = [engine.id for engine in starts if engine.id == engine.engine]
    wanted = repeats.wanted(round.plan, given)
    kept = [level for level in layout.levels(round) if _level(book, level, starts, findings, wanted, resampled)]
    tests = layout.tests(kept, names)
    raised = [flag for test in tests for flag in _test(book, test, starts, given)]
    cliff.enter(book, tests, starts)
    length.enter(book, tests, lambda level: engine_scope(starts, level))
    guide.enter(book, tests, starts, given)
    for engine in starts:
        own = [level for level in kept if engine_scope(starts, level) == f"engine.{engine.id}"]
        memory.enter_measured(book, engine, own)
        raised += flags.of_engine(book, engine, own)
    return Figures(
        round, book.ledger, tuple(tests), tuple(names), tuple(starts), tuple(raised), tuple(findings), tuple(given),
        shown=selection.enter(book, tests), palette=tuple(palette),
    )  # fmt: skip


def _level(
    book: Book, light: LevelView, starts: Sequence[EngineView], findings: list[Finding], wanted: dict[str, list[str]],
    resampled: bool,
) -> bool:  # fmt: skip
    """Enters the figures of one level; its requests are let go of afterwards."""
    level = layout.loaded(book.round, light, findings)
    if level is None:
        return False
    launch = book.round.launches.get(level.repeats[0].facts.launch)
    kind, engine = kind_of(book.round, level), engine_scope(starts, level)
    throughput.enter(book, level)
    latency.enter(book, level)
    repeats.enter(book, level, wanted, resampled=resampled)
    counters.enter(book, level, kind)
    graphs.enter(book, level, kind)
    samples.enter(book, level, kind, f"{engine}.pool_tokens", findings)
    client.enter(book, level)
    roofline.enter(book, level, engine)
    anatomy.enter(book, level, kind)
    power.enter(book, level)
    kv.enter_level(book, level, kind, engine)
    length.enter_level(book, level)
    steady.enter(book, level)
    arriving.enter(book, level)
    arriving_time.enter(book, level)
    talking.enter(book, level)
    soaking.enter(book, level, kind, launch is not None and launch.command is not None)
    return True


def _test(book: Book, test: TestView, starts: Sequence[EngineView], given: Sequence[Limit]) -> list[Flag]:
    _totals(book, test)
    raised = []
    for engine in test.engines:
        levels = test.levels_of(engine)
        sweep = test.kind == "concurrency"
        if sweep:
            _sweep(book, f"{test.id}.{engine}", levels, engine_scope(starts, levels[0]))
        for before, level in zip((None, *levels), levels, strict=False):
            raised += flags.of_level(book, level, before if sweep else None)
    for challenger in test.engines[1:]:
        crossing.enter_pair(book, test, test.engines[0], challenger)
    if test.kind == "open":
        arriving.enter_limits(book, test, given)
    if test.kind == "concurrency":
        waves.enter_lanes(book, test)
        effects.enter(book, test, {facts.engine: facts for facts in reversed(book.round.launches.values())})
    return raised


def _totals(book: Book, test: TestView) -> None:
    """What the whole test took: levels, repeats of each at most, requests completed and failed."""
    levels = [level.id for engine in test.engines for level in test.levels_of(engine)]
    for name, formula, function, figure in (
        ("levels", "count(levels)", len, "completed"),
        ("repeats", "max(levels)", max, "repeats"),
        ("completed", "sum(levels)", sum, "completed"),
        ("failed", "sum(levels)", sum, "failed"),
    ):
        book.derive(f"test.{test.id}.{name}", "count", formula, lambda levels, function=function: function(levels),
                    levels=[f"{id}.{figure}" for id in levels])  # fmt: skip


def _sweep(book: Book, scope: str, levels: tuple[LevelView, ...], engine: str) -> None:
    scaling.enter_levels(book, levels)
    scaling.enter_sweep(book, scope, levels)
    sweep.enter(book, scope, levels)
    steady.enter_sweep(book, levels)
    anatomy.enter_sweep(book, scope, levels)
    roofline.enter_sweep(book, scope, levels, engine)
    crossing.enter_walls(book, scope, levels)
