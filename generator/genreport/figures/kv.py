"""Is KV use linear? What an engine says it holds, over what the records say is resident at the same moment.

A sample tells only while every request in flight has its first token. Before that an engine holds as much of a prompt as
it has worked off, which no record knows, and its gauges are as old as the step that computes the prompt.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from genreport import startlog
from genreport.figures import samples
from genreport.figures.book import Absent, Book
from genreport.figures.frames import Table
from genreport.figures.layout import EngineView, LevelView
from genreport.provenance import Quantity
from genreport.rounds import Level
from genreport.words import say

RESIDENT = "held(t, t0_s, last_text_s, prompt_n) + held(t, text_s, text_end_s, text_tokens)"
PENDING = "held(t, t0_s, first_text_s, prompt_n)"
SETTLED = "(pending == 0) & (resident > 0)"
SLOPE = "sum((x - mean(x)) * (y - mean(y))) / sum((x - mean(x)) ** 2)"
INTERCEPT = "mean(y) - slope * mean(x)"
R2 = "1 - sum((y - intercept - slope * x) ** 2) / sum((y - mean(y)) ** 2)"
ERROR = "sqrt(sum((y - intercept - slope * x) ** 2) / (count(x) - 2) / sum((x - mean(x)) ** 2))"
LEAST_SAMPLES = 3
# what of each kind is sampled: gauge, name of its curve, unit
SEEN = {"vllm": ("kv_use", "kv_share", "share"), "llamacpp": (samples.RESIDENT, "kv_slots", "tokens")}
# words of a start-up log under which the pool it reports is not the pool that KV use is a share of
UNTRUE = (
    (startlog.OVERRIDE, "missing.kv_override"),
    (r"(?:tensor|pipeline)_parallel_size=(?:[2-9]|\d\d)", "missing.kv_workers"),
)


def held(t: np.ndarray, start: np.ndarray, end: np.ndarray, amount: np.ndarray) -> np.ndarray:
    """What is held at each time: every amount from its start up to, and not at, its end."""
    return _begun(t, start, amount) - _begun(t, end, amount)


def _begun(t: np.ndarray, at: np.ndarray, amount: np.ndarray) -> np.ndarray:
    order = np.argsort(at, kind="stable")
    total = np.concatenate([[0.0], np.cumsum(amount[order])])
    return total[np.searchsorted(at[order], t, side="right")]


# ------------------------------------------------------------------------------------- an engine's start


def enter_engine(book: Book, engine: EngineView) -> None:
    """The pool in bytes as the engine itself reports it, and its announced concurrency against arithmetic."""
    scope = f"engine.{engine.id}"
    untrue = _untrue(book, engine)
    if untrue:
        book.missing(f"{scope}.kv_reported_bytes", "bytes", "reported", say(untrue))
    else:
        book.derive(f"{scope}.kv_reported_bytes", "bytes", "reported", lambda reported: reported,
                    reported=f"{scope}.kv_bytes")  # fmt: skip
    book.derive(f"{scope}.announced_over_residents", "share", "announced / residents - 1",
                lambda announced, residents: announced / residents - 1,
                announced=f"{scope}.announced_concurrency", residents=f"{scope}.residents")  # fmt: skip


def _untrue(book: Book, engine: EngineView) -> str | None:
    file = book.round.start_log_file(engine.launch)
    log = book.round.text(file) if file else ""
    return next((why for pattern, why in UNTRUE if re.search(pattern, log)), None)


# ------------------------------------------------------------------------------------- a level


def enter_level(book: Book, level: LevelView, kind: str, engine: str) -> None:
    """KV use and resident tokens at every sample of a length sweep's level; `engine` is the scope of its engine."""
    if level.kind != "length":
        return
    gauge, name, unit = SEEN.get(kind, SEEN["vllm"])
    for scope, files, rows in level.each():
        _repeat(book, scope, files, rows, (kind, gauge, name, unit))
    _settled(book, level, name, engine)


def _repeat(book: Book, scope: str, files: Level, rows: Table, seen: tuple[str, str, str, str]) -> None:
    kind, gauge, name, unit = seen
    series = samples.of_repeat(book.round, files, rows.measured, kind, gauge)
    why = _unknown(rows) or ("missing.no_gauge" if series is None else None)
    if series is None or why:
        for figure, formula, of in (("kv_t_s", "t_s", "s"), (name, "sample", unit),
                                    ("kv_resident", RESIDENT, "tokens"), ("kv_pending", PENDING, "tokens")):  # fmt: skip
            book.missing(f"{scope}.{figure}", of, formula, say(why or "missing.no_gauge"))
        return
    n = len(series.sample)
    book.enter(f"{scope}.kv_t_s", series.t_s, "s", "t_s", series.source, n=n)
    book.enter(f"{scope}.{name}", series.sample, unit, "sample", series.source, n=n)
    _in_flight(book, scope, rows.measured, series.t_s)


def _unknown(rows: Table) -> str | None:
    """Why the tokens in flight cannot be told from a repeat's records, as a key of the catalogue."""
    counted = rows.rows[~rows.rows["warmup"].to_numpy()]
    if not counted["ok"].any():
        return "missing.none_completed"
    if not counted["ok"].all():
        return "missing.kv_failed"
    return "missing.no_prompt_counts" if counted["prompt_n"].isna().any() else None


def _in_flight(book: Book, scope: str, rows: Table, t: np.ndarray) -> None:
    starts, ends, prompts = rows.start_s.values, rows.last_text_s.values, rows.rows["prompt_n"].to_numpy(dtype=float)
    first = rows.text_s[np.unique(rows.text_row, return_index=True)[1]]
    answers = held(t, rows.text_s, ends[rows.text_row], rows.text_tokens)
    for name, formula, tokens in (
        ("kv_resident", RESIDENT, held(t, starts, ends, prompts) + answers),
        ("kv_pending", PENDING, held(t, starts, first, prompts)),
    ):
        book.ledger.add(Quantity(f"{scope}.{name}", tuple(map(float, tokens)), "tokens", formula, n=len(t),
                                 inputs={"t": f"{scope}.kv_t_s"}, sources=(rows.source((0,)),)))  # fmt: skip


def _settled(book: Book, level: LevelView, name: str, engine: str) -> None:
    """The level's samples that tell, over its repeats: resident tokens, and what the engine held."""
    id, known = level.id, _known(book, level, name)
    resident, pending, seen = ([f"{s}.{figure}" for s in known] for figure in ("kv_resident", "kv_pending", name))
    moments = {"resident": resident, "pending": pending}
    book.derive(f"{id}.kv_samples", "count", "count(pending)", lambda pending: len(pending), pending=pending)
    book.derive(f"{id}.kv_settled", "count", f"sum({SETTLED})",
                lambda resident, pending: settled(resident, pending).sum(), **moments)  # fmt: skip
    n = int(book.value(f"{id}.kv_settled") or 0)
    book.derive(f"{id}.kv_tokens", "tokens", f"resident[{SETTLED}]",
                lambda resident, pending: _kept(resident, resident, pending), n=n, **moments)  # fmt: skip
    if name == "kv_slots":
        book.derive(f"{id}.kv_in_slots", "tokens", f"slots[{SETTLED}]",
                    lambda slots, resident, pending: _kept(slots, resident, pending), n=n, slots=seen,
                    **moments)  # fmt: skip
        book.missing(f"{id}.kv_held", "bytes", f"share[{SETTLED}] * pool", say("missing.kv_no_counter"))
    else:
        book.derive(f"{id}.kv_held", "bytes", f"share[{SETTLED}] * pool",
                    lambda share, resident, pending, pool: _kept(share, resident, pending) * pool, n=n, share=seen,
                    pool=f"{engine}.kv_reported_bytes", **moments)  # fmt: skip
    for figure, unit in (("kv_tokens", "tokens"), ("kv_held", "bytes"), ("kv_in_slots", "tokens")):
        if f"{id}.{figure}" in book.ledger:
            book.derive(f"{id}.{figure}.mean", unit, "mean(points)", lambda points: points.mean(), n=n,
                        points=f"{id}.{figure}")  # fmt: skip


def _known(book: Book, level: LevelView, name: str) -> list[str]:
    """Scopes of the repeats that have both curves; all of them where none has, so that the reason shows."""
    scopes = [scope for scope, _, _ in level.each()]
    return [s for s in scopes if book.value(f"{s}.kv_resident") and book.value(f"{s}.{name}")] or scopes


def settled(resident: np.ndarray, pending: np.ndarray) -> np.ndarray:
    """Which samples tell: something is in flight, and every request in flight has its first token."""
    return (pending == 0) & (resident > 0)


def _kept(points: np.ndarray, resident: np.ndarray, pending: np.ndarray) -> np.ndarray:
    kept = points[settled(resident, pending)]
    if not len(kept):
        raise Absent(say("missing.kv_never_settled"))
    return kept


# ------------------------------------------------------------------------------------- a sweep


def enter_sweep(book: Book, scope: str, levels: Sequence[LevelView], engine: str) -> None:
    """The fit over a length sweep, its slope against k; beside it the fit over all samples, prefill included."""
    _fit(book, f"{scope}.kv", "bytes", *_points(book, levels, "kv_held"))
    book.derive(f"{scope}.kv_over_arithmetic", "share", "slope / k - 1", lambda slope, k: slope / k - 1,
                slope=f"{scope}.kv_slope", k=f"{engine}.kv_bytes_per_token")  # fmt: skip
    book.derive(f"{scope}.kv_intercept_tokens", "tokens", "intercept / slope / c",
                lambda intercept, slope, c: intercept / slope / c, intercept=f"{scope}.kv_intercept",
                slope=f"{scope}.kv_slope", c=f"{levels[0].id}.concurrency")  # fmt: skip
    if any(f"{level.id}.kv_in_slots" in book.ledger for level in levels):
        _fit(book, f"{scope}.slots", "tokens", *_points(book, levels, "kv_in_slots"))
    _fit_of_all(book, scope, levels, engine)


def _points(book: Book, levels: Sequence[LevelView], seen: str) -> tuple[list[str], list[str], str | None]:
    """Ids of the levels' curves, and why there is no line through them, if so."""
    used = [level for level in levels if book.value(f"{level.id}.{seen}")]
    lacking = (book.ledger.get(f"{level.id}.{seen}") for level in levels)
    reasons = [q.reason for q in lacking if q is not None and q.missing]
    why = (reasons or [say("missing.one_length")])[0] if len({level.input for level in used}) < 2 else None
    return [f"{level.id}.kv_tokens" for level in used], [f"{level.id}.{seen}" for level in used], why


def _fit_of_all(book: Book, scope: str, levels: Sequence[LevelView], engine: str) -> None:
    resident, share = ([id for level in levels for id in level.ids(name)] for name in ("kv_resident", "kv_share"))
    pairs = [ids for ids in zip(resident, share, strict=True) if all(book.value(id) for id in ids)]
    x, y = f"{scope}.kv_all_tokens", f"{scope}.kv_all_held"
    book.derive(x, "tokens", "resident", lambda resident: resident, resident=[id for id, _ in pairs])
    book.derive(y, "bytes", "share * pool", lambda share, pool: share * pool, share=[id for _, id in pairs],
                pool=f"{engine}.kv_reported_bytes")  # fmt: skip
    _fit(book, f"{scope}.kv_all", "bytes", [x], [y], book[x].reason or book[y].reason)


def _fit(book: Book, prefix: str, unit: str, x: list[str], y: list[str], why: str | None) -> None:
    """Least squares of y over x: slope, intercept, R², standard error of the slope, and the line's two ends."""
    if why:
        for name, of, formula in (("points", "count", "count(x)"), ("slope", unit, SLOPE), ("intercept", unit, INTERCEPT),
                                  ("r2", "1", R2), ("error", unit, ERROR)):  # fmt: skip
            book.missing(f"{prefix}_{name}", of, formula, why)
        return
    points: dict[str, Any] = {"x": x, "y": y, "n": sum(len(book.value(id)) for id in x)}
    ends = {"slope": f"{prefix}_slope", "intercept": f"{prefix}_intercept"}
    book.derive(f"{prefix}_points", "count", "count(x)", lambda x: len(x), x=x)
    book.derive(ends["slope"], unit, SLOPE, slope, **points)
    book.derive(ends["intercept"], unit, INTERCEPT, intercept, slope=ends["slope"], **points)
    book.derive(f"{prefix}_r2", "1", R2, r2, **ends, **points)
    book.derive(f"{prefix}_error", unit, ERROR, error, **ends, **points)
    book.derive(f"{prefix}_line_tokens", "tokens", "[min(x), max(x)]", lambda x: (x.min(), x.max()), x=x)
    book.derive(f"{prefix}_line", unit, "intercept + slope * at", lambda intercept, slope, at: intercept + slope * at,
                at=f"{prefix}_line_tokens", **ends)  # fmt: skip


def slope(x: np.ndarray, y: np.ndarray) -> float:
    """Slope of the least-squares line."""
    if len(x) < LEAST_SAMPLES:
        raise Absent(say("missing.kv_few_samples"))
    if not np.ptp(x):
        raise Absent(say("missing.kv_one_count"))
    return ((x - x.mean()) * (y - y.mean())).sum() / ((x - x.mean()) ** 2).sum()


def intercept(x: np.ndarray, y: np.ndarray, slope: float) -> float:
    """Where the line stands at no tokens: what is held beside them."""
    return y.mean() - slope * x.mean()


def r2(x: np.ndarray, y: np.ndarray, slope: float, intercept: float) -> float:
    """Share of the variance of y that the line explains."""
    if not np.ptp(y):
        raise Absent(say("missing.kv_constant"))
    return 1 - _squares(x, y, slope, intercept) / ((y - y.mean()) ** 2).sum()


def error(x: np.ndarray, y: np.ndarray, slope: float, intercept: float) -> float:
    """Standard error of the slope, as if the samples were independent."""
    return np.sqrt(_squares(x, y, slope, intercept) / (len(x) - 2) / ((x - x.mean()) ** 2).sum())


def _squares(x: np.ndarray, y: np.ndarray, slope: float, intercept: float) -> float:
    return ((y - intercept - slope * x) ** 2).sum()
