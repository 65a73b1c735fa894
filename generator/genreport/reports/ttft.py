"""02: which part of the wait for the first token grows?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from genreport.charts import ttft as charts
from genreport.comparing import Compared, Comparison, LevelPair
from genreport.comparing.hypotheses import Judged
from genreport.figures import Figures
from genreport.figures.anatomy import PARTS, PHASES
from genreport.figures.flags import PREFIX_HITS
from genreport.figures.histograms import PERCENTILES
from genreport.provenance import values
from genreport.reports.page import Drawn, Page
from genreport.reports.rows import Row, RowMaker

# what an engine may tell of its iterations
STEPS = ("iterations", "logged_iterations", "tokens_per_iteration")
# figures by which a sweep is said to be reproduced
REPEATED = ("ttft.p50", "ttft.p99", "output_throughput")
FLAT = 0.1  # a wait that grows by less than this share of itself is said not to grow


@dataclass(frozen=True)
class Again:
    """The sweep beside an earlier round's: a level with its REPEATED figures a row."""

    comparison: Comparison
    rows: tuple[tuple[LevelPair, tuple[Compared | None, ...]], ...]


@dataclass(frozen=True)
class Anatomy:
    """One engine's waits: its levels' scopes in order of C, those between which it is compared, and what is earned.

    `case`: failed, single, undivided, grows, flat or falls. `grown`: the part that grows most (or, of a single level,
    the largest). `queue_case`: queue, work or unknown, at the last level. `blunt`: percentiles in a histogram's first
    bucket. `mixed`: first and last level with a mixed share. `guard`: level -> hits, none, off, idle or unknown.
    """

    engine: str
    scope: str
    kind: str
    levels: tuple[str, ...]
    first: str | None
    last: str | None
    case: str
    grown: str | None
    queue_case: str
    negative: tuple[str, ...]
    histogram: bool
    blunt: frozenset[str]
    stated: tuple[str, ...]
    mixed: tuple[str, ...]
    bounded: bool
    guard: dict[str, str]

    @property
    def compared(self) -> bool:
        """Whether two levels have results, so that a wait can grow from one to the other."""
        return self.first != self.last

    @property
    def cut(self) -> bool:
        """Whether no request succeeded at the first or the last level."""
        return (self.first, self.last) != (self.levels[0], self.levels[-1])


def page(figures: Figures, comparisons: Sequence[Comparison] = (), judged: Sequence[Judged] = ()) -> Page:
    """The page of the round's first concurrency sweep; without one, the page says how to measure it."""
    test = figures.sweep
    found = [_anatomy(figures, test, engine) for engine in test.engines if test.levels_of(engine)] if test else []
    context = _context(figures, test, found) | {"test": test, "again": [_again(c, test) for c in comparisons if test],
                                                "hypotheses": judged}  # fmt: skip
    return Page("ttft/index.md", "ttft.md", context)


def _again(comparison: Comparison, test: Any) -> Again:
    """The levels of this sweep that an earlier round has as well, each with its TTFT and its throughput."""
    own = [level for level in comparison.levels if level.new is not None and level.new.test == test.id]
    rows = [(level, {c.figure: c for c in level.figures}) for level in own if level.figures]
    return Again(comparison, tuple((level, tuple(known.get(name) for name in REPEATED)) for level, known in rows))


def _context(figures: Figures, test: Any, found: list[Anatomy]) -> dict[str, Any]:
    levels = [(a.engine, level) for a in found for level in a.levels]
    return {
        "waits": found,
        "figure_of": PARTS,
        "stepped": any(_any(figures, (level,), name) for _, level in levels for name in STEPS),
        "powered": any(figures.ledger.value(f"{level}.power") is not None for _, level in levels),
        "flags": [flag for flag in figures.flags if test and flag.scope.startswith(f"{test.id}.")],
        "charts": _charts(figures, found, levels),
    }


def _anatomy(figures: Figures, test: Any, engine: str) -> Anatomy:
    scope = f"{test.id}.{engine}"
    levels = tuple(f"{scope}.{level.name}" for level in test.levels_of(engine))
    known = [level for level in levels if figures.ledger.value(f"{level}.wait") is not None]
    case, grown = _growth(figures, scope, known)
    mixed = [level for level in levels if figures.ledger.value(f"{level}.mixed_share") is not None]
    return Anatomy(
        engine=engine,
        scope=scope,
        kind=_kind(figures, engine),
        levels=levels,
        first=known[0] if known else None,
        last=known[-1] if known else None,
        case=case,
        grown=grown,
        queue_case=_queue_case(figures, known),
        negative=tuple(level for level in known if (figures.ledger.value(f"{level}.front_end") or 0) < 0),
        histogram=any(figures.ledger.value(f"{level}.queue.p50") is not None for level in levels),
        blunt=frozenset(id for level in levels for id in _blunt(figures, level)),
        stated=tuple(part for part in PHASES if _any(figures, levels, f"{part}_stated.mean")),
        mixed=(mixed[0], mixed[-1]) if mixed else (),
        bounded=_any(figures, levels, "mixed_share_bound"),
        guard={level: _guard(figures, level) for level in levels},
    )


def _kind(figures: Figures, engine: str) -> str:
    return next((start.facts.kind for start in figures.starts if start.engine == engine), "openai")


def _growth(figures: Figures, scope: str, known: list[str]) -> tuple[str, str | None]:
    """Which sentence about growth is earned, and the part it is about."""
    if not known:
        return "failed", None
    if any(figures.ledger.value(f"{level}.front_end") is None for level in {known[0], known[-1]}):
        return "undivided", None
    if len(known) == 1:
        return "single", max(PARTS, key=lambda part: figures.ledger.value(f"{known[0]}.{PARTS[part]}"))
    grown = max(PARTS, key=lambda part: figures.ledger.value(f"{scope}.{part}_growth"))
    growth, before = figures.ledger.value(f"{scope}.wait_growth"), figures.ledger.value(f"{known[0]}.wait")
    if growth < -FLAT * before:
        return "falls", grown
    return ("grows" if growth > FLAT * before else "flat"), grown


def _queue_case(figures: Figures, known: list[str]) -> str:
    """Whether most of the wait at the last level is spent before the engine takes the prompt up."""
    share = figures.ledger.value(f"{known[-1]}.queued_share") if known else None
    return "unknown" if share is None else "queue" if share > 0.5 else "work"


def _blunt(figures: Figures, level: str) -> Iterable[str]:
    """Percentiles of which the histogram says only that they lie below its first bound."""
    for id in (f"{level}.{phase}.p{q}" for phase in PHASES for q in PERCENTILES):
        q = figures.ledger.get(f"{id}.width")
        if q is not None and not q.missing and q.value == values(figures.ledger[q.inputs["bounds"]])[0]:
            yield id


def _guard(figures: Figures, level: str) -> str:
    """Whether a prefix cache shortened the waits of a level."""
    if not figures.ledger.value(f"{level}.completed"):
        return "idle"
    share, queries = (figures.ledger.value(f"{level}.{name}") for name in ("prefix_hit_share", "prefix_queries"))
    if share is not None:
        return "hits" if share > PREFIX_HITS else "none"
    return "off" if queries == 0 else "unknown"


def _charts(figures: Figures, found: list[Anatomy], levels: list[tuple[str, str]]) -> Drawn:
    rows = RowMaker(figures)
    drawn = {
        "mixed_share": charts.mixed_share(rows.over_load(levels, "mixed_share")),
        "tokens_per_iteration": charts.tokens_per_iteration(rows.over_load(levels, "tokens_per_iteration")),
    }
    for a in found:
        drawn[f"anatomy.{a.engine}"] = charts.anatomy(list(_parts(figures, rows, a)))
    return Drawn((name, chart) for name, chart in drawn.items() if chart is not None)


def _parts(figures: Figures, rows: RowMaker, a: Anatomy) -> Iterable[Row]:
    """The parts of every level; where the engine states none, its whole TTFT above the client's queue."""
    for level in a.levels:
        divided = figures.ledger.value(f"{level}.front_end") is not None
        parts = PARTS if divided else {"client_queue": PARTS["client_queue"], "undivided": "ttft.mean"}
        for part, figure in parts.items():
            yield from (row | {"part": part} for row in rows.over_load([(a.engine, level)], figure))


def _any(figures: Figures, levels: Iterable[str], figure: str) -> bool:
    return any(figures.ledger.value(f"{level}.{figure}") is not None for level in levels)
