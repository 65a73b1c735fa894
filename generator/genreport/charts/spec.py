"""The whole specification around a chart's layers: its size, style and words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt

from genreport.charts.colours import GRID, INK, MUTED
from genreport.charts.rows import Row

HEIGHT = 280
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"

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


@dataclass(frozen=True)
class Chart:
    """A drawable specification with the sentence that stands for it where it cannot be seen."""

    spec: dict[str, Any]
    alt: str
    name: str


def finish(
    name: str, title: str, better: str | None, layers: Sequence[Any], said: str, *, height: int = HEIGHT
) -> Chart:
    """Layers as one specification, without a name or number that depends on what was drawn before.

    `better` is "higher", "lower" or None; `said` is the chart in words; a layer that is None is left out.
    """
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
    spec = chart.to_dict(validate=False)  # the tests hold each chart against the schema; here it is half the time
    spec["config"] = CONFIG
    return Chart(spec, said, name)


def percent_axis(spec: dict[str, Any]) -> None:
    """Turns the labels of a finished chart's y axis into percent."""
    for layer in spec["layer"]:
        axis = layer["encoding"].get("y", {}).get("axis")
        if axis:
            axis["format"] = ".0%"


def say(title: str, rows: Sequence[Row], by: str | None) -> str:
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
