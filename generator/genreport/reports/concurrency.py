"""01: how much throughput, at what price in latency?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from genreport import charts
from genreport.figures import Figures
from genreport.provenance import Quantity
from genreport.reports.page import Drawn, Page
from genreport.reports.rows import RowMaker

PERCENTILES = ("p50", "p90", "p99")


@dataclass(frozen=True)
class Sweep:
    """One engine's curve: its levels' scopes in order of C and what the sweep says as a whole."""

    engine: str
    levels: tuple[str, ...]
    first: str
    last: str
    best: Quantity | None
    best_level: str | None
    knee: Quantity
    knee_case: str  # inside, at_start, beyond, unknown
    walls: Quantity
    usl: dict[str, Quantity]


def page(figures: Figures) -> Page:
    """The page of the round's first concurrency sweep; without one, the page says how to measure it."""
    test = next((test for test in figures.tests if test.kind == "concurrency"), None)
    if test is None:
        return Page("concurrency/index.md", "not-measured.md", {"kind": "concurrency", "number": "01"})
    sweeps = [_sweep(figures, test, engine) for engine in test.engines if test.levels_of(engine)]
    return Page("concurrency/index.md", "concurrency.md", _context(figures, test, sweeps))


def _context(figures: Figures, test: Any, sweeps: list[Sweep]) -> dict[str, Any]:
    return {
        "test": test,
        "sweeps": sweeps,
        "winner": max((s for s in sweeps if s.best), key=lambda s: s.best.value, default=None),
        "percentiles": PERCENTILES,
        "flags": [flag for flag in figures.flags if flag.scope.startswith(f"{test.id}.")],
        "charts": _charts(figures, sweeps),
    }


def _sweep(figures: Figures, test: Any, engine: str) -> Sweep:
    fig, scope = figures.ledger.get, f"{test.id}.{engine}"
    levels = tuple(f"{scope}.{level.name}" for level in test.levels_of(engine))
    measured = [level for level in levels if not fig(f"{level}.output_throughput").missing]
    best = max(measured, key=lambda level: fig(f"{level}.output_throughput").value, default=None)
    knee = fig(f"{scope}.knee")
    return Sweep(
        engine=engine,
        levels=levels,
        first=levels[0],
        last=levels[-1],
        best=fig(f"{best}.output_throughput") if best else None,
        best_level=best,
        knee=knee,
        knee_case=_knee_case(knee, fig(f"{levels[0]}.concurrency")),
        walls=fig(f"{scope}.walls_cross"),
        usl={name: fig(f"{scope}.usl_{name}") for name in ("lambda", "sigma", "kappa", "peak", "residual")},
    )


def _knee_case(knee: Quantity, first: Quantity) -> str:
    if knee.missing:
        return "beyond" if "above" in (knee.reason or "") else "unknown"
    return "at_start" if knee.value <= first.value else "inside"


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
