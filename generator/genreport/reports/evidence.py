"""How much of what the site says was checked against the round, and how to check it again."""

from __future__ import annotations

from genreport.figures import Figures
from genreport.reports.page import Page


def page(figures: Figures) -> Page:
    """The counts themselves are entered by the build, after it has recomputed every figure."""
    return Page("evidence/index.md", "evidence.md", {"round": figures.round})
