"""Layers over load that charts share: curves, points, ranges, labels at line ends, rules."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

from genreport.charts.colours import INK, MUTED, PAPER, colour_by, colour_by_engine, colour_of, engine_colour
from genreport.charts.rows import Row, above_zero, chart_of, inline, tooltips, unique
from genreport.charts.scales import Scale, load_axis, y_axis
from genreport.charts.spec import HEIGHT
from genreport.display import digits
from genreport.places import derivation_href
from genreport.provenance import Quantity
from genreport.words import say

LABEL_GAP = 15  # px between two labels at line ends


def curves(drawn: Sequence[Row], scale: Scale, *, by: str = "engine", palette: list[str] | None = None) -> list[Any]:
    """Line, points and end labels, one colour per value of `by`."""
    names = unique(row[by] for row in drawn)
    colour = colour_by_engine(drawn) if palette is None else colour_by(by, names, palette)
    line = chart_of(drawn).encode(x=load_axis(drawn), y=y_axis(scale, "value"), color=colour)
    extra = () if by == "engine" else (by,)
    return [
        line.mark_line(strokeWidth=2.5),
        *points(line, drawn, None, extra=extra),
        *end_labels(drawn, scale, by, None if by == "engine" else by, palette),
    ]


def points(
    line: alt.Chart, drawn: Sequence[Row], stroke: str | None, *, extra: tuple[str, ...] = (), size: int = 64
) -> list[alt.Chart]:
    """Solid points, and hollow ones for flagged levels; each leads to its evidence.

    They take the encodings of `line`; `extra` names further fields for the tooltip.
    """
    tips = ("engine", *extra, "concurrency", "shown")
    layers = []
    for flagged in (False, True):
        rows = [row for row in drawn if bool(row.get("flag")) is flagged]
        if not rows:
            continue
        look = {"stroke": stroke} if stroke else {}
        fill = {"fill": PAPER} if flagged else ({"fill": stroke} if stroke else {"filled": True})
        point = line.mark_point(
            size=size * (1.5 if flagged else 1), strokeWidth=2, opacity=1, cursor="pointer", **look, **fill
        ).encode(href="href:N", tooltip=tooltips(*tips, *(["flag"] if flagged else [])))
        point.data = inline(rows)
        layers.append(point)
    return layers


def band(
    drawn: Sequence[Row], scale: Scale | None = None, by: str | None = None, *, legend: int = 0
) -> alt.Chart | None:
    """Minimum to maximum over the repeats (`low`, `high`), an area per engine and value of `by`."""
    ranged = [row for row in drawn if row.get("low") is not None and row.get("high") is not None]
    ranged = above_zero(ranged, "low") if scale and scale.log else ranged
    if not ranged:
        return None
    y = alt.Y("low:Q", scale=scale.altair()) if scale else alt.Y("low:Q")
    colour = colour_by_engine(drawn, legend=legend)
    area = chart_of(ranged).encode(x=load_axis(drawn), y=y, y2="high:Q", color=colour)
    area = area.encode(detail=f"{by}:N") if by else area
    return area.mark_area(opacity=0.16, line=False)


def end_labels(
    drawn: Sequence[Row], scale: Scale, text: str, by: str | None, palette: list[str] | None = None
) -> list[alt.Chart]:
    """A line's name at its last point, moved apart by whole pixels where two would touch."""
    lines: dict[tuple[str, str | None], Row] = {}
    for row in drawn:
        key = (row["engine"], row.get(by) if by else None)
        if key not in lines or row["concurrency"] >= lines[key]["concurrency"]:
            lines[key] = row
    names = unique(row[text] for row in drawn)
    ends = sorted(lines.values(), key=lambda row: -row["value"])
    marks = []
    for row, shift in zip(ends, apart([scale.pixel(row["value"]) for row in ends]), strict=True):
        colour = palette[names.index(row[text])] if palette else engine_colour(colour_of(row, drawn))
        mark = chart_of([row]).encode(x=load_axis(drawn), y=y_axis(scale, "value"), text=f"{text}:N")
        marks.append(mark.mark_text(align="left", dx=9, dy=shift, fontSize=12, fontWeight=600, fill=colour, limit=110))
    return marks


def crossing_rules(found: Iterable[Quantity], drawn: Sequence[Row]) -> list[alt.Chart]:
    """A rule at each crossing and, on the side with more room, its text, which leads to the derivation."""
    levels = [row["concurrency"] for row in drawn]
    middle = math.sqrt(min(levels) * max(levels))
    layers = []
    for place, q in enumerate(found):
        text = say("chart.crossing", shown=digits(q.value))
        row = {"concurrency": q.value, "concurrency_id": q.id, "label": text, "href": derivation_href(q.id)}
        side = {"align": "left", "dx": 6} if q.value < middle else {"align": "right", "dx": -6}
        base = chart_of([row]).encode(x=load_axis(drawn))
        label = base.encode(y=alt.value(8 + 32 * place), text="label:N", href="href:N")
        layers += [
            base.mark_rule(stroke=MUTED, strokeWidth=1.5, strokeDash=[4, 3]),
            label.mark_text(**side, lineBreak="\n", fill=INK, fontSize=12, fontWeight=600, cursor="pointer", limit=200),
        ]
    return layers


def reference(value: float) -> alt.Chart:
    """A quiet horizontal line at a value that is no measurement."""
    rule = chart_of([{"kind": "reference"}]).encode(y=alt.datum(value))
    return rule.mark_rule(stroke=MUTED, strokeWidth=1, strokeDash=[3, 3])


def equality(scale: Scale, base: str, other: str) -> list[alt.Chart]:
    """The line of equal throughput and who is ahead on either side of it."""
    middle = scale.pixel(1)
    sides = (("↑", other, max(8, middle - 12)), ("↓", base, min(HEIGHT - 6, middle + 14)))
    layers = [reference(1)]
    for arrow, engine, place in sides:
        words = f"{arrow} {say('chart.ahead', engine=engine)}"
        label = chart_of([{"label": words}]).encode(x=alt.value(8), y=alt.value(place), text="label:N")
        layers.append(label.mark_text(align="left", fill=MUTED, fontSize=12, limit=260))
    return layers


def apart(pixels: Sequence[float]) -> list[int]:
    """How far each label moves so that neighbours (sorted from the top) stay `LABEL_GAP` apart, the group centred."""
    groups: list[list[float]] = []  # each [first index, count, centre]
    for index, pixel in enumerate(pixels):
        groups.append([index, 1, pixel])
        while len(groups) > 1 and _touch(groups[-2], groups[-1]):
            (start, m, a), (_, n, b) = groups[-2], groups.pop()
            groups[-1] = [start, m + n, (a * m + b * n) / (m + n)]
    placed = [centre + (k - (count - 1) / 2) * LABEL_GAP for _, count, centre in groups for k in range(int(count))]
    return [round(new - old) for new, old in zip(placed, pixels, strict=True)]


def _touch(above: list[float], below: list[float]) -> bool:
    return above[2] + above[1] * LABEL_GAP / 2 > below[2] - below[1] * LABEL_GAP / 2
