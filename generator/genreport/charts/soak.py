"""A server's memory over the time of a soak."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from genreport.charts.colours import NARROW, colour_by_engine
from genreport.charts.rows import Row, chart_of, tooltips, unique, valued
from genreport.charts.scales import bytes_y, linear
from genreport.charts.spec import Chart, finish, lines_in_words, point_in_words
from genreport.words import say


def memory(rows: Sequence[Row]) -> Chart | None:
    """A line an engine: bytes (`value`) over minutes of load (`minutes`, `after` as written), from zero."""
    drawn = valued(rows)
    if not drawn:
        return None
    y, color = bytes_y(linear(drawn, "value")), colour_by_engine(drawn, legend=NARROW)
    base = chart_of(drawn).encode(x=_axis(drawn), y=y, color=color)
    tips = {"href": "href:N", "tooltip": tooltips("engine", "after", "shown")}
    point = base.encode(**tips).mark_point(filled=True, size=46, opacity=1, cursor="pointer")
    title = say("chart.soak")
    return finish("soak", title, "lower", [base.mark_line(strokeWidth=2), point], _in_words(title, drawn))


def _axis(drawn: Sequence[Row]) -> alt.X:
    end = max(row["minutes"] for row in drawn) or 1
    axis = alt.Axis(title=say("chart.soak_time"), grid=False)
    return alt.X("minutes:Q", scale=alt.Scale(domain=[0, end * 1.02], nice=False), axis=axis)


def _in_words(title: str, drawn: Sequence[Row]) -> str:
    lines = {name: [row for row in drawn if row["engine"] == name] for name in unique(row["engine"] for row in drawn)}
    return f"{title}. {lines_in_words({name: [_told(row) for row in rows] for name, rows in lines.items()})}"


def _told(row: Row) -> str:
    return point_in_words(row["shown"], row["after"], "")
