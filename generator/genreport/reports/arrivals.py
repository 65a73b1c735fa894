"""07: up to which rate of arrivals does each engine keep up?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from genreport.charts import Chart, Row, arrivals_time
from genreport.charts.arrivals import achieved, waits
from genreport.figures import Figures, LevelView, TestView
from genreport.figures.arriving import limit_of, searched, statistic
from genreport.figures.choosing import slos
from genreport.reports.arrival_rows import ArrivalRows, Levels
from genreport.reports.kept import Held, found
from genreport.reports.page import Drawn, Page, crewed, repeated, tests_of

# the wait may grow by so much in each second of load before an engine counts as falling behind
GROWS = 0.05
# and so may the share of requests that fail: an engine that turns requests away keeps its waits short
FAILS = 0.05
# rates that are drawn over time, fewer where several engines are in each drawing: beyond, those about each engine's limit and
# others evenly between
PANELS, LEAST, LINES = 12, 5, 18


@dataclass(frozen=True)
class Pace:
    """One engine's levels by rising rate, and where it stops keeping up.

    `case`: `all` kept up, `some` did up to `held` and not at `broke`, `none` did, `unknown`. `failed` are levels with failures,
    without one that is said to break by them; `lost` those where it is the client that fell behind;
    `torn` is a level whose repeats disagree on whether it keeps up.
    """

    engine: str
    levels: tuple[str, ...]
    case: str
    held: str | None
    broke: str | None
    failed: tuple[str, ...]
    refused: bool  # at `broke` it is failures that say so
    lost: tuple[str, ...]
    torn: str | None


def pages(figures: Figures) -> list[Page]:
    """A page for each test with an open loop, the first at the usual place."""
    return [_page(figures, test, place) for test, place in tests_of(figures, "open")]


def _page(figures: Figures, test: TestView, place: str) -> Page:
    paces = [_pace(figures, engine, test.levels_of(engine)) for engine in test.engines]
    levels = [(pace.engine, level) for pace in paces for level in pace.levels]
    rows, limits, rates = ArrivalRows(figures), _limits(figures, test), _over_time(figures, paces)
    first = test.levels_of(test.engines[0])[0]
    late = {flag.scope for flag in figures.flags if flag.kind == "sent_late"}
    drawn = rows.limits((held.slo.percentile, held.limit) for held in limits if held.slo.figure == "ttft")
    context = {
        "test": test,
        "paces": paces,
        "ran": repeated(figures, [level for _, level in levels]),
        "crewed": crewed(figures, [level for _, level in levels]),
        "limits": limits,
        "judged": any(held.slo.place is not None for held in limits),
        "twice": _differ(figures, [level for _, level in levels]),
        "unjudged": any(_unjudged(figures, level) for _, level in levels),
        "capped": any(
            level.repeats[0].facts.arrivals.max_in_flight for e in test.engines for level in test.levels_of(e)
        ),
        "over_time": arrivals_time.over_time(_panels(rates, rows.over_time), drawn),
        "failures": arrivals_time.failures(_panels(rates, rows.failures)),
        "first": first,
        "failed": any(figures.ledger[f"{level}.failed"].value for _, level in levels),
        "several": len({_name(level) for _, level in levels}) > 1,
        "thinned": len(rates) < len({_name(level) for _, level in levels}),
        "process": first.repeats[0].facts.arrivals.process,
        "mixed": first.repeats[0].facts.mixed,
        "late": [(pace.engine, level) for pace in paces for level in pace.levels if level in late],
        "flags": [flag for flag in figures.flags if flag.scope.startswith(f"{test.id}.")],
        "charts": Drawn(_over_rates(rows, levels, drawn)),
    }
    return Page(f"{place}/index.md", "arrivals.md", context)


def _over_rates(rows: ArrivalRows, levels: Levels, limits: list[Row]) -> dict[str, Chart | None]:
    """What is drawn over the rates: where there is but one, nothing."""
    if len({row["arrivals"] for row in rows.achieved(levels)}) < 2:
        return {}
    return {"achieved": achieved(rows.achieved(levels)), "waits": waits(rows.waits(levels, ("p50", "p99")), limits)}


def _panels(rates: dict[str, list[tuple[str, str]]], rows: Callable[[str, str], list[Row]]) -> list[list[Row]]:
    """The rows of each rate, of all engines that were given it."""
    return [[row for engine, level in own for row in rows(engine, level)] for own in rates.values()]


def _over_time(figures: Figures, paces: Sequence[Pace]) -> dict[str, list[tuple[str, str]]]:
    """(engine, level) by the name of the rate, rising: those that are drawn over time."""
    found: dict[str, list[tuple[str, str]]] = {}
    for level, engine in ((level, pace.engine) for pace in paces for level in pace.levels):
        found.setdefault(_name(level), []).append((engine, level))
    order = sorted(found, key=lambda name: figures.ledger[f"{found[name][0][1]}.arrival_rate"].value or 0)
    most = min(PANELS, max(LEAST, LINES // len(paces)))
    if len(order) > most:
        about = [_name(level) for pace in paces for level in (pace.held, pace.broke) if level]
        even = [order[k * (len(order) - 1) // (most - 1)] for k in range(most)]
        kept = list(dict.fromkeys([order[0], order[-1], *about, *even]))[:most]
        order = [name for name in order if name in kept]
    return {name: found[name] for name in order}


def _name(level: str) -> str:
    return level.rpartition(".")[2]


def _pace(figures: Figures, engine: str, levels: tuple[LevelView, ...]) -> Pace:
    ids = tuple(level.id for level in levels)
    kept = {id: keeps_up(figures, id) for id in ids}
    known = [id for id in ids if kept[id] is not None]
    broke = next((id for id in known if not kept[id]), None)
    before = known[: known.index(broke)] if broke else known
    case = "unknown" if not known else "all" if broke is None else "some" if before else "none"
    refused = broke is not None and turns_away(figures, broke)
    failed = tuple(id for id in ids if figures.ledger[f"{id}.failed"].value and not (refused and id == broke))
    lost = tuple(id for id in ids if client_fell_behind(figures, id))
    return Pace(engine, ids, case, before[-1] if before else None, broke, failed, refused, lost, _torn(figures, known))


def _torn(figures: Figures, levels: Sequence[str]) -> str | None:
    """The first level at which waits grow in some repeats and not in others."""
    ends = {id: [figures.ledger[f"{id}.due_growth.{name}"].value for name in ("min", "max")] for id in levels
            if f"{id}.due_growth.min" in figures.ledger}  # fmt: skip
    return next((id for id, (low, high) in ends.items() if low <= GROWS < high), None)


def keeps_up(figures: Figures, level: str) -> bool | None:
    """Whether waits do not grow while requests arrive, and nearly all complete; `None` where that cannot be told."""
    if turns_away(figures, level):
        return False
    growth = figures.ledger[f"{level}.due_growth"].value
    return None if growth is None or client_fell_behind(figures, level) else growth <= GROWS


def client_fell_behind(figures: Figures, level: str) -> bool:
    """Whether a wait grows from the due time and not from sending, with no limit of the plan that holds requests back."""
    due, sent = (figures.ledger[f"{level}.{name}"].value for name in ("due_growth", "sent_growth"))
    late = any(flag.scope == level and flag.kind == "sent_late" for flag in figures.flags)
    return late and due is not None and due > GROWS >= sent


def turns_away(figures: Figures, level: str) -> bool:
    """Whether more requests fail than an engine that keeps up may lose."""
    completed, failed = (figures.ledger[f"{level}.{name}"].value or 0 for name in ("completed", "failed"))
    return failed > FAILS * (completed + failed)


def _limits(figures: Figures, test: TestView) -> list[Held]:
    """Every service level with a limit, the one that the plan searched for first."""
    wanted, limits = searched(figures.round.plan, test), []
    for slo in slos(figures.round.plan, figures.given):
        limit = figures.ledger[limit_of(test, slo)]
        computed = any(f"{level.id}.{statistic(slo)}" in figures.ledger for level in test.levels_of(test.engines[0]))
        if computed and not limit.missing:
            engines = (found(figures, e, test.levels_of(e), statistic(slo), limit.value) for e in test.engines)
            limits.append(Held(slo, limit, slo == wanted, tuple(engines)))
    return sorted(limits, key=lambda held: not held.searched)


def _differ(figures: Figures, levels: list[str]) -> bool:
    """Whether goodput counted from due and from sending differ anywhere."""
    pairs = ([figures.ledger[f"{level}.{name}"].value for name in ("goodput", "due_goodput")] for level in levels)
    return any(sent != due for sent, due in pairs)


def _unjudged(figures: Figures, level: str) -> bool:
    """Whether no limit of the plan could judge some completed requests of a level."""
    q = figures.ledger.get(f"{level}.unjudged_requests")
    return q is not None and bool(q.value)
