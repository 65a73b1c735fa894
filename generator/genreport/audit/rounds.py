"""The list of rounds: each entry shows figures and names of its own round, every round has one, and nothing stands beside."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from genreport.audit.case import Case
from genreport.audit.links import Links
from genreport.audit.pages import Reader, Seen, check_seen
from genreport.audit.report import Report


def check_list(site: Path, cases: Mapping[str, Case], links: Links, report: Report) -> None:
    """The page that lists the rounds of a site; `cases` are the rounds that could be read, by name."""
    page = site / "rounds" / "index.html"
    with report.guard(page):
        whole, entries = read_list(page.read_text("utf-8", "replace"))
        if not whole.whole:
            report.fail(page, "has no article, or not all of it")
        for name in cases.keys() ^ entries.keys():
            report.fail(page, f"has no entry of the round {name!r}" if name in cases else f"lists no round: {name!r}")
        for name in cases.keys() & entries.keys():
            _check_entry(cases[name], page, entries[name])
            report.count("rounds listed")
        _check_around(page, whole, cases, links, report)


def _check_entry(case: Case, page: Path, seen: Seen) -> None:
    check_seen(case, page, seen)
    home = f"{quote(case.folder.name)}/"
    for number in seen.numbers:
        if not number.href.startswith(home):
            case.report.fail(page, f"{number.id} of {case.folder.name} is linked to {number.href!r}, another round")


def _check_around(page: Path, seen: Seen, cases: Mapping[str, Case], links: Links, report: Report) -> None:
    """Outside the entries a page may only name rounds."""
    for number in seen.numbers:
        report.fail(page, f"{number.text!r} stands in no round's entry")
    for text in seen.loose:
        report.fail(page, f"a number without provenance: {' '.join(text.split())[:80]!r}")
    for text in seen.literals:
        if text not in cases:
            report.fail(page, f"marked as a name, but no round is called {text!r}")
    for target in seen.links:
        report.count("links")
        if problem := links.problem(page, target):
            report.fail(page, problem)


def read_list(text: str) -> tuple[Seen, dict[str, Seen]]:
    """What the page shows outside of its entries, and each entry by the name of its round."""
    reader = _ListReader()
    reader.feed(text)
    reader.close()
    return reader.whole, reader.entries


class _ListReader(Reader):
    """Keeps what stands in each entry (`data-round`) apart from the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.whole, self.entries = self.seen, {}

    def role(self, tag: str, given: dict[str, str]) -> str:
        if "data-round" in given:
            self.seen = self.entries.setdefault(given["data-round"], Seen())
            return "entry"
        return super().role(tag, given)

    def close_role(self, role: str) -> None:
        if role == "entry":
            self.seen = self.whole
        super().close_role(role)
