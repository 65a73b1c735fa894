"""The manifest of a round as it was published: what the rest of the site is held against."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from genreport.audit.report import Report
from genreport.places import MANIFEST, listing_href

FORMAT = "genreport-provenance/1"


@dataclass(frozen=True)
class Manifest:
    """Files, columns and figures (by id) that a round's folder publishes; entries that make no sense are left out."""

    folder: Path
    files: dict[str, dict[str, Any]]
    columns: dict[str, str]
    figures: dict[str, dict[str, Any]]

    def href(self, file: str, line: int | None) -> str:
        """Where a line of a file is listed."""
        return listing_href(file, line, self.files.get(file, {}).get("pages", (1,)))


def is_number(value: Any) -> bool:
    """Whether JSON read a number; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def read_manifest(folder: Path, report: Report) -> Manifest | None:
    """The manifest of a round's folder; `None`, and a failure, where there is nothing to read."""
    path = folder / MANIFEST
    try:
        plain = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        report.fail(path, f"unreadable: {error}")
        return None
    wrong = _wrong(plain)
    if wrong:
        report.fail(path, f"malformed: {wrong}")
        return None
    return Manifest(folder, _files(plain, path, report), plain["columns"], _figures(plain, path, report))


def _wrong(plain: Any) -> str | None:
    if not isinstance(plain, dict):
        return "no object"
    if plain.get("format") != FORMAT:
        return f"the format {plain.get('format')!r}"
    kinds = {"files": dict, "columns": dict, "figures": list}
    return next((f"{key!r} is no {k.__name__}" for key, k in kinds.items() if not isinstance(plain.get(key), k)), None)


def _files(plain: dict[str, Any], path: Path, report: Report) -> dict[str, dict[str, Any]]:
    found = {}
    for name, known in plain["files"].items():
        if not (
            isinstance(known, dict)
            and _has(known, sha256=str, bytes=int, lines=int)
            and _rises(known.get("pages", [1]))
        ):
            report.fail(path, f"malformed: the file {name!r}")
        else:
            found[name] = known
    return found


def _rises(pages: Any) -> bool:
    """Whether these can be the first lines of a listing's pages."""
    whole = isinstance(pages, list) and all(type(line) is int for line in pages)
    return whole and pages[:1] == [1] and all(a < b for a, b in pairwise(pages))


def _figures(plain: dict[str, Any], path: Path, report: Report) -> dict[str, dict[str, Any]]:
    found: dict[str, dict[str, Any]] = {}
    for place, figure in enumerate(plain["figures"]):
        if not (isinstance(figure, dict) and _is_figure(figure)):
            report.fail(path, f"malformed: figure {place} of the list")
        elif figure["id"] in found:
            report.fail(path, f"{figure['id']} stands in it twice")
        else:
            found[figure["id"]] = figure
    return found


def _is_figure(figure: dict[str, Any]) -> bool:
    value, sources = figure.get("value", False), figure.get("sources", [])
    return (
        _has(figure, id=str, unit=str, formula=str)
        and (value is None or is_number(value) or (isinstance(value, list) and all(map(is_number, value))))
        and isinstance(figure.get("inputs", {}), dict)
        and isinstance(sources, list)
        and all(isinstance(source, dict) for source in sources)
    )


def _has(plain: dict[str, Any], **kinds: type) -> bool:
    return all(isinstance(plain.get(key), kind) for key, kind in kinds.items())
