"""Tests of a plan and the levels they consist of."""

# ruff: noqa: RUF012  (pydantic copies defaults)
from __future__ import annotations

import hashlib
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from genreport.plan.conditions import FailOn
from genreport.plan.parts import Count, CountFromZero, Id, Part, Positive, Words
from genreport.records import Shape

# first words of figure ids that no test may take
RESERVED = {"against", "engine", "evidence", "hypothesis", "machine", "other", "pair", "test"}


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """One level of a test: shape in tokens, requests in flight, requests per repeat."""

    name: str
    shape: Shape
    concurrency: int
    requests: int


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


def _rising(values: list[int]) -> list[int]:
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
    fail_on: FailOn | None = None

    @field_validator("id")
    @classmethod
    def _free(cls, id: str) -> str:
        if id in RESERVED:
            raise ValueError(f"{id!r} is reserved; choose another id")
        return id

    def levels(self) -> list[LevelPlan]:
        """The test's levels in the plan's order."""
        raise NotImplementedError


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


class ConcurrencyTest(PlannedTest):
    """One request shape under rising concurrency; `requests` not given: max(16, 4·C)."""

    kind: Literal["concurrency"]
    input: Count
    output: Count
    requests: Count | None = None
    steps: Annotated[list[Step], Field(alias="levels", min_length=1)]

    @field_validator("steps")
    @classmethod
    def _order(cls, steps: list[Step], info: ValidationInfo) -> list[Step]:
        _rising([step.concurrency for step in steps])
        for step in steps:
            _enough(step.requests or info.data.get("requests"), step.concurrency)
        return steps

    def levels(self) -> list[LevelPlan]:
        shape = Shape(input=self.input, output=self.output)
        return [LevelPlan(f"c{s.concurrency}", shape, s.concurrency, self._requests(s)) for s in self.steps]

    def _requests(self, step: Step) -> int:
        return step.requests or self.requests or _usual(step.concurrency)


class FixedLoad(PlannedTest):
    """A test whose levels differ in shape only; `requests` per repeat as in a concurrency test."""

    concurrency: Count
    requests: Count | None = None

    @field_validator("requests")
    @classmethod
    def _kept(cls, requests: int | None, info: ValidationInfo) -> int | None:
        return _enough(requests, info.data.get("concurrency", 0))

    def _level(self, name: str, input: int, output: int) -> LevelPlan:
        requests = self.requests or _usual(self.concurrency)
        return LevelPlan(name, Shape(input=input, output=output), self.concurrency, requests)


class LengthTest(FixedLoad):
    """Rising prompt lengths at one concurrency."""

    kind: Literal["length"]
    output: Count
    inputs: Annotated[list[Count], Field(min_length=1)]

    _order = field_validator("inputs")(_rising)

    def levels(self) -> list[LevelPlan]:
        return [self._level(f"in{length}", length, self.output) for length in self.inputs]


class ShapePlan(Part):
    """Prompt and answer length in tokens."""

    input: Count
    output: Count


class CliffTest(FixedLoad):
    """The same load in a normal and in a long shape, so that only the KV demand differs."""

    kind: Literal["cliff"]
    shapes: Annotated[dict[Id, ShapePlan], Field(min_length=1)]

    def levels(self) -> list[LevelPlan]:
        return [self._level(name, shape.input, shape.output) for name, shape in self.shapes.items()]


TESTS = {"concurrency": ConcurrencyTest, "length": LengthTest, "cliff": CliffTest}
AnyTest = Annotated[ConcurrencyTest | LengthTest | CliffTest, Field(discriminator="kind")]
