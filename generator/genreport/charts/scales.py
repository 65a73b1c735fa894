"""Scales fixed before anything is drawn, and the axes on them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import altair as alt

from genreport.charts.rows import Row
from genreport.charts.spec import HEIGHT
from genreport.words import say

_BYTES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_STEPS = (0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500)
_SECONDS = (
    "datum.value >= 1 || datum.value === 0 ? format(datum.value, '~g') + ' s' : datum.value >= 0.001 ? "
    "format(datum.value * 1000, '.4~g') + ' ms' : format(datum.value * 1000000, '.4~g') + ' µs'"
)


@dataclass(frozen=True)
class Scale:
    """A y scale whose domain is fixed here, so that the place of a label is known before it is drawn."""

    low: float
    high: float
    log: bool = False
    ticks: tuple[float, ...] | None = None

    def pixel(self, value: float) -> float:
        """Distance of a value from the top of the drawing, px."""
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return HEIGHT * (1 - (at - low) / (high - low))

    def altair(self) -> alt.Scale:
        """The same domain as a specification has it."""
        kind = {"type": "log"} if self.log else {"type": "linear", "zero": False}
        return alt.Scale(domain=[self.low, self.high], nice=False, **kind)


def linear(rows: Sequence[Row], *fields: str, least: float = 0) -> Scale:
    """From zero (or the lowest value below it) to a little above the highest value and `least`."""
    found = [row[field] for row in rows for field in fields if row.get(field) is not None]
    return Scale(min(0, *found), (max(*found, least, 0) or 1) * 1.08)


def logarithmic(rows: Sequence[Row], field: str) -> Scale:
    """From a little below the lowest value above zero to a little above the highest."""
    found = [row[field] for row in rows if row[field] > 0] or [1.0]
    low, high = min(found) / 1.25, max(found) * 1.25
    return Scale(low, high, log=True, ticks=round_steps(low, high))


def around_one(rows: Sequence[Row]) -> Scale:
    """A log scale for ratios (`value`) that holds the line of equality."""
    found = [row["value"] for row in rows if row["value"] > 0] or [1.0]
    reach = max(1.25, *(max(value, 1 / value) for value in found)) * 1.15
    low, high = max(1 / reach, min(*found, 1) / 1.3), min(reach, max(*found, 1) * 1.3)
    fine = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 1.75, 2)
    steps = fine if high / low < 3.5 else (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20)
    return Scale(low, high, log=True, ticks=tuple(s for s in steps if low <= s <= high))


def round_steps(low: float, high: float) -> tuple[float, ...]:
    """Round ticks inside a log domain: the coarsest series that gives three."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps: tuple[float, ...] = ()
    for series in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), [k / 10 for k in range(10, 100)]):
        found = (float(f"{digit:.6g}e{power}") for power in powers for digit in series)
        steps = tuple(step for step in found if low <= step <= high)
        if len(steps) >= 3:
            break
    return steps


def load_axis(rows: Sequence[Row]) -> alt.X:
    """log2 concurrency with a tick at each measured level."""
    levels = sorted({row["concurrency"] for row in rows})
    axis = alt.Axis(values=levels, format="~g", title=say("chart.concurrency"), grid=False, labelOverlap="greedy")
    domain = [levels[0] / 1.12, levels[-1] * 1.06]
    return alt.X("concurrency:Q", scale=alt.Scale(type="log", base=2, domain=domain, nice=False), axis=axis)


def y_axis(scale: Scale, field: str) -> alt.Y:
    """Plain numbers: at the scale's own ticks where it has some."""
    axis = alt.Axis(title=None, tickCount=6, format="~s" if scale.high >= 10_000 else ",.6~g")
    if scale.ticks:
        axis = alt.Axis(title=None, values=list(scale.ticks), format="~g")
    return alt.Y(f"{field}:Q", scale=scale.altair(), axis=axis)


def bytes_y(scale: Scale) -> alt.Y:
    """Bytes (`value`) with round ticks in the binary unit that pages use."""
    size, unit = next(((s, u) for s, u in _BYTES if scale.high >= s), _BYTES[-1])
    step = next((step for step in _STEPS if scale.high / size / step <= 6), _STEPS[-1])
    ticks = [step * k * size for k in range(int(scale.high / size / step) + 1)]
    axis = alt.Axis(title=None, values=ticks, labelExpr=f"format(datum.value / {size}, ',~r') + ' {unit}'")
    return alt.Y("value:Q", scale=scale.altair(), axis=axis)


def seconds_axis(scale: Scale) -> alt.Y:
    """Seconds (`value`) labelled in the unit that suits each tick."""
    ticks = {"values": list(scale.ticks)} if scale.ticks else {"tickCount": 6}
    axis = alt.Axis(title=None, labelExpr=_SECONDS, **ticks)
    return alt.Y("value:Q", scale=scale.altair(), axis=axis)
