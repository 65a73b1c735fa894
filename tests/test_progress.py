"""What a person sees while a round is recorded."""

from __future__ import annotations

import io
import json
import re
from types import SimpleNamespace

import pytest
from rich.console import Console

from genreport import progress as module
from genreport.progress import JsonLines, Progress, Quiet, Silent, around
from genreport.records import Failure, Request, Usage


def request(start_us: int, kinds: str = "rttd", failure: Failure | None = None) -> Request:
    gaps = [1_000, 99_000, 900_000, 0][: len(kinds)]
    return Request(
        index=0, seed=0, asked_input=8, asked_output=2, due_us=start_us, t0_us=start_us, gaps_us=gaps, kinds=kinds,
        usage=None if failure else Usage(completion_tokens=2), end_us=start_us + sum(gaps), failure=failure,
    )  # fmt: skip


def shown(terminal: bool) -> str:
    out = io.StringIO()
    with Progress(Console(file=out, force_terminal=terminal, width=100 if terminal else 60)) as progress:
        progress.begin({"fake": 30})
        progress.level("concurrency/fake/c1/r1", "fake", 3, 30)
        progress.request(request(0))
        progress.request(request(1_000_000))
        progress.request(request(2_000_000, "", Failure(kind="connect")))
        progress.done(["the engine died"])
    return out.getvalue()


def test_without_a_terminal_every_level_is_one_line_however_long() -> None:
    assert shown(False).startswith(
        "concurrency/fake/c1/r1  3/3 · 2 tok/s · TTFT p50 100 ms · 1 failed · 0:00 left; the engine"
    )
    assert len(shown(False).splitlines()) == 1


def test_a_terminal_keeps_a_table_of_the_levels_and_says_only_remarks() -> None:
    lines = shown(True).splitlines()
    assert any("concurrency/fake/c1/r1; the engine died" in line for line in lines)
    assert "TTFT p99" in re.sub(r"\x1b\[[0-9;]*m", "", lines[-2])
    assert lines[-1].split() == ["concurrency/fake/c1", "r1", "3", "2", "100", "ms", "100", "ms", "1"]


@pytest.mark.parametrize("terminal", [False, True])
def test_what_a_server_or_its_log_says_does_not_steer_the_terminal_and_keeps_its_lines(terminal) -> None:
    out = io.StringIO()
    Progress(Console(file=out, force_terminal=terminal)).say("serves \x1b]0;title\x07\x1b[2J\x9b, not m\n\tcafé\u202f1")
    assert out.getvalue().replace(" " * 8, "\t") == "serves \ufffd]0;title\ufffd\ufffd[2J\ufffd, not m\n\tcafé\u202f1\n"


def test_a_long_table_shows_the_rows_around_the_level_at_work() -> None:
    levels = [f"c{place}" for place in range(40)]
    assert around(levels, "c0", 6) == levels[:6]
    assert around(levels, "c39", 6) == levels[34:]
    assert around(levels, "c20", 6) == levels[17:23]
    assert around([], "", 6) == []


def test_json_mode_is_an_object_a_line_with_unrounded_numbers_and_null_for_what_is_not_known() -> None:
    out = io.StringIO()
    with JsonLines(out) as told:
        told.started("runs/x", 2, 2)
        told.begin({"fake": 2})
        told.level("concurrency/fake/c1/r1", "fake", 2, 1)
        told.request(request(0))
        told.request(request(1_000_000, "", Failure(kind="connect")))
        told.done(["a remark"])
        told.level("concurrency/fake/c1/r2", "fake", 1, 1)
        told.request(request(0, "", Failure(kind="connect")))
        told.done([])
        told.broken("concurrency/fake/c1", "failed: 2")
        told.sealed("runs/x", 2, 2)
    started, first, second, condition, sealed = map(json.loads, out.getvalue().splitlines())
    assert started == {"event": "started", "round": "runs/x", "planned": 2, "ahead": 2}
    assert (first["completed"], first["failed"], first["remarks"]) == (1, 1, ["a remark"])
    assert (first["output_throughput"], first["ttft_p50_s"], first["window_s"]) == (2.0, 0.1, 1.0)
    assert (second["output_tokens"], second["output_throughput"], second["ttft_p99_s"]) == (None, None, None)
    assert condition == {"event": "condition", "level": "concurrency/fake/c1", "text": "failed: 2"}
    assert sealed == {"event": "sealed", "round": "runs/x", "planned": 2, "measured": 2}


def test_quiet_says_only_what_is_not_met(capsys: pytest.CaptureFixture[str]) -> None:
    with Quiet() as quiet:
        quiet.say("starting")
        quiet.broken("concurrency/fake/c1", "failed: 2")
        quiet.sealed("runs/x", 2, 2)
    found = capsys.readouterr()
    assert (found.out, found.err) == ("", "concurrency/fake/c1: failed: 2\n")


def test_before_the_first_answer_nothing_is_made_up() -> None:
    progress = Progress(Console(file=io.StringIO()))
    progress.level("k", "fake", 3, 10)
    assert progress._line().plain == "k  0/3 · n/a tok/s · TTFT p50 n/a · 0 failed · – left"


class Clock:
    """Time that passes when a test says so."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 100.0
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: self.now))

    def level(self, progress: Progress, engine: str, work: float, seconds: float) -> None:
        progress.level(f"t/{engine}/c1/r1", engine, 2, work)
        self.now += seconds / 2
        progress.request(request(0))
        self.now += seconds / 2
        progress.request(request(1_000_000))
        progress.done([])


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> tuple[Progress, Clock]:
    progress = Progress(Console(file=io.StringIO()))
    progress.begin({"slow": 100.0, "fast": 100.0})
    return progress, Clock(monkeypatch)


def test_the_time_left_is_unknown_until_an_engine_has_finished_a_level(told: tuple[Progress, Clock]) -> None:
    progress, clock = told
    progress.level("k", "slow", 2, 50)
    clock.now += 10
    progress.request(request(0))
    assert progress._left() == "–"
    clock.level(progress, "slow", 50, 100)
    assert progress._left() != "–"
    progress.level("k", "fast", 2, 50)
    assert progress._left() == "–"


def test_each_engine_has_its_own_pace_and_one_not_begun_that_of_the_others(told: tuple[Progress, Clock]) -> None:
    progress, clock = told
    clock.level(progress, "slow", 50, 100)
    assert progress._left() == "5:00"  # 2 s a unit: 50 of its own, 100 of the other
    clock.level(progress, "slow", 50, 100)
    clock.level(progress, "fast", 50, 10)
    assert progress._left() == "0:10"


def test_within_a_level_the_time_left_falls_with_each_request(told: tuple[Progress, Clock]) -> None:
    progress, clock = told
    clock.level(progress, "slow", 50, 100)
    progress.dropped({"fast": 100.0})
    progress.level("k", "slow", 2, 50)
    progress.request(request(0))
    assert progress._left() == "0:50"


def test_the_silent_display_takes_everything() -> None:
    with Silent() as silent:
        silent.started("runs/x", 1, 1)
        silent.begin({"fake": 1})
        silent.dropped({"fake": 1})
        silent.say("x")
        silent.level("k", "fake", 1, 1)
        silent.request(request(0))
        silent.done([])
        silent.broken("c1", "x")
        silent.sealed("runs/x", 1, 1)
