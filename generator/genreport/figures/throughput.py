"""What a level delivered: counts, tokens, windows and rates per repeat, and the level's rate over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from genreport.figures import planned
from genreport.figures.book import Book
from genreport.figures.frames import Table
from genreport.figures.latency import token_notes
from genreport.figures.layout import LevelView
from genreport.provenance import MEASURED, Quantity
from genreport.words import say

LIMITED = {"ttft": "ttft_s", "tpot": "tpot_or_0_s", "e2el": "e2el_s"}
FAILED = "not ok and not warmup"
UNSOUND = "not sound and not warmup"


def enter(book: Book, level: LevelView) -> None:
    """Counts and rates of a level and its repeats."""
    slos = judged(book.round.plan)
    _asked(book, level)
    for scope, _, rows in level.each():
        _counts(book, scope, rows)
        _sums(book, scope, rows, level.output)
        if slos:
            good(book, f"{scope}.good_requests", rows.measured, slos)
            _unjudged(book, f"{scope}.unjudged_requests", rows.measured, slos)
    _level(book, level)
    if slos:
        unjudged = book.derive(f"{level.id}.unjudged_requests", "count", "sum(repeats)", lambda repeats: repeats.sum(),
                               repeats=level.ids("unjudged_requests"))  # fmt: skip
        scopes = with_rate(book, level, "good_requests")
        book.derive(f"{level.id}.goodput", "req/s", "sum(good) / sum(windows)", _rate("good"),
                    good=[f"{s}.good_requests" for s in scopes], windows=[f"{s}.window_s" for s in scopes],
                    notes=in_part(unjudged), n=len(level.measured))  # fmt: skip
    else:
        book.missing(f"{level.id}.goodput", "req/s", "sum(good) / sum(windows)", say("missing.no_slo"))


def judged(plan: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The plan's service levels that a single request can be held against."""
    return [slo for _, slo in planned.entries(plan, "slos") if planned.is_limit(slo, LIMITED)]


def _asked(book: Book, level: LevelView) -> None:
    file = level.repeats[0].facts_file
    for name, pointer, unit in (
        ("concurrency", "/concurrency", "count"),
        ("input", "/shape/input", "tokens"),
        ("output", "/shape/output", "tokens"),
        ("requests", "/requests", "count"),
    ):
        why = say("missing.open_loop") if name == "concurrency" and level.concurrency is None else None
        book.pointer(f"{level.id}.{name}", unit, file, pointer, reason=why)


def _counts(book: Book, scope: str, rows: Table) -> None:
    bad = rows.only(~rows.rows["ok"].to_numpy() & ~rows.rows["warmup"].to_numpy())
    unsound = rows.only(~rows.rows["sound"].to_numpy() & ~rows.rows["warmup"].to_numpy())
    kinds = {"completed": (rows.measured, MEASURED), "failed": (bad, FAILED), "unsound": (unsound, UNSOUND)}
    for name, (kept, where) in kinds.items():
        source = kept.source(range(min(1, len(kept))), where)
        book.enter(f"{scope}.{name}", len(kept), "count", "count(index)", source, n=len(kept))


def _sums(book: Book, scope: str, rows: Table, asked: int) -> None:
    kept = rows.measured
    notes = token_notes(kept)["n"]
    n, prompt = (kept.rows[name].to_numpy(dtype=float) for name in ("n", "prompt_n"))
    first = kept.source(range(min(1, len(kept))))
    facts = {"n": len(kept), "reason": say("missing.none_completed")}
    some = bool(len(kept))
    unknown = {"n": len(kept), "reason": say("missing.no_token_counts" if some else "missing.none_completed")}
    total = n.sum() if some and not np.isnan(n).any() else None
    book.enter(f"{scope}.output_tokens", total, "tokens", "sum(n)", first, notes=notes, **unknown)
    total = prompt.sum() if some and not np.isnan(prompt).any() else None
    book.enter(f"{scope}.prompt_tokens", total, "tokens", "sum(prompt_n)", first, **unknown)
    total = kept.rows["asked_output"].sum() if some else None
    book.enter(f"{scope}.asked_tokens", total, "tokens", "sum(asked_output)", first, **facts)
    short = (n < kept.rows["asked_output"].to_numpy()) if some and not np.isnan(n).any() else None
    shown = np.flatnonzero(short)[:1] if short is not None else ()
    total = None if short is None else short.sum()
    book.enter(f"{scope}.short_outputs", total, "count", "sum(short)", kept.source(shown), **unknown)
    _window(book, scope, kept, facts)
    book.derive(f"{scope}.output_throughput", "tok/s", "tokens / window", lambda tokens, window: tokens / window,
                tokens=f"{scope}.output_tokens", window=f"{scope}.window_s", n=len(kept))  # fmt: skip
    book.derive(f"{scope}.mean_in_flight", "1", "e2el / window", lambda e2el, window: e2el / window,
                e2el=f"{scope}.e2el_sum_s", window=f"{scope}.window_s", n=len(kept))  # fmt: skip


def _window(book: Book, scope: str, kept: Table, facts: dict[str, Any]) -> None:
    formulas = {
        "window_s": "max(last_text_s) - min(t0_s)",
        "e2el_sum_s": "sum(e2el_s)",
        "wave_index": "rayleigh(start_s, mean(e2el_s))",
    }
    if not len(kept):
        for name, formula in formulas.items():
            book.missing(
                f"{scope}.{name}", "1" if name == "wave_index" else "s", formula, say("missing.none_completed")
            )
        return
    starts, ends, e2el = kept.start_s.values, kept.last_text_s.values, kept.e2el_s.values
    edges = kept.source((int(np.argmin(starts)), int(np.argmax(ends))))
    window = ends.max() - starts.min()
    book.enter(f"{scope}.window_s", window or None, "s", formulas["window_s"], edges, n=len(kept),
               reason=say("missing.window_empty"))  # fmt: skip
    book.enter(f"{scope}.e2el_sum_s", e2el.sum(), "s", formulas["e2el_sum_s"], kept.source((0,)), **facts)
    wave = rayleigh(starts, e2el.mean()) if e2el.mean() > 0 else None
    book.enter(f"{scope}.wave_index", wave, "1", formulas["wave_index"], kept.source((0,)), n=len(kept),
               reason=say("missing.took_no_time"))  # fmt: skip


def rayleigh(t_s: np.ndarray, period_s: float) -> float:
    """Rayleigh length of the phases of `t_s`: 1 = all in step, 0 = evenly spread."""
    return float(np.abs(np.exp(2j * np.pi * t_s / period_s).mean()))


def good(
    book: Book, id: str, kept: Table, slos: Sequence[dict[str, Any]], columns: Mapping[str, str] = LIMITED
) -> None:
    """Requests that meet every limit, each on its column; several limits on one figure are the strictest of them."""
    limits = _strictest(slos, columns)
    formula = "sum(" + " * ".join(f"({name} <= {limit / 1000!r})" for name, limit in sorted(limits.items())) + ")"
    if why := _why_untold(kept, limits):
        book.missing(id, "count", formula, say(why))
        return
    met = np.ones(len(kept), dtype=bool)
    for name, limit in limits.items():
        met &= _per_request(kept, name) <= limit / 1000
    book.enter(id, met.sum(), "count", formula, kept.source(np.flatnonzero(met)[:1]), n=len(kept))


def _strictest(slos: Sequence[dict[str, Any]], columns: Mapping[str, str]) -> dict[str, float]:
    """The smallest limit on each column, in ms; a request of one token is judged only where one is not on its TPOT."""
    limits: dict[str, float] = {}
    for slo in slos:
        name = columns[slo["figure"]]
        limits[name] = min(limits.get(name, np.inf), slo["below_ms"])
    return {"tpot_s": limits["tpot_or_0_s"]} if set(limits) == {"tpot_or_0_s"} else limits


def _why_untold(kept: Table, limits: Mapping[str, float]) -> str | None:
    """Why it cannot be told how many requests meet the limits."""
    if not len(kept):
        return "missing.none_completed"
    if kept.rows["n"].isna().any() and not {"tpot_s", "tpot_or_0_s"}.isdisjoint(limits):
        return "missing.no_token_counts"
    return "missing.none_judged" if "tpot_s" in limits and not len(kept.tpot_s) else None


def _per_request(kept: Table, name: str) -> np.ndarray:
    """A column with a value for each request: where one has no TPOT, one that is within no limit, or within any."""
    column = kept.tpot_s if name == "tpot_or_0_s" else getattr(kept, name)
    found = np.full(len(kept), 0 if name == "tpot_or_0_s" else np.inf)
    found[column.row] = column.values
    return found


def _unjudged(book: Book, id: str, kept: Table, slos: Sequence[dict[str, Any]]) -> None:
    """Completed requests that no limit could judge: those without a TPOT, where no limit is on anything else."""
    limits = _strictest(slos, LIMITED)
    # a latency that every completed request has, if one of them is limited
    name = min(limits, key=lambda name: name.startswith("tpot"))
    formula = f"count(index) - count({name})"
    if name == "tpot_s" and kept.rows["n"].isna().any():
        book.missing(id, "count", formula, say("missing.no_token_counts"))
        return
    left = np.setdiff1d(np.arange(len(kept)), getattr(kept, name).row)
    book.enter(id, len(left), "count", formula, kept.source(left[:1]), n=len(kept))


def in_part(unjudged: Quantity) -> tuple[str, ...]:
    """The note of a goodput beside which some requests were not judged."""
    return ("not_all_judged",) if unjudged.value else ()


def _rate(name: str) -> Any:
    return lambda windows, **given: given[name].sum() / windows.sum()


def with_rate(book: Book, level: LevelView, figure: str) -> list[str]:
    """Scopes of the repeats in which a figure and the window were observed; all, for what they lack, where none."""
    scopes = [scope for scope, _, _ in level.each()]
    known = [s for s in scopes if book.value(f"{s}.{figure}") is not None and book.value(f"{s}.window_s") is not None]
    return known or scopes


def _level(book: Book, level: LevelView) -> None:
    id, n = level.id, len(level.measured)
    book.derive(
        f"{id}.repeats", "count", "count(repeats)", lambda repeats: len(repeats), repeats=level.ids("completed")
    )
    for name in ("completed", "failed", "unsound"):
        book.derive(f"{id}.{name}", "count", "sum(repeats)", lambda repeats: repeats.sum(), repeats=level.ids(name))
    book.derive(f"{id}.all_requests", "count", "completed + failed", lambda completed, failed: completed + failed,
                completed=f"{id}.completed", failed=f"{id}.failed")  # fmt: skip
    for name, unit in (("output_tokens", "tokens"), ("prompt_tokens", "tokens"), ("asked_tokens", "tokens"),
                       ("short_outputs", "count")):  # fmt: skip
        scopes = _completed(book, level)
        book.derive(f"{id}.{name}", unit, "sum(repeats)", lambda repeats: repeats.sum(), n=n,
                    repeats=[f"{s}.{name}" for s in scopes])  # fmt: skip
    scopes = _completed(book, level)
    windows = [f"{s}.window_s" for s in scopes]
    book.derive(f"{id}.output_throughput", "tok/s", "sum(tokens) / sum(windows)", _rate("tokens"), n=n,
                tokens=[f"{s}.output_tokens" for s in scopes], windows=windows)  # fmt: skip
    rates = [f"{s}.output_throughput" for s in scopes]
    for name, extreme in (("min", np.min), ("max", np.max)):
        book.derive(f"{id}.output_throughput.{name}", "tok/s", f"{name}(repeats)",
                    lambda repeats, extreme=extreme: extreme(repeats), n=len(rates), repeats=rates)  # fmt: skip
    book.derive(f"{id}.request_throughput", "req/s", "sum(completed) / sum(windows)", _rate("completed"), n=n,
                completed=[f"{s}.completed" for s in scopes], windows=windows)  # fmt: skip
    book.derive(f"{id}.mean_in_flight", "1", "sum(e2el) / sum(windows)", _rate("e2el"), n=n,
                e2el=[f"{s}.e2el_sum_s" for s in scopes], windows=windows)  # fmt: skip
    book.derive(f"{id}.in_flight_ratio", "share", "flying / c", lambda flying, c: flying / c, n=n,
                flying=f"{id}.mean_in_flight", c=f"{id}.concurrency")  # fmt: skip
    book.derive(f"{id}.output_tokens_share", "share", "got / asked", lambda got, asked: got / asked, n=n,
                got=f"{id}.output_tokens", asked=f"{id}.asked_tokens")  # fmt: skip
    waves = book.observed(f"{s}.wave_index" for s in scopes)
    book.derive(f"{id}.wave_index", "1", "mean(repeats)", lambda repeats: repeats.mean(), n=n, repeats=waves)


def _completed(book: Book, level: LevelView) -> list[str]:
    """Scopes of the repeats in which at least one request completed: the others have no rate."""
    return [scope for scope, _, rows in level.each() if len(rows.measured)]
