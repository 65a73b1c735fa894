"""KV use over resident tokens, both ceilings over input length, and the roofline.

Fields beside the common ones: `tokens` (resident), `input` (length of a prompt), `intensity`, `wall` (MBU or MFU), `sweep`
(the test a level belongs to), each number with its `_id`, and `at`: the place on the x axis as pages write it.
"""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from genreport.charts.colours import (
    INK,
    MUTED,
    NARROW,
    PAPER,
    colour_by,
    colour_by_engine,
    engine_colour,
    group_palette,
    ramp,
)
from genreport.charts.marks import apart
from genreport.charts.rows import Row, above_zero, chart_of, inline, unique, valued
from genreport.charts.scales import Scale, bytes_y, linear, logarithmic, round_steps, y_axis
from genreport.charts.spec import Chart, finish, lines_in_words, percent_axis, point_in_words
from genreport.words import say


def kv_use(
    engine: str, rows: Sequence[Row], means: Sequence[Row], line: Sequence[Row], slope: str, *, in_bytes: bool = True
) -> Chart | None:
    """What one engine holds over the tokens resident at the same moment: a point a sample, the fit as a line.

    `means` name the levels where their mean lies; `slope` is the line's as pages write it; without `in_bytes` values are
    tokens.
    """
    drawn, named, fit = valued(rows), valued(means), valued(line)
    if not drawn:
        return None
    scale, levels = linear([*drawn, *fit], "value"), unique(row["level"] for row in drawn)
    x, y = _tokens_axis(drawn), bytes_y(scale) if in_bytes else y_axis(scale, "value")
    look = {"x": x, "y": y, "color": colour_by("level", levels, ramp(levels))}
    layers = [
        chart_of(drawn)
        .mark_point(filled=True, size=30, opacity=0.7, cursor="pointer")
        .encode(href="href:N", tooltip=_tips("level", "shown"), **look),
        chart_of(named)
        .encode(text="level:N", **look)
        .mark_text(align="right", dx=-9, dy=-7, fontSize=12, fontWeight=600),
        *_fitted([row | {"label": say("kv_chart.fitted", shown=slope)} for row in fit], x, y),
    ]
    title = say("kv_chart.kv_use" if in_bytes else "kv_chart.kv_slots", engine=engine)
    said = [f"{title}.", say("kv_chart.fitted", shown=slope) + "." if fit else "", _say(named, "level")]
    return finish("kv_use", title, None, layers, " ".join(filter(None, said)))


def length_walls(rows: Sequence[Row], cross: Row | None = None) -> Chart | None:
    """One engine's use of both ceilings (`wall`) over input length; `cross`: the length at which they are equal."""
    drawn = valued(rows)
    if not drawn:
        return None
    names, scale, x = unique(row["wall"] for row in drawn), linear(drawn, "value"), _length_axis(drawn)
    palette = group_palette(len(names))
    line = chart_of(drawn).encode(x=x, y=y_axis(scale, "value"), color=colour_by("wall", names, palette))
    layers = [
        line.mark_line(strokeWidth=2.5),
        *_dots(line, drawn, ("engine", "wall", "at", "shown")),
        *_end_labels(line, drawn, scale, "wall"),
        *(_rule(cross | {"label": say("kv_chart.equal", shown=cross["shown"])}, x, drawn) if cross else []),
    ]
    title = say("kv_chart.length_walls", engine=drawn[0]["engine"])
    chart = finish("length_walls", title, None, layers, f"{title}. {_say(drawn, 'wall')}")
    percent_axis(chart.spec)
    return chart


def length_intensity(rows: Sequence[Row], ridges: Sequence[Row] = ()) -> Chart | None:
    """FLOPs per byte read over input length, both log, against the ridge of each machine (a row with `value`)."""
    drawn = above_zero(rows)
    lines = [row | {"label": say("kv_chart.ridge", shown=row["shown"])} for row in valued(ridges)]
    if not drawn:
        return None
    scale, x = logarithmic([*drawn, *lines], "value"), _length_axis(drawn)
    line = chart_of(drawn).encode(x=x, y=y_axis(scale, "value"), color=colour_by_engine(drawn))
    layers = [
        *_level_lines(lines, scale),
        line.mark_line(strokeWidth=2.5),
        *_dots(line, drawn, ("engine", "at", "shown")),
        *_end_labels(line, drawn, scale, "engine"),
    ]
    title = say("kv_chart.length_intensity")
    said = [f"{title}.", _say(drawn, "engine"), *(f"{row['label']}." for row in lines)]
    return finish("length_intensity", title, None, layers, " ".join(said))


def roofline(rows: Sequence[Row], roof: Sequence[Row]) -> Chart | None:
    """FLOP/s over intensity, both log: a point a level of each sweep under the line of both ceilings.

    `roof`: three points from left to right; `ceiling` of the first is the bandwidth as pages write it, of the last the
    FLOP/s.
    """
    drawn, edge = above_zero(rows, "value", "intensity"), valued(roof)
    if not drawn or not edge:
        return None
    x, y = _intensity_axis([*drawn, *edge]), _flops_axis([*drawn, *edge])
    sweeps = unique(row["sweep"] for row in drawn)
    palette = [engine_colour(drawn[0]["colour"]), *[MUTED] * (len(sweeps) - 1)]
    dots = chart_of(drawn).encode(x=x, y=y, color=colour_by("sweep", sweeps, palette, legend=NARROW))
    ceilings = [edge[0] | {"label": say("kv_chart.bandwidth", shown=edge[0]["ceiling"])},
                edge[-1] | {"label": say("kv_chart.arithmetic", shown=edge[-1]["ceiling"])}]  # fmt: skip
    layers = [
        chart_of(edge).encode(x=x, y=y).mark_line(stroke=INK, strokeWidth=2),
        *_roof_labels(ceilings),
        *_dots(dots, drawn, ("engine", "sweep", "level", "at", "shown")),
        *_first_and_last(drawn, dots),
    ]
    title = say("kv_chart.roofline", engine=drawn[0]["engine"])
    said = [f"{title}.", _say(drawn, "sweep"), *(f"{row['label']}." for row in ceilings)]
    return finish("roofline", title, None, layers, " ".join(said))


# ------------------------------------------------------------------------------------- marks


def _fitted(fit: Sequence[Row], x: alt.X, y: alt.Y) -> list[alt.Chart]:
    """The line, its words above its upper end."""
    if not fit:
        return []
    line, end = chart_of(fit).encode(x=x, y=y), chart_of(fit[-1:]).encode(x=x, y=y, text="label:N", href="href:N")
    return [
        line.mark_line(stroke=INK, strokeWidth=1.5, strokeDash=[5, 3]),
        end.mark_text(align="right", dx=-14, dy=-16, fill=INK, fontSize=12, fontWeight=600, cursor="pointer"),
    ]


def _dots(line: alt.Chart, drawn: Sequence[Row], tips: tuple[str, ...]) -> list[alt.Chart]:
    """Solid points, hollow ones for flagged levels; each leads to its evidence."""
    layers = []
    for flagged in (False, True):
        rows = [row for row in drawn if bool(row.get("flag")) is flagged]
        if rows:
            look = {"fill": PAPER, "size": 96} if flagged else {"filled": True, "size": 64}
            tooltip = _tips(*tips, *(["flag"] if flagged else []))
            point = line.mark_point(strokeWidth=2, opacity=1, cursor="pointer", **look)
            point = point.encode(href="href:N", tooltip=tooltip)
            point.data = inline(rows)
            layers.append(point)
    return layers


def _end_labels(line: alt.Chart, drawn: Sequence[Row], scale: Scale, by: str) -> list[alt.Chart]:
    """A line's name at its last point, moved apart where two would touch."""
    last = {row[by]: row for row in drawn}
    ends = sorted(last.values(), key=lambda row: -row["value"])
    marks = []
    for row, shift in zip(ends, apart([scale.pixel(row["value"]) for row in ends]), strict=True):
        label = line.encode(text=f"{by}:N")
        label.data = inline([row])
        marks.append(label.mark_text(align="left", dx=9, dy=shift, fontSize=12, fontWeight=600, limit=110))
    return marks


def _rule(cross: Row, x: alt.X, drawn: Sequence[Row]) -> list[alt.Chart]:
    """A rule where the shares are equal, its words on the side with more room."""
    lengths = [row["input"] for row in drawn]
    left = cross["input"] < (min(lengths) * max(lengths)) ** 0.5
    side = {"align": "left", "dx": 6} if left else {"align": "right", "dx": -6}
    base = chart_of([cross]).encode(x=x)
    label = base.encode(y=alt.value(10), text="label:N", href="href:N")
    return [
        base.mark_rule(stroke=MUTED, strokeWidth=1.5, strokeDash=[4, 3]),
        label.mark_text(**side, fill=INK, fontSize=12, fontWeight=600, cursor="pointer", limit=220),
    ]


def _level_lines(rows: Sequence[Row], scale: Scale) -> list[alt.Chart]:
    """Quiet horizontal lines, each with its words above it."""
    marks = []
    for row in rows:
        base = chart_of([row]).encode(y=y_axis(scale, "value"))
        words = base.encode(x=alt.value(6), text="label:N", href="href:N")
        marks += [
            base.mark_rule(stroke=MUTED, strokeWidth=1.5, strokeDash=[4, 3]),
            words.mark_text(align="left", dy=-8, fill=MUTED, fontSize=12, cursor="pointer", limit=260),
        ]
    return marks


def _roof_labels(ceilings: Sequence[Row]) -> list[alt.Chart]:
    """What the two parts of the line are, in the corner above the slope, where no point can lie."""
    marks = []
    for place, row in enumerate(reversed(ceilings)):
        text = chart_of([{name: row[name] for name in ("label", "ceiling_id", "href")}]).encode(
            x=alt.value(8), y=alt.value(8 + 16 * place), text="label:N", href="href:N"
        )
        marks.append(text.mark_text(align="left", fill=INK, fontSize=12, fontWeight=600, cursor="pointer", limit=260))
    return marks


def _first_and_last(drawn: Sequence[Row], dots: alt.Chart) -> list[alt.Chart]:
    """The names of the levels at which each sweep begins and ends: the first sweep's above its points, others' below."""
    marks = []
    for place, sweep in enumerate(unique(row["sweep"] for row in drawn)):
        rows = [row for row in drawn if row["sweep"] == sweep]
        look = {"align": "left", "dx": 7, "dy": 12} if place else {"align": "right", "dx": -7, "dy": -10}
        label = dots.encode(text="level:N")
        label.data = inline(rows if len(rows) == 1 else [rows[0], rows[-1]])
        marks.append(label.mark_text(**look, fontSize=12, fontWeight=600))
    return marks


# ------------------------------------------------------------------------------------- axes


def _tokens_axis(rows: Sequence[Row]) -> alt.X:
    top = max(row["tokens"] for row in rows) * 1.06
    axis = alt.Axis(title=say("kv_chart.tokens"), format=",~r", tickCount=6, grid=False, labelOverlap="greedy")
    return alt.X("tokens:Q", scale=alt.Scale(domain=[0, top], nice=False), axis=axis)


def _length_axis(rows: Sequence[Row]) -> alt.X:
    """log2 input length with a tick at each measured one."""
    lengths = sorted({row["input"] for row in rows})
    axis = alt.Axis(values=lengths, format=",~r", title=say("kv_chart.input"), grid=False, labelOverlap="greedy")
    domain = [lengths[0] / 1.12, lengths[-1] * 1.06]
    return alt.X("input:Q", scale=alt.Scale(type="log", base=2, domain=domain, nice=False), axis=axis)


def _intensity_axis(rows: Sequence[Row]) -> alt.X:
    found = [row["intensity"] for row in rows]
    low, high = min(found) / 1.05, max(found) * 1.05
    title = say("kv_chart.intensity")
    axis = alt.Axis(values=list(round_steps(low, high)), format="~r", title=title, labelOverlap="greedy")
    return alt.X("intensity:Q", scale=alt.Scale(type="log", domain=[low, high], nice=False), axis=axis)


def _flops_axis(rows: Sequence[Row]) -> alt.Y:
    """Log FLOP/s, with room above the line for the words that stand there."""
    found = [row["value"] for row in rows]
    low, high = min(found) / 1.6, max(found) * max(1.6, (max(found) / min(found)) ** 0.18)
    axis = alt.Axis(title=None, values=list(round_steps(low, high)), format="~s")
    return alt.Y("value:Q", scale=alt.Scale(type="log", domain=[low, high], nice=False), axis=axis)


# ------------------------------------------------------------------------------------- words


def _tips(*fields: str) -> list[alt.Tooltip]:
    return [alt.Tooltip(f"{field}:N", title=say(f"field.{field}")) for field in fields]


def _say(rows: Sequence[Row], by: str) -> str:
    """Each line's values in order, as pages write them."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        point = point_in_words(row["shown"], row["at"], row.get("flag"))
        lines.setdefault(str(row[by]), []).append(point)
    return lines_in_words(lines)
