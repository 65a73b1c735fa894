"""The comparison as data: one JSON object, or a CSV line a figure of a level; values unrounded, in base units."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from genreport.comparing import Comparison, LevelPair
from genreport.diff import summary
from genreport.reports.against import Row, case_of, ranked

FORMAT = "genreport-diff/1"
NUMBERS = ("ratio", "low", "high", "p", "q", "margin", "detectable")
COLUMNS = ("test", "engine", "level", "figure", "unit", "old", "new", *NUMBERS, "verdict")


def json_lines(c: Comparison) -> Iterator[str]:
    """One object over several lines."""
    found = {
        "format": FORMAT,
        "old": c.name,
        "new": c.new.round.name,
        "case": case_of(c),
        "summary": summary.sentence(c),
        "hypotheses": list(summary.hypotheses(c)),
        "family": {"name": c.family.name, "figures": list(c.family.figures)},
        "counts": dict(summary.counts(c)),
        "failing": [_failing(c, pair) for pair in c.failing],
        "environment": [_difference(d) for d in c.environment if not d.same],
        "engines": [{"old": pair.old, "new": pair.new, "how": pair.how} for pair in c.engines],
        "levels": [_level(pair) for pair in c.levels],
        "cautions": list(summary.cautions(c)),
        "figures": [dict(zip(COLUMNS, _row(c, row), strict=True)) for row in ranked(c)],
    }
    yield from json.dumps(found, ensure_ascii=False, indent=1).split("\n")


def _difference(d: Any) -> dict[str, Any]:
    plain = asdict(d)
    return {key: plain[key] for key in ("topic", "scope", "name", "old", "new", "blocks")}


def _level(pair: Any) -> dict[str, Any]:
    sides = {"old": pair.old, "new": pair.new}
    because = [_difference(d) for d in pair.because]
    return {side: view and view.id for side, view in sides.items()} | {"state": pair.state, "because": because}


def _failing(c: Comparison, pair: LevelPair) -> dict[str, Any]:
    """A level on which more requests fail than before."""
    old, new = (f"other.{c.slug}.{pair.old.id}.failed", f"{pair.new.id}.failed")
    sides = {"old": (old, f"{pair.id}.old_sent"), "new": (new, f"{pair.id}.sent")}
    counted = {side: dict(zip(("failed", "sent"), (summary.value(c, id) for id in ids), strict=True))
               for side, ids in sides.items()}  # fmt: skip
    return {"test": pair.new.test, "engine": pair.new.engine, "level": pair.new.name} | counted


def csv_lines(c: Comparison) -> Iterator[str]:
    """A head, then levels on which more requests fail, then a line a figure of a level, the most important first."""
    yield _joined(COLUMNS)
    for pair in c.failing:
        counts = [summary.value(c, id) for id in (f"other.{c.slug}.{pair.old.id}.failed", f"{pair.new.id}.failed")]
        empty = [None] * len(NUMBERS)
        yield _joined([pair.new.test, pair.new.engine, pair.new.name, "failed", "count", *counts, *empty, "regressed"])
    yield from (_joined(_row(c, row)) for row in ranked(c))


def _row(c: Comparison, row: Row) -> list[Any]:
    figure, ledger = row.figure, c.new.ledger
    numbers = [summary.value(c, f"{figure.scope}.{name}") for name in NUMBERS]
    sides = [summary.value(c, id) for id in (figure.then, figure.now)]
    return [row.test, row.engine, row.name, figure.figure, ledger[figure.new_id].unit, *sides, *numbers, figure.verdict]


def _joined(cells: Iterable[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()
