"""Power, clocks and temperature of the GPUs while a level ran, from nvidia-smi's own lines (gpu.csv)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from genreport.errors import RoundError
from genreport.figures.book import Book
from genreport.figures.frames import Table
from genreport.figures.layout import LevelView
from genreport.figures.samples import time_mean
from genreport.provenance import Lines
from genreport.rounds import GPU, Level, Round

NO_SENSOR = "no power sensor was sampled"
# fields of a line between a GPU's index and the one meant: index, power.draw, clocks.sm, clocks.mem, temperature.gpu, …
SKIPPED = {"power": 0, "sm_clock": 1, "temperature": 3}
NUMBER = r"\d+(?:\.\d+)?"
# any reason to slow down but idleness, a chosen clock and synchronised boost (bits 0, 1 and 4)
THROTTLED = r",\s*0x[0-9A-Fa-f]{14}(?![01][0-3]\s*$)[0-9A-Fa-f]{2}\s*$"
# statistic over the samples of a GPU, and over the GPUs and repeats of a level -> unit, function
STATISTICS = {
    "sm_clock.mean": ("MHz", np.mean),
    "sm_clock.min": ("MHz", np.min),
    "temperature.max": ("°C", np.max),
}


@dataclass(frozen=True)
class _Window:
    """The lines of a repeat's window, first to last."""

    file: str
    texts: tuple[str, ...]
    first: int

    def source(self, pattern: str) -> Lines:
        count = sum(1 for text in self.texts if re.search(pattern, text))
        return Lines(self.file, self.first, self.first + len(self.texts) - 1, pattern, count)

    def numbers(self, pattern: str) -> np.ndarray:
        return np.array([float(m[1]) for text in self.texts if (m := re.search(pattern, text))])


def enter(book: Book, level: LevelView) -> None:
    """Mean power, energy per output token, clocks, temperature and throttling of a level, over all GPUs sampled."""
    id = level.id
    gpus = [gpu for scope, files, rows in level.each() for gpu in _gpus(book, scope, files, rows.measured)]
    if not gpus:
        _none(book, id)
        return
    windows = [f"{s}.window_s" for s, _, rows in level.each() if len(rows.measured)]
    energy, throttled, samples = ([f"{gpu}.{name}" for gpu in gpus] for name in ("energy", "throttled", "samples"))
    book.derive(f"{id}.power", "W", "sum(energy) / sum(windows)",
                lambda energy, windows: energy.sum() / windows.sum(), energy=energy, windows=windows)  # fmt: skip
    book.derive(f"{id}.energy_per_token", "J/tok", "sum(energy) / tokens", lambda energy, tokens: energy.sum() / tokens,
                energy=energy, tokens=f"{id}.output_tokens")  # fmt: skip
    for figure, (unit, function) in STATISTICS.items():
        book.derive(f"{id}.{figure}", unit, f"{figure.rpartition('.')[2]}(gpus)",
                    lambda gpus, function=function: function(gpus), gpus=[f"{gpu}.{figure}" for gpu in gpus])  # fmt: skip
    book.derive(f"{id}.throttled_share", "share", "sum(throttled) / sum(samples)",
                lambda throttled, samples: throttled.sum() / samples.sum(),
                throttled=throttled, samples=samples)  # fmt: skip


def _none(book: Book, id: str) -> None:
    book.missing(f"{id}.power", "W", "sum(energy) / sum(windows)", NO_SENSOR)
    book.missing(f"{id}.energy_per_token", "J/tok", "sum(energy) / tokens", NO_SENSOR)
    for figure, (unit, _) in STATISTICS.items():
        book.missing(f"{id}.{figure}", unit, f"{figure.rpartition('.')[2]}(gpus)", NO_SENSOR)
    book.missing(f"{id}.throttled_share", "share", "sum(throttled) / sum(samples)", NO_SENSOR)


def _gpus(book: Book, scope: str, files: Level, rows: Table) -> list[str]:
    """Enters the figures of each GPU in one repeat; their scopes."""
    window = _window(book.round, files.file(GPU), rows)
    if window is None:
        return []
    found = sorted({int(m[1]) for text in window.texts if (m := re.match(r"\d+,\s*(\d{1,4}),", text))})
    for gpu in found:
        _gpu(book, f"{scope}.gpu{gpu}", window, gpu, f"{scope}.window_s")
    return [f"{scope}.gpu{gpu}" for gpu in found]


def _window(round: Round, file: str | None, rows: Table) -> _Window | None:
    """The stretch of lines between the first start and the last text event."""
    if file is None or not len(rows):
        return None
    low, high = rows.start_s.values.min(), rows.last_text_s.values.max()
    try:
        lines = round.text(file).split("\n")
    except (RoundError, OSError):
        return None
    stamps = [(k, int(m[1]) / 1e6) for k, line in enumerate(lines) if (m := re.match(r"(\d{1,15}),", line))]
    inside = [k for k, t in stamps if low <= t <= high]
    return _Window(file, tuple(lines[inside[0] : inside[-1] + 1]), inside[0] + 1) if inside else None


def _gpu(book: Book, id: str, window: _Window, gpu: int, window_s: str) -> None:
    line = {name: rf"^\d+,\s*{gpu}," + r"[^,]*," * skip + rf"\s*({NUMBER})\s*(?:,|$)" for name, skip in SKIPPED.items()}
    for figure, (unit, function) in STATISTICS.items():
        name, _, statistic = figure.partition(".")
        _read(book, f"{id}.{figure}", unit, f"{statistic}(matches)", window, line[name], function)
    # stamps and watts of the very same lines
    stamped = rf"^(\d+),\s*{gpu},\s*{NUMBER}\s*(?:,|$)"
    _read(book, f"{id}.t_s", "s", "matches / 1e6", window, stamped, lambda us: us / 1e6)
    _read(book, f"{id}.power", "W", "matches", window, line["power"], lambda watts: watts)
    book.derive(f"{id}.energy", "J", "time_mean(t_s, power) * window",
                lambda t_s, power, window: time_mean(t_s, power) * window,
                t_s=f"{id}.t_s", power=f"{id}.power", window=window_s)  # fmt: skip
    for name, pattern in (("samples", rf"^\d+,\s*({gpu}),"), ("throttled", rf"^\d+,\s*({gpu}),.*{THROTTLED}")):
        source = window.source(pattern)
        book.enter(f"{id}.{name}", source.count, "count", "count(matches)", source, n=source.count)


def _read(book: Book, id: str, unit: str, formula: str, window: _Window, pattern: str, function: Callable) -> None:
    found = window.numbers(pattern)
    value = function(found) if len(found) else None
    book.enter(id, value, unit, formula, window.source(pattern), n=len(found), reason="the GPU does not say")
