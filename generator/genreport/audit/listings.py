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
from genreport.places import PAGE_LINES, RAW, SOURCES, listing_file, listing_href, raw_file

_LISTED = re.compile(r'<span id="L(\d+)"><a [^>]*></a>(.*?)</span>(?=\n)', re.S)
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
    for page in range(1, max(1, -(-len(truth) // PAGE_LINES)) + 1):
        path, first = folder / listing_file(name, page), (page - 1) * PAGE_LINES
        if not path.is_file():
            return "no listing of this file"
        markup = path.read_text("utf-8", "surrogatepass")
        shown = [(int(n), _plain(line)) for n, line in _LISTED.findall(markup)]
        if shown != list(enumerate(truth[first : first + PAGE_LINES], first + 1)):
            return "shows another text than the file"
        facts = _FACTS.search(markup)
        if facts is None or _plain(facts[1], " ").split() != _facts(known, packed=name.endswith(".gz")):
            return "says other facts of the file than the manifest"
    return None


def _lines(data: bytes, *, packed: bool) -> list[str]:
    """Lines as every line number counts them: only a line feed ends one, and nothing stands behind the last."""
    lines = (gzip.decompress(data) if packed else data).decode("utf-8", "replace").split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _plain(markup: str, between: str = "") -> str:
    return html.unescape(re.sub(r"<[^>]+>", between, markup))


def _facts(known: dict[str, Any], *, packed: bool) -> list[str]:
    size = f"stored {known['bytes']:,} bytes gzip" if packed else f"size {known['bytes']:,} bytes"
    return f"sha256 {known['sha256']} {size} lines {known['lines']:,} file as stored".split()


# ------------------------------------------------------------------------------------- the index


def check_index(case: Case) -> None:
    """The page that leads to the files counts their bytes and lines, leads to each, and holds no other number."""
    page = case.folder / SOURCES / "index.html"
    seen = _Index()
    seen.feed(page.read_text("utf-8"))
    seen.close()
    files = case.manifest.files
    counts = sorted((f"../{listing_href(name)}", f"{known['lines']:,}") for name, known in files.items())
    if sorted(seen.counts) != counts:
        wrong = set(seen.counts).symmetric_difference(counts)
        case.report.fail(page, f"counts lines differently from the manifest: {sorted(wrong)[:2]}")
    total = f"{len(files):,} files, {sum(known['bytes'] for known in files.values()):,} bytes"
    said = " ".join(" ".join(seen.said).split())
    if total not in said:
        case.report.fail(page, f"does not say {total!r}")
    for word in said.replace(total, "", 1).split():
        if not is_name(word, case.vocabulary):
            case.report.fail(page, f"a number that is neither a count nor a name: {word!r}")
    for target in seen.links:
        case.follow(page, target)


class _Index(HTMLParser):
    """The article of that page: its links, the count that stands beside each, and all other text."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.links: list[str] = []
        self.counts: list[tuple[str, str]] = []
        self.said: list[str] = []
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("article", "a", "small"):
            self._open.append(tag)
        if tag == "a" and "article" in self._open:
            self.links.append(dict(attrs).get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            self._open.remove(tag)

    def handle_data(self, data: str) -> None:
        if "article" not in self._open:
            return
        if "small" in self._open:
            self.counts.append((self.links[-1] if self.links else "", data.strip()))
        elif "a" not in self._open:
            self.said.append(data)
