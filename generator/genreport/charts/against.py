"""Two rounds in one drawing: this round solid, the earlier one dashed and lighter, an engine in its one colour.

Rows carry the `round` they are of; the first one seen is this round.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt

from genreport.charts.colours import DASHES, NARROW, colour_by_engine
from genreport.charts.distribution import percentile_axis, placed
from genreport.charts.guide import wait_axis
from genreport.charts.marks import end_labels, points
from genreport.charts.rows import Row, above_zero, chart_of, inline, tooltips, unique, valued
from genreport.charts.scales import Scale, linear, load_axis, logarithmic, seconds_axis, y_axis
from genreport.charts.spec import Chart, finish, in_words, lines_in_words, point_in_words
from genreport.words import say

# percentiles of a distribution that its points and its words tell
NAMED = ("p50", "p90", "p99", "max")
FADED = 0.55
# of points: this round's are larger than the earlier one's
SIZES = (64, 28)
# text fields of a distribution that are drawn as numbers
NUMBERS = {"place": "number"}


def throughput(rows: Sequence[Row]) -> Chart | None:
    """Output throughput over concurrency in both rounds."""
    drawn = valued(rows)
    scale = linear(drawn, "value") if drawn else None
    return _over_load("against_throughput", "throughput", "higher", drawn, scale, scale and y_axis(scale, "value"))


def wait(rows: Sequence[Row]) -> Chart | None:
    """The p99 TTFT over concurrency in both rounds, log seconds."""
    drawn = above_zero(rows)
    scale = logarithmic(drawn, "value") if drawn else None
    return _over_load("against_wait", "wait", "lower", drawn, scale, scale and seconds_axis(scale))


def _over_load(
    name: str, title: str, better: str, drawn: Sequence[Row], scale: Scale | None, y: alt.Y | None
) -> Chart | None:
    if scale is None:
        return None
    base = chart_of(drawn).encode(x=load_axis(drawn), y=y, color=colour_by_engine(drawn))
    layers = [*_lines(base, drawn), *_points(base, drawn), *end_labels(_labelled(drawn), scale, "engine", None)]
    words = _title(title, drawn)
    return finish(name, words, better, layers, in_words(words, drawn, "round"))


def fronts(rows: Sequence[Row]) -> Chart | None:
    """The levels on each engine's front in both rounds: throughput over the p99 TTFT (`wait`, and as text `waited`)."""
    drawn = above_zero(rows, "wait")
    if not drawn:
        return None
    axes = {"x": wait_axis(drawn, []), "y": y_axis(linear(drawn, "value"), "value")}
    base = chart_of(drawn).encode(**axes, color=colour_by_engine(drawn, legend=NARROW))
    tips = [*tooltips("engine", "round", "concurrency"), alt.Tooltip("waited:N", title=say("diff.wait_axis")),
            alt.Tooltip("shown:N", title=say("diff.throughput_axis"))]  # fmt: skip
    layers = [*_lines(base, drawn), *(point.encode(tooltip=tips) for point in _points(base, drawn))]
    words = _title("fronts", drawn)
    return finish("against_fronts", words, None, layers, f"{words}. {_fronts_in_words(drawn)}")


def _fronts_in_words(drawn: Sequence[Row]) -> str:
    lines: dict[str, list[str]] = {}
    for row in drawn:
        point = say("diff.front_point", shown=row["shown"], waited=row["waited"], load=f"{row['concurrency']:g}")
        lines.setdefault(_line_of(row), []).append(point)
    return lines_in_words(lines)


def _line_of(row: Row) -> str:
    return f"{row['engine']} {row['round']}"


def distribution(rows: Sequence[Row]) -> Chart | None:
    """Each engine's ITL by percentile in both rounds, at one level; the axis stretches the tail."""
    drawn = [placed(row) for row in above_zero(rows)]
    if not drawn:
        return None
    axes = {"x": percentile_axis(drawn), "y": seconds_axis(logarithmic(drawn, "value"))}
    named = [row for row in drawn if row["percentile"] in NAMED]
    # the many rows of the lines hold only what a line needs
    slim = [{name: row[name] for name in ("engine", "round", "place", "value", "value_id")} for row in drawn]
    base = chart_of(named, NUMBERS).encode(**axes, color=colour_by_engine(named, legend=NARROW))
    tips = tooltips("engine", "round", "level", "percentile", "shown")
    dots = base.encode(href="href:N", tooltip=tips)
    layers = [*_lines(base.encode(order="place:Q"), slim, NUMBERS), *_dots(dots, named)]
    words = _title("distribution", drawn, level=drawn[0]["level"])
    return finish("against_distribution", words, "lower", layers, f"{words}. {_distribution_in_words(named)}")


def _distribution_in_words(named: Sequence[Row]) -> str:
    lines: dict[str, list[str]] = {}
    for row in named:
        lines.setdefault(_line_of(row), []).append(point_in_words(row["shown"], row["percentile"]))
    return lines_in_words(lines)


def _lines(base: alt.Chart, drawn: Sequence[Row], parse: dict[str, str] | None = None) -> list[alt.Chart]:
    """A line a round and engine."""
    looks = ({"strokeDash": DASHES[0]}, {"strokeDash": DASHES[1], "strokeOpacity": FADED})
    pairs = zip(_by_round(drawn), looks, strict=False)
    return [_with(base.mark_line(strokeWidth=2.5, **look), inline(rows, parse)) for rows, look in pairs]


def _dots(base: alt.Chart, drawn: Sequence[Row]) -> list[alt.Chart]:
    """The named points of distributions."""
    marks = (base.mark_point(filled=True, opacity=1, cursor="pointer", size=size) for size in SIZES)
    return [_with(mark, inline(rows, NUMBERS)) for mark, rows in zip(marks, _by_round(drawn), strict=False)]


def _points(base: alt.Chart, drawn: Sequence[Row]) -> list[alt.Chart]:
    """The levels of both rounds; a flagged one is hollow."""
    sized = zip(_by_round(drawn), SIZES, strict=False)
    return [point for rows, size in sized for point in points(base, rows, None, extra=("round",), size=size)]


def _by_round(drawn: Sequence[Row]) -> list[list[Row]]:
    return [[row for row in drawn if row["round"] == name] for name in unique(row["round"] for row in drawn)]


def _with(chart: alt.Chart, data: Any) -> alt.Chart:
    chart.data = data
    return chart


def _labelled(drawn: Sequence[Row]) -> list[Row]:
    """The rows of each engine's newest line, which carries its name."""
    rounds = unique(row["round"] for row in drawn)
    newest: dict[str, str] = {}
    for row in sorted(drawn, key=lambda row: rounds.index(row["round"])):
        newest.setdefault(row["colour"], row["round"])
    return [row for row in drawn if row["round"] == newest[row["colour"]]]


def _title(name: str, drawn: Sequence[Row], **given: Any) -> str:
    rounds = unique(row["round"] for row in drawn)
    key = say("diff.key", new=rounds[0], old=rounds[-1]) if len(rounds) > 1 else rounds[0]
    return f"{say(f'diff.{name}', **given)}: {key}"
