"""The wait for the first token: its parts stacked per level, and what the engine's steps hold meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from genreport.charts.colours import NARROW, PAPER, colour_by, group_palette
from genreport.charts.load import over_load
from genreport.charts.marks import curves, reference
from genreport.charts.rows import Row, chart_of, tooltips, valued
from genreport.charts.scales import linear
from genreport.charts.spec import WORDS as SHARED
from genreport.charts.spec import Chart, finish, say

# everything a reader of these charts reads that does not come from a row; the parts in the order of the wait
WORDS = {
    "anatomy": "Where the mean wait on {engine} goes",
    "mixed_share": "Mixed share: iterations that hold prompt and output tokens",
    "tokens_per_iteration": "Tokens per iteration",
}
PARTS = {
    "client_queue": "client queue",
    "queue": "engine queue",
    "prefill": "prefill",
    "front_end": "front end",
    "undivided": "TTFT, not divided",
}
_SECONDS = (
    "datum.value == 0 ? '0' : abs(datum.value) >= 1 ? format(datum.value, '~g') + ' s' : abs(datum.value) >= 0.001 ? "
    "format(datum.value * 1000, '.4~g') + ' ms' : format(datum.value * 1000000, '.4~g') + ' µs'"
)


def anatomy(rows: Sequence[Row], *, alt: str | None = None) -> Chart | None:
    """One engine's mean wait per level, stacked by its parts (`part`, a key of PARTS); a negative one hangs below 0."""
    drawn = [row | {"part": PARTS[row["part"]], "place": str([*PARTS].index(row["part"]))} for row in valued(rows)]
    if not drawn:
        return None
    title = WORDS["anatomy"].format(engine=drawn[0]["engine"])
    said = alt or say(title, sorted(drawn, key=lambda row: row["place"]), "part")
    below = any(row["value"] < 0 for row in drawn)
    return finish("anatomy", title, "lower", [_bars(drawn), reference(0) if below else None], said)


def _bars(drawn: Sequence[Row]) -> alt.Chart:
    names = [name for name in PARTS.values() if any(row["part"] == name for row in drawn)]
    palette = dict(zip(PARTS.values(), group_palette(len(PARTS)), strict=True))
    levels = sorted({row["concurrency"] for row in drawn})
    bars = chart_of(drawn, {"place": "number"}).encode(
        x=alt.X("concurrency:O", sort=levels, axis=alt.Axis(title=SHARED["concurrency"], labelAngle=0, ticks=False)),
        y=alt.Y("value:Q", stack="zero", axis=alt.Axis(title=None, tickCount=6, labelExpr=_SECONDS)),
        color=colour_by("part", names, [palette[name] for name in names], legend=NARROW),
        order="place:Q",
        href="href:N",
        tooltip=tooltips("engine", "concurrency", "part", "shown"),
    )
    return bars.mark_bar(stroke=PAPER, strokeWidth=1, cursor="pointer")


def mixed_share(rows: Sequence[Row], *, alt: str | None = None) -> Chart | None:
    """Share of the iterations in which prefill and decode share a step, over concurrency."""
    return _curves("mixed_share", rows, alt, percent=True)


def tokens_per_iteration(rows: Sequence[Row], *, alt: str | None = None) -> Chart | None:
    """Mean tokens that one step of the engine computes, over concurrency."""
    return _curves("tokens_per_iteration", rows, alt)


def _curves(name: str, rows: Sequence[Row], alt: str | None, *, percent: bool = False) -> Chart | None:
    drawn = valued(rows)
    if not drawn:
        return None
    chart = over_load(name, WORDS[name], None, drawn, curves(drawn, linear(drawn, "value")), alt)
    for axis in (layer["encoding"].get("y", {}).get("axis") for layer in chart.spec["layer"] if percent):
        if axis:
            axis["format"] = ".2~%"  # a share may be far below one percent
    return chart
