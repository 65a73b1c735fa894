"""The evidence as published: raw files by their hashes, listings by their text, and the index of both by its counts."""

from __future__ import annotations

import gzip
import hashlib
import html
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from genreport.audit.case import Case
from genreport.audit.names import is_name
from genreport.places import RAW, SOURCES, listing_file, listing_href, raw_file

_LISTED = re.compile(r'<span id="L(\d+)"><a [^>]*></a>(.*?)</span>(?=\n)', re.S)
# a page of the index of files beside the first one
_FURTHER = re.compile(r"index\.[^/]*\.html")
_FACTS = re.compile(r'<dl class="facts">(.*?)</dl>', re.S)


def check_files(case: Case) -> None:
    """Every file of the manifest is published with its bytes, and no other file is."""
    for name, known in case.manifest.files.items():
        path = case.folder / raw_file(name)
        with case.report.guard(path):
            problem = _file_problem(path, known)
            if problem:
                case.report.fail(path, problem)
        case.report.count("files")
    listed = {case.folder / raw_file(name) for name in case.manifest.files}
    for path in sorted((case.folder / RAW).rglob("*")):
        if path.is_file() and path not in listed:
            case.report.fail(path, "is no file of the manifest")


def _file_problem(path: Path, known: dict[str, Any]) -> str | None:
    if not path.is_file():
        return "missing"
    data = path.read_bytes()
    if hashlib.sha256(data).hexdigest() != known["sha256"]:
        return "is not the file whose hash the manifest holds"
    return None if len(data) == known["bytes"] else f"has {len(data)} bytes, the manifest says {known['bytes']}"


def check_listings(case: Case) -> None:
    """Every file's listing shows its text, line for line, under the right numbers, and the facts of the file."""
    for name, known in case.manifest.files.items():
        path = case.folder / listing_file(name)
        with case.report.guard(path):
            problem = _listing_problem(case.folder, name, known)
            if problem:
                case.report.fail(path, problem)
        case.report.count("listings compared")


def _listing_problem(folder: Path, name: str, known: dict[str, Any]) -> str | None:
    raw = folder / raw_file(name)
    if not raw.is_file():
        return "lists a file that is missing"
    truth = _lines(raw.read_bytes(), packed=name.endswith(".gz"))
    if len(truth) != known["lines"]:
        return f"the file has {len(truth)} lines, the manifest says {known['lines']}"
    starts = known.get("pages", [1])
    for page, (first, behind) in enumerate(zip(starts, [*starts[1:], len(truth) + 1], strict=True), 1):
        path = folder / listing_file(name, page)
        if not path.is_file():
            return "no listing of this file"
        markup = path.read_text("utf-8", "surrogatepass")
        shown = [(int(n), _plain(line)) for n, line in _LISTED.findall(markup)]
        if shown != list(enumerate(truth[first - 1 : behind - 1], first)):
            return "shows another text than the file"
        facts = _FACTS.search(markup)
        if facts is None or _digits(_plain(facts[1], " ")) != _facts(known):
            return "says other facts of the file than the manifest"
    return None


def _lines(data: bytes, *, packed: bool) -> list[str]:
    """Lines as every line number counts them: only a line feed ends one, and nothing stands behind the last."""
    lines = (gzip.decompress(data) if packed else data).decode("utf-8", "replace").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _plain(markup: str, between: str = "") -> str:
    return html.unescape(re.sub(r"<[^>]+>", between, markup))


def _digits(text: str) -> list[str]:
    """The words of a text that hold digits: all others belong to the language of the site."""
    return [word for word in text.split() if re.search(r"\d", word)]


def _facts(known: dict[str, Any]) -> list[str]:
    return _digits(f"sha256 {known['sha256']} {known['bytes']:,} {known['lines']:,}")


# ------------------------------------------------------------------------------------- the index


def check_index(case: Case) -> None:
    """The pages that lead to the files count their bytes and lines, lead to each, and hold no other number."""
    page = case.folder / SOURCES / "index.html"
    seen = _seen(page, "article")
    further = {page.parent / target: None for target in seen.links if _FURTHER.fullmatch(target)}
    for path in further:
        further[path] = _seen(path, "main")
    files, pages = case.manifest.files, [(page, seen), *further.items()]
    counts = sorted((f"../{listing_href(name)}", f"{known['lines']:,}") for name, known in files.items())
    found = sorted(count for _, one in pages for count in one.counts)
    if found != counts:
        wrong = set(found).symmetric_difference(counts)
        case.report.fail(page, f"counts lines differently from the manifest: {sorted(wrong)[:2]}")
    said = " ".join(seen.said).split()
    for count in (len(files), sum(known["bytes"] for known in files.values())):
        if f"{count:,}" in said:
            said.remove(f"{count:,}")
        else:
            case.report.fail(page, f"does not say {count:,}")
    for path, one in pages:
        _check_rest(case, path, said if one is seen else " ".join(one.said).split(), one.links)


def _check_rest(case: Case, page: Path, words: list[str], links: list[str]) -> None:
    for word in words:
        if not is_name(word, case.vocabulary):
            case.report.fail(page, f"a number that is neither a count nor a name: {word!r}")
    for target in links:
        case.follow(page, target)


def _seen(page: Path, inside: str) -> _Index:
    seen = _Index(inside)
    seen.feed(page.read_text("utf-8"))
    seen.close()
    return seen


class _Index(HTMLParser):
    """What an element of a page holds: its links, the count that stands beside each, and all other text."""

    def __init__(self, inside: str) -> None:
        super().__init__(convert_charrefs=True)
        self.inside = inside
        self.links: list[str] = []
        self.counts: list[tuple[str, str]] = []
        self.said: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in (self.inside, "a", "small"):
            self._open.append(tag)
        if tag == "a" and self.inside in self._open:
            self.links.append(dict(attrs).get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            self._open.remove(tag)

    def handle_data(self, data: str) -> None:
        if self.inside not in self._open:
            return
        if "small" in self._open:
            self.counts.append((self.links[-1] if self.links else "", data.strip()))
        elif "a" not in self._open:
            self.said.append(data)
