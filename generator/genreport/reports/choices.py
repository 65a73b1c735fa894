"""Which engine a round's figures speak for: at each service level, at each load, and along the fronts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise, takewhile

from genreport.figures import Figures, LevelView, TestView
from genreport.figures.choosing import FAILURES_END, RANGE_ENDS, Fronts, Slo, common, compared, envelope, on_front, slos
from genreport.figures.crossing import met
from genreport.provenance import Quantity

# what a flag does to the throughput of its level, where that is known
LOWERS, RAISES = {"drop", "client_lag", "client_limit", "in_flight"}, {"prefix_cache"}
# two loads that differ by no more are one: the same crossing, computed in two ways
NEAR = 1 + 1e-9


@dataclass(frozen=True)
class Mark:
    """A flagged level that a choice rests on."""

    engine: str
    level: str
    kinds: tuple[str, ...]


@dataclass(frozen=True)
class Cell:
    """One engine at one service level, or at its peak: `met`, `beyond` the range, `never` met, or `unknown`.

    `at`: the level that has this throughput, where one does. `broke`: the first level with failed requests, where it, not
    the statistic, ends what the limit allows (`beyond` or `never`).
    """

    engine: str
    case: str
    load: Quantity
    throughput: Quantity
    first: str  # scope of its lowest level
    marks: tuple[Mark, ...] = ()
    cost: Quantity | None = None
    pays_from: Quantity | None = None
    at: str = ""
    broke: str = ""


@dataclass(frozen=True)
class Rival:
    """An engine that the one ahead is not known to beat, and the interval of the ratio of both, `over` over `under`."""

    cell: Cell
    under: str
    over: str
    low: Quantity | None = None
    high: Quantity | None = None


@dataclass(frozen=True)
class Choice:
    """One row of the table of service levels; `slo` is `None` for the peaks, where no limit counts.

    `bound`: what the marks make of the lead: `upper` or `lower` bound, `open` where they do not tell, empty without.
    `winner` is the engine ahead. `call`: it `wins`, is too `close` to call, `untested` against its rivals, `alone`, or
    there is `none`.
    """

    slo: Slo | None
    limit: Quantity | None
    cells: tuple[Cell, ...]
    winner: Cell | None
    second: Cell | None
    lead: Quantity
    marks: tuple[Mark, ...]
    bound: str
    call: str
    rivals: tuple[Rival, ...] = ()


@dataclass(frozen=True)
class Stretch:
    """Loads in a row at which one engine delivers the most, and the crossings at their ends.

    `first` and `last` are the measured loads in it, or where none is the ones around it. `call`: it `wins` at one of those
    in it, is too `close` to call or `untested` at all of them, or there is none in it (`between`). `failing`: the engine's
    levels among them at which requests failed.
    """

    engine: str
    first: str
    last: str
    start: Quantity | None
    end: Quantity | None
    call: str
    failing: tuple[str, ...] = ()


@dataclass(frozen=True)
class Crossing:
    """A wait at which two fronts meet, with the throughput there."""

    wait: Quantity
    throughput: Quantity


@dataclass(frozen=True)
class Front:
    """Two fronts against each other: the case, who leads where, and the crossings (see `choosing.Fronts`).

    `failing`: engine and scope of their levels at which requests failed.
    """

    fronts: Fronts
    found: tuple[Crossing, ...]
    failing: tuple[tuple[str, str], ...] = ()


class Chooser:
    """Reads the choices out of one round's figures for one concurrency sweep."""

    def __init__(self, figures: Figures, test: TestView) -> None:
        self.figures, self.test = figures, test
        self.fig = figures.ledger.get
        self.kinds: dict[str, tuple[str, ...]] = {}
        for flag in figures.flags:
            self.kinds[flag.scope] = (*self.kinds.get(flag.scope, ()), flag.kind)

    def value(self, id: str) -> float | None:
        """A figure's value; `None` where it is missing or unknown."""
        return self.figures.ledger.value(id)

    # ---- at a service level

    def by_limit(self) -> list[Choice]:
        """A choice a service level, those given on the command line first."""
        return [self._limited(slo) for slo in slos(self.figures.round.plan, self.figures.given)]

    def _limited(self, slo: Slo) -> Choice:
        scope = f"test.{self.test.id}.slo.{slo.id}"
        cells = tuple(self._cell(f"{scope}.{engine}", engine, slo) for engine in self.test.engines)
        return self._choice(scope, slo, cells, f"slo_{slo.id}")

    def _cell(self, scope: str, engine: str, slo: Slo) -> Cell:
        load, levels = self.figures.ledger[f"{scope}.load"], self.test.levels_of(engine)
        sound = list(takewhile(lambda level: not self.value(f"{level.id}.failed"), levels))
        measured = [level for level in sound if self.value(f"{level.id}.{slo.statistic}")]
        failing = next((level.id for level in levels[len(sound) :]), "")
        broke = failing if FAILURES_END in load.notes or not measured else ""
        return Cell(
            engine=engine,
            case=_case(load, bool(measured or broke)),
            load=load,
            throughput=self.figures.ledger[f"{scope}.throughput"],
            first=broke if load.missing and broke else (measured or levels)[0].id,
            marks=tuple(self._marks(touched(measured, load.value))),
            cost=self.fig(f"{scope}.cost"),
            pays_from=self.fig(f"{scope}.pays_from"),
            broke=broke,
        )

    def at_peak(self) -> Choice:
        """The choice where no limit counts: each engine's highest throughput and the load it takes."""
        cells = tuple(cell for engine in self.test.engines if (cell := self._peak(engine)))
        return self._choice(f"test.{self.test.id}.peak", None, cells, "peak_ratio")

    def _peak(self, engine: str) -> Cell | None:
        levels = [level for level in self.test.levels_of(engine) if self.value(f"{level.id}.output_throughput")]
        if not levels:
            return None
        best = max(levels, key=lambda level: self.value(f"{level.id}.output_throughput"))
        scope = f"test.{self.test.id}.peak.{engine}"
        return Cell(
            engine=engine,
            case="met",
            load=self.figures.ledger[f"{best.id}.concurrency"],
            throughput=self.figures.ledger[f"{self.test.id}.{engine}.peak_throughput"],
            first=levels[0].id,
            marks=tuple(self._marks([best])),
            cost=self.fig(f"{scope}.cost"),
            pays_from=self.fig(f"{scope}.pays_from"),
            at=best.id,
        )

    def _choice(self, scope: str, slo: Slo | None, cells: tuple[Cell, ...], ratio: str) -> Choice:
        known = sorted((c for c in cells if not c.throughput.missing), key=lambda c: -c.throughput.value)
        winner, second = ([*known, None, None])[:2]
        if winner and second and winner.throughput.value == second.throughput.value:
            winner = second = None
        deciding = [cell for cell in (winner, second) if cell]
        call, rivals = self._call(winner, known[1:], ratio)
        return Choice(
            slo=slo,
            limit=self.fig(f"{scope}.limit"),
            cells=cells,
            winner=winner,
            second=second,
            lead=self.figures.ledger[f"{scope}.lead"],
            marks=tuple(mark for cell in deciding for mark in cell.marks),
            bound=bound(winner, second),
            call=call,
            rivals=rivals,
        )

    def _call(self, winner: Cell | None, others: Sequence[Cell], ratio: str) -> tuple[str, tuple[Rival, ...]]:
        """Whether the one ahead wins, by the one rule for all pages; else the engines that keep it from that."""
        if winner is None or not others:
            return "alone" if winner else "none", ()
        beaten = {cell.engine: self.beats(ratio, winner.engine, cell.engine) for cell in others}
        for call, found in (("close", False), ("untested", None)):
            if rivals := [cell for cell in others if beaten[cell.engine] is found]:
                return call, tuple(Rival(c, *self._interval(ratio, winner.engine, c.engine)) for c in rivals)
        return "wins", ()

    def beats(self, ratio: str, one: str, other: str, *, lower: bool = False) -> bool | None:
        """Whether an engine is better than another by more than the repeats let one doubt; `None` where nothing tells.

        `ratio` names the pair's ratio; `lower`: the better one is the lower one.
        """
        _, over, low, high = self._interval(ratio, one, other)
        if low is None or low.missing:
            return None
        return low.value > 1 if (over == one) != lower else high.value < 1

    def _interval(self, ratio: str, one: str, other: str) -> tuple[str, str, Quantity | None, Quantity | None]:
        under, over = sorted((one, other), key=self.test.engines.index)
        low, high = (self.fig(f"pair.{self.test.id}.{under}.{over}.{ratio}.{end}") for end in ("low", "high"))
        return under, over, low, high

    def _marks(self, levels: Iterable[LevelView]) -> Iterator[Mark]:
        for level in levels:
            if level.id in self.kinds:
                yield Mark(level.engine, level.id, self.kinds[level.id])

    # ---- at a load

    def leader(self, name: str) -> Choice:
        """The choice at one level that all engines have."""
        levels = [next(v for v in self.test.levels_of(e) if v.name == name) for e in self.test.engines]
        cells = tuple(
            Cell(
                engine=level.engine,
                case="met",
                load=self.figures.ledger[f"{level.id}.concurrency"],
                throughput=self.figures.ledger[f"{level.id}.output_throughput"],
                first=level.id,
                marks=tuple(self._marks([level])),
                at=level.id,
            )
            for level in levels
        )
        return self._choice(f"test.{self.test.id}.at.{name}", None, cells, f"ratio_{name}")

    def by_load(self) -> list[Choice]:
        """A choice a common level, by rising load."""
        return [self.leader(name) for name in common(self.test)]

    def stretches(self) -> list[Stretch]:
        """The loads at which each engine delivers the most, in order, by the highest of all curves."""
        loads = self.by_load()
        if not loads:
            return []
        c = [choice.cells[0].load.value for choice in loads]
        curves = {engine: [_height(choice, engine) for choice in loads] for engine in self.test.engines}
        found: list[Stretch] = []
        for engine, low, high in envelope(c, curves):
            turn = self._turn(found[-1].engine, engine, low) if found else None
            found[-1:] = [replace(stretch, end=turn) for stretch in found[-1:]]
            found.append(self._stretch(engine, low, high, loads, turn))
        return found

    def _stretch(
        self, engine: str, low: float, high: float, loads: Sequence[Choice], start: Quantity | None
    ) -> Stretch:
        """One engine's stretch; a load that its end misses by rounding is in it."""
        scopes = {choice.cells[0].load.value: _cell_of(choice, engine).first for choice in loads}
        won = [choice for choice in loads if choice.winner and choice.winner.engine == engine
               and low / NEAR <= choice.winner.load.value <= high * NEAR]  # fmt: skip
        first = max((c for c in scopes if c <= low * NEAR), default=min(scopes))
        last = min((c for c in scopes if c >= high / NEAR), default=max(scopes))
        if won:
            first, last = won[0].winner.load.value, won[-1].winner.load.value
        failing = tuple(scope for c, scope in scopes.items() if first <= c <= last and self.value(f"{scope}.failed"))
        return Stretch(engine, scopes[first], scopes[last], start, None, _called(won), failing)

    def _turn(self, before: str, after: str, load: float) -> Quantity | None:
        """The figure of the load at which one engine's curve overtakes another's; none where no curves meet there."""
        a, b = sorted((before, after), key=self.test.engines.index)
        found = met(self.figures.ledger, f"pair.{self.test.id}.{a}.{b}.cross")
        inside = (q for q in found if not q.missing and load / NEAR <= q.value <= load * NEAR)
        return next(inside, None)

    # ---- along the fronts

    def fronts(self) -> list[Front]:
        """Every pair of engines, each front against the other."""
        return [self._front(a, b) for a, b in combinations(self.test.engines, 2)]

    def _front(self, a: str, b: str) -> Front:
        fronts = compared(self.figures.ledger, self.test, a, b)
        scope = f"pair.{self.test.id}.{a}.{b}"
        ids = [f"{scope}.front{k}" for k in range(1, fronts.count + 1)]
        ledger = self.figures.ledger
        levels = [level for engine in (a, b) for level in on_front(ledger, self.test.levels_of(engine))]
        failing = tuple((level.engine, level.id) for level in levels if self.value(f"{level.id}.failed"))
        return Front(fronts, tuple(Crossing(ledger[id], ledger[f"{id}_throughput"]) for id in ids), failing)

    # ---- by one figure

    def best(self, ids: dict[str, str], better: Callable[..., str]) -> str | None:
        """The engine whose figure is the smallest or largest; `None` where fewer than two have one, or at a tie."""
        found = {engine: v for engine, id in ids.items() if (v := self.value(id)) is not None}
        if len(found) < 2:
            return None
        chosen = better(found, key=found.__getitem__)
        return chosen if list(found.values()).count(found[chosen]) == 1 else None


def _case(load: Quantity, known: bool) -> str:
    """What a limit's load comes to; `known`: whether a level tells."""
    if load.missing:
        return "never" if known else "unknown"
    return "met" if {RANGE_ENDS, FAILURES_END}.isdisjoint(load.notes) else "beyond"


def _called(won: Sequence[Choice]) -> str:
    """What a stretch comes to at the measured loads in it."""
    found = {choice.call for choice in won}
    return "wins" if found & {"wins", "alone"} else next((c for c in ("untested", "close") if c in found), "between")


def _cell_of(choice: Choice, engine: str) -> Cell:
    return next(cell for cell in choice.cells if cell.engine == engine)


def _height(choice: Choice, engine: str) -> float:
    """An engine's throughput at a load; what it lacks, or nothing, has no place on log–log axes."""
    value = _cell_of(choice, engine).throughput.value
    return value or math.nan


def touched(levels: Sequence[LevelView], load: float | None) -> list[LevelView]:
    """The levels between which a load was interpolated, or the one it falls on."""
    if load is None:
        return []
    exact = [level for level in levels if level.concurrency == load]
    around = ((low, high) for low, high in pairwise(levels) if low.concurrency < load < high.concurrency)
    return exact or list(next(around, levels[-1:]))


def bound(winner: Cell | None, second: Cell | None) -> str:
    """Which way the flagged levels bend the winner's lead."""
    if winner is None or second is None:
        return ""
    signs = {_bend(kind, sign) for cell, sign in ((winner, 1), (second, -1)) for m in cell.marks for kind in m.kinds}
    return {frozenset(): "", frozenset({1}): "upper", frozenset({-1}): "lower"}.get(frozenset(signs), "open")


def _bend(kind: str, sign: int) -> int:
    """1 where a flag makes the lead look larger than it is, -1 where smaller, 0 where nobody knows."""
    return sign if kind in RAISES else -sign if kind in LOWERS else 0
