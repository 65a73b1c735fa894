"""The guide as one file: its derivations and hashes say what the manifest says; its numbers are checked as a page's are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

from genreport.audit.case import Case
from genreport.audit.derivations import difference, entry
from genreport.audit.manifest import Manifest
from genreport.places import FIGURES, mailed_file
from genreport.words import say

_DIGEST = re.compile(r"[0-9a-f]{64}")

HOME = "../"
# where the appendix keeps its derivations and its hashes, by tag
PARTS = {"aside": "derivations", "tbody": "hashes"}


def check_onefile(case: Case) -> None:
    """The file, where the round has one."""
    page = case.folder / mailed_file(case.folder.name)
    if page.is_file():
        with case.report.guard(page):
            _check(case, page)


def _check(case: Case, page: Path) -> None:
    seen = read(page.read_text("utf-8"))
    unknown = [id for id in seen.ids if id not in case.figures]
    for id in unknown:
        case.report.fail(page, f"derives the unknown figure {id!r}")
    derived = [case.figures[id] for id in seen.ids if id not in unknown]
    words = [word for figure in derived for word in _within(entry(figure, case.manifest))]
    cited = {file for figure in derived for file in _files(figure)}
    facts = [word for file in sorted(cited) for word in _fact(file, case.manifest)]
    for wrong in (difference(_unlisted(seen.derivations), _unlisted(words)), difference(seen.hashes, facts)):
        if wrong:
            case.report.fail(page, wrong)
    for target in sorted({link for link in seen.links if not link.startswith("#")}):
        case.report.fail(page, f"leads out of the file: {target!r}")
    case.report.count("derivations to mail", len(derived))


def _within(words: Sequence[str]) -> Iterator[str]:
    """The words of an entry as they stand where there is no site: inputs lead into the same file, files are text.

    Links to the entry itself and to a request's own page are left out, with what they say.
    """
    id, own, _, _, *rest = words
    rest = rest[2:] if rest[:2] == [id, own] else rest
    yield from (id, id)
    skipped = 0
    for word in rest:
        if skipped:
            skipped -= 1
        elif "#request-L" in word:
            skipped = len(say("card.timeline").split())
        elif word.startswith(f"{HOME}{FIGURES}/"):
            yield "#" + word.partition("#")[2]
        elif not word.startswith(HOME) and word != "sha256" and not _DIGEST.fullmatch(word):
            yield word


def _unlisted(words: Sequence[str]) -> list[str]:
    """The words without the commas of lists: between links they are words of their own, between texts they are not."""
    return [bare for word in words if (bare := word.rstrip(","))]


def _files(figure: dict) -> Iterator[str]:
    for source in figure.get("sources", []):
        if source["type"] != "foreign":
            yield from source.get("files", [])
            yield from [source["file"]] if "file" in source else []


def _fact(file: str, manifest: Manifest) -> Sequence[str]:
    known = manifest.files[file]
    return [*file.split(), f"{known['lines']:,}", known["sha256"]]


def read(text: str) -> _Reader:
    """What the appendix of the file says."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return reader


class _Reader(HTMLParser):
    """All links; ids of the derivations in their order; the words of derivations and hashes, link targets among them."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.ids: list[str] = []
        self.derivations: list[str] = []
        self.hashes: list[str] = []
        self._inside: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {key: value or "" for key, value in attrs}
        self.links += [value for key, value in given.items() if key in ("href", "xlink:href", "src")]
        if tag in PARTS and "gr-def" in given.get("class", "").split():
            self._inside = getattr(self, PARTS[tag])
        elif self._inside is not None:
            self.ids += [given["id"]] if tag == "section" else []
            self._inside += [w for name in ("id", "data-id", "href", "title") for w in given.get(name, "").split()]

    def handle_endtag(self, tag: str) -> None:
        if tag in PARTS and self._inside is getattr(self, PARTS[tag]):
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is not None:
            self._inside += data.split()
