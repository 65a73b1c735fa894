"""What every page of a round is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from genreport.figures import Figures, TestView
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


# kind of a test -> the place of its page; of the kinds in EACH every test has a page, of a cliff all share one
PLACES = {"concurrency": "concurrency", "length": "kv", "cliff": "cliff", "open": "arrivals",
          "conversation": "conversations", "soak": "soak"}  # fmt: skip
EACH = ("open", "conversation", "soak")


def placed(figures: Figures) -> dict[str, str]:
    """Test -> the place of the page that shows it, the first of a kind at the usual one; a test without one is left out."""
    found: dict[str, str] = {}
    for test in figures.tests:
        place = PLACES[test.kind]
        if place not in found.values() or test.kind == "cliff":
            found[test.id] = place
        elif test.kind in EACH:
            found[test.id] = f"{place}-{test.id}"
    return found


def tests_of(figures: Figures, kind: str) -> list[tuple[TestView, str]]:
    """The tests of a kind in EACH with the places of their pages."""
    places = placed(figures)
    return [(test, places[test.id]) for test in figures.tests if test.kind == kind]


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
