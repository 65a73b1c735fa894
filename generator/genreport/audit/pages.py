"""A round's pages as a browser gets them: every number in their text, every name with digits, every chart and link."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote, urlsplit

from genreport.audit.case import Case
from genreport.audit.charts import Drawing, check_chart
from genreport.audit.names import is_name
from genreport.audit.numbers import shows
from genreport.audit.others import borrowed
from genreport.audit.verdicts import check_verdict
from genreport.places import FIGURES, RAW, SOURCES
from genreport.words import say

_NUMBER = re.compile(r"(?<![A-Za-z\d])\d")  # the 2 of E2EL and the 50 of p50 are parts of names
_VOID = {"br", "hr", "img", "input", "meta", "link", "wbr", "source", "col"}


@dataclass(frozen=True)
class Shown:
    """A number as a page shows it: the figure it names, its text, its tooltip and where it leads."""

    id: str
    text: str
    title: str
    href: str


@dataclass
class Seen:
    """What the article of a page holds; `whole` once it ended."""

    whole: bool = False
    numbers: list[Shown] = field(default_factory=list)
    loose: list[str] = field(default_factory=list)
    literals: list[str] = field(default_factory=list)
    reasons: list[tuple[str, str]] = field(default_factory=list)
    drawings: list[Drawing] = field(default_factory=list)
    verdicts: list[tuple[str, str]] = field(default_factory=list)
    links: list[str] = field(default_factory=list)


def check_pages(case: Case) -> None:
    """All pages of a round but those of evidence, which have checks of their own."""
    for page in sorted(case.folder.rglob("*.html")):
        if page.relative_to(case.folder).parts[0] not in (SOURCES, RAW, FIGURES):
            with case.report.guard(page):
                _check_page(case, page)


def _check_page(case: Case, page: Path) -> None:
    seen = read_page(page.read_text("utf-8", "replace"))
    if not seen.whole:
        case.report.fail(page, "has no article, or not all of it")
    check_seen(case, page, seen)


def check_seen(case: Case, page: Path, seen: Seen) -> None:
    """What a page, or a part of it, shows of one round."""
    for number in seen.numbers:
        with case.report.guard(page):
            _check_number(case, page, number)
    for text in seen.loose:
        case.report.fail(page, f"a number without provenance: {' '.join(text.split())[:80]!r}")
    for text in seen.literals:
        if not is_name(text, case.vocabulary):
            case.report.fail(page, f"marked as a name, but the round knows no {text!r}")
    for id, text in seen.reasons:
        known = case.figures.get(id, {}).get("reason", "")
        case.report.count("reasons for n/a")
        if text.split() != known.split():
            case.report.fail(page, f"says of {id} that {text!r}, its reason is {known!r}")
    for drawing in seen.drawings:
        with case.report.guard(page, "a chart cannot be checked"):
            check_chart(case, page, drawing)
    for word, id in seen.verdicts:
        check_verdict(case, page, word, id)
    for target in seen.links:
        case.follow(page, target)


def _check_number(case: Case, page: Path, number: Shown) -> None:
    case.report.count("numbers in pages")
    figure = case.figures.get(number.id)
    if figure is None:
        return case.report.fail(page, f"{number.text!r} names the unknown figure {number.id!r}")
    case.once("distinct figures shown", number.id)
    if not _says(figure, number.text):
        case.report.fail(
            page, f"{number.id} is shown as {number.text!r}, its value is {figure['value']!r} {figure['unit']}"
        )
    if number.title and number.title.split() != tooltip(figure).split():
        case.report.fail(page, f"the tooltip of {number.id} is {number.title!r}, not {tooltip(figure)!r}")
    if not _leads(figure, number.href):
        case.report.fail(page, f"{number.id} is linked to {number.href!r}, which is not its derivation")
    elif case.links.problem(page, number.href) is None:
        case.once("distinct figures linked", number.id)
    return None


def _leads(figure: dict[str, Any], href: str) -> bool:
    """Whether a link names the figure's derivation, in its own round where it is borrowed."""
    source = borrowed(figure)
    id, within = (figure["id"], "") if source is None else (source["figure"], f"../{quote(source['round'])}/")
    return unquote(urlsplit(href).fragment) == id and within in href


def _says(figure: dict[str, Any], text: str) -> bool:
    missing = figure["value"] is None
    return missing if text == say("number.na") else not missing and shows(text, figure["value"], figure["unit"])


def tooltip(figure: dict[str, Any]) -> str:
    """What stands under the pointer: the formula and the count of samples, or why there is no value."""
    if figure["value"] is None:
        return say("number.because", reason=figure.get("reason", ""))
    return (
        say("number.counted", formula=figure["formula"], n=f"{figure['n']:,}") if "n" in figure else figure["formula"]
    )


def read_page(text: str) -> Seen:
    """What a built page shows in its article."""
    reader = Reader()
    reader.feed(text)
    reader.close()
    return reader.seen


class Reader(HTMLParser):
    """Collects what a page's article shows."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.seen = Seen()
        self.stack: list[tuple[str, str]] = []  # tag, role
        self.inside = False
        self._text = ""
        self._given: dict[str, str] = {}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        if tag in _VOID:
            return
        if self.inside and tag == "a" and "href" in given:
            self.seen.links.append(given["href"])
        if self.inside and "data-gr-spec" in given:
            self.seen.drawings.append(Drawing(given["data-gr-spec"], given.get("aria-label", "")))
        if self.inside and "data-of" in given:  # a row may have a verdict to be filtered by
            self.seen.verdicts.append((given.get("data-verdict", ""), given["data-of"]))
        role = self.role(tag, given)
        if role in ("number", "literal", "reason"):
            self._text, self._given = "", given
        self.stack.append((tag, role))

    def role(self, tag: str, given: dict[str, str]) -> str:
        classes = given.get("class", "").split()
        if tag == "article":
            self.inside = True
            return "content"
        if "gr-num" in classes:
            return "number"
        if "gr-lit" in classes:
            return "literal"
        if "gr-why" in classes:
            return "reason"
        # gr-def repeats a finding, gr-example is what a reader may type
        skipped = tag in ("script", "style", "template", "svg") or {"gr-def", "gr-example"} & set(classes)
        return "skip" if skipped else ""

    def handle_endtag(self, tag: str) -> None:
        while self.stack:
            opened, role = self.stack.pop()
            self.close_role(role)
            if opened == tag:
                break

    def close_role(self, role: str) -> None:
        if not self.inside:
            return
        if role == "number":
            given = self._given
            shown = (self._text.strip(), given.get("title", ""), given.get("href", ""))
            self.seen.numbers.append(Shown(given.get("data-id", ""), *shown))
        elif role == "literal":
            self.seen.literals.append(self._text)
        elif role == "reason":
            self.seen.reasons.append((self._given.get("data-because", ""), self._text))
        elif role == "content":
            self.inside, self.seen.whole = False, True

    def handle_data(self, data: str) -> None:
        if not self.inside:
            return
        roles = {role for _, role in self.stack}
        if roles & {"number", "literal", "reason"}:
            self._text += data
        elif "skip" not in roles and _NUMBER.search(data):
            self.seen.loose.append(data)
