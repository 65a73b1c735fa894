"""Figures as CSV or JSON, one at a time, for whoever wants to go on with them."""

from __future__ import annotations

import csv
import difflib
import io
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from genreport.errors import GenreportError
from genreport.provenance import Ledger, Quantity

COLUMNS = ("id", "value", "unit", "n", "formula", "reason", "notes", "files")


def chosen(ledger: Ledger, prefixes: Sequence[str], where: str) -> list[Quantity]:
    """The figures whose id starts with one of the prefixes, all without any; one that fits none is an error."""
    for prefix in prefixes:
        if not any(q.id.startswith(prefix) for q in ledger):
            raise GenreportError(f"no figure starts with {prefix!r}", where=where, cure=_cure(ledger, prefix))
    return [q for q in ledger if not prefixes or q.id.startswith(tuple(prefixes))]


def _cure(ledger: Ledger, prefix: str) -> str:
    """The nearest beginnings of as many parts."""
    known = {".".join(q.id.split(".")[: prefix.count(".") + 1]) for q in ledger}
    close = difflib.get_close_matches(prefix.rstrip("."), sorted(known), 3, 0.4)
    return f"did you mean {', '.join(close)}?" if close else "`genreport explain ROUND` alone lists all figures"


def lines(figures: Iterable[Quantity], format: str) -> Iterator[str]:
    """The text of the export, line by line: `csv` with a row a figure or a point of a curve, or one `json` list."""
    return _csv(figures) if format == "csv" else _json(figures)


def _csv(figures: Iterable[Quantity]) -> Iterator[str]:
    yield _row(COLUMNS)
    for q in figures:
        points = enumerate(q.value) if isinstance(q.value, tuple) else [(None, q.value)]
        rest = (q.unit, q.n, q.formula, q.reason, " ".join(q.notes), " ".join(sorted(q.files())))
        for place, value in points:
            yield _row((q.id if place is None else f"{q.id}[{place}]", value, *rest))


def _row(cells: Iterable[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(cells)
    return line.getvalue()


def _json(figures: Iterable[Quantity]) -> Iterator[str]:
    before = "["
    for q in figures:
        plain = {"id": q.id, "value": q.value, "unit": q.unit, "n": q.n, "formula": q.formula, "reason": q.reason,
                 "notes": q.notes, "files": sorted(q.files())}  # fmt: skip
        yield before + json.dumps(plain, ensure_ascii=False)
        before = ","
    yield "]" if before == "," else "[]"
