"""The way to every file of a round: one table an engine and test, a row a repeat."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from genreport.places import SOURCES, listing_href, up
from genreport.rounds import AFTER, BEFORE, ENGINE_LOG, FACTS, HEAD, PLAN, REQUESTS, SAMPLES, SLOTS
from genreport.site import shell
from genreport.site.listings import Listed
from genreport.words import say, templates_folder

# the files a reader looks for first
FIRST = (HEAD, PLAN, REQUESTS, FACTS, BEFORE, AFTER, SAMPLES, SLOTS, ENGINE_LOG)
# files that one page leads to; a section with more has pages of its own
FILES = 1500


def sources_index(round_name: str, listed: Sequence[Listed]) -> str:
    """The page that leads to every file, in a round of very many files by way of others."""
    folders, room = sorted(_folders(listed).items(), key=lambda item: _section_order(item[0])), len(listed) <= FILES
    body = (_table(name, found) if room or not _is_long(found) else _ways(name, found) for name, found in folders)
    return shell.page(
        templates_folder(),
        "sources.md",
        f"{SOURCES}/index.md",
        body="".join(body),
        round_name=round_name,
        files=f"{len(listed):,}",
        bytes=f"{sum(entry.bytes for entry in listed):,}",
    )


def further_pages(round_name: str, listed: Sequence[Listed], templates: Path) -> Iterator[tuple[str, str]]:
    """Name and text of the pages that the index leads to where it cannot hold all files itself."""
    if len(listed) <= FILES:
        return
    for section, entries in _folders(listed).items():
        for place, rows in enumerate(_pages(section, entries) if _is_long(entries) else ()):
            items = "".join(f"<li>{html.escape(row)} &ensp; {_links(found)}</li>\n" for row, found in rows)
            name = _page_name(section, place)
            trail = [("../index.html", round_name), ("index.html", SOURCES)]
            yield name, shell.page(
                templates, "shell.html", f"rounds/{round_name}/{SOURCES}/{name}", body=f"<ul>\n{items}</ul>", kind="index",
                title=f"{section} · {round_name}", trail=trail, here=f"{section}: {_from_to(rows)}",
            )  # fmt: skip


Rows = list[tuple[str, list[Listed]]]


def _folders(listed: Sequence[Listed]) -> dict[str, list[Listed]]:
    folders: dict[str, list[Listed]] = {}
    for entry in listed:
        folders.setdefault(_section(entry.file), []).append(entry)
    return folders


def _is_long(entries: Sequence[Listed]) -> bool:
    return len(entries) > FILES // 5


def _pages(section: str, entries: Sequence[Listed]) -> list[Rows]:
    """A section's rows in pages of whole rows."""
    pages: list[Rows] = [[]]
    for row, found in _rows(section, entries):
        if pages[-1] and sum(len(files) for _, files in pages[-1]) + len(found) > FILES:
            pages.append([])
        pages[-1].append((row, found))
    return pages


def _page_name(section: str, place: int) -> str:
    return f"index.{_place(section)}.{place + 1}.html"


def _place(section: str) -> str:
    """A section in one word; no id of a test or an engine holds the dot between them."""
    return re.sub(r"[^a-z0-9_+.-]+", "-", section.lower().replace("/", "."))


def _from_to(rows: Rows) -> str:
    return " – ".join(dict.fromkeys((rows[0][0], rows[-1][0])))


def _ways(section: str, entries: Sequence[Listed]) -> str:
    """A section's heading and the links to its pages."""
    links = (
        f'<li><a href="{html.escape(_page_name(section, place))}">{html.escape(_from_to(rows))}</a></li>\n'
        for place, rows in enumerate(_pages(section, entries))
    )
    return f"{_heading(section)}<ul>\n{''.join(links)}</ul>\n"


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


def _table(section: str, entries: Sequence[Listed]) -> str:
    body = "".join(
        f"<tr><td>{html.escape(row) or '&nbsp;'}</td><td>{_links(found)}</td></tr>\n"
        for row, found in _rows(section, entries)
    )
    return f'{_heading(section)}<table class="gr-table gr-files"><tbody>\n{body}</tbody></table>\n'


def _heading(section: str) -> str:
    title = _plain_heading(section.replace("levels/", "").replace("/", " · ") or say("site.the_round"))
    anchor = _place(section) or "the-round"
    return f"\n## {title} {{#{anchor}}}\n\n"


def _rows(section: str, entries: Sequence[Listed]) -> Rows:
    rows: dict[str, list[Listed]] = {}
    for entry in entries:
        rows.setdefault(_row(entry.file, section), []).append(entry)
    return sorted(rows.items(), key=lambda item: _natural(item[0]))


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
