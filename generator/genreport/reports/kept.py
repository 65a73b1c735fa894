"""Which loads of an engine keep a service level: the largest that does, and the smallest that does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from genreport.figures import Figures, LevelView
from genreport.figures.choosing import Slo
from genreport.provenance import Quantity


@dataclass(frozen=True)
class Found:
    """The largest load at which one engine keeps a limit.

    `case`: `between` (`held` kept the limit, `broke` is the lowest load that did not), `all` kept it, or `none`; `statistic` is
    the figure that decided.
    """

    engine: str
    case: str
    held: str | None
    broke: str | None
    statistic: str


@dataclass(frozen=True)
class Held:
    """A service level that loads are held against, and what each engine makes of it; `searched`: the plan asked for it."""

    slo: Slo
    limit: Quantity
    searched: bool
    engines: tuple[Found, ...]


def found(figures: Figures, engine: str, levels: Sequence[LevelView], name: str, limit: float) -> Found:
    """A level keeps the limit if its figure does and no request failed, as in the runner."""
    kept = {level.id: _keeps(figures, level.id, name, limit) for level in levels}
    held = [id for id, keeps in kept.items() if keeps]
    broke = [id for id, keeps in kept.items() if not keeps]
    case = "all" if not broke else "none" if not held else "between"
    return Found(engine, case, held[-1] if held else None, broke[0] if broke else None, name)


def _keeps(figures: Figures, level: str, name: str, limit: float) -> bool:
    q = figures.ledger.get(f"{level}.{name}")
    value = q.value if q else None
    return value is not None and value <= limit and not figures.ledger[f"{level}.failed"].value
