"""From figures to what each page says: Python decides which sentence is earned, templates word it."""

from __future__ import annotations

from genreport.figures import Figures
from genreport.reports import concurrency, evidence, front, head_to_head, waiting
from genreport.reports.page import Page

__all__ = ["Page", "all_pages"]


def all_pages(figures: Figures) -> list[Page]:
    """Every page of a round in reading order."""
    return [
        front.page(figures),
        concurrency.page(figures),
        *waiting.pages(figures, before_head_to_head=True),
        *head_to_head.pages(figures),
        *waiting.pages(figures, before_head_to_head=False),
        evidence.page(figures),
    ]
