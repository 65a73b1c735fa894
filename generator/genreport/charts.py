"""Rows to Vega-Lite specifications: the only module that imports altair, and it computes no figure.

A row is a flat mapping. Every number F in it has a sibling `F_id` that names the figure it shows (`id[17]` for a point
of a curve), so that the audit can compare what is drawn with the ledger; whatever is no measurement (a colour's place,
a grid's quantile) is text. Fields all charts know: `engine`, `colour` ("1" to "8", the engine's place in the round),
`level`, `flag` (a reason, or empty), `concurrency`, `value`, `shown` (the value as pages write it) and `href`, relative
to the round's folder.

Colours are CSS variables of docs/assets/colours.css: one specification serves both themes and print.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from genreport.display import digits
from genreport.places import derivation_href
from genreport.provenance import Quantity

Row = dict[str, Any]

HEIGHT = 280
LABEL_GAP = 15  # px between two labels at line ends
NARROW = 330  # px of drawing on a phone
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"
INK, MUTED, GRID, PAPER = (
    "var(--gr-ink, #23262b)", "var(--gr-muted, #5b626b)", "var(--gr-grid, #e3e6ea)", "var(--gr-paper, #fff)",
)  # fmt: skip
# fallbacks of --gr-e1 … --gr-e8 for a specification shown without the site's style
ENGINE_COLOURS = ("#0b66b0", "#b34700", "#00795a", "#a3408b", "#8a6500", "#4a58c4", "#287b8a", "#6b6f76")
GROUP_COLOURS = ("#0b66b0", "#b34700", "#00795a", "#a3408b", "#8a6500", "#6b6f76")
RAMP_COLOURS = ("#137c76", "#1c7aad", "#2f5fb8", "#5646ab", "#7a2a92", "#8a1256")
DASHES = ([1, 0], [6, 3], [2, 3])

# everything a reader of a chart reads that does not come from a row
WORDS = {
    "higher": "↑ higher is better",
    "lower": "↓ lower is better",
    "concurrency": "requests in flight (C)",
    "throughput": "Output throughput, tok/s",
    "efficiency": "Scaling efficiency: throughput per request in flight, against the first level",
    "attainment": "Attainment: the decode floor as a share of the measured step",
    "latency": "{metric} percentiles",
    "ecdf": "ITL of {engine} by percentile",
    "ecdf_axis": "percentile of all gaps (tail stretched)",
    "walls": "The two walls of {engine}: share of each ceiling in use",
    "ratio": "Throughput ratio {other} ÷ {base}",
    "ahead": "{engine} ahead",
    "bytes": "Weight bytes by tensor group",
    "floor": "Decode step against its floor",
    "usl": "Throughput and its USL fit",
    "crossing": "crossing\nC = {shown}",
    "flagged": "flagged",
}


@dataclass(frozen=True)
class Chart:
    """A drawable specification with the sentence that stands for it where it cannot be seen."""

    spec: dict[str, Any]
    alt: str
    name: str


# ------------------------------------------------------------------------------------- the charts


def throughput(rows: Sequence[Row], *, crossings: Iterable[Quantity] = (), alt: str | None = None) -> Chart | None:
    """Output throughput over concurrency with the range of its repeats (`low`, `high`) and annotated crossings."""
    drawn = _valued(rows)
    if not drawn:
        return None
    scale = _linear(drawn, "value", "high")
    layers = [_band(drawn), *_curves(drawn, scale), *_crossings(crossings, drawn)]
    return _over_load("throughput", WORDS["throughput"], "higher", drawn, layers, scale, alt)


def efficiency(rows: Sequence[Row], *, alt: str | None = None) -> Chart | None:
    """Scaling efficiency over concurrency; 1 is perfect."""
    return _shares("efficiency", rows, alt)


def attainment(rows: Sequence[Row], *, alt: str | None = None) -> Chart | None:
    """How much of each measured decode step its floor explains, over concurrency."""
    return _shares("attainment", rows, alt)


def latency(rows: Sequence[Row], metric: str, *, alt: str | None = None) -> Chart | None:
    """A latency's percentiles (`percentile`) over concurrency, log seconds; the first one seen is solid."""
    title = WORDS["latency"].format(metric=metric)
    return _dashed(f"latency_{metric.lower()}", title, rows, "percentile", alt)


def floor(rows: Sequence[Row], *, alt: str | None = None) -> Chart | None:
    """The measured step and its floor (`measure`) over concurrency, log seconds."""
    return _dashed("floor", WORDS["floor"], rows, "measure", alt)


def ecdf(rows: Sequence[Row], *, alt: str | None = None) -> Chart | None:
    """Each level's ITL by percentile (`share`, as text); the axis stretches the tail, the last point is the maximum."""
    drawn = [_placed(row) for row in _valued(rows)]
    if not drawn:
        return None
    scale, levels = _log(drawn, "value"), _unique(row["level"] for row in drawn)
    x, y = _percentile_axis(drawn), _seconds_axis(scale)
    colour = _colour("level", levels, _ramp(levels), legend=NARROW)
    named = [row for row in drawn if row["percentile"] in _NAMED]
    # the many rows of the lines hold only what a line needs
    slim = [{name: row[name] for name in ("level", "place", "value", "value_id")} for row in drawn]
    line, points = (_base(rows, {"place": "number"}).encode(x=x, y=y, color=colour) for rows in (slim, named))
    layers = [
        line.encode(order="place:Q").mark_line(strokeWidth=2),
        points.mark_point(filled=True, size=44, opacity=1, cursor="pointer").encode(
            href="href:N", tooltip=_tips("engine", "level", "percentile", "shown")
        ),
    ]
    title = WORDS["ecdf"].format(engine=", ".join(_unique(row["engine"] for row in drawn)))
    spoken = [row for row in named if row["percentile"] in ("p50", "p99", "max")]
    return _finish("ecdf", title, "lower", layers, alt or _say(title, spoken, "percentile"))


def walls(rows: Sequence[Row], cross: Quantity | None = None, *, alt: str | None = None) -> Chart | None:
    """One engine's use of both ceilings (`wall`) over concurrency, and where they cross."""
    drawn = _valued(rows)
    if not drawn:
        return None
    names = _unique(row["wall"] for row in drawn)
    scale = _linear(drawn, "value")
    palette = [_engine_colour(str(place)) for place in range(1, len(names) + 1)]
    layers = [
        *_curves(drawn, scale, by="wall", palette=palette),
        *_crossings([cross] if cross is not None and not cross.missing else [], drawn),
    ]
    title = WORDS["walls"].format(engine=drawn[0]["engine"])
    return _over_load("walls", title, None, drawn, layers, scale, alt, by="wall", percent=True)


def ratio(
    rows: Sequence[Row], base: str, other: str, *, crossings: Iterable[Quantity] = (), alt: str | None = None
) -> Chart | None:
    """The challenger's throughput over the baseline's per level, on a log scale around the line of equality."""
    drawn = [{"engine": f"{other} ÷ {base}", **row} for row in _valued(rows)]
    if not drawn:
        return None
    title = WORDS["ratio"].format(base=base, other=other)
    scale = _around_one(drawn)
    line = _base(drawn).encode(x=_load_axis(drawn), y=_y(scale, "value"))
    layers = [
        *_equality(scale, base, other),
        line.mark_line(stroke=INK, strokeWidth=2),
        *_points(line, drawn, INK),
        *_crossings(crossings, drawn),
    ]
    return _over_load("ratio", title, None, drawn, layers, scale, alt)


def byte_account(rows: Sequence[Row], *, alt: str | None = None) -> Chart | None:
    """Each engine's weight bytes, stacked by tensor group (`group`)."""
    drawn = _valued(rows)
    if not drawn:
        return None
    groups, engines = _unique(row["group"] for row in drawn), _unique(row["engine"] for row in drawn)
    palette = [f"var(--gr-g{place}, {colour})" for place, colour in enumerate(GROUP_COLOURS, 1)]
    bars = _base(drawn).encode(
        x=_X("value:Q", axis=_bytes_axis(drawn), stack="zero"),
        y=_Y("engine:N", sort=engines, axis=_Axis(title=None, labelLimit=110, ticks=False, domain=False)),
        color=_colour(
            "group", groups, [palette[place % len(palette)] for place in range(len(groups))], legend=NARROW - 90
        ),
        order="place:Q",
        href="href:N",
        tooltip=_tips("engine", "group", "shown"),
    )
    bars.data = _data([row | {"place": str(groups.index(row["group"]))} for row in drawn], {"place": "number"})
    marks = [bars.mark_bar(stroke=PAPER, strokeWidth=1, cursor="pointer")]
    said = alt or _say(WORDS["bytes"], drawn, "group")
    return _finish("bytes", WORDS["bytes"], None, marks, said, height=40 + 48 * len(engines))


def usl(rows: Sequence[Row], fit: Sequence[Row], *, alt: str | None = None) -> Chart | None:
    """Measured throughput as points and the fitted curve (`fit`, rows of a curve figure) as a line."""
    drawn, curve = _valued(rows), _valued(fit)
    if not drawn:
        return None
    scale = _linear([*drawn, *curve], "value")
    layers = []
    if curve:
        line = _base(curve).encode(x=_load_axis(drawn), y=_y(scale, "value"), color=_engines(curve))
        layers.append(line.mark_line(strokeWidth=1.5, strokeDash=[5, 3], clip=True))
    points = _base(drawn).encode(x=_load_axis(drawn), y=_y(scale, "value"))
    layers += [*_points(points.encode(color=_engines(drawn)), drawn, None), *_end_labels(drawn, scale, "engine", None)]
    return _over_load("usl", WORDS["usl"], "higher", drawn, layers, scale, alt)


# ------------------------------------------------------------------------------------- families


def _shares(name: str, rows: Sequence[Row], alt: str | None) -> Chart | None:
    drawn = _valued(rows)
    if not drawn:
        return None
    scale = _linear(drawn, "value", least=1)
    layers = [_reference(1), *_curves(drawn, scale)]
    return _over_load(name, WORDS[name], "higher", drawn, layers, scale, alt, percent=True)


def _dashed(name: str, title: str, rows: Sequence[Row], by: str, alt: str | None) -> Chart | None:
    """Seconds over load, one colour an engine, one dash per value of `by`, which labels the line's end."""
    drawn = _valued(rows)
    if not drawn:
        return None
    scale, kinds = _log(drawn, "value"), _unique(row[by] for row in drawn)
    dash = _StrokeDash(f"{by}:N", scale=_Scale(domain=kinds, range=[DASHES[min(k, 2)] for k in range(len(kinds))]),
                       legend=None)  # fmt: skip
    line = _base(drawn).encode(
        x=_load_axis(drawn), y=_seconds_axis(scale), color=_engines(drawn, legend=NARROW), detail=f"{by}:N"
    )
    layers = [
        line.encode(strokeDash=dash).mark_line(strokeWidth=2),
        *_points(line, drawn, None, extra=(by,), size=42),
        *_end_labels(drawn, scale, by, by),
    ]
    return _over_load(name, title, "lower", drawn, layers, scale, alt, by=by)


def _over_load(name, title, better, drawn, layers, scale, alt, *, by=None, percent=False) -> Chart:
    said = alt or _say(title, drawn, by)
    chart = _finish(name, title, better, layers, said)
    if percent:
        _percent_axis(chart.spec)
    return chart


def _finish(name, title, better, layers, said, *, height: int = HEIGHT) -> Chart:
    """Layers as one specification, without a name or number that depends on what was drawn before."""
    chart = alt.layer(*[layer for layer in layers if layer is not None]).properties(
        name=f"gr_{name}",
        description=said,
        width="container",
        height=height,
        padding={"left": 2, "top": 4, "right": 8, "bottom": 4},
        # read by genreport.js: text around the drawing wraps on a phone, text inside does not
        usermeta={"title": title, "better": WORDS.get(better, "")},
        autosize=alt.AutoSizeParams(type="fit-x", contains="padding"),
    )
    spec = chart.to_dict()
    spec["config"] = CONFIG
    return Chart(spec, said, name)


# ------------------------------------------------------------------------------------- marks


def _curves(drawn, scale, *, by: str = "engine", palette: list[str] | None = None) -> list:
    """Line, points and end labels, one colour per value of `by`."""
    names = _unique(row[by] for row in drawn)
    colour = _engines(drawn) if palette is None else _colour(by, names, palette)
    line = _base(drawn).encode(x=_load_axis(drawn), y=_y(scale, "value"), color=colour)
    extra = () if by == "engine" else (by,)
    return [
        line.mark_line(strokeWidth=2.5),
        *_points(line, drawn, None, extra=extra),
        *_end_labels(drawn, scale, by, None if by == "engine" else by, palette),
    ]


def _points(line, drawn, stroke: str | None, *, extra: tuple[str, ...] = (), size: int = 64) -> list:
    """Solid points, and hollow ones for flagged levels; each leads to its evidence."""
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
        ).encode(href="href:N", tooltip=_tips(*tips, *(["flag"] if flagged else [])))
        point.data = _data(rows)
        layers.append(point)
    return layers


def _band(drawn) -> Any:
    """Minimum to maximum over the repeats."""
    ranged = [row for row in drawn if row.get("low") is not None and row.get("high") is not None]
    if not ranged:
        return None
    band = _base(ranged).encode(x=_load_axis(drawn), y=_Y("low:Q"), y2="high:Q", color=_engines(drawn))
    return band.mark_area(opacity=0.16, line=False)


def _end_labels(drawn, scale, text: str, by: str | None, palette: list[str] | None = None) -> list:
    """A line's name at its last point, moved apart by whole pixels where two would touch."""
    lines: dict[tuple, Row] = {}
    for row in drawn:
        key = (row["engine"], row.get(by) if by else None)
        if key not in lines or row["concurrency"] >= lines[key]["concurrency"]:
            lines[key] = row
    names = _unique(row[text] for row in drawn)
    ends = sorted(lines.values(), key=lambda row: -row["value"])
    marks = []
    for row, shift in zip(ends, _apart([scale.pixel(row["value"]) for row in ends]), strict=True):
        colour = palette[names.index(row[text])] if palette else _engine_colour(_colour_of(row, drawn))
        mark = _base([row]).encode(x=_load_axis(drawn), y=_y(scale, "value"), text=f"{text}:N")
        marks.append(mark.mark_text(align="left", dx=9, dy=shift, fontSize=12, fontWeight=600, fill=colour, limit=110))
    return marks


def _crossings(found: Iterable[Quantity], drawn: Sequence[Row]) -> list:
    """A rule at each crossing and, on the side with more room, its text, which leads to the derivation."""
    levels = [row["concurrency"] for row in drawn]
    middle = math.sqrt(min(levels) * max(levels))
    layers = []
    for place, q in enumerate(found):
        text = WORDS["crossing"].format(shown=digits(q.value))
        row = {"concurrency": q.value, "concurrency_id": q.id, "label": text, "href": derivation_href(q.id)}
        side = {"align": "left", "dx": 6} if q.value < middle else {"align": "right", "dx": -6}
        base = _base([row]).encode(x=_load_axis(drawn))
        label = base.encode(y=alt.value(8 + 32 * place), text="label:N", href="href:N")
        layers += [
            base.mark_rule(stroke=MUTED, strokeWidth=1.5, strokeDash=[4, 3]),
            label.mark_text(**side, lineBreak="\n", fill=INK, fontSize=12, fontWeight=600, cursor="pointer", limit=200),
        ]
    return layers


def _reference(value: float) -> Any:
    rule = alt.Chart(_data([{"kind": "reference"}])).encode(y=alt.datum(value))
    return rule.mark_rule(stroke=MUTED, strokeWidth=1, strokeDash=[3, 3])


def _equality(scale: Scale, base: str, other: str) -> list:
    """The line of equal throughput and who is ahead on either side of it."""
    middle = scale.pixel(1)
    sides = (("↑", other, max(8, middle - 12)), ("↓", base, min(HEIGHT - 6, middle + 14)))
    layers = [_reference(1)]
    for arrow, engine, place in sides:
        words = f"{arrow} {WORDS['ahead'].format(engine=engine)}"
        label = _base([{"label": words}]).encode(x=alt.value(8), y=alt.value(place), text="label:N")
        layers.append(label.mark_text(align="left", fill=MUTED, fontSize=12, limit=260))
    return layers


# ------------------------------------------------------------------------------------- scales and axes


@dataclass(frozen=True)
class Scale:
    """A y scale whose domain is fixed here, so that the place of a label is known before it is drawn."""

    low: float
    high: float
    log: bool = False
    ticks: tuple[float, ...] | None = None

    def pixel(self, value: float) -> float:
        low, high, at = (math.log(v) if self.log else v for v in (self.low, self.high, value))
        return HEIGHT * (1 - (at - low) / (high - low))

    def altair(self) -> alt.Scale:
        kind = {"type": "log"} if self.log else {"type": "linear", "zero": False}
        return _Scale(domain=[self.low, self.high], nice=False, **kind)


def _linear(rows, *fields: str, least: float = 0) -> Scale:
    found = [row[field] for row in rows for field in fields if row.get(field) is not None]
    return Scale(min(0, *found), (max(*found, least, 0) or 1) * 1.08)


def _log(rows, field: str) -> Scale:
    """Positive values only: a zero has no place on it and is left to the table."""
    found = [row[field] for row in rows if row[field] > 0] or [1.0]
    low, high = min(found) / 1.25, max(found) * 1.25
    return Scale(low, high, log=True, ticks=_round_steps(low, high))


def _around_one(rows) -> Scale:
    found = [row["value"] for row in rows if row["value"] > 0] or [1.0]
    reach = max(1.25, *(max(value, 1 / value) for value in found)) * 1.15
    low, high = max(1 / reach, min(*found, 1) / 1.3), min(reach, max(*found, 1) * 1.3)
    fine = (0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5, 1.75, 2)
    steps = fine if high / low < 3.5 else (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20)
    return Scale(low, high, log=True, ticks=tuple(s for s in steps if low <= s <= high))


def _round_steps(low: float, high: float) -> tuple[float, ...]:
    """Round ticks inside a log domain: the coarsest series that gives three."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    steps: tuple[float, ...] = ()
    for series in ((1,), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), [k / 10 for k in range(10, 100)]):
        found = (float(f"{digit:.6g}e{power}") for power in powers for digit in series)
        steps = tuple(step for step in found if low <= step <= high)
        if len(steps) >= 3:
            break
    return steps


def _load_axis(rows) -> alt.X:
    """log2 concurrency with a tick at each measured level."""
    levels = sorted({row["concurrency"] for row in rows})
    axis = _Axis(values=levels, format="~g", title=WORDS["concurrency"], grid=False, labelOverlap="greedy")
    domain = [levels[0] / 1.12, levels[-1] * 1.06]
    return _X("concurrency:Q", scale=_Scale(type="log", base=2, domain=domain, nice=False), axis=axis)


def _y(scale: Scale, field: str) -> alt.Y:
    axis = _Axis(title=None, tickCount=6, format="~s" if scale.high >= 10_000 else ",.6~g")
    if scale.ticks:
        axis = _Axis(title=None, values=list(scale.ticks), format="~g")
    return _Y(f"{field}:Q", scale=scale.altair(), axis=axis)


def _seconds_axis(scale: Scale) -> alt.Y:
    axis = _Axis(title=None, values=list(scale.ticks or ()), labelExpr=_SECONDS)
    return _Y("value:Q", scale=scale.altair(), axis=axis)


def _bytes_axis(rows) -> alt.Axis:
    """Round ticks in the binary unit that pages use."""
    widest = max(
        sum(row["value"] for row in rows if row["engine"] == name) for name in _unique(r["engine"] for r in rows)
    )
    size, unit = next(((s, u) for s, u in _BYTES if widest >= s), _BYTES[-1])
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if widest / size / step <= 5)
    ticks = [step * k * size for k in range(int(widest / size / step) + 1)]
    return _Axis(title=None, values=ticks, labelExpr=f"format(datum.value / {size}, ',~r') + ' {unit}'", grid=True)


_BYTES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))
_SECONDS = (
    "datum.value >= 1 ? format(datum.value, '~g') + ' s' : datum.value >= 0.001 ? "
    "format(datum.value * 1000, '.4~g') + ' ms' : format(datum.value * 1000000, '.4~g') + ' µs'"
)
_NAMED = {"p50", "p90", "p99", "p99.9", "p99.99", "max"}
_PERCENTILES = {0.5: "p50", 0.9: "p90", 0.99: "p99", 0.999: "p99.9", 0.9999: "p99.99"}


def _percent_axis(spec: dict[str, Any]) -> None:
    for layer in spec["layer"]:
        axis = layer["encoding"].get("y", {}).get("axis")
        if axis:
            axis["format"] = ".0%"


def _placed(row: Row) -> Row:
    """A quantile's place on an axis that gives each further nine the same room; both stay text."""
    share = float(row["share"])
    place = 5.0 if share >= 1 else -math.log10(1 - share)
    name = "max" if share >= 1 else f"p{share * 100:.6g}"
    return row | {"place": f"{place:.6f}", "percentile": name}


def _percentile_axis(rows) -> alt.X:
    inner = [float(row["place"]) for row in rows if row["percentile"] != "max"] or [1.0]
    end = max(inner) + 0.55
    for row in rows:
        if row["percentile"] == "max":
            row["place"] = f"{end:.6f}"
    names = {round(-math.log10(1 - share), 6): name for share, name in _PERCENTILES.items()}
    names = {place: name for place, name in names.items() if place < end - 0.3} | {round(end, 6): "max"}
    expr = "".join(f"abs(datum.value - {place}) < 1e-4 ? '{name}' : " for place, name in names.items()) + "''"
    return _X(
        "place:Q",
        scale=_Scale(domain=[0, end], nice=False),
        axis=_Axis(values=sorted(names), labelExpr=expr, title=WORDS["ecdf_axis"], grid=True, labelOverlap=False),
    )


# ------------------------------------------------------------------------------------- small parts

_X, _Y, _Axis, _Scale, _StrokeDash = alt.X, alt.Y, alt.Axis, alt.Scale, alt.StrokeDash


def _data(rows: Sequence[Row], parse: dict[str, str] | None = None) -> alt.InlineData:
    extra = {"format": alt.JsonDataFormat(type="json", parse=parse)} if parse else {}
    return alt.InlineData(values=[dict(row) for row in rows], **extra)


def _base(rows: Sequence[Row], parse: dict[str, str] | None = None) -> alt.Chart:
    return alt.Chart(_data(rows, parse))


def _colour(field: str, names: list[str], palette: list[str], *, legend: int = 0) -> alt.Color:
    """A fixed colour a name; with `legend` px of room, a key above the drawing in as many rows as a phone needs."""
    key = None
    if legend and len(names) > 1:
        widths = [26 + 6.4 * len(name) for name in names]
        columns = len(names) if sum(widths) <= legend else max(1, int(legend // max(widths)))
        key = alt.Legend(title=None, orient="top", direction="horizontal", columns=columns, labelLimit=160)
    return alt.Color(f"{field}:N", scale=_Scale(domain=names, range=palette), legend=key)


def _engines(rows, *, legend: int = 0) -> alt.Color:
    names = _unique(row["engine"] for row in rows)
    first = {name: next(row for row in rows if row["engine"] == name) for name in names}
    return _colour("engine", names, [_engine_colour(_colour_of(first[n], rows)) for n in names], legend=legend)


def _colour_of(row: Row, rows) -> str:
    """The engine's place in the round where the row says it, else its order of appearance."""
    return str(row.get("colour") or _unique(r["engine"] for r in rows).index(row["engine"]) + 1)


def _engine_colour(place: str) -> str:
    index = (int(place) - 1) % len(ENGINE_COLOURS)
    return f"var(--gr-e{index + 1}, {ENGINE_COLOURS[index]})"


def _ramp(levels: list[str]) -> list[str]:
    """Pale to deep in the order of the levels."""
    last = len(RAMP_COLOURS) - 1
    picks = [round(place * last / max(1, len(levels) - 1)) for place in range(len(levels))]
    return [f"var(--gr-s{pick + 1}, {RAMP_COLOURS[pick]})" for pick in picks]


_TITLES = {"concurrency": "C", "shown": "value", "flag": "flag", "wall": "ceiling"}


def _tips(*fields: str) -> list[alt.Tooltip]:
    kind = {"concurrency": "Q"}
    return [alt.Tooltip(f"{f}:{kind.get(f, 'N')}", title=_TITLES.get(f, f)) for f in fields]


def _valued(rows: Iterable[Row]) -> list[Row]:
    """The rows that have a value, each number checked for its figure's id."""
    kept = [{k: v for k, v in row.items() if v is not None} for row in rows if row.get("value") is not None]
    for row in kept:
        row.setdefault("shown", f"{row['value']:.3g}")
        for name, value in row.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                if f"{name}_id" not in row:
                    raise ValueError(f"a chart row's {name} names no figure")
                if not math.isfinite(value):
                    raise ValueError(f"a chart row's {name} is {value}")
    return kept


def _apart(pixels: Sequence[float]) -> list[int]:
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


def _unique(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _say(title: str, rows: Sequence[Row], by: str | None) -> str:
    """The chart in words: each line's values in order, as pages write them."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        curve = "share" in row
        parts = (row.get("engine"), row.get("level") if curve else row.get(by or ""))
        at = row["percentile"] if curve else f"C = {row['concurrency']:g}" if "concurrency" in row else ""
        flag = f" ({WORDS['flagged']})" if row.get("flag") else ""
        line = lines.setdefault(" ".join(filter(None, parts)), [])
        line.append(f"{row['shown']}{' at ' + at if at else ''}{flag}")
    return f"{title}. " + " ".join(f"{name}: {', '.join(found)}." for name, found in lines.items())


CONFIG: dict[str, Any] = {
    "aria": False,  # the element around the drawing carries the words
    "background": "transparent",
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "titleFontWeight": "normal",
        "titlePadding": 8,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
        "tickSize": 4,
        "labelPadding": 5,
    },
    "axisY": {"domain": False, "ticks": False},
    "legend": {
        "labelColor": INK,
        "labelFontSize": 12,
        "symbolType": "circle",
        "symbolSize": 90,
        "symbolStrokeWidth": 2,
        "padding": 0,
        "offset": 8,
    },
    "text": {"font": FONT},
}
