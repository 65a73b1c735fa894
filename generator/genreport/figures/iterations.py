"""What ran while a repeat was measured, by the engine's log: a line an iteration, with what it held and how long it took.

A gauge is sampled between iterations: through a long one it shows what the one before held. The log has no such lag.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from genreport.figures.book import Book
from genreport.provenance import Lines
from genreport.rounds import ENGINE_LOG, Level

# tests whose load never pauses: where it does, the engine rests, and that time stands in no line
BUSY = ("concurrency", "length", "cliff")
# each data-parallel engine logs its own iterations, which do not add up to what ran at a time
ENGINE = r"Engine (\d+): Iteration\("
_HELD = (
    r"Iteration\(\d+\): (?P<context>\d+) context requests, \d+ context tokens, (?P<generation>\d+) generation requests, "
    r"\d+ generation tokens, iteration elapsed time: (?P<elapsed>\d+(?:\.\d+)?) ms"
)
# gauge -> pattern of a line, its mean over time and its maximum, over the pattern's groups
LOGGED = {
    "running": (_HELD, "sum((context + generation) * elapsed) / sum(elapsed)", "max(context + generation)"),
    "kv_use": (
        _HELD + r", GPU KV cache usage: (?P<percent>\d+(?:\.\d+)?)%",
        "sum(percent * elapsed) / sum(elapsed) / 100",
        "max(percent) / 100",
    ),
}
_VALUE: dict[str, Callable[[dict[str, np.ndarray]], np.ndarray]] = {
    "running": lambda held: held["context"] + held["generation"],
    "kv_use": lambda held: held["percent"] / 100,
}


@dataclass(frozen=True)
class Logged:
    """One gauge by the log of a repeat: mean over the time of its iterations, maximum, their formulas and lines."""

    mean: float
    max: float
    formulas: tuple[str, str]
    source: Lines


def of_repeat(book: Book, files: Level, gauge: str) -> Logged | None:
    """The gauge by the iterations of a repeat; `None` where the log has no lines of it, or several engines wrote them."""
    file = files.file(ENGINE_LOG)
    if file is None or gauge not in LOGGED or files.facts.kind not in BUSY:
        return None
    pattern, *formulas = LOGGED[gauge]
    lines = book.lines(file)
    found = [(k, match) for k, line in enumerate(lines, 1) if (match := re.search(pattern, line))]
    held = {name: np.array([float(match[name]) for _, match in found]) for name in re.compile(pattern).groupindex}
    if not held["elapsed"].sum() or len({match[1] for line in lines if (match := re.search(ENGINE, line))}) > 1:
        return None
    value = _VALUE[gauge](held)
    mean = float((value * held["elapsed"]).sum() / held["elapsed"].sum())
    return Logged(mean, float(value.max()), (formulas[0], formulas[1]),
                  Lines(file, found[0][0], found[-1][0], pattern, len(found)))  # fmt: skip
