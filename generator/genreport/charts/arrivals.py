"""What requests of an open loop wait for their first token, over the rate at which they come."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from genreport.charts.colours import NARROW, colour_by_engine, dash_by
from genreport.charts.rows import Row, chart_of, tooltips, unique, valued
from genreport.charts.scales import Scale, logarithmic, seconds_axis
from genreport.charts.spec import Chart, finish, lines_in_words, point_in_words
from genreport.words import say


def waits(rows: Sequence[Row], *, alt: str | None = None) -> Chart | None:
    """Percentiles (`percentile`) over arrivals a second (`arrivals`, `rate` as written), log seconds."""
    drawn = valued(rows)
    if not drawn:
        return None
    scale, names = logarithmic(drawn, "value"), unique(row["percentile"] for row in drawn)
    title = say("chart.waits")
    layers = [_lines(drawn, scale, names), _points(drawn, scale)]
    return finish("waits", title, "lower", layers, alt or _in_words(title, drawn))


def _lines(drawn: Sequence[Row], scale: Scale, names: list[str]) -> alt.Chart:
    line = chart_of(drawn).encode(
        x=_axis(drawn), y=seconds_axis(scale), color=colour_by_engine(drawn, legend=NARROW), detail="percentile:N"
    )
    return line.encode(strokeDash=dash_by("percentile", names)).mark_line(strokeWidth=2)


def _points(drawn: Sequence[Row], scale: Scale) -> alt.Chart:
    point = chart_of(drawn).encode(
        x=_axis(drawn),
        y=seconds_axis(scale),
        color=colour_by_engine(drawn),
        href="href:N",
        tooltip=tooltips("engine", "percentile", "rate", "shown", "flag"),
    )
    return point.mark_point(filled=True, size=46, opacity=1, cursor="pointer")


def _axis(drawn: Sequence[Row]) -> alt.X:
    """log2 arrivals a second with a tick at each level that was asked for."""
    rates = sorted({row["arrivals"] for row in drawn})
    axis = alt.Axis(values=rates, format=".3~g", title=say("chart.arrivals"), grid=False, labelOverlap="greedy")
    domain = [rates[0] / 1.12, rates[-1] * 1.06]
    return alt.X("arrivals:Q", scale=alt.Scale(type="log", base=2, domain=domain, nice=False), axis=axis)


def _in_words(title: str, drawn: Sequence[Row]) -> str:
    lines: dict[str, list[str]] = {}
    for row in drawn:
        point = point_in_words(row["shown"], row["rate"], row["flag"])
        lines.setdefault(f"{row['engine']} {row['percentile']}", []).append(point)
    return f"{title}. {lines_in_words(lines)}"
