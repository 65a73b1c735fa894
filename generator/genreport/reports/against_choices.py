"""Then and now: the engine that each limit speaks for, and where curves cross, in two rounds."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations

from genreport.comparing import Comparison
from genreport.figures import TestView
from genreport.figures.choosing import Slo
from genreport.figures.crossing import met
from genreport.provenance import Quantity
from genreport.reports.choices import Cell, Choice, Chooser, Rival

# figures of the earlier round that these tables show
SHOWN = re.compile(
    r"pair\.[^.]+\.[^.]+\.[^.]+\.(cross|front)\d+|test\.[^.]+\.peak\.lead"
    r"|test\.[^.]+\.slo\.[^.]+\.(limit|lead|[^.]+\.(load|throughput))|[^.]+\.[^.]+\.peak_throughput"
    r"|test\.[^.]+\.at\.[^.]+\.lead|[^.]+\.[^.]+\.[^.]+\.(concurrency|output_throughput|failed|all_requests)"
)


@dataclass(frozen=True)
class Chosen:
    """One limit of either plan (none for the peaks and for the lowest load), and the choice it speaks for in each round.

    `case`: `same` winner; `changed`; `slight` (another is ahead, but not by more than the noise in both rounds); `open` (the
    same is ahead, but not so); `gained` (no engine met it, now one does); `lost`; `none` (nobody, in either); `then` or
    `now` (the limit stands in one plan only). `lowest`: the row is that of the lowest common load.
    """

    slo: Slo | None
    limit: Quantity | None
    then: Choice | None
    now: Choice | None
    case: str
    lowest: bool = False


@dataclass(frozen=True)
class Crossed:
    """Two engines: where their throughput over load, and their fronts, crossed then and cross now."""

    a: str
    b: str
    then: tuple[Quantity, ...]
    now: tuple[Quantity, ...]
    fronts_then: tuple[Quantity, ...]
    fronts_now: tuple[Quantity, ...]


def chosen(c: Comparison) -> list[Chosen]:
    """Rows for the lowest load, each limit and the peaks; none where the sweeps are of other engines, or of one alone."""
    tests = [figures.sweep for figures in (c.old, c.new)]
    names = _names(c)
    if None in tests or {names.get(e) for e in tests[0].engines} != set(tests[1].engines) or len(tests[1].engines) < 2:
        return []
    then, now = Chooser(c.old, tests[0]), Chooser(c.new, tests[1])
    old = {_key(choice): _borrowed(c, choice, names) for choice in then.by_limit()}
    new = {_key(choice): choice for choice in now.by_limit()}
    rows = [_row(c, old.get(key), new.get(key)) for key in dict.fromkeys([*new, *old])]
    return [*_lowest(c, then, now, names), *rows, _row(c, _borrowed(c, then.at_peak(), names), now.at_peak())]


def _lowest(c: Comparison, then: Chooser, now: Chooser, names: dict[str, str]) -> list[Chosen]:
    """The choice at the lowest load that all engines have, where that is the same load in both rounds."""
    old, new = ([choice for choice in chooser.by_load() if choice.cells][:1] for chooser in (then, now))
    if not old or not new or old[0].cells[0].load.value != new[0].cells[0].load.value:
        return []
    return [replace(_row(c, _borrowed(c, old[0], names), new[0]), lowest=True)]


def _names(c: Comparison) -> dict[str, str]:
    """Engines of the earlier round by what they are called now."""
    return {pair.old: pair.new for pair in c.engines if pair.old and pair.new}


def _key(choice: Choice) -> tuple[str, float | None]:
    return choice.slo.statistic, choice.limit.value if choice.limit else None


def _borrowed(c: Comparison, choice: Choice, names: dict[str, str]) -> Choice:
    """A choice of the earlier round in this round's ledger, its engines called as they are now."""

    def own(q: Quantity | None) -> Quantity | None:
        return None if q is None else c.new.ledger[f"other.{c.slug}.{q.id}"]

    def cell(given: Cell | None) -> Cell | None:
        return given and replace(
            given, engine=names[given.engine], load=own(given.load), throughput=own(given.throughput),
            first=f"other.{c.slug}.{given.first}", marks=(), cost=None, pays_from=None,
            at=given.at and f"other.{c.slug}.{given.at}", broke=given.broke and f"other.{c.slug}.{given.broke}",
        )  # fmt: skip

    return replace(
        choice, limit=own(choice.limit), lead=own(choice.lead), cells=tuple(map(cell, choice.cells)),
        winner=cell(choice.winner), second=cell(choice.second), marks=(),
        rivals=tuple(Rival(cell(rival.cell), rival.under, rival.over) for rival in choice.rivals),
    )  # fmt: skip


def _row(c: Comparison, then: Choice | None, now: Choice | None) -> Chosen:
    known = now or then
    return Chosen(known.slo, known.limit, then, now, _case(c, then, now))


def _case(c: Comparison, then: Choice | None, now: Choice | None) -> str:
    if then is None or now is None:
        return "now" if then is None else "then"
    if not (then.winner and now.winner):
        return "lost" if then.winner else "gained" if now.winner else "none"
    same, firm = then.winner.engine == now.winner.engine, _firm(c, then) and _firm(c, now)
    return ("same" if firm else "open") if same else "changed" if firm else "slight"


def _firm(c: Comparison, choice: Choice) -> bool:
    """Whether the lead is more than what repeats leave in doubt, and than what counts as no difference."""
    if choice.call == "alone":
        return True
    if choice.call != "wins" or choice.lead.missing:
        return False
    margins = [
        q.value
        for pair in c.levels
        for figure in pair.figures
        if figure.figure == "output_throughput"
        and (q := c.new.ledger.get(f"{figure.scope}.margin")) is not None
        and not q.missing
    ]
    return choice.lead.value - 1 > max(margins, default=0)


def crossed(c: Comparison) -> list[Crossed]:
    """Every pair of engines that both rounds have in their sweeps."""
    tests = [figures.sweep for figures in (c.old, c.new)]
    if None in tests:
        return []
    called = {new: old for old, new in _names(c).items() if old in tests[0].engines}
    pairs = combinations([e for e in tests[1].engines if e in called], 2)
    return [_crossed(c, tests[0], tests[1], a, b, called) for a, b in pairs]


def _crossed(c: Comparison, then: TestView, now: TestView, a: str, b: str, called: dict[str, str]) -> Crossed:
    old = f"other.{c.slug}."
    sides = {
        (name, when): tuple(_found(c, prefix, test, x, y, name))
        for name in ("cross", "front")
        for when, prefix, test, x, y in (("then", old, then, called[a], called[b]), ("now", "", now, a, b))
    }
    return Crossed(a, b, sides["cross", "then"], sides["cross", "now"], sides["front", "then"], sides["front", "now"])


def _found(c: Comparison, prefix: str, test: TestView, a: str, b: str, name: str) -> Iterator[Quantity]:
    """All crossings of two engines, whichever of them their round names first; one that is missing says why."""
    scopes = [f"{prefix}pair.{test.id}.{x}.{y}.{name}" for x, y in ((a, b), (b, a))]
    scope = next((scope for scope in scopes if f"{scope}1" in c.new.ledger), scopes[0])
    yield from met(c.new.ledger, scope)
