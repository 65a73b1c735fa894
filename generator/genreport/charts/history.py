"""One figure at one load over rounds in time; rounds that do not compare are not joined."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from genreport.charts.colours import NARROW, colour_by_engine
from genreport.charts.rows import Row, above_zero, chart_of, tooltips, unique, valued
from genreport.charts.scales import linear, logarithmic, seconds_axis, y_axis
from genreport.charts.spec import Chart, finish, lines_in_words
from genreport.words import say

# shape of a point whose round changed the figure
SHAPES = {"improved": "triangle-up", "regressed": "triangle-down"}


def over_rounds(rows: Sequence[Row], rounds: Sequence[str], figure: str) -> Chart | None:
    """A line for each engine (`line` keeps apart what does not compare); a triangle where a round changed the figure."""
    seconds = figure != "output_throughput"
    drawn = above_zero(rows) if seconds else valued(rows)
    if not drawn:
        return None
    scale = logarithmic(drawn, "value") if seconds else linear(drawn, "value")
    names = [name for name in rounds if any(row["round"] == name for row in drawn)]
    axis = alt.Axis(title=None, labelAngle=-35 if len(names) > 4 else 0, labelOverlap="greedy", labelLimit=120)
    x = alt.X("round:N", sort=names, scale=alt.Scale(type="point", padding=0.5), axis=axis)
    base = chart_of(drawn).encode(
        x=x, y=seconds_axis(scale) if seconds else y_axis(scale, "value"), color=colour_by_engine(drawn, legend=NARROW)
    )
    layers = [base.encode(detail="line:N").mark_line(strokeWidth=2), *_points(base, drawn)]
    title = say("history.title", figure=say(f"history.{figure.replace('.', '_')}"))
    return finish(f"history_{figure.replace('.', '_')}", title, "lower" if seconds else "higher", layers,
                  f"{title}. {_in_words(drawn)}")  # fmt: skip


def _points(base: alt.Chart, drawn: Sequence[Row]) -> list[alt.Chart]:
    layers = []
    for verdict, shape in {"": "circle", **SHAPES}.items():
        rows = [row for row in drawn if row["verdict"] == verdict]
        if rows:
            tips = tooltips("engine", "round", "level", "shown", *(["verdict"] if verdict else []))
            point = base.mark_point(shape=shape, filled=True, size=150 if verdict else 46, opacity=1, cursor="pointer")
            point = point.encode(href="href:N", tooltip=tips)
            point.data = chart_of(rows).data
            layers.append(point)
    return layers


def _in_words(drawn: Sequence[Row]) -> str:
    lines = {name: [row for row in drawn if row["engine"] == name] for name in unique(row["engine"] for row in drawn)}
    return lines_in_words({name: [_point_in_words(row) for row in rows] for name, rows in lines.items()})


def _point_in_words(row: Row) -> str:
    key = "history.changed_point" if row["verdict"] else "history.point"
    return say(key, shown=row["shown"], round=row["round"], verdict=row["verdict"])
