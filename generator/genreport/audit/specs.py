"""The specification of a chart as a page holds it, put together again."""

from __future__ import annotations

import json
from typing import Any


def read_spec(text: str) -> dict[str, Any]:
    """A specification from its text: references followed, rows put together of their columns."""
    held = json.loads(text)
    if not (isinstance(held, dict) and "tables" in held):
        return held
    tables = held["tables"]
    whole = {name: _rows(table) for name, table in tables.items() if "of" not in table}
    parts = {name: [whole[t["of"]][place] for place in t["at"]] for name, t in tables.items() if "of" in t}
    return _followed(held["spec"], held["shared"]) | {"datasets": whole | parts}


def _followed(node: Any, shared: list[Any]) -> Any:
    if isinstance(node, list):
        return [_followed(part, shared) for part in node]
    if not isinstance(node, dict):
        return node
    if set(node) == {"$"}:
        return _followed(shared[node["$"]], shared)
    return {key: _followed(part, shared) for key, part in node.items()}


def _rows(table: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [{} for _ in range(table["rows"])]
    for name, column in table["columns"].items():
        for row, value in zip(found, _values(column, len(found)), strict=True):
            if value is not None:
                row[name] = value
    return found


def _values(column: Any, rows: int) -> list[Any]:
    match column:
        case list():
            return column
        case {"is": value}:
            return [value] * rows
        case {"runs": runs}:
            return [value for times, value in _by(2, runs) for _ in range(times)]
        case {"points": points}:
            return [f"{id}[{place}]" for id, first, times in _by(3, points) for place in range(first, first + times)]
        case {"front": front}:
            texts = [""]
            for same, rest in _by(2, front):
                texts.append(texts[-1][:same] + rest)
            return texts[1:]
    raise ValueError(f"unknown kind of column: {str(column)[:80]}")


def _by(count: int, parts: list[Any]) -> list[tuple[Any, ...]]:
    return list(zip(*[iter(parts)] * count, strict=True))
