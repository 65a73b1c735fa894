"""The derivations: each entry must say, word for word, what the manifest says of its figure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

from genreport.audit.case import Case
from genreport.audit.manifest import Manifest
from genreport.places import FIGURES, derivation_group, derivation_href, listing_href

FOLDED = 8  # lists longer than this say how long they are
HOME = "../"


def check_derivations(case: Case) -> None:
    """Every page of derivations and their index, and that each figure has its entry."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for id, figure in case.figures.items():
        groups.setdefault(derivation_group(id), []).append(figure)
    folder = case.folder / FIGURES
    for group, figures in groups.items():
        page = folder / f"{group}.html"
        with case.report.guard(page):
            _compare(case, page, [word for figure in figures for word in entry(figure, case.manifest)], len(figures))
        case.report.count("derivations", len(figures))
    with case.report.guard(folder / "index.html"):
        words = [w for group, found in groups.items() for w in (f"{quote(group)}.html", group, f"{len(found):,}")]
        _compare(case, folder / "index.html", words, len(case.figures))
    for page in sorted(set(folder.glob("*.html")) - {folder / f"{group}.html" for group in (*groups, "index")}):
        case.report.fail(page, "derives no figure of the manifest")


def _compare(case: Case, page: Path, expected: Sequence[str], figures: int) -> None:
    seen = read(page.read_text("utf-8"))
    wrong = difference(seen.words, expected)
    if wrong:
        case.report.fail(page, wrong)
    if seen.lead[:2] != [f"{figures:,}", "figures."]:
        case.report.fail(page, f"says {' '.join(seen.lead[:2])!r}, the manifest has {figures:,} figures of it")
    for target in dict.fromkeys(seen.links):
        case.follow(page, target)


def difference(words: Sequence[str], expected: Sequence[str]) -> str | None:
    """Where two texts first differ, with some words around it."""
    if list(words) == list(expected):
        return None
    at = next(
        (k for k, (a, b) in enumerate(zip(words, expected, strict=False)) if a != b), min(len(words), len(expected))
    )
    around = slice(max(0, at - 4), at + 3)
    return f"says {' '.join(words[around])[:200]!r}, the manifest {' '.join(expected[around])[:200]!r}"


def read(text: str) -> _Reader:
    """The words of a page of derivations."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader


class _Reader(HTMLParser):
    """Words of a page's <main> and of its lead, with ids, titles and link targets where they stand."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self.lead: list[str] = []
        self.links: list[str] = []
        self._inside: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        if tag == "main":
            self._inside = self.words
        elif tag == "p" and "lead" in given.get("class", "").split():
            self._inside = self.lead
        elif self._inside is not None:
            self.links += [given["href"]] if tag == "a" and "href" in given else []
            self._inside += [w for name in ("id", "data-id", "href", "title") for w in given.get(name, "").split()]

    def handle_endtag(self, tag: str) -> None:
        if tag == "main" or (tag == "p" and self._inside is self.lead):
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self._inside += data.split()


# ------------------------------------------------------------------------------------- what an entry must say


def entry(figure: dict[str, Any], manifest: Manifest) -> list[str]:
    """The words of a figure's entry, from the manifest's plain data alone."""
    id = figure["id"]
    cells = {
        "formula": f"{figure['formula']} {_columns(figure, manifest)}",
        "inputs": _inputs(figure, manifest),
        "read from": _listed([_source(source, manifest) for source in figure.get("sources", [])]),
        "notes": ", ".join(figure.get("notes", [])),
    }
    table = " ".join(f"{name} {cell}" for name, cell in cells.items() if cell.strip())
    return f"{id} #{id} # {id} {_value(figure)} {table}".split()


def _value(figure: dict[str, Any]) -> str:
    id, value = figure["id"], figure["value"]
    count = f"n = {figure['n']:,}" if "n" in figure else ""
    if value is None:
        return f"{id} #{id} n/a {figure.get('reason', '')}"
    if isinstance(value, list):
        points = " ".join(f"[{k}] {decimal(point)}" for k, point in enumerate(value))
        return f"{len(value)} points, {figure['unit']} {count} all points {points}"
    return f"{id} #{id} {decimal(value)} {_unit(figure)} {count}"


def decimal(value: float) -> str:
    """The shortest decimal text of a number, without an exponent, its thousands separated."""
    text = format(Decimal(repr(value)), ",f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")


def _unit(figure: dict[str, Any]) -> str:
    return "" if figure["unit"] in ("1", "count", "ratio") else figure["unit"]


def _columns(figure: dict[str, Any], manifest: Manifest) -> str:
    """The definitions of the request columns that the formula names."""
    if not any(source["type"] == "rows" for source in figure.get("sources", [])):
        return ""
    used = [name for name in manifest.columns if re.search(rf"\b{re.escape(name)}\b", figure["formula"])]
    return " ".join(f"{name} = {manifest.columns[name]}" for name in used)


def _inputs(figure: dict[str, Any], manifest: Manifest) -> str:
    found = []
    for alias, given in figure.get("inputs", {}).items():
        inputs = [_input(id, manifest) for id in ([given] if isinstance(given, str) else given)]
        found.append(f"{alias} = " + (inputs[0] if isinstance(given, str) else f"[{len(inputs)}] {_listed(inputs)}"))
    return _listed(found)


def _input(id: str, manifest: Manifest) -> str:
    figure = manifest.figures[id]
    value = figure["value"]
    text = "n/a" if value is None else f"{len(value)} points" if isinstance(value, list) else decimal(value)
    return f"{HOME}{derivation_href(id)} {id} {text} {_unit(figure)}"


def _listed(items: Iterable[str]) -> str:
    items = list(items)
    return (f"{len(items):,} entries " if len(items) > FOLDED else "") + " ".join(items)


def _source(source: dict[str, Any], manifest: Manifest) -> str:
    match source:
        case {"type": "rows", "files": files, "where": where, "count": count}:
            look = " , ".join(_pick(file, line, files) for file, line in source.get("picks", []))
            places = _listed(_place(file, None, manifest) for file in files)
            return f"{places} {count:,} rows where {where} {'look at ' + look if look else ''}"
        case {"type": "line", "file": file, "line": line, "pattern": pattern}:
            return f"{_place(file, line, manifest)} matched {pattern}"
        case {"type": "lines", "file": file, "first": first, "last": last, "pattern": pattern, "count": count}:
            return f"{_range(file, first, last, manifest)} {count:,} lines that match {pattern}"
        case {"type": "pointer", "file": file, "pointer": pointer, "line": line}:
            return f"{_place(file, line, manifest)} field {pointer}"
        case {"type": "samples", "file": file, "series": series, "lines": [first, last]}:
            return f"{_range(file, first, last, manifest)} series {series}"
        case {"type": "tally", "what": what}:
            return f"count of {what} in this manifest"
    raise ValueError(f"unknown kind of source: {source}")


def _pick(file: str, line: int, files: Sequence[str]) -> str:
    where = "" if len(files) == 1 else f"{file.split('/')[-2]} "
    return f"{HOME}{listing_href(file, line)} {where}line {line:,}"


def _place(file: str, line: int | None, manifest: Manifest) -> str:
    digest = manifest.files.get(file, {}).get("sha256", "")
    mark = f"sha256 {digest} {digest[:8]}" if digest else ""
    return f"{HOME}{listing_href(file, line)} {file}{'' if line is None else f':{line}'} {mark}"


def _range(file: str, first: int, last: int, manifest: Manifest) -> str:
    return f"{_place(file, first, manifest)} to {HOME}{listing_href(file, last)} line {last:,}"
