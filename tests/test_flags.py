"""Warnings about the client of a level, on either side of what they are given from."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compose import VLLM, Load, Test, arriving, compose_round, lengths, sweep
from genreport.figures import Figures, compute
from genreport.pages import shared_context, write
from genreport.records import ClientCeiling
from genreport.reports import all_pages
from genreport.words import say

SECOND_US = 1_000_000
CHART = re.compile(r'<div class="gr-chart".*?</div>', re.S)
SWEEP = "concurrency.vllm-bf16"


def scopes(figures: Figures, kind: str) -> set[str]:
    return {flag.scope for flag in figures.flags if flag.kind == kind}


@pytest.mark.parametrize(("share", "late"), [(0.09, False), (0.11, True)])
def test_a_level_whose_client_lags_by_more_than_a_tenth_of_its_itl_is_flagged(tmp_path: Path, share, late) -> None:
    lag_us = round(share * VLLM.latency(4)[1] * SECOND_US)
    figures = compute(compose_round(tmp_path / "r", engines=(VLLM,), tests=(sweep(1, 4),), lag_us={"c4": lag_us}))
    assert figures.ledger[f"{SWEEP}.c4.client_lag.p99"].value == pytest.approx(lag_us / SECOND_US)
    assert scopes(figures, "client_lag") == ({f"{SWEEP}.c4"} if late else set())


def reads(events: float) -> dict:
    """A machine whose client reads at most so many events a second, measured over a thousand."""
    wall_us = 1000 * SECOND_US
    client = ClientCeiling(
        streams=1, events=round(events * 1000), failed=0, wall_us=wall_us, cpu_us=wall_us, method="c"
    )
    return {"client": client}


@pytest.mark.parametrize(("share", "past"), [(0.79, False), (0.81, True)])
def test_a_level_that_takes_most_of_what_the_client_can_read_is_flagged(tmp_path: Path, share, past) -> None:
    plain = {"engines": (VLLM,), "tests": (sweep(1, 4),)}
    tokens = compute(compose_round(tmp_path / "without", **plain)).ledger[f"{SWEEP}.c4.output_throughput"].value
    figures = compute(compose_round(tmp_path / "with", **plain, machine=reads(tokens / share)))
    assert figures.ledger[f"{SWEEP}.c4.client_load"].value == pytest.approx(share, rel=1e-4)
    assert scopes(figures, "client_limit") == ({f"{SWEEP}.c4"} if past else set())


def test_a_level_past_the_ceiling_of_the_client_is_flagged_on_every_page(tmp_path: Path) -> None:
    tests = (
        sweep(1, 4), lengths(64, 128), arriving(2, 4), Test("cliff", "cliff", (Load("normal", 4), Load("long", 4, 512))),
        Test("talk", "conversation", (Load("c4", 4, requests=12, turns=3),)),
        Test("soak", "soak", (Load("c2", 2, requests=40, lasts_s=12),)),
    )  # fmt: skip
    figures = compute(compose_round(tmp_path / "r", tests=tests, repeats=1, machine=reads(1)))
    assert scopes(figures, "client_limit") == {
        level.id for test in figures.tests for levels in test.levels.values() for level in levels
    }
    shared = shared_context(figures)
    found = {page.path: CHART.sub("", write(page, figures.ledger, shared).text) for page in all_pages(figures)}
    without = {path for path, text in found.items() if say("flag.client_limit") not in text}
    assert without == {"evidence/index.md"}  # files, of no level
