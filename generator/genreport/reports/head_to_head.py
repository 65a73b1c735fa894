"""05: what does the challenger save, and where does it lose it? One page per challenger against the baseline."""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

from genreport import charts
from genreport.figures import Figures
from genreport.provenance import Quantity
from genreport.reports.page import Drawn, Page
from genreport.reports.rows import RowMaker

EQUAL = 0.02  # logs of ratios this close to 0 mean "the same"
GROUPS = ("embedding", "attention", "mlp", "norm", "output", "other")


@dataclass(frozen=True)
class Pairing:
    """One level of both engines side by side and who wins it, by throughput and by each TTFT percentile."""

    name: str
    base: str
    other: str
    ratio: Quantity | None
    winners: dict[str, str | None]


def pages(figures: Figures) -> list[Page]:
    """A page for each engine that shares a concurrency sweep with the baseline."""
    test = next((test for test in figures.tests if test.kind == "concurrency" and len(test.engines) > 1), None)
    if test is None:
        return [Page("head-to-head/index.md", "not-measured.md", {"kind": "head-to-head", "number": "05"})]
    base, *challengers = test.engines
    return [_page(figures, test, base, challenger) for challenger in challengers]


def _page(figures: Figures, test: Any, base: str, other: str) -> Page:
    pairs = _pairs(figures, test, base, other)
    scope = f"pair.{test.id}.{base}.{other}"
    context = {
        "test": test,
        "base": base,
        "other": other,
        "scope": scope,
        "pairs": pairs,
        "crossings": _crossings(figures, scope),
        "first": pairs[0] if pairs else None,
        "last": pairs[-1] if pairs else None,
        "groups": _groups(figures, base, other),
        "flags": [f for f in figures.flags if f.scope.startswith((f"{test.id}.{base}.", f"{test.id}.{other}."))],
        "charts": _charts(figures, test, base, other, pairs),
        "predicted_case": _predicted_case(figures, scope),
    }
    return Page(f"head-to-head-{other}/index.md", "head-to-head.md", context)


def _pairs(figures: Figures, test: Any, base: str, other: str) -> list[Pairing]:
    shared = {level.name for level in test.levels_of(other)}
    return [_pair(figures, test, base, other, level.name) for level in test.levels_of(base) if level.name in shared]


def _pair(figures: Figures, test: Any, base: str, other: str, name: str) -> Pairing:
    a, b = f"{test.id}.{base}.{name}", f"{test.id}.{other}.{name}"
    better = {"output_throughput": max, "ttft.p50": min, "ttft.p99": min, "e2el.p95": min, "itl.p50": min}
    return Pairing(
        name=name,
        base=a,
        other=b,
        ratio=figures.ledger.get(f"pair.{test.id}.{base}.{other}.ratio_{name}"),
        winners={figure: _winner(figures, figure, best, {base: a, other: b}) for figure, best in better.items()},
    )


def _winner(figures: Figures, figure: str, best: Any, scopes: dict[str, str]) -> str | None:
    found = {engine: figures.ledger.get(f"{scope}.{figure}") for engine, scope in scopes.items()}
    if any(q is None or q.missing for q in found.values()):
        return None
    if len({q.value for q in found.values()}) == 1:
        return None
    return best(found, key=lambda engine: found[engine].value)


def _crossings(figures: Figures, scope: str) -> list[Quantity]:
    found = (figures.ledger.get(f"{scope}.cross{k}") for k in range(1, 10))
    return [q for q in found if q is not None]


def _groups(figures: Figures, base: str, other: str) -> list[str]:
    def known(group: str) -> bool:
        found = (figures.ledger.get(f"engine.{engine}.bytes_{group}") for engine in (base, other))
        return any(q is not None and not q.missing for q in found)

    return [group for group in GROUPS if known(group)]


def _predicted_case(figures: Figures, scope: str) -> str:
    """How the step ratio that the bytes predict stands to the one measured.

    First word: what the challenger reads per step (equal, saves, costs); second: what became of it.
    """
    predicted, measured = (figures.ledger.get(f"{scope}.{name}_step_ratio") for name in ("predicted", "measured"))
    if predicted is None or measured is None or predicted.missing or measured.missing:
        return "unknown"
    p, m = log(predicted.value), log(measured.value)
    if abs(p) <= EQUAL:
        return "equal same" if abs(m) <= EQUAL else "equal faster" if m > 0 else "equal slower"
    if p > 0:
        return "saves lost" if m <= 0 else "saves partly" if m < p else "saves more"
    return "costs nothing" if m >= 0 else "costs time"


def _charts(figures: Figures, test: Any, base: str, other: str, pairs: list[Pairing]) -> Drawn:
    rows = RowMaker(figures)
    levels = [(engine, getattr(pair, side)) for engine, side in ((base, "base"), (other, "other")) for pair in pairs]
    drawn = {
        "throughput": charts.throughput(
            rows.over_load(levels, "output_throughput", spread=True),
            crossings=[q for q in _crossings(figures, f"pair.{test.id}.{base}.{other}") if not q.missing],
        ),
        "ratio": charts.ratio(rows.ratios(pairs), base, other),
        "bytes": charts.byte_account(rows.byte_groups((base, other), _groups(figures, base, other))),
        "floor": charts.floor(rows.floors(levels)),
        "attainment": charts.attainment(rows.over_load(levels, "attainment")),
    }
    return Drawn((name, chart) for name, chart in drawn.items() if chart is not None)
