"""From figures to what each page says: Python decides which sentence is earned, templates word it."""

from __future__ import annotations

from genreport.figures import Figures
from genreport.reports import cliff, concurrency, evidence, front, guide, head_to_head, kv, ttft
from genreport.reports.page import Page

__all__ = ["Page", "all_pages"]


def all_pages(figures: Figures) -> list[Page]:
    """Every page of a round in reading order."""
    return [
        front.page(figures),
        concurrency.page(figures),
        ttft.page(figures),
        kv.page(figures),
        cliff.page(figures),
        *head_to_head.pages(figures),
        guide.page(figures),
        evidence.page(figures),
    ]
