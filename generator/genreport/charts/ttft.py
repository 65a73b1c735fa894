"""The wait for the first token: its parts stacked per level, and what the engine's steps hold meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from genreport.charts.colours import NARROW, PAPER, colour_by, group_palette
from genreport.charts.load import over_load
from genreport.charts.marks import curves, reference
from genreport.charts.rows import Row, chart_of, tooltips, valued
from genreport.charts.scales import linear
from genreport.charts.spec import Chart, finish, in_words
from genreport.words import say

# the parts in the order of the wait
PARTS = ("client_queue", "queue", "prefill", "front_end", "undivided")
_SECONDS = (
    "datum.value == 0 ? '0' : abs(datum.value) >= 1 ? format(datum.value, '~g') + ' s' : abs(datum.value) >= 0.001 ? "
    "format(datum.value * 1000, '.4~g') + ' ms' : format(datum.value * 1000000, '.4~g') + ' µs'"
)


def anatomy(rows: Sequence[Row]) -> Chart | None:
    """One engine's mean wait per level, stacked by its parts (`part`, one of PARTS); a negative one hangs below 0."""
    drawn = [row | {"part": _name(row["part"]), "place": str(PARTS.index(row["part"]))} for row in valued(rows)]
    if not drawn:
        return None
    title = say("ttft_chart.anatomy", engine=drawn[0]["engine"])
    said = in_words(title, sorted(drawn, key=lambda row: row["place"]), "part")
    below = any(row["value"] < 0 for row in drawn)
    return finish("anatomy", title, "lower", [_bars(drawn), reference(0) if below else None], said)


def _name(part: str) -> str:
    return say(f"ttft_chart.part_{part}")


def _bars(drawn: Sequence[Row]) -> alt.Chart:
    every = [_name(part) for part in PARTS]
    names = [name for name in every if any(row["part"] == name for row in drawn)]
    palette = dict(zip(every, group_palette(len(PARTS)), strict=True))
    levels = sorted({row["concurrency"] for row in drawn})
    bars = chart_of(drawn, {"place": "number"}).encode(
        x=alt.X("concurrency:O", sort=levels, axis=alt.Axis(title=say("chart.concurrency"), labelAngle=0, ticks=False)),
        y=alt.Y("value:Q", stack="zero", axis=alt.Axis(title=None, tickCount=6, labelExpr=_SECONDS)),
        color=colour_by("part", names, [palette[name] for name in names], legend=NARROW),
        order="place:Q",
        href="href:N",
        tooltip=tooltips("engine", "concurrency", "part", "shown"),
    )
    return bars.mark_bar(stroke=PAPER, strokeWidth=1, cursor="pointer")


def mixed_share(rows: Sequence[Row]) -> Chart | None:
    """Share of the iterations in which prefill and decode share a step, over concurrency."""
    return _curves("mixed_share", rows, percent=True)


def tokens_per_iteration(rows: Sequence[Row]) -> Chart | None:
    """Mean tokens that one step of the engine computes, over concurrency."""
    return _curves("tokens_per_iteration", rows)


def _curves(name: str, rows: Sequence[Row], *, percent: bool = False) -> Chart | None:
    drawn = valued(rows)
    if not drawn:
        return None
    chart = over_load(name, say(f"ttft_chart.{name}"), None, drawn, curves(drawn, linear(drawn, "value")))
    for axis in (layer["encoding"].get("y", {}).get("axis") for layer in chart.spec["layer"] if percent):
        if axis:
            axis["format"] = ".2~%"  # a share may be far below one percent
    return chart
