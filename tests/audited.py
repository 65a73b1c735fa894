"""Holds pages and charts that no site was built of against their figures, as the audit does."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from compose import VLLM, Test, compose_round
from genreport.audit.case import Case
from genreport.audit.charts import Drawing, check_chart
from genreport.audit.figures import check_figures
from genreport.audit.links import Links
from genreport.audit.manifest import Manifest
from genreport.audit.names import is_name, vocabulary
from genreport.audit.pages import read_page
from genreport.audit.report import Report
from genreport.charts import Chart
from genreport.evaluate import Evidence
from genreport.figures import Figures, Limit, compute
from genreport.pages import shared_context, write
from genreport.publish import figures_of
from genreport.reports import all_pages
from genreport.rounds import Round


def charts(figures: Figures, drawn: Iterable[Chart]) -> Report:
    """What the audit counts in these charts and finds wrong with them; where their points lead is not followed."""
    plain = json.loads(json.dumps(figures.ledger.manifest("composed", {})))
    folder = figures.round.path
    known = Manifest(folder, {}, plain["columns"], {figure["id"]: figure for figure in plain["figures"]})
    case = Case(known, vocabulary(folder), Links(folder), Report())
    case.links.problem = lambda page, target: None
    for chart in drawn:
        check_chart(case, Path(chart.name), Drawing(json.dumps(chart.spec), chart.alt))
    return case.report


def digits(round_path: Path, markdown: str) -> list[str]:
    """Texts of a page's Markdown that hold a number without a figure, or a name that the round does not know."""
    seen = read_page(f"<article>{markdown.split('---', 2)[2]}</article>")
    known = vocabulary(round_path)
    return [text for text in seen.loose if text.strip()] + [name for name in seen.literals if not is_name(name, known)]


def recomputed(figures: Figures) -> Report:
    """What the second path makes of every figure of a round that stands for itself; it fails the test where they differ."""
    plain = json.loads(json.dumps(figures.ledger.manifest(figures.round.name, {})))
    known, report = {figure["id"]: figure for figure in plain["figures"]}, Report()
    check_figures(known, known, Evidence(figures.round.bytes, plain["columns"]), report)
    assert not report.failures
    return report


def page(round: Round, path: str, given: Sequence[Limit] = ()) -> str:
    """One page of a round as Markdown, after every figure was computed twice and agreed, as in a build."""
    figures = figures_of(round, given).for_pages
    found = next(page for page in all_pages(figures) if page.path == path)
    return write(found, figures.ledger, shared_context(figures)).text


def read(figures: Figures, path: str) -> str:
    """A page's text as a reader has it, without markup."""
    page = next(page for page in all_pages(figures) if page.path == path)
    markup = write(page, figures.ledger, shared_context(figures)).text
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", markup)).replace("\u202f", " ").split())


def composed(path: Path, *tests: Test, **what: object) -> Figures:
    """Figures of a composed round, recomputed: one engine, one repeat, no jitter, unless told."""
    what = {"engines": (VLLM,), "repeats": 1, "jitter": 0, "latency": lambda *_: (0.05, 0.02)} | what
    figures = compute(compose_round(path / "composed", tests=tests, **what))
    recomputed(figures)
    return figures
