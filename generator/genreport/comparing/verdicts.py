"""How a comparison enters the ledger: each number with the formula that the audit evaluates again, verdicts last."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from genreport.comparing.environment import Difference, Place
from genreport.figures import planned, statistics
from genreport.figures.book import Absent, Book
from genreport.figures.statistics import ALPHA, FEWEST, POWER_Z, RESOLUTION
from genreport.provenance import Foreign, Given, Ledger, Pointer, Quantity, Source
from genreport.rounds import PLAN
from genreport.words import say

# what a verdict's code stands for
VERDICTS = {1: "improved", -1: "regressed", 0: "equivalent", 2: "inconclusive", 3: "too_few", 4: "not_comparable",
            8: "equal", 9: "changed", 10: "outside"}  # fmt: skip
# what the code of a level's state stands for
STATES = {0: "matched", 4: "different", 5: "new", 6: "gone", 7: "failed"}
CODE = {word: code for codes in (VERDICTS, STATES) for code, word in codes.items()}
MARGIN = 0.02

MEAN = "exp(mean(log(repeats)))"
RATIO = "exp(mean(log(new)) - mean(log(old)))"
ERROR = "sqrt(variance(log(old)) / count(old) + variance(log(new)) / count(new))"
FREEDOM = (
    "error ** 4 / ((variance(log(old)) / count(old)) ** 2 / (count(old) - 1)"
    " + (variance(log(new)) / count(new)) ** 2 / (count(new) - 1))"
)
LOW = "exp(log(ratio) - t_quantile(0.975, freedom) * error)"
HIGH = "exp(log(ratio) + t_quantile(0.975, freedom) * error)"
P = "2 * t_tail(abs(log(ratio)) / error, freedom)"
Q = "adjusted(p, family)"
SIGNIFICANT = f"sum(where(adjusted(family, family) <= {ALPHA}, 1, 0))"
THRESHOLD = f"{ALPHA} * min([significant + 1, size]) / size"
FLOOR = "exp(t_quantile(0.975, sum(freedoms)) * median(errors)) - 1"
# the p that a figure needs where a quarter of its family is told apart, which a change in a third of it brings about
QUARTER = ALPHA / 4
DETECTABLE, DETECTABLE_ALONE = (
    f"exp(max([(-t_quantile({alpha} / 2, freedom) * (1 - 1 / (4 * freedom))"
    f" + {POWER_Z} * sqrt(1 + t_quantile({alpha} / 2, freedom) ** 2 / (2 * freedom))) * error,"
    f" log(1 + margin) + {POWER_Z} * error])) - 1"
    for alpha in (QUARTER, "alpha")
)
MOST = 10  # a change so many times over is told by no number of per cent
FAILED = "7 if min([old, new]) == 0 else none"
SAME = "8 if ratio == 1 else none"
EXACT = "8 if old == new else 9"
BOOT_Z = 1.959963984540054  # normal quantile of a 95 % interval
BOOT_LOW, BOOT_HIGH = (f"exp(log(ratio) {sign} {BOOT_Z} * sqrt(old ** 2 + new ** 2))" for sign in "-+")


def decision(better: str) -> str:
    """The formula of a verdict: a difference that is significant and beyond the margin, or an interval inside it."""
    up, down = (1, -1) if better == "higher" else (-1, 1)
    return (
        f"{up} if q <= {ALPHA} and ratio > 1 + margin else {down} if q <= {ALPHA} and ratio < 1 / (1 + margin)"
        " else 0 if low >= 1 / (1 + margin) and high <= 1 + margin else 2"
    )


def decide(better: str, ratio: float, low: float, high: float, q: float, margin: float) -> int:
    """The code that `decision` gives."""
    up, down = (1, -1) if better == "higher" else (-1, 1)
    if q <= ALPHA and ratio > 1 + margin:
        return up
    if q <= ALPHA and ratio < 1 / (1 + margin):
        return down
    return 0 if low >= 1 / (1 + margin) and high <= 1 + margin else 2


@dataclass(frozen=True)
class Compared:
    """One figure of one level in both rounds; its numbers stand below `scope` in the new round's ledger.

    `means`: the geometric means of the repeats are known; the ratio is theirs, otherwise that of the level's own figures.
    `verdict`: improved, regressed, equivalent, inconclusive, too_few, not_comparable, equal (the same round twice) or
    outside (of the family); `second_opinion`: whether the bootstrap agrees, disagrees or there is `none`.
    """

    figure: str
    new_id: str
    old_id: str
    scope: str
    better: str
    verdict: str = ""
    second_opinion: str = "none"
    means: bool = False

    @property
    def then(self) -> str:
        """Id of the earlier one of the two values that the ratio is of."""
        return f"{self.scope}.then" if self.means else self.old_id

    @property
    def now(self) -> str:
        """Id of the later one."""
        return f"{self.scope}.now" if self.means else self.new_id

    @property
    def in_family(self) -> bool:
        return self.verdict in ("improved", "regressed", "equivalent", "inconclusive")


@dataclass(frozen=True)
class Exact:
    """A counter of both rounds: equal, changed or not_comparable."""

    figure: str
    new_id: str
    old_id: str
    scope: str
    verdict: str


class Comparer:
    """Enters the comparison of one pair of rounds into the new round's book."""

    def __init__(self, book: Book, old: Ledger, round_name: str, seal: str, slug: str) -> None:
        self.book, self.old, self.round_name, self.seal = book, old, round_name, seal
        self.scope, self.prefix = f"against.{slug}", f"other.{slug}"
        self.adjusted: dict[float, float] = {}  # every p of the family -> its own after correction

    def value(self, id: str) -> float | tuple[float, ...] | None:
        return self.book.value(id)

    def borrow(self, old_id: str) -> str | None:
        """Enters a figure of the old round under `other.…`, once; `None` where that round has no such figure."""
        id, known = f"{self.prefix}.{old_id}", self.old.get(old_id)
        if known is None or id in self.book.ledger:
            return None if known is None else id
        source = Foreign(self.round_name, old_id, self.seal)
        self.book.ledger.add(replace(known, id=id, formula="foreign", inputs={}, sources=(source,)))
        return id

    def significance(self, scope: str) -> None:
        self.book.derive(f"{scope}.p", "1", P, lambda ratio, error, freedom: _of(ratio, error, freedom).p,
                         **{name: f"{scope}.{name}" for name in ("ratio", "error", "freedom")})  # fmt: skip

    def second_opinion(self, compared: Compared) -> None:
        """The interval by the two-level bootstrap of each round, where both have one."""
        old, new = (
            self.borrow(f"{compared.old_id.removeprefix(self.prefix + '.')}.boot_error"),
            f"{compared.new_id}.boot_error",
        )
        if old is None or new not in self.book.ledger:
            return
        for name, sign, formula in (("boot_low", -1, BOOT_LOW), ("boot_high", 1, BOOT_HIGH)):
            self.book.derive(f"{compared.scope}.{name}", "ratio", formula,
                             lambda ratio, old, new, sign=sign: ratio * np.exp(sign * BOOT_Z * np.hypot(old, new)),
                             ratio=f"{compared.scope}.ratio", old=old, new=new)  # fmt: skip

    def means(self, compared: Compared, old: Sequence[str], new: Sequence[str]) -> Compared:
        """The geometric mean of the repeats of either side, which the ratio is of."""
        unit = self.book[compared.new_id].unit
        for name, repeats in (("then", old), ("now", new)):
            self.book.derive(f"{compared.scope}.{name}", unit, MEAN, _mean, n=len(repeats), repeats=repeats)
        known = self.book.observed(f"{compared.scope}.{name}" for name in ("then", "now"))
        return replace(compared, means=len(known) == 2)

    # ------------------------------------------------------------------------------------------- the family

    def family(self, scopes: Sequence[str]) -> None:
        """All p that are corrected together, how many pass, and the p that one more would have needed."""
        family = f"{self.scope}.family"
        ids = self.book.observed(f"{scope}.p" for scope in scopes)
        self.book.derive(f"{family}.p", "1", "p", lambda p: p, n=len(ids), carry=False, p=ids)
        p = self.book.value(f"{family}.p")
        self.adjusted = dict(zip(p, statistics.adjusted(p), strict=True))
        self.book.derive(f"{family}.size", "count", "count(family)", lambda family: len(family), family=f"{family}.p")
        self.book.derive(f"{family}.significant", "count", SIGNIFICANT,
                         lambda family: np.sum(statistics.adjusted(family) <= ALPHA), family=f"{family}.p")  # fmt: skip
        self.book.derive(f"{family}.threshold", "1", THRESHOLD,
                         lambda significant, size: ALPHA * min(significant + 1, size) / size,
                         significant=f"{family}.significant", size=f"{family}.size")  # fmt: skip

    def correct(self, scope: str) -> None:
        """The p of one figure after Benjamini–Hochberg over the family."""
        self.book.derive(f"{scope}.q", "1", Q, lambda p, family: self.adjusted[p], p=f"{scope}.p",
                         family=f"{self.scope}.family.p")  # fmt: skip

    # ------------------------------------------------------------------------------------------- the margin

    def plan_margin(self) -> str:
        """The margin of the plan, or the default where it names none."""
        id, given = f"{self.scope}.plan_margin", self.book.round.plan.get("noise_margin")
        if planned.is_number(given):
            planned.enter(self.book, id, "share", "/noise_margin")
        else:
            self.book.enter(id, MARGIN, "share", str(MARGIN), Pointer(PLAN, "", 1))
        return id

    def noise(self, engine: str, figure: str, scopes: Sequence[str]) -> str:
        """What the repeats of an engine's levels let one figure differ by without a change."""
        id = f"{self.scope}.noise.{engine}.{figure}"
        known = [scope for scope in scopes if self.value(f"{scope}.error") is not None]
        self.book.derive(id, "share", FLOOR, _floor, n=len(known), errors=[f"{s}.error" for s in known],
                         freedoms=[f"{s}.freedom" for s in known])  # fmt: skip
        return id

    def given_noise(self, figure: str, floor: float) -> str:
        """A floor that `genreport noise` measured between rounds, as the build was given it."""
        id, text = f"{self.scope}.given_noise.{figure}", repr(float(floor))
        source = Given("--noise", f"{figure}={text}", r"=(\S+)$")
        self.book.enter(id, float(text), "share", "number(given)", source)
        return id

    def margin(self, scope: str, parts: Mapping[str, str]) -> None:
        formula = f"max([{', '.join(parts)}])"
        self.book.derive(f"{scope}.margin", "share", formula, lambda **given: max(given.values()), **parts)

    def detectable(self, scope: str) -> None:
        """How large a change had to be to be found: one that a third of the family shows, and one of this figure alone."""
        parts = {name: f"{scope}.{name}" for name in ("error", "freedom", "margin")}
        threshold = f"{self.scope}.family.threshold"
        self.book.derive(f"{scope}.detectable", "share", DETECTABLE, partial(_detectable, alpha=QUARTER), **parts)
        self.book.derive(f"{scope}.detectable_alone", "share", DETECTABLE_ALONE, _detectable, alpha=threshold, **parts)

    # ------------------------------------------------------------------------------------------- verdicts

    def judge(self, compared: Compared, *, same: bool) -> Compared:
        """The verdict of a figure with an interval."""
        scope = compared.scope
        if same:
            q = self.book.derive(f"{scope}.verdict", "1", SAME, lambda ratio: 8, carry=False, ratio=f"{scope}.ratio")
        else:
            q = self.book.derive(
                f"{scope}.verdict", "1", decision(compared.better),
                lambda **given: decide(compared.better, **given),
                carry=False,
                **{name: f"{scope}.{name}" for name in ("ratio", "low", "high", "q", "margin")},
            )  # fmt: skip
        return replace(compared, verdict=VERDICTS[int(q.value)], second_opinion=self._opinion(scope))

    def _opinion(self, scope: str) -> str:
        sides = [
            [self.value(f"{scope}.{name}") for name in names] for names in (("low", "high"), ("boot_low", "boot_high"))
        ]
        if None in (*sides[0], *sides[1]):
            return "none"
        return "agrees" if len({low > 1 or high < 1 for low, high in sides}) == 1 else "disagrees"

    def constant(self, compared: Compared, word: str, *sources: Source, **inputs: str | Sequence[str]) -> Compared:
        """A verdict that no number decides, with the places that do."""
        self.code(f"{compared.scope}.verdict", word, *sources, **inputs)
        return replace(compared, verdict=word)

    def code(self, id: str, word: str, *sources: Source, formula: str = "", **inputs: str | Sequence[str]) -> None:
        """The code of a verdict or state, by itself or by a formula that gives it."""
        named = {alias: ids if isinstance(ids, str) else tuple(ids) for alias, ids in inputs.items()}
        code = CODE[word]
        self.book.ledger.add(Quantity(id, float(code), "1", formula or str(code), inputs=named, sources=sources))

    def side_by_side(self, compared: Compared) -> None:
        """The ratio of the two levels' own figures, from which nothing is concluded."""
        self.book.derive(f"{compared.scope}.ratio", "ratio", "new / old", lambda old, new: new / old,
                         old=compared.old_id, new=compared.new_id)  # fmt: skip

    def exact(self, scope: str, figure: str, old_id: str, new_id: str, *, comparable: bool) -> Exact | None:
        """Two counters side by side; `None` where one of them was not observed."""
        old = self.borrow(old_id)
        if old is None or self.value(old) is None or self.value(new_id) is None:
            return None
        if comparable:
            word = "equal" if self.value(old) == self.value(new_id) else "changed"
            self.code(f"{scope}.verdict", word, formula=EXACT, old=old, new=new_id)
        else:
            word = "not_comparable"
            self.code(f"{scope}.verdict", word, old=old, new=new_id)
        return Exact(figure, new_id, old, scope, word)


def measure(book: Book, scope: str, old: Sequence[str], new: Sequence[str]) -> bool:
    """Ratio, error and its freedom of two sets of repeats, given by ids; whether there are enough of both."""
    sides, repeats = {"old": old, "new": new}, len(old) + len(new)
    book.derive(f"{scope}.ratio", "ratio", RATIO, _positive(statistics.geometric_ratio), n=repeats, **sides)
    if min(len(old), len(new)) < FEWEST:
        return False
    book.derive(f"{scope}.error", "1", ERROR, _spread(statistics.standard_error), n=repeats, **sides)
    book.derive(f"{scope}.freedom", "1", FREEDOM, lambda old, new, error: statistics.freedom(old, new), **sides,
                error=f"{scope}.error")  # fmt: skip
    return True


def interval(book: Book, scope: str) -> None:
    """Both ends of the interval of a ratio whose error is known."""
    parts = {name: f"{scope}.{name}" for name in ("ratio", "error", "freedom")}
    for side, (name, formula) in enumerate((("low", LOW), ("high", HIGH))):
        book.derive(f"{scope}.{name}", "ratio", formula,
                    lambda ratio, error, freedom, side=side: _of(ratio, error, freedom).interval()[side], **parts)  # fmt: skip


def pointed(differences: Sequence[Difference]) -> tuple[Pointer, ...]:
    """Where the new round states what makes a level different."""
    return tuple(pointer_to(d.new_at) for d in differences if d.new_at is not None)


def pointer_to(place: Place) -> Pointer:
    """A place as a source."""
    return Pointer(place.file, place.pointer, place.line)


def _of(ratio: float, error: float, freedom: float) -> statistics.Spread:
    return statistics.Spread(float(np.log(ratio)), error, freedom)


def _positive(function):
    """A function of logarithms: a repeat whose value is not above zero has none."""

    def guarded(old: np.ndarray, new: np.ndarray) -> float:
        if min(old.min(), new.min()) <= 0:
            raise Absent(say("against.not_positive"))
        return function(old, new)

    return guarded


def _mean(repeats: np.ndarray) -> float:
    if repeats.min() <= 0:
        raise Absent(say("against.not_positive"))
    return float(np.exp(np.mean(np.log(repeats))))


def _spread(function):
    """A function of the repeats' spread: repeats that are all equal have none."""

    def guarded(old: np.ndarray, new: np.ndarray) -> float:
        found = _positive(function)(old, new)
        if found < RESOLUTION:
            raise Absent(say("against.no_spread"))
        return found

    return guarded


def _detectable(error: float, freedom: float, margin: float, alpha: float) -> float:
    found = statistics.detectable(error, freedom, alpha, margin)
    if found > MOST - 1:
        raise Absent(say("against.not_detectable", times=MOST))
    return found


def _floor(errors: np.ndarray, freedoms: np.ndarray) -> float:
    return float(np.exp(statistics.t_quantile(0.975, float(np.sum(freedoms))) * np.median(errors)) - 1)
