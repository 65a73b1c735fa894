"""Where curves meet, and what two engines' curves say of each other."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count, takewhile

import numpy as np

from genreport.display import digits
from genreport.figures import leads
from genreport.figures.book import Absent, Book
from genreport.figures.layout import LevelView, TestView
from genreport.provenance import Ledger, Quantity
from genreport.words import say

# crossings of two curves that become figures; where there are more, their count is one too
MOST = 9
WALLS = "crossings_linear_logx(c, mbu, mfu)[0]"
# ratio of a level, challenger over baseline -> the figure of both
RATIOS = {
    "ratio": "output_throughput",
    "attainment_ratio": "attainment",
    "ttft_p50_ratio": "ttft.p50",
    "ttft_p99_ratio": "ttft.p99",
    "itl_p50_ratio": "itl.p50",
    "e2el_p95_ratio": "e2el.p95",
    "prefill_ratio": "prefill.mean",
}
# of these every repeat has its own, so that their ratios have an interval
REPEATED = ("output_throughput", "ttft.p50", "ttft.p99", "itl.p50", "e2el.p95")


def crossings(c: Sequence[float], xa: Sequence[float], xb: Sequence[float]) -> list[float]:
    """Every C at which two curves meet, log–log linear between levels; a tie at a level counts. Never extrapolated."""
    return _meet(np.log(c), np.log(xa) - np.log(xb))


def crossings_linear_logx(c: Sequence[float], ya: Sequence[float], yb: Sequence[float]) -> list[float]:
    """The same for curves that are linear in log C, such as shares of a ceiling."""
    return _meet(np.log(c), np.asarray(ya, dtype=float) - np.asarray(yb, dtype=float))


def _meet(log_c: np.ndarray, lead: np.ndarray) -> list[float]:
    change = np.flatnonzero(lead[:-1] * lead[1:] < 0)
    share = lead[change] / (lead[change] - lead[change + 1])
    between = log_c[change] + share * np.diff(log_c)[change]
    return sorted(float(c) for c in np.exp(np.concatenate([between, log_c[lead == 0]])))


def loglog_at(c: float, cs: Sequence[float], xs: Sequence[float]) -> float | None:
    """X at C, log–log linear between measured levels; `None` outside them."""
    if not cs[0] <= c <= cs[-1]:
        return None
    return float(np.exp(np.interp(np.log(c), np.log(cs), np.log(xs))))


def ratio(challenger: float, baseline: float) -> float:
    """How many times the baseline's value the challenger's is."""
    return challenger / baseline


def step_ratio(baseline: float, challenger: float) -> float:
    """How many times shorter the challenger's step is than the baseline's."""
    return baseline / challenger


def met(ledger: Ledger, prefix: str) -> list[Quantity]:
    """The crossings that a ledger holds as `prefix1`, `prefix2` and so on; where there is none, one that says why."""
    return list(takewhile(lambda q: q is not None, (ledger.get(f"{prefix}{k}") for k in count(1))))


def enter_pair(book: Book, test: TestView, a: str, b: str) -> None:
    """Baseline `a` against challenger `b` over their common levels: crossings and ratios."""
    scope = f"pair.{test.id}.{a}.{b}"
    shared = test.shared(a, b)
    for one, other in shared:
        for name, figure in RATIOS.items():
            _ratio(book, f"{scope}.{name}_{one.name}", f"{other.id}.{figure}", f"{one.id}.{figure}")
            if figure in REPEATED:
                leads.enter(book, f"{scope}.{name}_{one.name}", *(book.observed(v.ids(figure)) for v in (other, one)))
    if test.kind != "concurrency":
        return
    _crossings(book, scope, a, b, shared)
    _single(book, scope, test, a, b)


def _ratio(book: Book, id: str, over: str, under: str) -> None:
    book.derive(id, "ratio", "challenger / baseline", ratio, challenger=over, baseline=under)


def _crossings(book: Book, scope: str, a: str, b: str, shared: Sequence[tuple[LevelView, LevelView]]) -> None:
    both = [
        pair for pair in shared
        if pair[0].concurrency == pair[1].concurrency and all(book.value(f"{v.id}.output_throughput") for v in pair)
    ]  # fmt: skip
    c = [f"{one.id}.concurrency" for one, _ in both]
    xa, xb = ([f"{pair[k].id}.output_throughput" for pair in both] for k in (0, 1))
    curves = [np.array([book.value(i) for i in ids]) for ids in (c, xa, xb)]
    found = crossings(*curves) if len(both) > 1 else []
    for k in range(min(MOST, len(found))):
        book.derive(f"{scope}.cross{k + 1}", "1", f"crossings(c, xa, xb)[{k}]",
                    lambda c, xa, xb, k=k: crossings(c, xa, xb)[k], n=len(both), c=c, xa=xa, xb=xb)  # fmt: skip
    if len(found) > MOST:
        book.derive(f"{scope}.crossings", "count", "count(crossings(c, xa, xb))",
                    lambda c, xa, xb: len(crossings(c, xa, xb)), n=len(both), c=c, xa=xa, xb=xb)  # fmt: skip
    if not found:
        book.missing(f"{scope}.cross1", "1", "crossings(c, xa, xb)[0]", _why_none(curves, a, b))


def _why_none(curves: Sequence[np.ndarray], a: str, b: str) -> str:
    c, xa, xb = curves
    if len(c) < 2:
        return say("missing.one_common_level")
    ahead = a if xa[0] > xb[0] else b
    return say("missing.dominates", engine=ahead, first=digits(c[0]), last=digits(c[-1]))


def _single(book: Book, scope: str, test: TestView, a: str, b: str) -> None:
    first = next((pair for pair in test.shared(a, b) if pair[0].concurrency == 1), None)
    if first is None:
        for name in ("single_stream_ratio", "measured_step_ratio"):
            book.missing(f"{scope}.{name}", "ratio", "challenger / baseline", say("missing.no_common_single"))
    else:
        _ratio(book, f"{scope}.single_stream_ratio", *(f"{v.id}.output_throughput" for v in reversed(first)))
        _step(book, f"{scope}.measured_step_ratio", *(f"{v.id}.itl.p50" for v in first))
        leads.enter(book, f"{scope}.single_stream_ratio", *(_rates(book, v) for v in reversed(first)))
    _step(book, f"{scope}.predicted_step_ratio", *(f"engine.{e}.weights_bytes" for e in (a, b)))
    _ratio(book, f"{scope}.peak_ratio", f"{test.id}.{b}.peak_throughput", f"{test.id}.{a}.peak_throughput")
    leads.enter(book, f"{scope}.peak_ratio", *(_rates(book, best) if best else [] for best in _peaks(book, test, b, a)))


def _rates(book: Book, level: LevelView) -> list[str]:
    """Ids of the throughput of the repeats that have one."""
    return book.observed(level.ids("output_throughput"))


def _peaks(book: Book, test: TestView, *engines: str) -> Iterator[LevelView | None]:
    """The level with each engine's highest throughput."""
    for engine in engines:
        known = [v for v in test.levels_of(engine) if book.value(f"{v.id}.output_throughput") is not None]
        yield max(known, key=lambda v: book.value(f"{v.id}.output_throughput"), default=None)


def _step(book: Book, id: str, baseline: str, challenger: str) -> None:
    """How many times shorter the challenger's decode step is."""
    book.derive(id, "ratio", "baseline / challenger", step_ratio, baseline=baseline, challenger=challenger)


def enter_walls(book: Book, scope: str, levels: Sequence[LevelView]) -> None:
    """The C at which the share of bandwidth falls below the share of FLOP/s."""
    measured = [level for level in levels if book.value(f"{level.id}.mbu") and book.value(f"{level.id}.mfu")]
    if not measured:
        lacking = [q.reason for level in levels for name in ("mbu", "mfu") if (q := book[f"{level.id}.{name}"]).missing]
        book.missing(f"{scope}.walls_cross", "1", WALLS, lacking[0] if lacking else say("missing.shares_zero"))
        return
    c, mbu, mfu = ([f"{level.id}.{name}" for level in measured] for name in ("concurrency", "mbu", "mfu"))
    book.derive(f"{scope}.walls_cross", "1", WALLS, _walls, n=len(measured),
                c=c, mbu=mbu, mfu=mfu)  # fmt: skip


def _walls(c: np.ndarray, mbu: np.ndarray, mfu: np.ndarray) -> float:
    if len(c) < 2:
        raise Absent(say("missing.one_level_shares"))
    found = crossings_linear_logx(c, mbu, mfu)
    if not found:
        raise Absent(say("missing.walls_apart_bandwidth" if mbu[0] > mfu[0] else "missing.walls_apart_flops"))
    return found[0]
