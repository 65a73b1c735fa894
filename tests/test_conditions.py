"""Conditions of a plan: what breaks them, by the same definitions as the site's figures."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from compose import compose_round, sweep
from genreport.cli import main
from genreport.errors import PlanError
from genreport.figures import compute
from genreport.figures.frames import table
from genreport.plan import read_plan
from genreport.plan.conditions import FailOn, broken
from genreport.records import Failure, Request, Usage
from genreport.rounds import Round
from genreport.tally import Tally, percentile
from genreport.verdict import broken_conditions
from test_runner import engine, plan_of, quick  # noqa: F401 (quick is a fixture, used by name alone)
from test_runner import sweep as fake_sweep

LATENCIES = [f"{n}.{s}" for n in ("ttft", "tpot", "itl", "e2el") for s in ("p50", "p90", "p99")]
PLAN = """\
plan: 1
engines: [{id: one, kind: openai, model: m, url: "http://127.0.0.1:1"}]
tests:
  - id: strict
    kind: concurrency
    input: 8
    output: 8
    levels: [1]
    fail_on: {failed: 0, ttft_p99_ms: null}
  - {id: plain, kind: concurrency, input: 8, output: 8, levels: [1]}
fail_on:
  failed: 3
  ttft_p99_ms: 800
  client_lag: true
"""


def read(folder: Path, text: str = PLAN):
    (folder / "plan.yaml").write_text(text)
    return read_plan(folder / "plan.yaml", {})


def tally(*requests: Request) -> Tally:
    found = Tally()
    found.begin()
    for request in requests:
        found.add(request)
    return found


def request(start_us: int = 0, failure: Failure | None = None, **fields) -> Request:
    plain = {"index": 0, "seed": 0, "asked_input": 8, "asked_output": 3, "due_us": start_us, "t0_us": start_us,
             "gaps_us": [0, 100_000, 20_000, 40_000, 0], "kinds": "rtttd", "tokens": [0, 1, 1, 2, 0],
             "end_us": start_us + 160_000, "failure": failure}  # fmt: skip
    return Request(**plain | fields)


def test_a_tests_conditions_stand_over_the_plans_and_null_takes_one_away(tmp_path):
    plan = read(tmp_path)
    strict, plain = plan.tests
    assert plan.conditions_of(plain).given == {"failed": 3, "ttft_p99_ms": 800, "client_lag": True}
    assert plan.conditions_of(strict).given == {"failed": 0, "ttft_p99_ms": None, "client_lag": True}


def test_an_expanded_plan_keeps_what_was_given_and_nothing_else(tmp_path):
    plan = read(tmp_path)
    assert plan.expanded({}).conditions_of(plan.tests[1]).given == plan.conditions_of(plan.tests[1]).given


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("failed: 3", "failled: 3", 12, "unknown key 'failled'; did you mean 'failed'?"),
        ("ttft_p99_ms: 800", "ttft_p99_ms: -1", 13, "must be above 0"),
        ("ttft_p99_ms: 800", "ttft_p98_ms: 1", 13, "did you mean 'ttft_p9"),
        ("client_lag: true", "client_lag: 3.5", 14, "client_lag"),
        ("fail_on: {failed: 0, ttft_p99_ms: null}", "fail_on: {}", 9, "holds no condition"),
        ("fail_on: {failed: 0, ttft_p99_ms: null}", "fail_on: {failed: -1}", 9, "at least 0"),
    ],
)
def test_every_mistake_of_a_condition_has_its_line(tmp_path, old, new, line, message):
    with pytest.raises(PlanError) as caught:
        read(tmp_path, PLAN.replace(old, new))
    assert [at for at, _ in caught.value.mistakes] == [line]
    assert message in str(caught.value)


def sentences(seen: Tally, lags=(), **conditions) -> list[str]:
    return list(broken(FailOn(**conditions), seen, lags))


def test_failed_requests_up_to_the_number_are_allowed():
    seen = tally(request(), request(failure=Failure(kind="http", status=503)))
    assert sentences(seen, failed=1) == []
    assert sentences(seen, failed=0) == ["failed: 1 requests, 0 allowed"]


def test_a_request_without_text_has_failed():
    assert tally(request(kinds="reeed")).failed == 1


@pytest.mark.parametrize("wild", [{"usage": Usage(completion_tokens=2**50)}, {"tokens": [0, 1, 1, 10**12, 0]},
                                  {"tokens": [0, 1, -1, 2, 0]}, {"gaps_us": [0, 10**12, 1, 1, 0], "end_us": 2 * 10**12}])  # fmt: skip
def test_a_request_with_numbers_that_none_can_have_has_failed_as_on_the_site(wild):
    seen, site = tally(request(**wild)), table("requests.jsonl", [request(**wild)])
    assert (seen.completed, seen.failed, len(site.measured)) == (0, 1, 0)
    assert not any(seen.latencies.values())


def test_a_latency_at_its_limit_is_met_and_above_it_is_not():
    seen = tally(request(), request())
    assert sentences(seen, ttft_p99_ms=100, e2el_p50_ms=160) == []
    assert sentences(seen, ttft_p99_ms=99) == ["ttft_p99_ms: 100 ms, at most 99 ms wanted"]


def test_an_event_of_two_tokens_is_two_gaps_of_half_its_time():
    assert list(tally(request()).latencies["itl"]) == pytest.approx([0.02, 0.02, 0.02])


def test_throughput_is_tokens_over_the_windows_of_all_repeats():
    seen = tally(request())
    seen.begin()
    seen.add(request(5_000_000))
    assert seen.output_throughput == pytest.approx(8 / 0.32)
    assert sentences(seen, output_throughput_below=25) == []
    assert sentences(seen, output_throughput_below=26) == ["output_throughput_below: 25 tok/s, at least 26 wanted"]


def test_what_can_not_be_told_breaks_its_condition():
    uncounted = tally(request(tokens=None))
    assert sentences(uncounted, output_throughput_below=1) == ["output_throughput_below: n/a, at least 1 wanted"]
    assert sentences(uncounted, tpot_p50_ms=1) == ["tpot_p50_ms: n/a, at most 1 ms wanted"]
    assert sentences(tally(), ttft_p50_ms=1) == ["ttft_p50_ms: n/a, at most 1 ms wanted"]


def test_a_client_that_woke_late_by_a_tenth_of_the_median_gap_is_named():
    seen = tally(request())
    assert sentences(seen, [[100] * 100], client_lag=True) == []
    assert "client_lag: p99 5 ms" in sentences(seen, [[100] * 100, [5000] * 100], client_lag=True)[0]
    assert sentences(seen, [[5000] * 100], client_lag=False, failed=0) == []


def test_tallies_of_repeats_joined_are_as_one():
    apart, joined = tally(request()), Tally()
    apart.begin()
    apart.add(request(9_000_000))
    joined.join(tally(request()))
    joined.join(tally(request(9_000_000)))
    assert (joined.tokens, joined.window_s, joined.latencies) == (apart.tokens, apart.window_s, apart.latencies)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=50), st.sampled_from([0, 50, 90, 99, 100]))
def test_percentiles_are_those_of_numpy(values, q):
    import numpy as np

    assert percentile(values, q) == pytest.approx(float(np.percentile(values, q)), abs=1e-9)


def test_the_numbers_are_those_of_the_sites_figures(tmp_path):
    path = tmp_path / "round"
    compose_round(path, tests=(sweep(1, 4),), repeats=2)
    found = Round(path)
    figures = compute(found)
    for engine_id in {level.facts.engine for level in found.levels}:
        seen = Tally()
        for level in (each for each in found.levels if (each.facts.engine, each.facts.level) == (engine_id, "c4")):
            seen.begin()
            for each in found.requests(level):
                if not each.warmup:
                    seen.add(each)
        id = f"concurrency.{engine_id}.c4"
        assert seen.failed == figures.ledger[f"{id}.failed"].value
        assert seen.tokens == figures.ledger[f"{id}.output_tokens"].value
        assert seen.output_throughput == pytest.approx(figures.ledger[f"{id}.output_throughput"].value)
        assert seen.request_throughput == pytest.approx(figures.ledger[f"{id}.request_throughput"].value)
        for name in LATENCIES:
            assert seen.latency(*name.split(".")) == pytest.approx(figures.ledger[f"{id}.{name}"].value), name


def test_a_round_is_judged_level_by_level_with_warm_up_left_out(tmp_path):
    path = tmp_path / "round"
    compose_round(path, tests=(sweep(1, 4),), repeats=2)
    text = PLAN.replace("id: plain", "id: concurrency").replace("ttft_p99_ms: 800", "ttft_p99_ms: 0.001")
    found = list(broken_conditions(Round(path), read(tmp_path, text)))
    assert {level.split("/")[2] for level, _ in found} == {"c1", "c4"}
    assert all(sentence.startswith("ttft_p99_ms: ") for _, sentence in found)


def run_it(plan: Path, out: Path, *options: str):
    return CliRunner().invoke(main, ["run", str(plan), "--out", str(out), *options])


def test_a_level_that_fails_its_conditions_ends_the_run_with_3_and_the_round_sealed(tmp_path, port):
    plan = plan_of(tmp_path, engine(port, "--fail-every", "5"), tests=[fake_sweep(fail_on={"failed": 0})])
    result = run_it(plan, tmp_path / "round", "--json")
    assert result.exit_code == 3, result.output
    events = [json.loads(line) for line in result.stdout.splitlines()]
    kinds = [event["event"] for event in events if event["event"] != "said"]
    assert kinds == ["started", *["level"] * 4, "sealed", "condition", "condition"]
    assert "fail_on" in result.stderr
    assert Round(tmp_path / "round").sealed
    again = run_it(plan, tmp_path / "round", "--resume", "--quiet")
    assert again.exit_code == 3
    assert again.stderr.count("\n") == 3
    assert again.stdout == ""


def test_a_quiet_run_that_meets_its_conditions_says_nothing(tmp_path, port):
    plan = plan_of(tmp_path, engine(port), tests=[fake_sweep(fail_on={"failed": 0}, repeats=1)])
    result = run_it(plan, tmp_path / "round", "--quiet")
    assert (result.exit_code, result.output) == (0, "")


def test_quiet_and_json_exclude_each_other(tmp_path):
    assert run_it(tmp_path / "plan.yaml", tmp_path / "round", "--quiet", "--json").exit_code == 2
