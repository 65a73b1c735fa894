"""How a displayed number is read back, and which numbers a text may hold."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from genreport.audit.manifest import is_number
from genreport.audit.names import bare, is_name
from genreport.words import say

# a figure's unit -> the units it is shown in; a unit that is not here is shown as itself
UNITS: dict[str, dict[str, float]] = {
    "s": {"s": 1, "ms": 1e-3, "µs": 1e-6},
    "s/s": {"s/s": 1, "ms/s": 1e-3, "µs/s": 1e-6},
    "share": {"%": 1e-2},
    "ratio": {"×": 1},
    "count": {"": 1},
    "1": {"": 1},
    "bytes": {"B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40},
    "bytes/s": {"B/s": 1, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12},
    "FLOP": {"FLOP": 1, "MFLOP": 1e6, "GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15},
    "FLOP/s": {"FLOP/s": 1, "MFLOP/s": 1e6, "GFLOP/s": 1e9, "TFLOP/s": 1e12, "PFLOP/s": 1e15},
}
_SHOWN = re.compile(r"([−-]?)(\d[\d,]*)(?:\.(\d+))?\s*(\D*)")
_NUMBER = re.compile(r"[−-]?\d[\d,]*(?:\.\d+)?[%×]?")


def shows(text: str, value: Any, unit: str) -> bool:
    """Whether a displayed text is the value rounded to the digits shown, in a unit that such a value has."""
    found = _SHOWN.fullmatch(text.strip())
    if found is None or not is_number(value):
        return False
    sign, whole, decimals, shown_unit = found.groups()
    scale = UNITS.get(unit, {named(unit): 1}).get(shown_unit.strip())
    if scale is None:
        return False
    shown = float(f"{whole.replace(',', '')}.{decimals or '0'}") * (-1 if sign else 1)
    half = 0.5 * 10 ** -len(decimals or "")
    return abs(value / scale - shown) <= half * (1 + 1e-9)


def named(unit: str) -> str:
    """The unit as a text names it: the only one that is a word is in the catalogue."""
    return say("unit.tokens") if unit == "tokens" else unit


def misread(text: str, drawn: Sequence[tuple[float, str]], vocabulary: str) -> Iterator[str]:
    """What is wrong with the numbers of a text.

    Each is one of the figures `drawn` (value, unit) at the digits shown, told no more often than they are there, or part
    of a name that the round knows.
    """
    words, told = text.split(), Counter()
    for place, word in enumerate(words):
        if not re.search(r"\d", word):
            continue
        if not _NUMBER.fullmatch(bare(word)):
            if not is_name(word, vocabulary):
                yield f"names {word!r}, which the round does not know"
            continue
        with_unit = f"{bare(word)} {bare(words[place + 1])}" if place + 1 < len(words) else bare(word)
        told[with_unit if any(shows(with_unit, *one) for one in drawn) else bare(word)] += 1
    for number, times in told.items():
        found = sum(shows(number, *one) for one in drawn)
        if times > found:
            yield f"tells {number!r} {times} times, figures that it shows show it {found} times"
