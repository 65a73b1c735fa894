"""How every figure came about: a page a level, engine or pair, an entry a figure, down to the lines it rests on."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from pathlib import Path

from genreport.display import named
from genreport.places import FIGURES, MANIFEST, derivation_group, derivation_href, foreign_href, listing_href
from genreport.provenance import (
    COLUMNS,
    Foreign,
    Given,
    Ledger,
    Line,
    Lines,
    Pointer,
    Quantity,
    Rows,
    Samples,
    Source,
    Tally,
)
from genreport.site import shell
from genreport.site.listings import Listed
from genreport.words import say

__all__ = ["derivation_href", "write_derivations"]

FOLDED = 8  # lists longer than this are folded
# a list of so many entries, a curve of so many points stands whole; of a longer one so many; the manifest has all
ENTRIES, POINTS = (64, 16), (256, 64)
GROUPS = 2000  # links on a page of the index
HOME = "../"  # from a page of derivations to the round's folder


def write_derivations(round_name: str, ledger: Ledger, listed: Iterable[Listed], folder: Path, templates: Path) -> None:
    """Writes the pages of all figures and their index below the round's folder in the docs tree."""
    groups: dict[str, list[Quantity]] = {}
    for q in ledger:
        groups.setdefault(derivation_group(q.id), []).append(q)
    links = Links({found.file: found for found in listed})
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    for group, quantities in groups.items():
        entries = "\n".join(entry(q, ledger, links) for q in quantities)
        _write(round_name, folder, templates, f"{group}.html", group, len(quantities), entries, "derivations")
    pages = [list(groups)[first : first + GROUPS] for first in range(0, max(1, len(groups)), GROUPS)]
    for page, names in enumerate(pages):
        body = _index({name: groups[name] for name in names}) + _onwards(page, len(pages))
        _write(round_name, folder, templates, _index_name(page), say("derivation.all"), len(ledger), body, "index")


def _write(round_name, folder, templates, name, here, count, body, kind) -> None:
    trail = [(f"{HOME}index.html", round_name), ("index.html", FIGURES)]
    text = shell.page(
        templates,
        "derivations.html",
        f"rounds/{round_name}/{FIGURES}/{name}",
        body=body,
        kind=kind,
        title=f"{here} · {round_name}",
        trail=trail,
        here=here,
        count=say("derivation.figures", count=f"{count:,}"),
    )
    (folder / FIGURES / name).write_text(text, "utf-8")


def _index(groups: dict[str, list[Quantity]]) -> str:
    items = "".join(
        f'<li><a href="{_attr(_page_of(found[0].id))}">{_esc(group)}</a> <span class="n">{len(found):,}</span></li>\n'
        for group, found in groups.items()
    )
    return f'<ul class="gr-def">\n{items}</ul>'


def _index_name(page: int) -> str:
    return f"index.{page + 1}.html" if page else "index.html"


def _onwards(page: int, count: int) -> str:
    """The way to the next page of the index, and back to the first one after the last."""
    if count == 1:
        return ""
    following = (page + 1) % count
    return f'<p class="gr-def"><a href="{_index_name(following)}">{_esc(say("derivation.onwards"))}</a></p>'


def _page_of(id: str) -> str:
    return derivation_href(id).removeprefix(f"{FIGURES}/").partition("#")[0]


class Links:
    """Where an entry leads in a site: to itself, to the entries of its inputs, to the lines and requests it rests on."""

    def __init__(self, listed: Mapping[str, Listed]) -> None:
        self.listed = listed

    def here(self, id: str) -> str:
        return f'<a href="#{_attr(id)}">#</a> '

    def number(self, id: str, text: str) -> str:
        return f'<a class="gr-num" data-id="{_attr(id)}" href="#{_attr(id)}">{text}</a>'

    def figure(self, id: str) -> str:
        return self.page(derivation_href(id), _esc(id))

    def page(self, href: str, text: str) -> str:
        """Something beside the figures' folder."""
        return f'<a href="{_attr(HOME + href)}">{text}</a>'

    def line(self, file: str, line: int | None, text: str) -> str:
        return self.page(self._href(file, line), text)

    def request(self, file: str, line: int) -> str:
        return " " + self.page(self._href(file, line).replace("#L", "#request-L"), _esc(say("card.timeline")))

    def digest(self, sha256: str) -> str:
        """The beginning of a hash, with all of it at hand."""
        return f'<code class="n" title="sha256 {sha256}">{sha256[:8]}</code>'

    def _href(self, file: str, line: int | None) -> str:
        return listing_href(file, line, self.listed[file].pages if file in self.listed else (1,))


def entry(q: Quantity, ledger: Ledger, links: Links) -> str:
    """One figure as markup: only its value is audited as a number, all else repeats the manifest (`gr-def`)."""
    rows = [
        ("derivation.formula", f"<code>{_esc(q.formula)}</code>{_columns(q)}" if q.formula else ""),
        ("derivation.inputs", _inputs(q, ledger, links)),
        ("derivation.read_from", _list([_source(source, links) for source in q.sources], links)),
        ("derivation.notes", _esc(", ".join(q.notes))),
    ]
    table = "".join(f"<tr><th>{_esc(say(key))}</th><td>{cell}</td></tr>" for key, cell in rows if cell)
    return (
        f'<section class="d" id="{_attr(q.id)}"><h2 class="gr-def">{links.here(q.id)}{_esc(q.id)}</h2>\n'
        f'<div class="v">{_value(q, links)}</div>\n<table class="gr-def"><tbody>{table}</tbody></table></section>'
    )


def _value(q: Quantity, links: Links) -> str:
    if q.missing:
        return f'{links.number(q.id, _esc(say("number.na")))} <small class="gr-def why">{_esc(q.reason or "")}</small>'
    n = "" if q.n is None else _esc(say("derivation.n", n=f"{q.n:,}"))
    count = n and f' <small class="gr-def">{n}</small>'
    if isinstance(q.value, tuple):
        points = "".join(f"<li>{point}</li>" for point in _points(q.value, links))
        return (
            f'<span class="gr-def">{_esc(say("derivation.curve", count=len(q.value), unit=named(q.unit)))}{count}'
            f"<details><summary>{_esc(say('derivation.all_points'))}</summary><ul>{points}</ul></details></span>"
        )
    return links.number(q.id, _esc(f"{plain(q.value)} {_unit(q.unit)}".strip())) + count


def plain(value: float) -> str:
    """The shortest decimal text that is this very value, without an exponent; thousands separated."""
    whole, _, part = format(Decimal(repr(value)), "f").partition(".")
    grouped = f"{int(whole):,}" if whole.strip("-") else whole
    if whole.startswith("-"):
        grouped = "−" + grouped.removeprefix("-")
    return grouped + (f".{part}" if part.strip("0") else "")


def _unit(unit: str) -> str:
    """Base units only, and none for what has none."""
    return "" if unit in ("1", "count", "ratio") else named(unit)


def _columns(q: Quantity) -> str:
    """The definitions of the request columns its formula names."""
    used = [name for name in COLUMNS if any(isinstance(s, Rows) for s in q.sources) and _names(q.formula, name)]
    return "".join(f'<br><span class="n">{name} =</span> <code>{_esc(COLUMNS[name])}</code>' for name in used)


def _names(formula: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", formula) is not None


def _inputs(q: Quantity, ledger: Ledger, links: Links) -> str:
    found = []
    for alias, given in q.inputs.items():
        ids = (given,) if isinstance(given, str) else given
        told = [
            f'{links.figure(id)} <span class="n">{_brief(ledger[id])}</span>' for id in ids[: _told(len(ids), ENTRIES)]
        ]
        several = "" if isinstance(given, str) else f"[{len(ids)}] "
        found.append(f"<code>{_esc(alias)}</code> = {several}{_list(told, links, len(ids))}")
    return _list(found, links)


def _brief(q: Quantity) -> str:
    if q.missing:
        text = say("number.na")
    else:
        text = say("derivation.points", count=len(q.value)) if isinstance(q.value, tuple) else plain(q.value)
    return _esc(f"{text} {_unit(q.unit)}")


def _list(items: list[str], links: Links, count: int | None = None) -> str:
    """The entries of a list; `count` is how many there are where not all are given."""
    count = len(items) if count is None else count
    if count == 1:
        return items[0]
    body = "<ul>" + "".join(f"<li>{item}</li>" for item in _all(items, links, count)) + "</ul>" if items else ""
    if count <= FOLDED:
        return body
    return f"<details><summary>{_esc(say('derivation.entries', count=f'{count:,}'))}</summary>{body}</details>"


def _all(items: list[str], links: Links, count: int) -> list[str]:
    """The entries, and where the rest of them is if that is not all."""
    left = count - len(items)
    more = links.page(MANIFEST, _esc(say("derivation.more", count=f"{left:,}")))
    return [*items, more] if left else items


def _points(values: tuple[float, ...], links: Links) -> list[str]:
    told = values[: _told(len(values), POINTS)]
    return _all([f"[{k}] {plain(value)}" for k, value in enumerate(told)], links, len(values))


def _told(count: int, room: tuple[int, int]) -> int:
    """How many of a list's entries a page tells."""
    whole, first = room
    return count if count <= whole else first


def _source(source: Source, links: Links) -> str:
    match source:
        case Rows():
            return _rows(source, links)
        case Line():
            return f"{_place(source.file, source.line, links)}<br>{_code(say('derivation.matched'), source.pattern)}"
        case Lines():
            where = _range(source.file, source.first, source.last, links)
            return f"{where}<br>{_code(say('derivation.lines', count=f'{source.count:,}'), source.pattern)}"
        case Pointer():
            return f"{_place(source.file, source.line, links)} {_code(say('derivation.field'), source.pointer)}"
        case Tally():
            return f"{_code(say('derivation.count_of'), source.what)} {_esc(say('derivation.in_manifest'))}"
        case Foreign():
            there = links.page(foreign_href(source.round, source.figure), _esc(f"{source.round}: {source.figure}"))
            return f"{there} {links.digest(source.seal)}"
        case Given():
            return _code(say("derivation.given"), f"{source.option} {source.text}")
        case Samples():
            return f"{_range(source.file, *source.lines, links)} {_code(say('derivation.series'), source.series)}"


def _rows(source: Rows, links: Links) -> str:
    files = _list(
        [_place(file, None, links) for file in source.files[: _told(len(source.files), ENTRIES)]],
        links,
        len(source.files),
    )
    picks = ", ".join(_pick(file, line, source.files, links) for file, line in source.picks)
    look = f'<br><span class="n">{_esc(say("derivation.look_at"))}</span> {picks}' if picks else ""
    gap = "<br>" if len(source.files) == 1 else ""
    return f"{files}{gap}{_code(say('derivation.rows', count=f'{source.count:,}'), source.where)}{look}"


def _pick(file: str, line: int, files: tuple[str, ...], links: Links) -> str:
    """A deciding record; with several repeats, which one it stands in."""
    where = "" if len(files) == 1 else f"{file.split('/')[-2]} "
    return links.line(file, line, _esc(where + _line(line))) + links.request(file, line)


def _place(file: str, line: int | None, links: Links) -> str:
    where = _esc(file) + (f":{line}" if line is not None else "")
    digest = links.listed[file].sha256 if file in links.listed else ""
    return links.line(file, line, where) + (f" {links.digest(digest)}" if digest else "")


def _range(file: str, first: int, last: int, links: Links) -> str:
    end = links.line(file, last, _esc(_line(last)))
    return f'{_place(file, first, links)} <span class="n">{_esc(say("derivation.to"))} {end}</span>'


def _line(line: int) -> str:
    return say("derivation.line", line=f"{line:,}")


def _code(word: str, text: str) -> str:
    return f'<span class="n">{_esc(word)}</span> <code>{_esc(text)}</code>'


def _esc(text: str) -> str:
    return html.escape(text, quote=False)


def _attr(text: str) -> str:
    return html.escape(text)
