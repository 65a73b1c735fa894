"""Graph reuse: how many of llama.cpp's steps ran on the compute graph of the step before, by its own log.

The log tells a total when an answer ends, so the stretch that can be counted runs from the first answer of a repeat to
its last. The steps of that stretch are the repeat's decode calls less those until the first answer, which took one a token.
"""

from __future__ import annotations

import re

from genreport.figures.book import Absent, Book
from genreport.figures.layout import LevelView
from genreport.provenance import Line
from genreport.rounds import ENGINE_LOG, Level
from genreport.words import say

REUSED = r"\bgraphs reused\s*=\s*(\d+)"
ANSWERED = r"(?<!prompt )\beval time\s*=\s*[\d.]+ ms\s*/\s*(\d+) (?:tokens|runs)"
# after the first answer there must be at least this share of the steps until it, else the share says nothing
ENOUGH = 0.5
FORMULA = "sum(reused) / sum(steps)"
EDGES = {"first": "graphs_first", "last": "graphs_last", "tokens": "graphs_first_answer"}
NONE = {"vllm": "missing.vllm_no_graphs", "openai": "missing.unknown_kind"}


def enter(book: Book, level: LevelView, kind: str) -> None:
    """`graph_reuse` of a level, with its lowest and highest repeat."""
    id = level.id
    if kind != "llamacpp":
        for name, formula in (("", FORMULA), (".min", "min(repeats)"), (".max", "max(repeats)")):
            book.missing(f"{id}.graph_reuse{name}", "share", formula, say(NONE.get(kind, NONE["openai"])))
        return
    for scope, files, _ in level.each():
        _repeat(book, scope, files)
    scopes = [scope for scope, _, _ in level.each()]
    known = [scope for scope in scopes if book.value(f"{scope}.graph_reuse") is not None] or scopes
    book.derive(f"{id}.graph_reuse", "share", FORMULA, lambda reused, steps: reused.sum() / steps.sum(), n=len(known),
                reused=[f"{s}.graphs_reused" for s in known], steps=[f"{s}.graph_steps" for s in known])  # fmt: skip
    for name, extreme in (("min", min), ("max", max)):
        book.derive(f"{id}.graph_reuse.{name}", "share", f"{name}(repeats)",
                    lambda repeats, extreme=extreme: extreme(repeats), n=len(known),
                    repeats=[f"{s}.graph_reuse" for s in known])  # fmt: skip


def _repeat(book: Book, scope: str, files: Level) -> None:
    found, why = _edges(book, files.file(ENGINE_LOG))
    for edge, name in EDGES.items():
        unit = "tokens" if edge == "tokens" else "count"
        if why:
            book.missing(f"{scope}.{name}", unit, "number(line)", why)
        else:
            value, source = found[edge]
            book.enter(f"{scope}.{name}", value, unit, "number(line)", source)
    book.derive(f"{scope}.graphs_reused", "count", "last - first", _grown, last=f"{scope}.graphs_last",
                first=f"{scope}.graphs_first")  # fmt: skip
    book.derive(f"{scope}.graph_steps", "count", "iterations - tokens", steps_after,
                iterations=f"{scope}.iterations", tokens=f"{scope}.graphs_first_answer")  # fmt: skip
    book.derive(f"{scope}.graph_reuse", "share", "reused / steps", lambda reused, steps: reused / steps,
                reused=f"{scope}.graphs_reused", steps=f"{scope}.graph_steps")  # fmt: skip


def _grown(last: float, first: float) -> float:
    if last < first:
        raise Absent(say("missing.counter_fell"))
    return last - first


def steps_after(iterations: float, tokens: float) -> float:
    """Decode calls after the first answer, which took one for each of its tokens."""
    if iterations - tokens < ENOUGH * tokens:
        raise Absent(say("missing.few_steps"))
    return iterations - tokens


def _edges(book: Book, file: str | None) -> tuple[dict[str, tuple[float, Line]], str | None]:
    """The totals at the first and the last answer and the first answer's tokens; else why there are none."""
    lines = book.lines(file)
    totals = [k for k, line in enumerate(lines, 1) if re.search(REUSED, line)]
    if file is None or not totals:
        return {}, say("missing.no_log" if file is None else "missing.no_graphs_in_log")
    answers = [k for k in range(1, totals[0]) if re.search(ANSWERED, lines[k - 1])]
    if len(totals) < 2 or not answers:
        return {}, say("missing.one_answer_in_log")
    places = {"first": (totals[0], REUSED), "last": (totals[-1], REUSED), "tokens": (answers[-1], ANSWERED)}
    return {edge: _read(file, lines, *place) for edge, place in places.items()}, None


def _read(file: str, lines: list[str], line: int, pattern: str) -> tuple[float, Line]:
    return float(re.search(pattern, lines[line - 1])[1]), Line(file, line, pattern)
