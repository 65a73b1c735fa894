"""Swim lanes: the first requests of a level, each in a lane of its own, with its wait, its tokens and its stalls."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from genreport.charts.colours import INK, MUTED, engine_colour
from genreport.charts.rows import Row, chart_of, valued
from genreport.charts.spec import Chart, finish
from genreport.words import say

LANE, EDGES = 13, 46  # px of a lane, and of the axis below all
STALL = "var(--gr-stall, #8a6500)"


def lanes(
    rows: Sequence[Row],
    events: Sequence[Row],
    stalls: Sequence[Row],
    total: Row,
    *,
    end: float,
) -> Chart | None:
    """One engine's lanes, in the order of `rows`, over seconds since the first start, up to `end`.

    A lane has `request`, `value` (its start), `first` and `last` (text events) and `until` (its first one in words); an
    event has `request` and `value`; a stall runs from `value` to `to`. `total` counts: `value` requests, `stalls`, `end`.
    """
    drawn = valued(rows)
    if not drawn:
        return None
    title = say("pair_chart.lanes", engine=drawn[0]["engine"], load=total["load"])
    said = say("pair_chart.lanes_in_words", title=title, **_told(drawn, total))
    line, wait, whole = _requests(drawn, end)
    marks = [line, wait, _events(events, drawn, end), whole, *_stalls(valued(stalls), drawn, end)]
    return finish("lanes", title, None, [*marks, _label(total)], said, height=LANE * len(drawn) + EDGES)


def _told(drawn: Sequence[Row], total: Row) -> dict[str, str]:
    numbers = {name: total[name] for name in ("shown", "counted", "ended")}
    return numbers | {"first": drawn[0]["until"], "last": drawn[-1]["until"]}


def _requests(drawn: Sequence[Row], end: float) -> list[alt.Chart]:
    """A thin line from the first to the last token, the wait before it as a bar, and what a pointer meets over both."""
    bars = _linked(drawn, drawn, "sent", "first_token")
    line = bars.encode(x=_time_axis("first", end), x2="last:Q")
    start = bars.encode(x=_time_axis("value", end))
    return [
        line.mark_rule(stroke=engine_colour(drawn[0]["colour"]), strokeWidth=1, opacity=0.45),
        start.encode(x2="first:Q").mark_bar(height=9, fill=MUTED, opacity=0.45),
        start.encode(x2="last:Q").mark_bar(height=LANE - 1, fill=MUTED, opacity=0, cursor="pointer"),
    ]


def _stalls(stalls: Sequence[Row], drawn: Sequence[Row], end: float) -> list[alt.Chart]:
    if not stalls:
        return []
    bars = _linked(stalls, drawn, "stall_from", "stall_to").encode(x=_time_axis("value", end), x2="to:Q")
    return [bars.mark_bar(height=5, fill=STALL, cursor="pointer")]


def _events(events: Sequence[Row], drawn: Sequence[Row], end: float) -> alt.Chart:
    ticks = chart_of(events).encode(x=_time_axis("value", end), y=_lane_axis(drawn))
    return ticks.mark_tick(size=9, thickness=1, color=engine_colour(drawn[0]["colour"]), orient="vertical")


def _linked(rows: Sequence[Row], drawn: Sequence[Row], start: str, end: str) -> alt.Chart:
    """Marks that lead to their request's line, and say when they begin (`shown`) and end (`until`)."""
    tips = [("request:O", "request"), ("shown:N", start), ("until:N", end)]
    told = [alt.Tooltip(field, title=say(f"pair_chart.{name}")) for field, name in tips]
    return chart_of(rows).encode(y=_lane_axis(drawn), href="href:N", tooltip=told)


def _label(total: Row) -> alt.Chart:
    """How many requests and stalls are drawn, in the corner that the falling lanes leave free."""
    text = chart_of(valued([total])).encode(x=alt.value("width"), y=alt.value(8), text="label:N")
    return text.mark_text(align="right", dx=-4, fill=INK, fontSize=12, fontWeight=600)


def _lane_axis(drawn: Sequence[Row]) -> alt.Y:
    axis = alt.Axis(title=say("pair_chart.requests"), labelFontSize=10, grid=False)
    return alt.Y("request:O", scale=alt.Scale(domain=[row["request"] for row in drawn]), axis=axis)


def _time_axis(field: str, end: float) -> alt.X:
    axis = alt.Axis(title=say("pair_chart.time"), tickCount=8, format="~g")
    return alt.X(f"{field}:Q", scale=alt.Scale(domain=[0, end], nice=False), axis=axis)
