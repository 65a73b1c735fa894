"""A round's front page: the verdict, each report's answer in a line, what was measured on what, and how to do it again."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

from genreport.comparing import Comparison
from genreport.comparing.hypotheses import Judged
from genreport.figures import Figures, TestView
from genreport.figures.crossing import met
from genreport.figures.planned import texts
from genreport.figures.pointers import lines_of
from genreport.provenance import Quantity
from genreport.reports.answers import NOTHING, Told
from genreport.reports.choices import Choice, Chooser
from genreport.reports.page import Page
from genreport.rounds import PLAN

NOTED = 30  # remarks that the page lists
# what a plan leaves to the environment
VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)\}")


def page(
    figures: Figures,
    told: Told = NOTHING,
    judged: Sequence[Judged] = (),
    comparisons: Sequence[Comparison] = (),
    scheduled: Sequence[Page] = (),
    *,
    remembered: bool = False,
) -> Page:
    """The page a reader of a round meets first.

    `scheduled` are those of its open loops, conversations and soaks; `remembered`: it has a history.
    """
    context = verdict(figures) | {
        "told": told,
        "given": [choice for choice in told.limits if choice.slo.given],
        "hypotheses": judged,
        "comparisons": comparisons,
        "scheduled": scheduled,
        "remembered": remembered,
        "not_measured": texts(figures.round.plan, "not_measured"),
        "unsealed": figures.round.unsealed,
        "variables": sorted(set(VARIABLE.findall(figures.round.text(PLAN)))),
        "tool": figures.round.head.tool,
        "flags": figures.flags,
        "findings": [
            {"file": found.file, "href": figures.listings.href(found.file, found.line), "what": found.what}
            for found in figures.findings
        ],
        "noted": list(islice(_noted(figures), NOTED)),
    }
    return Page("index.md", "front.md", context)


def _noted(figures: Figures) -> Iterator[dict[str, str]]:
    """What the recorder remarked on a repeat, each with the line of its facts that says so."""
    for repeat in figures.round.levels:
        lines = lines_of(figures.round.text(repeat.facts_file)) if repeat.facts.remarks else {}
        for place, text in enumerate(repeat.facts.remarks):
            href = figures.listings.href(repeat.facts_file, lines.get(f"/remarks/{place}"))
            yield {"key": repeat.facts.key, "href": href, "text": text}


def verdict(figures: Figures) -> dict[str, Any]:
    """What the verdict rests on: who leads at both ends of the first concurrency sweep, and where curves cross.

    `single` and `peak` are the lowest and the highest common load at which an engine has a throughput; `silent` are the
    engines that completed nothing; `untold` is a throughput that completed requests do not tell.
    """
    test = figures.sweep
    loads = Chooser(figures, test).by_load() if test else ()
    leaders = [found for choice in loads if (found := _leader(choice))]
    found = {engine: _rates(figures, test, engine) for engine in (test.engines if test else ())}
    return {
        "test": test,
        "single": leaders[0] if leaders else None,
        "peak": leaders[-1] if leaders else None,
        "silent": [engine for engine, rates in found.items() if not rates],
        "untold": next((q for rates in found.values() for q in rates if q.missing), None),
        "crossings": _crossings(figures, test),
    }


def _rates(figures: Figures, test: TestView, engine: str) -> list[Quantity]:
    """The throughput of each level at which a request completed."""
    ids = [level.id for level in test.levels_of(engine) if figures.ledger[f"{level.id}.completed"].value]
    return [figures.ledger[f"{id}.output_throughput"] for id in ids]


def _leader(choice: Choice) -> dict[str, Any] | None:
    """What a load's choice says: the engine ahead, its rivals and the others with theirs; `None` where none has a result."""
    ranked = sorted((c for c in choice.cells if not c.throughput.missing), key=lambda c: -c.throughput.value)
    if not ranked:
        return None
    tied = choice.winner is None
    rivals = {c.engine for c in ranked[1:2]} if tied else {rival.cell.engine for rival in choice.rivals}
    return {
        "engine": ranked[0].engine,
        "call": "close" if tied else choice.call,
        "rivals": [(c.engine, c.throughput, c.at) for c in ranked if c.engine in rivals],
        "interval": choice.rivals[0].low if choice.rivals else None,
        "throughput": ranked[0].throughput,
        "at": ranked[0].at,
        "concurrency": ranked[0].load,
        "others": [(c.engine, c.throughput, c.at) for c in ranked[1:]],
    }


def _crossings(figures: Figures, test: TestView | None) -> list[tuple[str, list[Quantity]]]:
    """Each challenger's crossings with the baseline; left out where fewer than two common levels could tell of any."""
    if test is None:
        return []
    base, *others = test.engines
    return [
        (other, met(figures.ledger, f"pair.{test.id}.{base}.{other}.cross"))
        for other in others
        if _both(figures, test, other)
    ]


def _both(figures: Figures, test: TestView, other: str) -> bool:
    shared = test.shared(test.engines[0], other)
    return sum(not any(_missing(figures.ledger[f"{v.id}.output_throughput"]) for v in pair) for pair in shared) > 1


def _missing(q: Quantity | None) -> bool:
    return q is None or q.missing
