"""Shapes of load: when requests are due, what is sent then, and how a search goes on."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fault_server import serving
from genreport import rounds
from genreport.arrivals import due_times, read_trace
from genreport.client import Call, Client, Clock
from genreport.errors import PlanError
from genreport.load import closed_loop, open_loop, within
from genreport.plan import read_plan
from genreport.plan.searching import Search
from genreport.planning.ahead import told
from genreport.records import Arrivals
from test_load import calls, token
from test_runner import engine, measured, plan_of, sweep

POISSON = Arrivals(process="poisson", rate=5, burstiness=1)


def gaps(arrivals: Arrivals, count: int = 20_000) -> np.ndarray:
    return np.diff(due_times(arrivals, 7, count, None))


@pytest.mark.parametrize(("process", "burstiness", "variation"), [
    ("constant", None, 0), ("poisson", 1, 1), ("gamma", 0.25, 2), ("gamma", 4, 0.5),
])  # fmt: skip
def test_gaps_have_the_mean_and_the_variation_that_were_asked_for(process, burstiness, variation):
    drawn = gaps(Arrivals(process=process, rate=5, burstiness=burstiness))
    assert drawn.mean() == pytest.approx(0.2, rel=0.04)
    assert drawn.std() / drawn.mean() == pytest.approx(variation, abs=0.06)


@given(seed=st.integers(0, 2**31 - 1), rate=st.floats(0.1, 500), duration_s=st.floats(0.1, 20))
def test_a_schedule_rises_from_zero_and_is_the_same_however_it_ends(seed, rate, duration_s):
    arrivals = Arrivals(process="gamma", rate=rate, burstiness=0.5)
    by_time = due_times(arrivals, seed, None, duration_s)
    assert by_time[0] == 0
    assert (np.diff(by_time) >= 0).all()
    assert by_time[-1] < duration_s
    assert (by_time == due_times(arrivals, seed, len(by_time), None)).all()


@given(start=st.floats(1, 200), end=st.floats(1, 200))
def test_a_ramp_holds_as_many_requests_as_its_mean_rate_says(start, end):
    ramp = Arrivals(process="ramp", from_rate=start, to_rate=end, rate=(start + end) / 2)
    times = due_times(ramp, 1, None, 10)
    assert len(times) == pytest.approx((start + end) * 5, abs=2)
    half = start * 5 + (end - start) * 2.5 / 2
    assert (times < 5).sum() == pytest.approx(half, abs=2)


def test_bursts_come_together_and_whole():
    burst = Arrivals(process="burst", rate=2, size=4, every_s=2)
    assert list(due_times(burst, 1, 6, None)) == [0, 0, 0, 0, 2, 2]
    assert list(due_times(burst, 1, None, 4)) == [0] * 4 + [2] * 4


@given(every=st.integers(1, 40), end=st.integers(1, 200))
@example(every=3, end=21)
@example(every=3, end=27)
def test_no_burst_is_due_when_its_time_is_up(every, end):
    """In tenths of a second, which no float holds."""
    due = due_times(Arrivals(process="burst", rate=1, size=1, every_s=every / 10), 1, None, end / 10)
    assert max(due) < end / 10
    assert len(due) == -(-end // every)


AZURE = (
    "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.4799600,374,44\n"
)
MOONCAKE = (
    '{"timestamp": 3000, "input_length": 600, "output_length": 2, "hash_ids": [7, 8]}\n\n'
    '{"timestamp": 0, "input_length": 12, "output_length": 3, "hash_ids": []}\n'
)
PLAIN = "arrival_s,input,output\n1,8,5\n1.25,9,6\n"


@pytest.mark.parametrize(("name", "text", "found"), [
    ("azure.csv", AZURE, [(0, 4808, 10), (0.5, 374, 44)]),
    ("mooncake.jsonl", MOONCAKE, [(0, 12, 3), (3, 600, 2)]),
    ("plain.csv", PLAIN, [(0, 8, 5), (0.25, 9, 6)]),
])  # fmt: skip
def test_a_trace_is_read_by_the_names_of_its_columns(tmp_path, name, text, found):
    (tmp_path / name).write_text(text)
    read = read_trace(str(tmp_path / name))
    assert [(a.due_s, a.input, a.output) for a in read] == found
    assert read[-1].blocks == ((7, 8) if "mooncake" in name else ())


@pytest.mark.parametrize(("name", "text", "said"), [
    ("t.csv", "arrival_s,input,output\n0,8,5\n1,0,5\n", "line 3: input must be a whole number above 0, not '0'"),
    ("t.csv", "when,input,output\n0,8,5\n", "line 2: has none of arrival_s, TIMESTAMP, timestamp"),
    ("t.csv", "TIMESTAMP,input,output\nsoon,8,5\n", "line 2: TIMESTAMP must be a date with time, not 'soon'"),
    ("t.jsonl", '{"timestamp": 0\n', "line 1: is no JSON"),
    ("t.jsonl", "[1]\n", "line 1: is no object"),
    ("t.jsonl", '{"timestamp": NaN, "input": 1, "output": 1}\n', "line 1: timestamp must be a number, not 'nan'"),
    ("t.jsonl", '{"timestamp": 1' + "0" * 400 + ', "input": 1, "output": 1}\n',
     f"line 1: timestamp must be a number, not '1{'0' * 59}'"),
    ("t.csv", "arrival_s,input,output,note\n0,8,5," + "x" * 200_000 + "\n",
     "line 2: is no CSV: field larger than field limit (131072)"),
    ("t.csv", "arrival_s,input,output\n0,8,5\n2e9,8,5\n", "spans 2e+09 s; are its times in another unit?"),
    ("t.csv", "arrival_s,input,output\n", "holds no request"),
])  # fmt: skip
def test_a_broken_trace_is_refused_by_its_line(tmp_path, name, text, said):
    (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=re.escape(name)) as error:
        read_trace(str(tmp_path / name))
    assert str(error.value).endswith(said)


@given(limit=st.floats(1, 99), within=st.floats(0.01, 0.5))
def test_a_search_ends_at_the_largest_load_that_meets_it(limit, within):
    search = Search.model_validate({"slo": "x", "from": 1, "to": 100, "within": within})
    loads = list(search.loads(lambda load: load <= limit, whole=False))
    assert len(loads) < 25
    best, worst = max(load for load in loads if load <= limit), min(load for load in loads if load > limit)
    assert worst <= best * (1 + within) or worst - best <= best * 0.01


def test_a_search_in_whole_requests_finds_the_very_last():
    search = Search.model_validate({"slo": "x", "from": 1, "to": 64, "within": 0.01})
    loads = list(search.loads(lambda load: load <= 23, whole=True))
    assert 23 in loads
    assert 24 in loads
    assert len(loads) == len(set(loads))


@pytest.mark.parametrize(("known", "loads"), [
    ({}, [1]), ({1: False}, [1]), ({1: True}, [1, 100]), ({1: True, 100: True}, [1, 100]),
    ({1: True, 100: False}, [1, 100, 10]), ({1: True, 100: False, 10: False}, [1, 100, 10, 3.16]),
])  # fmt: skip
def test_what_a_search_measures_next_follows_from_what_is_known(known, loads):
    search = Search.model_validate({"slo": "x", "from": 1, "to": 100})
    assert list(search.loads(known.get, whole=False)) == loads


def timed(*due_s: float) -> list[Call]:
    bare = calls(len(due_s))
    return [call.due(round(s * 1e6)) for call, s in zip(bare, due_s, strict=True)]


async def slow(peer):
    await peer.start()
    await asyncio.sleep(0.02)
    await peer.end(token("a", "length"), "[DONE]")


@pytest.mark.anyio
async def test_an_open_loop_sends_when_it_is_due_whatever_is_in_flight():
    records = []
    async with serving(slow) as server, Client(server.url) as client:
        await open_loop(client, timed(0, 0.005, 0.01, 0.05), Clock(), records.append)
    records.sort(key=lambda record: record.index)
    assert [record.due_us - records[0].due_us for record in records] == [0, 5000, 10_000, 50_000]
    assert all(record.t0_us >= record.due_us for record in records)
    assert records[1].t0_us < records[0].end_us


@pytest.mark.anyio
async def test_a_hundred_arrivals_at_once_wait_for_four_places_and_the_wait_is_on_record():
    """Case T12: latency from the sending stays that of one answer, from the due time it grows place by place."""
    records = []
    async with serving(slow) as server, Client(server.url) as client:
        await open_loop(client, timed(*[0] * 100), Clock(), records.append, 4)
    assert len(records) == 100
    assert len({record.due_us for record in records}) == 1
    moments = sorted([(r.t0_us, 1) for r in records] + [(r.end_us, -1) for r in records])
    assert max(np.cumsum([step for _, step in moments])) <= 4
    waits = sorted(record.t0_us - record.due_us for record in records)
    assert waits[-1] >= 24 * 20_000
    alone = sorted(record.end_us - record.t0_us for record in records)
    since_due = sorted(record.end_us - record.due_us for record in records)
    assert alone[50] < 100_000 < since_due[50]


@pytest.mark.anyio
async def test_a_closed_loop_by_time_starts_nothing_after_its_end_and_finishes_what_is_in_flight():
    records, clock = [], Clock()
    async with serving(slow) as server, Client(server.url) as client:
        await closed_loop(client, within(calls(1000), clock, 0.1), 2, clock, records.append)
    assert 4 <= len(records) <= 12
    assert all(record.failure is None for record in records)
    assert max(record.due_us for record in records) <= 100_000 + records[0].due_us + 20_000


def open_test(**fields):
    test = {"id": "arrivals", "kind": "open", "input": 8, "output": 3, "repeats": 1, "warmup": 1}
    return test | fields


@pytest.mark.parametrize(("load", "levels", "arrivals"), [
    ({"rates": [50, 100.5], "arrivals": "constant", "requests": 10}, {"q50": 10, "q100_5": 10},
     {"process": "constant"}),
    ({"rates": [100], "requests": 12, "max_in_flight": 1}, {"q100": 12},
     {"process": "poisson", "burstiness": 1, "max_in_flight": 1}),
    ({"rates": [100], "arrivals": "gamma", "burstiness": 0.5, "requests": 12, "shared_prefix": 0.5}, {"q100": 12},
     {"process": "gamma", "burstiness": 0.5}),
    ({"ramp": {"from": 20, "to": 80}, "arrivals": "constant", "duration_s": 0.2}, {"ramp": 10},
     {"process": "ramp", "from_rate": 20, "to_rate": 80}),
    ({"bursts": {"size": 4, "every_s": 0.05}, "requests": 8}, {"burst4": 8},
     {"process": "burst", "size": 4, "every_s": 0.05}),
])  # fmt: skip
def test_arrivals_are_recorded_end_to_end(tmp_path: Path, port: int, load, levels, arrivals) -> None:
    found = measured(plan_of(tmp_path, engine(port), tests=[open_test(**load)]), tmp_path / "round")
    assert list(rounds.check(found.path)) == []
    assert {level.facts.level: level.facts.requests for level in found.levels} == levels
    for level in found.levels:
        facts = level.facts
        sent = [request for request in found.requests(level) if not request.warmup]
        assert len(sent) == facts.requests
        assert (facts.kind, facts.concurrency, facts.mixed, facts.search) == ("open", None, False, None)
        assert facts.arrivals.model_dump(exclude_none=True, exclude={"rate"}) == arrivals
        assert all(request.failure is None and request.t0_us >= request.due_us for request in sent)


def test_a_trace_is_sent_with_its_own_lengths(tmp_path: Path, port: int) -> None:
    (tmp_path / "trace.csv").write_text(PLAIN + "3,7,2\n")
    test = open_test(trace=str(tmp_path / "trace.csv"), speed=10)
    plan = plan_of(tmp_path, engine(port), tests=[{k: v for k, v in test.items() if k not in ("input", "output")}])
    found = measured(plan, tmp_path / "round")
    (level,) = found.levels
    sent = sorted((r for r in found.requests(level) if not r.warmup), key=lambda r: r.index)
    assert [(r.asked_input, r.asked_output, r.usage.prompt_tokens) for r in sent] == [(8, 5, 8), (9, 6, 9), (7, 2, 7)]
    assert [r.due_us - sent[0].due_us for r in sent] == [0, 25_000, 200_000]
    assert level.facts.mixed
    assert level.facts.arrivals.speed == 10


def searching(tmp_path: Path, port: int, below_ms: float) -> Path:
    test = sweep(search={"slo": "fast", "from": 1, "to": 8}, repeats=2, requests=8)
    del test["levels"]
    plan = plan_of(tmp_path, engine(port), tests=[test])
    plan.write_text(plan.read_text() + f"slos: [{{id: fast, figure: e2el, percentile: p50, below_ms: {below_ms}}}]\n")
    return plan


@pytest.mark.parametrize(("below_ms", "levels"), [(60_000, ["c1", "c8"]), (0.001, ["c1"])])
def test_a_search_ends_at_once_where_its_bounds_decide(tmp_path: Path, port: int, below_ms, levels) -> None:
    found = measured(searching(tmp_path, port, below_ms), tmp_path / "round")
    assert sorted({level.facts.level for level in found.levels}) == levels
    assert len(found.levels) == 2 * len(levels)
    assert {level.facts.search.step for level in found.levels} == set(range(1, len(levels) + 1))
    assert list(rounds.check(found.path)) == []


def test_a_search_that_was_cut_short_goes_on_from_its_records(tmp_path: Path, port: int, monkeypatch) -> None:
    plan = searching(tmp_path, port, 1000)
    judged = []

    def at_most_five(round, plan, test, engine):
        known = {level.facts.level for level in round.levels if level.facts.repeat == 2}
        judged.append(known)
        if len(known) == 3 and not stopped:
            stopped.append(True)
            raise KeyboardInterrupt
        return lambda name: int(name[1:]) <= 5 if name in known else None

    stopped: list[bool] = []
    monkeypatch.setattr("genreport.runner.meets", at_most_five)
    with pytest.raises(KeyboardInterrupt):
        measured(plan, tmp_path / "round")
    before = {level.path for level in rounds.Round(tmp_path / "round").levels}
    found = measured(plan, tmp_path / "round", resume=True)
    steps = sorted({(level.facts.search.step, level.facts.level) for level in found.levels})
    assert [name for _, name in steps] == ["c1", "c8", "c3", "c5", "c6"]
    assert before < {level.path for level in found.levels}


@pytest.mark.parametrize(("fields", "said"), [
    ({}, "needs exactly one of rates, ramp, bursts, trace, search"),
    ({"rates": [2, 1], "requests": 5}, "must rise, each value once, not 2.0, 1.0"),
    ({"rates": [1]}, "needs `requests` or `duration_s`"),
    ({"rates": [1], "requests": 5, "duration_s": 5}, "ends by `requests` or by `duration_s`, not by both"),
    ({"rates": [1e-308], "requests": 5}, "must be at least 1e-06"),
    ({"rates": [1e6], "duration_s": 1e6}, "asks for 1e+12 requests a repeat, more than 100,000,000"),
    ({"bursts": {"size": 1, "every_s": 1e-6}, "duration_s": 1000}, "asks for 1e+09 requests a repeat"),
    ({"rates": [1], "requests": 5, "arrivals": "gamma", "burstiness": 1e-12}, "must be at least 0.001"),
    ({"rates": [1], "requests": 5, "arrivals": "gamma"}, "`burstiness` and `arrivals: gamma` belong together"),
    ({"rates": [1.0000001, 1.0000002], "requests": 5}, "must rise, each value once, not 1.0, 1.0"),
    ({"ramp": {"from": 1, "to": 2}, "requests": 5}, "a ramp needs `duration_s`"),
    ({"trace": "nowhere.csv"}, "its lengths are those of the trace: no `input`, `output` or `shared_prefix`"),
    ({"search": {"slo": "none", "from": 1, "to": 2}, "requests": 5}, "unknown SLO 'none'; known are none"),
    ({"search": {"slo": "none", "from": 2, "to": 2}, "requests": 5}, "must be above `from`, not 2"),
])  # fmt: skip
def test_a_mistake_in_a_load_is_told_in_plain_words(tmp_path: Path, fields, said) -> None:
    with pytest.raises(PlanError) as error:
        read_plan(plan_of(tmp_path, engine(1), tests=[open_test(**fields)]))
    assert said in str(error.value)


def test_plan_check_tells_what_open_loops_will_do_and_what_depends(tmp_path: Path) -> None:
    trace = {k: v for k, v in open_test(id="real", trace="${TRACES}/a.csv").items() if k not in ("input", "output")}
    tests = [
        open_test(id="steady", rates=[2], duration_s=60),
        {k: v for k, v in sweep(id="timed", duration_s=30).items() if k != "requests"},
        trace,
    ]
    lines = "\n".join(told(read_plan(plan_of(tmp_path, engine(1), tests=tests), on_this_machine=False)))
    assert "steady/q2: 1 × 60 s (about 120 requests) + 1 warm-up, 2 requests/s (poisson), 8 + 3 tokens, 60 s" in lines
    assert "timed/c4: 2 × 30 s (as many requests as it takes)" in lines
    assert "and more, which depends on the engine or on a file that is not here: timed, real" in lines
