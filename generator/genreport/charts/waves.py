"""How evenly tokens come over load: time lost to stalls, requests in step, graphs that an engine reuses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from genreport.charts.load import over_load
from genreport.charts.marks import band, curves, reference
from genreport.charts.rows import Row, valued
from genreport.charts.scales import linear
from genreport.charts.spec import Chart, percent_axis
from genreport.words import say

# shares may be far below one percent
PERCENT = ".2~%"


def stall_share(rows: Sequence[Row]) -> Chart | None:
    """Share of the time between text events that gaps far above the median one took, over concurrency."""
    drawn = valued(rows)
    if not drawn:
        return None
    return _percent("stall_share", "lower", drawn, curves(drawn, linear(drawn, "value", least=0.001)))


def graph_reuse(rows: Sequence[Row]) -> Chart | None:
    """Share of an engine's steps that ran on the graph of the step before, with the range of its repeats."""
    drawn = valued(rows)
    if not drawn:
        return None
    layers = [reference(1), band(drawn), *curves(drawn, linear(drawn, "value", "high", least=1))]
    return _percent("graph_reuse", "higher", drawn, layers)


def wave_index(rows: Sequence[Row]) -> Chart | None:
    """How far requests start in step, over concurrency: 1 = all at once, 0 = evenly spread."""
    drawn = valued(rows)
    if not drawn:
        return None
    layers = [reference(1), *curves(drawn, linear(drawn, "value", least=1))]
    return over_load("wave_index", say("pair_chart.wave_index"), None, drawn, layers)


def _percent(name: str, better: str, drawn: Sequence[Row], layers: Sequence[Any]) -> Chart:
    chart = over_load(name, say(f"pair_chart.{name}"), better, drawn, layers)
    percent_axis(chart.spec, PERCENT)
    return chart
