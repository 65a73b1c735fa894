"""Report 08: what a turn waits for, and what the page says where that cannot be told."""

from __future__ import annotations

import pytest

import audited
from compose import LLAMA, VLLM, Load, Test, compose_round, sweep
from genreport.figures import Figures
from genreport.records import Failure
from genreport.reports import all_pages, conversations

PAGE = "conversations/index.md"


def talking(*at_once: int, turns: int = 3, talks: int = 8) -> Test:
    return Test("talk", "conversation", tuple(Load(f"c{c}", c, requests=talks * turns, turns=turns) for c in at_once))


def test_each_turn_has_a_median_wait_and_prompt(tmp_path):
    ledger = audited.composed(tmp_path, talking(1, 2), repeats=2).ledger
    for level in ("c1", "c2"):
        scope = f"talk.vllm-bf16.{level}"
        waits = [ledger[f"{scope}.turn{k}.ttft.p50"].value for k in (1, 2, 3)]
        assert waits == pytest.approx([0.05, 0.1, 0.15], abs=1e-4)
        assert [ledger[f"{scope}.turn{k}.prompt.p50"].value for k in (1, 2, 3)] == [64, 128, 192]
        assert [ledger[f"{scope}.turn{k}.completed"].value for k in (1, 2, 3)] == [16, 16, 16]
        assert ledger[f"{scope}.begun"].value == 16


def test_the_answer_holds_the_first_turn_against_the_last(tmp_path):
    text = audited.read(audited.composed(tmp_path, talking(1, 4), engines=(VLLM, LLAMA)), PAGE)
    said = "With 4 conversations under way vllm-bf16 gives the first token of turn 1 after 50.0 ms (p50) and that of turn 3 after"
    assert said in text
    assert "With 4 conversations under way llamacpp-q4 gives" in text
    assert "Conversations of 3 turns, all of them beginning with the same 8 tokens." in text
    assert "it is due 500 ms after the answer before it ended" in text


def test_a_round_in_which_nothing_completed_says_so(tmp_path):
    def failures(*_):
        return Failure(kind="http", status=503)

    text = audited.read(audited.composed(tmp_path, talking(2), failures=failures), PAGE)
    assert "What a turn waits for on vllm-bf16 cannot be told: no request completed." in text
    assert "With 2 under way, turns never sent because a turn before them failed: 1." in text


def test_a_conversation_is_flagged_neither_for_what_it_sends_again_nor_for_thinking(tmp_path):
    figures = audited.composed(tmp_path, talking(8), prefix_hits=0.5)
    assert not {flag.kind for flag in figures.flags} & {"prefix_cache", "in_flight"}
    assert figures.ledger["talk.vllm-bf16.c8.prefix_hit_share"].value > 0.1
    assert "only the server knows the tokens" in figures.ledger["talk.vllm-bf16.c8.check.prompt_tokens"].reason


def test_a_round_without_conversations_has_no_such_page(tmp_path):
    assert conversations.pages(audited.composed(tmp_path, sweep(1, 2))) == []


def test_a_whole_site_of_conversations_holds_its_audit(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from genreport.cli import main

    monkeypatch.chdir(tmp_path)
    compose_round(tmp_path / "runs" / "talk", tests=(talking(1, 2), sweep(1, 2)), repeats=2)
    built = CliRunner().invoke(main, ["build", "runs/talk"])
    assert built.exit_code == 0, built.output
    checked = CliRunner().invoke(main, ["audit", "site"])
    assert checked.exit_code == 0, checked.output


def drawn(figures: Figures) -> object:
    page = next(page for page in all_pages(figures) if page.path == "conversations/index.md")
    return page.context["charts"]["turns"]


def test_the_waits_of_the_lowest_and_the_highest_level_are_drawn(tmp_path):
    chart = drawn(audited.composed(tmp_path, talking(1, 2, 4)))
    assert "2 under way" not in chart.alt
    assert all(f"{count} under way" in chart.alt for count in (1, 4))


def test_one_turn_makes_no_line(tmp_path):
    assert drawn(audited.composed(tmp_path, talking(2, turns=1))) is None
