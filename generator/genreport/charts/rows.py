"""Rows of charts: their check, and how they enter a specification."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import altair as alt

from genreport.words import say

Row = dict[str, Any]


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


def above_zero(rows: Iterable[Row], *fields: str) -> list[Row]:
    """The valued rows whose fields (`value`) all have a place on a log scale: a zero has none and is left to the table."""
    return [row for row in valued(rows) if all(row[field] > 0 for field in fields or ("value",))]


def unique(names: Iterable[str]) -> list[str]:
    """The names in the order of their first appearance."""
    return list(dict.fromkeys(names))


class Held:
    """Rows on their way through altair, which hands on what it does not know: it copies and hashes all it knows."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = [dict(row) for row in rows]


def inline(rows: Sequence[Row], parse: dict[str, str] | None = None) -> dict[str, Any]:
    """The rows as data inside a specification; `parse` names the text fields that are drawn as numbers."""
    # altair leaves data alone that has a name
    return {"name": "", "values": Held(rows), **({"format": {"parse": parse, "type": "json"}} if parse else {})}


def datasets(layers: Any) -> dict[str, list[Row]]:
    """The rows that finished layers still hold, by the names that now stand in their place; equal ones once."""
    found: dict[str, list[Row]] = {}
    names: dict[str, str] = {}
    for data in _held(layers):
        rows = data.pop("values").rows
        data["name"] = names.setdefault(json.dumps(rows, sort_keys=True), f"rows{len(names) + 1}")
        found[data["name"]] = rows
    return found


def _held(node: Any) -> Iterator[dict[str, Any]]:
    """Every place in a specification that holds rows."""
    if isinstance(node, dict) and isinstance(node.get("values"), Held):
        yield node
    else:
        for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
            yield from _held(part)


class Plot(alt.Chart):
    """A chart whose encodings become channels here: altair would look for the class of each among all that it has."""

    def encode(self, **channels: Any) -> Plot:
        """The chart with these encodings; a text is a field with its type."""
        return super().encode(**{name: _channel(name, given) for name, given in channels.items()})


def _channel(name: str, given: Any) -> Any:
    """`x2` is an X2, `strokeDash` a StrokeDash; what `alt.value` made is an X2Value, and so on."""
    channel = name[0].upper() + name[1:]
    if isinstance(given, str):
        return getattr(alt, channel)(given)
    return getattr(alt, f"{channel}Value")(**given) if isinstance(given, dict) and "value" in given else given


def chart_of(rows: Sequence[Row], parse: dict[str, str] | None = None) -> Plot:
    """A chart that holds its rows and has no mark yet."""
    return Plot(inline(rows, parse))


def tooltips(*fields: str) -> list[alt.Tooltip]:
    """What a point says under the pointer, a line per field."""
    kind = {"concurrency": "Q"}
    return [alt.Tooltip(f"{f}:{kind.get(f, 'N')}", title=say(f"field.{f}")) for f in fields]
