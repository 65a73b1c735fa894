"""The selection guide as one file to mail: no site around it, no request, each number's way to the evidence inside.

Charts are drawn here, once, in the light theme. Behind the guide stands an appendix with the derivation of every figure it
shows and of all that these rest on, as in the site, and with the hashes of the files that they name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from html import escape
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from genreport.charts import Chart
from genreport.figures import Figures
from genreport.pages import Printer, write
from genreport.places import mailed_file
from genreport.provenance import Ledger
from genreport.reports import Page
from genreport.rounds import Round
from genreport.site import resources
from genreport.site.bundle import svg
from genreport.site.derivations import Links, entry
from genreport.site.listings import Listed
from genreport.words import templates_folder

STYLES, SCRIPT = ("colours.css", "genreport.css", "guide.css", "print.css"), "guide.js"
WIDTH = 760  # px of a drawing
_COLOUR = re.compile(r"var\(--gr-[\w-]+, ?([^()]+)\)")


@dataclass(frozen=True)
class Mailed:
    """A page as one file: its path below the round's folder, its text, and how many figures it shows and derives."""

    path: str
    text: str
    shown: int
    derived: int

    @property
    def size(self) -> str:
        """How large it is, as a person reads it: thousands or millions of bytes."""
        count = len(self.text.encode())
        return f"{count / 1e6:.1f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def tells_a_guide(page: Page) -> bool:
    """Whether a page is a guide that speaks for an engine, and so is worth a file of its own."""
    return page.template == "guide.md" and page.context["test"] is not None


def guide_file(figures: Figures, page: Page, shared: dict[str, Any]) -> Mailed:
    """The guide's page as one file."""
    printer = _Alone(figures.ledger, "")
    appendix = _Appendix(figures, printer)
    own = {"style": _style(), "script": _asset(SCRIPT), "appendix": appendix.entries, "files": appendix.files}
    written = write(replace(page, template="guide-file.html"), figures.ledger, shared | own, printer)
    return Mailed(mailed_file(figures.round.name), written.text, len(written.figures), len(appendix.ids))


class _Alone(Printer):
    """Numbers lead into the same file, and charts are pictures."""

    alone = True

    def target(self, id: str) -> str:
        return f"#{quote(id)}"

    def chart(self, chart: Chart) -> Markup:
        about = chart.spec.get("usermeta", {})
        title, better = (escape(about.get(name, "")) for name in ("title", "better"))
        heading = f'<p class="gr-title"><strong>{title}</strong> <span>{better}</span></p>'
        return Markup(str(super().chart(chart)).removesuffix("</div>") + heading + _picture(chart) + "</div>")


def _picture(chart: Chart) -> str:
    drawn = _COLOUR.sub(r"\1", svg(chart.spec | {"width": WIDTH}))
    # a point's link, which the library made whole by an address of its own, leads into this file
    return re.sub(r'(?:xlink:)?href="[^"#]*#', 'href="#', drawn)


class _Inside(Links):
    """Inputs lead into the same file; lines, other rounds and the manifest are named, and their hashes stand at its end."""

    def here(self, id: str) -> str:
        return ""

    def number(self, id: str, text: str) -> str:
        return text

    def figure(self, id: str) -> str:
        return f'<a href="#{quote(id)}">{escape(id, quote=False)}</a>'

    def page(self, href: str, text: str) -> str:
        return text

    def request(self, file: str, line: int) -> str:
        return ""

    def digest(self, sha256: str) -> str:
        return f'<code class="n">{sha256[:8]}</code>'


class _Appendix:
    """The derivations of what a page printed; to be asked for once all of it is printed."""

    def __init__(self, figures: Figures, printer: Printer) -> None:
        self.figures, self.printer = figures, printer

    @cached_property
    def ids(self) -> list[str]:
        """Every figure that was printed and all that it rests on, in the order of the ledger."""
        wanted = _closure(self.figures.ledger, self.printer.printed)
        return [q.id for q in self.figures.ledger if q.id in wanted]

    def entries(self) -> Markup:
        """The derivation of each."""
        ledger = self.figures.ledger
        links = _Inside({file: Listed(file, sha256, 0, 0) for file, sha256, _ in self.files()})
        return Markup("\n".join(entry(ledger[id], ledger, links) for id in self.ids))

    def files(self) -> list[tuple[str, str, str]]:
        """The files that these derivations name: path in the round, SHA-256 as stored, number of lines."""
        named = {file for id in self.ids for file in self.figures.ledger[id].files()}
        return [_fact(self.figures.round, file) for file in sorted(named)]


def _closure(ledger: Ledger, printed: Iterable[str]) -> set[str]:
    found, queue = set(), list(printed)
    while queue:
        id = queue.pop()
        if id not in found:
            found.add(id)
            queue += ledger[id].input_ids()
    return found


def _fact(round: Round, file: str) -> tuple[str, str, str]:
    data = round.unpacked(file)
    lines = data.count(b"\n") + (not data.endswith(b"\n") if data else 0)
    return file, round.digest(file).sha256, f"{lines:,}"


def _style() -> Markup:
    own = (templates_folder() / "guide-file.css").read_text("utf-8")
    return Markup("\n").join([*map(_asset, STYLES), Markup(own)])


def _asset(name: str) -> Markup:
    return Markup((resources() / "docs" / "assets" / name).read_text("utf-8"))
