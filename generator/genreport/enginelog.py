"""Which lines of an engine's log belong to a request, where the log and the record name the same thing.

llama.cpp names a task in each of its lines and, when it ends, states the times that its answer states too: to a hundredth of
a millisecond, which tells the tasks of a level apart. vLLM writes lines an iteration, and the names it gives to requests
stand in no record: of its lines nothing can be told. An equal time of two tasks, or of two requests, tells nothing either.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import orjson

# prefill and decode in hundredths of a millisecond, prompt and output tokens
Times = tuple[int, int, int, int]

_TASK = re.compile(r"\| task (\d+) \|")
# a search among the slots names the tasks it passes by
_PASSING = re.compile(r"\bget_availabl")
_PREFILL = re.compile(r"prompt eval time\s*=\s*(\d{1,12}(?:\.\d{1,6})?) ms\s*/\s*(\d{1,12}) tokens")
_DECODE = re.compile(r"\|\s+eval time\s*=\s*(\d{1,12}(?:\.\d{1,6})?) ms\s*/\s*(\d{1,12}) tokens")
# a line longer than this is none of the engine's own
_LONGEST = 4000


def lines_of_requests(requests: Sequence[str], log: Sequence[str]) -> dict[int, list[int]]:
    """Line of a request -> lines of the log that are about it; a request that cannot be told is left out."""
    lines, ended = _tasks(log)
    if not ended:
        return {}
    tasks = Counter(times for times in ended.values())
    said = {k: times for k, line in enumerate(requests, 1) if (times := _stated(line)) is not None}
    asked = Counter(near for times in said.values() for near in _near(times))
    by_times = {times: task for task, times in ended.items() if tasks[times] == 1}
    found = {k: [by_times[t] for t in _near(times) if t in by_times] for k, times in said.items()}
    return {k: lines[ids[0]] for k, ids in found.items() if len(ids) == 1 and asked[ended[ids[0]]] == 1}


def _tasks(log: Iterable[str]) -> tuple[dict[str, list[int]], dict[str, Times]]:
    """Each task's lines, and the times of those that ended."""
    lines: dict[str, list[int]] = defaultdict(list)
    parts: dict[str, dict[str, tuple[int, int]]] = defaultdict(dict)
    for k, line in enumerate(log, 1):
        named = _TASK.search(line[:_LONGEST])
        if named is None or _PASSING.search(line):
            continue
        lines[named[1]].append(k)
        for part, pattern in (("prefill", _PREFILL), ("decode", _DECODE)):
            if stated := pattern.search(line[:_LONGEST]):
                parts[named[1]][part] = (round(float(stated[1]) * 100), int(stated[2]))
    whole = {task: (p["prefill"], p["decode"]) for task, p in parts.items() if len(p) == 2}
    return lines, {task: (a[0], b[0], a[1], b[1]) for task, (a, b) in whole.items()}


def _stated(line: str) -> tuple[float, float, int, int] | None:
    """The times of a record's own `timings`, in hundredths of a millisecond."""
    server = _record(line).get("server") or {}
    timings = server.get("timings") if isinstance(server, dict) else None
    names = ("prompt_ms", "predicted_ms", "prompt_n", "predicted_n")
    values = [timings.get(name) for name in names] if isinstance(timings, dict) else [None]
    if not all(_is_number(value) for value in values):
        return None
    return values[0] * 100, values[1] * 100, int(values[2]), int(values[3])


def _record(line: str) -> dict[str, Any]:
    try:
        return orjson.loads(line)
    except orjson.JSONDecodeError:  # a number beyond 64 bits, half a surrogate pair
        return json.loads(line)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < 1e12


def _near(times: tuple[float, float, int, int]) -> Iterator[Times]:
    """What the log may have printed for these times: a half is rounded either way."""
    prefill, decode, *tokens = times
    for a in _rounded(prefill):
        for b in _rounded(decode):
            yield (a, b, *tokens)


def _rounded(value: float) -> set[int]:
    return {round(value - 1e-6), round(value + 1e-6)}
