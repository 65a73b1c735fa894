"""Report 03: whether KV use is linear, which wall length hits, and what the page says where a round cannot tell."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import audited
import compose
from compose import Engine, compose_round, lengths, sweep
from genreport import evaluate
from genreport.figures import Figures, compute, kv
from genreport.pages import shared_context, write
from genreport.records import Failure
from genreport.reports import kv as report
from genreport.rounds import Round
from genreport.words import say

POOL_TOKENS, K = 46592, 256
# the pool of the composed engine in GiB, by its own word: POOL_TOKENS · K bytes
REPORTED = "INFO [cpu_worker.py:248] Explicitly set (0.0111083984375/10.34) GiB for KV cache on node 0.\n"
VLLM = Engine("vllm-bf16", "vllm", "bf16", baseline=True)
LLAMA = Engine("llamacpp-q4", "llamacpp", "q4_1")
SWEEP = lengths(16, 64, 256)
LOAD = sweep(1, 2, 4, 8, 16)
STEP_US = 23_000

# tokens of one request -> tokens the engine holds for it
Holds = Callable[[int], float]


@pytest.fixture
def composed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Figures]:
    """Composes a round whose engines hold what `holds` says, computes it, and recomputes it by the second path."""

    def make(holds: Holds = float, log: str = REPORTED, *, load: bool = False, **what: object) -> Figures:
        monkeypatch.setattr(compose, "VLLM_LOG", compose.VLLM_LOG + log)
        what = {"engines": (VLLM,), "tests": (SWEEP, LOAD) if load else (SWEEP,), "repeats": 1} | what
        compose_round(tmp_path / "composed", **what)
        for file in (tmp_path / "composed" / "levels" / "length").rglob("requests.jsonl"):
            sample(file, holds)
        figures = compute(Round(tmp_path / "composed"))
        audited.recomputed(figures)
        return figures

    return make


def sample(file: Path, holds: Holds) -> None:
    """Rewrites a repeat's samples: what the engine holds for each request that has its first token, and for no other."""
    rows = [evaluate.primitives(json.loads(line)) for line in file.read_text("utf-8").splitlines()]
    rows = [row for row in rows if row["ok"] and not row["warmup"]]
    if not rows:
        return
    first, last = min(row["t0_s"] for row in rows), max(row["text_s"][-1] for row in rows)
    times = range(int(first * 1e6), int(last * 1e6), STEP_US)
    held = [(t, [tokens for row in rows if (tokens := of(row, t / 1e6))]) for t in times]
    heads = {
        "samples.jsonl": {
            "format": "genreport-samples/1",
            "period_us": STEP_US,
            "series": ["vllm:kv_cache_usage_perc"],
        },
        "slots.jsonl": {"format": "genreport-slots/1"},
    }
    points = {
        "samples.jsonl": [[t, sum(map(holds, each)) / POOL_TOKENS] for t, each in held],
        "slots.jsonl": [[t, [[k, round(holds(n)), 0, 0] for k, n in enumerate(each)]] for t, each in held],
    }
    for name, head in heads.items():
        if (file.parent / name).is_file():
            lines = [json.dumps(line) for line in (head, *points[name])]
            (file.parent / name).write_text("\n".join(lines) + "\n", "utf-8")


def of(row: dict, t: float) -> int:
    """Prompt and answer so far of a request in flight that has its first token, else 0."""
    got = int((row["text_s"] <= t).sum())
    return row["prompt_n"] + got if got and t < row["text_s"][-1] else 0


def text(figures: Figures) -> str:
    page = write(report.page(figures), figures.ledger, shared_context(figures)).text
    return " ".join(re.sub(r"<[^>]+>", "", page).split())


def value(figures: Figures, id: str) -> float:
    return figures.ledger[f"length.vllm-bf16.{id}"].value


def blocks(size: int) -> Holds:
    return lambda tokens: -(-tokens // size) * size


# ------------------------------------------------------------------------------------- held


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 9)), max_size=30),
       st.lists(st.integers(-5, 110), min_size=1, max_size=20))  # fmt: skip
def test_both_paths_hold_each_amount_from_its_start_up_to_its_end(amounts: list, times: list) -> None:
    start = np.array([at for at, _, _ in amounts], dtype=float)
    end = np.array([at + lasts for at, lasts, _ in amounts], dtype=float)
    amount, t = np.array([n for _, _, n in amounts], dtype=float), np.array(times, dtype=float)
    truth = [sum(n for at, to, n in zip(start, end, amount, strict=True) if at <= now < to) for now in t]
    assert list(kv.held(t, start, end, amount)) == truth
    assert list(evaluate.held(t, start, end, amount)) == truth


@given(st.lists(st.integers(1, 10_000), min_size=4, max_size=40, unique=True), st.floats(1, 1e5), st.floats(0, 1e8))
def test_the_fit_recovers_a_line(tokens: list[int], k: float, beside: float) -> None:
    x = np.array(tokens, dtype=float)
    y = k * x + beside
    slope = kv.slope(x, y)
    assert slope == pytest.approx(k, rel=1e-6)
    assert slope == pytest.approx(np.polyfit(x, y, 1)[0], rel=1e-6)
    assert kv.r2(x, y, slope, kv.intercept(x, y, slope)) == pytest.approx(1)


# ------------------------------------------------------------------------------------- KV


def test_an_engine_that_holds_each_token_is_linear_and_agrees_with_arithmetic(composed):
    figures = composed()
    assert value(figures, "kv_slope") == pytest.approx(K)
    assert value(figures, "kv_intercept") == pytest.approx(0, abs=1)
    assert value(figures, "kv_r2") == pytest.approx(1)
    said = text(figures)
    assert "vllm-bf16 uses it linearly: 256 B per resident token by regression" in said
    assert "and 256 B by arithmetic" in said


def test_whole_blocks_give_an_intercept_and_no_steeper_line(composed):
    figures = composed(blocks(32), tests=(lengths(32, 64, 256),))
    assert value(figures, "kv_slope") == pytest.approx(K, rel=0.05)
    assert 0 < value(figures, "kv_intercept_tokens") < 32
    assert "uses it linearly" in text(figures)


def test_a_sample_during_a_prefill_is_not_counted(composed):
    figures = composed()
    assert 0 < value(figures, "in64.kv_settled") < value(figures, "in64.kv_samples")
    assert value(figures, "kv_all_points") > value(figures, "kv_points")
    assert value(figures, "kv_all_r2") < value(figures, "kv_r2")
    assert "those taken while a prompt was being computed included" in text(figures)


def test_a_token_that_takes_twice_its_bytes_is_said_not_to_agree(composed):
    figures = composed(lambda tokens: 2 * tokens)
    assert value(figures, "kv_over_arithmetic") == pytest.approx(1)
    assert "but not as arithmetic has it: 512 B per resident token by regression against 256 B" in text(figures)


def test_use_that_follows_no_line_is_said_to_follow_none(composed):
    assert "does not follow a line over the resident tokens" in text(composed(lambda tokens: 90 if tokens % 2 else 5))


def test_without_model_files_arithmetic_cannot_check_the_line(composed):
    assert "which arithmetic cannot check (n/a: no model files were named in the plan)" in text(composed(models=False))


def test_slots_stand_in_where_no_bytes_are_counted(composed):
    figures = composed(engines=(LLAMA,))
    said = text(figures)
    assert re.search(
        r"llamacpp-q4 does not count the bytes it uses; its slots hold 1(\.00)? tokens per resident token", said
    )
    assert figures.ledger["length.llamacpp-q4.kv_slope"].reason == say("missing.kv_no_counter")
    assert "llama.cpp takes the memory of its whole KV cache when it starts" in said


def test_slots_off_the_line_are_said_to_be_off_it(composed):
    assert "do not follow a line over the resident ones" in text(
        composed(lambda tokens: 90 if tokens % 2 else 5, engines=(LLAMA,))
    )


@pytest.mark.parametrize(
    ("what", "reason"),
    [
        ({"log": ""}, "the start-up log does not say"),
        (
            {"log": REPORTED + "Overriding num_gpu_blocks=364 with num_gpu_blocks_override=8\n"},
            "a block override makes",
        ),
        ({"log": REPORTED + "config: tensor_parallel_size=2,\n"}, "each worker reports a pool of its own"),
        ({"samples": False}, "no such gauge was sampled"),
        ({"tests": (lengths(64),)}, "fewer than two lengths"),
        ({"tests": (lengths(16, 64, output=1),)}, say("missing.kv_never_settled")),
        ({"engines": (Engine("other", "openai"),)}, "no such gauge was sampled"),
    ],
    ids=["no pool", "block override", "two workers", "no samples", "one length", "one token", "unknown kind"],
)
def test_a_line_that_cannot_be_fitted_says_why(composed, what, reason):
    figures = composed(**what)
    engine = figures.engines[0]
    assert reason in figures.ledger[f"length.{engine}.kv_slope"].reason
    assert f"whether {engine} uses it linearly cannot be told (n/a: {reason}" in text(figures)


def test_an_override_of_none_is_no_override(composed):
    assert "uses it linearly" in text(composed(log=REPORTED + "num_gpu_blocks_override=None, tensor_parallel_size=1\n"))


def test_a_repeat_with_a_failure_is_left_out_of_the_line(composed):
    whole = composed(repeats=2)
    figures = composed_again(whole, lambda engine, level, repeat, index: failed(repeat == 1 and index == 5))
    assert figures.ledger["length.vllm-bf16.in64.r1.kv_resident"].reason == "a request failed: what it held is unknown"
    assert value(figures, "kv_slope") == pytest.approx(K)
    assert value(figures, "kv_points") < value(whole, "kv_points")


def failed(now: bool) -> Failure | None:
    return Failure(kind="connect") if now else None


def composed_again(whole: Figures, failures: Callable) -> Figures:
    path = whole.round.path.parent / "again"
    compose_round(path, engines=(VLLM,), tests=(SWEEP,), failures=failures)
    for file in (path / "levels" / "length").rglob("requests.jsonl"):
        sample(file, float)
    figures = compute(Round(path))
    audited.recomputed(figures)
    return figures


# ------------------------------------------------------------------------------------- walls, roofline, alignment


@pytest.mark.parametrize(
    ("inputs", "said"),
    [
        ((16, 64, 256), "length moves vllm-bf16 from the memory wall to the arithmetic wall: at 16 tokens of input"),
        ((8, 16), "from 8 tokens to 16 tokens of input vllm-bf16 stays nearer to the memory wall"),
        ((128, 256), "from 128 tokens to 256 tokens of input vllm-bf16 stays nearer to the arithmetic wall"),
        ((256,), "at 256 tokens of input, the only length that tells, vllm-bf16 is nearer to the arithmetic wall"),
    ],
    ids=["turns", "memory", "arithmetic", "one length"],
)
def test_the_wall_that_length_hits_is_told_as_it_is(composed, inputs, said):
    assert said in text(composed(tests=(lengths(*inputs),)))


@pytest.mark.parametrize(
    ("inputs", "said", "unsaid"),
    [
        ((16, 64), "that FLOP/s ceiling is a lower bound, and if it were", "has points above the line"),
        (
            (16, 256),
            "levels exceed that FLOP/s ceiling, so it is too low or too many FLOPs are counted (",
            "ceiling is a lower bound, and",
        ),
        ((8, 16), "stays nearer to the memory wall", "that FLOP/s ceiling"),
    ],
    ids=["lower bound", "exceeded", "memory"],
)
def test_a_nearer_wall_that_rests_on_a_low_ceiling_says_by_what_factor_it_would_turn(composed, inputs, said, unsaid):
    found = text(composed(tests=(lengths(*inputs),)))
    assert said in found
    assert unsaid not in found


def test_intensity_over_the_ridge_is_mfu_over_mbu(composed):
    figures = composed()
    for level in ("in16", "in64", "in256"):
        mfu, mbu = value(figures, f"{level}.mfu"), value(figures, f"{level}.mbu")
        assert value(figures, f"{level}.over_ridge") == pytest.approx(mfu / mbu)


def test_points_above_the_line_are_told(composed):
    found = text(composed())
    assert "vllm-bf16 has points above the line" in found
    assert "Nothing is clipped" in found


@pytest.mark.parametrize("lacking", ["counters", "ceilings"])
def test_without_counters_or_ceilings_no_wall_is_named(composed, lacking):
    figures = composed(**{lacking: False})
    reason = figures.ledger["length.vllm-bf16.walls_cross_input"].reason
    assert f"which one vllm-bf16 comes near cannot be told (n/a: {reason})" in html.unescape(text(figures))


def test_the_shares_are_equal_where_the_intensity_meets_the_ridge(composed):
    figures = composed()
    cross = value(figures, "walls_cross_input")
    inputs, gaps = zip(*[(value(figures, f"in{n}.input"), value(figures, f"in{n}.intensity") - value(figures, "ridge"))
                         for n in (16, 64, 256)], strict=True)  # fmt: skip
    assert gaps[0] < 0 < gaps[-1]
    assert inputs[0] < cross < inputs[-1]


def test_the_roof_bends_at_the_ridge_and_spans_every_point(composed):
    figures = composed()
    x, y = value(figures, "roof_intensity"), value(figures, "roof")
    bandwidth, flops = (figures.ledger[f"engine.vllm-bf16.{name}"].value for name in ("bandwidth", "flops_ceiling"))
    assert (x[1], y[1], y[2]) == (value(figures, "ridge"), flops, flops)
    assert y[0] == pytest.approx(bandwidth * x[0])
    assert x[0] < value(figures, "in16.intensity") < x[2]


def test_sweeps_that_only_differ_in_what_fills_an_iteration_are_the_same(composed):
    figures = composed(load=True, latency=lambda engine, c, repeat: (0.08, 0.02))
    assert value(figures, "alignment_mfu") < report.SAME
    assert "length and load bring vllm-bf16 equally near to each ceiling" in text(figures)


def test_sweeps_of_different_speed_are_said_to_differ(composed):
    figures = composed(load=True)
    assert value(figures, "alignment_mfu") > report.SAME
    assert "length and load differ on vllm-bf16 by up to" in text(figures)


def test_the_largest_difference_is_that_of_some_level_of_either_sweep(composed):
    figures = composed(load=True)
    rows = report.page(figures).context["sides"][0].aligned
    found = [figures.ledger[f"{row.other['mbu']}_difference"].value for row in rows]
    assert {row.sweep for row in rows} == {"length", "concurrency"}
    assert value(figures, "alignment_mbu") == max(found)


@pytest.mark.parametrize(
    ("tests", "reason", "said"),
    [
        ((SWEEP,), say("missing.no_sweep"), "this round has no concurrency sweep to hold the lengths against"),
        (
            (SWEEP, sweep(1, 2, input=1, output=64)),
            say("missing.nothing_shared"),
            "length and load cannot be held against each other on vllm-bf16 (MBU n/a: the two sweeps",
        ),
    ],
    ids=["no sweep", "apart"],
)
def test_sweeps_that_share_nothing_are_not_compared(composed, tests, reason, said):
    figures = composed(tests=tests)
    assert figures.ledger["length.vllm-bf16.alignment_mbu"].reason == reason
    assert said in text(figures)


def test_what_an_engine_announces_is_held_against_arithmetic(composed):
    assert composed().ledger["engine.vllm-bf16.announced_over_residents"].value == 0


# ------------------------------------------------------------------------------------- the page


def test_a_round_without_a_length_sweep_shows_the_plan_entry(composed):
    said = text(composed(tests=(LOAD,)))
    assert "This round has no length sweep" in said
    assert "kind: length" in said


def test_a_sweep_in_which_all_failed_says_so(composed):
    said = text(composed(failures=lambda *_: failed(True)))
    assert "No request of this sweep succeeded" in said


def test_engines_without_a_length_sweep_are_named(composed):
    sweep_of_one = compose.Test("length", "length", SWEEP.levels, ("vllm-bf16",))
    figures = composed(engines=(VLLM, LLAMA), tests=(LOAD, sweep_of_one))
    assert "No length sweep in this round: llamacpp-q4." in text(figures)


def test_every_number_of_the_page_and_its_charts_is_a_figure(composed, tmp_path):
    figures = composed(engines=(VLLM, LLAMA), load=True)
    page = report.page(figures)
    written = write(page, figures.ledger, shared_context(figures))
    assert audited.digits(figures.round.path, written.text) == []
    found = audited.charts(figures, page.context["charts"].values())
    assert not found.failures, "\n".join(found.failures)
    assert found.counts["chart values"] > 100


def test_the_charts_say_themselves_in_words(composed):
    charts = report.page(composed()).context["charts"]
    assert {"kv.vllm-bf16", "walls.vllm-bf16", "roofline.vllm-bf16", "intensity"} <= charts.keys()
    assert "256\u202fB per resident token" in charts["kv.vllm-bf16"].alt
    assert "at 16\u202ftokens" in charts["walls.vllm-bf16"].alt
    assert "slope: bandwidth 30\u202fMB/s" in charts["roofline.vllm-bf16"].alt
