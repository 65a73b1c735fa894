"""03: is KV use linear, and which wall does length hit?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from genreport.charts import Chart
from genreport.charts import kv as drawings
from genreport.display import shown
from genreport.figures import Figures, LevelView, TestView
from genreport.figures.layout import engine_scope, kind_of
from genreport.figures.length import aligned
from genreport.provenance import Quantity
from genreport.reports.kv_rows import LengthRows
from genreport.reports.page import Drawn, Page, repeated

# from this R² on the samples lie on a line
LINEAR = 0.99
# two ways to bytes per token agree within this share of k
AGREE = 0.05
# shares of a ceiling are the same within this
SAME = 0.05
# what an engine may say of its KV while it runs, and of its room when it starts
SAMPLED = ("kv_samples", "kv_use.mean")
ANNOUNCED = ("pool_tokens", "max_model_len", "announced_concurrency")


@dataclass(frozen=True)
class Aligned:
    """One level of either sweep, and the other sweep's shares at its tokens per iteration."""

    sweep: str
    level: str
    other: dict[str, str]  # share -> id of the other sweep's, its difference ends in `_difference`


@dataclass(frozen=True)
class Side:
    """One engine of a length sweep: scopes of its levels, and which sentence each part has earned."""

    engine: str
    kind: str
    scope: str
    start: str
    levels: tuple[str, ...]
    measured: tuple[str, ...]  # levels at which something completed
    sampled: bool  # whether anything was seen of what the engine holds
    kv: str  # linear, off, unchecked, bent, slots, slots_bent, unknown
    unknown: Quantity
    intercept: bool
    wall: str  # turns, stays, wavers, one, unknown
    nearer: tuple[str, str]  # the wall at the first and the last level: memory, arithmetic, neither
    walled: tuple[str, str] | None  # those levels
    ceiling: str  # whether the FLOP/s ceiling can be trusted: exceeded, lower_bound, sound
    above: tuple[str, ...]  # levels of either sweep that use more than all of a ceiling
    alignment: str  # same, differ, unknown
    aligned: tuple[Aligned, ...]


def page(figures: Figures) -> Page:
    """The page of the round's first length sweep; without one, the page says how to measure it."""
    test = next((test for test in figures.tests if test.kind == "length"), None)
    sides = [_side(figures, test, engine) for engine in test.engines] if test else []
    starts = [f"engine.{start.id}" for start in figures.starts]
    context = {
        "test": test,
        "sides": sides,
        "loaded": any(test.kind == "concurrency" for test in figures.tests),
        "ran": repeated(figures, [level for side in sides for level in side.levels]) if sides else None,
        "starts": starts,
        "announced": any(not _missing(figures.ledger.get(f"{start}.{name}")) for start in starts for name in ANNOUNCED),
        "absent": [engine for engine in figures.engines if test and engine not in test.engines],
        "flags": [flag for flag in figures.flags if test and flag.scope.startswith(f"{test.id}.")],
        "charts": _charts(figures, test, sides) if test else Drawn(),
    }
    return Page("kv/index.md", "kv.md", context)


def _side(figures: Figures, test: TestView, engine: str) -> Side:
    fig, scope, levels = figures.ledger.get, f"{test.id}.{engine}", test.levels_of(engine)
    ids, start = tuple(level.id for level in levels), engine_scope(figures.starts, levels[0])
    walled = [id for id in ids if not any(_missing(fig(f"{id}.{share}")) for share in ("mbu", "mfu"))]
    nearer = [_nearer(fig(f"{id}.mbu"), fig(f"{id}.mfu")) for id in walled]
    above = _above(figures, _both_sweeps(figures, test, engine))
    return Side(
        engine=engine,
        kind=kind_of(figures.round, levels[0]),
        scope=scope,
        start=start,
        levels=ids,
        measured=tuple(id for id in ids if fig(f"{id}.completed").value),
        sampled=any(not _missing(fig(f"{id}.{name}")) for id in ids for name in SAMPLED),
        kv=_kv_case(figures, scope),
        unknown=fig(f"{scope}.kv_slope"),
        intercept=not _missing(fig(f"{scope}.kv_intercept_tokens")),
        wall=_wall_case(nearer),
        nearer=(nearer[0], nearer[-1]) if nearer else ("", ""),
        walled=(walled[0], walled[-1]) if walled else None,
        ceiling=_ceiling_case(fig(f"{start}.flops_ceiling"), above),
        above=tuple(f"{id}.{share}" for id, share in above),
        alignment=_alignment_case([fig(f"{scope}.alignment_{share}") for share in ("mbu", "mfu")]),
        aligned=tuple(_aligned(figures, scope, engine, test)),
    )


def _kv_case(figures: Figures, scope: str) -> str:
    fig = figures.ledger.get
    slope, fit, over = (fig(f"{scope}.kv_{name}") for name in ("slope", "r2", "over_arithmetic"))
    slots, slots_fit = fig(f"{scope}.slots_slope"), fig(f"{scope}.slots_r2")
    if not _missing(slots) and not _missing(slots_fit):
        return "slots" if slots_fit.value >= LINEAR else "slots_bent"
    if _missing(slope) or _missing(fit):
        return "unknown"
    if fit.value < LINEAR:
        return "bent"
    if _missing(over):
        return "unchecked"
    return "linear" if abs(over.value) <= AGREE else "off"


def _nearer(mbu: Quantity, mfu: Quantity) -> str:
    if mbu.value == mfu.value:
        return "neither"
    return "memory" if mbu.value > mfu.value else "arithmetic"


def _wall_case(nearer: list[str]) -> str:
    if len(nearer) < 2:
        return "one" if nearer else "unknown"
    if len(set(nearer)) == 1:
        return "stays"
    return "wavers" if nearer[0] == nearer[-1] else "turns"


def _above(figures: Figures, levels: Iterable[LevelView]) -> list[tuple[str, str]]:
    """Levels above a ceiling, and of which share."""
    shares = [(level.id, share, figures.ledger[f"{level.id}.{share}"]) for level in levels for share in ("mbu", "mfu")]
    return [(id, share) for id, share, q in shares if not q.missing and q.value > 1]


def _ceiling_case(flops: Quantity, above: list[tuple[str, str]]) -> str:
    if any(share == "mfu" for _, share in above):
        return "exceeded"
    return "lower_bound" if "lower_bound" in flops.notes else "sound"


def _alignment_case(found: list[Quantity | None]) -> str:
    if any(_missing(q) for q in found):
        return "unknown"
    return "same" if all(q.value <= SAME for q in found) else "differ"


def _aligned(figures: Figures, scope: str, engine: str, test: TestView) -> Iterator[Aligned]:
    """Every level of both sweeps that has a counterpart, in the order of its tokens per iteration."""
    load = figures.sweep
    found = []
    for sweep in (load, test) if load else ():
        for level in sweep.levels_of(engine):
            other = {share: aligned(scope, level.id, share) for share in ("mbu", "mfu")}
            if any(id in figures.ledger for id in other.values()):
                tokens = figures.ledger[f"{level.id}.tokens_per_iteration"].value
                found.append((tokens, Aligned(sweep.id, level.id, other)))
    return (each for _, each in sorted(found, key=lambda pair: pair[0]))


def _missing(q: Quantity | None) -> bool:
    return q is None or q.missing


# ------------------------------------------------------------------------------------- charts


def _charts(figures: Figures, test: TestView, sides: list[Side]) -> Drawn:
    drawn = {
        "intensity": drawings.length_intensity(
            [row for side in sides for row in LengthRows(figures, side.engine).over_length(side.levels, "intensity")],
            _ridges(figures, sides),
        )
    }
    for side in sides:
        rows = LengthRows(figures, side.engine)
        drawn[f"kv.{side.engine}"] = _kv_chart(figures, rows, side)
        drawn[f"walls.{side.engine}"] = drawings.length_walls(rows.walls(side.levels), rows.cross(side.scope))
        drawn[f"roofline.{side.engine}"] = drawings.roofline(
            rows.roofline(_both_sweeps(figures, test, side.engine)), rows.roof(side.scope, side.start)
        )
    return Drawn((name, chart) for name, chart in drawn.items() if chart is not None)


def _kv_chart(figures: Figures, rows: LengthRows, side: Side) -> Chart | None:
    slots = side.kind == "llamacpp"
    seen, prefix = ("kv_in_slots", f"{side.scope}.slots") if slots else ("kv_held", f"{side.scope}.kv")
    slope = figures.ledger.get(f"{prefix}_slope")
    words = "" if _missing(slope) else shown(slope.value, slope.unit)
    return drawings.kv_use(side.engine, rows.samples(side.levels, seen), rows.means(side.levels, seen),
                           rows.line(prefix), words, in_bytes=not slots)  # fmt: skip


def _ridges(figures: Figures, sides: Iterable[Side]) -> list[dict]:
    """One line for each ridge: engines on the same cores have the same one."""
    rows = (row for side in sides for row in LengthRows(figures, side.engine).ridge(side.scope))
    return list({row["value"]: row for row in rows}.values())


def _both_sweeps(figures: Figures, test: TestView, engine: str) -> list[LevelView]:
    """The levels of the length sweep, then those of the first concurrency sweep."""
    load = figures.sweep
    return [*test.levels_of(engine), *(load.levels_of(engine) if load else ())]
