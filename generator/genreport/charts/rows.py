"""Rows of charts: their check, and how they enter a specification."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import altair as alt

Row = dict[str, Any]

_TITLES = {"concurrency": "C", "shown": "value", "flag": "flag", "wall": "ceiling"}


def valued(rows: Iterable[Row]) -> list[Row]:
    """The rows that have a value, each number checked for its figure's id.

    Raises ValueError for a number that names no figure or is not finite.
    """
    kept = [{k: v for k, v in row.items() if v is not None} for row in rows if row.get("value") is not None]
    for row in kept:
        row.setdefault("shown", f"{row['value']:.3g}")
        for name, value in row.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                if f"{name}_id" not in row:
                    raise ValueError(f"a chart row's {name} names no figure")
                if not math.isfinite(value):
                    raise ValueError(f"a chart row's {name} is {value}")
    return kept


def unique(names: Iterable[str]) -> list[str]:
    """The names in the order of their first appearance."""
    return list(dict.fromkeys(names))


def inline(rows: Sequence[Row], parse: dict[str, str] | None = None) -> alt.InlineData:
    """The rows as data inside a specification; `parse` names the text fields that are drawn as numbers."""
    extra = {"format": alt.JsonDataFormat(type="json", parse=parse)} if parse else {}
    return alt.InlineData(values=[dict(row) for row in rows], **extra)


def chart_of(rows: Sequence[Row], parse: dict[str, str] | None = None) -> alt.Chart:
    """A chart that holds its rows and has no mark yet."""
    return alt.Chart(inline(rows, parse))


def tooltips(*fields: str) -> list[alt.Tooltip]:
    """What a point says under the pointer, a line per field."""
    kind = {"concurrency": "Q"}
    return [alt.Tooltip(f"{f}:{kind.get(f, 'N')}", title=_TITLES.get(f, f)) for f in fields]
