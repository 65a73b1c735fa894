"""The cliff: an engine's gauges over the time of one repeat, and each measure of a longer shape against the normal one."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from genreport.charts.colours import INK, NARROW, PAPER, colour_by, engine_colour, group_palette
from genreport.charts.rows import Row, above_zero, chart_of, tooltips, unique, valued
from genreport.charts.scales import Scale, linear, round_steps
from genreport.charts.spec import Chart, finish, in_words
from genreport.words import say


def over_time(rows: Sequence[Row], engine: str, shape: str) -> Chart | None:
    """Every `series` over seconds (`t`): requests on the left axis, shares (`unit`) dashed on the right one."""
    drawn = valued(rows)
    if not drawn:
        return None
    title = say("cliff_chart.over_time", engine=engine, shape=shape)
    names, end = unique(row["series"] for row in drawn), max(row["t"] for row in drawn) or 1
    parts = [[row for row in drawn if (row["unit"] == "share") is share] for share in (False, True)]
    layers = [_gauges(part, names, end) for part in parts if part]
    chart = finish("over_time", title, None, layers, _peaks_in_words(title, drawn))
    if len(layers) > 1:
        chart.spec["resolve"] = {"scale": {"y": "independent"}}
    return chart


def _gauges(rows: Sequence[Row], names: list[str], end: float) -> alt.LayerChart:
    """Steps from sample to sample, and a point at each series' highest one that leads to its derivation."""
    shares = rows[0]["unit"] == "share"
    place = {
        "x": _time_axis(end),
        "y": _share_axis(rows) if shares else _count_axis(rows),
        "color": colour_by("series", names, group_palette(len(names)), legend=NARROW),
    }
    # the many rows of the lines hold only what a line needs
    slim = [{name: row[name] for name in ("series", "t", "t_id", "value", "value_id")} for row in rows]
    line = chart_of(slim).encode(**place).mark_line(
        interpolate="step-after", strokeWidth=1.5 if shares else 2, strokeDash=[4, 3] if shares else [1, 0]
    )  # fmt: skip
    tips = {"href": "href:N", "tooltip": tooltips("series", "shown", "after")}
    dots = chart_of(_peaks(rows)).encode(**place, **tips).mark_point(filled=True, size=44, opacity=1, cursor="pointer")
    return alt.layer(line, dots)


def _time_axis(end: float) -> alt.X:
    axis = alt.Axis(title=say("cliff_chart.time"), grid=False)
    return alt.X("t:Q", scale=alt.Scale(domain=[0, end], nice=False), axis=axis)


def _count_axis(rows: Sequence[Row]) -> alt.Y:
    axis = alt.Axis(title=say("cliff_chart.requests"), tickMinStep=1, tickCount=6, format="~s")
    return alt.Y("value:Q", scale=linear(rows, "value").altair(), axis=axis)


def _share_axis(rows: Sequence[Row]) -> alt.Y:
    axis = alt.Axis(title=say("cliff_chart.share"), orient="right", grid=False, tickCount=5, format=".0%")
    return alt.Y("value:Q", scale=linear(rows, "value", least=1).altair(), axis=axis)


def _peaks(rows: Sequence[Row]) -> list[Row]:
    names = unique(row["series"] for row in rows)
    return [max((row for row in rows if row["series"] == name), key=lambda row: row["value"]) for name in names]


def _peaks_in_words(title: str, rows: Sequence[Row]) -> str:
    peaks = (
        say("cliff_chart.peak", series=row["series"], shown=row["shown"], after=row["after"]) for row in _peaks(rows)
    )
    return f"{title}. {' '.join(peaks)}"


def ratios(rows: Sequence[Row], engine: str, long: str, normal: str) -> Chart | None:
    """A bar per `metric` from the line of equality to its ratio, on a log scale."""
    drawn = above_zero(rows)
    if not drawn:
        return None
    title = say("cliff_chart.ratios", engine=engine, long=long, normal=normal)
    metrics = [row["metric"] for row in drawn]
    layers = [_bars(drawn, metrics), *_labels(drawn, metrics)]
    return finish("ratios", title, None, layers, in_words(title, drawn, "metric"), height=34 * len(drawn) + 20)


def _bars(drawn: Sequence[Row], metrics: list[str]) -> alt.Chart:
    bars = chart_of(drawn).encode(
        x=_ratio_axis(drawn),
        x2=alt.datum(1),
        y=_metric_axis(metrics),
        href="href:N",
        tooltip=tooltips("metric", "shown"),
    )
    return bars.mark_bar(fill=engine_colour(drawn[0]["colour"]), stroke=PAPER, height=16, cursor="pointer")


def _labels(drawn: Sequence[Row], metrics: list[str]) -> list[alt.Chart]:
    """Each ratio in digits beyond the end of its bar."""
    sides = (
        ([row for row in drawn if row["value"] >= 1], "left", 6),
        ([r for r in drawn if r["value"] < 1], "right", -6),
    )
    return [
        chart_of(rows)
        .encode(x=_ratio_axis(drawn), y=_metric_axis(metrics), text="shown:N")
        .mark_text(align=align, dx=dx, fill=INK, fontSize=12, fontWeight=600)
        for rows, align, dx in sides
        if rows
    ]


def _ratio_axis(drawn: Sequence[Row]) -> alt.X:
    """A log scale that holds the line of equality and leaves room for the labels."""
    found = [row["value"] for row in drawn]
    low, high = min(1.0, *found), max(1.0, *found)
    room = max(1.3, (high / low) ** 0.3)
    left = max(1.3, (high / low) ** 0.5) if low < 1 else 1.15  # a label beside a short bar must not reach the names
    scale = Scale(low / left, high * room, log=True, ticks=round_steps(low / 1.1, high * 1.1))
    axis = alt.Axis(title=None, values=list(scale.ticks or ()), labelExpr="format(datum.value, '~g') + '×'")
    return alt.X("value:Q", scale=scale.altair(), axis=axis)


def _metric_axis(metrics: list[str]) -> alt.Y:
    return alt.Y("metric:N", sort=metrics, axis=alt.Axis(title=None, ticks=False, domain=False, labelLimit=130))
