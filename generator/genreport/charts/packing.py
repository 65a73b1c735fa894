"""A specification as a page holds it: its rows by columns, each part that repeats once.

`docs/assets/genreport.js` opens it again, and so does the audit, with code of its own. Nothing is rounded or left out but the
description, which stands in the page as the drawing's label.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

from genreport.charts.rows import Row

# parts of a specification shorter than this cost less than a reference to them
SHORTEST = 40
REFERENCE = "$"
# a browser counts characters from here on as two
BEYOND = "\U00010000"
POINT = re.compile(r"(.*)\[(0|[1-9]\d{0,8})\]")


def packed(spec: dict[str, Any]) -> dict[str, Any]:
    """`spec` with references `{"$": k}` into `shared`, and its datasets as `tables`."""
    bare = {key: part for key, part in spec.items() if key not in ("description", "datasets")}
    seen: Counter[str] = Counter()
    _count(bare, seen)
    shared: dict[str, int] = {}
    whole = _referring(bare, {text for text, times in seen.items() if times > 1}, shared)
    return {"spec": whole, "shared": [json.loads(text) for text in shared], "tables": tables(spec["datasets"])}


def tables(datasets: dict[str, list[Row]]) -> dict[str, dict[str, Any]]:
    """Each dataset by its columns, or, where all its rows stand in a larger one, as their places (`at`) in it (`of`)."""
    found: dict[str, dict[str, Any]] = {}
    places: dict[str, dict[str, int]] = {}
    for name, rows in sorted(datasets.items(), key=lambda item: -len(item[1])):
        texts = [json.dumps(row, sort_keys=True) for row in rows]
        larger = next((of for of, known in places.items() if all(text in known for text in texts)), None)
        if larger:
            found[name] = {"of": larger, "at": [places[larger][text] for text in texts]}
        else:
            found[name] = columns(rows)
            places[name] = {text: place for place, text in enumerate(texts)}
    return found


def columns(rows: Sequence[Row]) -> dict[str, Any]:
    """Rows by columns: how many there are, and each field in the shortest of the forms below.

    `[…]`: value by value, `null` for a row without the field. `{"is": value}`: one for all. `{"runs": [n, value, …]}`: n times
    each. `{"front": [k, text, …]}`: each the first k characters of the one before and then the text.
    `{"points": [id, first, n, …]}`: `id[first]` and the n − 1 points of a curve that follow.
    """
    names = dict.fromkeys(name for row in rows for name in row)
    return {"rows": len(rows), "columns": {name: _column([row.get(name) for row in rows]) for name in names}}


def _column(values: list[Any]) -> Any:
    if len({(type(value), value) for value in values}) == 1:
        return {"is": values[0]}
    forms: list[Any] = [values, {"runs": [part for run in _runs(values) for part in run]}]
    if all(isinstance(value, str) and max(value, default="") < BEYOND for value in values):
        forms.append({"front": [part for pair in zip(["", *values], values, strict=False) for part in _rest(*pair)]})
    if points := _points(values):
        forms.append({"points": points})
    return min(forms, key=lambda form: len(dumped(form)))


def _runs(values: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    for _, equal in groupby(values, key=lambda value: (type(value), value)):
        run = list(equal)
        yield len(run), run[0]


def _rest(before: str, text: str) -> tuple[int, str]:
    same = next((k for k, (a, b) in enumerate(zip(before, text, strict=False)) if a != b), min(len(before), len(text)))
    return same, text[same:]


def _points(values: Sequence[Any]) -> list[Any] | None:
    """Points of curves as stretches of them; `None` where a value is none."""
    found: list[list[Any]] = []
    for value in values:
        point = POINT.fullmatch(value) if isinstance(value, str) else None
        if not point:
            return None
        id, place = point[1], int(point[2])
        if found and found[-1][0] == id and found[-1][1] + found[-1][2] == place:
            found[-1][2] += 1
        else:
            found.append([id, place, 1])
    return [part for stretch in found for part in stretch]


def _count(node: Any, seen: Counter[str]) -> None:
    """Counts the parts of a specification by their text; what stands inside a part that was seen is not counted again."""
    if isinstance(node, dict) and _is_long(text := dumped(node)):
        seen[text] += 1
        if seen[text] > 1:
            return
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        _count(part, seen)


def _referring(node: Any, repeated: set[str], shared: dict[str, int]) -> Any:
    if isinstance(node, list):
        return [_referring(part, repeated, shared) for part in node]
    if not isinstance(node, dict):
        return node
    if (text := dumped(node)) in repeated:
        return {REFERENCE: shared.setdefault(text, len(shared))}
    return {key: _referring(part, repeated, shared) for key, part in node.items()}


def _is_long(text: str) -> bool:
    return len(text) >= SHORTEST


def dumped(node: Any) -> str:
    """JSON without spaces."""
    return json.dumps(node, ensure_ascii=False, separators=(",", ":"))
