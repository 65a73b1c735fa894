"""Checks a built site against the evidence it carries, by reading what was published, not what was meant.

For every round of the site: the raw files have the manifest's hashes and the listings show their text; every figure of the
manifest is recomputed by `evaluate`; every number in a page's text stands inside a link whose figure has that value at the
precision shown; every chart point has the value of the figure it names; every link and anchor resolves. Zero checked is a
failure.
"""

from __future__ import annotations

import gzip
import hashlib
import html
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import numpy as np

from genreport.errors import AuditError
from genreport.evaluate import Evidence, recompute
from genreport.places import MANIFEST, PAGE_LINES, RAW, listing_file, raw_file

# names of the field that hold digits but are no measurement; everything else marked literal must stand in the round's own
# descriptions (plan, head, launches, machine)
TERMS = {"p50", "p90", "p95", "p99", "p99.9", "01", "02", "03", "04", "05", "06", "95 %", "R²"}
_SCALES = {
    "": 1, "s": 1, "ms": 1e-3, "µs": 1e-6, "%": 1e-2, "×": 1, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
    "TiB": 2**40, "B/s": 1, "MB/s": 1e6, "GB/s": 1e9, "TB/s": 1e12, "FLOP/s": 1, "MFLOP/s": 1e6, "GFLOP/s": 1e9,
    "TFLOP/s": 1e12, "PFLOP/s": 1e15, "FLOP": 1, "MFLOP": 1e6, "GFLOP": 1e9, "TFLOP": 1e12, "PFLOP": 1e15,
}  # fmt: skip


@dataclass
class Report:
    """What an audit counted, and every failure as one line."""

    counts: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def fail(self, where: object, what: str) -> None:
        self.failures.append(f"{where}: {what}")

    @property
    def ok(self) -> bool:
        return not self.failures


# what must have been found at least once for an audit to mean anything
NEEDED = ("rounds", "files", "figures recomputed", "numbers in pages", "chart values", "links")


def audit(site: str | Path) -> Report:
    """Audits every round of a built site."""
    site, report = Path(site), Report(dict.fromkeys(NEEDED, 0))
    if not site.is_dir():
        raise AuditError("no such folder", where=str(site), cure="run `genreport build` first")
    for manifest in sorted(site.glob(f"rounds/*/{MANIFEST}")):
        _audit_round(site, manifest.parent, report)
        report.count("rounds")
    for what in NEEDED:
        if report.counts[what] == 0:
            report.fail(site, f"nothing to check: 0 {what}")
    return report


def _audit_round(site: Path, folder: Path, report: Report) -> None:
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        figures = {figure["id"]: figure for figure in manifest["figures"]}
    except (ValueError, KeyError) as error:
        return report.fail(folder / MANIFEST, f"unreadable: {error}")
    _check_files(folder, manifest["files"], report)
    _recompute(folder, manifest, figures, report)
    links = Links(site)
    vocabulary = _vocabulary(folder / RAW)
    for page in sorted(folder.rglob("*.html")):
        if page.relative_to(folder).parts[0] not in ("sources", RAW):
            _check_page(page, figures, vocabulary, links, report)
    _check_listings(folder, manifest["files"], report)
    return None


def _check_files(folder: Path, files: dict[str, dict[str, Any]], report: Report) -> None:
    for name, known in files.items():
        path = folder / raw_file(name)
        if not path.is_file():
            report.fail(path, "missing")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != known["sha256"]:
            report.fail(path, "is not the file whose hash the manifest holds")
        report.count("files")


# ------------------------------------------------------------------------------------- figures


def check_figures(known: dict[str, dict], figures: dict[str, dict], evidence: Evidence, report: Report) -> None:
    """Recomputes each of the figures from its formula text, its sources and the values of its inputs in `known`."""
    for figure in figures.values():
        if figure["value"] is None:
            report.count("figures n/a")
            if not figure.get("reason"):
                report.fail(figure["id"], "n/a without a reason")
            continue
        try:
            again = recompute(figure, evidence, known)
            if not _close(again, figure["value"], _tolerance(figure["formula"])):
                report.fail(figure["id"], f"{figure['value']!r} in the manifest, {again!r} by `{figure['formula']}`")
        except (AuditError, OSError, KeyError, ValueError, IndexError, TypeError) as error:
            report.fail(figure["id"], f"cannot be recomputed: {error}")
        _check_counts(figure, evidence, report)
        report.count("figures recomputed")


def _close(again: Any, value: Any, tolerance: float) -> bool:
    a, b = np.atleast_1d(np.asarray(again, float)), np.atleast_1d(np.asarray(value, float))
    return a.shape == b.shape and bool(np.all(np.isclose(a, b, rtol=tolerance, atol=1e-12)))


def _tolerance(formula: str) -> float:
    """Two optimisers of one fit agree to a thousandth; everything else is the same arithmetic."""
    return 2e-3 if "usl(" in formula else 1e-9


def _recompute(folder: Path, manifest: dict[str, Any], figures: dict[str, dict[str, Any]], report: Report) -> None:
    """All figures; last those that count the others, held against what was counted here."""
    evidence = Evidence(lambda file: (folder / raw_file(file)).read_bytes(), manifest["columns"])
    own = Report()
    check_figures(figures, {id: f for id, f in figures.items() if not _is_tally(f)}, evidence, own)
    rows = [name for name in manifest["files"] if name.endswith("/requests.jsonl")]
    evidence.tallies = {
        "figures": own.counts.get("figures recomputed", 0) + own.counts.get("figures n/a", 0),
        "recomputed": own.counts.get("figures recomputed", 0),
        "missing": own.counts.get("figures n/a", 0),
        "failures": len(own.failures),
        "files": len(manifest["files"]),
        "requests": sum(len(evidence.rows(name)) for name in rows if (folder / raw_file(name)).is_file()),
        "levels": sum(name.endswith("/facts.json") for name in manifest["files"]),
    }
    check_figures(figures, {id: f for id, f in figures.items() if _is_tally(f)}, evidence, own)
    report.failures += own.failures
    for what, number in own.counts.items():
        report.count(what, number)


def _is_tally(figure: dict[str, Any]) -> bool:
    return any(source["type"] == "tally" for source in figure.get("sources", []))


def _check_counts(figure: dict[str, Any], evidence: Evidence, report: Report) -> None:
    for source in figure.get("sources", []):
        if source["type"] == "rows":
            found = len(evidence.selected(tuple(source["files"]), source["where"]))
            if found != source["count"]:
                report.fail(figure["id"], f"selects {found} rows, the manifest says {source['count']}")


# ------------------------------------------------------------------------------------- pages


def _check_page(page: Path, figures: dict, vocabulary: str, links: Links, report: Report) -> None:
    seen = read_page(page)
    for number in seen.numbers:
        _check_number(page, number, figures, report)
    for text in seen.loose:
        report.fail(page, f"a number without provenance: {' '.join(text.split())[:80]!r}")
    for text in seen.literals:
        if not _known_literal(text, vocabulary):
            report.fail(page, f"marked as a name, but the round knows no {text!r}")
    for spec in seen.specs:
        _check_chart(page, spec, figures, report)
    for target in seen.links:
        problem = links.problem(page, target)
        if problem:
            report.fail(page, problem)
        report.count("links")


@dataclass(frozen=True)
class Shown:
    """A number as a page shows it."""

    id: str
    text: str


def _check_number(page: Path, number: Shown, figures: dict[str, Any], report: Report) -> None:
    report.count("numbers in pages")
    figure = figures.get(number.id)
    if figure is None:
        report.fail(page, f"{number.text!r} names the unknown figure {number.id!r}")
    elif figure["value"] is None or number.text == "n/a":
        if not (figure["value"] is None and number.text == "n/a"):
            report.fail(page, f"{number.id} is shown as {number.text!r}, its value is {figure['value']!r}")
    elif not _shows(number.text, figure["value"]):
        report.fail(page, f"{number.id} is shown as {number.text!r}, its value is {figure['value']!r}")


def _shows(text: str, value: float) -> bool:
    """Whether a displayed text is the value rounded to the digits shown."""
    found = re.fullmatch(r"([−-]?)([\d,]+)(?:\.(\d+))?\s*(\D*)", text.replace("\u202f", " ").strip())
    if found is None or isinstance(value, list):
        return False
    sign, whole, decimals, unit = found.groups()
    scale = _SCALES.get(unit.strip(), 1)
    shown = float(whole.replace(",", "") + "." + (decimals or "0")) * (-1 if sign else 1)
    half = 0.5 * 10 ** -len(decimals or "")
    return abs(value / scale - shown) <= half * (1 + 1e-9)


def _check_chart(page: Path, text: str, figures: dict[str, Any], report: Report) -> None:
    try:
        spec = json.loads(text)
    except ValueError as error:
        return report.fail(page, f"a chart's specification is no JSON: {error}")
    for row in _data_rows(spec):
        for name, value in row.items():
            if isinstance(value, (int, float)) and not isinstance(value, bool):
                _check_point(page, row, name, value, figures, report)
    return None


def _data_rows(spec: Any) -> Iterator[dict[str, Any]]:
    for rows in (spec.get("datasets") or {}).values():
        yield from (row for row in rows if isinstance(row, dict))
    stack = [spec]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            if isinstance(node.get("data"), dict) and isinstance(node["data"].get("values"), list):
                yield from (row for row in node["data"]["values"] if isinstance(row, dict))
            stack += [value for key, value in node.items() if key != "datasets"]
        elif isinstance(node, list):
            stack += node


def _check_point(page: Path, row: dict, name: str, value: float, figures: dict[str, Any], report: Report) -> None:
    report.count("chart values")
    id = row.get(f"{name}_id")
    if id is None:
        return report.fail(page, f"a chart's {name} = {value!r} names no figure")
    base, _, index = str(id).partition("[")
    truth = figures.get(base, {}).get("value")
    if index and isinstance(truth, list):
        truth = truth[int(index.rstrip("]"))]
    if not isinstance(truth, (int, float)) or abs(truth - value) > 1e-9 * max(abs(truth), abs(value), 1e-12):
        report.fail(page, f"a chart draws {name} = {value!r}, figure {id} is {truth!r}")
    return None


def _known_literal(text: str, vocabulary: str) -> bool:
    if text in TERMS:
        return True
    words = [w for w in re.split(r"\s+", text.strip()) if re.search(r"\d", w) and w not in TERMS]
    return all(_stands_in(word.strip("()[]{}<>,;:.\"'"), vocabulary) for word in words)


def _stands_in(word: str, vocabulary: str) -> bool:
    """Whether a word stands in the text by itself: the 4 of 64 is not the name `4`."""
    return re.search(rf"(?<![\w.]){re.escape(word)}(?![\w])", vocabulary) is not None


def _vocabulary(raw: Path) -> str:
    """Everything a round says about itself in words: names, versions, commands, dates."""
    heads = [
        "round.json",
        "plan.yaml",
        "machine.json",
        *(p.relative_to(raw) for p in raw.glob("launches/*/*/launch.json")),
    ]
    texts = [(raw / head).read_text("utf-8", "replace") for head in heads if (raw / head).is_file()]
    names = [str(p.relative_to(raw)) for p in raw.rglob("*") if p.is_file()]
    models = [p.read_text("utf-8") for p in raw.glob("models/*.json")]
    started = json.loads((raw / "round.json").read_text("utf-8"))["started_unix_us"]
    dates = [datetime.fromtimestamp(started / 1e6, UTC).strftime("%Y-%m-%d %H:%M UTC")]
    text = "\n".join([*texts, *names, *models, *dates])
    return text + "\n" + json.dumps(text)  # as escaped in JSON too


_NUMBER = re.compile(r"(?<![A-Za-z\d])\d")  # the 2 of E2EL and the 50 of p50 are parts of names
VOID = {"br", "hr", "img", "input", "meta", "link", "wbr", "source", "col"}


class _Reader(HTMLParser):
    """Collects what a page's article shows: numbers in links, loose digits, literals, chart specs, link targets."""

    def __init__(self, content: str) -> None:
        super().__init__(convert_charrefs=True)
        self.content = content  # the element that holds what the page says
        self.stack: list[tuple[str, str]] = []  # tag, role
        self.inside = False
        self.numbers: list[Shown] = []
        self.loose: list[str] = []
        self.literals: list[str] = []
        self.specs: list[str] = []
        self.links: list[str] = []
        self._text = ""
        self._id = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        if tag in VOID:
            return
        if self.inside and tag == "a" and "href" in given:
            self.links.append(given["href"])
        if self.inside and "data-gr-spec" in given:
            self.specs.append(given["data-gr-spec"])
        role = self._role(tag, given)
        if role in ("number", "literal"):
            self._text, self._id = "", given.get("data-id", "")
        self.stack.append((tag, role))

    def _role(self, tag: str, given: dict[str, str]) -> str:
        classes = given.get("class", "").split()
        if tag == self.content:
            self.inside = True
            return "content"
        if "gr-num" in classes:
            return "number"
        if "gr-lit" in classes:
            return "literal"
        # gr-def repeats the manifest in a derivation, gr-example is what a reader may type
        skipped = tag in ("script", "style", "template") or {"gr-def", "gr-example"} & set(classes)
        return "skip" if skipped else ""

    def handle_endtag(self, tag: str) -> None:
        while self.stack:
            opened, role = self.stack.pop()
            self._close(role)
            if opened == tag:
                break

    def _close(self, role: str) -> None:
        if not self.inside:
            return
        if role == "number":
            self.numbers.append(Shown(self._id, self._text.strip()))
        elif role == "literal":
            self.literals.append(self._text)
        elif role == "content":
            self.inside = False

    def handle_data(self, data: str) -> None:
        if not self.inside:
            return
        roles = {role for _, role in self.stack}
        if roles & {"number", "literal"}:
            self._text += data
        elif "skip" not in roles and _NUMBER.search(data):
            self.loose.append(data)


def read_page(page: Path) -> _Reader:
    """What a built page shows; a page outside Material's chrome is read as a whole."""
    text = page.read_text("utf-8", "replace")
    reader = _Reader("article" if "<article" in text else "main")
    reader.feed(text)
    reader.close()
    return reader


class Links:
    """Resolves links of a built site to files and anchors, each file read once."""

    def __init__(self, site: Path) -> None:
        self.site = site.resolve()
        self.anchors = cache(self._anchors)

    def problem(self, page: Path, target: str) -> str | None:
        """What is wrong with a link, or `None`."""
        parts = urlsplit(html.unescape(target))
        if parts.scheme in ("http", "https", "mailto"):
            return None
        if parts.scheme:
            return f"a link with the scheme {parts.scheme!r}"
        path = (page.parent / unquote(parts.path)).resolve() if parts.path else page.resolve()
        path = path / "index.html" if path.is_dir() else path
        if not path.is_relative_to(self.site) or not path.is_file():
            return f"a link to nothing: {target}"
        if parts.fragment and unquote(parts.fragment) not in self.anchors(path):
            return f"a link to no anchor: {target}"
        return None

    @staticmethod
    def _anchors(path: Path) -> frozenset[str]:
        text = path.read_text("utf-8", "replace")
        return frozenset(html.unescape(found) for found in re.findall(r'\bid="?([^"\s>]+)', text))


# ------------------------------------------------------------------------------------- listings

_LISTED = re.compile(r'<span id="L(\d+)"><a [^>]*></a>(.*?)</span>(?=\n)', re.S)


def _check_listings(folder: Path, files: dict[str, dict[str, Any]], report: Report) -> None:
    for name, known in files.items():
        wrong = _listing_problem(folder, name, known["lines"])
        if wrong:
            report.fail(folder / listing_file(name), wrong)
        report.count("listings compared")


def _listing_problem(folder: Path, name: str, lines: int) -> str | None:
    """Whether a file's listing shows its text, line for line, under the right numbers."""
    data = (folder / raw_file(name)).read_bytes()
    text = (gzip.decompress(data) if name.endswith(".gz") else data).decode("utf-8", "replace")
    truth = text.removesuffix("\n").split("\n")
    if len(truth) != lines:
        return f"the file has {len(truth)} lines, the manifest says {lines}"
    for page, first in enumerate(range(0, lines, PAGE_LINES), 1):
        path = folder / listing_file(name, page)
        if not path.is_file():
            return "no listing of this file"
        shown = [(int(n), _plain(markup)) for n, markup in _LISTED.findall(path.read_text("utf-8", "surrogatepass"))]
        if shown != list(enumerate(truth[first : first + PAGE_LINES], first + 1)):
            return "shows another text than the file"
    return None


def _plain(markup: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", markup))
