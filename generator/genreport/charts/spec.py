"""The whole specification around a chart's layers: its size, style and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
from altair.utils.schemapi import disable_debug_mode

from genreport.charts.colours import GRID, INK, MUTED
from genreport.charts.rows import Row, datasets
from genreport.display import digits
from genreport.words import say

# altair checks each object it makes against the schema, which takes most of its time; the tests do so with whole charts
disable_debug_mode()

HEIGHT = 280
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif"

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
        "symbolOpacity": 1,  # a range behind the lines is pale, its key is not
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
    # each layer by itself: a layered chart of altair's would copy them all several times over
    drawn = [layer.to_dict(validate=False, context={"top_level": False}) for layer in layers if layer is not None]
    spec = {
        "$schema": alt.SCHEMA_URL,
        "name": f"gr_{name}",
        "description": said,
        "width": "container",
        "height": height,
        "padding": {"left": 2, "top": 4, "right": 8, "bottom": 4},
        "autosize": {"type": "fit-x", "contains": "padding"},
        # read by genreport.js: text around the drawing wraps on a phone, text inside does not
        "usermeta": {"title": title, "better": say(f"chart.{better}") if better else ""},
        "datasets": datasets(drawn),
        "layer": drawn,
    }
    spec["config"] = CONFIG
    return Chart(spec, said, name)


def percent_axis(spec: dict[str, Any], format: str = ".0%") -> None:
    """Turns the labels of a finished chart's y axis into percent."""
    for layer in spec["layer"]:
        axis = layer["encoding"].get("y", {}).get("axis")
        if axis:
            axis["format"] = format


def in_words(title: str, rows: Sequence[Row], by: str | None) -> str:
    """The chart in words: each line's values in order, as pages write them."""
    lines: dict[str, list[str]] = {}
    for row in rows:
        curve = "share" in row
        parts = (row.get("engine"), row.get("level") if curve else row.get(by or ""))
        load = say("chart.load", load=digits(row["concurrency"])) if "concurrency" in row else ""
        point = point_in_words(row["shown"], row["percentile"] if curve else load, row.get("flag"))
        lines.setdefault(" ".join(filter(None, parts)), []).append(point)
    return f"{title}. {lines_in_words(lines)}"


def point_in_words(shown: str, at: str, flag: str | None = None) -> str:
    """One point: its value, where it stands if anywhere, and whether it is flagged."""
    point = say("chart.point_at", shown=shown, at=at) if at else shown
    return say("chart.flagged", point=point) if flag else point


def lines_in_words(lines: Mapping[str, Sequence[str]]) -> str:
    """Each line of a drawing by its name, with its points."""
    return " ".join(say("chart.line", name=name, points=", ".join(points)) for name, points in lines.items())
