"""Was the client honest? How late its event loop ran and how much of a core it used, by its own account."""

from __future__ import annotations

import numpy as np

from genreport.figures.book import Book
from genreport.figures.latency import few, interpolated
from genreport.figures.layout import LevelView
from genreport.provenance import MEASURED
from genreport.rounds import MACHINE
from genreport.words import say

LAGS = {"p50": 50, "p99": 99, "max": 100}
RESENT = "resent and not warmup"
SENT_ONCE = f"{MEASURED} and not resent"


def enter(book: Book, level: LevelView) -> None:
    """Event-loop lag (of the worst repeat) and CPU share of a level."""
    for scope, files, _ in level.each():
        for name, q in LAGS.items():
            _lag(book, f"{scope}.client_lag.{name}", files.facts_file, q, len(files.facts.client.lag_us))
        for name in ("cpu", "wall"):
            book.pointer(f"{scope}.client_{name}_s", "s", files.facts_file, f"/client/{name}_us",
                         formula="field / 1e6", function=lambda us: us / 1e6)  # fmt: skip
    for name in LAGS:
        observed = book.observed(level.ids(f"client_lag.{name}"))
        book.derive(f"{level.id}.client_lag.{name}", "s", "max(repeats)", lambda repeats: repeats.max(),
                    n=sum(book[id].n for id in observed), repeats=observed)  # fmt: skip
    _workers(book, level)
    _load(book, level)
    _slept(book, level)
    _resent(book, level)
    book.derive(
        f"{level.id}.client_cpu_share",
        "share",
        "sum(cpu) / sum(wall)",
        lambda cpu, wall: cpu.sum() / wall.sum(),
        cpu=level.ids("client_cpu_s"),
        wall=level.ids("client_wall_s"),
    )


def ceiling(book: Book) -> None:
    """Events a second that the client of this machine reads at most; rounds before it was measured lack it."""
    if book.round.machine.client is None:
        return
    book.pointer("machine.client_events", "count", MACHINE, "/client/events")
    book.pointer("machine.client_wall", "s", MACHINE, "/client/wall_us", formula="field / 1e6",
                 function=lambda us: us / 1e6)  # fmt: skip
    book.derive("machine.client_ceiling", "events/s", "events / wall", lambda events, wall: events / wall,
                events="machine.client_events", wall="machine.client_wall")  # fmt: skip


def _slept(book: Book, level: LevelView) -> None:
    """Seconds the machine was suspended in a level; nothing is said of rounds that did not look or did not sleep."""
    if not any(files.facts.client.slept_us for _, files, _ in level.each()):
        return
    for scope, files, _ in level.each():
        book.pointer(f"{scope}.slept", "s", files.facts_file, "/client/slept_us", formula="field / 1e6",
                     function=lambda us: us / 1e6, reason=say("missing.no_slept"))  # fmt: skip
    book.derive(f"{level.id}.slept", "s", "sum(repeats)", lambda repeats: repeats.sum(),
                repeats=book.observed(level.ids("slept")))  # fmt: skip


def _resent(book: Book, level: LevelView) -> None:
    """Requests that were sent again, and how late the others were sent; nothing is said where none was."""
    resent = {
        scope: rows.only((rows.rows["resent"] & ~rows.rows["warmup"]).to_numpy()) for scope, _, rows in level.each()
    }
    if not any(map(len, resent.values())):
        return
    for scope, rows in resent.items():
        book.enter(f"{scope}.retries", len(rows), "count", "count(index)",
                   rows.source(range(min(1, len(rows))), RESENT), n=len(rows))  # fmt: skip
    book.derive(f"{level.id}.retries", "count", "sum(repeats)", lambda repeats: repeats.sum(),
                repeats=level.ids("retries"))  # fmt: skip
    once = level.measured.only(~level.measured.rows["resent"].to_numpy())
    late = once.client_queue_s
    for q in (50, 99) if len(late) else ():
        picks = late.row[list(interpolated(late.values, q))]
        book.enter(f"{level.id}.client_queue_once.p{q}", np.percentile(late.values, q), "s",
                   f"percentile(client_queue_s, {q})", once.source(picks, SENT_ONCE), n=len(late),
                   notes=["n_too_small"] if few(len(late), q) else [])  # fmt: skip


def _workers(book: Book, level: LevelView) -> None:
    """How many processes held the load, at least; nothing is said of rounds in which one held each."""
    if not any(repeat.facts.client.workers for repeat in book.round.levels):
        return
    for scope, files, _ in level.each():
        book.pointer(f"{scope}.client_workers", "count", files.facts_file, "/client/workers",
                     reason=say("missing.one_process"))  # fmt: skip
    book.derive(f"{level.id}.client_workers", "count", "min(repeats)", lambda repeats: repeats.min(),
                repeats=level.ids("client_workers"))  # fmt: skip


def _load(book: Book, level: LevelView) -> None:
    """The level's tokens, as many events at most, as a share of the ceiling: of as many times it as processes."""
    throughput, workers = f"{level.id}.output_throughput", f"{level.id}.client_workers"
    if not book.value("machine.client_ceiling") or book.value(throughput) is None:
        return
    inputs = {"throughput": throughput, "ceiling": "machine.client_ceiling"}
    if any(files.facts.client.hosts for _, files, _ in level.each()):
        book.missing(f"{level.id}.client_load", "share", "throughput / ceiling", say("missing.other_hosts"))
    elif book.value(workers) is None:
        book.derive(f"{level.id}.client_load", "share", "throughput / ceiling",
                    lambda throughput, ceiling: throughput / ceiling, **inputs)  # fmt: skip
    else:
        book.derive(f"{level.id}.client_load", "share", "throughput / (workers * ceiling)",
                    lambda throughput, workers, ceiling: throughput / (workers * ceiling),
                    workers=workers, **inputs)  # fmt: skip


def _lag(book: Book, id: str, file: str, q: int, n: int) -> None:
    formula = "max(field) / 1e6" if q == 100 else f"percentile(field, {q}) / 1e6"
    notes = ["n_too_small"] if q < 100 and few(n, q) else []
    book.pointer(id, "s", file, "/client/lag_us", formula=formula, n=n, notes=notes,
                 function=lambda us: np.percentile(us, q) / 1e6, reason=say("missing.no_lag"))  # fmt: skip
