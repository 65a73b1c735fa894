"""Figures of an open loop as rows of its charts: each number beside the id of the figure it shows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from genreport.charts import Row
from genreport.display import shown
from genreport.figures import Figures
from genreport.places import derivation_href
from genreport.provenance import Quantity, Rows
from genreport.words import say

Levels = Sequence[tuple[str, str]]  # engine, scope of a level


class ArrivalRows:
    """Makes the rows of the charts of one round's open loops."""

    def __init__(self, figures: Figures) -> None:
        self.figures = figures
        self.flags = {flag.scope: say(f"flag.{flag.kind}") for flag in figures.flags}

    def achieved(self, levels: Levels) -> list[Row]:
        """Requests completed a second, over those that came."""
        return [row for engine, scope in levels for row in self._achieved(engine, scope)]

    def _achieved(self, engine: str, scope: str) -> Iterator[Row]:
        share = self._known(f"{scope}.achieved_share")
        for row in self._over_rate(engine, scope, "achieved_rate") if share else ():
            yield row | {"kept": shown(share.value, share.unit), "kept_id": share.id}

    def waits(self, levels: Levels, names: Iterable[str]) -> list[Row]:
        """Percentiles of what a request waits for its first token from when it is due, over arrivals a second."""
        return [
            row | {"percentile": name}
            for name in names
            for engine, scope in levels
            for row in self._over_rate(engine, scope, f"due_ttft.{name}")
        ]

    def limits(self, named: Iterable[tuple[str, Quantity]]) -> list[Row]:
        """Limits of a percentile of the wait, each named by both."""
        return [
            {
                "value": q.value, "value_id": q.id, "href": derivation_href(q.id),
                "label": say("arrivals_chart.limit", percentile=percentile, shown=shown(q.value, q.unit)),
            }
            for percentile, q in named
        ]  # fmt: skip

    def over_time(self, engine: str, scope: str) -> list[Row]:
        """What requests waited that were due in each stretch of a level: median and p99, and how many they were."""
        t, n, p50, p99 = (self._known(f"{scope}.over_time.{name}") for name in ("t", "n", "p50", "p99"))
        return [
            self._stretch(engine, scope, t, k, p99) | {
                "median": p50.value[k], "median_id": f"{p50.id}[{k}]", "p50": shown(p50.value[k], "s"),
                "shown": shown(p99.value[k], "s"), "requests": shown(n.value[k], n.unit), "requests_id": f"{n.id}[{k}]",
            }
            for k in range(len(t.value) if t else 0)
        ]  # fmt: skip

    def failures(self, engine: str, scope: str) -> list[Row]:
        """How many requests failed that were due in each stretch of a level in which some did."""
        t, failed = (self._known(f"{scope}.over_time.{name}") for name in ("failed_t", "failed"))
        return [
            self._stretch(engine, scope, t, k, failed) | {"shown": shown(failed.value[k], failed.unit)}
            for k in range(len(t.value) if t else 0)
        ]

    def _stretch(self, engine: str, scope: str, t: Quantity, k: int, q: Quantity) -> Row:
        rate = self.figures.ledger[f"{scope}.arrival_rate"]
        return {
            "engine": engine, "colour": self.figures.colours[engine], "rate": shown(rate.value, rate.unit), "rate_id": rate.id,
            "t": t.value[k], "t_id": f"{t.id}[{k}]", "after": shown(t.value[k], t.unit),
            "value": q.value[k], "value_id": f"{q.id}[{k}]", "href": self._records(q),
        }  # fmt: skip

    def _over_rate(self, engine: str, scope: str, figure: str) -> Iterator[Row]:
        rate, q = self._known(f"{scope}.arrival_rate"), self._known(f"{scope}.{figure}")
        if rate and q:
            yield self._of(engine, scope) | {
                "arrivals": rate.value, "arrivals_id": rate.id, "rate": shown(rate.value, rate.unit),
                "value": q.value, "value_id": q.id, "shown": shown(q.value, q.unit), "href": self._records(q),
            }  # fmt: skip

    def _of(self, engine: str, scope: str) -> Row:
        place = {"engine": engine, "colour": self.figures.colours[engine], "level": scope.rpartition(".")[2]}
        return place | {"flag": self.flags.get(scope, "")}

    def _known(self, id: str) -> Quantity | None:
        q = self.figures.ledger.get(id)
        return None if q is None or q.missing else q

    def _records(self, q: Quantity) -> str:
        """The level's records where the figure selects rows, else its derivation."""
        picks = (source.picks[0] for source in q.sources if isinstance(source, Rows) and source.picks)
        place = next(picks, None)
        return self.figures.listings.href(*place) if place else derivation_href(q.id)
