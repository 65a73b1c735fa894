"""What a person sees while a round is recorded."""

from __future__ import annotations

import io

from rich.console import Console

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
        progress.begin(60)
        progress.level("concurrency/fake/c1/r1", 3, 10)
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
    progress.level("k", 3, 10)
    assert progress._line().plain == "k  0/3 · n/a tok/s · TTFT p50 n/a · 0 failed · time left n/a"


def test_a_role_event_is_not_the_first_text() -> None:
    assert first_text_us(request(0)) == 100_000
    assert first_text_us(request(0, "r")) is None


def test_the_silent_display_takes_everything() -> None:
    with Silent() as silent:
        silent.begin(1)
        silent.dropped(1)
        silent.say("x")
        silent.level("k", 1, 1)
        silent.request(request(0))
        silent.done([])
