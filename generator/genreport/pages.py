"""Report contexts to Markdown pages: the only module that imports jinja2 for pages, and the only way a number gets in.

Templates are Markdown headings around raw HTML blocks, so that text from servers needs one escape, not two. `finalize`
refuses a bare number: what a template prints is text or a `Quantity`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Number
from typing import Any
from urllib.parse import quote

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup, escape

from genreport.charts import Chart
from genreport.charts.packing import dumped, packed
from genreport.display import shown
from genreport.errors import BuildError
from genreport.figures import Figures
from genreport.places import derivation_href, foreign_href, listing_href
from genreport.provenance import Foreign, Ledger, Quantity
from genreport.reports import Page, listed
from genreport.rounds import PLAN
from genreport.words import catalogue, say, templates_folder


@dataclass(frozen=True)
class Written:
    """A page as Markdown: its path below the round's folder, and which figures it prints."""

    path: str
    text: str
    figures: frozenset[str]


def write(page: Page, ledger: Ledger, shared: dict[str, Any], printer: Printer | None = None) -> Written:
    """Renders one page of a round; `printer` is given where it stands elsewhere than among the round's others."""
    tools = "" if printer else _tools(shared["round_name"], "../" * page.path.count("/"))
    printer = printer or Printer(ledger, "../" * page.path.count("/"))
    context = {**shared, **page.context, "page": page, "up": printer.up}
    text = _environment(printer).get_template(page.template).render(context)
    return Written(page.path, text + tools, frozenset(printer.printed))


def _tools(round_name: str, up: str) -> str:
    """What reading.js must know of a page: its round, the way to figures.js, and the words of the buttons it adds."""
    words = json.dumps(catalogue()["tool"], ensure_ascii=False, separators=(",", ":"))
    known = Markup('data-gr-round="{}" data-gr-up="{}" data-gr-words="{}"').format(round_name, up, words)
    return f'\n<div class="gr-page" hidden {known}></div>\n'


def list_entry(figures: Figures, shared: dict[str, Any]) -> str:
    """The round's entry in the list of rounds, whose links lead from there."""
    printer = Printer(figures.ledger, f"{quote(figures.round.name)}/")
    return write(listed.page(figures), figures.ledger, shared, printer).text


def round_list(entries: Sequence[str]) -> str:
    """The list of rounds, from the entries that `list_entry` wrote."""
    template = _environment(Printer(Ledger(), "")).get_template("rounds.md")
    return template.render(entries=[Markup(entry) for entry in entries])


class Printer:
    """Turns quantities into links to their derivation and remembers which ones a page printed.

    `alone`: the page has no site around it to lead into.
    """

    alone = False

    def __init__(self, ledger: Ledger, up: str) -> None:
        self.ledger, self.up = ledger, up
        self.printed: set[str] = set()

    def number(self, given: Quantity | str) -> Markup:
        q = self.ledger[given] if isinstance(given, str) else given
        self.printed.add(q.id)
        text = say("number.na") if q.missing else shown(q.value, q.unit)
        kind = "gr-num gr-na" if q.missing else "gr-num"
        marks = "" if q.missing else "".join(_mark(note, q.unit) for note in q.notes if note in MARKS)
        # where figures.js lies beside the page a card says more, and sooner, than a title on each number would
        title = Markup(' title="{}"').format(_tooltip(q)) if self.alone else ""
        return Markup('<a class="{}" href="{}" data-id="{}"{}>{}</a>{}').format(
            kind, self.target(q.id), q.id, title, text, Markup(marks)
        )

    def target(self, id: str) -> str:
        """Where a figure's derivation stands; that of a borrowed one stands in its own round."""
        known = self.ledger.get(id)
        source = known.sources[0] if known and known.sources else None
        if isinstance(source, Foreign):
            return self.up + foreign_href(source.round, source.figure)
        return self.up + derivation_href(id)

    def chart(self, chart: Chart) -> Markup:
        self.printed.update(_ids(chart.spec))
        # its height before it is drawn, so that nothing below moves and a reader who comes back finds the place
        height = Markup(' style="--gr-height:{}px"').format(text) if (text := _height(chart.spec)) else ""
        return Markup(
            '<div class="gr-chart" role="img" aria-label="{}" data-gr-spec=\'{}\' data-gr-up="{}"{}></div>'
        ).format(chart.alt, _quoted(dumped(packed(chart.spec))), self.up, height)


def _height(spec: dict[str, Any]) -> str:
    """The height of a drawing in pixels, where it has but one."""
    return str(spec["height"]) if isinstance(spec.get("height"), int) else ""


# notes that a reader must see beside the number; their words are in templates/_parts.html
MARKS = {
    "n_too_small": "†",
    "by_model": "‡",
    "lower_bound": "≥",
    "above_ceiling": "!",
    "first_event_multi": "§",
}


# a share of a ceiling, and a factor that it still leaves, are at most what a ceiling that is a lower bound makes of them;
# the ceiling itself, and where it begins to bind, at least
OF_A_CEILING = ("share", "ratio")


def _mark(note: str, unit: str) -> Markup:
    mark = "≤" if note == "lower_bound" and unit in OF_A_CEILING else MARKS[note]
    return Markup('<sup class="gr-mark" data-note="{}">{}</sup>').format(note, mark)


def _tooltip(q: Quantity) -> str:
    if q.missing:
        return say("number.because", reason=q.reason)
    return q.formula if q.n is None else say("number.counted", formula=q.formula, n=f"{q.n:,}")


def _quoted(text: str) -> Markup:
    """Text between single quotes in markup: in JSON double ones are many, and each would be five characters."""
    return Markup(text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("'", "&#39;"))


def _ids(spec: Any) -> set[str]:
    if isinstance(spec, dict):
        own = {str(v).split("[")[0] for k, v in spec.items() if k.endswith("_id") and isinstance(v, str)}
        return own.union(*(_ids(v) for v in spec.values()))
    return set().union(*(_ids(v) for v in spec)) if isinstance(spec, list) else set()


class _Compiled(BytecodeCache):
    """Compiled templates of this process: every page has its own printer, none needs to compile again."""

    def __init__(self) -> None:
        self.kept: dict[tuple[str, str], bytes] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if (kept := self.kept.get((bucket.key, bucket.checksum))) is not None:
            bucket.bytecode_from_string(kept)

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.kept[bucket.key, bucket.checksum] = bucket.bytecode_to_string()


COMPILED = _Compiled()


def _environment(printer: Printer) -> Environment:
    environment = Environment(
        loader=FileSystemLoader(templates_folder()),
        bytecode_cache=COMPILED,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_finalizer(printer),
    )
    environment.globals |= {"fig": printer.ledger.get, "chart": printer.chart, "lit": literal, "num": printer.number}
    environment.globals |= {"say": say, "alone": printer.alone}
    environment.filters |= {"lit": literal, "day": _day}
    return environment


def _finalizer(printer: Printer) -> Callable[[Any], Any]:
    def finalize(value: Any) -> Any:
        if isinstance(value, Quantity):
            return printer.number(value)
        if isinstance(value, Number):
            raise BuildError(f"a template prints the bare number {value!r}", cure="pass a Quantity")
        return value

    return finalize


def literal(text: str) -> Markup:
    """A name that happens to hold digits (an engine's id, a version, a percentile's name): no measurement."""
    return Markup('<span class="gr-lit">{}</span>').format(escape(text))


def _day(unix_us: int) -> Markup:
    return literal(datetime.fromtimestamp(unix_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M UTC"))


def shared_context(figures: Figures) -> dict[str, Any]:
    """What every page of a round may speak of: its name, machine, engines and tests, and where its plan is listed."""
    round = figures.round
    return {
        "round_name": round.name,
        "sealed": round.sealed,
        "machine": round.machine,
        "launches": {view.engine: view.facts for view in reversed(figures.starts)},
        "engines": figures.engines,
        "colour_class": {engine: f"gr-e{(int(place) - 1) % 8 + 1}" for engine, place in figures.colours.items()},
        "tests": figures.tests,
        "started": _day(round.head.started_unix_us),
        "plan_href": listing_href(PLAN),
    }
