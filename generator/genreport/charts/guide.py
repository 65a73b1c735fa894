"""What a wait buys: throughput over the p99 TTFT, each engine's front, the service levels, and where fronts cross."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import altair as alt

from genreport.charts.colours import INK, MUTED, PAPER, colour_by_engine, colour_of, engine_colour
from genreport.charts.marks import apart
from genreport.charts.rows import Row, above_zero, chart_of, tooltips, unique
from genreport.charts.scales import Scale, linear, round_steps, seconds_axis, y_axis
from genreport.charts.spec import HEIGHT, Chart, finish, lines_in_words
from genreport.display import digits, shown
from genreport.places import derivation_href
from genreport.provenance import Quantity
from genreport.words import say

# a limit further out than this factor would leave the curves no room
REACH = 4


def pareto(
    rows: Sequence[Row],
    *,
    limits: Iterable[Quantity] = (),
    crossings: Iterable[tuple[Quantity, Quantity]] = (),
) -> Chart | None:
    """Every level at its wait (`wait`, seconds; `waited`, as text), joined where it is on its engine's `front` ("yes").

    `limits` are waits that service levels allow, `crossings` pairs of a wait and the throughput there.
    """
    drawn, crossings = above_zero(rows, "wait"), list(crossings)
    if not drawn:
        return None
    near = _near(limits, drawn)
    axes = {"x": wait_axis(drawn, near), "y": y_axis(linear(drawn, "value"), "value")}
    layers = [
        *_limits(near, axes["x"]),
        *_fronts(drawn, axes),
        *_crossings(crossings, axes),
        *_names(drawn, axes),
    ]
    chart = finish("pareto", say("guide_chart.title"), None, layers, _in_words(drawn, crossings))
    chart.spec["usermeta"]["better"] = say("guide_chart.better")
    return chart


def _near(limits: Iterable[Quantity], drawn: Sequence[Row]) -> list[Quantity]:
    low, high = min(row["wait"] for row in drawn) / REACH, max(row["wait"] for row in drawn) * REACH
    found = {q.value: q for q in limits if not q.missing and low <= q.value <= high}
    return [found[value] for value in sorted(found)]


def wait_axis(drawn: Sequence[Row], limits: Sequence[Quantity]) -> alt.X:
    waits = [*(row["wait"] for row in drawn), *(q.value for q in limits)]
    low, high = min(waits) / 1.25, max(waits) * 1.25
    scale = Scale(low, high, log=True, ticks=round_steps(low, high))
    labels = seconds_axis(scale)["axis"]["labelExpr"]
    title = say("guide_chart.wait")
    axis = alt.Axis(title=title, values=list(scale.ticks), labelExpr=labels, grid=False, labelOverlap="greedy")
    return alt.X("wait:Q", scale=scale.altair(), axis=axis)


def _limits(limits: Sequence[Quantity], x: alt.X) -> list[alt.Chart]:
    layers = []
    for place, q in enumerate(limits):
        text = say("guide_chart.limit", shown=shown(q.value, q.unit))
        row = {"wait": q.value, "wait_id": q.id, "label": text, "href": derivation_href(q.id)}
        base = chart_of([row]).encode(x=x)
        label = base.encode(y=alt.value(HEIGHT - 10 - 16 * (place % 2)), text="label:N", href="href:N")
        layers += [
            base.mark_rule(stroke=MUTED, strokeWidth=1.5, strokeDash=[4, 3]),
            label.mark_text(align="left", dx=5, fill=MUTED, fontSize=12, cursor="pointer", limit=120),
        ]
    return layers


def _fronts(drawn: Sequence[Row], axes: dict) -> list[alt.Chart]:
    """Lines through the fronts with the load at each point; levels off the front are small, flagged ones hollow."""
    best = [row for row in drawn if row["front"]]
    colour = colour_by_engine(drawn)
    loads = chart_of(best).encode(**axes, text=alt.Text("concurrency:Q", format="~g"))
    layers = [
        chart_of(best).encode(**axes, color=colour).mark_line(strokeWidth=2.5),
        loads.mark_text(dy=14, dx=4, fill=MUTED, fontSize=11),
    ]
    tips = [*tooltips("engine", "concurrency"), alt.Tooltip("waited:N", title=say("guide_chart.wait")),
            alt.Tooltip("shown:N", title=say("guide_chart.throughput"))]  # fmt: skip
    for rows, size in ((best, 64), ([row for row in drawn if not row["front"]], 26)):
        for flagged in (False, True):
            some = [row for row in rows if bool(row.get("flag")) is flagged]
            look = {"fill": PAPER, "size": size * 1.5} if flagged else {"filled": True, "size": size}
            told = [*tips, *(tooltips("flag") if flagged else [])]
            point = chart_of(some).encode(**axes, color=colour, href="href:N", tooltip=told)
            layers += [point.mark_point(strokeWidth=2, opacity=1, cursor="pointer", **look)] if some else []
    return layers


def _crossings(crossings: Sequence[tuple[Quantity, Quantity]], axes: dict) -> list[alt.Chart]:
    layers = []
    for place, (wait, x) in enumerate(crossings):
        row = {
            "wait": wait.value, "wait_id": wait.id, "value": x.value, "value_id": x.id,
            "label": say("guide_chart.crossing", shown=shown(wait.value, wait.unit)), "href": derivation_href(wait.id),
        }  # fmt: skip
        base, rule = chart_of([row]).encode(**axes, href="href:N"), chart_of([row]).encode(x=axes["x"], href="href:N")
        label = rule.encode(text="label:N", y=alt.value(8 + 34 * place))
        layers += [
            rule.mark_rule(stroke=INK, strokeWidth=1, strokeDash=[1, 3]),
            base.mark_point(shape="diamond", size=110, filled=True, fill=INK, opacity=1, cursor="pointer"),
            label.mark_text(align="right", dx=-6, lineBreak="\n", fill=INK, fontSize=12, fontWeight=600, limit=160),
        ]
    return layers


def _names(drawn: Sequence[Row], axes: dict) -> list[alt.Chart]:
    """Each engine's name at the far end of its front, on the side with more room."""
    scale = linear(drawn, "value")
    low, high = (math.log(edge) for edge in axes["x"]["scale"]["domain"])
    fronts = {
        name: [r for r in drawn if r["engine"] == name and r["front"]] for name in unique(r["engine"] for r in drawn)
    }
    ends = sorted(
        (max(rows, key=lambda row: row["wait"]) for rows in fronts.values() if rows), key=lambda r: -r["value"]
    )
    marks = []
    for row, shift in zip(ends, apart([scale.pixel(row["value"]) for row in ends]), strict=True):
        name = chart_of([row]).encode(**axes, text="engine:N")
        colour = engine_colour(colour_of(row, drawn))
        inner = math.log(row["wait"]) < low + 0.75 * (high - low)
        side = {"align": "left", "dx": 11, "dy": shift} if inner else {"align": "right", "dx": -2, "dy": shift - 16}
        marks.append(name.mark_text(**side, fontSize=12, fontWeight=600, fill=colour, limit=120))
    return marks


def _in_words(drawn: Sequence[Row], crossings: Sequence[tuple[Quantity, Quantity]]) -> str:
    lines = {name: [row for row in drawn if row["engine"] == name] for name in unique(row["engine"] for row in drawn)}
    said = lines_in_words({name: [_point_in_words(row) for row in rows] for name, rows in lines.items()})
    crossed = [say("guide_chart.crossed", shown=shown(wait.value, wait.unit)) for wait, _ in crossings]
    return " ".join([f"{say('guide_chart.title')}.", said, *crossed])


def _point_in_words(row: Row) -> str:
    key = "guide_chart.flagged" if row.get("flag") else "guide_chart.point"
    return say(key, shown=row["shown"], waited=row["waited"], load=digits(row["concurrency"]))
