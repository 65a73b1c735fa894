"""04: what happens past the KV capacity?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from genreport.charts import cliff as drawings
from genreport.display import shown
from genreport.figures import Figures, LevelView, TestView
from genreport.figures.cliff import by_length, over
from genreport.figures.layout import engine_scope, kind_of
from genreport.figures.samples import LAGS
from genreport.provenance import Lines, Samples
from genreport.reports import cliff_rows
from genreport.reports.page import Drawn, Page

# TTFT above this multiple of what the normal wait and the longer prefill account for: exploded
EXPLODED = 2.0
# ITL p50 above this multiple of the normal shape's: the decode itself is slower
SLOW = 1.25
# KV use from which on the pool counts as full: what is left is too small for another sequence
FULL = 0.9
# p99 sees what touches more gaps than this
HUNDREDTH = 0.01
# as many run as were announced, within this share of it
ON = 0.005
# part of the page -> figures of a shape, one of which its table must have to say anything
SHOWN = {
    "time": ("running.mean", "waiting.mean", "kv_use.mean", "preemptions"),
    "room": ("cliff.fits", "cliff.residency_over_announced"),
    "preemptions": ("preemptions",),
    "wait": ("ttft.mean",),
    "again": ("cliff.recomputed_by_log", "cliff.recomputed_by_counter", "cliff.recomputed_by_iterations"),
}


@dataclass(frozen=True)
class Fall:
    """One longer shape against the normal one: scopes of its figures, and which sentence each part has earned."""

    name: str
    level: str
    over: str
    diagnosis: str  # capacity, both, decode, none, unknown
    beyond: str  # the ratio that decides whether TTFT exploded
    pool: str  # full, spare, unknown
    preemptions: str  # some, none, unknown
    p99: str  # seen, beside, unseen, unknown
    percentile_told: bool  # whether 1 - the share still differs from the whole once it is rounded
    residency: str  # surplus, on, below, at_least, untold, unknown
    recomputed: str  # disagree, agree, one, unknown
    wait: str  # queue, prefill, unknown
    blocks: str  # fewer, same, unknown
    limit: str  # the figure to advise: in whole blocks where these hold fewer


@dataclass(frozen=True)
class Shape:
    """One shape of the test: its name, the scope of its figures, and the repeat that is drawn over time."""

    name: str
    level: str
    repeat: str | None


@dataclass(frozen=True)
class Cliff:
    """One engine's cliff test: its shapes from the shortest on, and the longer ones against the first."""

    test: TestView
    engine: str
    kind: str
    scope: str  # of the figures of the start that served it
    shapes: tuple[Shape, ...]
    falls: tuple[Fall, ...]
    one_launch: bool

    @property
    def normal(self) -> Shape:
        return self.shapes[0]


def page(figures: Figures) -> Page:
    """The page of every cliff test of the round; without one, the page says how to measure it."""
    tests = [test for test in figures.tests if test.kind == "cliff"]
    cliffs = [_cliff(figures, test, engine) for test in tests for engine in test.engines]
    context = {
        "cliffs": cliffs,
        "tests": tests,
        "shown": {name: _any(figures, cliffs, names) for name, names in SHOWN.items()}
        | {
            "logged": any(
                _logged(figures, level) for test in tests for e in test.engines for level in test.levels_of(e)
            )
        },
        "engines": list(dict.fromkeys(cliff.engine for cliff in cliffs)),
        "falls": [(cliff, fall) for cliff in cliffs for fall in cliff.falls],
        "flags": [flag for flag in figures.flags if flag.scope.startswith(tuple(f"{test.id}." for test in tests))],
        "charts": _charts(figures, cliffs),
    }
    return Page("cliff/index.md", "cliff.md", context)


def _any(figures: Figures, cliffs: Sequence[Cliff], names: Sequence[str]) -> bool:
    """Whether any shape has one of these figures: a table of none says nothing."""
    found = (figures.ledger.get(f"{shape.level}.{name}") for c in cliffs for shape in c.shapes for name in names)
    return any(q is not None and not q.missing for q in found)


def _cliff(figures: Figures, test: TestView, engine: str) -> Cliff:
    levels = by_length(test.levels_of(engine))
    normal, *longer = levels
    return Cliff(
        test=test,
        engine=engine,
        kind=kind_of(figures.round, normal),
        scope=engine_scope(figures.starts, normal),
        shapes=tuple(Shape(level.name, level.id, _repeat(figures, level)) for level in levels),
        falls=tuple(_fall(figures, level, normal) for level in longer),
        one_launch=len({repeat.facts.launch for level in levels for repeat in level.repeats}) == 1,
    )


def _repeat(figures: Figures, level: LevelView) -> str | None:
    """Name of the repeat whose samples are drawn, as its folder has it."""
    curve = figures.ledger[f"{level.id}.over_time.running.value"]
    return next((s.file.split("/")[-2] for s in curve.sources if isinstance(s, Samples)), None)


def _logged(figures: Figures, level: LevelView) -> bool:
    """Whether the log of the iterations tells what ran, in any repeat."""
    means = (figures.ledger[id] for id in level.ids("running.mean"))
    return any(isinstance(source, Lines) for mean in means for source in mean.sources)


def _fall(figures: Figures, level: LevelView, normal: LevelView) -> Fall:
    tell = _Teller(figures, level.id, over(level, normal))
    return Fall(
        name=level.name,
        level=level.id,
        over=tell.over,
        diagnosis=tell.diagnosis(),
        beyond=f"{tell.over}.{tell.beyond()}",
        pool=tell.pool(),
        preemptions=tell.preemptions(),
        p99=tell.p99(),
        percentile_told=tell.percentile_told(),
        residency=tell.residency(),
        recomputed=tell.recomputed(),
        wait=tell.wait(),
        blocks=tell.blocks(),
        limit=tell.limit(),
    )


@dataclass(frozen=True)
class _Teller:
    """Decides from the figures of one longer shape what may be said of it."""

    figures: Figures
    level: str
    over: str

    def value(self, id: str) -> float | None:
        return self.figures.ledger.value(id)

    def of(self, *names: str) -> list[Any]:
        return [self.value(f"{self.level}.{name}") for name in names]

    def diagnosis(self) -> str:
        """ITL normal and TTFT exploded: queueing for capacity. ITL slow too: the decode itself. Neither: no cliff."""
        ttft, itl = (self.value(f"{self.over}.{name}") for name in (self.beyond(), "itl_p50"))
        if ttft is None or itl is None:
            return "unknown"
        if itl > SLOW:
            return "both" if ttft > EXPLODED else "decode"
        return "capacity" if ttft > EXPLODED else "none"

    def beyond(self) -> str:
        """The ratio that tells an exploded TTFT: against the prefill as stated, else against the prompt's growth.

        The prompt's growth alone takes a whole wait for prefill and so hides a queue; it is for engines that state none.
        """
        stated = self.value(f"{self.over}.ttft_beyond_prefill") is not None
        return "ttft_beyond_prefill" if stated else "ttft_beyond_prompt"

    def pool(self) -> str:
        use, preemptions = self.of("kv_use.max", "preemptions")
        if preemptions or (use or 0) >= FULL:
            return "full"
        return "unknown" if use is None else "spare"

    def preemptions(self) -> str:
        (counted,) = self.of("preemptions")
        return "unknown" if counted is None else "some" if counted else "none"

    def p99(self) -> str:
        """Whether the preempted gaps, or those of the sequences beside them, reach the slowest hundredth."""
        share, touched = self.of("cliff.preemption_share", "cliff.touched_share")
        if not share:
            return "unknown"
        if share >= HUNDREDTH:
            return "seen"
        return "beside" if (touched or 0) >= HUNDREDTH else "unseen"

    def percentile_told(self) -> bool:
        (percentile,) = self.of("cliff.percentile")
        return percentile is not None and shown(percentile, "share") != shown(1, "share")

    def residency(self) -> str:
        """What ran against what was announced; a gauge that lags is too low, so it tells a surplus at most."""
        (surplus,) = self.of("cliff.residency_over_announced")
        if surplus is None:
            return "unknown"
        if LAGS in self.figures.ledger[f"{self.level}.running.mean"].notes:
            return "at_least" if surplus >= ON else "untold"
        return "on" if abs(surplus) < ON else "surplus" if surplus > 0 else "below"

    def recomputed(self) -> str:
        log, counter = self.of("cliff.recomputed_by_log", "cliff.recomputed_by_counter")
        if log is None or counter is None:
            return "unknown" if log is counter else "one"
        return "agree" if log == counter else "disagree"

    def wait(self) -> str:
        queue, prefill = self.of("queue.mean", "prefill.mean")
        if queue is None or prefill is None:
            return "unknown"
        return "queue" if queue > prefill else "prefill"

    def blocks(self) -> str:
        whole, plain = self.of("cliff.max_num_seqs_in_blocks", "cliff.max_num_seqs")
        if whole is None or plain is None:
            return "unknown"
        return "fewer" if whole < plain else "same"

    def limit(self) -> str:
        return f"{self.level}.cliff.max_num_seqs" + ("_in_blocks" if self.blocks() == "fewer" else "")


def _charts(figures: Figures, cliffs: Sequence[Cliff]) -> Drawn:
    drawn = {}
    for cliff in cliffs:
        for shape in cliff.shapes:
            rows = cliff_rows.over_time(figures, shape.level)
            drawn[f"time.{shape.level}"] = drawings.over_time(rows, cliff.engine, shape.name)
        for fall in cliff.falls:
            rows = cliff_rows.ratios(figures, cliff.engine, fall.over)
            drawn[f"ratios.{fall.level}"] = drawings.ratios(rows, cliff.engine, fall.name, cliff.normal.name)
    return Drawn((name, chart) for name, chart in drawn.items() if chart is not None)
