"""A ratio of two engines in its parts: what the kind of engine does to it, and what the precision."""

from __future__ import annotations

from collections.abc import Sequence

from genreport.charts.colours import INK, group_palette
from genreport.charts.load import over_load
from genreport.charts.marks import curves, reference
from genreport.charts.rows import Row, above_zero
from genreport.charts.scales import around_one
from genreport.charts.spec import Chart
from genreport.words import say

# engine, precision, together: none of them the colour of an engine
PALETTE = [*group_palette(3)[1:], INK]


def split(rows: Sequence[Row], base: str, other: str) -> Chart | None:
    """Each part of a throughput ratio and the whole (`part`) over concurrency, on a log scale around no effect."""
    drawn = above_zero(rows)
    if not drawn:
        return None
    layers = [reference(1), *curves(drawn, around_one(drawn), by="part", palette=PALETTE)]
    title = say("pair_chart.split", base=base, other=other)
    return over_load("split", title, "higher", drawn, layers, by="part")
