"""What a turn waits for as a conversation grows."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from genreport.charts.colours import NARROW, colour_by_engine, dash_by
from genreport.charts.rows import Row, chart_of, tooltips, unique, valued
from genreport.charts.scales import linear, seconds_axis
from genreport.charts.spec import Chart, finish, lines_in_words, point_in_words
from genreport.words import say


def waits(rows: Sequence[Row]) -> Chart | None:
    """Seconds (`value`) over `turn`, from zero: a colour an engine, a dash a number of conversations (`under_way`)."""
    drawn = valued(rows)
    if len({row["turn"] for row in drawn}) < 2:
        return None
    names = unique(row["under_way"] for row in drawn)
    title = say("chart.turns_of_two" if len(names) > 1 else "chart.turns")
    y = seconds_axis(linear(drawn, "value"))
    base = chart_of(drawn).encode(
        x=_turns(drawn), y=y, color=colour_by_engine(drawn, legend=NARROW), detail="under_way:N"
    )
    line = base.encode(strokeDash=dash_by("under_way", names)).mark_line(strokeWidth=2)
    tips = {"href": "href:N", "tooltip": tooltips("engine", "under_way", "at", "shown")}
    point = base.encode(**tips).mark_point(filled=True, size=46, opacity=1, cursor="pointer")
    return finish("turns", title, "lower", [line, point], _in_words(title, drawn))


def _turns(drawn: Sequence[Row]) -> alt.X:
    turns = sorted({row["turn"] for row in drawn})
    scale = alt.Scale(domain=[turns[0] - 0.2, turns[-1] + 0.2], nice=False)
    axis = alt.Axis(values=turns, format="~g", title=say("chart.turn"), grid=False, labelOverlap="greedy")
    return alt.X("turn:Q", scale=scale, axis=axis)


def _in_words(title: str, drawn: Sequence[Row]) -> str:
    lines: dict[str, list[str]] = {}
    for row in drawn:
        name = f"{row['engine']} {row['under_way']}"
        lines.setdefault(name, []).append(point_in_words(row["shown"], row["at"], None))
    return f"{title}. {lines_in_words(lines)}"
