"""The whole plan: engines, tests, service levels, hypotheses, and the order of launches that follows from them."""

# ruff: noqa: RUF012  (pydantic copies defaults)
from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field, PrivateAttr, field_validator, model_validator

from genreport.plan.conditions import FailOn
from genreport.plan.engines import Engine, EngineEntry
from genreport.plan.levels import AnyTest, PlannedTest
from genreport.plan.parts import VARIABLE, Count, CountFromZero, Id, Part, Positive, expand

SECRET_NAME = re.compile(r"KEY|TOKEN|SECRET|PASSW", re.IGNORECASE)
# statistics that are computed of each latency
LATENCIES = {
    "ttft": ("mean", "p50", "p90", "p95", "p99"),
    "tpot": ("mean", "p50", "p90", "p95", "p99"),
    "itl": ("p50", "p90", "p95", "p99"),
    "e2el": ("p50", "p90", "p95", "p99"),
}
# figures of a level that a hypothesis may be about
FIGURES = (
    "output_throughput", "request_throughput", "goodput", "mean_in_flight", "stall_share", "mbu", "mfu",
    *(f"{latency}.{statistic}" for latency, statistics in LATENCIES.items() for statistic in statistics),
)  # fmt: skip
CLAIMS = ("changes_by_more_than", "rises_by_more_than", "falls_by_more_than", "stays_within")


class Slo(Part):
    """A service level: a percentile of a latency figure that must stay below a limit in milliseconds."""

    id: Id
    figure: Literal["ttft", "tpot", "e2el"]
    percentile: Literal["p50", "p90", "p95", "p99"] = "p99"
    below_ms: Positive


class Hypothesis(Part):
    """A claim registered before measuring: an engine's figure over a test's levels, against another round or engine.

    Exactly one of `against_round` and `against_engine`; exactly one of the four relative claims (0.02 = 2 %).
    """

    id: Id
    text: str
    figure: str
    test: str
    engine: str
    against_round: str | None = None
    against_engine: str | None = None
    changes_by_more_than: Positive | None = None
    rises_by_more_than: Annotated[float, Field(ge=0)] | None = None
    falls_by_more_than: Annotated[float, Field(ge=0)] | None = None
    stays_within: Positive | None = None

    @field_validator("figure")
    @classmethod
    def _known(cls, figure: str) -> str:
        if figure not in FIGURES:
            raise ValueError(f"{figure!r} is no figure of a level; known are {', '.join(FIGURES)}")
        return figure

    @model_validator(mode="after")
    def _one_claim(self) -> Hypothesis:
        for names in (("against_round", "against_engine"), CLAIMS):
            if sum(getattr(self, name) is not None for name in names) != 1:
                raise ValueError(f"needs exactly one of {', '.join(names)}")
        return self

    @property
    def claim(self) -> tuple[str, float]:
        """The claim's name and its relative size."""
        return next((name, value) for name in CLAIMS if (value := getattr(self, name)) is not None)


class Prices(Part):
    """What an hour of the machine costs: rent (`hour`), or its price spread over its years; power; what an API asks.

    Money is in `currency`, `kwh` is the price of a kilowatt-hour, `api` that of a million output tokens.
    """

    currency: str
    utilisation: Positive
    hour: Positive | None = None
    card: Positive | None = None
    years: Positive | None = None
    watts: Positive | None = None
    kwh: Positive | None = None
    api: Positive | None = None

    @field_validator("currency")
    @classmethod
    def _code(cls, currency: str) -> str:
        if not re.fullmatch(r"[A-Z]{3}", currency):
            raise ValueError(f"{currency!r} is no currency code of three capital letters, such as EUR")
        return currency

    @field_validator("utilisation")
    @classmethod
    def _share(cls, utilisation: float) -> float:
        if utilisation > 1:
            raise ValueError(f"is a share of the time, 1 at most, not {utilisation:g}")
        return utilisation

    @model_validator(mode="after")
    def _whole(self) -> Prices:
        if (self.hour is None) == (self.card is None):
            raise ValueError("needs either `hour`, or `card` with `years`")
        for one, other in (("card", "years"), ("watts", "kwh")):
            if (getattr(self, one) is None) != (getattr(self, other) is None):
                raise ValueError(f"needs `{one}` and `{other}` together")
        return self


@dataclass(frozen=True, slots=True)
class LaunchGroup:
    """One start of an engine and the tests it serves; `test` is the one whose flags it adds."""

    engine: Engine
    test: PlannedTest | None
    tests: tuple[PlannedTest, ...]

    @property
    def name(self) -> str:
        return f"{self.engine.id}+{self.test.id}" if self.test else self.engine.id


class Plan(Part):
    """A whole plan; `entries` are the engines as written, `engines` those that are measured."""

    version: Annotated[Literal[1], Field(alias="plan")]
    seed: CountFromZero = 0
    entries: Annotated[list[EngineEntry], Field(alias="engines", min_length=1)]
    tests: Annotated[list[AnyTest], Field(min_length=1)]
    slos: list[Slo] = []
    hypotheses: list[Hypothesis] = []
    not_measured: list[str] = []
    redact: list[str] = []
    workers: Count | None = None
    noise_margin: Annotated[float, Field(ge=0, lt=1)] = 0.02
    prices: Prices | None = None
    fail_on: FailOn | None = None

    _text: str = PrivateAttr("")

    @property
    def text(self) -> str:
        """The file as given, variables unexpanded."""
        return self._text

    def with_text(self, text: str) -> Plan:
        self._text = text
        return self

    def expanded(self, env: Mapping[str, str] | None = None) -> Plan:
        """The plan with every `${VAR}` replaced, to act on and never to write down."""
        given = expand(self.model_dump(by_alias=True, exclude_unset=True), os.environ if env is None else env)
        return Plan.model_validate(given).with_text(self._text)

    def words(self) -> set[str]:
        """Ids and what else the plan calls things by: words that name nobody, even where a user or host is called so."""
        parts = (*self.entries, *self.engines, *self.tests, *self.slos, *self.hypotheses)
        levels = {level.name for test in self.tests for level in test.levels()}
        called = {word for engine in self.engines for word in (engine.kind, engine.model, engine.precision)}
        return ({part.id for part in parts} | levels | called) - {None}

    def secrets(self, env: Mapping[str, str] | None = None) -> list[str]:
        """Values that must reach no file: API keys, and variables and launch settings that are named like secrets."""
        env = os.environ if env is None else env
        names = {entry.api_key_env for entry in self.entries if entry.api_key_env}
        names |= {name for name in VARIABLE.findall(self._text) if SECRET_NAME.search(name)}
        found = {env.get(name, "") for name in names}
        for launch in (engine.launch for engine in self.engines if engine.launch):
            found |= {expand(value, env) for name, value in launch.env.items() if SECRET_NAME.search(name)}
        return sorted(found - {""})

    @cached_property
    def engines(self) -> list[Engine]:
        return [engine for entry in self.entries for engine in entry.expanded()]

    @cached_property
    def baseline(self) -> Engine:
        return next((engine for engine in self.engines if engine.baseline), self.engines[0])

    def engine(self, id: str) -> Engine:
        return next(engine for engine in self.engines if engine.id == id)

    def engines_of(self, test: PlannedTest) -> list[Engine]:
        """The engines a test runs on; the id of an entry whose base is not measured stands for its variants."""
        if test.engines is None:
            return self.engines
        measured = {engine.id for engine in self.engines}
        named = [(e.id, e.id if e.variant_of in measured else e.variant_of) for e in self.engines]
        return [e for e, names in zip(self.engines, named, strict=True) if set(names) & set(test.engines)]

    def conditions_of(self, test: PlannedTest) -> FailOn | None:
        """What the levels of a test must not show: the plan's conditions with the test's own over them."""
        return test.fail_on.over(self.fail_on) if test.fail_on else self.fail_on

    def launches(self) -> list[LaunchGroup]:
        """Every start in order: per engine one for all tests without flags, then one for each test with flags."""
        return [group for engine in self.engines for group in self._launches_of(engine)]

    def _launches_of(self, engine: Engine) -> Iterator[LaunchGroup]:
        tests = [test for test in self.tests if engine in self.engines_of(test)]
        if plain := tuple(test for test in tests if not test.flags):
            yield LaunchGroup(engine, None, plain)
        yield from (LaunchGroup(engine, test, (test,)) for test in tests if test.flags)
