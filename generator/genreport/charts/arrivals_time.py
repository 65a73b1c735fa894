"""An open loop over its time, a small drawing a rate: what requests waited, and how many failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import altair as alt

from genreport.charts.colours import MUTED, colour_by_engine
from genreport.charts.rows import Row, above_zero, chart_of, tooltips, unique, valued
from genreport.charts.scales import Scale, logarithmic, seconds_axis
from genreport.charts.spec import Chart, finish, lines_in_words
from genreport.words import say

HEIGHT = 150
BAR = 5  # px
TICKS = 6


def over_time(panels: Sequence[Sequence[Row]], limits: Sequence[Row] = ()) -> list[Chart]:
    """Of each rate the `median` and the p99 (`value`) of every stretch; all with one log scale, on which limits are rules."""
    drawn = [rows for rows in (above_zero(panel, "value", "median") for panel in panels) if rows]
    every = [row for rows in drawn for row in rows]
    ends = [*every, *({"value": row["median"]} for row in every), *limits]
    y = seconds_axis(_few_ticks(logarithmic(ends, "value"))) if drawn else None
    return [_panel(rows, y, limits) for rows in drawn]


def _few_ticks(scale: Scale) -> Scale:
    """A small drawing has room for every second or third tick of a large one."""
    return replace(scale, ticks=scale.ticks[:: -(-len(scale.ticks) // TICKS)])


def _panel(rows: list[Row], y: alt.Y, limits: Sequence[Row]) -> Chart:
    place = {"x": _time(rows), "color": colour_by_engine(rows)}
    base = chart_of(rows).encode(**place)
    median = alt.Y("median:Q", scale=y["scale"], axis=y["axis"])
    tips = [*tooltips("engine", "after", "requests", "p50"), alt.Tooltip("shown:N", title=say("field.p99"))]
    layers = [
        *(chart_of([row]).encode(y=y).mark_rule(stroke=MUTED, strokeWidth=1, strokeDash=[4, 3]) for row in limits),
        base.encode(y=median, y2="value:Q").mark_area(opacity=0.12, line=False),
        base.encode(y=median).mark_line(strokeWidth=2),
        base.encode(y=y).mark_line(strokeWidth=1.5, strokeDash=[6, 3]),
        base.encode(y=y, href="href:N", tooltip=tips).mark_point(filled=True, size=14, opacity=1, cursor="pointer"),
    ]
    title = say("arrivals_chart.at_rate", rate=rows[0]["rate"])
    return finish("waits_over_time", title, None, layers, f"{title}. {_courses(rows)}", height=HEIGHT)


def _courses(rows: Sequence[Row]) -> str:
    """Each engine's first and last median and its largest p99."""
    return lines_in_words({name: [_course([r for r in rows if r["engine"] == name])] for name in _engines(rows)})


def _course(rows: Sequence[Row]) -> str:
    most = max(rows, key=lambda row: row["value"])
    return say("arrivals_chart.course", first=rows[0]["p50"], last=rows[-1]["p50"], most=most["shown"])


def failures(panels: Sequence[Sequence[Row]]) -> list[Chart]:
    """Of each rate the failed requests (`value`) of every stretch that has some, engines on top of each other."""
    drawn = [rows for rows in map(valued, panels) if rows]
    return [_failed(rows, max(map(_highest, drawn))) for rows in drawn]


def _highest(rows: Sequence[Row]) -> float:
    return max(sum(row["value"] for row in rows if row["t"] == t) for t in {row["t"] for row in rows})


def _failed(rows: list[Row], top: float) -> Chart:
    axis = alt.Axis(title=None, tickCount=3, tickMinStep=1, format="~s")
    bars = chart_of(rows).encode(
        x=_time(rows),
        y=alt.Y("value:Q", stack="zero", scale=alt.Scale(domain=[0, top * 1.08], nice=False), axis=axis),
        color=colour_by_engine(rows),
        href="href:N",
        tooltip=tooltips("engine", "after", "shown"),
    )
    title = say("arrivals_chart.at_rate", rate=rows[0]["rate"])
    layers = [bars.mark_bar(size=BAR, cursor="pointer")]
    return finish("failures_over_time", title, None, layers, f"{title}. {_failed_in_words(rows)}", height=HEIGHT)


def _failed_in_words(rows: Sequence[Row]) -> str:
    told = {name: [row for row in rows if row["engine"] == name] for name in _engines(rows)}
    return lines_in_words({
        name: [say("arrivals_chart.failed", shown=row["shown"], after=row["after"]) for row in own]
        for name, own in told.items()
    })  # fmt: skip


def _engines(rows: Sequence[Row]) -> list[str]:
    return unique(row["engine"] for row in rows)


def _time(rows: Sequence[Row]) -> alt.X:
    """Seconds since the first request was due, with room for half a stretch after the last one."""
    first, last = min(row["t"] for row in rows), max(row["t"] for row in rows)
    axis = alt.Axis(
        title=None,
        grid=False,
        tickCount=3,
        labelOverlap="greedy",
        labelExpr="format(datum.value, ',.6~g') + ' s'",
        labelFlush=True,
    )
    return alt.X("t:Q", scale=alt.Scale(domain=[0, last + min(first, last / 2)], nice=False), axis=axis)
