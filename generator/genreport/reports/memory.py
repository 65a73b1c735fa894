"""The memory of engines, for the pages that ask for it: what a start-up log states, held against what was measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from genreport.charts.memory import memory
from genreport.display import shown
from genreport.figures import Figures
from genreport.figures.memory import PLACES
from genreport.places import derivation_href
from genreport.provenance import Quantity
from genreport.reports.page import Drawn
from genreport.reports.properties import allocation
from genreport.reports.rows import Row, RowMaker
from genreport.startlog import PARTS
from genreport.words import say

# a log that accounts for all but this share of what was measured accounts for it
NEAR = 0.05


@dataclass(frozen=True)
class Stated:
    """One statement of a log: the part of the memory, which rank or device it is of, and its figure."""

    part: str
    who: str
    figure: Quantity


@dataclass(frozen=True)
class Bar:
    """One engine's memory in one place, `card` or `host`; `scope` is that of its figures.

    `verdict`: the log accounts for it (`explained`), states less (`less`) or more (`more`) than was measured; or
    `unmeasured`, `unstated`.
    """

    engine: str
    place: str
    scope: str
    verdict: str
    statements: tuple[Stated, ...]


@dataclass(frozen=True)
class Pool:
    """How one engine hands out KV (`blocks`, `slots`, `unified`, `unknown`), and the scope of its figures."""

    engine: str
    scope: str
    allocation: str


def account(figures: Figures, *engines: str) -> dict[str, Any]:
    """What `_h2h-memory.html` says of these engines, under the key `memory` of a page's context."""
    bars = [bar for engine in engines for bar in _bars(figures, engine)]
    drawn = memory(_rows(figures, bars))
    return {
        "bars": bars,
        "parts": PARTS,
        "pools": [Pool(engine, f"engine.{engine}", allocation(figures, engine)) for engine in engines],
        "silent": [engine for engine in engines if all(bar.engine != engine for bar in bars)],
        "listed": [bar for bar in bars if len(bar.statements) > len({stated.part for stated in bar.statements})],
        "charts": Drawn({"memory": drawn} if drawn else {}),
    }


def _bars(figures: Figures, engine: str) -> list[Bar]:
    scopes = {place: f"engine.{engine}.memory.{place}" for place in PLACES}
    return [
        Bar(engine, place, scope, _verdict(figures, scope), _statements(figures, scope))
        for place, scope in scopes.items()
        if f"{scope}.stated" in figures.ledger
    ]


def _verdict(figures: Figures, scope: str) -> str:
    stated, measured, share = (
        figures.ledger[f"{scope}.{name}"] for name in ("stated", "measured", "unexplained_share")
    )
    if stated.missing:
        return "unstated"
    if measured.missing or share.missing:
        return "unmeasured"
    return "explained" if abs(share.value) <= NEAR else "less" if share.value > 0 else "more"


def _statements(figures: Figures, scope: str) -> tuple[Stated, ...]:
    """Every single statement, part by part."""
    found = []
    for part in PARTS:
        total = figures.ledger.get(f"{scope}.{part}")
        for id in total.inputs.get("parts", ()) if total is not None else ():
            found.append(Stated(part, id.rpartition(".")[2], figures.ledger[id]))
    return tuple(found)


def _rows(figures: Figures, bars: list[Bar]) -> list[Row]:
    """Bars of the chart: the parts, what the log does not account for, and a mark at what was measured."""
    colours, alone = RowMaker(figures).colours, len({bar.place for bar in bars}) < 2
    found = []
    for bar in bars:
        name = bar.engine if alone else say("memory.bar", engine=bar.engine, place=say(f"memory.{bar.place}"))
        for part in (*PARTS, "unexplained", "measured"):
            q = figures.ledger.get(f"{bar.scope}.{part}")
            # less than nothing is no piece of a bar: the mark stands inside it
            if q is not None and not q.missing and (part != "unexplained" or q.value > 0):
                found.append({
                    "engine": bar.engine, "colour": colours.get(bar.engine, "1"), "bar": name, "part": part,
                    "value": q.value, "value_id": q.id, "shown": shown(q.value, q.unit), "href": derivation_href(q.id),
                })  # fmt: skip
    return found
