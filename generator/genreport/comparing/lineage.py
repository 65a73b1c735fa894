"""Many rounds in time: which earlier ones each is compared with, so that a level is followed from round to round."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from genreport.comparing.environment import Conditions, Difference, of_machine, seal_of, slug_of
from genreport.comparing.matching import Match, pair_engines, pair_levels
from genreport.comparing.verdicts import Comparer
from genreport.figures import Figures
from genreport.figures.book import Book
from genreport.figures.planned import entries

# a level that is in none of so many rounds that were asked counts as new
MOST = 3


def in_time(rounds: Sequence[Figures]) -> list[Figures]:
    """The oldest first."""
    return sorted(rounds, key=lambda figures: (figures.round.head.started_unix_us, figures.round.name))


def predecessors(figures: Figures, earlier: Sequence[Figures]) -> list[Figures]:
    """The latest earlier rounds (given oldest first) that hold the round's levels: mostly one, more where it lacks some.

    Rounds that its hypotheses are about come with them.
    """
    missing = {level.id for test in figures.tests for engine in test.engines for level in test.levels_of(engine)}
    found: list[Figures] = []
    for other in reversed(earlier):
        shared = missing & {match.new.id for match in matches(figures, other) if match.state == "matched"}
        if shared:
            found.append(other)
            missing -= shared
        if not missing or len(found) == MOST:
            break
    claimed = claims(figures)
    return found + [other for other in reversed(earlier) if other.round.name in claimed and other not in found]


def claims(figures: Figures) -> set[str]:
    """Names of the rounds that a round's hypotheses are about."""
    named = (entry.get("against_round") for _, entry in entries(figures.round.plan, "hypotheses"))
    return {name for name in named if isinstance(name, str)}


def matches(new: Figures, old: Figures) -> list[Match]:
    """How the levels of two rounds stand to each other; enters nothing into a ledger."""
    sides = Conditions(old), Conditions(new)
    return pair_levels(*sides, pair_engines(*sides, {}), setting(new, old))


def setting(new: Figures, old: Figures) -> list[Difference]:
    """What makes the machine of one round another one than that of the other."""
    return [d for d in of_machine(Conditions(old), Conditions(new)) if d.blocks and not d.same]


def lender(newest: Figures) -> Callable[[Figures, str], str | None]:
    """Enters figures of other rounds into the newest one's ledger: (a round's figures, id there) -> id here, if it has one."""
    book, lent = Book(newest.round, newest.ledger), {}

    def borrow(other: Figures, id: str) -> str | None:
        name = other.round.name
        if name not in lent:
            lent[name] = Comparer(book, other.ledger, name, seal_of(other.round), slug_of(name))
        return lent[name].borrow(id)

    return borrow
