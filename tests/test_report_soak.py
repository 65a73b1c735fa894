"""Report 09: whether memory grows and failures come over the time of a soak, and what the page says where it cannot tell."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import audited
from compose import LLAMA, VLLM, Load, Test, compose_round, sweep
from genreport.figures import compute
from genreport.records import Failure
from genreport.reports import soak

MIB = 2**20

PAGE = "soak/index.md"


def soaking(*, rate: float | None = None, grows: int | None = MIB, requests: int = 120) -> Test:
    load = Load("q2" if rate else "c4", 4, requests=requests, rate=rate, lasts_s=12, grows=grows)
    return Test("soak", "soak", (load,))


def test_the_slope_of_memory_is_told_by_the_hour(tmp_path):
    figures = audited.composed(tmp_path, soaking())
    scope = "soak.vllm-bf16.c4.r1"
    assert figures.ledger[f"{scope}.memory_growth"].value == pytest.approx(3600, rel=0.01)
    first, last = (figures.ledger[f"{scope}.part{part}.memory"].value for part in (1, 10))
    assert last - first == pytest.approx(9 * MIB, rel=0.05)
    assert "The slope of its memory is 3,600 MiB/h" in audited.read(figures, PAGE)
    assert "It was told by less than an hour" in audited.read(figures, PAGE)


def test_failures_are_counted_in_the_part_in_which_they_were_due(tmp_path):
    def failures(engine, level, repeat, index):
        return Failure(kind="http", status=503) if 40 <= index < 44 else None

    ledger = audited.composed(tmp_path, soaking(), failures=failures).ledger
    failed = [ledger[f"soak.vllm-bf16.c4.r1.part{part}.failed"].value for part in range(1, 13)]
    assert sum(failed) == 4
    assert max(failed) >= 3
    busy = failed.index(max(failed)) + 1
    assert ledger[f"soak.vllm-bf16.c4.r1.part{busy}.failures"].value == pytest.approx(max(failed) * 60)
    completed = [ledger[f"soak.vllm-bf16.c4.r1.part{part}.completed"].value for part in range(1, 13)]
    assert sum(completed) == 116


def test_a_server_that_the_runner_did_not_start_has_no_memory_and_says_why(tmp_path):
    def running(round_path: Path) -> None:
        for file in round_path.glob("launches/*/*/launch.json"):
            text = file.read_text()
            file.write_text(re.sub(r'"command": ?\[[^]]*\]', '"command": null', text))

    compose_round(tmp_path / "composed", tests=(soaking(grows=None),), engines=(VLLM,), repeats=1, seal=False)
    running(tmp_path / "composed")
    from genreport.rounds import Round

    figures = compute(Round(tmp_path / "composed"))
    audited.recomputed(figures)
    text = audited.read(figures, PAGE)
    assert "How its memory grows cannot be told: the engine was not started by the runner" in text
    assert "no forecast" not in text


def test_an_open_soak_names_its_rate(tmp_path):
    assert "One load, requests that arrive at 2 req/s, for 0.200 min." in audited.read(
        audited.composed(tmp_path, soaking(rate=2, requests=24)), PAGE
    )


def test_a_round_without_a_soak_has_no_such_page(tmp_path):
    assert soak.pages(audited.composed(tmp_path, sweep(1, 2))) == []


def test_a_whole_site_of_a_soak_holds_its_audit(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from genreport.cli import main

    monkeypatch.chdir(tmp_path)
    compose_round(tmp_path / "runs" / "soak", tests=(soaking(), sweep(1, 2)), engines=(VLLM, LLAMA), repeats=2)
    built = CliRunner().invoke(main, ["build", "runs/soak"])
    assert built.exit_code == 0, built.output
    checked = CliRunner().invoke(main, ["audit", "site"])
    assert checked.exit_code == 0, checked.output
