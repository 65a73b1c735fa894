"""How a sweep scales: efficiency, elasticity, the knee, the Universal Scalability Law."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from genreport.display import digits
from genreport.figures.book import Absent, Book
from genreport.figures.layout import LevelView
from genreport.words import say

USL_LEVELS = 5
# a fitted parameter this close to 0 or 1 is a bound the solver came close to, not an effect
USL_ZERO = 1e-9
USL_STARTS = ((0.0, 0.0), (0.05, 0.0), (0.0, 0.01), (0.9, 0.0), (0.5, 0.5))
KNEE_ELASTICITY = 0.5
CURVE_STEPS = 24


def efficiency(x: float, c: float, x1: float) -> float:
    """Throughput at C as a share of C times the throughput at C = 1."""
    return x / (c * x1)


def elasticity(x0: float, x: float, c0: float, c: float) -> float:
    """d ln X / d ln C between two neighbouring levels."""
    return float(np.log(x / x0) / np.log(c / c0))


def knee(c: np.ndarray, x: np.ndarray) -> float | None:
    """C at the lower end of the first interval whose elasticity is below one half; `None` where there is none."""
    slopes = np.diff(np.log(x)) / np.diff(np.log(c))
    below = np.flatnonzero(slopes < KNEE_ELASTICITY)
    return float(c[below[0]]) if len(below) else None


def usl(c: np.ndarray, x: np.ndarray) -> tuple[float, float, float]:
    """λ, σ, κ of X = λC / (1 + σ(C−1) + κC(C−1)), least squares on X, λ not negative, σ and κ between 0 and 1."""
    from scipy.optimize import least_squares  # takes half a second, which an unchanged site need not wait

    c, x = np.asarray(c, dtype=float), np.asarray(x, dtype=float)
    shape = np.column_stack([np.ones_like(c), c - 1, c * (c - 1)])
    unit = float(x.max())

    def residuals(p: np.ndarray) -> np.ndarray:
        return p[0] * c / (shape @ [1, p[1], p[2]]) - x / unit

    fits = [
        least_squares(residuals, start, bounds=(0, [np.inf, 1, 1]), xtol=1e-13, ftol=1e-13, gtol=1e-13,
                      x_scale=[1, 0.01, 0.001], max_nfev=400)
        for start in _starts(c, x / unit, shape)
    ]  # fmt: skip
    fit = min(fits, key=lambda fit: fit.cost)
    sigma, kappa = (0.0 if p < USL_ZERO else 1.0 if p > 1 - USL_ZERO else float(p) for p in fit.x[1:])
    return float(fit.x[0] * unit), sigma, kappa


def _starts(c: np.ndarray, x: np.ndarray, shape: np.ndarray) -> Iterator[list[float]]:
    """Where to begin: C/X is linear in (1, σ, κ)/λ, and that solution is near; the others lie in other valleys."""
    from scipy.optimize import nnls

    linear = nnls(shape * (x / c)[:, None], np.ones_like(c))[0]
    near = np.clip(linear[1:] / linear[0], 0, 1) if linear[0] > 0 else (1.0, 1.0)
    for sigma, kappa in (near, *USL_STARTS):
        model = c / (shape @ [1, sigma, kappa])
        yield [float(model @ x / (model @ model)), float(sigma), float(kappa)]


def usl_peak(sigma: float, kappa: float) -> float:
    """C at which the fitted throughput peaks."""
    if kappa == 0:
        raise Absent(say("missing.no_peak_kappa"))
    if sigma >= 1:
        raise Absent(say("missing.no_peak_sigma"))
    return float(np.sqrt((1 - sigma) / kappa))


def usl_residual(c: np.ndarray, x: np.ndarray, lam: float, sigma: float, kappa: float) -> float:
    """Root mean square of the fit's residuals as a share of the mean throughput."""
    return float(np.sqrt(np.mean((x - lam * c / (1 + sigma * (c - 1) + kappa * c * (c - 1))) ** 2)) / np.mean(x))


def growth(last: float, first: float) -> float:
    """ITL growth over the sweep: 0 = none."""
    return last / first - 1


def enter_levels(book: Book, levels: Sequence[LevelView]) -> None:
    """Efficiency against C = 1 and elasticity from the level before, of every level of a concurrency sweep."""
    single = next((level.id for level in levels if level.concurrency == 1), None)
    for before, level in zip((None, *levels), levels, strict=False):
        x, c = f"{level.id}.output_throughput", f"{level.id}.concurrency"
        if single is None:
            book.missing(f"{level.id}.scaling_efficiency", "share", "x / (c * x1)", say("missing.no_single"))
        else:
            book.derive(f"{level.id}.scaling_efficiency", "share", "x / (c * x1)", efficiency, x=x, c=c,
                        x1=f"{single}.output_throughput")  # fmt: skip
        formula = "log(x / x0) / log(c / c0)"
        if before is None:
            book.missing(f"{level.id}.elasticity", "1", formula, say("missing.first_level"))
        else:
            book.derive(f"{level.id}.elasticity", "1", formula, elasticity, x=x, c=c,
                        x0=f"{before.id}.output_throughput", c0=f"{before.id}.concurrency")  # fmt: skip


def enter_sweep(book: Book, scope: str, levels: Sequence[LevelView]) -> None:
    """Knee, USL, peak and ITL growth of one engine's concurrency sweep."""
    measured = [level for level in levels if book.value(f"{level.id}.output_throughput")]
    c, x = ([f"{level.id}.{name}" for level in measured] for name in ("concurrency", "output_throughput"))
    n = len(measured)
    book.derive(f"{scope}.peak_throughput", "tok/s", "max(x)", lambda x: x.max(), n=n, x=x)
    book.derive(f"{scope}.cmax", "count", "max(c)", lambda c: c.max(), n=n, c=c)
    book.derive(f"{scope}.knee", "1", "knee(c, x)", _stated_knee, n=n, c=c, x=x)
    _usl(book, scope, c, x)
    ends = [level for level in measured if book.value(f"{level.id}.itl.p50")]
    formula = "last / first - 1"
    if len(ends) < 2:
        book.missing(f"{scope}.itl_growth", "share", formula, say("missing.one_level"))
    else:
        book.derive(f"{scope}.itl_growth", "share", formula, growth, last=f"{ends[-1].id}.itl.p50",
                    first=f"{ends[0].id}.itl.p50")  # fmt: skip


def _stated_knee(c: np.ndarray, x: np.ndarray) -> float:
    if len(c) < 2:
        raise Absent(say("missing.no_knee"))
    found = knee(c, x)
    if found is None:
        raise Absent(say("missing.knee_above", c=digits(c[-1]), elasticity=f"{KNEE_ELASTICITY:g}"))
    return found


def _usl(book: Book, scope: str, c: list[str], x: list[str]) -> None:
    id = f"{scope}.usl_{{}}".format
    if len(c) < USL_LEVELS:
        book.missing(id("fit"), "1", "usl(c, x)", say("missing.few_for_usl", levels=USL_LEVELS))
    else:
        book.derive(id("fit"), "1", "usl(c, x)", usl, n=len(c), c=c, x=x)
    for place, (name, unit) in enumerate((("lambda", "tok/s"), ("sigma", "1"), ("kappa", "1"))):
        book.derive(id(name), unit, f"fit[{place}]", lambda fit, place=place: fit[place], n=len(c), fit=id("fit"))
    shape = {"sigma": id("sigma"), "kappa": id("kappa")}
    book.derive(id("peak"), "1", "sqrt((1 - sigma) / kappa)", usl_peak, n=len(c), **shape)
    model = "lam * c / (1 + sigma * (c - 1) + kappa * c * (c - 1))"
    book.derive(id("residual"), "share", f"sqrt(mean((x - {model}) ** 2)) / mean(x)", usl_residual, n=len(c),
                lam=id("lambda"), c=c, x=x, **shape)  # fmt: skip
    _usl_curve(book, scope, model)


def _usl_curve(book: Book, scope: str, model: str) -> None:
    """The fitted curve from C = 1 to the last level, evenly in log C, for the chart of the fit."""
    steps = [k / CURVE_STEPS for k in range(CURVE_STEPS + 1)]
    book.derive(f"{scope}.usl_grid", "1", f"exp(log(cmax) * {steps})", lambda cmax: np.exp(np.log(cmax) * np.array(steps)),
                cmax=f"{scope}.cmax")  # fmt: skip
    fit = {name: f"{scope}.usl_{of}" for name, of in (("lam", "lambda"), ("sigma", "sigma"), ("kappa", "kappa"))}
    book.derive(f"{scope}.usl_curve", "tok/s", model, lambda c, lam, sigma, kappa: lam * c / (
        1 + sigma * (c - 1) + kappa * c * (c - 1)), c=f"{scope}.usl_grid", **fit)  # fmt: skip
