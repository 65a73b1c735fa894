"""The first run: wherever it is told to work, and as often as it is told to."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from compose import compose_round, sweep
from genreport import demo as module
from genreport.demo import demo
from genreport.errors import EngineError
from genreport.plan import read_plan

ODD = '/home/Ada B\'s/{models}: "x" #1, [y]/äöü 🚀/smol.gguf'


class Calls:
    """What the demo has run and published, in place of doing it."""

    def __init__(self) -> None:
        self.ran: list[tuple[Path, Path, bool]] = []
        self.published: list[Path] = []
        self.fails = False
        self.unfinished: tuple[str, ...] = ()

    def run(self, plan: Path, out: Path, *, resume: bool) -> None:
        self.ran.append((plan, out, resume))
        compose_round(out, tests=[sweep(1)], repeats=1, unfinished=self.unfinished, seal=not self.fails)
        if self.fails:
            raise EngineError("died")

    def publish(self, rounds: list[Path], site: Path) -> Any:
        self.published += rounds


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    found = Calls()
    monkeypatch.setattr("genreport.runner.run", found.run)
    monkeypatch.setattr("genreport.publish.publish", found.publish)
    monkeypatch.setattr(module, "find_spec", lambda _: True)
    monkeypatch.setattr(module, "model_file", lambda: Path(ODD))
    return found


def test_paths_of_any_spelling_reach_the_engine_as_they_are(
    calls: Calls, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", "/opt/my python/bin/python: 3")
    demo(tmp_path / "a demo", open_site=False)
    (plan, out, _), *_ = calls.ran
    assert out == tmp_path / "a demo" / "runs" / "demo"
    for engine in read_plan(plan, on_this_machine=False).engines:
        assert engine.model_files == [ODD]
        assert engine.command()[0] == "/opt/my python/bin/python: 3"


def test_a_second_demo_measures_nothing_and_shows_the_same(calls: Calls, tmp_path: Path) -> None:
    for _ in range(2):
        demo(tmp_path / "demo", open_site=False)
    assert len(calls.ran) == 1
    assert calls.published == [tmp_path / "demo" / "runs" / "demo"] * 2


def test_a_demo_that_broke_off_goes_on_with_its_plan(calls: Calls, tmp_path: Path) -> None:
    calls.fails = True
    with pytest.raises(EngineError):
        demo(tmp_path, open_site=False)
    text = (tmp_path / "plan.yaml").read_text()
    calls.fails = False
    demo(tmp_path, open_site=False)
    assert [resume for _, _, resume in calls.ran] == [False, True]
    assert (tmp_path / "plan.yaml").read_text() == text


def test_a_demo_whose_engine_was_given_up_measures_what_is_missing(calls: Calls, tmp_path: Path) -> None:
    calls.unfinished = ("concurrency/vllm-bf16/c1/r1",)
    demo(tmp_path, open_site=False)
    calls.unfinished = ()
    demo(tmp_path, open_site=False)
    assert [resume for _, _, resume in calls.ran] == [False, True]
