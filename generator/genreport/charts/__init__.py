"""Rows to Vega-Lite specifications: the only package that imports altair, and it computes no figure.

A row is a flat mapping. Every number F in it has a sibling `F_id` that names the figure it shows (`id[17]` for a point
of a curve), so that the audit can compare what is drawn with the ledger; whatever is no measurement (a colour's place,
a grid's quantile) is text. Fields all charts know: `engine`, `colour` ("1" to "8", the engine's place in the round),
`level`, `flag` (a reason, or empty), `concurrency`, `value`, `shown` (the value as pages write it) and `href`, relative
to the round's folder.

`rows` checks rows and embeds them, `colours`, `scales` and `marks` are what charts are made of, `spec` finishes them.
"""

from genreport.charts.distribution import ecdf
from genreport.charts.load import attainment, efficiency, floor, latency, ratio, throughput, usl, walls
from genreport.charts.rows import Row
from genreport.charts.spec import Chart
from genreport.charts.tensors import byte_account

__all__ = [
    "Chart",
    "Row",
    "attainment",
    "byte_account",
    "ecdf",
    "efficiency",
    "floor",
    "latency",
    "ratio",
    "throughput",
    "usl",
    "walls",
]
