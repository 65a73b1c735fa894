"""Which loads meet the service level of a search, judged on composed records."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from compose import VLLM, arriving, compose_round, sweep
from genreport.plan import read_plan
from genreport.records import Failure, Request
from genreport.verdict import meets

LATE_US = 500_000


def judged(folder: Path, below_ms: float, composed, *, figure: str = "ttft", percentile: str = "p90", **what) -> dict:
    """What is said of each level of a composed test, by a plan that searches it for a service level."""
    search = {"slo": "fast", "from": 1, "to": 8}
    test = {"id": composed.id, "kind": composed.kind, "input": 64, "output": 16, "repeats": 2, "requests": 40}
    slo = {"id": "fast", "figure": figure, "percentile": percentile, "below_ms": below_ms}
    engine = {"id": VLLM.id, "kind": "vllm", "model": "m", "url": "http://127.0.0.1:9", "vocabulary": 5000}
    plan = {"plan": 1, "seed": 3, "engines": [engine], "tests": [test | {"search": search}], "slos": [slo]}
    (folder / "plan.yaml").write_text(yaml.safe_dump(plan))
    read = read_plan(folder / "plan.yaml")
    round = compose_round(folder / "round", engines=(VLLM,), tests=(composed,), **what)
    met = meets(round, read, read.tests[0], VLLM.id)
    return {load.name: met(load.name) for load in composed.levels}


def test_a_load_meets_its_service_level_below_the_limit_alone(tmp_path: Path) -> None:
    """TTFT of 50 ms and 10 ms more for each further request, the jitter of composed records 1 % of it."""
    assert judged(tmp_path, 102, sweep(1, 2, 6, 7)) == {"c1": True, "c2": True, "c6": True, "c7": False}


@pytest.mark.parametrize(("figure", "percentile", "met"), [
    ("ttft", "p50", True), ("ttft", "p90", False), ("e2el", "p50", False),
])  # fmt: skip
def test_a_load_is_judged_by_the_figure_and_the_percentile_that_were_asked_for(tmp_path, figure, percentile, met):
    """Every fourth first token comes half a second late, and every answer takes 350 ms."""

    def late(_: str, request: Request) -> Request:
        gaps_us = [request.gaps_us[0] + (request.index % 4 == 0) * LATE_US, *request.gaps_us[1:]]
        return request.model_copy(update={"gaps_us": gaps_us, "end_us": request.end_us + LATE_US})

    assert judged(tmp_path, 300, sweep(1), figure=figure, percentile=percentile, alter=late) == {"c1": met}


def test_a_load_of_which_a_repeat_is_missing_is_not_judged(tmp_path: Path) -> None:
    unfinished = [f"concurrency/{VLLM.id}/c2/r2"]
    assert judged(tmp_path, 1000, sweep(1, 2), unfinished=unfinished, seal=False) == {"c1": True, "c2": None}


def test_a_load_with_one_failed_request_does_not_meet_its_service_level(tmp_path: Path) -> None:
    def one(engine: str, level: str, repeat: int, index: int) -> Failure | None:
        return Failure(kind="http", status=503) if (level, repeat, index) == ("c2", 2, 5) else None

    assert judged(tmp_path, 1000, sweep(1, 2), failures=one) == {"c1": True, "c2": False}


def sent_late(_: str, request: Request) -> Request:
    late = {"t0_us": request.t0_us + LATE_US, "end_us": request.end_us + LATE_US}
    return request if request.warmup else request.model_copy(update=late)


@pytest.mark.parametrize("figure", ["ttft", "e2el"])
def test_requests_that_were_sent_late_are_judged_from_when_they_were_due_in_an_open_loop_alone(tmp_path, figure):
    for composed, met in ((sweep(1), {"c1": True}), (arriving(1), {"q1": False})):
        (tmp_path / composed.id).mkdir()
        assert judged(tmp_path / composed.id, 490, composed, figure=figure, alter=sent_late) == met
