"""A load held by several processes: how many, who does what, on one clock, and what becomes of a worker that dies."""

from __future__ import annotations

import asyncio
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import numpy as np
import pytest

from genreport import runner
from genreport.client import Call, Client, Clock
from genreport.crew import Alone, Crew, Means, hands, pace_of, pipes, shares, together, workers_for
from genreport.errors import EngineError
from genreport.plan import LevelPlan, read_plan
from genreport.records import Arrivals, ClientFacts, HostClock, Request, Shape
from genreport.worker import FACTS, READY, RECORD, Target
from test_load import calls
from test_runner import engine, plan_of

SHAPE = Shape(input=8, output=100)
ROOMY = Means(cores=8, free=8, ceiling=50_000)


def closed(concurrency: int, requests: int | None = 10_000) -> LevelPlan:
    return LevelPlan(f"c{concurrency}", SHAPE, concurrency, requests, None if requests else 30.0)


def arriving(requests: int = 10_000, **fields) -> LevelPlan:
    return LevelPlan("q", SHAPE, None, requests, arrivals=Arrivals(**{"process": "poisson"} | fields))


@pytest.mark.parametrize(("level", "pace", "means", "count"), [
    (closed(4000), 40, Means(), 1),  # one core
    (closed(4000), 40, Means(cores=2, free=2, ceiling=50_000), 1),  # the other core is the parent's
    (closed(4000), 40, Means(cores=8, free=8), 1),  # nobody measured what one can read
    (closed(16), 40, ROOMY, 1),  # a small load
    (closed(1000), 25, ROOMY, 1),  # just half of what one can read
    (closed(1000), 26, ROOMY, 2),
    (closed(4000), 40, ROOMY, 7),
    (closed(3), 1e6, ROOMY, 3),  # no more than requests in flight
    (closed(4000, None), 40, ROOMY, 1),  # by time: which calls it takes is not known beforehand
    (closed(4000, None), 40, Means(wanted=4, cores=8), 1),
    (closed(64), 1, Means(wanted=2, cores=2), 2),  # the plan's word, engine or not
    (closed(64), 1, Means(wanted=9, cores=2), 2),  # never above the cores
    (closed(2), 1, Means(wanted=4, cores=8), 2),
    (arriving(rate=100), 25, ROOMY, 1),
    (arriving(rate=600), 500, ROOMY, 3),  # 60,000 events a second
    (arriving(rate=600, max_in_flight=100), 25, ROOMY, 1),  # these bring 2,500 at most
    (arriving(process="ramp", rate=300, from_rate=10, to_rate=590), 500, ROOMY, 3),
    (arriving(requests=2000, process="burst", rate=1, size=2000, every_s=2000), 25, ROOMY, 2),  # all at once
    (arriving(requests=16, process="trace"), 25, ROOMY, 1),
])  # fmt: skip
def test_more_than_one_process_holds_a_load_only_where_it_is_large_and_cores_are_free(level, pace, means, count):
    assert workers_for(level, pace, means) == count


@pytest.mark.parametrize(("engines", "free"), [
    ([{"cpus": "0"}], 3),
    ([{"cpus": "0,1"}, {"cpus": "1-2"}], 1),
    ([{"cpus": "0"}, {}], 1),  # the second may use any
    ([{"url": "http://gpu-box:8000"}], 4),
    ([{"url": "http://localhost:8000"}], 1),
])  # fmt: skip
def test_cores_are_free_where_no_engine_of_this_machine_may_use_them(tmp_path: Path, engines, free) -> None:
    made = []
    for number, given in enumerate(engines):
        plain = engine(8000 + number, id=f"e{number}", **{k: v for k, v in given.items() if k == "url"})
        plain["launch"] |= {k: v for k, v in given.items() if k == "cpus"}
        made.append({k: v for k, v in plain.items() if k != "launch" or "url" not in given})
    plan = read_plan(plan_of(tmp_path, *made), on_this_machine=False)
    assert runner._free(plan, {0, 1, 2, 3}) == free


@pytest.mark.parametrize("count", [1, 2, 3, 8])
def test_shares_hold_every_call_once_and_the_whole_of_the_places(count):
    made = calls(20)
    parts = shares(made, count, places=5)
    assert sorted(call.index for part in parts for call in part.calls) == list(range(20))
    assert sum(part.places for part in parts) == 5
    assert min(part.places for part in parts) >= 1
    assert all(call.index % len(parts) == number for number, part in enumerate(parts) for call in part.calls)
    limited = shares(made, count, max_in_flight=7)
    assert (sum(part.max_in_flight for part in limited), limited[0].places) == (7, None)


def facts(lag_us: list[int], cpu_us: int, slept_us: int | None = 0) -> ClientFacts:
    return ClientFacts(lag_period_us=50_000, lag_us=lag_us, cpu_us=cpu_us, wall_us=cpu_us * 2, slept_us=slept_us)


def test_facts_of_a_crew_are_the_lag_of_the_worker_with_the_latest_p99_and_all_processor_time():
    parts = [facts([10] * 99 + [800], 100), facts([70] * 100, 200, 3), facts([], 1, None)]
    seen = together(facts([9000], 5), parts, 3)
    assert (seen.lag_us, seen.cpu_us, seen.wall_us, seen.slept_us, seen.workers) == ([70] * 100, 306, 400, 3, 3)


class Told:
    """A composed way to a worker that holds each share at once; `dead` has ended before it is asked."""

    def __init__(self, offset_us: int, dead: bool = False) -> None:
        self.host = HostClock(offset_us=offset_us, error_us=1)
        self._answers: asyncio.Queue[bytes] = asyncio.Queue()
        self._dead = dead

    async def open(self, target: Target) -> None: ...

    def send(self, data: bytes) -> None:
        self._answers.put_nowait(FACTS + facts([self.host.offset_us], 1).model_dump_json().encode())

    async def message(self) -> bytes:
        if self._dead:
            raise EOFError
        return await self._answers.get()

    def stop(self) -> None: ...

    async def close(self) -> None: ...

    async def end(self) -> str:
        return "exit code 1"


@pytest.mark.anyio
async def test_the_clocks_of_a_load_are_those_of_the_workers_that_held_it():
    target = Target(url="", origin_us=0, headers={}, fresh_connections=False, ca=None, stall_s=10, request_s=60)
    async with Crew([Told(1, dead=True), Told(2), Told(3)], target, Clock(0)) as hired:
        await asyncio.sleep(0)  # its end is read
        hired.keep(2)
        await hired.closed(asked(4), 4, lambda request: None)
        seen = hired.facts(facts([], 1))
    assert (seen.workers, [clock.offset_us for clock in seen.hosts]) == (2, [2, 3])


class Composed:
    """A worker that says each of these after so many seconds of silence, and then nothing until it is ended."""

    host = None

    def __init__(self, *said: tuple[float, bytes]) -> None:
        self._said, self._closed = [*said], asyncio.Event()

    async def open(self, target: Target) -> None: ...

    def send(self, data: bytes) -> None: ...

    async def message(self) -> bytes:
        if self._said:
            wait_s, said = self._said.pop(0)
            await asyncio.sleep(wait_s)
            return said
        await self._closed.wait()
        raise EOFError

    async def close(self) -> None:
        self._closed.set()


def served(index: int) -> bytes:
    request = Request(index=index, seed=7, asked_input=8, asked_output=1, due_us=0, t0_us=1, end_us=2)
    return RECORD + request.model_dump_json().encode()


@asynccontextmanager
async def impatient(monkeypatch, *said: tuple[float, bytes]) -> AsyncIterator[Crew]:
    """A crew of one composed worker, who may be silent for 0.1 s about what is due."""
    monkeypatch.setattr(hands, "SILENCE_S", 0.05)
    target = Target(url="", origin_us=0, headers={}, fresh_connections=False, ca=None, stall_s=0.02, request_s=0.03)
    async with Crew([Composed(*said)], target, Clock(0)) as hired:
        yield hired


@pytest.mark.anyio
@pytest.mark.parametrize(("said", "lost"), [
    ([], [0, 1, 2]),
    ([(0, READY)], [0, 1, 2]),
    ([(0.01, READY), (0.22, served(0))], [1, 2]),
])  # fmt: skip
async def test_a_worker_that_says_nothing_for_too_long_is_ended_and_counts_as_dead(said, lost, monkeypatch):
    records: list[Request] = []
    async with impatient(monkeypatch, *said) as hired:
        with pytest.raises(EngineError, match="all workers of the load died"):
            await hired.closed(asked(3), 1, records.append)
    assert [record.index for record in records if record.failure] == lost
    assert hired.remarks == [
        f"worker 1 of 1 died (silent for 0.1 s, so it was ended): {len(lost)} of its 3 requests failed"
    ]


@pytest.mark.anyio
async def test_a_worker_of_which_nothing_is_due_may_be_silent(monkeypatch):
    said = [(0, READY), (0.7, served(0)), (0, FACTS + facts([], 1).model_dump_json().encode())]
    records: list[Request] = []
    async with impatient(monkeypatch, *said) as hired:
        await hired.open([asked(1)[0].due(600_000)], records.append, None, None)
    assert ([record.failure for record in records], hired.remarks) == ([None], [])


# ------------------------------------------------------------------------------------ against a server with its own clock


@contextmanager
def null_server(ttft: float, gap: float) -> Iterator[str]:
    command = [sys.executable, "-m", "genreport.nullserver", "--ttft", str(ttft), "--gap", str(gap)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        yield server.stdout.readline().strip()
        server.kill()


def asked(count: int, tokens: int = 10) -> list[Call]:
    """The stamps are CLOCK_MONOTONIC and the origin is 0: what the server wrote compares with what was recorded."""
    return [
        Call(index=i, seed=7, body={"prompt": [i] * 8, "max_tokens": tokens, "stream": True}, asked_input=8,
             asked_output=tokens)
        for i in range(count)
    ]  # fmt: skip


@asynccontextmanager
async def crew(url: str, count: int) -> AsyncIterator[Crew]:
    target = Target(url=url, origin_us=0, headers={}, fresh_connections=False, ca=None, stall_s=10, request_s=60)
    async with Crew(pipes(count), target, Clock(0)) as hired:
        yield hired


def lags_us(request: Request) -> list[float]:
    """Event stamped by the client − sent by the server."""
    stamps = itertools.accumulate(request.gaps_us, initial=request.t0_us)
    seen = [us for us, kind in zip(itertools.islice(stamps, 1, None), request.kinds, strict=True) if kind == "t"]
    return [us - int(wrote) / 1000 for us, wrote in zip(seen, request.text.split(), strict=True)]


def what(request: Request) -> tuple:
    return request.index, request.seed, request.asked_input, request.asked_output, request.kinds, request.usage


@pytest.mark.anyio
@pytest.mark.slow
async def test_records_of_two_workers_are_those_of_one_on_one_clock():
    records, alone, clock = [], [], Clock(0)
    with null_server(0.05, 0.01) as url:
        async with crew(url, 2) as hired:
            await hired.closed(asked(3), 8, lambda request: None)
            await hired.closed(asked(41), 9, records.append)
            seen = hired.facts(facts([], 1))
        async with Alone(Client(url), clock) as one:
            await one.closed(asked(41), 9, alone.append)
    assert sorted(map(what, records)) == sorted(map(what, alone))
    lags = [lag for request in records for lag in lags_us(request)]
    assert len(lags) == 41 * 10
    assert min(lags) >= -1  # stamps are cut to whole microseconds
    assert np.percentile(lags, 90) < 20_000
    first = min(request.due_us for request in records)
    assert [request.due_us for request in records].count(first) == 9
    assert all(request.t0_us >= request.due_us for request in records)
    moments = sorted([(r.t0_us, 1) for r in records] + [(r.end_us, -1) for r in records])
    assert max(np.cumsum([step for _, step in moments])) <= 9
    assert (seen.workers, hired.remarks) == (2, [])
    assert seen.lag_us


@pytest.mark.anyio
@pytest.mark.slow
async def test_connections_of_the_warm_up_are_those_of_the_load():
    from fault_server import serving
    from test_shapes import slow

    async with serving(slow) as server, crew(server.url, 2) as hired:
        await hired.closed(asked(4), 4, lambda request: None)
        await hired.closed(asked(8), 4, lambda request: None)
        assert server.connections == 4


@pytest.mark.anyio
@pytest.mark.slow
async def test_an_open_loop_of_two_workers_sends_each_call_when_it_is_due():
    records, due_ms = [], [0, 0, 20, 25, 50, 120, 121, 122]
    timed = [call.due(ms * 1000) for call, ms in zip(asked(8, 3), due_ms, strict=True)]
    with null_server(0.02, 0.005) as url:
        async with crew(url, 2) as hired:
            await hired.open(timed, records.append, None, None)
    records.sort(key=lambda record: record.index)
    assert [record.due_us - records[0].due_us for record in records] == [ms * 1000 for ms in due_ms]
    assert all(record.failure is None and record.t0_us >= record.due_us for record in records)
    assert np.median([record.t0_us - record.due_us for record in records]) < 20_000


@pytest.mark.anyio
@pytest.mark.slow
async def test_requests_in_flight_of_all_workers_together_stay_within_the_limit():
    records = []
    with null_server(0.02, 0.001) as url:
        async with crew(url, 2) as hired:
            await hired.open([call.due(0) for call in asked(30, 3)], records.append, 3, None)
    moments = sorted([(r.t0_us, 1) for r in records] + [(r.end_us, -1) for r in records])
    assert max(np.cumsum([step for _, step in moments])) <= 3
    assert len(records) == 30


@pytest.mark.anyio
@pytest.mark.slow
async def test_a_load_by_time_gives_up_when_nobody_is_there_any_more():
    records = []
    with null_server(0, 0) as url:
        pass
    async with crew(url, 2) as hired:
        await hired.open([call.due(call.index * 5000) for call in asked(400)], records.append, None, 5)
    assert 10 <= len(records) < 200  # each of the two has five, and those of the moments until they are read
    assert {record.failure.kind for record in records} == {"connect"}


@pytest.mark.anyio
@pytest.mark.slow
@pytest.mark.parametrize("timed", [False, True])
async def test_a_worker_that_is_killed_costs_its_unfinished_requests_and_a_remark(timed):
    records, made = [], [call.due(call.index * 20_000) for call in asked(40)]
    with null_server(0.02, 0.005) as url:
        async with crew(url, 2) as hired:
            victim = hired._hands[1]

            def done(request: Request) -> None:
                records.append(request)
                if len(records) == 10:
                    os.kill(victim.link.process.pid, signal.SIGKILL)

            await (hired.open(made, done, None, None) if timed else hired.closed(made, 4, done))
            after = []
            await hired.closed(asked(6), 4, after.append)
    assert sorted(record.index for record in records) == list(range(40))
    failed = [record for record in records if record.failure]
    assert failed
    assert all(record.index % 2 and record.failure.kind == "stream" for record in failed)
    assert all("the worker died (exit code -9)" in record.failure.message for record in failed)
    assert all(record.end_us >= record.due_us and record.t0_us is None for record in failed)
    start_us = min(record.due_us for record in records)
    if timed:
        assert all(record.due_us == start_us + record.index * 20_000 for record in failed)
    else:
        assert "due_us is when that was seen" in failed[0].failure.message
    assert [remark.split(":")[0] for remark in hired.remarks] == ["worker 2 of 2 died (exit code -9)"]
    assert f"{len(failed)} of its 20 requests failed" in hired.remarks[0]
    assert len(after) == 6  # those that live go on


@pytest.mark.anyio
@pytest.mark.slow
async def test_a_load_without_a_living_worker_ends_in_one_line():
    records = []
    with null_server(0.02, 0.005) as url:
        async with crew(url, 2) as hired:

            def done(request: Request) -> None:
                if not records:
                    for hand in hired._hands:
                        hand.link.process.kill()
                records.append(request)

            with pytest.raises(EngineError, match="all workers of the load died"):
                await hired.closed(asked(20), 4, done)
            with pytest.raises(EngineError, match="all workers of the load died"):
                await hired.closed(asked(20), 4, done)
    assert len(records) == 20


@pytest.mark.anyio
@pytest.mark.slow
async def test_a_cancelled_crew_hands_over_what_had_finished_and_leaves_nobody_behind():
    records, begun = [], asyncio.Event()

    def done(request: Request) -> None:
        records.append(request)
        begun.set()

    with null_server(0.02, 0.005) as url:
        async with crew(url, 2) as hired:
            running = asyncio.create_task(hired.closed(asked(1000), 8, done))
            await begun.wait()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            assert len({request.index for request in records}) == len(records)
            assert all(request.failure is None for request in records)
        assert all(hand.link.process.returncode == 0 for hand in hired._hands)


@pytest.mark.anyio
@pytest.mark.slow
async def test_an_error_of_the_receiver_stops_a_crew():
    def full(request: Request) -> None:
        raise OSError("no space left")

    with null_server(0, 0.001) as url:
        async with crew(url, 2) as hired:
            with pytest.raises(OSError, match="no space left"):
                await hired.closed(asked(200), 4, full)


def test_the_pace_of_a_request_is_that_of_its_events():
    plain = {"index": 0, "seed": 1, "asked_input": 1, "asked_output": 1, "due_us": 0}
    assert pace_of(Request(**plain, t0_us=0, gaps_us=[100_000] * 4, kinds="tttt", end_us=500_000)) == 8
    assert pace_of(Request(**plain, end_us=5)) is None
