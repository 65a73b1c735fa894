"""Charts: what is drawn, what is written beside it and what is said of it, each against the figures it names."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from genreport.audit.case import Case
from genreport.audit.foreign import original
from genreport.audit.manifest import is_number
from genreport.audit.numbers import misread, shows
from genreport.audit.specs import read_spec

Row = dict[str, Any]
# texts that are numbers of another kind: an engine's place in the palette, a part's place in a stack
PLACES = ("colour", "place")
_POINT = re.compile(r"(.*?)(?:\[(\d{1,9})\])?", re.S)
# the formula of a distribution: a column, and the percentiles of its curve's points
_GRID = re.compile(r"percentile\(\w+, \[([\d., ]+)\]\)")


@dataclass(frozen=True)
class Drawing:
    """A chart in a page: its specification as text, and the words that stand for it."""

    spec: str
    words: str


def check_chart(case: Case, page: Path, drawing: Drawing) -> None:
    """Every number of a chart equals the figure it names, and every text of it tells only such numbers."""
    spec = read_spec(drawing.spec)
    rows = list(_rows(spec))
    problems = [problem for row in rows for problem in _row_problems(case, page, row)]
    problems += [*_tail_problems(case, spec, rows), *_said_problems(case, spec, rows, drawing.words)]
    for problem in dict.fromkeys(problems):  # layers repeat rows
        case.report.fail(page, f"a chart {problem}")


def _rows(spec: Any) -> Iterator[Row]:
    for node in _nodes(spec):
        held = [node["data"].get("values")] if isinstance(node.get("data"), dict) else []
        held += node["datasets"].values() if isinstance(node.get("datasets"), dict) else []
        yield from (row for rows in held if isinstance(rows, list) for row in rows if isinstance(row, dict))


def _nodes(spec: Any) -> Iterator[dict[str, Any]]:
    stack = [spec]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            yield node
            stack += [value for key, value in node.items() if key not in ("data", "datasets")]
        elif isinstance(node, list):
            stack += node


def _row_problems(case: Case, page: Path, row: Row) -> Iterator[str]:
    for name, value in row.items():
        if is_number(value):
            case.report.count("chart values")
            yield from _point_problems(case, row, name, value)
        elif isinstance(value, str) and not name.endswith("_id"):
            yield from _text_problems(case, page, row, name, value)


def _figure(case: Case, id: Any) -> tuple[float, str] | None:
    """Value and unit of the figure, or of the point of a curve, that an id names."""
    base, index = _POINT.fullmatch(str(id)).groups()
    figure = case.figures.get(base, {"value": None})
    value = figure["value"]
    if index is not None:
        value = value[int(index)] if isinstance(value, list) and int(index) < len(value) else None
    return (value, figure["unit"]) if is_number(value) else None


def _point_problems(case: Case, row: Row, name: str, value: float) -> Iterator[str]:
    id = row.get(f"{name}_id")
    found = _figure(case, id)
    if id is None:
        yield f"draws {name} = {value!r}, which names no figure"
    elif found is None or found[0] != value:
        yield f"draws {name} = {value!r}, figure {id} is {found[0] if found else None!r}"
    else:
        case.once("distinct figures drawn", str(id).partition("[")[0])


def _text_problems(case: Case, page: Path, row: Row, name: str, text: str) -> Iterator[str]:
    if name == "href":
        case.follow(case.folder / "index.html", text)
        return
    known = _is_true(case, row, name, text)
    if known is False:
        yield f"says {name} {text!r} of {row.get('value_id')}"
    elif known is None and name not in PLACES and re.search(r"\d", text):
        drawn = [_figure(case, id) for key, id in row.items() if key.endswith("_id")]
        yield from (f"{problem} ({name})" for problem in misread(text, list(filter(None, drawn)), case.vocabulary))


def _is_true(case: Case, row: Row, name: str, text: str) -> bool | None:
    """Whether a field that can say but one thing of its point says it; `None` for any other field."""
    share, value = _share(case, row), _figure(case, row.get("value_id"))
    if name in ("shown", "unit") and "value_id" in row:
        return value is not None and (shows(text, *value) if name == "shown" else text == value[1])
    if name in ("share", "place", "percentile") and share is not None:
        return _stands_at(name, text, share)
    if name in ("engine", "level", "percentile") and " " not in text:
        ids = " ".join(str(id) for key, id in row.items() if key.endswith("_id"))
        return re.search(rf"(?<![A-Za-z0-9]){re.escape(text)}(?![A-Za-z0-9])", ids) is not None
    return None


def _share(case: Case, row: Row) -> float | None:
    """Share of the samples below a point of a distribution, by the grid in its figure's formula."""
    base, index = _POINT.fullmatch(str(row.get("value_id"))).groups()
    grid = _GRID.fullmatch(original(case, base).get("formula", ""))
    percents = grid[1].split(",") if grid and index is not None else []
    return float(percents[int(index)]) / 100 if int(index or 0) < len(percents) else None


def _stands_at(name: str, text: str, share: float) -> bool:
    """Whether a point's share, percentile or place on the axis is that of its share; the tail's end is checked apart."""
    if name == "percentile":
        return text == ("max" if share >= 1 else f"p{share * 100:.6g}")
    if name == "share":
        return abs(float(text) - share) < 1e-9
    return share >= 1 or abs(float(text) + math.log10(1 - share)) < 6e-7


def _tail_problems(case: Case, spec: Any, rows: Sequence[Row]) -> Iterator[str]:
    """The largest value of a distribution, whose place no logarithm gives, stands at the end of the axis."""
    ends = {float(row["place"]) for row in rows if "place" in row and _share(case, row) == 1}
    axes = {node["x"]["scale"]["domain"][-1] for node in _nodes(spec) if ends and "scale" in (node.get("x") or {})}
    for end in ends:
        if not any(math.isclose(end, axis, abs_tol=6e-7) for axis in axes):
            yield f"puts the largest value at place {end}, its axis ends at {sorted(axes)}"


def _said_problems(case: Case, spec: Any, rows: Sequence[Row], words: str) -> Iterator[str]:
    """Its words tell each number as often as it is drawn; its description is the same text."""
    drawn = _drawn(case, rows)
    titles = " ".join(node["title"] for node in _nodes(spec) if isinstance(node.get("title"), str))
    yield from (f"{problem} (words)" for problem in misread(words, drawn, case.vocabulary))
    yield from (f"{problem} (title)" for problem in misread(titles, drawn, case.vocabulary))
    if spec.get("description", words).split() != words.split():
        yield "is described in other words than those that stand for it"


def _drawn(case: Case, rows: Sequence[Row]) -> list[tuple[float, str]]:
    """Value and unit of every number drawn, those of a row that several layers share once."""
    distinct = {tuple(sorted((key, str(id)) for key, id in row.items() if key.endswith("_id"))) for row in rows}
    return [found for ids in sorted(distinct) for _, id in ids if (found := _figure(case, id)) is not None]
