"""A level of an open loop: how fast requests came, how late they were sent, and what they waited counted from then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from genreport.figures import limits, planned, throughput
from genreport.figures.book import Book
from genreport.figures.choosing import Slo, slos
from genreport.figures.frames import Table
from genreport.figures.latency import of_column
from genreport.figures.layout import LevelView, TestView
from genreport.figures.limits import Limit
from genreport.words import say

SENT = "sound and not warmup"
# latencies from when a request was due: waiting at the client counts
FROM_DUE = {"due_ttft": "due_ttft_s", "due_e2el": "due_e2el_s"}
LIMITED = throughput.LIMITED | {"ttft": "due_ttft_s", "e2el": "due_e2el_s"}
# how a wait grows that is counted from when a request was due, or from when it was sent: what the client adds is no engine's
GROWTHS = {"due_growth": "due_ttft_s", "sent_growth": "ttft_s"}
GROWTH = "sum((due_s - mean(due_s)) * {}) / sum((due_s - mean(due_s)) ** 2)"
FEWEST = 8  # requests over which a growth can be told


def enter(book: Book, level: LevelView) -> None:
    """Rates, waits from the due time and their growth; for levels of an open loop only."""
    if level.concurrency is not None:
        return
    for scope, _, rows in level.each():
        _schedule(book, scope, rows)
        _finished(book, scope, rows.measured)
        for figure, column in GROWTHS.items():
            _growth(book, f"{scope}.{figure}", column, rows.measured)
    _rates(book, level)
    _achieved(book, level)
    rows = level.measured
    for figure, column in FROM_DUE.items():
        of_column(book, f"{level.id}.{figure}", column, ("mean", "p50", "p90", "p95", "p99"), rows)
    _process(book, level)
    for figure in GROWTHS:
        _growth_of_level(book, level, figure)
    _goodput(book, level)


def searched(plan: Mapping[str, Any], test: TestView) -> Slo | None:
    """The service level whose largest load a test searched for."""
    steps = (level.repeats[0].facts.search for levels in test.levels.values() for level in levels)
    name = next((step.slo for step in steps if step), None)
    return next((slo for slo in slos(plan) if slo.id == name), None)


def enter_limits(book: Book, test: TestView, given: Sequence[Limit] = ()) -> None:
    """The limits of the command line and of the plan that a test's levels are held against."""
    for slo in slos(book.round.plan, given):
        id = limit_of(test, slo)
        if slo.given:
            limits.enter(book, id, slo.given)
        else:
            planned.enter(book, id, "s", f"/slos/{slo.place}/below_ms", divisor=1000)


def limit_of(test: TestView, slo: Slo) -> str:
    """Id of the figure that is a service level's limit."""
    return f"test.{test.id}.slo.{slo.id}.limit"


def statistic(slo: Slo) -> str:
    """The figure of a level that a limit is held against: waits count from the due time."""
    return f"due_{slo.statistic}" if f"due_{slo.figure}" in FROM_DUE else slo.statistic


def _process(book: Book, level: LevelView) -> None:
    """What the plan says of how requests come, beside their rate; only what belongs to the process."""
    facts = level.repeats[0].facts
    for name, unit in (("from_rate", "req/s"), ("to_rate", "req/s"), ("size", "count"), ("every_s", "s"),
                       ("max_in_flight", "count")):  # fmt: skip
        if getattr(facts.arrivals, name) is not None:
            book.pointer(f"{level.id}.{name}", unit, level.repeats[0].facts_file, f"/arrivals/{name}")


def _schedule(book: Book, scope: str, rows: Table) -> None:
    """Requests of a repeat, when the first one is due, and the time from there to the last."""
    kept = rows.only(rows.rows["sound"].to_numpy() & ~rows.rows["warmup"].to_numpy())
    due = kept.rows["due_s"].to_numpy(dtype=float)
    first = kept.source(range(min(1, len(kept))), SENT)
    book.enter(f"{scope}.due_requests", len(kept), "count", "count(index)", first, n=len(kept))
    if len(kept) < 2:
        book.missing(f"{scope}.due_span", "s", "max(due_s) - min(due_s)", say("missing.one_arrival"))
        return
    book.enter(
        f"{scope}.due_start", due.min(), "s", "min(due_s)", kept.source((int(np.argmin(due)),), SENT), n=len(kept)
    )
    edges = kept.source((int(np.argmin(due)), int(np.argmax(due))), SENT)
    book.enter(f"{scope}.due_span", due.max() - due.min(), "s", "max(due_s) - min(due_s)", edges, n=len(kept))
    sent = kept.start_s
    if len(sent):
        edges = kept.source(sent.row[[int(np.argmin(sent.values)), int(np.argmax(sent.values))]], SENT)
        book.enter(f"{scope}.sent_span", np.ptp(sent.values), "s", "max(start_s) - min(start_s)", edges, n=len(sent))


def _rates(book: Book, level: LevelView) -> None:
    """The rate of the schedule as it was drawn, the one that the plan asked for, and how much of it the client kept."""
    id = level.id
    book.pointer(f"{id}.planned_rate", "req/s", level.repeats[0].facts_file, "/arrivals/rate")
    scopes = [scope for scope, _, _ in level.each() if book.value(f"{scope}.due_span")]
    book.derive(f"{id}.arrival_rate", "req/s", "sum(requests - 1) / sum(spans)",
                lambda requests, spans: (requests - 1).sum() / spans.sum(),
                requests=[f"{s}.due_requests" for s in scopes], spans=[f"{s}.due_span" for s in scopes])  # fmt: skip
    sent = [scope for scope in scopes if book.value(f"{scope}.sent_span")]
    book.derive(f"{id}.sent_share", "share", "sum(due) / sum(sent)", lambda due, sent: due.sum() / sent.sum(),
                due=[f"{s}.due_span" for s in sent], sent=[f"{s}.sent_span" for s in sent])  # fmt: skip


def _finished(book: Book, scope: str, rows: Table) -> None:
    """Time from the end of the first answer to that of the last."""
    id, formula = f"{scope}.achieved_span", "max(last_text_s) - min(last_text_s)"
    if len(rows) < 2:
        book.missing(id, "s", formula, say("missing.one_finished"))
        return
    ends = rows.last_text_s.values
    edges = rows.source((int(np.argmin(ends)), int(np.argmax(ends))))
    book.enter(id, ends.max() - ends.min(), "s", formula, edges, n=len(rows))


def _achieved(book: Book, level: LevelView) -> None:
    """The rate at which answers ended, and its share of the one at which requests came.

    Both count from the first to the last of their kind, so that the time of an answer is in neither.
    """
    id, formula = level.id, "sum(completed - 1) / sum(spans)"
    scopes = [scope for scope, _, _ in level.each() if book.value(f"{scope}.achieved_span")]
    if scopes:
        book.derive(f"{id}.achieved_rate", "req/s", formula,
                    lambda completed, spans: (completed - 1).sum() / spans.sum(), n=len(level.measured),
                    completed=[f"{s}.completed" for s in scopes], spans=[f"{s}.achieved_span" for s in scopes])  # fmt: skip
    else:
        book.missing(f"{id}.achieved_rate", "req/s", formula, say("missing.one_finished"))
    book.derive(f"{id}.achieved_share", "share", "achieved / offered", lambda achieved, offered: achieved / offered,
                achieved=f"{id}.achieved_rate", offered=f"{id}.arrival_rate")  # fmt: skip


def _goodput(book: Book, level: LevelView) -> None:
    """Requests that meet every limit from when they were due: so many a second, and their share of all that came."""
    id, rate, share = level.id, "sum(good) / sum(windows)", "sum(good) / sum(came - unjudged)"
    wanted = throughput.judged(book.round.plan)
    if not wanted:
        book.missing(f"{id}.due_goodput", "req/s", rate, say("missing.no_slo"))
        book.missing(f"{id}.due_good_share", "share", share, say("missing.no_slo"))
        return
    for scope, _, rows in level.each():
        throughput.good(book, f"{scope}.due_good_requests", rows.measured, wanted, LIMITED)
        book.derive(f"{scope}.due_goodput", "req/s", "good / window", lambda good, window: good / window,
                    good=f"{scope}.due_good_requests", window=f"{scope}.window_s", n=len(rows.measured))  # fmt: skip
    scopes = throughput.with_rate(book, level, "due_good_requests")
    notes = throughput.in_part(book[f"{id}.unjudged_requests"])
    good = [f"{s}.due_good_requests" for s in scopes]
    book.derive(f"{id}.due_goodput", "req/s", rate, lambda good, windows: good.sum() / windows.sum(),
                good=good, windows=[f"{s}.window_s" for s in scopes], notes=notes,
                n=len(level.measured))  # fmt: skip
    book.derive(f"{id}.due_good_share", "share", share,
                lambda good, came, unjudged: good.sum() / (came - unjudged).sum(), notes=notes,
                good=good, came=level.ids("due_requests"), unjudged=level.ids("unjudged_requests"))  # fmt: skip


def _growth(book: Book, id: str, column: str, rows: Table) -> None:
    """Seconds by which the wait for the first token grows in each second of load: 0 where the engine keeps up."""
    due, wait, formula = rows.rows["due_s"].to_numpy(dtype=float), getattr(rows, column).values, GROWTH.format(column)
    if len(rows) < FEWEST or due.max() == due.min():
        book.missing(id, "s/s", formula, say("missing.few_arrivals"))
        return
    apart = due - due.mean()
    last = rows.source((int(np.argmax(due)),))
    book.enter(id, (apart * wait).sum() / (apart**2).sum(), "s/s", formula, last, n=len(rows))


def _growth_of_level(book: Book, level: LevelView, figure: str) -> None:
    """The mean over repeats: each has a clock and a load of its own, so that no line goes through two of them."""
    id, growths = f"{level.id}.{figure}", book.observed(level.ids(figure))
    if not growths:
        book.missing(id, "s/s", "mean(growths)", say("missing.few_arrivals"))
        return
    n = len(level.measured)
    book.derive(id, "s/s", "mean(growths)", lambda growths: growths.mean(), n=n, growths=growths)
    for name, extreme in (("min", np.min), ("max", np.max)):
        book.derive(f"{id}.{name}", "s/s", f"{name}(growths)", lambda growths, extreme=extreme: extreme(growths),
                    n=len(growths), growths=growths)  # fmt: skip
