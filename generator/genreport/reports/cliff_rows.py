"""Figures of a cliff as rows of its charts: each number beside the id of the figure it shows."""

from __future__ import annotations

from genreport.charts import Row
from genreport.display import shown
from genreport.figures import Figures
from genreport.places import derivation_href
from genreport.provenance import Quantity
from genreport.words import say

# curves over time, and ratios in reading order; what each is called is in the catalogue
SERIES = ("running", "waiting", "preemptions", "kv_use")
RATIOS = ("oversubscription", "running", "output_throughput", "ttft_p50", "itl_p50", "e2el_p50")


def over_time(figures: Figures, level: str) -> list[Row]:
    """Every sampled series of one repeat of a level, point by point."""
    return [row | {"series": say(f"series.{name}")} for name in SERIES for row in _series(figures, level, name)]


def _series(figures: Figures, level: str, name: str) -> list[Row]:
    t, y = (figures.ledger.get(f"{level}.over_time.{name}.{of}") for of in ("t", "value"))
    if t is None or y is None or t.missing or y.missing:
        return []
    points = enumerate(zip(t.value, y.value, strict=True))
    return [_point(t, y, k, seconds, value) for k, (seconds, value) in points]


def _point(t: Quantity, y: Quantity, k: int, seconds: float, value: float) -> Row:
    return {
        "t": seconds, "t_id": f"{t.id}[{k}]", "value": value, "value_id": f"{y.id}[{k}]", "unit": y.unit,
        "shown": shown(value, y.unit), "after": shown(seconds, "s"), "href": derivation_href(y.id),
    }  # fmt: skip


def ratios(figures: Figures, engine: str, over: str) -> list[Row]:
    """Each ratio of a longer shape to the normal one that has a value."""
    place = figures.colours.get(engine, "1")
    found = []
    for name in RATIOS:
        q = figures.ledger.get(f"{over}.{name}")
        if q is not None and not q.missing:
            found.append({
                "engine": engine, "colour": place, "metric": say(f"cliff_chart.ratio_{name}"),
                "value": q.value, "value_id": q.id,
                "shown": shown(q.value, q.unit), "href": derivation_href(q.id),
            })  # fmt: skip
    return found
