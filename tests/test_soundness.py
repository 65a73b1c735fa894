"""Records that no request can have: both paths leave them out by one rule, whatever numbers they hold."""

from __future__ import annotations

import gzip
import json
import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compose import VLLM, compose_round, sweep
from genreport import evaluate
from genreport.figures import compute, frames
from genreport.publish import figures_of
from genreport.records import Failure, Request, Usage

FILE = "levels/t/e/c1/r1/requests.jsonl"
EDGES = (-(10**30), -(10**12) - 1, -(10**12), -1, 0, 1, 100_000, 100_001, 10**12, 10**12 + 1, 2**63, 10**400)
STAMPS = st.integers(-1000, 10**7) | st.sampled_from(EDGES)
COUNTS = st.integers(0, 600_000) | st.sampled_from(EDGES)
WORDS = st.none() | st.floats() | st.sampled_from([10**400, "12", True, [1], {}])


@st.composite
def requests(draw: st.DrawFn) -> Request:
    kinds = draw(st.text("rtkeudx", max_size=6))
    size = {"min_size": len(kinds), "max_size": len(kinds)}
    asked = st.integers(1, 100) | st.sampled_from([10**12, 10**12 + 1, 10**400])
    words = {"timings": ("prompt_ms", "predicted_ms", "predicted_n"),
             "metrics": ("time_to_first_token_ms", "generation_time_ms", "queue_time_ms")}  # fmt: skip
    return Request(
        index=0, warmup=draw(st.booleans()), seed=1, asked_input=draw(asked), asked_output=draw(asked),
        due_us=draw(STAMPS), t0_us=draw(st.none() | STAMPS), end_us=draw(STAMPS | st.just(10**9)), kinds=kinds,
        gaps_us=draw(st.lists(st.integers(0, 10**6) | STAMPS, **size)), tokens=draw(st.none() | st.lists(COUNTS, **size)),
        usage=draw(st.none() | st.builds(Usage, prompt_tokens=st.none() | COUNTS, completion_tokens=st.none() | COUNTS)),
        failure=draw(st.none() | st.just(Failure(kind="stall"))),
        server=draw(st.fixed_dictionaries({}, optional={
            key: st.dictionaries(st.sampled_from(names), WORDS) | WORDS for key, names in words.items()})),
    )  # fmt: skip


@settings(max_examples=300)
@given(requests())
def test_both_paths_read_a_record_alike(request: Request) -> None:
    first = frames.table(FILE, [request])
    second = evaluate.primitives(json.loads(json.dumps(request.model_dump(mode="python"))))
    row = first.rows.iloc[0]
    assert (row["sound"], row["ok"]) == (second["sound"], second["ok"])
    for name in ("server_n", "server_e2e_s", "server_queue_s", "server_prefill_s", "server_decode_s"):
        assert known(row[name]) == known(second[name]), name
    if row["ok"]:
        assert first.text_s.tolist() == second["text_s"].tolist()
        assert first.text_tokens.tolist() == second["text_tokens"].tolist()
        assert [known(row[name]) for name in ("n", "prompt_n")] == [known(second[name]) for name in ("n", "prompt_n")]


def known(value: float | None) -> float | None:
    return None if value is None or np.isnan(value) else float(value)


@pytest.mark.parametrize(
    "change",
    [
        {"tokens": [100_001, 1, 1]},
        {"tokens": [1, -1, 1]},
        {"tokens": [10**30, 1, 1]},
        {"gaps_us": [10**12 + 1, 0, 0], "end_us": 10**12},
        {"t0_us": -(10**13)},
        {"due_us": -(10**400)},
        {"end_us": 10**13},
        {"usage": Usage(completion_tokens=10**400)},
        {"usage": Usage(prompt_tokens=-1)},
    ],
    ids=str,
)
def test_a_number_that_no_request_has_makes_its_record_unsound(change: dict) -> None:
    facts = {"index": 0, "seed": 1, "asked_input": 8, "asked_output": 3, "due_us": 0, "t0_us": 0, "end_us": 10**6}
    sane = Request(**facts, gaps_us=[10, 10, 10], kinds="ttt", tokens=[1, 2, 100_000])
    assert frames.table(FILE, [sane]).rows["ok"].all()
    assert not frames.table(FILE, [sane.model_copy(update=change)]).rows["ok"].any()


def test_an_answer_claimed_to_be_endless_is_unsound_though_no_event_is() -> None:
    many = Request(index=0, seed=1, asked_input=8, asked_output=3, due_us=0, t0_us=0, end_us=10**6, gaps_us=[1] * 11,
                   kinds="t" * 11, tokens=[100_000] * 11)  # fmt: skip
    assert not frames.table(FILE, [many]).rows["sound"].any()


def claims(key: str, request: Request) -> Request:
    """One request a repeat that claims a billion tokens, and one that claims more than any number holds."""
    if request.index == 4:
        return request.model_copy(update={"tokens": [10**9, *request.tokens[1:]]})
    if request.index == 5:
        return request.model_copy(update={"usage": Usage(completion_tokens=10**400), "due_us": 10**400})
    return request


def test_a_round_with_impossible_records_computes_and_agrees_with_its_second_path(tmp_path: Path) -> None:
    figures = figures_of(compose_round(tmp_path / "r", engines=(VLLM,), tests=(sweep(1),), repeats=1, alter=claims))
    level = "concurrency.vllm-bf16.c1"
    assert figures.ledger[f"{level}.unsound"].value == figures.ledger[f"{level}.failed"].value == 2
    assert [finding.line for finding in figures.findings] == [5, 6]
    assert all("no request can have" in finding.what for finding in figures.findings)


def test_requests_whose_first_event_held_several_tokens_are_counted_and_mark_their_tpot(tmp_path: Path) -> None:
    def several(key: str, request: Request) -> Request:
        tokens = [3, *request.tokens[1:]] if request.index in (4, 5) else request.tokens
        return request.model_copy(update={"tokens": tokens})

    ledger = figures_of(compose_round(tmp_path / "r", engines=(VLLM,), tests=(sweep(1),), alter=several)).ledger
    level = "concurrency.vllm-bf16.c1"
    assert ledger[f"{level}.first_event_multi"].value == 4
    assert "first_event_multi" in ledger[f"{level}.tpot.p50"].notes
    assert "first_event_multi" not in ledger[f"{level}.ttft.p50"].notes


def test_without_counts_per_event_nobody_knows_what_the_first_one_held(tmp_path: Path) -> None:
    round = compose_round(tmp_path / "r", engines=(VLLM,), tests=(sweep(1),), repeats=1,
                          alter=lambda key, request: request.model_copy(update={"tokens": None}))  # fmt: skip
    found = compute(round).ledger["concurrency.vllm-bf16.c1.first_event_multi"]
    assert found.reason == "no per-event token counts"


def test_a_prefix_cache_that_counted_no_query_is_said_to_be_off(tmp_path: Path) -> None:
    round = compose_round(tmp_path / "r", engines=(VLLM,), tests=(sweep(1),), repeats=1)
    for name in ("before", "after"):
        file = tmp_path / "r" / f"levels/concurrency/vllm-bf16/c1/r1/{name}.prom.gz"
        text = gzip.decompress(file.read_bytes()).decode()
        file.write_bytes(gzip.compress(re.sub(r"(prefix_cache_queries_total\S+) \S+", r"\1 0.0", text).encode()))
    found = compute(round).ledger["concurrency.vllm-bf16.c1.prefix_hit_share"]
    assert found.reason == "prefix cache is off: no queries were counted"
