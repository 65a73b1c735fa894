"""The wait for the first token taken apart: client queue, engine queue, prefill, front end; and what shares a step."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from genreport.figures import histograms
from genreport.figures.book import Absent, Book
from genreport.figures.layout import LevelView
from genreport.provenance import Lines
from genreport.rounds import ENGINE_LOG, Level
from genreport.words import say

PHASES = ("queue", "prefill", "decode")
# part of the wait -> its mean in a level, in the order in which a request meets them
PARTS = {
    "client_queue": "client_queue.mean",
    "queue": "queue.mean",
    "prefill": "prefill.mean",
    "front_end": "front_end",
}
# vLLM logs a line an iteration where told to: `Iteration(9): 1 context requests, 32 context tokens, 3 generation …`
ITERATION = (
    r"Iteration\((\d+)\): (?!0 context requests, 0 context tokens, 0 generation requests)"
    r"\d+ context requests, \d+ context tokens, \d+ generation requests"
)
MIXED = r"Iteration\((\d+)\): [1-9]\d* context requests, \d+ context tokens, [1-9]\d* generation requests"
STEPS = {
    "logged_iterations": ("count", "sum(repeats)"),
    "mixed_iterations": ("count", "sum(repeats)"),
    "mixed_share": ("share", "mixed / iterations"),
}


def enter(book: Book, level: LevelView, kind: str) -> None:
    """Mean of each part of a level's wait, what is left over, and how many iterations mix prefill with decode."""
    _PHASES_OF.get(kind, _of_openai)(book, level)
    id, n = level.id, len(level.measured)
    book.derive(f"{id}.front_end", "s", "ttft - queue - prefill", front_end, n=n, ttft=f"{id}.ttft.mean",
                queue=f"{id}.queue.mean", prefill=f"{id}.prefill.mean")  # fmt: skip
    book.derive(f"{id}.wait", "s", "client_queue + ttft", lambda client_queue, ttft: client_queue + ttft, n=n,
                client_queue=f"{id}.client_queue.mean", ttft=f"{id}.ttft.mean")  # fmt: skip
    book.derive(f"{id}.queued_share", "share", "(client_queue + queue) / wait",
                lambda client_queue, queue, wait: (client_queue + queue) / wait, n=n,
                client_queue=f"{id}.client_queue.mean", queue=f"{id}.queue.mean", wait=f"{id}.wait")  # fmt: skip
    _mixed(book, level, kind)


def front_end(ttft: float, queue: float, prefill: float) -> float:
    """What of the client's TTFT the engine's own queue and prefill do not explain; below 0 where they exceed it."""
    return ttft - queue - prefill


def little(waiting: float, rate: float) -> float:
    """Mean time in a queue from its mean length and the rate at which requests pass it (Little's law)."""
    return waiting / rate


# ------------------------------------------------------------------------------------- the engine's phases


def _of_vllm(book: Book, level: LevelView) -> None:
    """From the engine's histograms: means exact, percentiles to the width of a bucket; else as its answers state."""
    for phase in PHASES:
        id = f"{level.id}.{phase}"
        counted = book.value(f"{id}_requests")
        histograms.enter(book, level, phase, f"vllm:request_{phase}_time_seconds")
        if counted is None and book.value(f"{id}_stated.mean") is not None:
            _as_stated(book, level, phase)
            continue
        book.derive(f"{id}.mean", "s", "time / requests", _mean, n=None if counted is None else int(counted),
                    time=f"{id}_time", requests=f"{id}_requests")  # fmt: skip


def _mean(time: float, requests: float) -> float:
    if requests <= 0:
        raise Absent(say("missing.none_between_scrapes"))
    return time / requests


def _of_llamacpp(book: Book, level: LevelView) -> None:
    """Prefill and decode as each record states them; the queue from the sampled number of deferred requests."""
    id = level.id
    book.derive(f"{id}.queue.mean", "s", "waiting / rate", little, n=book[f"{id}.waiting.mean"].n, notes=("by_little",),
                waiting=f"{id}.waiting.mean", rate=f"{id}.request_throughput")  # fmt: skip
    _as_stated(book, level, "prefill", "decode")


def _of_openai(book: Book, level: LevelView) -> None:
    _as_stated(book, level, *PHASES)


def _as_stated(book: Book, level: LevelView, *phases: str) -> None:
    for phase in phases:
        stated = f"{level.id}.{phase}_stated.mean"
        book.derive(f"{level.id}.{phase}.mean", "s", "stated", lambda stated: stated, n=book[stated].n, stated=stated)


def _of_queue(book: Book, level: LevelView) -> None:
    """The queue from the engine's histogram, whose sum and count are exact; the rest as the answers state it."""
    id = level.id
    book.derive(f"{id}.queue.mean", "s", "time / requests", _mean,
                time=f"{id}.queue_time", requests=f"{id}.queue_requests")  # fmt: skip
    _as_stated(book, level, "prefill", "decode")


_PHASES_OF = {"vllm": _of_vllm, "llamacpp": _of_llamacpp, "sglang": _of_queue, "tgi": _of_queue}


# ------------------------------------------------------------------------------------- what shares a step


def _mixed(book: Book, level: LevelView, kind: str) -> None:
    """Share of iterations that hold prompt and output tokens: counted in the log, else bounded by the histogram."""
    id = level.id
    if kind != "vllm":
        for name, (unit, formula) in STEPS.items():
            book.missing(
                f"{id}.{name}", unit, formula, say(f"missing.steps_{'llamacpp' if kind == 'llamacpp' else 'openai'}")
            )
        return
    for scope, files, rows in level.each():
        _iterations(book, scope, files, bool(len(rows.measured)))
    scopes = [scope for scope, _, rows in level.each() if len(rows.measured)]
    for name in ("mixed_iterations", "logged_iterations"):
        book.derive(f"{id}.{name}", *STEPS[name], lambda repeats: repeats.sum(),
                    repeats=[f"{scope}.{name}" for scope in scopes])  # fmt: skip
    book.derive(f"{id}.mixed_share", *STEPS["mixed_share"], lambda mixed, iterations: mixed / iterations,
                mixed=f"{id}.mixed_iterations", iterations=f"{id}.logged_iterations")  # fmt: skip
    if book.value(f"{id}.mixed_share") is None:
        _bound(book, level)


def _iterations(book: Book, scope: str, files: Level, completed: bool) -> None:
    """Lines of the repeat's part of the log that tell of an iteration at work, and those of a mixed one."""
    file = files.file(ENGINE_LOG)
    lines = book.lines(file)
    found = [(k, line) for k, line in enumerate(lines, 1) if re.search(ITERATION, line)]
    for name, pattern in (("logged_iterations", ITERATION), ("mixed_iterations", MIXED)):
        if file is None or not found:
            why = "missing.no_log" if file is None else "missing.no_line_an_iteration"
            why = say(why if completed else "missing.none_completed")
            book.missing(f"{scope}.{name}", "count", "count(matches)", why)
            continue
        count = sum(1 for _, line in found if re.search(pattern, line))
        source = Lines(file, found[0][0], found[-1][0], pattern, count)
        book.enter(f"{scope}.{name}", count, "count", "count(matches)", source, n=len(found))


def _bound(book: Book, level: LevelView) -> None:
    """Decoding alone puts at most C tokens into an iteration: those that hold more are all that can be mixed."""
    histograms.enter_buckets(book, level, "iteration_size", "vllm:iteration_tokens_total", "tokens")
    id = f"{level.id}.mixed_share_bound"
    bounds = book.value(f"{level.ids('iteration_size')[0]}.bounds") or ()
    below = [k for k, bound in enumerate(bounds) if level.concurrency and bound <= level.concurrency]
    if not below:
        reason = book[f"{level.id}.iteration_size.buckets"].reason or say("missing.starts_above_c")
        book.missing(id, "share", "1 - buckets[k] / buckets[-1]", reason)
        return
    k = below[-1]
    book.derive(id, "share", f"1 - buckets[{k}] / buckets[-1]", lambda buckets: _above(buckets, k),
                buckets=f"{level.id}.iteration_size.buckets")  # fmt: skip


def _above(buckets: np.ndarray, k: int) -> float:
    if buckets[-1] <= 0:
        raise Absent(say("missing.no_iteration"))
    return 1 - buckets[k] / buckets[-1]


# ------------------------------------------------------------------------------------- over a sweep


def enter_sweep(book: Book, scope: str, levels: Sequence[LevelView]) -> None:
    """How much each part of the wait grows from the first to the last level at which a wait was observed."""
    ends = [level.id for level in levels if book.value(f"{level.id}.wait") is not None]
    for part, figure in (*PARTS.items(), ("wait", "wait")):
        id = f"{scope}.{part}_growth"
        if len(ends) < 2:
            book.missing(id, "s", "last - first", say("missing.one_level_completed"))
        else:
            book.derive(id, "s", "last - first", lambda last, first: last - first, last=f"{ends[-1]}.{figure}",
                        first=f"{ends[0]}.{figure}")  # fmt: skip
