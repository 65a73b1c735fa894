"""Killed, ended, out of space, asleep, flooded: what was finished is on disk, and the round can be gone on with."""

from __future__ import annotations

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
import yaml

from benchmarks.soak import null_server
from genreport import figures, load, rounds
from genreport.engines.process import Process
from genreport.errors import RoundError
from genreport.rounds import LevelWriter, Round, RoundWriter
from genreport.session.level import LOG_BYTES
from test_runner import engine, listens, measured, plan_of, quick, sweep  # noqa: F401 (quick is a fixture, used by name alone)

# the command line as it is, without ten seconds for the client's ceiling; a line to stdout when a record is written, and
# one with the most memory that it had
RECORDER = """
import atexit, os, sys
from genreport import runner
from genreport.cli import main
from genreport.rounds.writing import LevelWriter
runner.client_ceiling = lambda cores: None
write = LevelWriter.request
def told(self, request):
    write(self, request)
    os.write(1, f"wrote {self.path} {request.warmup:d} {request.index}\\n".encode())
LevelWriter.request = told
atexit.register(lambda: os.write(1, b"peak " + open("/proc/self/status", "rb").read().split(b"VmHWM:")[1].split()[0]))
main(sys.argv[1:])
"""
KILLS = 5


def recorder(plan: Path, out: Path, said: Path, *options: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", RECORDER, "run", str(plan), "--out", str(out), *options]
    with said.open("wb") as file:
        return subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT)


def wait_until(true, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.01)


def acknowledged(said: Path) -> set[tuple[str, bool, int]]:
    lines = [line.split() for line in said.read_text().splitlines() if line.startswith("wrote ")]
    return {(path, warmup == "1", int(index)) for _, path, warmup, index in lines}


def on_disk(out: Path) -> set[tuple[str, bool, int]]:
    """Whole lines only; the last may be cut."""
    found = set()
    for file in out.glob(f"levels/*/*/*/*/{rounds.REQUESTS}"):
        for line in file.read_bytes().split(b"\n")[:-1]:
            record = json.loads(line)
            found.add((str(file.parent), record["warmup"], record["index"]))
    return found


def sealed(out: Path) -> dict[str, bytes]:
    """Every file of every sealed repeat."""
    return {
        str(file): file.read_bytes()
        for facts in out.glob(f"levels/*/*/*/*/{rounds.FACTS}")
        for file in facts.parent.iterdir()
    }


def slow_plan(folder: Path, port: int, **fields) -> Path:
    return plan_of(folder, engine(port, "--gap-s", "0.01"), tests=[sweep(requests=12, **fields)])


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_killed_at_any_moment_a_round_keeps_what_was_finished_and_can_be_gone_on_with(
    tmp_path: Path,
    port: int,
    seed: int,
) -> None:
    plan, out, said, chance = slow_plan(tmp_path, port), tmp_path / "round", tmp_path / "said", random.Random(seed)
    kept: dict[str, bytes] = {}
    for _ in range(KILLS):
        child = recorder(plan, out, said, "--resume")
        if chance.random() < 0.8:
            wait_until(lambda: acknowledged(said) or child.poll() is not None)  # noqa: B023
        time.sleep(chance.uniform(0, 0.8))
        child.kill()
        child.wait()
        assert acknowledged(said) <= on_disk(out)
        now = sealed(out)
        assert kept.items() <= now.items()
        kept = now
        wait_until(lambda: not listens(port))
    child = recorder(plan, out, said, "--resume")
    assert child.wait(60) == 0, said.read_text()
    assert kept.items() <= sealed(out).items()
    assert list(rounds.check(out)) == []
    found = Round(out)
    assert sorted(found.head.planned) == sorted(level.path.removeprefix("levels/") for level in found.levels)
    assert all(len(found.requests(level)) == 14 for level in found.levels)
    before = found.seal.files
    assert RoundWriter(out).seal(0).files == before


@pytest.mark.slow
def test_an_engine_outlives_no_recorder_that_was_killed(tmp_path: Path, port: int) -> None:
    child = recorder(slow_plan(tmp_path, port), tmp_path / "round", tmp_path / "said")
    wait_until(lambda: acknowledged(tmp_path / "said"))
    assert listens(port)
    child.kill()
    child.wait()
    wait_until(lambda: not listens(port), 5)


def test_the_guard_of_an_engine_that_was_stopped_ends_with_it() -> None:
    own = Process([sys.executable, "-c", "import time; time.sleep(60)"], env={}, cpus=None)
    own.stop(5)
    assert own._guard.returncode == 0


@pytest.mark.slow
def test_a_sigterm_keeps_what_was_finished(tmp_path: Path, port: int) -> None:
    plan, out, said = slow_plan(tmp_path, port), tmp_path / "round", tmp_path / "said"
    child = recorder(plan, out, said)
    wait_until(lambda: sealed(out))
    child.terminate()
    assert child.wait(20) == 130
    kept = sealed(out)
    assert kept
    assert acknowledged(said) <= on_disk(out)
    assert not (out / rounds.SEAL).exists()
    assert recorder(plan, out, said, "--resume").wait(60) == 0
    assert kept.items() <= sealed(out).items()
    assert list(rounds.check(out)) == []


@pytest.mark.slow
def test_an_engine_that_is_killed_in_a_level_is_started_again_and_the_level_says_so(tmp_path: Path, port: int) -> None:
    out, said = tmp_path / "round", tmp_path / "said"
    child = recorder(slow_plan(tmp_path, port), out, said)
    wait_until(lambda: len(acknowledged(said)) > 4)
    for server in psutil.Process(child.pid).children():
        server.send_signal(signal.SIGKILL)
    assert child.wait(60) == 0, said.read_text()
    remarks = [remark for level in Round(out).levels for remark in level.facts.remarks]
    assert any("the engine died: exit code -9" in remark for remark in remarks)
    assert acknowledged(said) <= on_disk(out)
    assert list(rounds.check(out)) == []


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=256k", "none", str(folder)]
    try:
        mounted = subprocess.run(command, capture_output=True).returncode == 0
    except OSError:
        mounted = False
    if not mounted:
        # only root can make a disk that is really full; `test_a_write_that_finds_no_room…` runs everywhere
        pytest.skip("mounting a small disk needs root: the injected ENOSPC is tested all the same")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.slow
def test_a_disk_that_fills_up_ends_in_one_line_and_goes_on_when_there_is_room(
    tmp_path: Path,
    port: int,
    small_disk: Path,
) -> None:
    out, said, ballast = small_disk / "round", tmp_path / "said", small_disk / "ballast"
    plan = slow_plan(tmp_path, port)
    child = recorder(plan, out, said)
    wait_until(lambda: sealed(out))
    with suppress(OSError), ballast.open("wb") as file:
        while True:
            os.write(file.fileno(), b"x" * 512)
    assert child.wait(60) == 1
    kept, words = sealed(out), said.read_text()
    assert "Traceback" not in words
    assert words.count("No space left on device") == 1
    assert "make room and go on with --resume" in words
    assert acknowledged(said) <= on_disk(out)
    ballast.unlink()
    wait_until(lambda: not listens(port))
    assert recorder(plan, out, said, "--resume").wait(60) == 0, said.read_text()
    assert kept.items() <= sealed(out).items()
    assert list(rounds.check(out)) == []


def test_a_write_that_finds_no_room_ends_a_recording_with_what_is_sealed_kept(
    tmp_path: Path,
    port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan, out, left, write = plan_of(tmp_path, engine(port)), tmp_path / "round", iter(range(20)), LevelWriter.request

    def full(self, request) -> None:
        if next(left, None) is None:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(self, request)

    with monkeypatch.context() as patch:
        patch.setattr(LevelWriter, "request", full)
        with pytest.raises(RoundError, match=r"No space left on device; 2 of 4 repeats are kept; make room"):
            measured(plan, out)
    kept = sealed(out)
    found = measured(plan, out, resume=True)
    assert kept.items() <= sealed(out).items()
    assert list(rounds.check(found.path)) == []


def test_a_machine_that_slept_in_a_level_flags_it(
    tmp_path: Path,
    port: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asleep_ns = iter([0, 3_000_000_000, 0, 400])
    monkeypatch.setattr(load, "suspended_ns", lambda: next(asleep_ns))
    found = measured(plan_of(tmp_path, engine(port), tests=[sweep(levels=[1, 2], repeats=1)]), tmp_path / "round")
    assert [level.facts.client.slept_us for level in found.levels] == [3_000_000, 0]
    flags = [flag for flag in figures.compute(found).flags if flag.kind == "slept"]
    assert len(flags) == 1
    assert ".c1" in flags[0].scope


SIXTY_FILES = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (60, int(sys.argv.pop(1))))
"""


def with_few_files(plan: Path, out: Path, most: int) -> subprocess.CompletedProcess[str]:
    """The recorder where sixty files may be open, or, asked for, so many."""
    command = [sys.executable, "-c", SIXTY_FILES + RECORDER, str(most), "run", str(plan), "--out", str(out), "--quiet"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.slow
def test_a_client_that_may_not_open_enough_files_asks_for_more_or_says_so(tmp_path: Path) -> None:
    with null_server(ttft=0.1, gap=0.01) as url:
        server = {"id": "null", "kind": "openai", "model": "null", "url": url, "vocabulary": 30_000}
        plan = plan_of(tmp_path, server, tests=[sweep(levels=[100], requests=100, repeats=1)])
        enough, few = with_few_files(plan, tmp_path / "more", 4096), with_few_files(plan, tmp_path / "few", 60)
    assert enough.returncode == 0, enough.stderr
    (level,) = (found := Round(tmp_path / "more")).levels
    assert [request.failure for request in found.requests(level)] == [None] * 102
    said = "genreport: no connection from here: Too many open files; raise `ulimit -n`, or plan a smaller load"
    assert (few.returncode, few.stderr.splitlines()[-1]) == (1, said)
    assert Round(tmp_path / "few").levels == []


CEILING = "from genreport import ceiling; print(ceiling.client_ceiling())"


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_server_of_the_ceiling_ends_with_a_recorder_that_was_ended(number: int) -> None:
    child = subprocess.Popen([sys.executable, "-c", CEILING])
    wait_until(lambda: psutil.Process(child.pid).children())
    (server,) = psutil.Process(child.pid).children()
    time.sleep(1)
    child.send_signal(number)
    assert child.wait(10) == -number
    wait_until(lambda: not server.is_running())


def gaps_us(found: Round) -> np.ndarray:
    """Between tokens that the server sends twenty milliseconds apart."""
    (level,) = found.levels
    requests = [request for request in found.requests(level) if not request.warmup]
    assert all(request.failure is None for request in requests)
    return np.concatenate([request.gaps_us[1:10] for request in requests])


@pytest.mark.slow
def test_a_flood_of_log_delays_no_stamp_and_fills_no_round(tmp_path: Path, port: int) -> None:
    """Held against the same load without the flood, on the same machine just before."""
    tests, found = [sweep(levels=[4], requests=80, output=10, repeats=1)], {}
    for name, options in (("quiet", ()), ("flooded", ("--flood",))):
        (tmp_path / name).mkdir()
        plan = plan_of(tmp_path / name, engine(port, "--gap-s", "0.02", *options), tests=tests)
        found[name] = measured(plan, tmp_path / name / "round")
    facts = found["flooded"].levels[0].facts
    assert facts.log.end - facts.log.start <= LOG_BYTES + 100  # and the line that it cuts
    (remark,) = facts.remarks
    logged = int(remark.split()[3])
    rate = logged / (facts.client.wall_us / 1e6)
    assert rate > 95e6  # of the 100 MB that the server writes a second
    assert np.percentile(facts.client.lag_us, 50) < 5_000
    quiet, flooded = (np.percentile(gaps_us(found[name]), [50, 99]) for name in ("quiet", "flooded"))
    assert (flooded < quiet * [1.5, 3]).all(), (quiet, flooded)


def peak_bytes(folder: Path, url: str, requests: int) -> int:
    """The most memory that recording so many requests of 1,024 prompt tokens had, the recorder as it is run."""
    folder.mkdir()
    server = {"id": "null", "kind": "openai", "model": "null", "url": url, "vocabulary": 30_000}
    test = {"id": "many", "kind": "concurrency", "input": 1024, "output": 4, "levels": [16], "requests": requests,
            "repeats": 1, "warmup": 2}  # fmt: skip
    plan = folder / "plan.yaml"
    plan.write_text(yaml.safe_dump({"plan": 1, "seed": 3, "engines": [server], "tests": [test]}))
    child = recorder(plan, folder / "round", folder / "said", "--quiet")
    said = (folder / "said").read_text() if child.wait() == 0 else ""
    (level,) = Round(folder / "round").levels
    assert level.facts.requests == requests
    return int(said.rpartition("peak ")[2]) * 1024


@pytest.mark.slow
def test_memory_stays_flat_over_twenty_thousand_requests(tmp_path: Path) -> None:
    with null_server(ttft=0.012, gap=0.002) as url:  # at full speed unread answers fill their room first
        few, many = (peak_bytes(tmp_path / str(n), url, n) for n in (2_000, 20_000))
    per_request = (many - few) / 18_000
    assert per_request < 500, (
        f"{few / 2**20:.0f} to {many / 2**20:.0f} MiB"
    )  # a record kept by mistake is some 2,000 bytes
    assert many < 200 * 2**20
