"""Report contexts to Markdown pages: the only module that imports jinja2 for pages, and the only way a number gets in.

Templates are Markdown headings around raw HTML blocks, so that text from servers needs one escape, not two. `finalize`
refuses a bare number: what a template prints is text or a `Quantity`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Number
from pathlib import Path
from typing import Any

from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket
from markupsafe import Markup, escape

from genreport.charts import Chart
from genreport.display import shown
from genreport.errors import BuildError
from genreport.figures import Figures
from genreport.places import derivation_href, listing_href
from genreport.provenance import Quantity
from genreport.reports import Page
from genreport.rounds import PLAN


@dataclass(frozen=True)
class Written:
    """A page as Markdown: its path below the round's folder, and which figures it prints."""

    path: str
    text: str
    figures: frozenset[str]


def templates_folder() -> Path:
    """The packaged templates, else the checkout's."""
    bundled = Path(__file__).parent / "_bundle" / "templates"
    return bundled if bundled.is_dir() else Path(__file__).parents[2] / "templates"


def write(page: Page, ledger, shared: dict[str, Any]) -> Written:
    """Renders one page of a round."""
    up = "../" * page.path.count("/")
    printer = Printer(ledger, up)
    text = _environment(printer).get_template(page.template).render({**shared, **page.context, "page": page, "up": up})
    return Written(page.path, text, frozenset(printer.printed))


class Printer:
    """Turns quantities into links to their derivation and remembers which ones a page printed."""

    def __init__(self, ledger, up: str) -> None:
        self.ledger, self.up = ledger, up
        self.printed: set[str] = set()

    def number(self, given: Quantity | str) -> Markup:
        q = self.ledger[given] if isinstance(given, str) else given
        self.printed.add(q.id)
        text = "n/a" if q.missing else shown(q.value, q.unit)
        kind = "gr-num gr-na" if q.missing else "gr-num"
        marks = "" if q.missing else "".join(_mark(note) for note in q.notes if note in MARKS)
        return Markup('<a class="{}" href="{}{}" data-id="{}" title="{}">{}</a>{}').format(
            kind, self.up, derivation_href(q.id), q.id, _tooltip(q), text, Markup(marks)
        )

    def chart(self, chart: Chart) -> Markup:
        self.printed.update(_ids(chart.spec))
        spec = json.dumps(chart.spec, ensure_ascii=False, separators=(",", ":"))
        return Markup(
            '<div class="gr-chart" role="img" aria-label="{}" data-gr-spec="{}" data-gr-up="{}"></div>'
        ).format(chart.alt, spec, self.up)


# notes that a reader must see beside the number; their words are in templates/marks.html
MARKS = {
    "n_too_small": "†",
    "by_model": "‡",
    "lower_bound": "≥",
    "above_ceiling": "!",
    "first_event_multi": "§",
}


def _mark(note: str) -> Markup:
    return Markup('<sup class="gr-mark" data-note="{}">{}</sup>').format(note, MARKS[note])


def _tooltip(q: Quantity) -> str:
    if q.missing:
        return f"n/a: {q.reason}"
    return q.formula + (f" · n = {q.n:,}" if q.n is not None else "")


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
        "colour_class": {engine: f"gr-e{(place - 1) % 8 + 1}" for place, engine in enumerate(figures.engines, 1)},
        "tests": figures.tests,
        "started": _day(round.head.started_unix_us),
        "plan_href": listing_href(PLAN),
    }
