"""A load held by the workers of a dask cluster: two processes of this machine stand for two hosts."""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from genreport import figures, rounds, wire
from genreport.audit import audit
from genreport.ceiling import client_ceiling
from genreport.client import Clock
from genreport.crew import Crew, hosts
from genreport.errors import OptionError
from genreport.publish import publish
from genreport.records import Request
from genreport.worker import Target
from test_crew import asked, facts, lags_us, null_server, what
from test_how_to import blocks
from test_nothing_lost import wait_until
from test_runner import engine, measured, plan_of, quick, sweep  # noqa: F401 (quick is a fixture, used by name alone)
from test_shapes import open_test

pytestmark = pytest.mark.slow


@contextmanager
def cluster() -> Iterator[str]:
    """A cluster in a process of its own, as it is in earnest."""
    pytest.importorskip("distributed", reason="the extra `hosts` is not installed")
    command = [sys.executable, str(Path(__file__).with_name("two_hosts.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as started:
        yield started.stdout.readline().strip()
        started.stdin.close()


@pytest.fixture(scope="module")
def scheduler() -> Iterator[str]:
    with cluster() as address:
        yield address


def target(url: str) -> Target:
    return Target(url=url, origin_us=0, headers={}, fresh_connections=False, ca=None, stall_s=10, request_s=60)


@pytest.mark.anyio
async def test_two_hosts_record_what_one_process_does_and_their_clocks_are_ours_within_the_error(scheduler):
    records = []
    with null_server(0.05, 0.01) as url:
        async with hosts.reached(scheduler) as found, Crew(found.links(2), target(url), Clock(0)) as crew:
            await crew.closed(asked(3), 3, lambda request: None)
            await crew.closed(asked(21), 5, records.append)
            seen = crew.facts(facts([], 1))
    assert sorted(what(request)[0] for request in records) == list(range(21))
    assert all(request.failure is None and len(lags_us(request)) == 10 for request in records)
    first = min(request.due_us for request in records)
    assert [request.due_us for request in records].count(first) == 5
    assert (seen.workers, len(seen.hosts)) == (2, 2)
    assert all(abs(clock.offset_us) <= clock.error_us + 1 for clock in seen.hosts)
    assert max(clock.error_us for clock in seen.hosts) < 50_000
    worst = max(clock.error_us for clock in seen.hosts)
    assert min(lag for request in records for lag in lags_us(request)) >= -worst - 1


def workers() -> list[psutil.Process]:
    """Processes that hold loads, anywhere on this machine."""
    return [each for each in psutil.process_iter() if "genreport.worker" in _words(each)]


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.mark.anyio
async def test_a_cancelled_load_hands_over_what_had_finished_and_leaves_no_process_on_its_hosts(scheduler):
    records, begun = [], asyncio.Event()

    def done(request: Request) -> None:
        records.append(request)
        begun.set()

    before = {each.pid for each in workers()}
    with null_server(0.02, 0.005) as url:
        async with hosts.reached(scheduler) as found, Crew(found.links(2), target(url), Clock(0)) as crew:
            running = asyncio.create_task(crew.closed(asked(1000), 8, done))
            await begun.wait()
            assert len({each.pid for each in workers()} - before) == 2
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
    assert len({request.index for request in records}) == len(records)
    assert {each.pid for each in workers()} <= before


@pytest.mark.anyio
async def test_a_process_that_dies_on_its_host_costs_its_unfinished_requests_and_a_remark(scheduler):
    records, before = [], {each.pid for each in workers()}

    def done(request: Request) -> None:
        records.append(request)
        if len(records) == 10:
            os.kill(next(each.pid for each in workers() if each.pid not in before), signal.SIGKILL)

    with null_server(0.02, 0.005) as url:
        async with hosts.reached(scheduler) as found, Crew(found.links(2), target(url), Clock(0)) as crew:
            await crew.closed(asked(200), 4, done)
    assert sorted(record.index for record in records) == list(range(200))
    failed = [record for record in records if record.failure]
    assert failed
    assert "the worker died (exit code -9)" in failed[0].failure.message
    assert f"{len(failed)} of its 100 requests failed" in crew.remarks[0]


@pytest.mark.anyio
async def test_a_host_that_is_gone_is_noticed_and_leaves_no_process():
    records, before = [], {each.pid for each in workers()}
    with cluster() as scheduler, null_server(0.02, 0.005) as url:
        async with hosts.reached(scheduler) as found, Crew(found.links(2), target(url), Clock(0)) as crew:
            pid = (await found.dask.run(os.getpid))[found.addresses[0]]

            def done(request: Request) -> None:
                records.append(request)
                if len(records) == 10:
                    os.kill(pid, signal.SIGKILL)

            await asyncio.wait_for(crew.closed(asked(400), 4, done), 30)
            assert sum(each.pid not in before for each in workers()) == 1
    assert sorted(record.index for record in records) == list(range(400))
    (remark,) = crew.remarks
    assert "worker 1 of 2 died (its host is gone)" in remark


def test_a_round_by_two_hosts_is_recorded_end_to_end(
    tmp_path: Path,
    port: int,
    scheduler: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("genreport.runner.client_ceiling", client_ceiling)
    monkeypatch.setattr("genreport.ceiling.SECONDS", 0.3)
    tests = [sweep(repeats=1), open_test(rates=[100], arrivals="constant", duration_s=0.2)]
    found = measured(plan_of(tmp_path, engine(port), tests=tests), tmp_path / "round", scheduler=scheduler)
    assert list(rounds.check(found.path)) == []
    assert {level.facts.level: level.facts.client.workers for level in found.levels} == {"c1": 1, "c4": 2, "q100": 2}
    for level in found.levels:
        clocks = level.facts.client.hosts
        assert len(clocks) == level.facts.client.workers
        assert all(abs(clock.offset_us) <= clock.error_us + 1 for clock in clocks)
        assert all(request.failure is None for request in found.requests(level))
    ledger = figures.compute(found).ledger
    assert ledger["concurrency.fake.c4.client_workers"].value == 2
    assert ledger["concurrency.fake.c4.client_load"].reason.startswith("workers on other hosts held the load")
    assert audit(publish([found.path], tmp_path / "site").path).failures == []
    assert scheduler.removeprefix("tcp://") not in "".join(
        file.read_text("utf-8", "ignore") for file in found.path.rglob("*.json")
    )


def test_a_cluster_that_cannot_hold_the_loads_is_told_before_anything_is_written(
    tmp_path: Path,
    port: int,
    scheduler: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan, out = plan_of(tmp_path, engine(port)), tmp_path / "round"
    by_time = tmp_path / "by-time"
    by_time.mkdir()
    timed = plan_of(by_time, engine(port), tests=[{k: v for k, v in sweep(duration_s=1).items() if k != "requests"}])
    with pytest.raises(OptionError, match="a closed loop by time cannot be shared out; give it `requests`"):
        measured(timed, out, scheduler=scheduler)
    with monkeypatch.context() as patch:
        patch.setattr(hosts, "__version__", "0.0.0")
        with pytest.raises(
            OptionError, match=r"a worker has another genreport: .*; install genreport 0.0.0 on each host"
        ):
            measured(plan, out, scheduler=scheduler)
    monkeypatch.setattr(hosts, "REACH_S", 0.5)
    with pytest.raises(OptionError, match="no scheduler answers"):
        measured(plan, out, scheduler=f"tcp://127.0.0.1:{port}")
    for foreign in ("foo", "http://localhost:8786", "tcp://localhost"):
        with pytest.raises(
            OptionError, match="is no address of a scheduler; write for example --workers tcp://host:8786"
        ):
            measured(plan, out, scheduler=foreign)
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(OptionError, match=r"dask.distributed is not installed; pip install 'genreport\[hosts\]'"):
        measured(plan, out, scheduler=scheduler)
    assert not out.exists()


def test_the_commands_of_the_how_to_page_work(tmp_path: Path, port: int) -> None:
    """Those for one machine, on a port of its own; what installs is left out."""
    pytest.importorskip("distributed", reason="the extra `hosts` is not installed")
    page = Path(__file__).parents[1] / "docs/how-to/several-machines.md"
    lines = [line for line in blocks(page, "bash")[0].splitlines() if not line.startswith("pip ")]
    assert [line.split()[:2] for line in lines] == [
        ["dask", "scheduler"],
        *[["dask", "worker"]] * 2,
        ["genreport", "run"],
    ]
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        free = probe.getsockname()[1]
    plan_of(tmp_path, engine(port), tests=[sweep(levels=[4], repeats=1)])
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    words = [shlex.split(line.removesuffix("&").replace("8786", str(free))) for line in lines]
    options = {"cwd": tmp_path, "env": environment, "stderr": subprocess.DEVNULL}
    background = [subprocess.Popen(each, **options) for each in words[:3]]
    try:
        wait_until(lambda: _workers_at(f"tcp://127.0.0.1:{free}") == 2, 60)
        ran = subprocess.run(words[3], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    finally:
        for each in reversed(background):
            each.terminate()
        for each in background:
            each.wait(20)
    assert ran.returncode == 0, ran.stderr
    (level,) = rounds.Round(tmp_path / "runs/two-workers").levels
    assert (level.facts.client.workers, len(level.facts.client.hosts)) == (2, 2)


def _workers_at(scheduler: str) -> int:
    async def count() -> int:
        async with hosts.reached(scheduler) as found:
            return len(found.addresses)

    try:
        return wire.run(count())
    except OptionError:
        return 0
