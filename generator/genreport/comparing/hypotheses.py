"""Claims that the plan registered before measuring: held, refuted or undecided, over a test's levels as blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from genreport.comparing import Comparison
from genreport.comparing.verdicts import interval, measure
from genreport.figures import Figures, LevelView, planned
from genreport.figures.book import Book
from genreport.figures.statistics import FEWEST, Spread, blocks, repeats_needed

# what the code of `hypothesis.<id>.verdict` stands for
OUTCOMES = {1: "held", -1: "refuted", 0: "undecided"}
RATIO = "exp(mean(log(ratios)))"
ERROR = "sqrt(sum(errors ** 2)) / count(errors)"
FREEDOM = "sum(errors ** 2) ** 2 / sum(errors ** 4 / freedoms)"
BEYOND, WITHIN = "low > 1 + claim or high < 1 - claim", "low >= 1 - claim and high <= 1 + claim"
# claim -> formula of the verdict, and the ratios at which the claim turns
CLAIMS: dict[str, tuple[str, str]] = {
    "changes_by_more_than": (f"1 if {BEYOND} else -1 if {WITHIN} else 0", "[1 + claim, 1 - claim]"),
    "rises_by_more_than": ("1 if low > 1 + claim else -1 if high <= 1 + claim else 0", "[1 + claim]"),
    "falls_by_more_than": ("1 if high < 1 - claim else -1 if low >= 1 - claim else 0", "[1 - claim]"),
    "stays_within": (f"1 if {WITHIN} else -1 if {BEYOND} else 0", "[1 + claim, 1 - claim]"),
}


@dataclass(frozen=True)
class JudgedLevel:
    """A level that a hypothesis was judged on: its scopes in both sides (old: in its own round or engine), and its ratio's."""

    new: LevelView
    old: LevelView
    scope: str


@dataclass(frozen=True)
class Judged:
    """One hypothesis: `verdict` is held, refuted, undecided or not_judged, `why` a key where no number decided.

    `why`: not_given (its round), no_level, no_claim, no_repeats (of that figure), too_few. Figures below `scope`: ratio,
    low, high, claim, repeats, verdict, and needed where it is undecided.
    """

    id: str
    text: str
    entry: dict[str, Any] = field(repr=False)
    verdict: str
    why: str
    scope: str
    claim: str | None = None
    levels: tuple[JudgedLevel, ...] = ()


def judge(figures: Figures, comparisons: Sequence[Comparison] = ()) -> tuple[Judged, ...]:
    """Every hypothesis of a round's plan; what decides them enters its ledger."""
    named = planned.entries(figures.round.plan, "hypotheses")
    return tuple(_Judge(figures, comparisons, place, entry).judged() for place, entry in named)


# what names something in a hypothesis; a plan of others may have anything there, or nothing
NAMES = ("figure", "test", "engine", "against_round", "against_engine")


class _Judge:
    """One hypothesis under examination."""

    def __init__(self, figures: Figures, comparisons: Sequence[Comparison], place: int, entry: dict[str, Any]) -> None:
        named = {name: None if entry.get(name) is None else str(entry[name]) for name in NAMES}
        self.figures, self.comparisons, self.place, self.entry = figures, comparisons, place, entry | named
        self.book = Book(figures.round, figures.ledger)
        self.id = str(entry.get("id"))
        self.scope = f"hypothesis.{self.id}"
        self.figure = str(entry.get("figure"))
        self.claim = next((name for name in CLAIMS if planned.is_number(entry.get(name))), None)

    def judged(self) -> Judged:
        pairs = self._pairs()
        if self.claim is None or (self.claim != "rises_by_more_than" and not 0 <= self.entry[self.claim] < 1):
            return self._not("no_claim")
        if pairs is None:
            return self._not("not_given" if self.entry["against_round"] else "no_level")
        if not pairs:
            return self._not("no_level")
        levels = [(level, *ids) for level in pairs if all(ids := self._repeats(level))]
        if not levels:
            return self._not("no_repeats")
        found = [level for level, old, new in levels if measure(self.book, level.scope, old, new)]
        known = [level for level in found if self.book.value(f"{level.scope}.error") is not None]
        if not known:
            return self._made("undecided", "too_few", [level for level, _, _ in levels])
        return self._decided(known, min(len(ids) for level, *both in levels if level in known for ids in both))

    def _not(self, why: str) -> Judged:
        return self._made("not_judged", why, [])

    def _made(self, verdict: str, why: str, levels: Sequence[JudgedLevel]) -> Judged:
        return Judged(self.id, str(self.entry.get("text") or self.id), self.entry, verdict, why, self.scope, self.claim,
                      tuple(levels))  # fmt: skip

    # ------------------------------------------------------------------------------------------------ its levels

    def _pairs(self) -> list[JudgedLevel] | None:
        """Levels of its test and engine with their counterparts; `None` if the other round was not given."""
        if (other := self.entry.get("against_engine")) is not None:
            self.borrow = lambda id: id
            return list(self._in_this_round(str(other)))
        comparison = next((c for c in self.comparisons if c.name == self.entry.get("against_round")), None)
        if comparison is None:
            return None
        self.borrow = comparison.borrow
        return [
            JudgedLevel(level.new, level.old, f"{self.scope}.{level.new.id}")
            for level in comparison.levels
            if level.state == "matched" and self._asked(level.new)
        ]

    def _asked(self, level: LevelView) -> bool:
        return (level.test, level.engine) == (self.entry.get("test"), self.entry.get("engine"))

    def _in_this_round(self, other: str) -> Iterator[JudgedLevel]:
        for test in self.figures.tests:
            if test.id == self.entry.get("test"):
                for one, level in test.shared(other, str(self.entry.get("engine"))):
                    yield JudgedLevel(level, one, f"{self.scope}.{level.id}")

    def _repeats(self, level: JudgedLevel) -> tuple[list[str], list[str]]:
        """Ids of the figure in each repeat, of the other side and of this one, where it was observed."""
        old = [id for id in map(self.borrow, level.old.ids(self.figure)) if id]
        return self.book.observed(old), self.book.observed(level.new.ids(self.figure))

    # ------------------------------------------------------------------------------------------------ its verdict

    def _decided(self, levels: Sequence[JudgedLevel], repeats: int) -> Judged:
        derive, scope = self.book.derive, self.scope
        ratios, errors, freedoms = (
            [f"{level.scope}.{name}" for level in levels] for name in ("ratio", "error", "freedom")
        )
        derive(
            f"{scope}.ratio",
            "ratio",
            RATIO,
            lambda ratios: np.exp(np.mean(np.log(ratios))),
            n=len(levels),
            ratios=ratios,
        )
        derive(f"{scope}.error", "1", ERROR, lambda errors: np.sqrt(np.sum(errors**2)) / len(errors), errors=errors)
        derive(f"{scope}.freedom", "1", FREEDOM, lambda errors, freedoms: _blocked(errors, freedoms).freedom,
               errors=errors, freedoms=freedoms)  # fmt: skip
        self.parts = {name: f"{scope}.{name}" for name in ("ratio", "error", "freedom")}
        interval(self.book, scope)
        planned.enter(self.book, f"{scope}.claim", "share", f"/hypotheses/{self.place}/{self.claim}")
        repeated = [
            id for level in levels for id in (f"{level.new.id}.repeats", self.borrow(f"{level.old.id}.repeats"))
        ]
        derive(f"{scope}.repeats", "count", "min(repeats)", lambda repeats: min(repeats), repeats=repeated)
        ends = {name: f"{scope}.{name}" for name in ("low", "high", "claim")}
        derive(f"{scope}.levels", "count", "count(ratios)", lambda ratios: len(ratios), ratios=ratios)
        code = derive(f"{scope}.verdict", "1", CLAIMS[self.claim][0], self._outcome, **ends).value
        if code == 0:
            self._needed()
        return self._made(OUTCOMES[int(code)], "", levels)

    def _outcome(self, low: float, high: float, claim: float) -> int:
        beyond, within = low > 1 + claim or high < 1 - claim, low >= 1 - claim and high <= 1 + claim
        held, refuted = {
            "changes_by_more_than": (beyond, within),
            "rises_by_more_than": (low > 1 + claim, high <= 1 + claim),
            "falls_by_more_than": (high < 1 - claim, low >= 1 - claim),
            "stays_within": (within, beyond),
        }[self.claim]
        return 1 if held else -1 if refuted else 0

    def _needed(self) -> None:
        """Repeats of every level in both rounds after which this difference with this noise would decide."""
        turns = CLAIMS[self.claim][1]
        formula = (
            f"max([{FEWEST}, -(-(repeats * (t_quantile(0.975, freedom) * error"
            f" / min(abs(log(ratio) - log({turns})))) ** 2) // 1)])"
        )
        self.book.derive(f"{self.scope}.needed", "count", formula, self._repeats_needed, repeats=f"{self.scope}.repeats",
                         claim=f"{self.scope}.claim", **self.parts)  # fmt: skip

    def _repeats_needed(self, repeats: float, claim: float, ratio: float, error: float, freedom: float) -> float:
        turns = [
            side for side, sign in ((1 + claim, "1 + claim"), (1 - claim, "1 - claim")) if sign in CLAIMS[self.claim][1]
        ]
        distance = float(np.min(np.abs(np.log(ratio) - np.log(turns))))
        if distance == 0:
            raise ZeroDivisionError
        return repeats_needed(repeats, Spread(np.log(ratio), error, freedom), distance)


def _blocked(errors: np.ndarray, freedoms: np.ndarray) -> Spread:
    return blocks([Spread(0.0, error, freedom) for error, freedom in zip(errors, freedoms, strict=True)])
