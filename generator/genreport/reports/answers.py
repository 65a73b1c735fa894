"""What each report found, in a line: for the front page and the index of the guide."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from genreport.figures import Figures
from genreport.figures.anatomy import PARTS
from genreport.reports.choices import Choice, Chooser
from genreport.reports.page import Page

# what a page decided, by its name in the page's context -> the page
DECIDED = {"sweeps": "concurrency", "waits": "ttft", "sides": "kv", "falls": "cliff", "cliffs": "cliff"}


@dataclass(frozen=True)
class Told:
    """What the reports' own pages decided: see `concurrency.Sweep`, `ttft.Anatomy`, `kv.Side`, `cliff.Fall`.

    `base` and `challengers` are engines of the concurrency sweep; `limits` its choices at each service level, `one` and
    `peak` those at the lowest common load and where no limit counts.
    """

    sweeps: Sequence[Any] = ()
    waits: Sequence[Any] = ()
    sides: Sequence[Any] = ()
    falls: Sequence[tuple[Any, Any]] = ()
    cliffs: Sequence[Any] = ()
    base: str | None = None
    challengers: tuple[str, ...] = ()
    test: str = ""
    limits: Sequence[Choice] = ()
    one: Choice | None = None
    peak: Choice | None = None

    @property
    def parts(self) -> dict[str, str]:
        """Part of a wait -> its figure of a level."""
        return PARTS

    @property
    def unpaired(self) -> list[Any]:
        """Cliff tests of one shape only, which nothing can be held against."""
        return [cliff for cliff in self.cliffs if not cliff.falls]

    @property
    def kept(self) -> Choice | None:
        """The first service level that an engine keeps."""
        return next((choice for choice in self.limits if choice.winner), None)


# where no report was written yet
NOTHING = Told()


def told(figures: Figures, reports: Sequence[Page]) -> Told:
    """What these pages of the round decided, and the choices of its first concurrency sweep."""
    pages = {page.slug: page.context for page in reports}
    found = {name: pages[slug].get(name) or () for name, slug in DECIDED.items() if slug in pages}
    return Told(**found, **_chosen(figures))


def _chosen(figures: Figures) -> dict[str, Any]:
    test = figures.sweep
    if test is None:
        return {}
    chooser = Chooser(figures, test)
    base, *others = test.engines
    return {
        "base": base,
        "challengers": tuple(others),
        "test": test.id,
        "limits": chooser.by_limit(),
        "one": next(iter(chooser.by_load()), None),
        "peak": chooser.at_peak(),
    }
