"""The verdicts of one comparison: every figure is measured, then all are corrected together, then each is judged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from genreport.comparing.verdicts import Compared, Comparer, interval, measure
from genreport.figures.statistics import FEWEST


@dataclass(frozen=True)
class Subject:
    """A figure of a level that both rounds have, and its values in the repeats of each, as ids of the new ledger."""

    compared: Compared
    engine: str
    old: tuple[str, ...]
    new: tuple[str, ...]

    @property
    def scope(self) -> str:
        return self.compared.scope


class Judging:
    """`family`: the figures that are corrected together. `floors`: noise between rounds, by figure. `same`: one round twice."""

    def __init__(self, comparer: Comparer, family: Sequence[str], floors: Mapping[str, float], *, same: bool) -> None:
        self.comparer, self.book = comparer, comparer.book
        self.family, self.floors, self.same = family, floors, same

    def judged(self, subjects: Sequence[Subject]) -> dict[str, Compared]:
        """Every subject with its verdict, by scope."""
        subjects = [self._with_means(subject) for subject in subjects]
        measured = [subject for subject in subjects if self._measured(subject)]
        inside = [subject.scope for subject in measured if subject.compared.figure in self.family]
        if inside:
            self.comparer.family(inside)
        known = {subject.scope for subject in measured}
        margins = self._margins(measured)
        found = [
            self._judge(s, margins[s.engine, s.compared.figure]) if s.scope in known else self._unmeasured(s)
            for s in subjects
        ]
        return {compared.scope: compared for compared in found}

    def _with_means(self, subject: Subject) -> Subject:
        if not (subject.old and subject.new):
            return subject
        return replace(subject, compared=self.comparer.means(subject.compared, subject.old, subject.new))

    def _measured(self, subject: Subject) -> bool:
        """Whether both rounds have repeats enough, of positive values that are not all equal."""
        if not (subject.old and subject.new and measure(self.book, subject.scope, subject.old, subject.new)):
            return False
        if not self.same:  # of a round and itself there is nothing to estimate
            interval(self.book, subject.scope)
            self.comparer.second_opinion(subject.compared)
        self.comparer.significance(subject.scope)
        return self.book.value(f"{subject.scope}.p") is not None

    def _margins(self, measured: Sequence[Subject]) -> dict[tuple[str, str], dict[str, str]]:
        """What the margin of each engine's figure is the largest of: aliases and ids."""
        scopes: dict[tuple[str, str], list[str]] = {}
        for subject in measured:
            scopes.setdefault((subject.engine, subject.compared.figure), []).append(subject.scope)
        plan = self.comparer.plan_margin() if measured else ""
        given = {figure: self.comparer.given_noise(figure, self.floors[figure])
                 for figure in dict.fromkeys(figure for _, figure in scopes) if figure in self.floors}  # fmt: skip
        return {
            (engine, figure): {"plan": plan, "floor": self.comparer.noise(engine, figure, found)}
            | ({"given": given[figure]} if figure in given else {})
            for (engine, figure), found in scopes.items()
        }

    def _judge(self, subject: Subject, margins: Mapping[str, str]) -> Compared:
        scope, compared = subject.scope, subject.compared
        if self.same:
            return self.comparer.judge(compared, same=True)
        self.comparer.margin(scope, margins)
        if compared.figure not in self.family:
            return self.comparer.constant(compared, "outside", old=compared.old_id, new=compared.new_id)
        self.comparer.correct(scope)
        self.comparer.detectable(scope)
        return self.comparer.judge(compared, same=False)

    def _unmeasured(self, subject: Subject) -> Compared:
        """Too few repeats, or values that have no ratio or no spread."""
        scope, compared = subject.scope, subject.compared
        sides = {"old": compared.old_id, "new": compared.new_id}
        if f"{scope}.ratio" not in self.book.ledger:
            self.comparer.side_by_side(compared)
        if min(len(subject.old), len(subject.new)) < FEWEST:
            return self.comparer.constant(compared, "too_few", **sides)
        if self.book.value(f"{scope}.ratio") is None:
            return self.comparer.constant(compared, "not_comparable", **sides)
        return self.comparer.constant(compared, "equal" if self.same else "inconclusive", **sides)
