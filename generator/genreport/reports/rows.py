"""Figures as rows of charts: each number beside the id of the figure it shows (see `charts`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from genreport.display import shown
from genreport.figures import Figures
from genreport.figures.effects import PARTS
from genreport.figures.latency import GRID
from genreport.places import derivation_href
from genreport.provenance import Quantity, Rows
from genreport.words import say

Row = dict[str, Any]
Levels = Sequence[tuple[str, str]]  # engine, scope of a level


class RowMaker:
    """Makes the rows of every chart of one round."""

    def __init__(self, figures: Figures) -> None:
        self.figures = figures
        self.flags = {flag.scope: say(f"flag.{flag.kind}") for flag in figures.flags}
        self.colours = figures.colours

    def over_load(self, levels: Levels, figure: str, *, spread: bool = False) -> list[Row]:
        """One figure per level, with the range of its repeats where asked."""
        return [row for engine, scope in levels for row in self._point(engine, scope, figure, spread=spread)]

    def percentiles(self, levels: Levels, figure: str, names: Iterable[str], *, spread: bool = False) -> list[Row]:
        """Several percentiles of one latency per level, with the range of their repeats where asked."""
        return [
            row | {"percentile": name}
            for name in names
            for engine, scope in levels
            for row in self._point(engine, scope, f"{figure}.{name}", spread=spread)
        ]

    def floors(self, levels: Levels) -> list[Row]:
        """The measured decode step, with the range of its repeats, and its floor per level."""
        return [
            row | {"measure": words}
            for figure, words in (("itl.p50", say("series.itl_p50")), ("floor_s", say("series.floor")))
            for engine, scope in levels
            for row in self._point(engine, scope, figure, spread=True)
        ]

    def walls(self, engine: str, levels: Iterable[str]) -> list[Row]:
        """MBU and MFU of one engine per level."""
        return [
            row | {"wall": figure.upper()}
            for figure in ("mbu", "mfu")
            for scope in levels
            for row in self._point(engine, scope, figure)
        ]

    def ratios(self, pairs: Iterable[Any]) -> list[Row]:
        """The throughput ratio of each level two engines share."""
        found = []
        for pair in pairs:
            if pair.ratio is not None and not pair.ratio.missing:
                flag = self.flags.get(pair.base) or self.flags.get(pair.other) or ""
                row = self._load(pair.base) | self._value(pair.ratio) | self._spread(pair.ratio, ("low", "high"))
                found.append(row | {"level": pair.name, "flag": flag})
        return found

    def split(self, pairs: Iterable[Any], route: str, other: str) -> list[Row]:
        """What the engine and what the precision does to the throughput of each level, by one route, and the whole."""
        found = []
        for part in (*PARTS, "whole"):
            for pair in pairs:
                steps = {each: self.figures.ledger.get(f"{route}.ratio_{each}_{pair.name}") for each in PARTS}
                if any(q is None or q.missing for q in steps.values()):
                    continue
                row = self._load(pair.base) | self._value(steps.get(part, pair.ratio)) | {"engine": other}
                flag = self.flags.get(pair.base) or self.flags.get(pair.other) or ""
                words = {"part": say(f"pair_chart.part_{part}"), "level": pair.name, "flag": flag}
                found.append(row | words | {"colour": self.colours[other]})
        return found

    def byte_groups(self, engines: Iterable[str], groups: Iterable[str]) -> list[Row]:
        """Weight bytes per engine and tensor group."""
        found = []
        for engine in engines:
            for group in groups:
                q = self.figures.ledger.get(f"engine.{engine}.bytes_{group}")
                if q is not None and not q.missing:
                    found.append(self._value(q) | {"engine": engine, "colour": self.colours[engine]}
                                 | {"group": say(f"group.{group}")})  # fmt: skip
        return found

    def usl_curves(self, engines: Iterable[tuple[str, str]]) -> list[Row]:
        """The fitted curve of each (engine, scope of its sweep)."""
        found = []
        for engine, scope in engines:
            grid, curve = (self.figures.ledger.get(f"{scope}.usl_{name}") for name in ("grid", "curve"))
            if curve is None or curve.missing:
                continue
            for k, (c, x) in enumerate(zip(grid.value, curve.value, strict=True)):
                found.append({
                    "engine": engine, "colour": self.colours[engine], "shown": shown(x, curve.unit),
                    "concurrency": c, "concurrency_id": f"{grid.id}[{k}]", "value": x, "value_id": f"{curve.id}[{k}]",
                    "href": derivation_href(curve.id),
                })  # fmt: skip
        return found

    def ecdf(self, levels: Levels) -> list[Row]:
        """Each level's ITL at every quantile of the grid."""
        found = []
        for engine, scope in levels:
            q = self.figures.ledger.get(f"{scope}.itl_ecdf")
            if q is None or q.missing:
                continue
            for k, value in enumerate(q.value):
                found.append({
                    "engine": engine, "colour": self.colours[engine], "level": scope.rpartition(".")[2],
                    "value": value, "value_id": f"{q.id}[{k}]", "shown": shown(value, q.unit),
                    "share": f"{GRID[k] / 100:.10g}", "href": derivation_href(q.id),
                })  # fmt: skip
        return found

    def _point(self, engine: str, scope: str, figure: str, *, spread: bool = False) -> list[Row]:
        q = self.figures.ledger.get(f"{scope}.{figure}")
        if q is None or q.missing:
            return []
        row = self._load(scope) | self._value(q) | self._spread(q if spread else None)
        row |= {"engine": engine, "colour": self.colours[engine], "level": scope.rpartition(".")[2]}
        return [row | {"flag": self.flags.get(scope, ""), "href": self._records(q)}]

    def over_turns(self, engine: str, level: str, turns: Iterable[str]) -> list[Row]:
        """The median wait of each turn of a level of conversations."""
        ledger, found = self.figures.ledger, []
        count = ledger[f"{level}.concurrency"]
        under_way = say("chart.under_way", count=shown(count.value, count.unit))
        for turn in turns:
            number, q = ledger[f"{turn}.number"], ledger[f"{turn}.ttft.p50"]
            if number.missing or q.missing:
                continue
            at = {"turn": number.value, "turn_id": number.id, "at": f"{say('chart.turn')} {number.value:g}"}
            at |= self._load(level) | {"under_way": under_way, "engine": engine, "colour": self.colours[engine]}
            found.append(at | self._value(q))
        return found

    def over_minutes(self, parts: Levels, figure: str) -> list[Row]:
        """A figure of each part of a soak, over the minutes after which the part begins."""
        ledger, found = self.figures.ledger, []
        for engine, part in parts:
            since, q = ledger[f"{part}.from"], ledger[f"{part}.{figure}"]
            if since.missing or q.missing:
                continue
            place = {"minutes": since.value, "minutes_id": since.id, "after": shown(since.value, since.unit)}
            found.append(place | self._value(q) | {"engine": engine, "colour": self.colours[engine]})
        return found

    def _load(self, scope: str) -> Row:
        q = self.figures.ledger[f"{scope}.concurrency"]
        return {"concurrency": q.value, "concurrency_id": q.id}

    def _value(self, q: Quantity) -> Row:
        return {"value": q.value, "value_id": q.id, "shown": shown(q.value, q.unit), "href": derivation_href(q.id)}

    def _spread(self, q: Quantity | None, ends: tuple[str, str] = ("min", "max")) -> Row:
        found: Row = {}
        for name, end in zip(("low", "high"), ends, strict=True) if q else ():
            edge = self.figures.ledger.get(f"{q.id}.{end}")
            if edge is not None and not edge.missing:
                found |= {name: edge.value, f"{name}_id": edge.id}
        return found

    def _records(self, q: Quantity) -> str:
        """The level's records where the figure selects rows, else its derivation."""
        for source in q.sources:
            if isinstance(source, Rows) and source.picks:
                return self.figures.listings.href(*source.picks[0])
        return derivation_href(q.id)
