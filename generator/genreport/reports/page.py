"""What every page of a round is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from genreport.figures import Figures
from genreport.provenance import Quantity


@dataclass(frozen=True)
class Page:
    """One page: its place below the round's folder, its template, and what the template may say."""

    path: str
    template: str
    context: dict[str, Any] = field(default_factory=dict)

    @property
    def slug(self) -> str:
        return self.path.removesuffix("index.md").strip("/")


class Drawn(dict):
    """Charts by name; one that has nothing to draw is `None`, so that a template can ask for any."""

    def __missing__(self, name: str) -> None:
        return None


@dataclass(frozen=True)
class Ran:
    """How often the levels of a page ran: the smallest and the largest count, and whether there are several levels."""

    least: Quantity
    most: Quantity
    several: bool


def repeated(figures: Figures, levels: Sequence[str]) -> Ran:
    """How often these levels (scopes) ran."""
    counts = sorted((figures.ledger[f"{level}.repeats"] for level in levels), key=lambda q: q.value)
    return Ran(counts[0], counts[-1], len(counts) > 1)


def crewed(figures: Figures, levels: Sequence[str]) -> bool:
    """Whether several processes held the load of one of these levels."""
    found = (figures.ledger.get(f"{level}.client_workers") for level in levels)
    return any(q is not None and not q.missing for q in found)
