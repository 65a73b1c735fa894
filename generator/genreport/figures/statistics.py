"""How sure a difference of two engines or two rounds is, on plain arrays: one positive value a repeat, the repeat is the unit.

Everything is done on logarithms, so that a ratio and its inverse say the same. `docs/method.md` has the definitions; the
formula texts that the second path evaluates are in `leads` and in `comparing.verdicts`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr, stdtrit

# two-sided level of an interval, and of a difference after correction
LEVEL = 0.95
ALPHA = 0.05
# standard normal quantile of the power, 80 %, at which the smallest detectable difference is stated
POWER_Z = 0.8416212335729143
# below this many repeats of a level there is no verdict
FEWEST = 3
# a smaller error of logarithms is no spread but the rounding of stamps
RESOLUTION = 1e-9


@dataclass(frozen=True)
class Spread:
    """The logarithm of a ratio, its standard error by Welch, and the error's degrees of freedom by Satterthwaite."""

    log_ratio: float
    error: float
    freedom: float

    def interval(self, level: float = LEVEL) -> tuple[float, float]:
        """The ratio's interval."""
        half = t_quantile((1 + level) / 2, self.freedom) * self.error
        return float(np.exp(self.log_ratio - half)), float(np.exp(self.log_ratio + half))

    @property
    def p(self) -> float:
        """How likely a difference at least this large is between two rounds that do not differ."""
        return 2 * t_tail(abs(self.log_ratio) / self.error, self.freedom)


def geometric_ratio(old: Sequence[float], new: Sequence[float]) -> float:
    """Ratio of geometric means, new over old."""
    return float(np.exp(np.mean(np.log(new)) - np.mean(np.log(old))))


def variance(x: Sequence[float]) -> float:
    """Sample variance, with n − 1 below the line."""
    return float(np.var(x, ddof=1))


def standard_error(old: Sequence[float], new: Sequence[float]) -> float:
    """Standard error of the log ratio of two geometric means."""
    return float(np.sqrt(sum(_shares(old, new))))


def freedom(old: Sequence[float], new: Sequence[float]) -> float:
    """Degrees of freedom of that error when the two spreads may differ (Welch–Satterthwaite)."""
    a, b = _shares(old, new)
    return (a + b) ** 2 / (a**2 / (len(old) - 1) + b**2 / (len(new) - 1))


def _shares(old: Sequence[float], new: Sequence[float]) -> tuple[float, float]:
    return variance(np.log(old)) / len(old), variance(np.log(new)) / len(new)


def ratio_interval(over: Sequence[float], under: Sequence[float]) -> tuple[float, float]:
    """The interval of the ratio of two engines' repeats; repeats that are all equal leave no doubt about it."""
    ratio, error = geometric_ratio(under, over), standard_error(under, over)
    if error < RESOLUTION:
        return ratio, ratio
    return Spread(float(np.log(ratio)), error, freedom(under, over)).interval()


def blocks(levels: Sequence[Spread]) -> Spread:
    """The mean log ratio over levels, each a block of its own: their errors add up, their differences do not count."""
    ratios, errors, freedoms = (np.array([getattr(s, k) for s in levels]) for k in ("log_ratio", "error", "freedom"))
    error = np.sqrt(np.sum(errors**2)) / len(errors)
    return Spread(float(np.mean(ratios)), float(error), pooled_freedom(errors, freedoms))


def pooled_freedom(errors: np.ndarray, freedoms: np.ndarray) -> float:
    """Degrees of freedom of a sum of independent errors."""
    return float(np.sum(errors**2) ** 2 / np.sum(errors**4 / freedoms))


def t_quantile(p: float, freedom: float) -> float:
    """Quantile of Student's t."""
    return float(stdtrit(freedom, p))


def t_tail(t: float, freedom: float) -> float:
    """Probability that Student's t exceeds t."""
    return float(stdtr(freedom, -t))


def adjusted(p: Sequence[float]) -> np.ndarray:
    """Each p after Benjamini–Hochberg over all of them: the smallest false discovery rate that would let it pass."""
    p = np.asarray(p, dtype=float)
    order = np.argsort(p)
    scaled = p[order] * len(p) / np.arange(1, len(p) + 1)
    found = np.empty_like(p)
    found[order] = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1)
    return found


def threshold(p: Sequence[float], alpha: float = ALPHA) -> float:
    """The p that one more figure of the family would have needed to be told apart from noise."""
    passed = int(np.sum(adjusted(p) <= alpha))
    return alpha * min(passed + 1, len(p)) / len(p)


def detectable(error: float, freedom: float, alpha: float, margin: float) -> float:
    """The smallest true change (a share) that a p below alpha and an estimate beyond the margin find in 80 % of cases.

    The non-central t by a normal of the same mean and spread: within 3 % for 4 degrees of freedom and more.
    """
    t = -t_quantile(alpha / 2, freedom)
    sure = t * (1 - 1 / (4 * freedom)) + POWER_Z * np.sqrt(1 + t**2 / (2 * freedom))
    beyond = np.log(1 + margin) + POWER_Z * error
    largest = max(sure * error, beyond)
    return float(np.exp(largest) - 1) if largest < 700 else np.inf


def repeats_needed(repeats: float, spread: Spread, distance: float) -> float:
    """Repeats of each level and round after which the interval would be shorter than the way to the claim."""
    half = t_quantile((1 + LEVEL) / 2, spread.freedom) * spread.error
    return max(float(FEWEST), float(np.ceil(repeats * (half / distance) ** 2)))


def noise_floor(log_ratios: Sequence[float]) -> float:
    """What rounds without a change differ by: the 95th percentile of their differences, as a share."""
    return float(np.exp(np.percentile(np.abs(log_ratios), 95)) - 1)
