"""Tests of a plan and the levels they consist of."""

# ruff: noqa: RUF012  (pydantic copies defaults)
from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import fmean
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from genreport.arrivals import Arrival, cut, due_times, read_trace
from genreport.corpus import Chat, holds_chats, read_chats, words_of
from genreport.plan.conditions import FailOn
from genreport.plan.parts import Count, CountFromZero, Id, Paced, Part, Positive, Words
from genreport.plan.searching import Search
from genreport.records import Arrivals, Conversations, SearchStep, Shape

# the name of a level -> whether it met the service level of a search; `None` = not measured yet
Met = Callable[[str], bool | None]
# first words of figure ids that no test may take
RESERVED = {"against", "engine", "evidence", "hypothesis", "machine", "other", "pair", "test"}


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """One level of a test: shape in tokens, its load, and its end: after so many requests, or after `duration_s`.

    A closed loop has a concurrency, an open one `arrivals`; `trace` is the part of a trace file that gives it both. With
    `talk` the concurrency counts conversations, of which `requests` are all turns.
    """

    name: str
    shape: Shape
    concurrency: int | None
    requests: int | None
    duration_s: float | None = None
    arrivals: Arrivals | None = None
    trace: tuple[Arrival, ...] | None = None
    shared_prefix: float = 0
    search: SearchStep | None = None
    talk: Conversations | None = None
    soak: bool = False

    @property
    def alone(self) -> bool:
        """Whether one process must hold it, because its requests cannot be made beforehand, or are too many for that."""
        return self.soak or self.talk is not None

    @property
    def expected(self) -> int:
        """Requests of a repeat, as far as they can be told: by duration a closed loop sends as many as it can."""
        if self.requests is None and self.arrivals and self.arrivals.rate and self.duration_s:
            return max(1, round(self.arrivals.rate * self.duration_s))
        return self.requests or _usual(self.concurrency or 1) * (self.talk.turns if self.talk else 1)

    def schedule(self, seed: int) -> Iterator[Arrival]:
        """When each request of an open loop is due, and its lengths; the same for the same seed."""
        if self.trace is not None:
            yield from self.trace
        elif self.arrivals:
            for due_s in due_times(self.arrivals, seed, self.requests, self.duration_s):
                yield Arrival(float(due_s), self.shape.input, self.shape.output)


def level_seed(plan_seed: int, test: str, level: str, repeat: int) -> int:
    """The seed of one repeat of a level: the same for every engine, so that answers can be compared; 31 bits."""
    words = hashlib.sha256(f"{plan_seed}/{test}/{level}/r{repeat}".encode()).digest()
    return int.from_bytes(words[:4], "big") >> 1


def _enough(requests: int | None, concurrency: int) -> int | None:
    if requests is not None and requests < concurrency:
        raise ValueError(f"{requests} requests can not keep {concurrency} in flight; at least {concurrency}")
    return requests


def _usual(concurrency: int) -> int:
    return max(16, 4 * concurrency)


def _rising(values: list[Any]) -> list[Any]:
    if any(b <= a for a, b in pairwise(values)):
        raise ValueError(f"must rise, each value once, not {', '.join(map(str, values))}")
    return values


class PlannedTest(Part):
    """What all kinds of test share: engines (none named = all), repeats, warm-up requests per repeat, launch flags."""

    id: Id
    engines: Annotated[list[str], Field(min_length=1)] | None = None
    repeats: Count = 3
    warmup: CountFromZero = 2
    flags: Words = []
    pause_s: Annotated[float, Field(ge=0)] = 0
    stall_s: Positive = 120
    request_s: Positive = 600
    prompts: str | None = None
    chat: bool = False
    fail_on: FailOn | None = None

    @field_validator("id")
    @classmethod
    def _free(cls, id: str) -> str:
        if id in RESERVED:
            raise ValueError(f"{id!r} is reserved; choose another id")
        return id

    @property
    def files(self) -> dict[str, str]:
        """Paths of the files that its requests are made of, by the keys that name them."""
        given = {name: getattr(self, name, None) for name in ("prompts", "trace")}
        return {name: path for name, path in given.items() if path is not None}

    @property
    def chats(self) -> bool:
        """Whether its prompts are chats from a file."""
        return holds_chats(self.prompts)

    def shape(self, input: int | None, output: int) -> Shape:
        """Of its requests; of chats from a file the mean, in words."""
        return Shape(input=_mean_words(self.prompts or "") if input is None else input, output=output)

    @property
    def searches(self) -> Search | None:
        """The search that decides its levels."""
        return None

    def levels(self, met: Met = lambda level: None) -> list[LevelPlan]:
        """The test's levels in the plan's order; of a search those that are known to come, given which levels met it."""
        raise NotImplementedError


def by_time(test: PlannedTest) -> PlannedTest:
    """Refuses two ends."""
    if getattr(test, "requests", None) is not None and getattr(test, "duration_s", None) is not None:
        raise ValueError("ends by `requests` or by `duration_s`, not by both")
    return test


def own_lengths(test: PlannedTest) -> PlannedTest:
    """Refuses a length of prompts beside chats, which have their own, and any other prompts without one."""
    given = [name for name in ("input", "prefix", "shared_prefix", "trace") if getattr(test, name, None)]
    if test.chats and (given or not hasattr(test, "input")):
        raise ValueError(
            f"chats of a file have lengths of their own: no `{given[0] if given else 'kind: ' + test.kind}`"
        )
    if not test.chats and getattr(test, "input", 1) is None and getattr(test, "trace", None) is None:
        raise ValueError("`input` is missing")
    return test


def _mean_words(path: str) -> int:
    """Of the chats of a file, each as one request."""
    return round(fmean(words_of(chat.messages) for chat in read_chats(path)))


def _searched(search: Search, met: Met, whole: bool, level: Callable[[float], LevelPlan]) -> list[LevelPlan]:
    """The levels of a search, each with its place in it."""
    loads = search.loads(lambda load: met(level(load).name), whole=whole)
    return [
        replace(level(load), search=SearchStep(slo=search.slo, step=n, load=load, low=search.low, high=search.high))
        for n, load in enumerate(loads, 1)
    ]


class Step(Part):
    """One concurrency of a sweep and its requests per repeat; a bare number is the concurrency."""

    concurrency: Count
    requests: Count | None = None

    @model_validator(mode="before")
    @classmethod
    def _number(cls, given: Any) -> Any:
        return {"concurrency": given} if isinstance(given, int | float) else given

    @field_validator("requests")
    @classmethod
    def _kept(cls, requests: int | None, info: ValidationInfo) -> int | None:
        return _enough(requests, info.data.get("concurrency", 0))


class WholeSearch(Search):
    """A search among whole numbers of requests in flight."""

    low: Annotated[Count, Field(alias="from")]
    high: Annotated[Count, Field(alias="to")]


class ConcurrencyTest(PlannedTest):
    """One request shape under rising concurrency; `requests` not given: max(16, 4·C)."""

    kind: Literal["concurrency"]
    input: Count | None = None
    output: Count
    requests: Count | None = None
    duration_s: Positive | None = None
    steps: Annotated[Annotated[list[Step], Field(min_length=1)] | None, Field(alias="levels")] = None
    search: WholeSearch | None = None

    _one_end = model_validator(mode="after")(by_time)
    _length = model_validator(mode="after")(own_lengths)

    @field_validator("steps")
    @classmethod
    def _order(cls, steps: list[Step] | None, info: ValidationInfo) -> list[Step] | None:
        if steps is None:
            return None
        _rising([step.concurrency for step in steps])
        for step in steps:
            _enough(step.requests or info.data.get("requests"), step.concurrency)
        return steps

    @model_validator(mode="after")
    def _one_load(self) -> ConcurrencyTest:
        if (self.steps is None) == (self.search is None):
            raise ValueError("`levels` is missing" if self.steps is None else "needs `levels` or `search`, not both")
        return self

    @property
    def searches(self) -> Search | None:
        return self.search

    def levels(self, met: Met = lambda level: None) -> list[LevelPlan]:
        if self.search:
            return _searched(self.search, met, True, lambda load: self._level(Step(concurrency=int(load))))
        return [self._level(step) for step in self.steps or []]

    def _level(self, step: Step) -> LevelPlan:
        shape, name = self.shape(self.input, self.output), f"c{step.concurrency}"
        return LevelPlan(name, shape, step.concurrency, self._requests(step), self.duration_s)

    def _requests(self, step: Step) -> int | None:
        if self.duration_s:
            return None
        if self.search and self.requests:
            return max(self.requests, step.concurrency)
        return step.requests or self.requests or _usual(step.concurrency)


class FixedLoad(PlannedTest):
    """A test whose levels differ in shape only; `requests` per repeat as in a concurrency test."""

    concurrency: Count
    requests: Count | None = None
    duration_s: Positive | None = None

    _one_end = model_validator(mode="after")(by_time)
    _length = model_validator(mode="after")(own_lengths)

    @field_validator("requests")
    @classmethod
    def _kept(cls, requests: int | None, info: ValidationInfo) -> int | None:
        return _enough(requests, info.data.get("concurrency", 0))

    def _level(self, name: str, input: int, output: int) -> LevelPlan:
        requests = self.requests or (None if self.duration_s else _usual(self.concurrency))
        return LevelPlan(name, Shape(input=input, output=output), self.concurrency, requests, self.duration_s)


class LengthTest(FixedLoad):
    """Rising prompt lengths at one concurrency."""

    kind: Literal["length"]
    output: Count
    inputs: Annotated[list[Count], Field(min_length=1)]

    _order = field_validator("inputs")(_rising)

    def levels(self, met: Met = lambda level: None) -> list[LevelPlan]:
        return [self._level(f"in{length}", length, self.output) for length in self.inputs]


class ShapePlan(Part):
    """Prompt and answer length in tokens."""

    input: Count
    output: Count


class CliffTest(FixedLoad):
    """The same load in a normal and in a long shape, so that only the KV demand differs."""

    kind: Literal["cliff"]
    shapes: Annotated[dict[Id, ShapePlan], Field(min_length=1)]

    def levels(self, met: Met = lambda level: None) -> list[LevelPlan]:
        return [self._level(name, shape.input, shape.output) for name, shape in self.shapes.items()]


class Ramp(Part):
    """A rate that changes evenly over the test's duration, in requests/s."""

    start: Annotated[Paced, Field(alias="from")]
    end: Annotated[Paced, Field(alias="to")]


class Bursts(Part):
    """So many requests at once, time and again."""

    size: Count
    every_s: Paced


# requests per repeat that a schedule may ask for: all are drawn before the first is sent
MOST_REQUESTS = 100_000_000
LOADS = ("rates", "ramp", "bursts", "trace", "search")


def named(rate: float) -> str:
    """The name of a level with so many requests a second."""
    return f"q{rate:g}".replace(".", "_")


class OpenTest(PlannedTest):
    """Requests that arrive by a schedule, whether or not earlier ones are done; exactly one of `LOADS`."""

    kind: Literal["open"]
    input: Count | None = None
    output: Count | None = None
    rates: Annotated[list[Paced], Field(min_length=1)] | None = None
    ramp: Ramp | None = None
    bursts: Bursts | None = None
    trace: str | None = None
    search: Search | None = None
    arrivals: Literal["poisson", "constant", "gamma"] = "poisson"
    burstiness: Annotated[float, Field(ge=0.001, le=1e9)] | None = None
    speed: Annotated[float, Field(ge=0.001, le=1e9)] = 1
    shared_prefix: Annotated[float, Field(ge=0, le=1)] = 0
    requests: Annotated[Count, Field(le=MOST_REQUESTS)] | None = None
    duration_s: Paced | None = None
    max_in_flight: Count | None = None

    _one_end = model_validator(mode="after")(by_time)
    _length = model_validator(mode="after")(own_lengths)

    @field_validator("rates")
    @classmethod
    def _order(cls, rates: list[float] | None) -> list[float] | None:
        return rates and _rising([float(f"{rate:g}") for rate in rates])  # as levels are named

    @model_validator(mode="after")
    def _whole(self) -> OpenTest:
        if sum(getattr(self, name) is not None for name in LOADS) != 1:
            raise ValueError(f"needs exactly one of {', '.join(LOADS)}")
        if (self.arrivals == "gamma") != (self.burstiness is not None):
            raise ValueError("`burstiness` and `arrivals: gamma` belong together")
        if self.trace is None and (self.requests or self.duration_s) is None:
            raise ValueError("needs `requests` or `duration_s`")
        if self.trace is None and self.output is None:
            raise ValueError("needs `input` and `output`")
        if self.trace is not None and (self.input or self.output or self.shared_prefix):
            raise ValueError("its lengths are those of the trace: no `input`, `output` or `shared_prefix`")
        if self.ramp and not self.duration_s:
            raise ValueError("a ramp needs `duration_s`")
        if self._most > MOST_REQUESTS:
            raise ValueError(f"asks for {self._most:.2g} requests a repeat, more than {MOST_REQUESTS:,}")
        return self

    @property
    def _most(self) -> float:
        """Requests per repeat of its busiest level, as far as a rate tells them."""
        rates = [*(self.rates or ()), *((self.ramp.start, self.ramp.end) if self.ramp else ())]
        rates += [self.bursts.size / self.bursts.every_s] if self.bursts else []
        rates += [self.search.high] if self.search else []
        return max(rates, default=0) * (self.duration_s or 0)

    @property
    def searches(self) -> Search | None:
        return self.search

    def levels(self, met: Met = lambda level: None) -> list[LevelPlan]:
        if self.search:
            return _searched(self.search, met, False, self._at)
        if self.trace is not None:
            return [self._traced(cut(read_trace(self.trace), self.speed, self.requests, self.duration_s))]
        return [self._at(rate) for rate in self.rates] if self.rates else [self._changing()]

    @property
    def _burstiness(self) -> float | None:
        return 1.0 if self.arrivals == "poisson" else self.burstiness

    def _at(self, rate: float) -> LevelPlan:
        return self._level(named(rate), process=self.arrivals, rate=rate, burstiness=self._burstiness)

    def _changing(self) -> LevelPlan:
        if self.bursts:
            size, every_s = self.bursts.size, self.bursts.every_s
            return self._level(f"burst{size}", process="burst", rate=size / every_s, size=size, every_s=every_s)
        start, end = self.ramp.start, self.ramp.end
        ramp = {"from_rate": start, "to_rate": end, "rate": (start + end) / 2}
        return self._level("ramp", process="ramp", burstiness=self._burstiness, **ramp)

    def _level(self, name: str, **arrivals: Any) -> LevelPlan:
        shape = self.shape(self.input, self.output or 1)
        given = Arrivals(**arrivals, max_in_flight=self.max_in_flight)
        return LevelPlan(name, shape, None, self.requests, self.duration_s, given, shared_prefix=self.shared_prefix)

    def _traced(self, part: list[Arrival]) -> LevelPlan:
        mean = Shape(input=round(fmean(a.input for a in part)), output=round(fmean(a.output for a in part)))
        lasts_s = part[-1].due_s
        rate = (len(part) - 1) / lasts_s if lasts_s else None
        given = Arrivals(process="trace", rate=rate, speed=self.speed, max_in_flight=self.max_in_flight)
        return LevelPlan("trace", mean, None, len(part), self.duration_s, given, tuple(part))


class ConversationTest(PlannedTest):
    """Conversations of several turns under way side by side; each turn sends all that was said before it.

    `conversations` are those of a repeat, max(16, 4·C) if neither they nor `duration_s` are given. From a file of chats the
    user's turns are taken, `turns` at most.
    """

    kind: Literal["conversation"]
    turns: Count
    input: Count | None = None
    output: Count
    prefix: CountFromZero = 0
    think_s: Annotated[float, Field(ge=0)] = 0
    chat: bool = True
    conversations: Count | None = None
    duration_s: Positive | None = None
    at_once: Annotated[list[Count], Field(alias="levels", min_length=1)]

    _length = model_validator(mode="after")(own_lengths)
    _order = field_validator("at_once")(_rising)

    @model_validator(mode="after")
    def _one_end(self) -> ConversationTest:
        if self.conversations and self.duration_s:
            raise ValueError("ends by `conversations` or by `duration_s`, not by both")
        if self.conversations and self.conversations < self.at_once[-1]:
            raise ValueError(f"{self.conversations} conversations can not keep {self.at_once[-1]} under way")
        return self

    def levels(self, met: Met = lambda level: None) -> list[LevelPlan]:
        return [self._level(at_once) for at_once in self.at_once]

    def _level(self, at_once: int) -> LevelPlan:
        count = None if self.duration_s else (self.conversations or _usual(at_once)) * self.turns
        names = ("turns", "input", "output", "prefix", "think_s")
        talk = Conversations(**{name: getattr(self, name) for name in names})
        shape = Shape(input=round(fmean(self._asked(talk))), output=self.output)
        return LevelPlan(f"c{at_once}", shape, at_once, count, self.duration_s, talk=talk)

    def _asked(self, talk: Conversations) -> Iterator[int]:
        """Lengths of the prompts, as far as they can be told beforehand."""
        if self.chats:
            for chat in read_chats(self.prompts or ""):
                yield from _grown(chat, self.turns, self.output)
        else:
            yield from (asked_input(talk, turn) for turn in range(self.turns))


def _grown(chat: Chat, turns: int, output: int) -> Iterator[int]:
    """Words that each turn of a chat sends, with answers of the length asked for."""
    said = words_of(chat.opening) if chat.system else 0
    for turn, text in enumerate(chat.asked[:turns]):
        said += len(text.split())
        yield max(1, said + turn * output)


def asked_input(talk: Conversations, turn: int) -> int:
    """Tokens that a turn sends: the prefix, what was asked until now, and answers of the length asked for."""
    return talk.prefix + (turn + 1) * (talk.input or 0) + turn * talk.output


class SoakTest(PlannedTest):
    """One load for hours: so many requests in flight, or a rate at which they arrive."""

    kind: Literal["soak"]
    repeats: Count = 1
    input: Count | None = None
    output: Count
    concurrency: Count | None = None
    rate: Positive | None = None
    arrivals: Literal["poisson", "constant"] = "poisson"
    duration_s: Positive

    _length = model_validator(mode="after")(own_lengths)

    @model_validator(mode="after")
    def _one_load(self) -> SoakTest:
        if (self.concurrency is None) == (self.rate is None):
            raise ValueError("needs either `concurrency` or `rate`")
        return self

    def levels(self, met: Met = lambda level: None) -> list[LevelPlan]:
        shape = self.shape(self.input, self.output)
        if self.rate is None:
            return [LevelPlan(f"c{self.concurrency}", shape, self.concurrency, None, self.duration_s, soak=True)]
        burstiness = 1.0 if self.arrivals == "poisson" else None
        given = Arrivals(process=self.arrivals, rate=self.rate, burstiness=burstiness)
        return [LevelPlan(named(self.rate), shape, None, None, self.duration_s, given, soak=True)]


TESTS = {
    "concurrency": ConcurrencyTest,
    "length": LengthTest,
    "cliff": CliffTest,
    "open": OpenTest,
    "conversation": ConversationTest,
    "soak": SoakTest,
}
AnyTest = Annotated[
    ConcurrencyTest | LengthTest | CliffTest | OpenTest | ConversationTest | SoakTest, Field(discriminator="kind")
]
