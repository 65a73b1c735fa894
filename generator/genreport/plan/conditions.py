"""What a level must not show: conditions of a plan that end `genreport run` with exit code 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pydantic import create_model, model_validator

from genreport.plan.parts import CountFromZero, Part, Positive
from genreport.tally import LATENCIES, Tally, percentile

STATISTICS = ("mean", "p50", "p90", "p95", "p99")
RATES = {"output_throughput_below": "tok/s", "request_throughput_below": "req/s"}
# the client was late by more than this share of the median gap between tokens
LATE = 0.1


class _Conditions(Part):
    """The latest word on one key counts: a test's over the plan's; `null` takes a condition away."""

    failed: CountFromZero | None = None
    output_throughput_below: Positive | None = None
    request_throughput_below: Positive | None = None
    client_lag: bool = False

    @model_validator(mode="after")
    def _some(self) -> _Conditions:
        if not self.model_fields_set:
            raise ValueError("holds no condition")
        return self

    def over(self, plan: FailOn | None) -> FailOn:
        """These of a test on top of those of its plan."""
        return FailOn.model_validate((plan.given if plan else {}) | self.given)

    @property
    def given(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.model_fields_set}

    @property
    def needs_gaps(self) -> bool:
        """Whether a condition is about single tokens, of which a round has many."""
        return self.client_lag or any(name.startswith("itl_") and value for name, value in self.given.items())


def _latency_keys() -> dict[str, Any]:
    names = (f"{name}_{statistic}_ms" for name in LATENCIES for statistic in STATISTICS)
    return {name: (Positive | None, None) for name in names if name not in ("itl_mean_ms", "e2el_mean_ms")}


FailOn = create_model("FailOn", __base__=_Conditions, **_latency_keys())


def broken(conditions: FailOn, tally: Tally, lags_us: Sequence[Sequence[int]]) -> Iterator[str]:
    """What a level shows that it must not, a sentence each; `lags_us` are the client's, by repeat.

    A number that can not be told breaks its condition: a gate that sees nothing does not open.
    """
    if conditions.failed is not None and tally.failed > conditions.failed:
        yield f"failed: {tally.failed:,} requests, {conditions.failed:,} allowed"
    for name, limit in conditions.given.items():
        if name.endswith("_ms") and limit is not None:
            yield from _late_answers(name, limit, tally)
    for name, unit in RATES.items():
        if (limit := getattr(conditions, name)) is not None:
            found = getattr(tally, name.removesuffix("_below"))
            if found is None or found < limit:
                yield f"{name}: {_told(found, unit)}, at least {limit:g} wanted"
    if conditions.client_lag:
        yield from _late_client(tally, lags_us)


def _late_answers(key: str, limit_ms: float, tally: Tally) -> Iterator[str]:
    name, statistic, _ = key.split("_")
    found = tally.latency(name, statistic)
    if found is None or found * 1000 > limit_ms:
        yield f"{key}: {_told(found and found * 1000, 'ms')}, at most {limit_ms:g} ms wanted"


def _late_client(tally: Tally, lags_us: Sequence[Sequence[int]]) -> Iterator[str]:
    itl = tally.latency("itl", "p50")
    lag = max((percentile(lags, 99) / 1e6 for lags in lags_us if lags), default=None)
    if lag is not None and itl is not None and lag > LATE * itl:
        yield f"client_lag: p99 {lag * 1000:.3g} ms, over {LATE:.0%} of the ITL p50 of {itl * 1000:.3g} ms"


def _told(value: float | None, unit: str) -> str:
    return "n/a" if value is None else f"{value:,.4g} {unit}"
