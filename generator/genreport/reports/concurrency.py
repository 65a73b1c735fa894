"""01: how much throughput, at what price in latency?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from genreport import charts
from genreport.figures import Figures, TestView
from genreport.figures.arriving import limit_of, searched
from genreport.figures.scaling import KNEE_ELASTICITY
from genreport.provenance import Quantity
from genreport.reports.kept import Held, found
from genreport.reports.page import Drawn, Page, crewed, repeated
from genreport.reports.rows import RowMaker

PERCENTILES = ("p50", "p90", "p99")
# a fit whose residual is a larger share of the mean throughput says nothing of how the curve runs
POOR = 0.1


@dataclass(frozen=True)
class Sweep:
    """One engine's curve: its levels' scopes in order of C and what the sweep says as a whole.

    `low` and `high`: first and last level at which something completed. `beyond_knee`: the level after the knee.
    `regrown`: the first level after that to which throughput grows again by more than the knee's measure.
    """

    engine: str
    levels: tuple[str, ...]
    held: bool  # whether one request at a time was measured, against which efficiency is held
    first: str
    last: str
    low: str | None
    high: str | None
    best: Quantity | None
    best_level: str | None
    knee: Quantity
    knee_case: str  # inside, at_start, beyond, single, unknown
    beyond_knee: str | None
    regrown: str | None
    walls: Quantity
    walls_case: str  # cross, apart, unknown
    usl: dict[str, Quantity]
    usl_case: str  # before, inside, beyond, falls, levels, linear, poor, unknown

    @property
    def cut(self) -> bool:
        """Whether nothing completed at the first or the last level."""
        return (self.low, self.high) != (self.first, self.last)

    @property
    def ranged(self) -> bool:
        """Whether two levels or more have results, so that one can be held against another."""
        return self.low != self.high


def page(figures: Figures) -> Page:
    """The page of the round's first concurrency sweep; without one, the page says how to measure it."""
    test = figures.sweep
    if test is None:
        return Page("concurrency/index.md", "not-measured.md", {"kind": "concurrency", "number": "01"})
    sweeps = [_sweep(figures, test, engine) for engine in test.engines if test.levels_of(engine)]
    return Page("concurrency/index.md", "concurrency.md", _context(figures, test, sweeps))


def _context(figures: Figures, test: Any, sweeps: list[Sweep]) -> dict[str, Any]:
    levels = [level for sweep in sweeps for level in sweep.levels]
    return {
        "test": test,
        "sweeps": sweeps,
        "ran": repeated(figures, levels),
        "crewed": crewed(figures, levels),
        "winner": max((s for s in sweeps if s.best), key=lambda s: s.best.value, default=None),
        "search": _search(figures, test),
        "percentiles": PERCENTILES,
        "flags": [flag for flag in figures.flags if flag.scope.startswith(f"{test.id}.")],
        "charts": _charts(figures, sweeps),
    }


def _search(figures: Figures, test: TestView) -> Held | None:
    """What the plan's search for the largest load came to."""
    slo = searched(figures.round.plan, test)
    limit = figures.ledger.get(limit_of(test, slo)) if slo else None
    if slo is None or limit is None or limit.missing:
        return None
    engines = (found(figures, engine, test.levels_of(engine), slo.statistic, limit.value) for engine in test.engines)
    return Held(slo, limit, True, tuple(engines))


def _sweep(figures: Figures, test: Any, engine: str) -> Sweep:
    fig, scope = figures.ledger.get, f"{test.id}.{engine}"
    levels = tuple(f"{scope}.{level.name}" for level in test.levels_of(engine))
    measured = [level for level in levels if not fig(f"{level}.output_throughput").missing]
    answered = [level for level in levels if not fig(f"{level}.ttft.p50").missing]
    best = max(measured, key=lambda level: fig(f"{level}.output_throughput").value, default=None)
    knee = fig(f"{scope}.knee")
    usl = {name: fig(f"{scope}.usl_{name}") for name in ("lambda", "sigma", "kappa", "peak", "residual")}
    return Sweep(
        engine=engine,
        levels=levels,
        held=any(not fig(f"{level}.scaling_efficiency").missing for level in levels),
        first=levels[0],
        last=levels[-1],
        low=answered[0] if answered else None,
        high=answered[-1] if answered else None,
        best=fig(f"{best}.output_throughput") if best else None,
        best_level=best,
        knee=knee,
        knee_case=_knee_case(knee, measured, fig),
        beyond_knee=_beyond(knee, measured, fig),
        regrown=_regrown(knee, measured, fig),
        walls=fig(f"{scope}.walls_cross"),
        walls_case=_walls_case(fig(f"{scope}.walls_cross"), levels, fig),
        usl=usl,
        usl_case=_usl_case(usl, *(fig(f"{level}.concurrency").value for level in (levels[0], levels[-1]))),
    )


def _knee_case(knee: Quantity, measured: Sequence[str], fig: Callable[[str], Quantity | None]) -> str:
    if len(measured) < 2:
        return "single" if measured else "unknown"
    if knee.missing:
        return "beyond"
    return "at_start" if knee.value <= fig(f"{measured[0]}.concurrency").value else "inside"


def _beyond(knee: Quantity, measured: Sequence[str], fig: Callable[[str], Quantity | None]) -> str | None:
    """The first level past the knee: what the step to it bought is its elasticity."""
    past = (level for level in measured if not knee.missing and fig(f"{level}.concurrency").value > knee.value)
    return next(past, None)


def _regrown(knee: Quantity, measured: Sequence[str], fig: Callable[[str], Quantity | None]) -> str | None:
    """The first level past the knee to which the step is no longer below it: growth does not stop at the knee."""
    past = (level for level in measured if not knee.missing and fig(f"{level}.concurrency").value > knee.value)
    return next((level for level in past if (fig(f"{level}.elasticity").value or 0) >= KNEE_ELASTICITY), None)


def _usl_case(usl: dict[str, Quantity | None], low: float, high: float) -> str:
    """How the fitted curve runs: to a peak before, `inside` or `beyond` the measured loads, or without one.

    `poor`: it misses the measured points by so much that it tells nothing of them.
    """
    names = ("lambda", "sigma", "kappa", "peak", "residual")
    scale, sigma, kappa, peak, residual = (q and q.value for q in (usl[name] for name in names))
    if scale is None:
        return "unknown"
    if residual is not None and residual > POOR:
        return "poor"
    if peak is not None:
        return "before" if peak < low else "inside" if peak <= high else "beyond"
    if kappa:
        return "falls"
    return "levels" if sigma else "linear"


def _walls_case(cross: Quantity | None, levels: Sequence[str], fig: Callable[[str], Quantity | None]) -> str:
    """Whether the walls cross, stay apart, or cannot be told for want of two levels with both shares."""
    if cross is not None and not cross.missing:
        return "cross"
    known = [level for level in levels if all(fig(f"{level}.{share}").value for share in ("mbu", "mfu"))]
    return "apart" if len(known) > 1 else "unknown"


def _charts(figures: Figures, sweeps: list[Sweep]) -> Drawn:
    rows = RowMaker(figures)
    levels = [(sweep.engine, level) for sweep in sweeps for level in sweep.levels]
    drawn = {
        "throughput": charts.throughput(rows.over_load(levels, "output_throughput", spread=True)),
        "efficiency": charts.efficiency(rows.over_load(levels, "scaling_efficiency")),
        "ttft": charts.latency(rows.percentiles(levels, "ttft", PERCENTILES), "TTFT"),
        "itl": charts.latency(rows.percentiles(levels, "itl", PERCENTILES), "ITL"),
        "e2el": charts.latency(rows.percentiles(levels, "e2el", PERCENTILES), "E2EL"),
    }
    fits = rows.usl_curves((sweep.engine, sweep.levels[0].rpartition(".")[0]) for sweep in sweeps)
    drawn["usl"] = charts.usl(rows.over_load(levels, "output_throughput"), fits) if fits else None
    for sweep in sweeps:
        drawn[f"ecdf.{sweep.engine}"] = charts.ecdf(rows.ecdf([(sweep.engine, level) for level in sweep.levels]))
        drawn[f"walls.{sweep.engine}"] = charts.walls(rows.walls(sweep.engine, sweep.levels), sweep.walls)
    return Drawn((name, chart) for name, chart in drawn.items() if chart is not None)
