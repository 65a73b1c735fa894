"""What an engine's weights are made of, as stacked bars of bytes."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from genreport.charts.colours import NARROW, PAPER, colour_by, group_palette
from genreport.charts.rows import Row, chart_of, tooltips, unique, valued
from genreport.charts.spec import Chart, finish, in_words
from genreport.words import say

_BYTES = ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB"), (1, "B"))


def byte_account(rows: Sequence[Row]) -> Chart | None:
    """Each engine's weight bytes, stacked by tensor group (`group`)."""
    drawn = valued(rows)
    if not drawn:
        return None
    engines = unique(row["engine"] for row in drawn)
    title = say("chart.bytes")
    said = in_words(title, drawn, "group")
    return finish("bytes", title, None, [_bars(drawn, engines)], said, height=40 + 48 * len(engines))


def _bars(drawn: Sequence[Row], engines: list[str]) -> alt.Chart:
    groups = unique(row["group"] for row in drawn)
    bars = chart_of([row | {"place": str(groups.index(row["group"]))} for row in drawn], {"place": "number"}).encode(
        x=alt.X("value:Q", axis=bytes_axis(drawn), stack="zero"),
        y=alt.Y("engine:N", sort=engines, axis=alt.Axis(title=None, labelLimit=110, ticks=False, domain=False)),
        color=colour_by("group", groups, group_palette(len(groups)), legend=NARROW - 90),
        order="place:Q",
        href="href:N",
        tooltip=tooltips("engine", "group", "shown"),
    )
    return bars.mark_bar(stroke=PAPER, strokeWidth=1, cursor="pointer")


def bytes_axis(rows: Sequence[Row]) -> alt.Axis:
    """Round ticks in the binary unit that pages use, up to the widest engine's sum."""
    widest = max(
        sum(row["value"] for row in rows if row["engine"] == name) for name in unique(r["engine"] for r in rows)
    )
    size, unit = next(((s, u) for s, u in _BYTES if widest >= s), _BYTES[-1])
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500) if widest / size / step <= 5)
    ticks = [step * k * size for k in range(int(widest / size / step) + 1)]
    return alt.Axis(title=None, values=ticks, labelExpr=f"format(datum.value / {size}, ',~r') + ' {unit}'", grid=True)
