"""05: what does the challenger save, and where does it lose it? One page per challenger against the baseline."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from genreport import charts
from genreport.charts import effects as effect_charts
from genreport.charts import lanes as lane_charts
from genreport.charts import waves as wave_charts
from genreport.figures import Figures, LevelView, TestView, effects, waves
from genreport.figures.capacity import GROUPS
from genreport.figures.crossing import RATIOS, met
from genreport.provenance import Quantity
from genreport.records import LaunchFacts
from genreport.reports import anomalies, lane_rows, memory
from genreport.reports.choices import Chooser
from genreport.reports.page import Drawn, Page
from genreport.reports.rows import RowMaker

EQUAL = 0.02  # logs of ratios this close to 0 mean "the same"
# figures that one engine wins, the better end of each; all but these have no winner
BETTER = {
    "output_throughput": max,
    "ttft.p50": min,
    "ttft.p99": min,
    "itl.p50": min,
    "e2el.p95": min,
    "prefill.mean": min,
}
# a reader takes in no more; the flags of every level stand at the end of the page
MOST_ANOMALIES = 15


@dataclass(frozen=True)
class Pairing:
    """One level of both engines side by side: who is ahead by each figure, and whether that one wins.

    `calls` of a figure: `wins`, too `close` to call, or `untested`; `known` are the figures that both have; `measured`: both
    have a throughput.
    """

    name: str
    base: str
    other: str
    ratio: Quantity | None
    winners: dict[str, str | None]
    calls: dict[str, str]
    known: frozenset[str]
    measured: bool

    def scope(self, side: str) -> str:
        return self.base if side == "base" else self.other


@dataclass(frozen=True)
class Tally:
    """Who is ahead by one figure, level by level, too `close` to call, or the same; `ratio` names its ratios."""

    figure: str
    ratio: str
    base: tuple[Pairing, ...]
    other: tuple[Pairing, ...]
    even: tuple[Pairing, ...]
    close: tuple[Pairing, ...]
    untested: bool  # at some level that one of them is ahead at

    @property
    def told(self) -> bool:
        """Whether both show the figure at some level."""
        return bool(self.base or self.other or self.even or self.close)


@dataclass(frozen=True)
class Silent:
    """An engine without a throughput at any common level, and whether it completed requests all the same."""

    engine: str
    side: str
    completed: bool


def pages(figures: Figures) -> list[Page]:
    """A page for each engine that shares a concurrency sweep with the baseline."""
    test = next((test for test in figures.tests if test.kind == "concurrency" and len(test.engines) > 1), None)
    if test is None:
        return [Page("head-to-head/index.md", "not-measured.md", {"kind": "head-to-head", "number": "05"})]
    base, *challengers = test.engines
    return [_page(figures, test, base, challenger) for challenger in challengers]


def _page(figures: Figures, test: TestView, base: str, other: str) -> Page:
    pairs, scope = _pairs(Chooser(figures, test), base, other), f"pair.{test.id}.{base}.{other}"
    measured = [pair for pair in pairs if pair.measured]
    chosen = waves.choose(figures.ledger, test, base, other)
    both = (chosen.base, chosen.other) if chosen else ()
    odd = anomalies.found(figures, test, (base, other))
    facts = {view.engine: view.facts for view in reversed(figures.starts)}
    divided = effects.divided(figures.ledger, test, facts, base, other)
    via = divided.scope if divided else ""
    context = {
        "test": test,
        "base": base,
        "other": other,
        "scope": scope,
        "pairs": pairs,
        "measured": measured,
        "silent": [
            found
            for engine, side in ((base, "base"), (other, "other"))
            if (found := _silent(figures, pairs, engine, side))
        ],
        "repeated": any(pair.calls["output_throughput"] != "untested" for pair in measured),
        "crossings": met(figures.ledger, f"{scope}.cross"),
        "crossing_case": _crossing_case(figures, scope, measured),
        "tallies": [_tally(figure, ratio, base, pairs) for ratio, figure in RATIOS.items() if figure in BETTER],
        "groups": _groups(figures, base, other),
        "variants": [family for family in _families(test, facts, (base, other)) if len(family) > 1],
        "predicted_case": _predicted_case(figures, f"{scope}.predicted_step_ratio", f"{scope}.measured_step_ratio"),
        "divided": divided,
        "precision_case": _predicted_case(figures, *(f"{via}.step_{name}" for name in ("predicted", "precision"))),
        "differs": effects.differs(facts, base, other),
        "mixed": _kind(facts, base) != _kind(facts, other),
        "routes": effects.routes(test, facts, base, other),
        "single": next((pair for pair in pairs if figures.ledger.value(f"{pair.base}.concurrency") == 1), None),
        "worst": [(engine, _worst(figures, test, engine)) for engine in (base, other)],
        "chosen": chosen,
        "lanes": [found for level in both if (found := _lane_scopes(figures, level))],
        "reused": [e for e in (base, other) if _any(figures, test, e, "graph_reuse")],
        "anomalies": odd[:MOST_ANOMALIES],
        "more_anomalies": len(odd) > MOST_ANOMALIES,
        "experiments": anomalies.experiments(odd[:MOST_ANOMALIES]),
        "flags": _flags(figures, test, base, other),
        "memory": memory.account(figures, base, other),
    }
    context["charts"] = _charts(figures, test, context)
    return Page(f"head-to-head-{other}/index.md", "head-to-head.md", context)


# ------------------------------------------------------------------------------------- level by level


def _pairs(chooser: Chooser, base: str, other: str) -> list[Pairing]:
    return [_pair(chooser, base, other, level.name) for level, _ in chooser.test.shared(base, other)]


def _pair(chooser: Chooser, base: str, other: str, name: str) -> Pairing:
    figures, test = chooser.figures, chooser.test
    a, b = f"{test.id}.{base}.{name}", f"{test.id}.{other}.{name}"
    return Pairing(
        name=name,
        base=a,
        other=b,
        ratio=figures.ledger.get(f"pair.{test.id}.{base}.{other}.ratio_{name}"),
        winners=(winners := {f: _winner(figures, f, best, {base: a, other: b}) for f, best in BETTER.items()}),
        calls={figure: _call(chooser, f"{ratio}_{name}", winners[figure], (base, other), BETTER[figure])
               for ratio, figure in RATIOS.items() if figure in BETTER},
        known=frozenset(
            figure for figure in BETTER if None not in (figures.ledger.value(f"{level}.{figure}") for level in (a, b))
        ),
        measured=all(figures.ledger.value(f"{level}.output_throughput") for level in (a, b)),
    )  # fmt: skip


def _winner(figures: Figures, figure: str, best: Any, scopes: dict[str, str]) -> str | None:
    found = {engine: figures.ledger.value(f"{scope}.{figure}") for engine, scope in scopes.items()}
    if None in found.values() or len({*found.values()}) == 1:
        return None
    return best(found, key=lambda engine: found[engine])


def _call(chooser: Chooser, ratio: str, winner: str | None, engines: tuple[str, str], better: Any) -> str:
    """What the interval of a ratio of both makes of a lead."""
    if winner is None:
        return "none"
    behind = next(engine for engine in engines if engine != winner)
    return {True: "wins", False: "close", None: "untested"}[chooser.beats(ratio, winner, behind, lower=better is min)]


def _tally(figure: str, ratio: str, base: str, pairs: list[Pairing]) -> Tally:
    won = [pair for pair in pairs if pair.winners[figure] and pair.calls[figure] != "close"]
    return Tally(
        figure,
        ratio,
        base=tuple(pair for pair in won if pair.winners[figure] == base),
        other=tuple(pair for pair in won if pair.winners[figure] != base),
        even=tuple(pair for pair in pairs if figure in pair.known and not pair.winners[figure]),
        close=tuple(pair for pair in pairs if pair.calls[figure] == "close"),
        untested=any(pair.calls[figure] == "untested" for pair in pairs),
    )


def _silent(figures: Figures, pairs: list[Pairing], engine: str, side: str) -> Silent | None:
    """The engine, if it has a throughput at no common level."""
    scopes = [pair.scope(side) for pair in pairs]
    if not scopes or any(figures.ledger.value(f"{scope}.output_throughput") for scope in scopes):
        return None
    return Silent(engine, side, completed=any(figures.ledger.value(f"{scope}.completed") for scope in scopes))


def _crossing_case(figures: Figures, scope: str, measured: list[Pairing]) -> str:
    """How two throughput curves stand to each other: crosses, same, ahead throughout, or unknown."""
    if len(measured) < 2:
        return "unknown"
    if not any(pair.winners["output_throughput"] for pair in measured):
        return "same"
    found = met(figures.ledger, f"{scope}.cross")
    return "crosses" if found and not found[0].missing else "ahead"


# ------------------------------------------------------------------------------------- engines as a whole


def _groups(figures: Figures, base: str, other: str) -> list[str]:
    def known(group: str) -> bool:
        return any(figures.ledger.value(f"engine.{engine}.bytes_{group}") is not None for engine in (base, other))

    return [group for group in GROUPS if known(group)]


def _families(test: TestView, facts: dict[str, LaunchFacts], engines: Sequence[str]) -> list[list[str]]:
    """Each of these engines with its variants of this test (other slots, flags, replicas), as planned."""

    def root(id: str) -> str:
        return (facts[id].variant_of if id in facts else None) or id

    return [[id for id in test.engines if root(id) == name] for name in dict.fromkeys(map(root, engines))]


def _kind(facts: dict[str, LaunchFacts], engine: str) -> str | None:
    return facts[engine].kind if engine in facts else None


def _any(figures: Figures, test: TestView, engine: str, figure: str) -> bool:
    return any(figures.ledger.value(f"{level.id}.{figure}") is not None for level in test.levels_of(engine))


def _worst(figures: Figures, test: TestView, engine: str) -> str | None:
    """The level at which an engine loses most time to stalls; none where nothing was observed or nothing stalls."""
    shares = {level.id: figures.ledger.value(f"{level.id}.stall_share") or 0 for level in test.levels_of(engine)}
    return max(shares, key=lambda id: shares[id]) if any(shares.values()) else None


def _lane_scopes(figures: Figures, level: LevelView) -> tuple[str, str, list[str]] | None:
    """Engine, scope of its lanes, and the scope of each lane of a level."""
    scope = waves.lanes_of(figures.ledger, level)
    count = figures.ledger.value(f"{scope}.count")
    return (level.engine, scope, [f"{scope}.{lane}" for lane in range(1, int(count) + 1)]) if count else None


def _flags(figures: Figures, test: TestView, base: str, other: str) -> list[Any]:
    levels, engines = (f"{test.id}.{base}.", f"{test.id}.{other}."), (f"engine.{base}", f"engine.{other}")
    return [flag for flag in figures.flags if flag.scope.startswith(levels) or flag.scope in engines]


def _predicted_case(figures: Figures, predicted: str, measured: str) -> str:
    """How the step ratio that the bytes predict stands to the one measured, both by id.

    First word: what the challenger reads per step (equal, saves, costs); second: what became of it.
    """
    both = [figures.ledger.value(id) for id in (predicted, measured)]
    if not all(both):
        return "unknown"
    p, m = map(log, both)
    if abs(p) <= EQUAL:
        return "equal same" if abs(m) <= EQUAL else "equal faster" if m > 0 else "equal slower"
    if p > 0:
        return "saves lost" if m <= 0 else "saves partly" if m < p else "saves more"
    return "costs nothing" if m >= 0 else "costs time"


# ------------------------------------------------------------------------------------- charts


def _charts(figures: Figures, test: TestView, context: dict[str, Any]) -> Drawn:
    rows, base, other, pairs = RowMaker(figures), context["base"], context["other"], context["pairs"]
    levels = [(engine, pair.scope(side)) for engine, side in ((base, "base"), (other, "other")) for pair in pairs]
    drawn = {
        "throughput": charts.throughput(
            rows.over_load(levels, "output_throughput", spread=True),
            crossings=[q for q in context["crossings"] if not q.missing],
        ),
        "ttft": charts.latency(rows.percentiles(levels, "ttft", ("p50", "p99"), spread=True), "TTFT"),
        "ratio": charts.ratio(rows.ratios(pairs), base, other),
        "bytes": charts.byte_account(rows.byte_groups((base, other), context["groups"])),
        "floor": charts.floor(rows.floors(levels)),
        "attainment": charts.attainment(rows.over_load(levels, "attainment")),
        "stall_share": wave_charts.stall_share(rows.over_load(levels, "stall_share")),
        "wave_index": wave_charts.wave_index(rows.over_load(levels, "wave_index")),
        "graph_reuse": wave_charts.graph_reuse(rows.over_load(levels, "graph_reuse", spread=True)),
        **_lanes(figures, context["chosen"]),
    }
    for route in context["routes"]:
        drawn[f"split.{route.third}"] = effect_charts.split(rows.split(pairs, route.scope, other), base, other)
    return Drawn((name, chart) for name, chart in drawn.items() if chart is not None)


def _lanes(figures: Figures, chosen: waves.Chosen | None) -> dict[str, Any]:
    """The first requests of both engines at the chosen level, over the same seconds."""
    levels = {"base": chosen.base, "other": chosen.other} if chosen else {}
    found = {side: lanes for side, level in levels.items() if (lanes := lane_rows.lanes(figures, level))}
    end = max((lanes.total["end"] for lanes in found.values()), default=1)
    return {
        f"lanes.{side}": lane_charts.lanes(lanes.requests, lanes.events, lanes.stalls, lanes.total, end=end)
        for side, lanes in found.items()
    }
