"""The first requests of a level as rows of its swim lanes: each number beside the id of the figure it shows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

from genreport.charts import Row
from genreport.display import shown
from genreport.figures import Figures, LevelView
from genreport.figures.waves import STALL, lanes_of
from genreport.provenance import Quantity
from genreport.words import say


@dataclass(frozen=True)
class Lanes:
    """Rows of the lanes of one level: its requests, their text events, their stalls, and the counts of all."""

    requests: list[Row]
    events: list[Row]
    stalls: list[Row]
    total: Row


@dataclass(frozen=True)
class _Lane:
    """The figures of one request."""

    engine: str
    colour: str
    href: str
    request: Quantity
    start: Quantity
    first: Quantity
    last: Quantity
    text: Quantity

    @property
    def name(self) -> Row:
        return {"request": int(self.request.value), "request_id": self.request.id}

    def point(self, field: str, k: int) -> Row:
        return {field: self.text.value[k], f"{field}_id": f"{self.text.id}[{k}]"}


def lanes(figures: Figures, level: LevelView) -> Lanes | None:
    """What the swim lanes of a level draw; `None` where none were entered."""
    scope = lanes_of(figures.ledger, level)
    count = figures.ledger.get(f"{scope}.count")
    if count is None or count.missing:
        return None
    found = [_lane(figures, level.engine, f"{scope}.{lane}") for lane in range(1, int(count.value) + 1)]
    median = figures.ledger[f"{level.id}.gap.p50"]
    return Lanes(
        requests=[_request(lane) for lane in found],
        events=[lane.name | lane.point("value", k) for lane in found for k in range(len(lane.text.value))],
        stalls=[] if median.missing else [row for lane in found for row in _stalls(lane, STALL * median.value)],
        total=_total(figures, level, scope, count),
    )


def _lane(figures: Figures, engine: str, scope: str) -> _Lane:
    figs = {name: figures.ledger[f"{scope}.{name}"] for name in ("request", "start", "first", "last", "text")}
    colour = figures.colours.get(engine, "1")
    return _Lane(engine, colour, figures.listings.href(*figs["request"].sources[0].picks[0]), **figs)


def _request(lane: _Lane) -> Row:
    return {
        "engine": lane.engine, "colour": lane.colour, **lane.name, "value": lane.start.value, "value_id": lane.start.id,
        "shown": shown(lane.start.value, "s"), "first": lane.first.value, "first_id": lane.first.id,
        "until": shown(lane.first.value, "s"), "last": lane.last.value, "last_id": lane.last.id, "href": lane.href,
    }  # fmt: skip


def _stalls(lane: _Lane, longest: float) -> Iterator[Row]:
    """Each gap of a lane that is longer than a gap may be."""
    for k, (start, end) in enumerate(pairwise(lane.text.value)):
        if end - start > longest:
            words = {"shown": shown(start, "s"), "until": shown(end, "s")}
            yield lane.name | lane.point("value", k) | lane.point("to", k + 1) | words | {"href": lane.href}


def _total(figures: Figures, level: LevelView, scope: str, count: Quantity) -> Row:
    """How many requests and stalls are drawn, until when, and at which load."""
    stalls, end, load = (figures.ledger[id] for id in (f"{scope}.stalls", f"{scope}.end", f"{level.id}.concurrency"))
    words = {"shown": shown(count.value, count.unit), "counted": _said(stalls)}
    return {
        **words, "value": count.value, "value_id": count.id, "stalls": stalls.value, "stalls_id": stalls.id,
        "end": end.value, "end_id": end.id, "ended": shown(end.value, end.unit), "concurrency": load.value,
        "concurrency_id": load.id, "load": shown(load.value, load.unit), "label": say("pair_chart.lanes_label", **words),
    }  # fmt: skip


def _said(q: Quantity) -> str:
    return say("number.na") if q.missing else shown(q.value, q.unit)
