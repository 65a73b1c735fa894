"""A round's front page: the verdict, what was measured on what, and the way to each report."""

from __future__ import annotations

from typing import Any

from genreport.figures import Figures
from genreport.places import listing_href
from genreport.provenance import Quantity
from genreport.reports.page import Page


def page(figures: Figures) -> Page:
    """The page a reader of a round meets first."""
    test = next((test for test in figures.tests if test.kind == "concurrency"), None)
    context = {
        "test": test,
        "single": _leader(figures, test, first=True),
        "peak": _leader(figures, test, first=False),
        "challengers": test.engines[1:] if test else (),
        "crossings": _crossings(figures, test),
        "hypotheses": figures.round.plan.get("hypotheses") or [],
        "not_measured": figures.round.plan.get("not_measured") or [],
        "unsealed": figures.round.unsealed,
        "flags": figures.flags,
        "findings": [
            {"file": found.file, "href": listing_href(found.file, found.line), "what": found.what}
            for found in figures.findings
        ],
    }
    return Page("index.md", "front.md", context)


def _leader(figures: Figures, test: Any, *, first: bool) -> dict[str, Any] | None:
    """The engine with the highest throughput at the lowest or the highest common load, and the runner-up's figure."""
    if test is None:
        return None
    names = [{level.name: level for level in test.levels_of(engine)} for engine in test.engines]
    common = [level for name, level in names[0].items() if all(name in other for other in names)] if names else []
    if not common:
        return None
    level = common[0] if first else common[-1]
    found = {e: figures.ledger.get(f"{test.id}.{e}.{level.name}.output_throughput") for e in test.engines}
    ranked = sorted((e for e in found if not _missing(found[e])), key=lambda e: -found[e].value)
    if not ranked:
        return None
    return {
        "engine": ranked[0],
        "throughput": found[ranked[0]],
        "concurrency": figures.ledger[f"{test.id}.{ranked[0]}.{level.name}.concurrency"],
        "others": [(engine, found[engine]) for engine in ranked[1:]],
    }


def _crossings(figures: Figures, test: Any) -> list[tuple[str, list[Quantity]]]:
    if test is None or len(test.engines) < 2:
        return []
    base, *others = test.engines
    found = []
    for other in others:
        scope = f"pair.{test.id}.{base}.{other}"
        crossings = (figures.ledger.get(f"{scope}.cross{k}") for k in range(1, 10))
        found.append((other, [q for q in crossings if q is not None]))
    return found


def _missing(q: Quantity | None) -> bool:
    return q is None or q.missing
