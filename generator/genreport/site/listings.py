"""Every evidence file as a page with an anchor a line, quick to open at any length, and the raw file beside it."""

from __future__ import annotations

import gzip
import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from genreport.places import PAGE_LINES, SOURCES, listing_file, listing_href, raw_file, raw_href, up
from genreport.rounds import AFTER, BEFORE, ENGINE_LOG, FACTS, HEAD, PLAN, REQUESTS, SAMPLES, SLOTS, Round, digest
from genreport.site import shell

__all__ = ["Listed", "listing_href", "raw_href", "sources_index", "write_listings"]

CHUNK = 500
_KEY = re.compile(r'(?<!\\)"([A-Za-z_][\w.:-]{0,60})":')
# C0 but tab and line feed, DEL, C1, zero-width and direction signs, line and paragraph separators
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff]")
_C0_TABLE = """NUL SOH STX ETX EOT ENQ ACK BEL BS TAB LF VT FF CR SO SI
DLE DC1 DC2 DC3 DC4 NAK SYN ETB CAN EM SUB ESC FS GS RS US"""
_C0 = tuple(_C0_TABLE.split())
# the files a reader looks for first
FIRST = (HEAD, PLAN, REQUESTS, FACTS, BEFORE, AFTER, SAMPLES, SLOTS, ENGINE_LOG)


@dataclass(frozen=True, slots=True)
class Listed:
    """A published file: its name in the round, the hash and size of its stored bytes, and its lines."""

    file: str
    sha256: str
    bytes: int
    lines: int

    def fact(self) -> dict:
        """What the manifest says of it."""
        return {"sha256": self.sha256, "bytes": self.bytes, "lines": self.lines}


def write_listings(found: Round, folder: Path, templates: Path) -> list[Listed]:
    """Writes every file's raw copy and listing below the round's folder in the docs tree."""
    listed = []
    for file in found.evidence():
        data = found.bytes(file)
        _write(folder / raw_file(file), data)
        text = _text(file, data)
        lines = split(text)
        fact = digest(data)
        entry = Listed(file, fact.sha256, fact.bytes, len(lines))
        for page, markup in _pages(found.name, entry, lines, templates):
            _write(folder / listing_file(file, page), markup.encode("utf-8", "surrogatepass"))
        listed.append(entry)
    return listed


def split(text: str) -> list[str]:
    r"""Lines as every line number counts them: only \n ends one, and nothing stands behind the last."""
    lines = text.split("\n")
    return lines[:-1] if lines[-1] == "" else lines


def _text(file: str, data: bytes) -> str:
    return (gzip.decompress(data) if file.endswith(".gz") else data).decode("utf-8", "replace")


def _pages(round_name: str, entry: Listed, lines: list[str], templates: Path) -> Iterator[tuple[int, str]]:
    count = max(1, -(-len(lines) // PAGE_LINES))
    parts = entry.file.split("/")
    for page in range(1, count + 1):
        path = f"rounds/{round_name}/{listing_file(entry.file, page)}"
        home = up(listing_file(entry.file))
        first = (page - 1) * PAGE_LINES
        yield (
            page,
            shell.page(
                templates,
                "listing.html",
                path,
                body=body(lines[first : first + PAGE_LINES], first + 1, json=entry.file.endswith((".json", ".jsonl"))),
                kind="listing",
                title=f"{entry.file} · {round_name}",
                trail=[(f"{home}index.html", round_name), (f"{home}{SOURCES}/index.html", SOURCES)],
                here=entry.file,
                sha256=entry.sha256,
                bytes=f"{entry.bytes:,}",
                packed=parts[-1].endswith(".gz"),
                lines=f"{entry.lines:,}",
                raw=home + raw_href(entry.file),
                pages=_pager(entry, count, page, home),
            ),
        )


def _pager(entry: Listed, count: int, current: int, home: str) -> list[tuple[str, str, bool]]:
    if count == 1:
        return []
    found = []
    for page in range(1, count + 1):
        first, last = (page - 1) * PAGE_LINES + 1, min(page * PAGE_LINES, entry.lines)
        href = home + listing_href(entry.file, first).partition("#")[0]
        found.append((href, f"{first:,}–{last:,}", page == current))
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
        text = _KEY.sub(r'<b>"\1"</b>:', text)
    if _CONTROL.search(text):
        text = _CONTROL.sub(_visible, text)
    numbered = enumerate(text.split("\n"), first)
    return "\n".join(f'<span id="L{n}"><a href="#L{n}" data-n="{n}"></a>{line}</span>' for n, line in numbered)


def _visible(found: re.Match) -> str:
    """The character itself, which stays in the text, under a sign that can be seen."""
    code = ord(found[0])
    sign = _C0[code] if code < 0x20 else "DEL" if code == 0x7F else f"U+{code:04X}"
    # a bare carriage return in markup would be read as a line feed
    return f'<s data-c="{sign}">{"&#13;" if code == 13 else found[0]}</s>'


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


# ------------------------------------------------------------------------------------- the index


def sources_index(round_name: str, listed: list[Listed]) -> str:
    """The page that leads to every file: a row a repeat, one table an engine and test."""
    folders: dict[str, list[Listed]] = {}
    for entry in listed:
        folders.setdefault(_section(entry.file), []).append(entry)
    total = sum(entry.bytes for entry in listed)
    head = (
        f"---\ntitle: Sources\n---\n\n# Sources\n\nEvery file of <code>{html.escape(round_name)}</code> as recorded: "
        f"{len(listed):,} files, {total:,} bytes. A name opens its lines; each line has an address. "
        "The figures computed from them are in the [index of derivations](../figures/index.html), "
        "and as data in [provenance.json](../provenance.json).\n"
    )
    return head + "".join(_table(name, folders[name]) for name in sorted(folders, key=_section_order))


def _section_order(section: str) -> tuple:
    """What describes the round first, then its measurements."""
    known = ("", "launches", "models")
    return (known.index(section) if section in known else len(known), _natural(section))


def _natural(text: str) -> list:
    """c2 before c16."""
    return [int(part) if place % 2 else part for place, part in enumerate(re.split(r"([0-9]+)", text))]


def _name_order(entry: Listed) -> tuple:
    name = entry.file.rsplit("/", 1)[-1]
    return (FIRST.index(name) if name in FIRST else len(FIRST), name)


def _section(file: str) -> str:
    parts = file.split("/")
    return "/".join(parts[:3] if parts[0] == "levels" and len(parts) > 4 else parts[:1] if len(parts) > 1 else [])


def _table(section: str, entries: list[Listed]) -> str:
    rows: dict[str, list[Listed]] = {}
    for entry in entries:
        rows.setdefault(_row(entry.file, section), []).append(entry)
    title = _plain_heading(section.replace("levels/", "").replace("/", " · ") or "The round")
    anchor = re.sub(r"[^a-z0-9]+", "-", section.lower()).strip("-") or "the-round"
    ordered = sorted(rows.items(), key=lambda item: _natural(item[0]))
    body = "".join(
        f"<tr><td>{html.escape(row) or '&nbsp;'}</td><td>{_links(found)}</td></tr>\n" for row, found in ordered
    )
    return f'\n## {title} {{#{anchor}}}\n\n<table class="gr-table gr-files"><tbody>\n{body}</tbody></table>\n'


def _row(file: str, section: str) -> str:
    inner = file.removeprefix(f"{section}/") if section else file
    return inner.rpartition("/")[0]


def _links(entries: list[Listed]) -> str:
    return " &ensp; ".join(_link(entry) for entry in sorted(entries, key=_name_order))


def _link(entry: Listed) -> str:
    name = html.escape(entry.file.rsplit("/", 1)[-1])
    href = html.escape(up(f"{SOURCES}/index.html") + listing_href(entry.file))
    return f'<a href="{href}">{name}</a> <small>{entry.lines:,}</small>'


def _plain_heading(text: str) -> str:
    """Text that Markdown shows as it is."""
    return html.escape(re.sub(r"([\\`*_{}\[\]#|!~^=:])", r"\\\1", text), quote=False)
