"""Levels that are flagged, or that do not stand where the others let one expect: what was seen, what the data rules out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from genreport.figures import Figures, LevelView, TestView
from genreport.figures.flags import FLIGHT, LAG, PREFIX_HITS, SPREAD_OF_ONE

# repeats whose throughput differs by more than this share of the level's do not agree
UNSTEADY = 0.10
# TTFT p50 that grows more than this many times as fast as the load
JUMP = 2.0
# shares of reused graphs that differ by more than this between repeats
REUSE_APART = 0.5
# flags that name a cause by themselves
CAUSE_OF = {
    "client_lag": "client",
    "client_limit": "client",
    "slept": "client",
    "failed": "failed",
    "short": "short",
    "prefix_cache": "prefix",
    "restarted": "restart",
    "in_flight": "load",
}


@dataclass(frozen=True)
class Seen:
    """One thing about a level that needs an explanation, and the figures that show it."""

    kind: str
    figures: tuple[str, ...]


@dataclass(frozen=True)
class Cause:
    """A possible cause: the figure that speaks about it, and whether that rules it `out`, or `in`, or is `unknown`."""

    figure: str
    verdict: str


@dataclass(frozen=True)
class Anomaly:
    """A level of one engine that needs an explanation; `decide`: what would give one, causes still in first."""

    engine: str
    level: str
    seen: tuple[Seen, ...]
    causes: dict[str, Cause]
    decide: tuple[str, ...]


def found(figures: Figures, test: TestView, engines: Sequence[str]) -> list[Anomaly]:
    """Every anomaly of these engines' levels, in the order of engines and load."""
    pairs = [pair for engine in engines for pair in _after(test.levels_of(engine))]
    return [anomaly for before, level in pairs if (anomaly := _anomaly(figures, level, before))]


def experiments(anomalies: Sequence[Anomaly]) -> list[tuple[str, list[Anomaly]]]:
    """What would decide, each with the levels that it would decide about, in the order of their first need."""
    names = dict.fromkeys(name for anomaly in anomalies for name in anomaly.decide)
    return [(name, [anomaly for anomaly in anomalies if name in anomaly.decide]) for name in names]


def _after(levels: Sequence[LevelView]) -> Iterator[tuple[LevelView | None, LevelView]]:
    """Each level behind the one before it."""
    return zip((None, *levels), levels, strict=False)


def _anomaly(figures: Figures, level: LevelView, before: LevelView | None) -> Anomaly | None:
    flagged = [Seen(flag.kind, flag.figures) for flag in figures.flags if flag.scope == level.id]
    seen = (*flagged, *_unexpected(figures, level.id, before.id if before else None))
    if not seen:
        return None
    causes = dict(_causes(figures, level.id))
    still_in = [name for name, cause in causes.items() if cause.verdict == "in"]
    decide = dict.fromkeys([*still_in, *(CAUSE_OF.get(each.kind, each.kind) for each in seen)])
    return Anomaly(level.engine, level.id, seen, causes, tuple(decide))


def _unexpected(figures: Figures, id: str, before: str | None) -> Iterator[Seen]:
    """What breaks an expectation: repeats agree, TTFT grows with the load, a fuller step is not a shorter one."""
    if (figures.ledger.value(f"{id}.repeat_spread") or 0) > UNSTEADY:
        yield Seen("unsteady", tuple(f"{id}.{name}" for name in ("output_throughput.min", "output_throughput.max",
                                                                 "repeat_spread")))  # fmt: skip
    if before and (figures.ledger.value(f"{id}.ttft_over_load") or 0) > JUMP:
        yield Seen("ttft_jump", (f"{before}.ttft.p50", f"{id}.ttft.p50", f"{id}.ttft_over_load"))
    if before and _shorter(figures, id, before):
        yield Seen("itl_falls", (f"{before}.itl.p50", f"{id}.itl.p50", f"{id}.itl_over_before"))
    low, high = (figures.ledger.value(f"{id}.graph_reuse.{end}") for end in ("min", "max"))
    if low is not None and high is not None and high - low > REUSE_APART:
        yield Seen("reuse_apart", (f"{id}.graph_reuse.min", f"{id}.graph_reuse.max"))


def _shorter(figures: Figures, id: str, before: str) -> bool:
    """Whether every repeat's ITL p50 is below those of the level before; with one repeat, by more than noise may be."""
    if figures.ledger.value(f"{id}.repeat_spread") is None or figures.ledger.value(f"{before}.repeat_spread") is None:
        return (figures.ledger.value(f"{id}.itl_over_before") or 1) < 1 - SPREAD_OF_ONE
    longest, shortest = figures.ledger.value(f"{id}.itl.p50.max"), figures.ledger.value(f"{before}.itl.p50.min")
    return longest is not None and shortest is not None and longest < shortest


def _causes(figures: Figures, id: str) -> Iterator[tuple[str, Cause]]:
    """Every cause that the round can speak about, with its verdict for one level."""
    itl = figures.ledger.value(f"{id}.itl.p50")
    yield "client", _held(figures, f"{id}.client_lag.p99", lambda lag: itl is not None and lag > LAG * itl)
    yield "failed", _held(figures, f"{id}.failed", lambda failed: failed > 0)
    yield "short", _held(figures, f"{id}.short_outputs", lambda short: short > 0)
    yield "prefix", _prefix(figures, id)
    yield "restart", _held(figures, f"{id}.starts_apart", lambda apart: apart > 0)
    yield "load", _held(figures, f"{id}.in_flight_ratio", lambda ratio: ratio < FLIGHT)
    yield "preempted", _held(figures, f"{id}.preemptions", lambda preemptions: preemptions > 0)
    yield "clocks", _held(figures, f"{id}.throttled_share", lambda share: share > 0)


def _held(figures: Figures, figure: str, against) -> Cause:
    value = figures.ledger.value(figure)
    return Cause(figure, "unknown" if value is None else "in" if against(value) else "out")


def _prefix(figures: Figures, id: str) -> Cause:
    """Hits in a prefix cache; a cache that was asked nothing is off."""
    if figures.ledger.value(f"{id}.prefix_hit_share") is None and figures.ledger.value(f"{id}.prefix_queries") == 0:
        return Cause(f"{id}.prefix_queries", "out")
    return _held(figures, f"{id}.prefix_hit_share", lambda share: share > PREFIX_HITS)
