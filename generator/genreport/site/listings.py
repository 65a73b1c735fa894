"""Every evidence file as a page with an anchor a line, quick to open at any length, and the raw file beside it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import quote

from genreport import cores
from genreport.places import SOURCES, listing_file, listing_href, page_starts, raw_file, raw_href, up
from genreport.provenance import Ledger, Quantity
from genreport.rounds import ENGINE_LOG, REQUESTS, Round, digest
from genreport.site import requests, shell

__all__ = ["Listed", "listing_href", "raw_href", "write_listings"]

CHUNK = 500
# bytes from which on it pays to start further processes, and the parts that they share
MANY_BYTES, PARTS = 8 * 2**20, 16
NEAR = 3  # pages before and after the current one that it leads to
# begins with a plain character, which a search finds ten times faster than a condition
_KEY = re.compile(r'"(?<!\\")([A-Za-z_][\w.:-]{0,60})":')
# C0 but tab and line feed, DEL, C1, zero-width and direction signs, line and paragraph separators
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_C0_TABLE = """NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI
DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"""
_C0 = tuple(_C0_TABLE.split())


@dataclass(frozen=True, slots=True)
class Listed:
    """A published file: its name in the round, hash and size of its stored bytes, its lines, and the first of each page."""

    file: str
    sha256: str
    bytes: int
    lines: int
    pages: tuple[int, ...] = (1,)

    def fact(self) -> dict:
        """What the manifest says of it."""
        pages = {"pages": list(self.pages)} if len(self.pages) > 1 else {}
        return {"sha256": self.sha256, "bytes": self.bytes, "lines": self.lines, **pages}


def write_listings(found: Round, folder: Path, templates: Path, ledger: Ledger | None = None) -> list[Listed]:
    """Writes every file's raw copy and listing below the round's folder in the docs tree."""
    evidence = found.evidence()
    sizes = [found.digest(file).bytes for file in evidence]
    count = 1 if sum(sizes) < MANY_BYTES else PARTS
    parts = [[evidence[place] for place in part] for part in cores.shared_out(sizes, count)]
    logs = {file for file in evidence if file.endswith(f"/{ENGINE_LOG}")}
    gaps = {q.id: q for q in ledger or () if q.id.endswith(requests.GAP)}
    task = partial(_written, found, folder, templates, logs, gaps)
    listed = {entry.file: entry for part in cores.each(task, parts) for entry in part}
    return [listed[file] for file in evidence]


def _written(
    found: Round, folder: Path, templates: Path, logs: set[str], gaps: Mapping[str, Quantity], files: Sequence[str]
) -> list[Listed]:
    return [_write_listing(found, folder, templates, logs, gaps, file) for file in files]


def _write_listing(
    found: Round, folder: Path, templates: Path, logs: set[str], gaps: Mapping[str, Quantity], file: str
) -> Listed:
    data, text = found.bytes(file), found.unpacked(file)
    _write(folder / raw_file(file), data)
    lines, fact = split(text.decode("utf-8", "replace")), digest(data)
    entry, beside = Listed(file, fact.sha256, fact.bytes, len(lines), page_starts(text)), None
    if file.endswith(f"/{REQUESTS}"):
        log = found.unpacked(requests.log_of(file)) if requests.log_of(file) in logs else None
        beside = requests.beside(file, lines, entry.pages, log, gaps)
    for page, markup in _pages(found.name, entry, lines, templates, beside):
        _write(folder / listing_file(file, page), markup.encode("utf-8", "surrogatepass"))
    return entry


def split(text: str) -> list[str]:
    r"""Lines as every line number counts them: only \n ends one, and nothing stands behind the last."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _pages(
    round_name: str, entry: Listed, lines: list[str], templates: Path, beside: requests.Beside | None
) -> Iterator[tuple[int, str]]:
    parts = entry.file.split("/")
    for page, first in enumerate(entry.pages, 1):
        path = f"rounds/{round_name}/{listing_file(entry.file, page)}"
        home = up(listing_file(entry.file))
        yield (
            page,
            shell.page(
                templates,
                "listing.html",
                path,
                body=body(lines[first - 1 : _last(entry, page)], first, json=entry.file.endswith((".json", ".jsonl"))),
                kind="listing",
                title=f"{entry.file} · {round_name}",
                trail=[(f"{home}index.html", round_name), (f"{home}{SOURCES}/index.html", SOURCES)],
                here=entry.file,
                sha256=entry.sha256,
                bytes=f"{entry.bytes:,}",
                packed=parts[-1].endswith(".gz"),
                lines=f"{entry.lines:,}",
                raw=home + raw_href(entry.file),
                pages=_pager(entry, page, home),
                round_name=round_name,
                request=beside.context(first, _last(entry, page)) if beside else None,
            ),
        )


def _last(entry: Listed, page: int) -> int:
    """The last line on a page."""
    return entry.pages[page] - 1 if page < len(entry.pages) else entry.lines


def _pager(entry: Listed, current: int, home: str) -> list[tuple[str, str, bool]]:
    """The first page, the last and those around the current one; what is left out between two is a sign without a link."""
    count, found = len(entry.pages), []
    near = sorted({1, count, *range(current - NEAR, current + NEAR + 1)} & set(range(1, count + 1)))
    for before, page in zip((0, *near), near if count > 1 else (), strict=False):
        if page > before + 1:
            found.append(("", "…", False))
        href = home + quote(listing_file(entry.file, page))
        found.append((href, f"{entry.pages[page - 1]:,}–{_last(entry, page):,}", page == current))
    return found


def body(lines: list[str], first: int, *, json: bool) -> str:
    """The lines as markup, in chunks that a browser lays out when they come into view."""
    digits = len(str(first + len(lines) - 1))
    parts = ((at, lines[at : at + CHUNK]) for at in range(0, len(lines), CHUNK))
    chunks = (f'<div class="c"{_size(len(part))}>\n{_chunk(part, first + at, json)}\n</div>' for at, part in parts)
    return f'<div style="--digits:{digits}">\n' + "\n".join(chunks) + "\n</div>"


def _size(count: int) -> str:
    """The room a short last chunk is likely to take; the style sheet knows that of a full one."""
    return "" if count == CHUNK else f' style="contain-intrinsic-size:auto {count * 18.75:.0f}px"'


def _chunk(lines: list[str], first: int, json: bool) -> str:
    # one pass over the joined text: a thousand files of thirty megabytes are marked in about a second
    text = html.escape("\n".join(lines), quote=False)
    if json:
        text = "".join(_bold(_KEY.split(text)))
    if _CONTROL.search(text):
        text = _CONTROL.sub(_visible, text)
    numbered = enumerate(text.split("\n"), first)
    return "\n".join(f'<span id="L{n}"><a href="#L{n}" data-n="{n}"></a>{line}</span>' for n, line in numbered)


def _bold(parts: list[str]) -> list[str]:
    """Text and keys in turn, the keys marked; a substitution with a group is much slower."""
    parts[1::2] = [f'<b>"{key}"</b>:' for key in parts[1::2]]
    return parts


def _visible(found: re.Match) -> str:
    """The character itself, which stays in the text, under a sign that can be seen."""
    code = ord(found[0])
    sign = _C0[code] if code < 0x20 else "DEL" if code == 0x7F else f"U+{code:04X}"
    # a bare carriage return in markup would be read as a line feed
    return f'<s data-c="{sign}">{"&#13;" if code == 13 else found[0]}</s>'


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
