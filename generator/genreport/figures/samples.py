"""Sampled gauges: running, waiting and KV use, over the window in which a repeat's requests were in flight."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import orjson

from genreport.errors import RoundError
from genreport.figures import iterations
from genreport.figures.book import Book
from genreport.figures.frames import Table
from genreport.figures.layout import Finding, LevelView
from genreport.provenance import Samples
from genreport.rounds import SAMPLES, SLOTS, Level, Round
from genreport.words import say

RESIDENT = "resident_tokens"
MEMORY = {"memory": ("process:resident_bytes",)}
GAUGES: dict[str, dict[str, tuple[str, ...]]] = {
    "vllm": {
        "running": ("vllm:num_requests_running",),
        "waiting": ("vllm:num_requests_waiting",),
        "kv_use": ("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
        **MEMORY,
    },
    "llamacpp": {"running": ("llamacpp:requests_processing",), "waiting": ("llamacpp:requests_deferred",), **MEMORY},
    "sglang": {
        "running": ("sglang:num_running_reqs",),
        "waiting": ("sglang:num_queue_reqs",),
        "kv_use": ("sglang:token_usage",),
        **MEMORY,
    },
    "tgi": {"running": ("tgi_batch_current_size",), "waiting": ("tgi_queue_size",), **MEMORY},
    "ollama": MEMORY,
    "openai": MEMORY,
}
UNITS = {"running": "1", "waiting": "1", "kv_use": "share", "memory": "bytes"}
# vLLM sets its gauges when an iteration ends: through a long one they show what the one before held
LAGS = "gauge_lags"
Edges = tuple[float, float] | None


@dataclass(frozen=True)
class Series:
    """Samples of one gauge inside a window; `lines` are those of the first and the last."""

    file: str
    name: str
    t_s: np.ndarray
    sample: np.ndarray
    lines: tuple[int, int]

    @property
    def source(self) -> Samples:
        return Samples(self.file, self.name, self.lines)


def time_mean(t_s: np.ndarray, sample: np.ndarray) -> float:
    """Mean over time by trapezoid; one sample is its own mean."""
    span = t_s[-1] - t_s[0]
    return float(np.trapezoid(sample, t_s) / span) if span > 0 else float(sample[0])


def enter(book: Book, level: LevelView, kind: str, pool: str, findings: list[Finding]) -> None:
    """Mean over time and maximum of each gauge; `pool` is the id of the engine's pool in tokens."""
    for scope, files, rows in level.each():
        edges = _window(rows.measured)
        file = files.file(SAMPLES)
        head, points = _read(book.round, file, findings) if file else ({}, NONE)
        for gauge, unit in UNITS.items():
            series = _gauge(file, head, points, GAUGES[kind].get(gauge, ()), edges)
            logged = iterations.of_repeat(book, files, gauge) if kind == "vllm" and edges else None
            _either(book, f"{scope}.{gauge}", unit, series, logged, kind)
        if kind == "llamacpp":
            _repeat(book, f"{scope}.{RESIDENT}", "tokens", _slots(book.round, files.file(SLOTS), edges, findings))
    if kind == "llamacpp":
        _over(book, level, RESIDENT, "tokens")
    for gauge, unit in UNITS.items():
        if kind == "llamacpp" and gauge == "kv_use":
            _kv_of_slots(book, level.id, pool)
        else:
            _over(book, level, gauge, unit)


def of_repeat(round: Round, files: Level, measured: Table, kind: str, gauge: str) -> Series | None:
    """One gauge of a repeat (or `RESIDENT`, from its slots) in the window of its requests; `None` where none is."""
    edges = _window(measured)
    if gauge == RESIDENT:
        return _slots(round, files.file(SLOTS), edges, [])
    return of_window(round, files, kind, gauge, edges)


def of_window(round: Round, files: Level, kind: str, gauge: str, edges: Edges) -> Series | None:
    """One gauge of a repeat between two times of its clock, in seconds; `None` where there is none."""
    file = files.file(SAMPLES)
    head, points = _read(round, file, []) if file else ({}, NONE)
    return _gauge(file, head, points, GAUGES[kind].get(gauge, ()), edges)


def _window(measured: Table) -> Edges:
    if not len(measured):
        return None
    return measured.start_s.values.min(), measured.last_text_s.values.max()


def _either(book: Book, id: str, unit: str, series: Series | None, logged: iterations.Logged | None, kind: str) -> None:
    """A gauge by the log of the iterations, its samples beside it; without such a log by its samples alone."""
    if logged is None:
        lags = kind == "vllm" and not id.endswith(".memory")
        _repeat(book, id, unit, series, (LAGS,) if lags else ())
        return
    for statistic, value, formula in zip(("mean", "max"), (logged.mean, logged.max), logged.formulas, strict=True):
        book.enter(f"{id}.{statistic}", value, unit, formula, logged.source, n=logged.source.count)
    _repeat(book, f"{id}.sampled", unit, series, (LAGS,))


def _repeat(book: Book, id: str, unit: str, series: Series | None, notes: tuple[str, ...] = ()) -> None:
    for statistic, formula in (("mean", "time_mean(t_s, sample)"), ("max", "max(sample)")):
        if series is None:
            book.missing(f"{id}.{statistic}", unit, formula, say("missing.no_gauge"))
            continue
        value = time_mean(series.t_s, series.sample) if statistic == "mean" else series.sample.max()
        book.enter(f"{id}.{statistic}", value, unit, formula, series.source, n=len(series.sample), notes=notes)


def _over(book: Book, level: LevelView, gauge: str, unit: str) -> None:
    """The level's mean weighs each repeat by its window; a repeat in which nothing completed has none."""
    scopes = [scope for scope, _, rows in level.each() if len(rows.measured)]
    n = sum(book[f"{s}.{gauge}.mean"].n or 0 for s in scopes)
    book.derive(f"{level.id}.{gauge}.mean", unit, "sum(means * windows) / sum(windows)",
                lambda means, windows: (means * windows).sum() / windows.sum(), n=n,
                means=[f"{s}.{gauge}.mean" for s in scopes], windows=[f"{s}.window_s" for s in scopes])  # fmt: skip
    book.derive(f"{level.id}.{gauge}.max", unit, "max(repeats)", lambda repeats: repeats.max(), n=n,
                repeats=[f"{s}.{gauge}.max" for s in scopes])  # fmt: skip


def _kv_of_slots(book: Book, id: str, pool: str) -> None:
    for statistic in ("mean", "max"):
        book.derive(f"{id}.kv_use.{statistic}", "share", "resident / pool", lambda resident, pool: resident / pool,
                    n=book[f"{id}.{RESIDENT}.{statistic}"].n, resident=f"{id}.{RESIDENT}.{statistic}",
                    pool=pool)  # fmt: skip


def _gauge(file: str | None, head: dict, points: Points, names: tuple[str, ...], edges: Edges) -> Series | None:
    name = next((name for name in names if name in head.get("series", [])), None)
    if file is None or edges is None or name is None:
        return None
    place = head["series"].index(name) + 1
    return _series(file, name, points, [row[place] if len(row) > place else None for row in points.rows], edges)


def _slots(round: Round, file: str | None, edges: Edges, findings: list[Finding]) -> Series | None:
    """Tokens in busy slots: prompt processed and cached, and decoded."""
    if file is None or edges is None:
        return None
    _, points = _read(round, file, findings)
    return _series(file, RESIDENT, points, [_resident(row[1]) if len(row) > 1 else None for row in points.rows], edges)


def _resident(busy: object) -> float | None:
    return sum(sum(slot[1:4]) for slot in busy) if isinstance(busy, list) else None


@dataclass(frozen=True)
class Points:
    """The samples of a file: the line each stands on, its time, and all that was sampled, the time first."""

    lines: np.ndarray
    t_s: np.ndarray
    rows: list[list]


NONE = Points(np.array([], int), np.array([]), [])


def _read(round: Round, file: str, findings: list[Finding]) -> tuple[dict, Points]:
    """The head line and the points of a sampled file; a line that is no finite data is a finding."""
    head, lines, rows = {}, [], []
    for number, line in enumerate(_lines(round, file), 1):
        if not line:
            continue
        try:
            found = _decoded(line)
        except ValueError as error:
            findings.append(Finding(file, number, say("finding.no_data", what=str(error)[:80])))
            continue
        if isinstance(found, dict) and not head:
            head = found
        elif isinstance(found, list) and found:
            lines.append(number)
            rows.append(found)
    return head, Points(np.array(lines, int), np.array([row[0] for row in rows], float) / 1e6, rows)


def _lines(round: Round, file: str) -> list[str]:
    try:
        return round.text(file).split("\n")
    except RoundError:
        return []


def _decoded(line: str) -> Any:
    try:
        return orjson.loads(line)
    except (
        orjson.JSONDecodeError
    ):  # it reads less than JSON allows; what is wrong, if anything, is in the other's words
        return _decode(line)


def _refuse(constant: str) -> None:
    raise ValueError(constant)


_decode = json.JSONDecoder(parse_constant=_refuse).decode


def _series(
    file: str, name: str, points: Points, values: list[float | None], edges: tuple[float, float]
) -> Series | None:
    """The stretch of lines inside the window; a sample without the value is left out."""
    sample = np.array(values, dtype=float)
    inside = np.flatnonzero((edges[0] <= points.t_s) & (points.t_s <= edges[1]) & ~np.isnan(sample))
    if not len(inside):
        return None
    lines = points.lines[inside]
    return Series(file, name, points.t_s[inside], sample[inside], (int(lines[0]), int(lines[-1])))
