"""What an engine's memory is made of: bars of what its log states, up to what was measured."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from genreport.charts.colours import GROUP_COLOURS, INK, NARROW, PAPER, colour_by
from genreport.charts.rows import Row, chart_of, tooltips, unique, valued
from genreport.charts.spec import Chart, finish, lines_in_words
from genreport.charts.tensors import bytes_axis
from genreport.words import say

# in the order of the stack; the last is what no log accounts for
PARTS = ("weights", "kv", "compute", "graphs", "other", "unexplained")
BAR, BETWEEN = 22, 48  # px: a bar, and from one to the next
_LINES = "split(datum.label, ', ')"  # an engine's name above its place


def memory(rows: Sequence[Row]) -> Chart | None:
    """A bar for each `bar` (an engine and where the memory is), stacked by `part`; a mark at the part "measured".

    A part that is `unexplained` ends where the mark stands; where the log states more than was measured, the mark stands
    inside the bar.
    """
    kept = valued(rows)
    drawn = [row | {"place": str(PARTS.index(row["part"]))} for row in kept if row["part"] in PARTS]
    marks = [row for row in kept if row["part"] == "measured"]
    if not drawn:
        return None
    bars = unique(row["bar"] for row in kept)
    title = say("memory.title")
    layers = [_stacks(drawn, marks, bars), _marks(marks, bars)]
    return finish("memory", title, None, layers, _in_words(title, kept), height=40 + BETWEEN * len(bars))


def _named(rows: Sequence[Row]) -> list[Row]:
    return [row | {"part": say(f"memory.{row['part']}")} for row in rows]


def _stacks(drawn: Sequence[Row], marks: Sequence[Row], bars: list[str]) -> alt.Chart:
    seen = [part for part in PARTS if any(row["part"] == part for row in drawn)]
    palette = [f"var(--gr-g{PARTS.index(part) + 1}, {GROUP_COLOURS[PARTS.index(part)]})" for part in seen]
    names = [say(f"memory.{part}") for part in seen]
    stacked = chart_of(_named(drawn), {"place": "number"}).encode(
        x=alt.X("value:Q", axis=bytes_axis(_ends(drawn, marks, bars)), stack="zero"),
        y=_places(bars),
        color=colour_by("part", names, palette, legend=NARROW),
        order="place:Q",
        href="href:N",
        tooltip=tooltips("engine", "part", "shown"),
    )
    return stacked.mark_bar(stroke=PAPER, strokeWidth=1, size=BAR, cursor="pointer")


def _marks(marks: Sequence[Row], bars: list[str]) -> alt.Chart | None:
    if not marks:
        return None
    mark = chart_of(_named(marks)).encode(
        x=alt.X("value:Q"), y=_places(bars), href="href:N", tooltip=tooltips("engine", "part", "shown")
    )
    return mark.mark_tick(color=INK, thickness=3, size=BAR + 12, cursor="pointer")


def _places(bars: list[str]) -> alt.Y:
    axis = alt.Axis(title=None, labelLimit=110, labelExpr=_LINES, ticks=False, domain=False)
    return alt.Y("bar:N", sort=bars, axis=axis)


def _ends(drawn: Sequence[Row], marks: Sequence[Row], bars: list[str]) -> list[Row]:
    """How far each bar reaches, its mark included."""
    ends = []
    for bar in bars:
        stacked = sum(max(0, row["value"]) for row in drawn if row["bar"] == bar)
        measured = max((row["value"] for row in marks if row["bar"] == bar), default=0)
        ends.append({"engine": bar, "value": max(stacked, measured)})
    return ends


def _in_words(title: str, rows: Sequence[Row]) -> str:
    lines: dict[str, list[str]] = {}
    for row in rows:
        point = say("memory.point", part=say(f"memory.{row['part']}"), shown=row["shown"])
        lines.setdefault(row["bar"], []).append(point)
    return f"{title}. {lines_in_words(lines)}"
