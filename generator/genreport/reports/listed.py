"""A round's entry in the list of rounds."""

from __future__ import annotations

from genreport.figures import Figures
from genreport.reports import front
from genreport.reports.page import Page


def page(figures: Figures) -> Page:
    """The entry; it has no place of its own below the round's folder."""
    return Page("", "_round.html", front.verdict(figures) | {"unsealed": figures.round.unsealed})
