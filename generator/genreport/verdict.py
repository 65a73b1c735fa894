"""Whether the levels of a recorded round meet the conditions of its plan (`fail_on`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache

from genreport.plan import Plan, PlannedTest
from genreport.plan.conditions import FailOn, broken
from genreport.rounds import Level, Round
from genreport.tally import Tally


def broken_conditions(round: Round, plan: Plan) -> Iterator[tuple[str, str]]:
    """Level (`test/engine/level`) and sentence for each condition that a level does not meet over all its repeats."""
    levels: dict[tuple[str, str, str], list[Level]] = defaultdict(list)
    for level in round.levels:
        levels[level.facts.test, level.facts.engine, level.facts.level].append(level)
    tests: dict[str, PlannedTest] = {test.id: test for test in plan.tests}
    for key, repeats in levels.items():
        if key[0] in tests and (conditions := plan.conditions_of(tests[key[0]])):
            yield from (("/".join(key), sentence) for sentence in _broken(conditions, round, repeats))


def meets(round: Round, plan: Plan, test: PlannedTest, engine: str) -> Callable[[str], bool | None]:
    """Whether a level met the service level of a test's search over all its repeats; `None` = some are missing.

    A failed request does not meet it. In an open loop latencies count from when a request was due.
    """
    slo = next(slo for slo in plan.slos if test.searches and slo.id == test.searches.slo)
    mine = [level for level in round.levels if (level.facts.test, level.facts.engine) == (test.id, engine)]

    @cache
    def met(name: str) -> bool | None:
        repeats = [level for level in mine if level.facts.level == name]
        if len(repeats) < test.repeats:
            return None
        tally = _tally(round, repeats, gaps=False, since_due=repeats[0].facts.arrivals is not None)
        found = tally.latency(slo.figure, slo.percentile)
        return not tally.failed and found is not None and found * 1000 <= slo.below_ms

    return met


def _broken(conditions: FailOn, round: Round, repeats: list[Level]) -> Iterator[str]:
    tally = _tally(round, repeats, gaps=conditions.needs_gaps)
    yield from broken(conditions, tally, [repeat.facts.client.lag_us for repeat in repeats])


def _tally(round: Round, repeats: list[Level], *, gaps: bool, since_due: bool = False) -> Tally:
    tally = Tally(gaps=gaps, since_due=since_due)
    for repeat in repeats:
        tally.begin()
        for request in round.requests(repeat):
            if not request.warmup:
                tally.add(request)
    return tally
