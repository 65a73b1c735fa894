"""Figures of a length sweep as rows of its charts: each number beside the id of the figure it shows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from genreport.charts import Row
from genreport.display import shown
from genreport.figures import Figures, LevelView
from genreport.places import derivation_href
from genreport.provenance import Quantity
from genreport.words import say

# points of one level that a chart draws; a level with more shows an even selection, its figures rest on all
POINTS = 48


class LengthRows:
    """Makes the rows of one engine's charts."""

    def __init__(self, figures: Figures, engine: str) -> None:
        self.figures, self.engine = figures, engine
        colours = figures.colours
        self.common = {"engine": engine, "colour": colours.get(engine, "1")}
        self.flags = {flag.scope: say(f"flag.{flag.kind}") for flag in figures.flags}

    def samples(self, levels: Iterable[str], seen: str) -> list[Row]:
        """A point for each sample that tells: what was held (`seen`) over the resident tokens."""
        return [row for level in levels for row in self._samples(level, seen)]

    def _samples(self, level: str, seen: str) -> list[Row]:
        x, y = self._known(f"{level}.kv_tokens"), self._known(f"{level}.{seen}")
        if x is None or y is None:
            return []
        step = -(-len(x.value) // POINTS)
        return [self._sample(x, y, k) | {"level": _name(level)} for k in range(0, len(x.value), step)]

    def _sample(self, x: Quantity, y: Quantity, k: int) -> Row:
        return {
            "tokens": x.value[k], "tokens_id": f"{x.id}[{k}]", "value": y.value[k], "value_id": f"{y.id}[{k}]",
            "shown": shown(y.value[k], y.unit), "href": derivation_href(y.id),
        }  # fmt: skip

    def means(self, levels: Iterable[str], seen: str) -> list[Row]:
        """Each level where its mean lies."""
        found = []
        for level in levels:
            x, y = self._known(f"{level}.kv_tokens.mean"), self._known(f"{level}.{seen}.mean")
            if x is not None and y is not None:
                found.append(self._value(y) | {"tokens": x.value, "tokens_id": x.id, "level": _name(level)}
                             | {"at": shown(x.value, x.unit)})  # fmt: skip
        return found

    def line(self, prefix: str) -> list[Row]:
        """Both ends of a fitted line."""
        x, y = self._known(f"{prefix}_line_tokens"), self._known(f"{prefix}_line")
        ends = [] if x is None or y is None else [self._sample(x, y, k) for k in range(len(x.value))]
        return [end | {"slope_id": f"{prefix}_slope"} for end in ends]

    def walls(self, levels: Sequence[str]) -> list[Row]:
        """MBU and MFU at each length."""
        return [row | {"wall": share.upper()} for share in ("mbu", "mfu") for row in self.over_length(levels, share)]

    def over_length(self, levels: Iterable[str], figure: str) -> list[Row]:
        """One figure at each length."""
        return [row for level in levels for row in self._over_length(level, figure)]

    def _over_length(self, level: str, figure: str) -> list[Row]:
        q, length = self._known(f"{level}.{figure}"), self.figures.ledger[f"{level}.input"]
        if q is None:
            return []
        place = {"input": length.value, "input_id": length.id, "at": shown(length.value, length.unit)}
        return [self.common | self._level(level) | self._value(q) | place]

    def cross(self, scope: str) -> Row | None:
        """The length at which both shares are equal."""
        q = self._known(f"{scope}.walls_cross_input")
        if q is None:
            return None
        return {"input": q.value, "input_id": q.id, "shown": shown(q.value, q.unit),
                "href": derivation_href(q.id)}  # fmt: skip

    def ridge(self, scope: str) -> list[Row]:
        """The intensity at which both ceilings meet."""
        q = self._known(f"{scope}.ridge")
        return [] if q is None else [self._value(q)]

    def roofline(self, levels: Iterable[LevelView]) -> list[Row]:
        """FLOP/s over intensity, a point a level, of every sweep it is given."""
        return [row for level in levels for row in self._roofline(level)]

    def _roofline(self, level: LevelView) -> list[Row]:
        x, y = self._known(f"{level.id}.intensity"), self._known(f"{level.id}.flops_rate")
        if x is None or y is None:
            return []
        place = {"intensity": x.value, "intensity_id": x.id, "at": shown(x.value, x.unit), "sweep": level.test}
        return [self.common | self._level(level.id) | self._value(y) | place]

    def roof(self, scope: str, start: str) -> list[Row]:
        """The line of both ceilings; its ends hold the ceiling they stand for (`ceiling`)."""
        x, y = self._known(f"{scope}.roof_intensity"), self._known(f"{scope}.roof")
        if x is None or y is None:
            return []
        ceilings = [self.figures.ledger[f"{start}.{name}"] for name in ("bandwidth", "flops_ceiling")]
        first, last = ({"ceiling": shown(q.value, q.unit), "ceiling_id": q.id} for q in ceilings)
        points = zip(x.value, y.value, (first, {"ceiling": ""}, last), strict=True)
        return [
            {"intensity": i, "intensity_id": f"{x.id}[{k}]", "value": rate, "value_id": f"{y.id}[{k}]", **ceiling,
             "shown": shown(rate, y.unit), "href": derivation_href(y.id)}
            for k, (i, rate, ceiling) in enumerate(points)
        ]  # fmt: skip

    def _level(self, level: str) -> Row:
        return {"level": _name(level), "flag": self.flags.get(level, "")}

    def _value(self, q: Quantity) -> Row:
        return {"value": q.value, "value_id": q.id, "shown": shown(q.value, q.unit), "href": derivation_href(q.id)}

    def _known(self, id: str) -> Quantity | None:
        q = self.figures.ledger.get(id)
        return None if q is None or q.missing else q


def _name(level: str) -> str:
    return level.rpartition(".")[2]
