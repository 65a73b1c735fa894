"""Orders the navigation that MkDocs infers from the folders: rounds first, a round's reports in reading order.

On the home page the names of rounds and of a round's pages become links, where rounds were generated.
MkDocs loads this file, also where genreport is not installed, so its two words, Rounds and Manual, are not in the catalogue.
"""

from __future__ import annotations

import re
from html import unescape
from pathlib import Path
from urllib.parse import quote

from mkdocs.structure.nav import Section

REPORTS = (
    "index", "concurrency", "ttft", "kv", "cliff", "head-to-head", "guide", "arrivals", "conversations", "soak", "against",
    "history", "method", "sources", "evidence",
)  # fmt: skip
# what the home page's table calls a page -> the beginning of its folder in a round
PAGES = {
    "front page": "index", "01 Concurrency curve": "concurrency", "02 TTFT anatomy": "ttft", "03 KV linearity": "kv",
    "04 The cliff": "cliff", "05 Head to head": "head-to-head", "06 Selection guide": "guide", "07 Arrivals": "arrivals",
    "08 Conversations": "conversations", "09 Soak": "soak", "Against another round": "against", "History": "history",
    "Sources": "sources/index", "Evidence": "evidence",
}  # fmt: skip
MANY = 6  # rounds, with their list
MANUAL = ("method", "how-to", "plan", "cli", "format", "provenance", "architecture", "performance", "compare")


def on_nav(nav, config, files):
    """Home | Rounds (one section a round, its reports flat) | Manual (the hand-written pages)."""
    pages = [item for item in nav.items if not isinstance(item, Section)]
    home = [page for page in pages if page.is_homepage]
    rounds = [_rounds(item, _newest_first(files)) for item in nav.items if _folder(item) == "rounds"]
    manual = [page for page in pages if page not in home]
    others = [item for item in nav.items if isinstance(item, Section) and _folder(item) != "rounds"]
    manual = sorted([*manual, *others], key=lambda item: _rank(item, MANUAL))
    if rounds and len(rounds[0].children) > MANY:
        _fold(config.theme)
    nav.items = home + rounds + ([_section("Manual", manual)] if manual else [])
    return nav


def _fold(theme):
    """With many rounds only the one that is read shows its pages; the others are names, and pages stay light."""
    kept = [feature for feature in theme["features"] if feature != "navigation.sections"]
    theme["features"] = [*kept, "navigation.prune"]


def on_page_markdown(markdown, page, config, files):
    """The home page with its names of rounds and of pages as links; the latter lead into the newest round."""
    if not page.is_homepage or not (rounds := _newest_first(files)):
        return markdown
    listed = ", ".join(_link(f"rounds/{quote(name)}/index.html", name) for name in rounds[:MANY])
    markdown = markdown.replace("**Rounds**", f"{_link('rounds/index.html', 'Rounds')} ({listed})", 1)
    for words, folder in PAGES.items():
        if there := _first_of(files, f"rounds/{rounds[0]}/{folder}"):
            markdown = markdown.replace(f"| {words} |", f"| {_link(quote(there), words)} |", 1)
    return markdown


def _newest_first(files):
    """Names of the rounds as their list has them."""
    found = files.get_file_from_path("rounds/index.md")
    text = Path(found.abs_src_path).read_text("utf-8") if found else ""
    return [unescape(name) for name in re.findall(r'data-round="([^"]*)"', text)]


def _first_of(files, start):
    """Where the site has the first page whose path begins so."""
    ends = re.compile(r"[^/]*(/index)?\.(md|html)").fullmatch
    near = (file for file in files if file.src_uri.startswith(start) and ends(file.src_uri[len(start) :]))
    found = sorted(file.dest_uri for file in near)
    return found[0] if found else None


def _link(href, name):
    """Of a name that is a folder's, so that no character of it is markup."""
    return f'<a href="{href}">{re.sub("[^A-Za-z0-9 ]", lambda found: f"&#{ord(found[0])};", name)}</a>'


def _rounds(section, order):
    section.title = "Rounds"
    section.children.sort(key=lambda item: order.index(name) if (name := _folder(item, depth=1)) in order else -1)
    for child in section.children:
        if isinstance(child, Section):
            child.title = _folder(child, depth=1)
            child.children = sorted((_flat(item, child) for item in child.children), key=lambda i: _rank(i, REPORTS))
    return section


def _flat(item, parent):
    """A folder that holds nothing but its index is that page."""
    if isinstance(item, Section) and len(item.children) == 1 and not isinstance(item.children[0], Section):
        item = item.children[0]
        item.parent = parent
    return item


def _rank(item, order):
    """Its place by the name of its folder in a round or in docs/, else of its file."""
    parts = _first_page(item).file.src_uri.removesuffix(".md").split("/")
    name = parts[min(2, len(parts) - 1)] if parts[0] == "rounds" else parts[0]
    known = [place for place, key in enumerate(order) if name == key or name.startswith(f"{key}-")]
    return (known[0] if known else len(order), name)


def _first_page(item):
    return _first_page(item.children[0]) if isinstance(item, Section) else item


def _folder(item, depth=0):
    return _first_page(item).file.src_uri.split("/")[depth] if isinstance(item, Section) else None


def _section(title, children):
    section = Section(title, children)
    for child in children:
        child.parent = section
    return section
