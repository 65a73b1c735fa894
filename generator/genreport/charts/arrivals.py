"""An open loop over the rate at which requests come: what is completed of them, and what they wait."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from genreport.charts.colours import MUTED, NARROW, PAPER, colour_by_engine, dash_by
from genreport.charts.rows import Row, above_zero, chart_of, tooltips, unique, valued
from genreport.charts.scales import logarithmic, seconds_axis
from genreport.charts.spec import Chart, finish, lines_in_words, point_in_words
from genreport.words import say

ROOM = 1.06  # beyond the highest rate


def achieved(rows: Sequence[Row]) -> Chart | None:
    """Completed over offered requests a second (`arrivals`, `rate` as written), against the diagonal of what keeps up."""
    drawn = valued(rows)
    if not drawn:
        return None
    title, top = say("arrivals_chart.achieved"), ROOM * max(max(row["arrivals"], row["value"]) for row in drawn)
    scale = alt.Scale(domain=[0, top], nice=False)
    y = alt.Y("value:Q", scale=scale, axis=alt.Axis(title=None, tickCount=6, format=".3~g"))
    place = {
        "x": alt.X("arrivals:Q", scale=scale, axis=_rates(drawn)),
        "y": y,
        "color": colour_by_engine(drawn, legend=NARROW),
    }
    line = chart_of(drawn).encode(**place).mark_line(strokeWidth=2)
    tips = ("engine", "rate", "shown", "kept")
    return finish(
        "achieved", title, "higher", [*_diagonal(top), line, *_points(drawn, place, tips)], _in_words(title, drawn)
    )


def _diagonal(top: float) -> list[alt.Chart]:
    """Where all that comes is completed: no measurement."""
    ends = {"x": alt.datum(0), "y": alt.datum(0), "x2": alt.datum(top), "y2": alt.datum(top)}
    rule = chart_of([{"kind": "reference"}]).encode(**ends).mark_rule(stroke=MUTED, strokeWidth=1, strokeDash=[3, 3])
    corner = chart_of([{"label": say("arrivals_chart.keeps_up")}]).encode(
        x=alt.datum(top), y=alt.datum(top), text="label:N"
    )
    return [rule, corner.mark_text(align="right", baseline="top", dx=-42, dy=2, fill=MUTED, fontSize=12)]


def waits(rows: Sequence[Row], limits: Sequence[Row] = ()) -> Chart | None:
    """Percentiles (`percentile`) over arrivals a second (`arrivals`, `rate` as written), log seconds, and their limits."""
    drawn = above_zero(rows)
    if not drawn:
        return None
    title, names = say("arrivals_chart.waits"), unique(row["percentile"] for row in drawn)
    x, y = _log_rates(drawn), seconds_axis(logarithmic([*drawn, *limits], "value"))
    place = {"x": x, "y": y, "color": colour_by_engine(drawn, legend=NARROW), "detail": "percentile:N"}
    line = chart_of(drawn).encode(**place, strokeDash=dash_by("percentile", names)).mark_line(strokeWidth=2)
    points = _points(drawn, place, ("engine", "percentile", "rate", "shown"))
    said = " ".join([_in_words(title, drawn), *_limits_in_words(limits)])
    return finish("waits", title, "lower", [*_limits(limits, y), line, *points], said)


def _limits(limits: Sequence[Row], y: alt.Y) -> list[alt.Chart]:
    """A rule at each limit with its name (`label`), in turn at the left and the right end, which leads to its derivation."""
    layers = []
    for place, row in enumerate(limits):
        base = chart_of([row]).encode(y=y, href="href:N")
        side = {"x": alt.value(4)} if place % 2 == 0 else {"x": alt.value("width")}
        look = {"align": "right" if place % 2 else "left", "dx": -4 if place % 2 else 0, "dy": -7}
        label = base.encode(**side, text="label:N")
        layers += [
            base.mark_rule(stroke=MUTED, strokeWidth=1.5, strokeDash=[4, 3], cursor="pointer"),
            label.mark_text(**look, fill=MUTED, fontSize=12, cursor="pointer", limit=200),
        ]
    return layers


def _limits_in_words(limits: Sequence[Row]) -> list[str]:
    points = [row["label"] for row in limits]
    return [lines_in_words({say("arrivals_chart.limits"): points})] if points else []


def _log_rates(drawn: Sequence[Row]) -> alt.X:
    """log2 arrivals a second."""
    rates = [row["arrivals"] for row in drawn]
    scale = alt.Scale(type="log", base=2, domain=[min(rates) / 1.12, max(rates) * ROOM], nice=False)
    return alt.X("arrivals:Q", scale=scale, axis=_rates(drawn))


def _rates(drawn: Sequence[Row]) -> alt.Axis:
    """A tick at each level."""
    rates = sorted({row["arrivals"] for row in drawn})
    return alt.Axis(values=rates, format=".3~g", title=say("arrivals_chart.offered"), grid=False, labelOverlap="greedy")


def _points(drawn: Sequence[Row], place: dict[str, Any], tips: tuple[str, ...]) -> list[alt.Chart]:
    """Solid points, and hollow ones for flagged levels; each leads to its evidence."""
    layers = []
    for flagged in (False, True):
        rows = [row for row in drawn if bool(row["flag"]) is flagged]
        look = {"fill": PAPER, "size": 64} if flagged else {"filled": True, "size": 46}
        told = tooltips(*tips, *(["flag"] if flagged else []))
        point = chart_of(rows).encode(**place, href="href:N", tooltip=told)
        layers += [point.mark_point(strokeWidth=2, opacity=1, cursor="pointer", **look)] if rows else []
    return layers


def _in_words(title: str, drawn: Sequence[Row]) -> str:
    lines: dict[str, list[str]] = {}
    for row in drawn:
        name = f"{row['engine']} {row.get('percentile', '')}".strip()
        lines.setdefault(name, []).append(point_in_words(row["shown"], row["rate"], row["flag"]))
    return f"{title}. {lines_in_words(lines)}"
