"""Colours and dashes: CSS variables of docs/assets/colours.css, so that one specification serves both themes and print.

Each variable carries the light theme's colour as its fallback, for a specification shown without the site's style.
"""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from genreport.charts.rows import Row, unique

NARROW = 330  # px of drawing on a phone
INK, MUTED, GRID, PAPER = (
    "var(--gr-ink, #23262b)", "var(--gr-muted, #5b626b)", "var(--gr-grid, #e3e6ea)", "var(--gr-paper, #fff)",
)  # fmt: skip
# fallbacks of --gr-e1 … --gr-e8 (engines), --gr-g1 … (parts of a whole) and --gr-s1 … (steps of a ramp)
ENGINE_COLOURS = ("#0b66b0", "#b34700", "#00795a", "#730079", "#50481a", "#132bad", "#06819a", "#713d62")
# no engine's colour; neighbours differ in hue and in lightness
GROUP_COLOURS = ("#2f3640", "#946e3a", "#56708c", "#6b4f2a", "#6f7b8c", "#7d6d5b")
RAMP_COLOURS = ("#137c76", "#1c7aad", "#2f5fb8", "#5646ab", "#7a2a92", "#8a1256")
DASHES = ([1, 0], [6, 3], [2, 3])


def colour_by(field: str, names: list[str], palette: list[str], *, legend: int = 0) -> alt.Color:
    """A fixed colour a name; with `legend` px of room, a key above the drawing in as many rows as a phone needs."""
    key = None
    if legend and len(names) > 1:
        widths = [26 + 6.4 * len(name) for name in names]
        columns = len(names) if sum(widths) <= legend else max(1, int(legend // max(widths)))
        key = alt.Legend(title=None, orient="top", direction="horizontal", columns=columns, labelLimit=160)
    return alt.Color(f"{field}:N", scale=alt.Scale(domain=names, range=palette), legend=key)


def colour_by_engine(rows: Sequence[Row], *, legend: int = 0) -> alt.Color:
    """Each engine in the colour it has everywhere in the round."""
    names = unique(row["engine"] for row in rows)
    first = {name: next(row for row in rows if row["engine"] == name) for name in names}
    return colour_by("engine", names, [engine_colour(colour_of(first[n], rows)) for n in names], legend=legend)


def dash_by(field: str, names: list[str]) -> alt.StrokeDash:
    """A fixed dash a name, the first one solid; names beyond the third share the last dash."""
    dashes = [DASHES[min(k, 2)] for k in range(len(names))]
    return alt.StrokeDash(f"{field}:N", scale=alt.Scale(domain=names, range=dashes), legend=None)


def colour_of(row: Row, rows: Sequence[Row]) -> str:
    """The engine's place in the round where the row says it, else its order of appearance."""
    return str(row.get("colour") or unique(r["engine"] for r in rows).index(row["engine"]) + 1)


def engine_colour(place: str) -> str:
    """The colour of the engine at that place ("1" is the first); after the eighth they repeat."""
    index = (int(place) - 1) % len(ENGINE_COLOURS)
    return f"var(--gr-e{index + 1}, {ENGINE_COLOURS[index]})"


def group_palette(count: int) -> list[str]:
    """Colours of that many stacked groups, repeated when they run out."""
    palette = [f"var(--gr-g{place}, {colour})" for place, colour in enumerate(GROUP_COLOURS, 1)]
    return [palette[place % len(palette)] for place in range(count)]


def ramp(levels: list[str]) -> list[str]:
    """Pale to deep in the order of the levels."""
    last = len(RAMP_COLOURS) - 1
    picks = [round(place * last / max(1, len(levels) - 1)) for place in range(len(levels))]
    return [f"var(--gr-s{pick + 1}, {RAMP_COLOURS[pick]})" for pick in picks]
