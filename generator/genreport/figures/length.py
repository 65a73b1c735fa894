"""Which wall does length hit? Both shares of a ceiling over input length, the roofline, and both sweeps held together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from genreport.figures import kv
from genreport.figures.book import Absent, Book
from genreport.figures.crossing import crossings_linear_logx, loglog_at
from genreport.figures.layout import LevelView, TestView
from genreport.words import say

SHARES = ("mbu", "mfu")
CROSS = "crossings_linear_logx(input, mbu, mfu)[0]"


def enter_level(book: Book, level: LevelView) -> None:
    """What a level computed a second: its height in the roofline."""
    windows = [f"{scope}.window_s" for scope, _, rows in level.each() if len(rows.measured)]
    book.derive(f"{level.id}.flops_rate", "FLOP/s", "flops / sum(windows)",
                lambda flops, windows: flops / windows.sum(), flops=f"{level.id}.flops", windows=windows)  # fmt: skip


def enter(book: Book, tests: Sequence[TestView], scope_of: Callable[[LevelView], str]) -> None:
    """Every length sweep beside the round's first concurrency sweep; `scope_of` names the engine start of a level."""
    load = next((test for test in tests if test.kind == "concurrency"), None)
    for test in (test for test in tests if test.kind == "length"):
        for engine in test.engines:
            levels = test.levels_of(engine)
            others = load.levels_of(engine) if load else ()
            scope, start = f"{test.id}.{engine}", scope_of(levels[0])
            kv.enter_sweep(book, scope, levels, start)
            _cross(book, scope, levels)
            _roof(book, scope, (*levels, *others), start)
            for level in levels:
                book.derive(f"{level.id}.over_ridge", "ratio", "intensity / ridge", over_ridge,
                            intensity=f"{level.id}.intensity", ridge=f"{scope}.ridge")  # fmt: skip
            for share in SHARES:
                _alignment(book, scope, levels, others, share)


def _cross(book: Book, scope: str, levels: Sequence[LevelView]) -> None:
    """The input length at which the shares of both ceilings are equal."""
    measured = [level for level in levels if book.value(f"{level.id}.mbu") and book.value(f"{level.id}.mfu")]
    if not measured:
        lacking = [q.reason for level in levels for name in SHARES if (q := book[f"{level.id}.{name}"]).missing]
        book.missing(
            f"{scope}.walls_cross_input", "tokens", CROSS, lacking[0] if lacking else say("missing.shares_zero")
        )
        return
    input, mbu, mfu = ([f"{level.id}.{name}" for level in measured] for name in ("input", "mbu", "mfu"))
    book.derive(f"{scope}.walls_cross_input", "tokens", CROSS, crossing, n=len(measured),
                input=input, mbu=mbu, mfu=mfu)  # fmt: skip


def crossing(input: np.ndarray, mbu: np.ndarray, mfu: np.ndarray) -> float:
    """The shortest input at which the two shares are equal, linear over the logarithm of the length."""
    if len(input) < 2:
        raise Absent(say("missing.one_length_shares"))
    found = crossings_linear_logx(input, mbu, mfu)
    if not found:
        raise Absent(say("missing.walls_apart_bandwidth" if mbu[0] > mfu[0] else "missing.walls_apart_flops"))
    return found[0]


def over_ridge(intensity: float, ridge: float) -> float:
    """MFU over MBU: by what factor a level's FLOP/s ceiling would have to rise for both walls to be equally near."""
    return intensity / ridge


def _roof(book: Book, scope: str, levels: Sequence[LevelView], start: str) -> None:
    """Both ceilings as one line over intensity, from below the lowest point to above the highest, bent at the ridge."""
    ceilings = {"bandwidth": f"{start}.bandwidth", "flops": f"{start}.flops_ceiling"}
    book.derive(
        f"{scope}.ridge", "FLOP/byte", "flops / bandwidth", lambda bandwidth, flops: flops / bandwidth, **ceilings
    )
    book.derive(f"{scope}.roof_intensity", "FLOP/byte", "[min([min(i), ridge]) / 2, ridge, 2 * max([max(i), ridge])]",
                lambda i, ridge: (min(i.min(), ridge) / 2, ridge, 2 * max(i.max(), ridge)), ridge=f"{scope}.ridge",
                i=book.observed(f"{level.id}.intensity" for level in levels))  # fmt: skip
    book.derive(f"{scope}.roof", "FLOP/s", "where(i < ridge, i * bandwidth, flops)",
                lambda i, ridge, bandwidth, flops: np.where(i < ridge, i * bandwidth, flops),
                i=f"{scope}.roof_intensity", ridge=f"{scope}.ridge", **ceilings)  # fmt: skip


def _alignment(book: Book, scope: str, levels: Sequence[LevelView], others: Sequence[LevelView], share: str) -> None:
    """How far the shares of the two sweeps lie apart at equal tokens per iteration, at each level of either."""
    found = [*_differences(book, scope, levels, others, share), *_differences(book, scope, others, levels, share)]
    id, formula = f"{scope}.alignment_{share}", "max(differences)"
    if found:
        book.derive(
            f"{id}_levels", "count", "count(differences)", lambda differences: len(differences), differences=found
        )
        book.derive(id, "share", formula, lambda differences: differences.max(), n=len(found), differences=found)
    else:
        book.missing(id, "share", formula, _why_none(book, levels, others, share))


def _differences(
    book: Book, scope: str, own: Sequence[LevelView], curve: Sequence[LevelView], share: str
) -> Iterator[str]:
    """Ids of the differences of those `own` levels that lie within the other sweep's tokens per iteration."""
    known = sorted(_placed(book, curve, share))
    if len(known) < 2:
        return
    xs, ys = ([f"{id}.{figure}" for _, id in known] for figure in ("tokens_per_iteration", share))
    for place, id in _placed(book, own, share):
        if not known[0][0] <= place <= known[-1][0]:
            continue
        at = aligned(scope, id, share)
        book.derive(at, "share", "loglog_at(x, xs, ys)", lambda x, xs, ys: loglog_at(x, xs, ys),
                    x=f"{id}.tokens_per_iteration", xs=xs, ys=ys)  # fmt: skip
        book.derive(f"{at}_difference", "share", "abs(own - other)", lambda own, other: abs(own - other),
                    own=f"{id}.{share}", other=at)  # fmt: skip
        yield f"{at}_difference"


def aligned(scope: str, level: str, share: str) -> str:
    """Id of the other sweep's share at the tokens per iteration of a level (`test.engine.level`)."""
    test, _, name = level.split(".", 2)
    return f"{scope}.at_{test}_{name}.{share}"


def _placed(book: Book, levels: Sequence[LevelView], share: str) -> list[tuple[float, str]]:
    """Tokens per iteration and id of the levels that have a place on a log–log curve."""
    tokens = [(book.value(f"{level.id}.tokens_per_iteration"), level.id) for level in levels]
    return [(place, id) for place, id in tokens if place and book.value(f"{id}.{share}")]


def _why_none(book: Book, levels: Sequence[LevelView], others: Sequence[LevelView], share: str) -> str:
    if not others:
        return say("missing.no_sweep")
    for level in (*levels, *others):
        for figure in ("tokens_per_iteration", share):
            if book[f"{level.id}.{figure}"].missing:
                return book[f"{level.id}.{figure}"].reason or ""
    return say("missing.nothing_shared")
