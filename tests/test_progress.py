"""What a person sees while a round is recorded."""

from __future__ import annotations

import io
from types import SimpleNamespace

import pytest
from rich.console import Console

from genreport import progress as module
from genreport.progress import Progress, Silent, first_text_us
from genreport.records import Failure, Request, Usage


def request(start_us: int, kinds: str = "rttd", failure: Failure | None = None) -> Request:
    gaps = [1_000, 99_000, 900_000, 0][: len(kinds)]
    return Request(
        index=0, seed=0, asked_input=8, asked_output=2, due_us=start_us, t0_us=start_us, gaps_us=gaps, kinds=kinds,
        usage=None if failure else Usage(completion_tokens=2), end_us=start_us + sum(gaps), failure=failure,
    )  # fmt: skip


def shown(terminal: bool) -> str:
    out = io.StringIO()
    with Progress(Console(file=out, force_terminal=terminal, width=60)) as progress:
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


def test_a_terminal_shows_the_same_line_live() -> None:
    assert "TTFT p50 100 ms" in shown(True)


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


def test_a_role_event_is_not_the_first_text() -> None:
    assert first_text_us(request(0)) == 100_000
    assert first_text_us(request(0, "r")) is None


def test_the_silent_display_takes_everything() -> None:
    with Silent() as silent:
        silent.begin({"fake": 1})
        silent.dropped({"fake": 1})
        silent.say("x")
        silent.level("k", "fake", 1, 1)
        silent.request(request(0))
        silent.done([])
