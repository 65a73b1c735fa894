"""When the requests of an open loop are due: drawn from a seed before any is sent, or as a trace file has them."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from itertools import takewhile
from math import ceil, inf, isfinite
from pathlib import Path
from typing import Any

import numpy as np

from genreport.records import Arrivals

# gaps drawn at a time; a schedule is the same however it ends
CHUNK = 1024
# names of a trace's columns: those of this tool, of the Azure LLM inference traces, of Mooncake's
TIMES, INPUTS, OUTPUTS = (
    ("arrival_s", "TIMESTAMP", "timestamp"), ("input", "ContextTokens", "input_length"),
    ("output", "GeneratedTokens", "output_length"),
)  # fmt: skip
LONGEST_S = 1e9  # of a trace: thirty years
# tokens that each of Mooncake's hash_ids stands for
BLOCK = 512


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request of a trace: seconds since its first, tokens, and the blocks of its prompt that others may share."""

    due_s: float
    input: int
    output: int
    blocks: tuple[int, ...] = ()


def due_times(arrivals: Arrivals, seed: int, requests: int | None, duration_s: float | None) -> np.ndarray:
    """Seconds from the start, rising from 0: so many requests, or all that are due before `duration_s`."""
    count, end_s = requests or inf, inf if duration_s is None else duration_s
    if arrivals.process == "burst":
        size, every_s = arrivals.size or 1, arrivals.every_s or 1.0
        bursts = 0 if requests else ceil(round(end_s / every_s, 9))  # 2.7 / 0.3 is a little above 9
        times = np.arange(requests or size * bursts) // size * every_s
    else:
        drawn = _unit_times(arrivals.burstiness, seed, count, (arrivals.rate or 0) * end_s)
        times = _when(arrivals, drawn, duration_s)
    return times[times < end_s]


def _unit_times(burstiness: float | None, seed: int, count: float, load: float) -> np.ndarray:
    """Arrivals at one a second, the first at 0: gaps from a gamma distribution of mean 1, or equal where it has no shape."""
    random, parts, total, drawn = np.random.default_rng(seed), [np.zeros(1)], 0.0, 1
    while drawn < count and total < load:
        gaps = np.ones(CHUNK) if burstiness is None else random.gamma(burstiness, 1 / burstiness, CHUNK)
        parts.append(total + np.cumsum(gaps))
        total, drawn = float(parts[-1][-1]), drawn + CHUNK
    times = np.concatenate(parts)
    return times[: int(count)] if isfinite(count) else times


def _when(arrivals: Arrivals, load: np.ndarray, duration_s: float | None) -> np.ndarray:
    """The moments by which so many requests are to be expected; the inverse of a ramp's growing total."""
    if arrivals.process != "ramp" or duration_s is None:
        return load / arrivals.rate
    start, slope = arrivals.from_rate, (arrivals.to_rate - arrivals.from_rate) / duration_s
    within = load[start * start + 2 * slope * load >= 0]
    return 2 * within / (start + np.sqrt(start * start + 2 * slope * within))


def cut(trace: list[Arrival], speed: float, requests: int | None, duration_s: float | None) -> list[Arrival]:
    """The beginning of a trace, so many times as fast."""
    faster = (Arrival(a.due_s / speed, a.input, a.output, a.blocks) for a in trace[:requests])
    return list(takewhile(lambda arrival: duration_s is None or arrival.due_s < duration_s, faster))


@cache
def read_trace(path: str) -> list[Arrival]:
    """The requests of a CSV or JSONL file in order of arrival. Raises ValueError, which names the line."""
    try:
        with Path(path).open(encoding="utf-8-sig", newline="") as file:
            rows = list(_json_rows(file) if path.endswith((".jsonl", ".json")) else _csv_rows(file))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} can not be read: {getattr(error, 'strerror', 'it is not UTF-8 text')}") from None
    found = [_arrival(f"{path}, line {line}", row) for line, row in rows]
    if not found:
        raise ValueError(f"{path} holds no request")
    first, last = (edge(arrival.due_s for arrival in found) for edge in (min, max))
    if last - first > LONGEST_S:
        raise ValueError(f"{path} spans {last - first:.3g} s; are its times in another unit?")
    return sorted((Arrival(a.due_s - first, a.input, a.output, a.blocks) for a in found), key=lambda a: a.due_s)


def _csv_rows(file: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader(file)
    try:
        yield from ((reader.line_num, row) for row in reader)
    except csv.Error as error:
        raise ValueError(f"{file.name}, line {reader.line_num + 1}: is no CSV: {error}") from None


def _json_rows(file: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(file, 1):
        if line.strip():
            yield number, _object(f"{file.name}, line {number}", line)


def _object(where: str, line: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"{where}: is no JSON") from None
    if not isinstance(row, dict):
        raise ValueError(f"{where}: is no object")
    return row


def _arrival(where: str, row: dict[str, Any]) -> Arrival:
    blocks = row.get("hash_ids") or []
    if not isinstance(blocks, list) or not all(isinstance(block, int) for block in blocks):
        raise ValueError(f"{where}: hash_ids must be a list of whole numbers")
    return Arrival(_seconds(where, row), _tokens(where, row, INPUTS), _tokens(where, row, OUTPUTS), tuple(blocks))


def _column(where: str, row: dict[str, Any], names: tuple[str, ...]) -> tuple[str, Any]:
    found = next((name for name in names if row.get(name) not in (None, "")), None)
    if found is None:
        raise ValueError(f"{where}: has none of {', '.join(names)}")
    return found, row[found]


def _tokens(where: str, row: dict[str, Any], names: tuple[str, ...]) -> int:
    name, given = _column(where, row, names)
    text = str(given).strip()
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text)):
        raise ValueError(f"{where}: {name} must be a whole number above 0, not {text[:60]!r}")
    return int(text)


def _seconds(where: str, row: dict[str, Any]) -> float:
    """`TIMESTAMP` is a date with time, `timestamp` milliseconds."""
    name, given = _column(where, row, TIMES)
    try:
        if name == "TIMESTAMP":
            when = datetime.fromisoformat(str(given).strip())
            return (when - datetime(1970, 1, 1, tzinfo=when.tzinfo)).total_seconds()
        seconds = float(given) / (1000 if name == "timestamp" else 1)
    except (TypeError, ValueError, OverflowError):
        seconds = inf
    if not isfinite(seconds):
        what = "a date with time" if name == "TIMESTAMP" else "a number"
        raise ValueError(f"{where}: {name} must be {what}, not {str(given)[:60]!r}")
    return seconds
