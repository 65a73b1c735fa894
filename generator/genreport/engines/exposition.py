"""A few values out of a Prometheus text, fast enough to read twice a second beside a measurement."""

from __future__ import annotations

import math
from collections.abc import Sequence


def value(text: str, name: str) -> float | None:
    """Sum of a metric's samples over its label sets (data-parallel engines count apart); `None` where it is absent."""
    found: list[float] = []
    place = text.find(name)
    while place >= 0:
        end = text.find("\n", place)
        line = text[place : end if end >= 0 else len(text)]
        if (place == 0 or text[place - 1] == "\n") and line[len(name) : len(name) + 1] in ("{", " "):
            found += _sample(line[len(name) :])
        place = text.find(name, place + len(name))
    return sum(found) if found else None


def _sample(rest: str) -> list[float]:
    """The value after the label set; a label may hold spaces and braces, a value and a time stamp hold neither."""
    words = rest[rest.rfind("}") + 1 :].split()
    try:
        return [float(words[0])]
    except (IndexError, ValueError):
        return []


def values(text: str, names: Sequence[str]) -> list[float | None]:
    """Those of several metrics; what is no finite number was not observed."""
    found = (value(text, name) for name in names)
    return [each if each is not None and math.isfinite(each) else None for each in found]


def idle(text: str, busy: Sequence[str]) -> bool:
    """Whether none of the gauges that count requests at work is above 0."""
    return not any((found or 0) > 0 for found in values(text, busy))
