"""Whether the levels of a recorded round meet the conditions of its plan (`fail_on`)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

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


def _broken(conditions: FailOn, round: Round, repeats: list[Level]) -> Iterator[str]:
    tally = Tally(gaps=conditions.needs_gaps)
    for repeat in repeats:
        tally.begin()
        for request in round.requests(repeat):
            if not request.warmup:
                tally.add(request)
    yield from broken(conditions, tally, [repeat.facts.client.lag_us for repeat in repeats])
