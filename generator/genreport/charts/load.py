"""Charts over load: a value per engine at each concurrency."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from genreport.charts.colours import INK, NARROW, colour_by_engine, dash_by, group_palette
from genreport.charts.marks import band, crossing_rules, curves, end_labels, equality, points, reference
from genreport.charts.rows import Row, above_zero, chart_of, unique, valued
from genreport.charts.scales import Scale, around_one, linear, load_axis, logarithmic, seconds_axis, y_axis
from genreport.charts.spec import Chart, finish, in_words, percent_axis
from genreport.provenance import Quantity
from genreport.words import say


def throughput(rows: Sequence[Row], *, crossings: Iterable[Quantity] = ()) -> Chart | None:
    """Output throughput over concurrency with the range of its repeats (`low`, `high`) and annotated crossings."""
    drawn = valued(rows)
    if not drawn:
        return None
    scale = linear(drawn, "value", "high")
    layers = [band(drawn), *curves(drawn, scale), *crossing_rules(crossings, drawn)]
    return over_load("throughput", say("chart.throughput"), "higher", drawn, layers)


def efficiency(rows: Sequence[Row]) -> Chart | None:
    """Scaling efficiency over concurrency; 1 is perfect."""
    return shares("efficiency", say("chart.efficiency"), rows)


def attainment(rows: Sequence[Row]) -> Chart | None:
    """How much of each measured decode step its floor explains, over concurrency."""
    return shares("attainment", say("chart.attainment"), rows)


def latency(rows: Sequence[Row], metric: str) -> Chart | None:
    """A latency's percentiles (`percentile`) over concurrency, log seconds; the first one seen is solid."""
    title = say("chart.latency", metric=metric)
    return dashed(f"latency_{metric.lower()}", title, rows, "percentile")


def floor(rows: Sequence[Row]) -> Chart | None:
    """The measured step and its floor (`measure`) over concurrency, log seconds."""
    return dashed("floor", say("chart.floor"), rows, "measure")


def walls(rows: Sequence[Row], cross: Quantity | None = None) -> Chart | None:
    """One engine's use of both ceilings (`wall`) over concurrency, and where they cross."""
    drawn = valued(rows)
    if not drawn:
        return None
    names = unique(row["wall"] for row in drawn)
    palette = group_palette(len(names))
    layers = [
        *curves(drawn, linear(drawn, "value"), by="wall", palette=palette),
        *crossing_rules([cross] if cross is not None and not cross.missing else [], drawn),
    ]
    title = say("chart.walls", engine=drawn[0]["engine"])
    return over_load("walls", title, None, drawn, layers, by="wall", percent=True)


def ratio(rows: Sequence[Row], base: str, other: str) -> Chart | None:
    """The challenger's throughput over the baseline's per level with its range (`low`, `high`), on a log scale."""
    drawn = [{"engine": say("chart.over", other=other, base=base), **row} for row in above_zero(rows)]
    if not drawn:
        return None
    title = say("chart.ratio", base=base, other=other)
    scale = around_one([*drawn, *({"value": row[end]} for end in ("low", "high") for row in drawn if row.get(end))])
    line = chart_of(drawn).encode(x=load_axis(drawn), y=y_axis(scale, "value"))
    layers = [
        *equality(scale, base, other),
        _whiskers(drawn, scale),
        line.mark_line(stroke=INK, strokeWidth=2),
        *points(line, drawn, INK),
    ]
    return over_load("ratio", title, None, drawn, layers)


def _whiskers(drawn: Sequence[Row], scale: Scale) -> Any:
    ranged = [row for row in drawn if row.get("low") and row.get("high")]
    if not ranged:
        return None
    rule = chart_of(ranged).encode(x=load_axis(drawn), y=y_axis(scale, "low"), y2="high:Q")
    return rule.mark_rule(stroke=INK, strokeWidth=5, opacity=0.22)


def usl(rows: Sequence[Row], fit: Sequence[Row]) -> Chart | None:
    """Measured throughput as points and the fitted curve (`fit`, rows of a curve figure) as a line."""
    drawn, curve = valued(rows), valued(fit)
    if not drawn:
        return None
    scale = linear([*drawn, *curve], "value")
    measured = chart_of(drawn).encode(x=load_axis(drawn), y=y_axis(scale, "value"), color=colour_by_engine(drawn))
    layers = [
        *_fitted(curve, drawn, scale),
        *points(measured, drawn, None),
        *end_labels(drawn, scale, "engine", None),
    ]
    return over_load("usl", say("chart.usl"), "higher", drawn, layers)


def _fitted(curve: Sequence[Row], drawn: Sequence[Row], scale: Scale) -> list[Any]:
    if not curve:
        return []
    line = chart_of(curve).encode(x=load_axis(drawn), y=y_axis(scale, "value"), color=colour_by_engine(curve))
    return [line.mark_line(strokeWidth=1.5, strokeDash=[5, 3], clip=True)]


def shares(name: str, title: str, rows: Sequence[Row]) -> Chart | None:
    """Shares over load in percent, against a line at all of it; more is better."""
    drawn = valued(rows)
    if not drawn:
        return None
    layers = [reference(1), *curves(drawn, linear(drawn, "value", least=1))]
    return over_load(name, title, "higher", drawn, layers, percent=True)


def dashed(name: str, title: str, rows: Sequence[Row], by: str) -> Chart | None:
    """Seconds over load with the range of the repeats: one colour an engine, one dash per value of `by`, named at its end."""
    drawn = above_zero(rows)
    if not drawn:
        return None
    ends = [{"value": row[end]} for end in ("low", "high") for row in drawn if row.get(end)]
    scale, dash = logarithmic([*drawn, *ends], "value"), dash_by(by, unique(row[by] for row in drawn))
    line = chart_of(drawn).encode(
        x=load_axis(drawn), y=seconds_axis(scale), color=colour_by_engine(drawn, legend=NARROW), detail=f"{by}:N"
    )
    layers = [
        band(drawn, scale, by, legend=NARROW),
        line.encode(strokeDash=dash).mark_line(strokeWidth=2),
        *points(line, drawn, None, extra=(by,), size=42),
        *end_labels(drawn, scale, by, by),
    ]
    return over_load(name, title, "lower", drawn, layers, by=by)


def over_load(
    name: str,
    title: str,
    better: str | None,
    drawn: Sequence[Row],
    layers: Sequence[Any],
    *,
    by: str | None = None,
    percent: bool = False,
) -> Chart:
    """A finished chart that says each line's values (a line per engine and value of `by`)."""
    chart = finish(name, title, better, layers, in_words(title, drawn, by))
    if percent:
        percent_axis(chart.spec)
    return chart
