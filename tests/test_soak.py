"""A soak: one load for long, with what is kept of it bounded however long it lasts."""

from __future__ import annotations

import re
from pathlib import Path

import httpx
import pytest

from genreport import rounds
from genreport.engines import openai
from genreport.engines.server import MOST_SAMPLES, SAMPLE_S, Server
from genreport.errors import PlanError
from genreport.load import LAG_PERIOD_US, MOST_LAGS, Honesty
from genreport.plan import read_plan
from genreport.planning.ahead import told
from test_runner import engine, measured, plan_of


def soak(**fields):
    return {
        "id": "soak",
        "kind": "soak",
        "input": 8,
        "output": 3,
        "concurrency": 2,
        "duration_s": 1,
        "warmup": 1,
    } | fields


def an_open_one(**fields):
    return {key: value for key, value in soak(rate=50, **fields).items() if key != "concurrency"}


@pytest.mark.parametrize(("test", "level"), [(soak(), "c2"), (an_open_one(), "q50")])
def test_a_soak_is_recorded_with_the_memory_of_its_server(tmp_path: Path, port: int, test, level) -> None:
    found = measured(plan_of(tmp_path, engine(port), tests=[test]), tmp_path / "round")
    assert list(rounds.check(found.path)) == []
    (only,) = found.levels
    assert (only.facts.kind, only.facts.level, only.facts.duration_s, only.facts.repeat) == ("soak", level, 1, 1)
    assert only.facts.requests > 10
    head, *samples = found.text(only.file(rounds.SAMPLES)).splitlines()
    assert "process:resident_bytes" in head
    assert all(float(line.strip("[]").split(",")[-1]) > 1e6 for line in samples)


def test_failures_of_a_soak_do_not_end_it(tmp_path: Path, port: int) -> None:
    found = measured(plan_of(tmp_path, engine(port, "--fail-every", "3"), tests=[soak()]), tmp_path / "round")
    requests = [request for request in found.requests(found.levels[0]) if not request.warmup]
    failed = [request for request in requests if request.failure]
    assert len(failed) == pytest.approx(len(requests) / 3, abs=2)


@pytest.mark.anyio
@pytest.mark.parametrize(("hours", "period_s", "lag_us"), [(0.1, SAMPLE_S, LAG_PERIOD_US), (10, 5, 500_000)])
async def test_what_is_sampled_is_bounded_however_long_a_load_lasts(hours, period_s, lag_us):
    async with httpx.AsyncClient() as http:
        async with Server(openai, http, http, None, None, None).watched(lambda: 0, hours * 3600) as seen:
            assert seen.period_s == period_s
        assert hours * 3600 / seen.period_s <= MOST_SAMPLES
        async with Honesty(hours * 3600) as honesty:
            pass
    assert honesty.facts.lag_period_us == lag_us
    assert hours * 3600e6 / lag_us <= MOST_LAGS


@pytest.mark.parametrize(("test", "said"), [
    (soak(rate=1), "needs either `concurrency` or `rate`"),
    ({k: v for k, v in soak().items() if k != "duration_s"}, "`duration_s` is missing"),
    ({k: v for k, v in soak().items() if k != "input"}, "`input` is missing"),
])  # fmt: skip
def test_a_mistake_in_a_soak_is_told_in_plain_words(tmp_path: Path, test, said) -> None:
    with pytest.raises(PlanError, match=re.escape(said)):
        read_plan(plan_of(tmp_path, engine(1), tests=[test]))


def test_plan_check_tells_how_long_a_soak_takes(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, engine(1), tests=[an_open_one(duration_s=7200)])
    assert "soak/q50: 1 × 7200 s (about 360000 requests) + 1 warm-up, 50 requests/s (poisson)" in "\n".join(
        told(read_plan(plan))
    )
