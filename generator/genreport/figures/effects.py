"""Engine or weights? A third engine that shares the kind with one of a pair and the precision with the other splits it.

What the challenger's figure is over the baseline's is a product of two steps through the third: one changes the kind of
engine alone, the other the precision alone. That each step has the same effect from either side is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from genreport.figures.book import Book
from genreport.figures.layout import TestView
from genreport.provenance import Ledger
from genreport.records import LaunchFacts

# figures of a level that are split, under the names of their ratios
SPLIT = {"ratio": "output_throughput", "ttft_p50_ratio": "ttft.p50", "itl_p50_ratio": "itl.p50"}
PARTS = ("engine", "precision")
MEAN = "exp(mean(log(levels)))"


@dataclass(frozen=True)
class Route:
    """A way from the baseline to the challenger through `third`; `first` says which part its first step changes."""

    third: str
    first: str
    scope: str


def enter(book: Book, test: TestView, facts: Mapping[str, LaunchFacts]) -> None:
    """Both parts of every pair that differs in kind and precision, by every third engine that can split them."""
    base, *others = test.engines
    for other in others:
        for route in routes(test, facts, base, other):
            _route(book, test, base, other, route)


def differs(facts: Mapping[str, LaunchFacts], a: str, b: str) -> str:
    """What two engines differ in: both, engine, precision, settings or unknown."""
    one, other = facts.get(a), facts.get(b)
    if one is None or other is None or None in (one.precision, other.precision):
        return "unknown"
    kind, precision = one.kind != other.kind, one.precision != other.precision
    return "both" if kind and precision else "engine" if kind else "precision" if precision else "settings"


def routes(test: TestView, facts: Mapping[str, LaunchFacts], a: str, b: str) -> list[Route]:
    """At most one way for each order of the steps; a plain engine before a variant of one."""
    if differs(facts, a, b) != "both":
        return []
    thirds = [e for e in test.engines if e not in (a, b) and e in facts]
    thirds.sort(key=lambda e: facts[e].variant_of is not None)
    found = []
    for first, like_base, like_other in (("engine", "precision", "kind"), ("precision", "kind", "precision")):
        third = next((e for e in thirds if _same(facts, e, a, like_base) and _same(facts, e, b, like_other)), None)
        if third:
            found.append(Route(third, first, f"pair.{test.id}.{a}.{b}.via_{third}"))
    return found


def divided(ledger: Ledger, test: TestView, facts: Mapping[str, LaunchFacts], a: str, b: str) -> Route | None:
    """The way that takes engine and precision apart in the decode step of a lone request, if one was measured."""
    ids = [f"step_{name}" for name in (*PARTS, "predicted")]
    known = (route for route in routes(test, facts, a, b) if all(f"{route.scope}.{id}" in ledger for id in ids))
    return next((r for r in known if not any(ledger[f"{r.scope}.{id}"].missing for id in ids)), None)


def _same(facts: Mapping[str, LaunchFacts], one: str, other: str, what: str) -> bool:
    return getattr(facts[one], what) == getattr(facts[other], what)


def _route(book: Book, test: TestView, a: str, b: str, route: Route) -> None:
    names = [level.name for level, _ in test.shared(a, b) if _has(test, route.third, level.name)]
    second = PARTS[1 - PARTS.index(route.first)]
    for ratio, figure in SPLIT.items():
        for name in names:
            scope = {e: f"{test.id}.{e}.{name}.{figure}" for e in (a, b, route.third)}
            _step(book, f"{route.scope}.{ratio}_{route.first}_{name}", scope[route.third], scope[a])
            _step(book, f"{route.scope}.{ratio}_{second}_{name}", scope[b], scope[route.third])
        for part in PARTS:
            _mean(book, f"{route.scope}.{ratio}_{part}", [f"{route.scope}.{ratio}_{part}_{name}" for name in names])

    single = next((one.name for one, _ in test.shared(a, b) if one.concurrency == 1 and one.name in names), None)
    if single:
        _speeds(book, test, route, (a, route.third, b), single)


def _speeds(book: Book, test: TestView, route: Route, way: tuple[str, str, str], name: str) -> None:
    """How many times as fast each part makes the decode step of a lone request, and what the bytes predict of precision."""
    parts = (route.first, PARTS[1 - PARTS.index(route.first)])
    for part, before, after in zip(parts, way, way[1:], strict=False):
        itl = {e: f"{test.id}.{e}.{name}.itl.p50" for e in (before, after)}
        _times(book, f"{route.scope}.step_{part}", itl[before], itl[after])
        if part == "precision":
            _times(book, f"{route.scope}.step_predicted", *(f"engine.{e}.weights_bytes" for e in (before, after)))


def _times(book: Book, id: str, before: str, after: str) -> None:
    book.derive(id, "ratio", "before / after", lambda before, after: before / after, before=before, after=after)


def _has(test: TestView, engine: str, name: str) -> bool:
    return any(level.name == name for level in test.levels_of(engine))


def _step(book: Book, id: str, after: str, before: str) -> None:
    book.derive(id, "ratio", "after / before", lambda after, before: after / before, after=after, before=before)


def _mean(book: Book, id: str, ids: Sequence[str]) -> None:
    """The geometric mean over the levels at which both steps were observed."""
    known = book.observed(ids)
    book.derive(id, "ratio", MEAN, geometric_mean, n=len(known), levels=known)


def geometric_mean(levels: np.ndarray) -> float:
    """The ratio that, taken as often as there are levels, gives their product."""
    with np.errstate(divide="ignore"):
        return float(np.exp(np.mean(np.log(levels))))
