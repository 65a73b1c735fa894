"""Whole rounds whose loads several processes hold."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import psutil
import pytest

from genreport import figures, rounds, runner
from genreport.audit import audit
from genreport.ceiling import client_ceiling
from genreport.crew import Means
from genreport.progress import JsonLines, Silent
from genreport.publish import publish
from genreport.records import Request
from genreport.rounds import Round
from test_nothing_lost import acknowledged, on_disk, recorder, sealed, wait_until
from test_runner import engine, listens, measured, plan_of, quick, sweep  # noqa: F401 (quick is a fixture, used by name alone)
from test_shapes import open_test

pytestmark = pytest.mark.slow


def with_workers(plan: Path, count: int = 2) -> Path:
    plan.write_text(plan.read_text() + f"workers: {count}\n")
    return plan


def workers_of(recorder: int) -> list[psutil.Process]:
    children = psutil.Process(recorder).children()
    return [child for child in children if "genreport.worker" in child.cmdline()]


def sent(found: Round, name: str) -> list[tuple]:
    (level,) = (each for each in found.levels if each.facts.level == name and each.facts.repeat == 1)
    return sorted((r.warmup, r.index, r.seed, r.kinds, r.text, r.usage) for r in found.requests(level))


def test_two_workers_record_the_round_that_one_process_does(tmp_path: Path, port: int, capsys) -> None:
    plan = plan_of(tmp_path, engine(port))
    alone = measured(plan, tmp_path / "alone")
    found = measured(with_workers(plan), tmp_path / "round", progress=JsonLines())
    assert list(rounds.check(found.path)) == []
    assert {level.facts.level: level.facts.client.workers for level in found.levels} == {"c1": None, "c4": 2}
    for level in found.levels:
        assert level.facts.remarks == []
        assert level.facts.client.lag_us or level.facts.client.wall_us < 100_000
        assert level.facts.before_us < min(r.due_us for r in found.requests(level) if not r.warmup)
        assert level.facts.after_us > max(r.end_us for r in found.requests(level))
        assert found.text(level.file(rounds.ENGINE_LOG)).count("served") == 6
    for name in ("c1", "c4"):
        assert sent(found, name) == sent(alone, name)
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [(each["completed"], each["failed"]) for each in told if each["event"] == "level"] == [(6, 0)] * 4


@pytest.mark.parametrize(("ceiling", "warmup", "workers"), [
    (20_000, 2, None),  # whatever the warm-up may say, one process is enough
    (2_000, 2, 1),  # two were hired, for all that was known, and the warm-up says that one is enough
    (100, 2, 3),  # no more than there are cores for
    (2_000, 0, 2),  # no warm-up, no word
])  # fmt: skip
def test_without_a_word_of_the_plan_the_warm_up_decides_how_many_hold_a_load(
    tmp_path: Path,
    port: int,
    monkeypatch,
    ceiling: float,
    warmup: int,
    workers: int | None,
) -> None:
    monkeypatch.setattr(runner.Recording, "_means", lambda _: Means(cores=4, free=4, ceiling=ceiling))
    tests = [sweep(levels=[4], repeats=1, warmup=warmup)]
    found = measured(plan_of(tmp_path, engine(port, "--gap-s", "0.03"), tests=tests), tmp_path / "round")
    (level,) = found.levels
    requests = found.requests(level)
    assert level.facts.client.workers == workers
    assert len(requests) == 6 + warmup
    assert all(request.failure is None for request in requests)


def test_an_open_loop_by_two_workers_is_recorded_end_to_end(tmp_path: Path, port: int) -> None:
    test = open_test(rates=[100], arrivals="constant", duration_s=0.2, max_in_flight=5)
    found = measured(with_workers(plan_of(tmp_path, engine(port), tests=[test])), tmp_path / "round")
    (level,) = found.levels
    measured_ones = sorted((r for r in found.requests(level) if not r.warmup), key=lambda r: r.index)
    first = measured_ones[0].due_us
    assert [r.due_us - first for r in measured_ones] == [index * 10_000 for index in range(20)]
    assert (level.facts.client.workers, level.facts.requests) == (2, 20)
    assert all(request.failure is None for request in measured_ones)


def test_a_page_says_how_many_held_a_load_and_holds_them_against_as_many_ceilings(
    tmp_path: Path,
    port: int,
    monkeypatch,
) -> None:
    monkeypatch.setattr("genreport.runner.client_ceiling", client_ceiling)
    monkeypatch.setattr("genreport.ceiling.SECONDS", 0.3)
    tests = [sweep(repeats=1), open_test(rates=[100], requests=20)]
    found = measured(with_workers(plan_of(tmp_path, engine(port), tests=tests)), tmp_path / "round")
    ledger = figures.compute(found).ledger
    ceiling = ledger["machine.client_ceiling"].value
    for level, workers, formula in (
        ("c1", None, "throughput / ceiling"),
        ("c4", 2, "throughput / (workers * ceiling)"),
    ):
        load, throughput = (ledger[f"concurrency.fake.{level}.{name}"] for name in ("client_load", "output_throughput"))
        assert ledger[f"concurrency.fake.{level}.client_workers"].value == workers
        assert load.formula == formula
        assert load.value == pytest.approx(throughput.value / ((workers or 1) * ceiling))
    site = publish([found.path], tmp_path / "site").path
    for page in ("concurrency", "arrivals"):
        assert "<th>processes</th>" in (site / f"rounds/round/{page}/index.html").read_text("utf-8")
    report = audit(site)
    assert report.failures == []


def test_a_key_goes_to_the_workers_and_into_no_command_line(tmp_path: Path, port: int, monkeypatch) -> None:
    monkeypatch.setenv("FAKE_KEY", "sesame-open-wide")
    seen: list[str] = []

    class Looks(Silent):
        def request(self, request: Request) -> None:
            seen.extend(word for child in workers_of(psutil.Process().pid) for word in child.cmdline())

    locked = engine(port, "--key", "sesame-open-wide", api_key_env="FAKE_KEY")
    plan = with_workers(plan_of(tmp_path, locked, tests=[sweep(levels=[4], repeats=1)]))
    found = measured(plan, tmp_path / "round", progress=Looks())
    assert all(request.failure is None for request in found.requests(found.levels[0]))
    assert seen
    assert "sesame-open-wide" not in " ".join(seen)


def test_a_worker_that_is_killed_in_a_level_is_told_in_it(tmp_path: Path, port: int) -> None:
    class Kills(Silent):
        def request(self, request: Request) -> None:
            finished.append(request.index)
            if len(finished) == 3:
                workers_of(psutil.Process().pid)[0].kill()

    finished: list[int] = []
    tests = [sweep(levels=[4], repeats=1, requests=24)]
    plan = with_workers(plan_of(tmp_path, engine(port, "--gap-s", "0.01"), tests=tests))
    found = measured(plan, tmp_path / "round", progress=Kills())
    assert list(rounds.check(found.path)) == []
    (level,) = found.levels
    requests = [request for request in found.requests(level) if not request.warmup]
    assert sorted(request.index for request in requests) == list(range(24))
    failed = [request for request in requests if request.failure]
    assert failed
    assert {request.failure.kind for request in failed} == {"stream"}
    (remark,) = level.facts.remarks
    assert f"died (exit code -9): {len(failed)} of its 12 requests failed" in remark


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_recorder_that_is_ended_leaves_no_worker_and_can_be_gone_on_with(
    tmp_path: Path,
    port: int,
    number: int,
) -> None:
    out, said = tmp_path / "round", tmp_path / "said"
    tests = [sweep(levels=[4], requests=30)]
    plan = with_workers(plan_of(tmp_path, engine(port, "--gap-s", "0.01"), tests=tests))
    child = recorder(plan, out, said)
    wait_until(lambda: sealed(out) and len(workers_of(child.pid)) == 2)
    workers = workers_of(child.pid)
    child.send_signal(number)
    assert child.wait(20) == (-9 if number == signal.SIGKILL else 130), said.read_text()
    psutil.wait_procs(workers, 5)
    assert not any(worker.is_running() for worker in workers)
    assert acknowledged(said) <= on_disk(out)
    assert "Traceback" not in said.read_text()
    kept = sealed(out)
    wait_until(lambda: not listens(port))
    assert recorder(plan, out, said, "--resume").wait(60) == 0, said.read_text()
    assert kept.items() <= sealed(out).items()
    assert list(rounds.check(out)) == []
