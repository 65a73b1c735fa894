"""A distribution by percentile, on an axis that stretches the tail."""

from __future__ import annotations

import math
from collections.abc import Sequence

import altair as alt

from genreport.charts.colours import NARROW, colour_by, ramp
from genreport.charts.rows import Row, above_zero, chart_of, tooltips, unique
from genreport.charts.scales import logarithmic, seconds_axis
from genreport.charts.spec import Chart, finish, in_words
from genreport.words import say

_NAMED = {"p50", "p90", "p99", "p99.9", "p99.99", "max"}
_PERCENTILES = {0.5: "p50", 0.9: "p90", 0.99: "p99", 0.999: "p99.9", 0.9999: "p99.99"}


def ecdf(rows: Sequence[Row]) -> Chart | None:
    """Each level's ITL by percentile (`share`, as text); the axis stretches the tail, the last point is the maximum."""
    drawn = [placed(row) for row in above_zero(rows)]
    if not drawn:
        return None
    levels = unique(row["level"] for row in drawn)
    x, y = percentile_axis(drawn), seconds_axis(logarithmic(drawn, "value"))
    colour = colour_by("level", levels, ramp(levels), legend=NARROW)
    named = [row for row in drawn if row["percentile"] in _NAMED]
    # the many rows of the lines hold only what a line needs
    slim = [{name: row[name] for name in ("level", "place", "value", "value_id")} for row in drawn]
    line, dots = (chart_of(rows, {"place": "number"}).encode(x=x, y=y, color=colour) for rows in (slim, named))
    layers = [
        line.encode(order="place:Q").mark_line(strokeWidth=2),
        dots.mark_point(filled=True, size=44, opacity=1, cursor="pointer").encode(
            href="href:N", tooltip=tooltips("engine", "level", "percentile", "shown")
        ),
    ]
    title = say("chart.ecdf", engine=", ".join(unique(row["engine"] for row in drawn)))
    spoken = [row for row in named if row["percentile"] in ("p50", "p99", "max")]
    return finish("ecdf", title, "lower", layers, in_words(title, spoken, "percentile"))


def placed(row: Row) -> Row:
    """A quantile's place on an axis that gives each further nine the same room; both stay text."""
    share = float(row["share"])
    place = 5.0 if share >= 1 else -math.log10(1 - share)
    name = "max" if share >= 1 else f"p{share * 100:.6g}"
    return row | {"place": f"{place:.6f}", "percentile": name}


def percentile_axis(rows: Sequence[Row]) -> alt.X:
    """The axis under placed rows; moves their maxima to its end."""
    inner = [float(row["place"]) for row in rows if row["percentile"] != "max"] or [1.0]
    end = max(inner) + 0.55
    for row in rows:
        if row["percentile"] == "max":
            row["place"] = f"{end:.6f}"
    names = {round(-math.log10(1 - share), 6): name for share, name in _PERCENTILES.items()}
    names = {place: name for place, name in names.items() if place < end - 0.3} | {round(end, 6): "max"}
    expr = "".join(f"abs(datum.value - {place}) < 1e-4 ? '{name}' : " for place, name in names.items()) + "''"
    return alt.X(
        "place:Q",
        scale=alt.Scale(domain=[0, end], nice=False),
        axis=alt.Axis(
            values=sorted(names), labelExpr=expr, title=say("chart.ecdf_axis"), grid=True, labelOverlap=False
        ),
    )
