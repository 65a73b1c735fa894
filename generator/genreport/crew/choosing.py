"""How many processes hold a load."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from genreport.crew.hands import Link
from genreport.plan import LevelPlan
from genreport.records import Request

BUSY = 0.5  # of its ceiling: a process that has more to read gets help
PACE = 500.0  # events a second of one request, which few engines reach: what is expected before the warm-up has told


@dataclass(frozen=True)
class Means:
    """What loads can be held with.

    `wanted`: processes that the plan asks for. `cores` may be used, `free` of them by no engine. `ceiling`: events a second
    that one process reads at most, where it was measured. `links`: the ways to workers on other hosts, where those hold all.
    """

    wanted: int | None = None
    cores: int = 1
    free: int = 1
    ceiling: float | None = None
    links: Callable[[int], Sequence[Link]] | None = None


def workers_for(level: LevelPlan, pace: float, means: Means) -> int:
    """How many processes hold a level in which one request brings `pace` events a second.

    One, unless that is more than half of what one can read and no engine needs the cores: the parent, which writes, keeps
    one of them. A closed loop that goes by time is held by one: nobody knows beforehand which calls it will take. So are
    conversations, whose turns are made of answers, and a soak, whose requests are too many to make beforehand.
    """
    if level.alone or (level.arrivals is None and level.requests is None):
        return 1
    most = _streams(level)
    if means.wanted is not None:
        return max(1, min(means.wanted, means.cores, most))
    if not means.ceiling:
        return 1
    return max(1, min(math.ceil(_offered(level, pace) / (means.ceiling * BUSY)), means.free - 1, most))


def _streams(level: LevelPlan) -> int:
    """Requests that are in flight at once, at most."""
    held = level.arrivals.max_in_flight if level.arrivals else level.concurrency
    return min(held or level.expected, level.expected)


def _offered(level: LevelPlan, pace: float) -> float:
    """Events a second at most."""
    arrivals, held = level.arrivals, _streams(level) * pace
    if arrivals is None or arrivals.process in ("burst", "trace") or not arrivals.rate:
        return held
    return min(held, max(arrivals.rate, arrivals.from_rate or 0, arrivals.to_rate or 0) * level.shape.output)


def pace_of(request: Request) -> float | None:
    """Events a second of a request that brought some."""
    lasted_us = request.end_us - request.t0_us if request.t0_us is not None else 0
    return len(request.kinds) / lasted_us * 1e6 if request.kinds and lasted_us > 0 else None
