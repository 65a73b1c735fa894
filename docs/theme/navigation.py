"""Orders the navigation that MkDocs infers from the folders: rounds first, a round's reports in reading order.

MkDocs loads this file, also where genreport is not installed, so its two words, Rounds and Manual, are not in the catalogue.
"""

from __future__ import annotations

from mkdocs.structure.nav import Section

REPORTS = (
    "index", "concurrency", "ttft", "kv", "cliff", "head-to-head", "guide", "arrivals", "conversations", "soak", "against",
    "history", "method", "sources", "evidence",
)  # fmt: skip
MANY = 6  # rounds, with their list
MANUAL = ("method", "how-to", "plan", "cli", "format", "provenance", "architecture", "performance", "compare")


def on_nav(nav, config, files):
    """Home | Rounds (one section a round, its reports flat) | Manual (the hand-written pages)."""
    pages = [item for item in nav.items if not isinstance(item, Section)]
    home = [page for page in pages if page.is_homepage]
    rounds = [_rounds(item) for item in nav.items if _folder(item) == "rounds"]
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


def _rounds(section):
    section.title = "Rounds"
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
