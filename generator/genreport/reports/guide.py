"""06: which one, for me?"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from genreport.charts import guide as drawings
from genreport.comparing.hypotheses import Judged
from genreport.display import shown
from genreport.figures import Figures, TestView, effects
from genreport.figures.choosing import WAIT, on_front
from genreport.figures.crossing import met
from genreport.figures.fitting import CONTEXT, USERS, verdict
from genreport.figures.layout import engine_scope
from genreport.figures.planned import texts
from genreport.figures.pricing import currency
from genreport.places import listing_href
from genreport.provenance import Quantity
from genreport.reports import cautions
from genreport.reports.answers import NOTHING, Told
from genreport.reports.calculators import COEFFICIENTS, calculator, costs
from genreport.reports.choices import Choice, Chooser, Front, Stretch
from genreport.reports.page import Drawn, Page
from genreport.reports.properties import allocation, cliffs, pools, properties
from genreport.reports.rows import Row, RowMaker

# flags of a launch command that decide what it can hold and how fast it is, for the words of the template
DECIDING = {
    "--max-model-len": "length", "--max-num-seqs": "seqs", "--gpu-memory-utilization": "share", "--enforce-eager": "eager",
    "--max-num-batched-tokens": "chunk", "--kv-cache-dtype": "kv", "--tensor-parallel-size": "gpus", "--dtype": "dtype",
    "--num-gpu-blocks-override": "blocks", "-np": "slots", "--parallel": "slots", "-c": "context", "--ctx-size": "context",
    "-ngl": "layers", "--n-gpu-layers": "layers", "-t": "threads", "--threads": "threads", "-fa": "flash",
    "-ctk": "kv", "-ctv": "kv", "-b": "chunk", "-ub": "chunk",
}  # fmt: skip


@dataclass(frozen=True)
class Use:
    """What speaks for one engine: loads and service levels it wins, and the figures in which it is best."""

    engine: str
    loads: tuple[Stretch, ...]
    choices: tuple[Choice, ...]
    fronts: tuple[Front, ...]
    best: tuple[str, ...]


@dataclass(frozen=True)
class Room:
    """What one engine's memory holds: scopes of its start and of its sweep, how it allots KV, and what that load meets."""

    engine: str
    start: str
    sweep: str
    last: str
    allocation: str
    verdict: str
    example: str  # the first limit of the launch that the load of the example breaks


@dataclass(frozen=True)
class Longest:
    """A challenger's first token at the longest prompt measured on both, as `Phases` has it."""

    input: Quantity
    load: Quantity
    first_token: Quantity
    prompt: str


@dataclass(frozen=True)
class Phases:
    """What a challenger does to each phase of a lone user's request: `faster`, `slower`, too `close` to call, `untested`."""

    engine: str
    step: Quantity
    first_token: Quantity
    answer: str
    prompt: str
    longest: Longest | None


@dataclass(frozen=True)
class Launch:
    """One engine's command as run, its environment, the flags in it that decide, and where the round holds it."""

    engine: str
    command: str | None
    env: tuple[tuple[str, str], ...]
    deciding: tuple[tuple[str, str, str], ...]
    href: str
    file: str


def page(figures: Figures, told: Told = NOTHING, judged: Sequence[Judged] = ()) -> Page:
    """The guide of the round's first concurrency sweep; without one, the page says how to measure it."""
    test = figures.sweep
    context = {"test": test} if test is None else _context(figures, test)
    return Page("guide/index.md", "guide.md", context | {"told": told, "hypotheses": judged})


def _context(figures: Figures, test: TestView) -> dict[str, Any]:
    chooser = Chooser(figures, test)
    limits, loads, stretches, fronts = chooser.by_limit(), chooser.by_load(), chooser.stretches(), chooser.fronts()
    peak = chooser.at_peak()
    return {
        "test": test,
        "shape": test.levels_of(test.engines[0])[0].id,
        "limits": limits,
        "loads": loads,
        "peak": peak,
        "stretches": stretches,
        "fronts": fronts,
        "crossings": _crossings(figures, test),
        "deciding": _deciding(fronts, peak),
        "patient": next((choice for choice in limits if choice.winner), None),
        "uses": [_use(chooser, engine, limits, stretches, fronts) for engine in test.engines],
        "front_rows": _front_rows(figures, test),
        "properties": properties(figures, test, chooser),
        "pools": pools(figures, test),
        "rooms": [_room(figures, test, engine, chooser) for engine in test.engines],
        "asked": (f"{USERS:,}", f"{CONTEXT:,}"),
        "data": calculator(figures, test),
        "phases": _phases(chooser),
        **_weights(figures, test),
        "costs": costs(figures, [*limits, peak]),
        "money": currency(figures.round.plan),
        "cliffs": cliffs(figures, test.engines),
        "pitfalls": cautions.pitfalls(figures),
        "signals": cautions.signals(test, chooser),
        "checks": cautions.checks(figures, test, chooser),
        "samplings": cautions.samplings(figures, test),
        "gaps": cautions.gaps(figures),
        "launch_commands": [_launch(figures, engine) for engine in test.engines],
        "not_measured": texts(figures.round.plan, "not_measured"),
        "flags": figures.flags,
        "charts": _charts(figures, test, limits, fronts),
    }


def _deciding(fronts: list[Front], peak: Choice) -> Front | None:
    """The pair of fronts that the choice hangs on: that of the two highest peaks."""
    pair = {cell.engine for cell in (peak.winner, peak.second) if cell}
    return next((front for front in fronts if {front.fronts.a, front.fronts.b} == pair), next(iter(fronts), None))


def _crossings(figures: Figures, test: TestView) -> list[tuple[str, list[Quantity], list[Quantity]]]:
    """Each challenger with every crossing of its throughput and of its front with the baseline's."""
    base, *others = test.engines
    scopes = {other: f"pair.{test.id}.{base}.{other}" for other in others}
    return [
        (other, _found(figures, f"{scope}.cross"), _found(figures, f"{scope}.front")) for other, scope in scopes.items()
    ]


def _found(figures: Figures, prefix: str) -> list[Quantity]:
    return [q for q in met(figures.ledger, prefix) if not q.missing]


def _use(
    chooser: Chooser, engine: str, limits: list[Choice], stretches: list[Stretch], fronts: list[Front]
) -> Use:  # fmt: skip
    fair = pools(chooser.figures, chooser.test).fair
    firsts = {e: f"{chooser.test.id}.{e}" for e in chooser.test.engines}
    starts = {e: engine_scope(chooser.figures.starts, chooser.test.levels_of(e)[0]) for e in firsts}
    best = {
        "weights": chooser.best({e: f"{s}.tensor_bytes" for e, s in starts.items()}, min),
        "pool": chooser.best({e: f"{s}.pool_tokens" for e, s in starts.items()}, max) if fair else None,
        "start": chooser.best({e: f"{s}.start_s" for e, s in starts.items()}, min),
        "shown": chooser.best({e: f"{s}.shown" for e, s in firsts.items()}, max),
    }
    return Use(
        engine=engine,
        loads=tuple(stretch for stretch in stretches if stretch.engine == engine),
        choices=tuple(choice for choice in limits if choice.winner and choice.winner.engine == engine),
        fronts=tuple(front for front in fronts if engine in front.fronts.leaders),
        best=tuple(name for name, winner in best.items() if winner == engine),
    )


def _front_rows(figures: Figures, test: TestView) -> list[tuple[str, str, bool]]:
    """Engine, scope, and whether it is on the front, of every level with both figures."""
    found = []
    for engine in test.engines:
        kept = {level.id for level in on_front(figures.ledger, test.levels_of(engine))}
        found += [(engine, level.id, level.id in kept) for level in test.levels_of(engine)]
    return found


def _room(figures: Figures, test: TestView, engine: str, chooser: Chooser) -> Room:
    last = test.levels_of(engine)[-1]
    start = engine_scope(figures.starts, last)
    limits = {name: chooser.value(f"{start}.{COEFFICIENTS[name]}") for name in ("model", "length", "slots", "pool")}
    example = verdict(USERS, CONTEXT, **limits)
    return Room(
        engine=engine,
        start=start,
        sweep=f"{test.id}.{engine}",
        last=last.id,
        allocation=allocation(figures, engine),
        verdict=verdict(last.concurrency, last.input + last.output, **limits),
        example=example,
    )


def _phases(chooser: Chooser) -> list[Phases]:
    """Each challenger's decode step and first token against the baseline's, at a common load of one request."""
    figures, test = chooser.figures, chooser.test
    base, *others = test.engines
    found = []
    for other in others:
        scope, shared = f"pair.{test.id}.{base}.{other}", test.shared(base, other)
        step = figures.ledger[f"{scope}.measured_step_ratio"]
        if shared and not step.missing:
            name = shared[0][0].name
            paces = (_pace(chooser, f"{figure}_ratio_{name}", base, other) for figure in ("itl_p50", "ttft_p50"))
            wait = figures.ledger[f"{scope}.ttft_p50_ratio_{name}"]
            found.append(Phases(other, step, wait, *paces, _longest(figures, base, other, shared[0][0].input)))
    return found


def _longest(figures: Figures, base: str, other: str, input: int) -> Longest | None:
    """The first token at the longest prompt that both were measured with, if it is longer than that of the sweep."""
    for test in (test for test in figures.tests if test.kind == "length"):
        shared = [pair for pair in test.shared(base, other) if pair[0].input > input]
        wait = (
            figures.ledger.get(f"pair.{test.id}.{base}.{other}.ttft_p50_ratio_{shared[-1][0].name}") if shared else None
        )
        if wait is not None and not wait.missing:
            level = shared[-1][0]
            pace = _pace(Chooser(figures, test), f"ttft_p50_ratio_{level.name}", base, other)
            return Longest(figures.ledger[f"{level.id}.input"], figures.ledger[f"{level.id}.concurrency"], wait, pace)
    return None


def _pace(chooser: Chooser, ratio: str, base: str, other: str) -> str:
    """How a challenger's time compares by the one rule of who wins."""
    faster, slower = (chooser.beats(ratio, *pair, lower=True) for pair in ((other, base), (base, other)))
    return "untested" if faster is None else "faster" if faster else "slower" if slower else "close"


def _weights(figures: Figures, test: TestView) -> dict[str, Any]:
    """What each challenger differs in from the baseline, and the way that takes engine and weights apart."""
    facts = {view.engine: view.facts for view in reversed(figures.starts)}
    base, *others = test.engines
    ways = {other: effects.divided(figures.ledger, test, facts, base, other) for other in others}
    return {
        "differs": {other: effects.differs(facts, base, other) for other in others},
        "divided": {other: way for other, way in ways.items() if way},
    }


def _launch(figures: Figures, engine: str) -> Launch:
    start = next(start for start in figures.starts if start.id == engine)
    words = start.facts.command or []
    return Launch(
        engine=engine,
        command=_typed(words) if words else None,
        env=tuple(sorted(start.facts.env.items())),
        deciding=tuple(_decide(words)),
        href=listing_href(figures.round.launch_file(start.launch)),
        file=figures.round.launch_file(start.launch),
    )


def _typed(words: list[str]) -> str:
    """A command line as one types it, an option with its value on a line; `${…}` stays for the shell to fill in."""
    quoted = [word if re.fullmatch(r"[\w@%+=:,./${}-]+", word) else shlex.quote(word) for word in words]
    lines = [[quoted[0]]]
    for word in quoted[1:]:
        if word.startswith("-") and not re.fullmatch(r"-\d+", word):
            lines.append([])
        lines[-1].append(word)
    return " \\\n  ".join(" ".join(line) for line in lines)


def _decide(words: list[str]) -> Iterator[tuple[str, str, str]]:
    for place, word in enumerate(words):
        name, _, value = word.partition("=")
        if name in DECIDING:
            after = words[place + 1] if place + 1 < len(words) else ""
            yield name, value or ("" if after.startswith("--") else after), DECIDING[name]


def _charts(figures: Figures, test: TestView, limits: list[Choice], fronts: list[Front]) -> Drawn:
    rows = list(_pareto_rows(figures, test))
    waits = [choice.limit for choice in limits if choice.limit and choice.slo.statistic == WAIT]
    met = [(crossing.wait, crossing.throughput) for front in fronts for crossing in front.found]
    drawn = {"pareto": drawings.pareto(rows, limits=waits, crossings=met)}
    return Drawn((name, chart) for name, chart in drawn.items() if chart is not None)


def _pareto_rows(figures: Figures, test: TestView) -> Iterator[Row]:
    maker = RowMaker(figures)
    for engine, level, best in _front_rows(figures, test):
        wait = figures.ledger.get(f"{level}.{WAIT}")
        if wait is None or wait.missing:
            continue
        for row in maker.over_load([(engine, level)], "output_throughput"):
            yield row | {"wait": wait.value, "wait_id": wait.id, "waited": shown(wait.value, wait.unit),
                         "front": "yes" if best else ""}  # fmt: skip
