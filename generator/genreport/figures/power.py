"""Power, clocks, temperature and memory of the GPUs while a level ran, from the lines of gpu.csv.

A line holds a time, a GPU's index and what its driver says, in the order of nvidia-smi's query; see docs/format.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from genreport.figures.book import Book
from genreport.figures.frames import Table
from genreport.figures.layout import LevelView
from genreport.figures.samples import time_mean
from genreport.provenance import Lines
from genreport.rounds import GPU, Level
from genreport.words import say

# fields of a line between a GPU's index and the one meant: power, clocks of SMs and memory, temperature, two uses, memory
SKIPPED = {"power": 0, "sm_clock": 1, "temperature": 3, "memory": 6}
NUMBER = r"\d+(?:\.\d+)?"
MIB = 2**20
# statistic over the samples of a GPU, and over the GPUs and repeats of a level -> unit, function
STATISTICS = {
    "sm_clock.mean": ("MHz", np.mean),
    "sm_clock.min": ("MHz", np.min),
    "temperature.max": ("°C", np.max),
}


def _bit(place: int, mask: int) -> str:
    """The end of a line whose sixteen hexadecimal digits have this bit set in the digit at that place from the right."""
    digits = "".join(dict.fromkeys(c for d in range(16) if d & mask for c in f"{d:x}{d:X}"))
    return rf",\s*0x[0-9A-Fa-f]{{{16 - place}}}[{digits}][0-9A-Fa-f]{{{place - 1}}}\s*$"


def _word(word: str) -> str:
    return rf",\s*(?:[a-z_]+\+)*{word}(?:\+[a-z_]+)*\s*$"


# why a GPU slowed down: bits of NVIDIA's mask, and words for those of AMD
REASONS = {
    "sw_power_cap": _bit(1, 4),
    "hw_slowdown": _bit(1, 8),
    "sw_thermal": _bit(2, 2),
    "hw_thermal": _bit(2, 4),
    "power_brake": _bit(2, 8),
    **{word: _word(word) for word in ("prochot", "ppt", "socket_thermal", "vr_thermal", "hbm_thermal", "throttled")},
}
# any of them; idleness, a chosen clock and synchronised boost (bits 0, 1 and 4) are none
THROTTLED = (
    r",\s*(?:0x[0-9A-Fa-f]{14}(?![01][0-3]\s*$)[0-9A-Fa-f]{2}"
    r"|(?:prochot|ppt|socket_thermal|vr_thermal|hbm_thermal|throttled)[a-z_+]*)\s*$"
)


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
    """Mean power, energy per output token, clocks, temperature, memory and throttling of a level, over all GPUs sampled."""
    id = level.id
    repeats = {scope: _gpus(book, scope, files, rows.measured) for scope, files, rows in level.each()}
    gpus = [gpu for found in repeats.values() for gpu in found]
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
    book.derive(f"{id}.throttled_share", "share", "sum(throttled) / sum(samples)", _share,
                throttled=throttled, samples=samples)  # fmt: skip
    _reasons(book, id, gpus, samples)
    _memory(book, id, repeats)


def _share(throttled: np.ndarray, samples: np.ndarray) -> float:
    return throttled.sum() / samples.sum()


def _reasons(book: Book, id: str, gpus: Sequence[str], samples: Sequence[str]) -> None:
    """The share of samples with each reason that was seen at all."""
    for reason in REASONS:
        seen = book.observed(f"{gpu}.throttle.{reason}" for gpu in gpus)
        if seen:
            book.derive(f"{id}.throttle.{reason}", "share", "sum(throttled) / sum(samples)", _share, throttled=seen,
                        samples=samples)  # fmt: skip


def _memory(book: Book, id: str, repeats: dict[str, list[str]]) -> None:
    """The largest memory in use of each GPU, summed over GPUs; of the repeats the largest."""
    sampled = {scope: gpus for scope, gpus in repeats.items() if gpus}
    for scope, gpus in sampled.items():
        book.derive(f"{scope}.gpu_memory.max", "bytes", "sum(gpus)", lambda gpus: gpus.sum(), n=len(gpus),
                    gpus=[f"{gpu}.memory.max" for gpu in gpus])  # fmt: skip
    book.derive(f"{id}.gpu_memory.max", "bytes", "max(repeats)", lambda repeats: repeats.max(), n=len(sampled),
                repeats=[f"{scope}.gpu_memory.max" for scope in sampled])  # fmt: skip


def _none(book: Book, id: str) -> None:
    why = say("missing.no_sensor")
    book.missing(f"{id}.power", "W", "sum(energy) / sum(windows)", why)
    book.missing(f"{id}.energy_per_token", "J/tok", "sum(energy) / tokens", why)
    for figure, (unit, _) in STATISTICS.items():
        book.missing(f"{id}.{figure}", unit, f"{figure.rpartition('.')[2]}(gpus)", why)
    book.missing(f"{id}.throttled_share", "share", "sum(throttled) / sum(samples)", why)
    book.missing(f"{id}.gpu_memory.max", "bytes", "max(repeats)", why)


def _gpus(book: Book, scope: str, files: Level, rows: Table) -> list[str]:
    """Enters the figures of each GPU in one repeat; their scopes."""
    window = _window(book, files.file(GPU), rows)
    if window is None:
        return []
    found = sorted({int(m[1]) for text in window.texts if (m := re.match(r"\d+,\s*(\d{1,4}),", text))})
    for gpu in found:
        _gpu(book, f"{scope}.gpu{gpu}", window, gpu, f"{scope}.window_s")
    return [f"{scope}.gpu{gpu}" for gpu in found]


def _window(book: Book, file: str | None, rows: Table) -> _Window | None:
    """The stretch of lines between the first start and the last text event."""
    if file is None or not len(rows):
        return None
    low, high = rows.start_s.values.min(), rows.last_text_s.values.max()
    lines = book.lines(file)
    stamps = [(k, int(m[1]) / 1e6) for k, line in enumerate(lines) if (m := re.match(r"(\d{1,15}),", line))]
    inside = [k for k, t in stamps if low <= t <= high]
    return _Window(file, tuple(lines[inside[0] : inside[-1] + 1]), inside[0] + 1) if inside else None


def _gpu(book: Book, id: str, window: _Window, gpu: int, window_s: str) -> None:
    line = {name: rf"^\d+,\s*{gpu}," + r"[^,]*," * skip + rf"\s*({NUMBER})\s*(?:,|$)" for name, skip in SKIPPED.items()}
    for figure, (unit, function) in STATISTICS.items():
        name, _, statistic = figure.partition(".")
        _read(book, f"{id}.{figure}", unit, f"{statistic}(matches)", window, line[name], function)
    _read(book, f"{id}.memory.max", "bytes", f"max(matches) * {MIB}", window, line["memory"],
          lambda mib: mib.max() * MIB)  # fmt: skip
    # stamps and watts of the very same lines
    stamped = rf"^(\d+),\s*{gpu},\s*{NUMBER}\s*(?:,|$)"
    _read(book, f"{id}.t_s", "s", "matches / 1e6", window, stamped, lambda us: us / 1e6)
    _read(book, f"{id}.power", "W", "matches", window, line["power"], lambda watts: watts)
    book.derive(f"{id}.energy", "J", "time_mean(t_s, power) * window",
                lambda t_s, power, window: time_mean(t_s, power) * window,
                t_s=f"{id}.t_s", power=f"{id}.power", window=window_s)  # fmt: skip
    _count(book, f"{id}.samples", window, rf"^\d+,\s*({gpu}),")
    _count(book, f"{id}.throttled", window, rf"^\d+,\s*({gpu}),.*{THROTTLED}")
    for reason, end in REASONS.items():
        if window.source(pattern := rf"^\d+,\s*({gpu}),.*{end}").count:
            _count(book, f"{id}.throttle.{reason}", window, pattern)


def _count(book: Book, id: str, window: _Window, pattern: str) -> None:
    source = window.source(pattern)
    book.enter(id, source.count, "count", "count(matches)", source, n=source.count)


def _read(book: Book, id: str, unit: str, formula: str, window: _Window, pattern: str, function: Callable) -> None:
    found = window.numbers(pattern)
    value = function(found) if len(found) else None
    book.enter(id, value, unit, formula, window.source(pattern), n=len(found), reason=say("missing.gpu_silent"))
