"""How every figure came about: a page a level, engine or pair, an entry a figure, down to the lines it rests on."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path

from genreport.places import FIGURES, derivation_group, derivation_href, listing_href
from genreport.provenance import COLUMNS, Ledger, Line, Lines, Pointer, Quantity, Rows, Samples, Source, Tally
from genreport.site import shell
from genreport.site.listings import Listed

__all__ = ["derivation_href", "write_derivations"]

FOLDED = 8  # lists longer than this are folded
HOME = "../"  # from a page of derivations to the round's folder


def write_derivations(round_name: str, ledger: Ledger, listed: Iterable[Listed], folder: Path, templates: Path) -> None:
    """Writes the pages of all figures and their index below the round's folder in the docs tree."""
    groups: dict[str, list[Quantity]] = {}
    for q in ledger:
        groups.setdefault(derivation_group(q.id), []).append(q)
    hashes = {entry.file: entry.sha256 for entry in listed}
    (folder / FIGURES).mkdir(parents=True, exist_ok=True)
    for group, quantities in groups.items():
        entries = "\n".join(entry(q, ledger, hashes) for q in quantities)
        _write(round_name, folder, templates, f"{group}.html", group, len(quantities), entries, "derivations")
    _write(round_name, folder, templates, "index.html", "all", len(ledger), _index(groups), "index")


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
        count=f"{count:,} figures",
    )
    (folder / FIGURES / name).write_text(text, "utf-8")


def _index(groups: dict[str, list[Quantity]]) -> str:
    items = "".join(
        f'<li><a href="{_attr(_page_of(found[0].id))}">{_esc(group)}</a> <span class="n">{len(found):,}</span></li>\n'
        for group, found in groups.items()
    )
    return f'<ul class="gr-def">\n{items}</ul>'


def _page_of(id: str) -> str:
    return derivation_href(id).removeprefix(f"{FIGURES}/").partition("#")[0]


def entry(q: Quantity, ledger: Ledger, hashes: dict[str, str]) -> str:
    """One figure as markup: only its value is audited as a number, all else repeats the manifest (`gr-def`)."""
    rows = [
        ("formula", f"<code>{_esc(q.formula)}</code>{_columns(q)}" if q.formula else ""),
        ("inputs", _inputs(q, ledger)),
        ("read from", _list([_source(source, hashes) for source in q.sources])),
        ("notes", _esc(", ".join(q.notes))),
    ]
    table = "".join(f"<tr><th>{name}</th><td>{cell}</td></tr>" for name, cell in rows if cell)
    id = _attr(q.id)
    return (
        f'<section class="d" id="{id}"><h2 class="gr-def"><a href="#{id}">#</a> {_esc(q.id)}</h2>\n'
        f'<div class="v">{_value(q)}</div>\n<table class="gr-def"><tbody>{table}</tbody></table></section>'
    )


def _value(q: Quantity) -> str:
    if q.missing:
        return f'{_number(q, "n/a")} <small class="gr-def why">{_esc(q.reason or "")}</small>'
    count = f' <small class="gr-def">n = {q.n:,}</small>' if q.n is not None else ""
    if isinstance(q.value, tuple):
        points = "".join(f"<li>[{i}] {plain(value)}</li>" for i, value in enumerate(q.value))
        return (
            f'<span class="gr-def">{len(q.value)} points, {_esc(q.unit)}{count}'
            f"<details><summary>all points</summary><ul>{points}</ul></details></span>"
        )
    return f"{_number(q, f'{plain(q.value)} {_unit(q.unit)}'.strip())}{count}"


def _number(q: Quantity, text: str) -> str:
    id = _attr(q.id)
    return f'<a class="gr-num" data-id="{id}" href="#{id}">{_esc(text)}</a>'


def plain(value: float) -> str:
    """The shortest decimal text that is this very value, without an exponent; thousands separated."""
    whole, _, part = format(Decimal(repr(value)), "f").partition(".")
    grouped = f"{int(whole):,}" if whole.strip("-") else whole
    if whole.startswith("-"):
        grouped = "−" + grouped.removeprefix("-")
    return grouped + (f".{part}" if part.strip("0") else "")


def _unit(unit: str) -> str:
    """Base units only, and none for what has none."""
    return "" if unit in ("1", "count", "ratio") else unit


def _columns(q: Quantity) -> str:
    """The definitions of the request columns its formula names."""
    used = [name for name in COLUMNS if any(isinstance(s, Rows) for s in q.sources) and _names(q.formula, name)]
    return "".join(f'<br><span class="n">{name} =</span> <code>{_esc(COLUMNS[name])}</code>' for name in used)


def _names(formula: str, name: str) -> bool:
    return re.search(rf"\b{name}\b", formula) is not None


def _inputs(q: Quantity, ledger: Ledger) -> str:
    found = []
    for alias, given in q.inputs.items():
        ids = (given,) if isinstance(given, str) else given
        links = [_input(id, ledger) for id in ids]
        found.append(f"<code>{_esc(alias)}</code> = {links[0]}" if isinstance(given, str) else _many(alias, links))
    return _list(found)


def _many(alias: str, links: list[str]) -> str:
    return f"<code>{_esc(alias)}</code> = [{len(links)}] {_list(links)}"


def _input(id: str, ledger: Ledger) -> str:
    q = ledger[id]
    text = "n/a" if q.missing else f"{len(q.value)} points" if isinstance(q.value, tuple) else plain(q.value)
    return f'<a href="{_attr(HOME + derivation_href(id))}">{_esc(id)}</a> <span class="n">{text} {_unit(q.unit)}</span>'


def _list(items: list[str]) -> str:
    if len(items) == 1:
        return items[0]
    body = "<ul>" + "".join(f"<li>{item}</li>" for item in items) + "</ul>" if items else ""
    return f"<details><summary>{len(items):,} entries</summary>{body}</details>" if len(items) > FOLDED else body


def _source(source: Source, hashes: dict[str, str]) -> str:
    match source:
        case Rows():
            return _rows(source, hashes)
        case Line():
            return f"{_place(source.file, source.line, hashes)}<br>{_code('matched', source.pattern)}"
        case Lines():
            where = _range(source.file, source.first, source.last, hashes)
            return f"{where}<br>{_code(f'{source.count:,} lines that match', source.pattern)}"
        case Pointer():
            return f"{_place(source.file, source.line, hashes)} {_code('field', source.pointer)}"
        case Tally():
            return f"{_code('count of', source.what)} in this manifest"
        case Samples():
            return f"{_range(source.file, *source.lines, hashes)} {_code('series', source.series)}"


def _rows(source: Rows, hashes: dict[str, str]) -> str:
    files = _list([_place(file, None, hashes) for file in source.files])
    picks = ", ".join(_pick(file, line, source.files) for file, line in source.picks)
    look = f'<br><span class="n">look at</span> {picks}' if picks else ""
    gap = "<br>" if len(source.files) == 1 else ""
    return f"{files}{gap}{_code(f'{source.count:,} rows where', source.where)}{look}"


def _pick(file: str, line: int, files: tuple[str, ...]) -> str:
    """A deciding record; with several repeats, which one it stands in."""
    where = "" if len(files) == 1 else f"{file.split('/')[-2]} "
    return f'<a href="{_attr(HOME + listing_href(file, line))}">{_esc(where)}line {line:,}</a>'


def _place(file: str, line: int | None, hashes: dict[str, str]) -> str:
    where = _esc(file) + (f":{line}" if line is not None else "")
    digest = hashes.get(file, "")
    mark = f' <code class="n" title="sha256 {digest}">{digest[:8]}</code>' if digest else ""
    return f'<a href="{_attr(HOME + listing_href(file, line))}">{where}</a>{mark}'


def _range(file: str, first: int, last: int, hashes: dict[str, str]) -> str:
    end = f'<a href="{_attr(HOME + listing_href(file, last))}">line {last:,}</a>'
    return f'{_place(file, first, hashes)} <span class="n">to {end}</span>'


def _code(word: str, text: str) -> str:
    return f'<span class="n">{word}</span> <code>{_esc(text)}</code>'


def _esc(text: str) -> str:
    return html.escape(text, quote=False)


def _attr(text: str) -> str:
    return html.escape(text)
