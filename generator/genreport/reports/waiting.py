"""The reports whose pages are not written yet: their places, the test that fills each, and whether the round ran it."""

from __future__ import annotations

from genreport.figures import Figures
from genreport.reports.page import Page

_BEFORE = (("ttft", "02", "concurrency"), ("kv", "03", "length"), ("cliff", "04", "cliff"))
_AFTER = (("guide", "06", "concurrency"),)


def pages(figures: Figures, *, before_head_to_head: bool) -> list[Page]:
    """A page for each: what it will answer, from which test, and what of that test this round holds."""
    return [_page(figures, *place) for place in (_BEFORE if before_head_to_head else _AFTER)]


def _page(figures: Figures, slug: str, number: str, kind: str) -> Page:
    tests = [test for test in figures.tests if test.kind == kind]
    return Page(f"{slug}/index.md", "waiting.md", {"slug": slug, "number": number, "kind": kind, "ran": tests})
