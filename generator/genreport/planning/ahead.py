"""What a plan will do, told before anything starts: engines, levels, requests, tokens, minutes and megabytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from genreport.plan import LaunchGroup, LevelPlan, Plan, PlannedTest
from genreport.records import LevelFacts
from genreport.rounds import Round
from genreport.session import Step, steps

# without an earlier round: a token of each answer every 50 ms, prompts at 1,000 tokens a second, half a minute a start
TOKEN_S, PROMPT_TOKEN_S, START_S = 0.05, 0.001, 30.0
# bytes of a round as recorded: of a request, of an output token, and of a repeat's counters, samples and log
REQUEST_BYTES, TOKEN_BYTES, REPEAT_BYTES = 500, 18, 25_000
ASSUMED = (
    f"assumed, nothing was asked: a token of each answer every {TOKEN_S * 1000:g} ms, prompts at "
    f"{1 / PROMPT_TOKEN_S:,.0f} tokens/s, {START_S:g} s a start; a real engine may be ten times faster or slower. "
    "With --like runs/NAME the pace of an earlier round is taken"
)


@dataclass(frozen=True)
class Pace:
    """Seconds and bytes of a repeat and a start, as an earlier round had them, or as assumed without one."""

    like: Round | None = None

    def seconds(self, step: Step) -> float:
        seen = self._seen(step)
        return fmean(_wall(facts) / _requests(facts) for facts in seen) * _sent(step) if seen else _assumed_s(step)

    def bytes(self, step: Step) -> float:
        seen = self._seen(step)
        if not seen:
            return REPEAT_BYTES + _sent(step) * (REQUEST_BYTES + TOKEN_BYTES * step.level.shape.output)
        return fmean(sum(file.bytes for file in facts.files.values()) / _requests(facts) for facts in seen) * _sent(
            step
        )

    def start_s(self, group: LaunchGroup) -> float:
        found = [facts.ready_us / 1e6 for facts in self.like.launches.values()
                 if facts.engine == group.engine.id and facts.ready_us] if self.like else []  # fmt: skip
        return fmean(found) if found else START_S if group.engine.launch else 0.0

    def known(self, planned: Sequence[Step]) -> int:
        """How many of the repeats an earlier round tells about."""
        return sum(bool(self._seen(step)) for step in planned)

    def _seen(self, step: Step) -> list[LevelFacts]:
        """Repeats of the earlier round with the same engine, shape and load."""
        levels = self.like.levels if self.like else []
        planned, wanted = step.level, (step.engine.id, step.level.concurrency, step.level.arrivals, step.level.shape)
        return [
            facts
            for each in levels
            if ((facts := each.facts).engine, facts.concurrency, facts.arrivals, facts.shape) == wanted
            and facts.duration_s == planned.duration_s
        ]


def _wall(facts: LevelFacts) -> float:
    """From the level's origin, before its warm-up, until its counters were read."""
    return facts.after_us / 1e6


def _requests(facts: LevelFacts) -> int:
    return facts.requests + facts.warmup


def _sent(step: Step) -> int:
    return step.level.expected + step.test.warmup


def _assumed_s(step: Step) -> float:
    """Rounds of `concurrency` answers at one pace; the prompts one after another. By time only the warm-up is so."""
    level, shape, lasts_s = step.level, step.level.shape, _lasts_s(step.level)
    counted = _sent(step) if lasts_s is None else step.test.warmup + 1
    answers = counted / (level.concurrency or 1) * (shape.output * TOKEN_S + (level.talk.think_s if level.talk else 0))
    return answers + counted * shape.input * PROMPT_TOKEN_S + (lasts_s or 0) + step.test.pause_s


def _lasts_s(level: LevelPlan) -> float | None:
    """How long requests are started, where that is the plan's to say."""
    by_rate = level.expected / level.arrivals.rate if level.arrivals and level.arrivals.rate else None
    return level.duration_s or by_rate


def _load(level: LevelPlan) -> str:
    """Its load in words."""
    if level.talk:
        return f"{level.concurrency} conversations of {level.talk.turns} turns under way"
    if level.arrivals is None:
        return f"{level.concurrency} in flight"
    rate = f"{level.arrivals.rate:g} requests/s" if level.arrivals.rate else "all at once"
    return f"{rate} ({level.arrivals.process})"


def told(plan: Plan, like: Round | None = None) -> Iterator[str]:
    """Lines for a person; `like` is an earlier round whose pace is taken where it had the same level."""
    pace, groups = Pace(like), [_here(group) for group in plan.launches()]
    planned = {group.name: steps(group, plan.seed) for group in groups}
    everything = [step for each in planned.values() for step in each]
    yield from _engines(plan)
    for test in plan.tests:
        if conditions := plan.conditions_of(test):
            limits = {
                key: value
                for key, value in sorted(conditions.given.items())
                if value is not None and value is not False
            }
            given = ", ".join(key if value is True else f"{key} {value:g}" for key, value in limits.items())
            yield f"{test.id} fails on: {given}"
    yield ""
    for group in groups:
        yield from _group(group, planned[group.name], pace)
    seconds = sum(map(pace.seconds, everything)) + sum(map(pace.start_s, groups))
    size = sum(map(pace.bytes, everything))
    sent = sum(map(_sent, everything))
    tokens = sum(_sent(step) * step.level.shape.output for step in everything)
    prompts = sum(_sent(step) * step.level.shape.input for step in everything)
    yield ""
    yield f"{len(everything):,} repeats, {sent:,} requests with warm-up, {prompts:,} prompt and {tokens:,} output tokens"
    yield f"about {_minutes(seconds)} and {size / 1e6:,.1f} MB"
    if open_ended := _open_ended(plan):
        yield f"  and more, which depends on the engine or on a file that is not here: {', '.join(open_ended)}"
    yield f"  time: {_how(pace, everything)}"


def _here(group: LaunchGroup) -> LaunchGroup:
    """A launch without the tests whose traces are not on this machine."""
    return replace(group, tests=tuple(test for test in group.tests if not _elsewhere(test)))


def _elsewhere(test: PlannedTest) -> bool:
    try:
        return not test.levels()
    except ValueError:
        return True


def _open_ended(plan: Plan) -> list[str]:
    """Tests whose requests can not be counted beforehand: searches, closed loops that go by time, traces elsewhere."""
    return [test.id for test in plan.tests if test.searches or _elsewhere(test) or _uncounted(test)]


def _uncounted(test: PlannedTest) -> bool:
    return any(level.requests is None and not level.arrivals for level in test.levels())


def _how(pace: Pace, everything: Sequence[Step]) -> str:
    if pace.like is None:
        return ASSUMED
    known = pace.known(everything)
    if known == len(everything):
        return f"every repeat as fast as in {pace.like.name}"
    return f"{known} of {len(everything)} repeats as fast as in {pace.like.name}; the others {ASSUMED.split('; a real')[0]}"


def _engines(plan: Plan) -> Iterator[str]:
    for engine in plan.engines:
        how = "started here" if engine.launch else "runs already"
        base = ", baseline" if engine is plan.baseline else ""
        yield f"engine {engine.id}: {engine.kind}, {engine.model}, {engine.url}, {how}{base}"
    if any(engine.ceiling(name) and engine.ceiling(name).measure for engine in plan.engines
           for name in ("bandwidth", "flops")):  # fmt: skip
        yield "first the ceilings of this machine are measured"


def _group(group: LaunchGroup, planned: Sequence[Step], pace: Pace) -> Iterator[str]:
    start = f", start {pace.start_s(group):.0f} s" if group.engine.launch else ""
    yield f"{group.name}: {_minutes(sum(map(pace.seconds, planned)) + pace.start_s(group))}{start}"
    for test in group.tests:
        for level in test.levels():
            repeats = [step for step in planned if (step.test, step.level) == (test, level)]
            yield (
                f"  {test.id}/{level.name}: {test.repeats} × {_amount(level)} + {test.warmup} warm-up, "
                f"{_load(level)}, {level.shape.input} + {level.shape.output} tokens, "
                f"{_minutes(sum(map(pace.seconds, repeats)))}"
            )

        if search := test.searches:
            yield f"  {test.id}: searches from {search.low:g} to {search.high:g}; how many more levels depends on what it finds"


def _amount(level: LevelPlan) -> str:
    if level.requests is not None:
        return f"{level.requests} requests"
    count = f"about {level.expected} requests" if level.arrivals else "as many requests as it takes"
    return f"{level.duration_s:g} s ({count})"


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:,.0f} min"
