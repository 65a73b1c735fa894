"""Both rounds of a comparison as rows of charts: the earlier one by its borrowed ids, in the colours of this round."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from urllib.parse import quote

from genreport.comparing import Comparison
from genreport.display import shown
from genreport.figures import Figures
from genreport.figures.latency import GRID
from genreport.places import derivation_href
from genreport.provenance import Ledger, Quantity, Rows
from genreport.reports.rows import Row
from genreport.words import say

Levels = Sequence[tuple[str, str]]  # engine, scope of a level in its own round
# places of the grid that a curve over another curve is drawn through: every tenth percentile, and the whole tail
THIN = tuple(k for k, q in enumerate(GRID) if q % 10 == 0 or q > 90)


@dataclass(frozen=True)
class Side:
    """One round of two: where its figures stand in this round's ledger (`prefix`), and its files from it (`home`)."""

    ledger: Ledger
    figures: Figures
    round: str
    prefix: str
    home: str
    colours: dict[str, str]

    def get(self, id: str) -> Quantity | None:
        """A figure of this side that has a value."""
        q = self.ledger.get(self.prefix + id)
        return None if q is None or q.missing else q

    def points(self, levels: Levels, figure: str) -> Iterator[Row]:
        """One figure a level."""
        for engine, scope in levels:
            q, load = self.get(f"{scope}.{figure}"), self.get(f"{scope}.concurrency")
            if q is not None and load is not None:
                yield self._of(engine, scope) | {
                    "concurrency": load.value, "concurrency_id": load.id, "value": q.value, "value_id": q.id,
                    "shown": shown(q.value, q.unit), "flag": self._flag(scope), "href": self._records(f"{scope}.{figure}"),
                }  # fmt: skip

    def fronts(self, levels: Levels) -> Iterator[Row]:
        """Throughput over the p99 TTFT."""
        for row, (_, scope) in self._with_scope(levels, "output_throughput"):
            wait = self.get(f"{scope}.ttft.p99")
            if wait is not None:
                yield row | {"wait": wait.value, "wait_id": wait.id, "waited": shown(wait.value, wait.unit)}

    def _with_scope(self, levels: Levels, figure: str) -> Iterator[tuple[Row, tuple[str, str]]]:
        return ((row, level) for level in levels for row in self.points([level], figure))

    def distribution(self, levels: Levels) -> Iterator[Row]:
        """Each level's ITL at every quantile of the grid."""
        for engine, scope in levels:
            q = self.get(f"{scope}.itl_ecdf")
            for k in (k for k in THIN if q is not None):
                value = q.value[k]
                yield self._of(engine, scope) | {
                    "value": value, "value_id": f"{q.id}[{k}]", "shown": shown(value, q.unit),
                    "share": f"{GRID[k] / 100:.10g}", "href": self._records(f"{scope}.itl_ecdf"),
                }  # fmt: skip

    def _of(self, engine: str, scope: str) -> Row:
        return {
            "engine": engine, "colour": self.colours[engine], "round": self.round, "level": scope.rpartition(".")[2]
        }  # fmt: skip

    def _flag(self, scope: str) -> str:
        return next((say(f"flag.{flag.kind}") for flag in self.figures.flags if flag.scope == scope), "")

    def _records(self, id: str) -> str:
        """The level's records in its own round where the figure selects rows, else its derivation there."""
        sources = self.figures.ledger[id].sources
        picked = (self.figures.listings.href(*s.picks[0]) for s in sources if isinstance(s, Rows) and s.picks)
        return self.home + next(picked, derivation_href(id))


def sides(c: Comparison) -> tuple[Side, Side]:
    """This round and the earlier one; an engine of the earlier one has the colour of the engine that it became."""
    new = c.new.colours
    became = {pair.old: new[pair.new] for pair in c.engines if pair.old and pair.new}
    free = map(str, count(len(new) + 1))
    old = {engine: became.get(engine) or new.get(engine) or next(free) for engine in c.old.engines}
    return (
        Side(c.new.ledger, c.new, c.new.round.name, "", "", new),
        Side(c.new.ledger, c.old, c.name, f"other.{c.slug}.", f"../{quote(c.name)}/", old),
    )


def sweep(figures: Figures) -> Iterable[tuple[str, str]]:
    """Engine and scope of every level of the round's first concurrency sweep."""
    test = figures.sweep
    return [(e, level.id) for e in test.engines for level in test.levels_of(e)] if test else []
