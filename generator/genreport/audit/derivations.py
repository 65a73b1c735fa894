"""The derivations: each entry must say, word for word, what the manifest says of its figure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote

from genreport.audit.case import Case
from genreport.audit.manifest import Manifest
from genreport.audit.numbers import named
from genreport.places import FIGURES, MANIFEST, derivation_group, derivation_href, foreign_href
from genreport.words import say

FOLDED = 8  # lists longer than this say how long they are
# so many are told whole; of more only so many
ENTRIES, POINTS = (64, 16), (256, 64)
GROUPS = 2000  # links on a page of the index
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
    _check_index(case, groups)
    pages = {folder / f"{group}.html" for group in groups} | {folder / name for name, _ in _index(groups)}
    for page in sorted(set(folder.glob("*.html")) - pages):
        case.report.fail(page, "derives no figure of the manifest")


def _check_index(case: Case, groups: dict[str, list[dict[str, Any]]]) -> None:
    for name, words in _index(groups):
        page = case.folder / FIGURES / name
        with case.report.guard(page):
            _compare(case, page, words, len(case.figures))


def _index(groups: dict[str, list[dict[str, Any]]]) -> list[tuple[str, list[str]]]:
    """Each page of the index: its name and its words."""
    names, found = list(groups), []
    firsts = range(0, max(1, len(names)), GROUPS)
    files = [f"index.{page}.html" if page > 1 else "index.html" for page in range(1, len(firsts) + 1)]
    for page, first in enumerate(firsts):
        links = [(name, len(groups[name])) for name in names[first : first + GROUPS]]
        words = [word for name, count in links for word in (f"{quote(name)}.html", name, f"{count:,}")]
        if len(files) > 1:
            words += [files[(page + 1) % len(files)], *say("derivation.onwards").split()]
        found.append((files[page], words))
    return found


def _compare(case: Case, page: Path, expected: Sequence[str], figures: int) -> None:
    seen = read(page.read_text("utf-8"))
    wrong = difference(seen.words, expected)
    if wrong:
        case.report.fail(page, wrong)
    count = f"{say('derivation.figures', count=f'{figures:,}')}.".split()
    if seen.lead[: len(count)] != count:
        said = " ".join(seen.lead[: len(count)])
        case.report.fail(page, f"says {said!r}, the manifest has {figures:,} figures of it")
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
        "derivation.formula": f"{figure['formula']} {_columns(figure, manifest)}",
        "derivation.inputs": _inputs(figure, manifest),
        "derivation.read_from": _listed([_source(source, manifest) for source in figure.get("sources", [])]),
        "derivation.notes": ", ".join(figure.get("notes", [])),
    }
    table = " ".join(f"{say(key)} {cell}" for key, cell in cells.items() if cell.strip())
    return f"{id} #{id} # {id} {_value(figure)} {table}".split()


def _value(figure: dict[str, Any]) -> str:
    id, value = figure["id"], figure["value"]
    count = say("derivation.n", n=f"{figure['n']:,}") if "n" in figure else ""
    if value is None:
        return f"{id} #{id} {say('number.na')} {figure.get('reason', '')}"
    if isinstance(value, list):
        points = " ".join(_all([f"[{k}] {decimal(point)}" for k, point in enumerate(_told(value, POINTS))], len(value)))
        curve = say("derivation.curve", count=len(value), unit=named(figure["unit"]))
        return f"{curve} {count} {say('derivation.all_points')} {points}"
    return f"{id} #{id} {decimal(value)} {_unit(figure)} {count}"


def decimal(value: float) -> str:
    """The shortest decimal text of a number, without an exponent, its thousands separated."""
    text = format(Decimal(repr(value)), ",f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")


def _unit(figure: dict[str, Any]) -> str:
    return "" if figure["unit"] in ("1", "count", "ratio") else named(figure["unit"])


def _columns(figure: dict[str, Any], manifest: Manifest) -> str:
    """The definitions of the request columns that the formula names."""
    if not any(source["type"] == "rows" for source in figure.get("sources", [])):
        return ""
    used = [name for name in manifest.columns if re.search(rf"\b{re.escape(name)}\b", figure["formula"])]
    return " ".join(f"{name} = {manifest.columns[name]}" for name in used)


def _inputs(figure: dict[str, Any], manifest: Manifest) -> str:
    found = []
    for alias, given in figure.get("inputs", {}).items():
        ids = [given] if isinstance(given, str) else given
        inputs = [_input(id, manifest) for id in _told(ids, ENTRIES)]
        found.append(f"{alias} = " + (inputs[0] if ids is not given else f"[{len(ids)}] {_listed(inputs, len(ids))}"))
    return _listed(found)


def _input(id: str, manifest: Manifest) -> str:
    figure = manifest.figures[id]
    value = figure["value"]
    if value is None:
        text = say("number.na")
    else:
        text = say("derivation.points", count=len(value)) if isinstance(value, list) else decimal(value)
    return f"{HOME}{derivation_href(id)} {id} {text} {_unit(figure)}"


def _listed(items: Sequence[str], count: int | None = None) -> str:
    count = len(items) if count is None else count
    head = say("derivation.entries", count=f"{count:,}") + " " if count > FOLDED else ""
    return head + " ".join(_all(items, count))


def _told(items: Sequence[Any], room: tuple[int, int]) -> Sequence[Any]:
    whole, first = room
    return items if len(items) <= whole else items[:first]


def _all(items: Sequence[str], count: int) -> list[str]:
    left = count - len(items)
    return [*items, f"{HOME}{MANIFEST} {say('derivation.more', count=f'{left:,}')}"] if left else [*items]


def _source(source: dict[str, Any], manifest: Manifest) -> str:
    match source:
        case {"type": "rows", "files": files, "where": where, "count": count}:
            look = " , ".join(_pick(file, line, files, manifest) for file, line in source.get("picks", []))
            places = _listed([_place(file, None, manifest) for file in _told(files, ENTRIES)], len(files))
            rows = say("derivation.rows", count=f"{count:,}")
            return f"{places} {rows} {where} {say('derivation.look_at') + ' ' + look if look else ''}"
        case {"type": "line", "file": file, "line": line, "pattern": pattern}:
            return f"{_place(file, line, manifest)} {say('derivation.matched')} {pattern}"
        case {"type": "lines", "file": file, "first": first, "last": last, "pattern": pattern, "count": count}:
            lines = say("derivation.lines", count=f"{count:,}")
            return f"{_range(file, first, last, manifest)} {lines} {pattern}"
        case {"type": "pointer", "file": file, "pointer": pointer, "line": line}:
            return f"{_place(file, line, manifest)} {say('derivation.field')} {pointer}"
        case {"type": "samples", "file": file, "series": series, "lines": [first, last]}:
            return f"{_range(file, first, last, manifest)} {say('derivation.series')} {series}"
        case {"type": "tally", "what": what}:
            return f"{say('derivation.count_of')} {what} {say('derivation.in_manifest')}"
        case {"type": "foreign", "round": other, "figure": id, "seal": seal}:
            return f"{HOME}{foreign_href(other, id)} {other}: {id} sha256 {seal} {seal[:8]}"
        case {"type": "given", "option": option, "text": text}:
            return f"{say('derivation.given')} {option} {text}"
    raise ValueError(f"unknown kind of source: {source}")


def _pick(file: str, line: int, files: Sequence[str], manifest: Manifest) -> str:
    where = "" if len(files) == 1 else f"{file.split('/')[-2]} "
    href = HOME + manifest.href(file, line)
    return f"{href} {where}{_line(line)} {href.replace('#L', '#request-L')} {say('card.timeline')}"


def _place(file: str, line: int | None, manifest: Manifest) -> str:
    digest = manifest.files.get(file, {}).get("sha256", "")
    mark = f"sha256 {digest} {digest[:8]}" if digest else ""
    return f"{HOME}{manifest.href(file, line)} {file}{'' if line is None else f':{line}'} {mark}"


def _range(file: str, first: int, last: int, manifest: Manifest) -> str:
    to = say("derivation.to")
    return f"{_place(file, first, manifest)} {to} {HOME}{manifest.href(file, last)} {_line(last)}"


def _line(line: int) -> str:
    return say("derivation.line", line=f"{line:,}")
