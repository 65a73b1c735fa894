"""From figures to what each page says: Python decides which sentence is earned, templates word it."""

from __future__ import annotations

from collections.abc import Sequence

from genreport.comparing import Comparison
from genreport.comparing.hypotheses import Judged
from genreport.figures import Figures
from genreport.reports import (
    against,
    answers,
    arrivals,
    cliff,
    concurrency,
    conversations,
    evidence,
    front,
    guide,
    head_to_head,
    history,
    kv,
    listed,
    soak,
    ttft,
)
from genreport.reports.page import Page

__all__ = ["Page", "all_pages", "listed"]


def all_pages(
    figures: Figures,
    comparisons: Sequence[Comparison] = (),
    judged: Sequence[Judged] = (),
    story: history.History | None = None,
) -> list[Page]:
    """Every page of a round in reading order; `judged` are its hypotheses, `comparisons` those with earlier rounds.

    `story` is the history that the round is the newest one of.
    """
    reports = [
        concurrency.page(figures),
        ttft.page(figures, comparisons, judged),
        kv.page(figures),
        cliff.page(figures),
        *head_to_head.pages(figures),
    ]
    scheduled = [*arrivals.pages(figures), *conversations.pages(figures), *soak.pages(figures)]
    told = answers.told(figures, reports)
    return [
        front.page(figures, told, judged, comparisons, scheduled, remembered=story is not None),
        *reports,
        guide.page(figures, told, judged),
        *scheduled,
        *(page for comparison in comparisons for page in against.pages(comparison, judged)),
        *([history.page(story)] if story else []),
        evidence.page(figures),
    ]
