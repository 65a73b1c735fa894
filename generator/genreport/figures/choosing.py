"""Which engine for which service level: the load a limit allows, the throughput there, and the fronts of both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise, takewhile
from typing import Any

import numpy as np

from genreport.display import digits
from genreport.figures import crossing, leads, limits, planned
from genreport.figures.book import Book
from genreport.figures.crossing import crossings, crossings_linear_logx, loglog_at
from genreport.figures.layout import LevelView, TestView
from genreport.figures.limits import Limit
from genreport.figures.throughput import LIMITED
from genreport.provenance import Ledger
from genreport.words import say

# the wait that a front is drawn over
WAIT = "ttft.p99"
LOAD = "crossings(c, y, limit + 0 * y)[0]"
LEAD = "winner / second"
# a level, and the scope of the figures of all its repeats or of one
Scoped = tuple[LevelView, str]
# a difference of logarithms that is rounding, not a lead
TIE = 1e-9
# the limit was not reached in the measured range: the load is at least the largest one
RANGE_ENDS = "range_ends_before_the_limit"
# requests failed at the next load: the load is at least the largest one before it
FAILURES_END = "failures_end_the_range"


@dataclass(frozen=True)
class Slo:
    """A service level: the statistic of a level that must stay below its limit, of the plan (`place`) or given later."""

    id: str
    figure: str
    percentile: str
    place: int | None = None
    given: Limit | None = None

    @property
    def statistic(self) -> str:
        return f"{self.figure}.{self.percentile}"


def slos(plan: Mapping[str, Any], given: Sequence[Limit] = ()) -> list[Slo]:
    """The given service levels, then the plan's in its order; what is no limit on a latency is left out."""
    found = {limit.name: Slo(limit.name, limit.figure, limit.percentile, given=limit) for limit in given}
    for place, entry in planned.entries(plan, "slos"):
        if planned.is_limit(entry, LIMITED):
            name = str(entry.get("id"))
            id = name if re.fullmatch(r"[a-z0-9][a-z0-9_+-]*", name) and name not in found else f"slo{place + 1}"
            found[id] = Slo(id, entry["figure"], str(entry.get("percentile", "p99")), place)
    return list(found.values())


def enter(book: Book, test: TestView, given: Sequence[Limit] = ()) -> None:
    """Everything a choice rests on, of one concurrency sweep: service levels, leads and fronts."""
    for slo in slos(book.round.plan, given):
        _slo(book, test, slo)
    peaks = [f"{test.id}.{engine}.peak_throughput" for engine in test.engines]
    _lead(book, f"test.{test.id}.peak.lead", peaks, say("missing.none_completed"))
    for name in common(test):
        rates = [f"{test.id}.{engine}.{name}.output_throughput" for engine in test.engines]
        _lead(book, f"test.{test.id}.at.{name}.lead", rates, say("missing.none_completed"))
    for a, b in combinations(test.engines, 2):
        if f"pair.{test.id}.{a}.{b}.cross1" not in book.ledger:
            crossing.enter_pair(book, test, a, b)
        for slo in slos(book.round.plan, given):
            _interval(book, test, slo, a, b)
        _fronts(book, test, a, b)


def common(test: TestView) -> list[str]:
    """Names of the levels that every engine of a test has, by rising load."""
    named = [{level.name for level in test.levels_of(engine)} for engine in test.engines]
    return [level.name for level in test.levels_of(test.engines[0]) if all(level.name in names for names in named)]


# ------------------------------------------------------------------------------------- loads


def envelope(c: Sequence[float], curves: Mapping[str, Sequence[float]]) -> list[tuple[str, float, float]]:
    """Who is ahead from which load to which: the highest of all curves, log–log straight between the loads.

    A curve may lack values (NaN): it is in no interval that ends at one. Where curves lie on each other nobody is ahead.
    """
    x, heights = np.log(c), np.log([curves[engine] for engine in curves])
    found: list[tuple[str, float, float]] = []
    for low, high in _pieces(x, heights):
        place = _ahead(x, heights, low, high)
        if found and found[-1][::2] == (place, low):
            found[-1] = (place, found[-1][1], high)
        elif place is not None:
            found.append((place, low, high))
    engines = list(curves)
    return [(engines[place], float(np.exp(low)), float(np.exp(high))) for place, low, high in found]


def _pieces(x: np.ndarray, heights: np.ndarray) -> Iterator[tuple[float, float]]:
    """Every load, and after it what lies between it and the next, cut wherever two curves meet."""
    for k, (left, right) in enumerate(pairwise(x)):
        yield left, left
        gaps = (heights[i, k : k + 2] - heights[j, k : k + 2] for i, j in combinations(range(len(heights)), 2))
        met = {left + (right - left) * a / (a - b) for a, b in gaps if a * b < 0}
        yield from pairwise(sorted({left, *met, right}))
    yield x[-1], x[-1]


def _ahead(x: np.ndarray, heights: np.ndarray, low: float, high: float) -> int | None:
    """Place of the curve that is above all others in the middle of a stretch in which none meet."""
    found = [np.interp((low + high) / 2, x, curve) for curve in heights]
    order = sorted((k for k, at in enumerate(found) if not np.isnan(at)), key=lambda k: -found[k])
    clear = order and (len(order) == 1 or found[order[0]] - found[order[1]] > TIE)
    return order[0] if clear else None


# ------------------------------------------------------------------------------------- service levels


def _slo(book: Book, test: TestView, slo: Slo) -> None:
    scope = f"test.{test.id}.slo.{slo.id}"
    limit = f"{scope}.limit"
    if slo.given:
        limits.enter(book, limit, slo.given)
    else:
        planned.enter(book, limit, "s", f"/slos/{slo.place}/below_ms", divisor=1000)
    for engine in test.engines:
        _kept(book, f"{scope}.{engine}", [(level, level.id) for level in test.levels_of(engine)], slo, limit)
    _lead(
        book, f"{scope}.lead", [f"{scope}.{engine}.throughput" for engine in test.engines], say("missing.limit_unmet")
    )


def _interval(book: Book, test: TestView, slo: Slo, a: str, b: str) -> None:
    """How sure the ratio of two engines' throughput under a limit is: each repeat of their sweeps by itself."""
    scope = f"test.{test.id}.slo.{slo.id}"
    for engine in (a, b):
        for repeat, levels in _by_repeat(test.levels_of(engine)).items():
            if f"{scope}.{engine}.r{repeat}.load" not in book.ledger:
                _kept(book, f"{scope}.{engine}.r{repeat}", levels, slo, f"{scope}.limit")
    over, under = ([f"{scope}.{e}.r{r}.throughput" for r in _by_repeat(test.levels_of(e))] for e in (b, a))
    leads.enter(book, f"pair.{test.id}.{a}.{b}.slo_{slo.id}", over, under)


def _by_repeat(levels: Sequence[LevelView]) -> dict[int, list[Scoped]]:
    """Each repeat of a sweep with the scopes of its levels."""
    found: dict[int, list[Scoped]] = {}
    for level in levels:
        for repeat in level.repeats:
            found.setdefault(repeat.facts.repeat, []).append((level, level.repeat_id(repeat)))
    return found


def _kept(book: Book, id: str, levels: Sequence[Scoped], slo: Slo, limit: str) -> None:
    """The load that a limit allows a sweep, or one repeat of it, and the throughput there; failed requests keep none."""
    sound = list(takewhile(lambda at: not book.value(f"{at[1]}.failed"), levels))
    known = [(level, scope) for level, scope in sound if book.value(f"{scope}.{slo.statistic}")]
    _load(book, f"{id}.load", known, levels[len(sound) : len(sound) + 1], slo, limit)
    c, x = [f"{level.id}.concurrency" for level, _ in known], [f"{scope}.output_throughput" for _, scope in known]
    book.derive(f"{id}.throughput", "tok/s", "loglog_at(load, c, x)", _at, load=f"{id}.load", c=c, x=x)


def _load(
    book: Book, id: str, known: Sequence[Scoped], failing: Sequence[Scoped], slo: Slo, limit: str
) -> None:  # fmt: skip
    """The smallest C at which the statistic reaches the limit; never extrapolated, nor beyond the first `failing` level."""
    c, y = [f"{level.id}.concurrency" for level, _ in known], [f"{scope}.{slo.statistic}" for _, scope in known]
    if not c:
        book.missing(id, "1", LOAD, _why_unknown(book, failing, slo))
        return
    allowed, seen = book.value(limit), np.array([book.value(i) for i in y])
    loads = [book.value(i) for i in c]
    if seen[0] > allowed:
        book.missing(id, "1", LOAD, say("missing.limit_not_met", c=digits(loads[0])))
    elif crossings(loads, seen, np.full_like(seen, allowed)):
        book.derive(id, "1", LOAD, _first_reached, n=len(c), c=c, y=y, limit=limit)
    elif failing:
        c, failed = [*c, f"{failing[0][0].id}.concurrency"], [f"{scope}.failed" for _, scope in (*known, *failing)]
        book.derive(id, "1", "max(c * (failed == 0))", lambda c, failed: (c * (failed == 0)).max(), n=len(c), c=c,
                    failed=failed, notes=[FAILURES_END])  # fmt: skip
    else:
        book.derive(id, "1", "max(c)", lambda c: c.max(), n=len(c), c=c, notes=[RANGE_ENDS])


def _why_unknown(book: Book, failing: Sequence[Scoped], slo: Slo) -> str:
    """Why a limit allows no load where no level before the first failing one has its statistic."""
    if failing:
        return say("missing.limit_failed", c=digits(book.value(f"{failing[0][0].id}.concurrency")))
    return say("missing.no_statistic", percentile=slo.percentile, figure=slo.figure)


def _first_reached(c: np.ndarray, y: np.ndarray, limit: float) -> float:
    return crossings(c, y, np.full_like(y, limit))[0]


def _at(load: float, c: np.ndarray, x: np.ndarray) -> float | None:
    # a crossing at the last level may come out of its logarithm a hair beyond it
    return loglog_at(float(np.clip(load, c[0], c[-1])), c, x)


def _lead(book: Book, id: str, ids: Sequence[str], none: str) -> None:
    """How many times the highest of the values is the next one."""
    ranked = sorted(book.observed(ids), key=lambda i: -book.value(i))
    if len(ranked) < 2:
        book.missing(id, "ratio", LEAD, say("missing.one_engine") if ranked else none)
    else:
        book.derive(id, "ratio", LEAD, lambda winner, second: winner / second, winner=ranked[0], second=ranked[1])


# ------------------------------------------------------------------------------------- fronts


def front(wait: Sequence[float], x: Sequence[float]) -> list[int]:
    """Places of the levels that no other one matches on both and beats on one, by rising wait."""
    kept: list[int] = []
    for k in sorted(range(len(wait)), key=lambda k: (wait[k], -x[k])):
        if not kept or x[k] > x[kept[-1]]:
            kept.append(k)
    return kept


def front_crossings(ta: np.ndarray, xa: np.ndarray, tb: np.ndarray, xb: np.ndarray) -> list[float]:
    """Every wait at which two fronts, log–log straight between their levels, give the same throughput."""
    grid, lead = _leads(ta, xa, tb, xb)
    return crossings_linear_logx(grid, lead, np.zeros_like(lead)) if len(grid) else []


def _leads(ta: np.ndarray, xa: np.ndarray, tb: np.ndarray, xb: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Waits that both fronts reach, each level's and both ends, and by how much ln X of the first is ahead there."""
    (ta, xa), (tb, xb) = _along(ta, xa), _along(tb, xb)
    low, high = max(ta[0], tb[0]), min(ta[-1], tb[-1])
    grid = np.unique([t for t in (*ta, *tb) if low <= t <= high])
    at = np.log(grid)
    return grid, np.interp(at, np.log(ta), np.log(xa)) - np.interp(at, np.log(tb), np.log(xb))


def _along(wait: np.ndarray, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    kept = front(wait, x)
    return np.asarray(wait, dtype=float)[kept], np.asarray(x, dtype=float)[kept]


def on_front(ledger: Ledger, levels: Sequence[LevelView]) -> list[LevelView]:
    """The levels of one engine that make its front, by rising wait."""
    known = [level for level in levels if all(_positive(ledger, i) for i in _point(level))]
    wait, x = ([ledger[_point(level)[k]].value for level in known] for k in (0, 1))
    return [known[k] for k in front(wait, x)]


def _point(level: LevelView) -> tuple[str, str]:
    return f"{level.id}.{WAIT}", f"{level.id}.output_throughput"


def _positive(ledger: Ledger, id: str) -> bool:
    q = ledger.get(id)
    return q is not None and not q.missing and q.value > 0


def _fronts(book: Book, test: TestView, a: str, b: str) -> None:
    scope = f"pair.{test.id}.{a}.{b}"
    sides = {letter: on_front(book.ledger, test.levels_of(e)) for letter, e in (("a", a), ("b", b))}
    inputs = {f"{kind}{letter}": [_point(level)[k] for level in levels]
              for letter, levels in sides.items() for k, kind in enumerate("tx")}  # fmt: skip
    formula = "front_crossings(ta, xa, tb, xb)[{}]".format
    case = compared(book.ledger, test, a, b)
    for k in range(case.count):
        t = book.derive(f"{scope}.front{k + 1}", "s", formula(k), lambda k=k, **curves: front_crossings(**curves)[k],
                        **inputs)  # fmt: skip
        book.derive(f"{scope}.front{k + 1}_throughput", "tok/s", "loglog_at(t, ta, xa)",
                    lambda t, ta, xa: _at(t, ta, xa), t=t.id, ta=inputs["ta"], xa=inputs["xa"])  # fmt: skip
    if not case.count:
        book.missing(f"{scope}.front1", "s", formula(0), _why_none(case))


@dataclass(frozen=True)
class Fronts:
    """Two fronts held against each other.

    `case`: `crossed`, `ahead` (one gives more wherever both reach, or is both faster and higher), `apart` (no common
    wait: one is faster, the other higher) or `unknown`. `leaders`: who is ahead between the crossings, by rising wait;
    for `apart` the faster, then the higher one.
    """

    a: str
    b: str
    case: str
    count: int = 0
    leaders: tuple[str, ...] = ()


def compared(ledger: Ledger, test: TestView, a: str, b: str) -> Fronts:
    """How the fronts of two engines of a sweep stand to each other."""
    curves = [c for e in (a, b) for c in _curve(ledger, on_front(ledger, test.levels_of(e)))]
    if not all(len(curve) for curve in curves):
        return Fronts(a, b, "unknown")
    found, (grid, lead) = front_crossings(*curves), _leads(*curves)
    if found:
        return Fronts(a, b, "crossed", len(found), tuple(_leaders(a, b, found, grid, lead)))
    if len(grid):
        return Fronts(a, b, "ahead", leaders=(a if lead[0] > 0 else b,))
    fast, slow = sorted(((a, curves[:2]), (b, curves[2:])), key=lambda side: side[1][0][0])
    if fast[1][1][-1] >= slow[1][1][-1]:
        return Fronts(a, b, "ahead", leaders=(fast[0],))
    return Fronts(a, b, "apart", leaders=(fast[0], slow[0]))


def _curve(ledger: Ledger, levels: Sequence[LevelView]) -> tuple[np.ndarray, np.ndarray]:
    wait, x = (np.array([ledger[_point(level)[k]].value for level in levels]) for k in (0, 1))
    return wait, x


def _leaders(a: str, b: str, found: Sequence[float], grid: np.ndarray, lead: np.ndarray) -> Iterator[str]:
    """Who is ahead in each stretch between the ends and the crossings; a stretch of no length has nobody."""
    edges = np.log([grid[0], *found, grid[-1]])
    for middle in (edges[1:] + edges[:-1]) / 2:
        ahead = np.interp(middle, np.log(grid), lead)
        yield a if ahead > TIE else b if ahead < -TIE else ""


def _why_none(case: Fronts) -> str:
    if case.case == "unknown":
        return say("missing.front_unknown", wait=WAIT)
    if case.case == "ahead":
        return say("missing.front_dominates", engine=case.leaders[0])
    return say("missing.fronts_apart", faster=case.leaders[0], higher=case.leaders[1])
