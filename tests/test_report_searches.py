"""A search over concurrency: page 01 says between which loads the largest one lies that keeps the limit."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

import audited
from compose import VLLM, Load, Test, compose_round
from genreport.figures import Figures, compute
from genreport.pages import shared_context, write
from genreport.records import Failure
from genreport.reports import all_pages

# the composed engine's wait grows by 10 ms a request in flight, from 50 ms
SLO = {"id": "quick", "figure": "ttft", "percentile": "p50", "below_ms": 100}


def figures_of(path: Path, *loads: int, searched: str | None = "quick", **what: object) -> Figures:
    test = Test("concurrency", "concurrency", tuple(Load(f"c{c}", c, searched=searched) for c in loads))
    facts = {"engines": (VLLM,), "repeats": 1, "jitter": 0, "slos": (SLO,)} | what
    figures = compute(compose_round(path / "composed", tests=(test,), **facts))
    audited.recomputed(figures)
    return figures


def read(figures: Figures) -> str:
    page = next(page for page in all_pages(figures) if page.path == "concurrency/index.md")
    markup = write(page, figures.ledger, shared_context(figures)).text
    return " ".join(html.unescape(re.sub(r"<[^>]*>", "", markup)).replace("\u202f", " ").split())


@pytest.mark.parametrize(("loads", "said"), [
    ((1, 5, 8, 16), "On vllm-bf16 it lies between C = 5, where it is 90.0 ms, and C = 8, where it is 120 ms."),
    ((1, 5), "On vllm-bf16 no load tried broke it, up to C = 5, where it is 90.0 ms."),
    ((8, 16), "On vllm-bf16 there is none: at the lowest tried, C = 8, it is 120 ms."),
])  # fmt: skip
def test_a_search_says_between_which_loads_its_limit_lies(tmp_path, loads, said):
    text = read(figures_of(tmp_path, *loads))
    assert "the largest load at which the p50 TTFT stays within 100 ms and no request fails." in text
    assert said in text


def test_a_failed_request_breaks_the_limit_and_is_said(tmp_path):
    def failures(engine: str, level: str, repeat: int, index: int) -> Failure | None:
        return Failure(kind="http", status=503) if (level, index) == ("c5", 4) else None

    text = read(figures_of(tmp_path, 1, 5, failures=failures))
    assert re.search(
        r"it lies between C = 1, where it is 50\.0 ms, and C = 5, where it is \S+ ms, with 1 failed\.", text
    )


def test_a_plain_sweep_says_nothing_of_a_search(tmp_path):
    assert "The plan asked for the largest load" not in read(figures_of(tmp_path, 1, 5, searched=None))


def test_a_whole_site_of_a_search_holds_its_audit(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from genreport.cli import main

    monkeypatch.chdir(tmp_path)
    loads = tuple(Load(f"c{c}", c, searched="quick") for c in (1, 5, 8))
    tests = (Test("concurrency", "concurrency", loads),)
    compose_round(tmp_path / "runs" / "search", tests=tests, engines=(VLLM,), repeats=2, slos=(SLO,))
    built = CliRunner().invoke(main, ["build", "runs/search"])
    assert built.exit_code == 0, built.output
    checked = CliRunner().invoke(main, ["audit", "site"])
    assert checked.exit_code == 0, checked.output
