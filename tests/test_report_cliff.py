"""04 The cliff: which sentence each kind of overload earns, and what the page says where figures are missing."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import audited
from compose import LLAMA, VLLM, Engine, Load, Test, compose_round
from genreport.audit.pages import read_page
from genreport.charts import cliff as drawings
from genreport.evaluate import evaluate
from genreport.figures import Figures, cliff, cliff_counts, compute
from genreport.records import Failure, Request
from genreport.rounds import Round
from genreport.words import say

# the composed pool holds 46,592 tokens: eight of the long requests ask for 64,128
NORMAL, LONG = Load("normal", 8, 4000, 16, 16), Load("long", 8, 8000, 16, 16)
L, N = "cliff.vllm-bf16.long", "cliff.vllm-bf16.normal"
OVER = f"{L}.over.normal"


def shapes(*loads: Load) -> Test:
    return Test("cliff", "cliff", loads or (NORMAL, LONG))


def slowed(ttft: float = 1, itl: float = 1) -> Callable[[str, Request], Request]:
    """The long shape's first token `ttft` times as late, its gaps `itl` times as long."""

    def alter(key: str, request: Request) -> Request:
        if "/long/" not in key or not request.gaps_us:
            return request
        first, *rest = request.gaps_us
        gaps = [round(first * ttft), *(round(gap * itl) for gap in rest)]
        return request.model_copy(update={"gaps_us": gaps, "end_us": request.t0_us + sum(gaps) + 40})

    return alter


def composed(tmp_path: Path, **what: Any) -> Round:
    given = {"engines": (VLLM,), "tests": (shapes(),), "alter": slowed(20)} | what
    return compose_round(tmp_path / "round", **given)


def append(round: Round, name: str, text: Callable[[str], str], *, level: str = "*") -> Round:
    """The round with more text in one file of each repeat of a level; `text` gets the file's path."""
    for file in round.path.glob(f"levels/cliff/*/{level}/r*/{name}"):
        file.write_bytes(gzip.compress(gzip.decompress(file.read_bytes()) + text(file.as_posix()).encode(), mtime=0))
    return Round(round.path)


def with_times(round: Round, queue: float, prefill: float) -> Round:
    """vLLM's histograms of queue and prefill: 16 requests between the scrapes, with these means."""

    def lines(moment: int) -> str:
        sums = {"queue_time": queue, "prefill_time": prefill}
        return "".join(
            f'vllm:request_{name}_seconds_sum{{engine="0"}} {5 + moment * 16 * mean}\n'
            f'vllm:request_{name}_seconds_count{{engine="0"}} {7 + moment * 16}\n'
            for name, mean in sums.items()
        )

    append(round, "before.prom.gz", lambda _: lines(0))
    return append(round, "after.prom.gz", lambda _: lines(1))


def step(context: int, requests: int, tokens: int) -> str:
    return (
        f"INFO [loggers.py:182] Engine 000: Iteration(7): 1 context requests, {context} context tokens, {requests} "
        f"generation requests, {tokens} generation tokens, iteration elapsed time: 9.00 ms\n"
    )


def with_log(round: Round, again: int) -> Round:
    """Iteration lines of the long shape: its prompts once, and `again` tokens of sequences that returned."""
    return append(round, "engine.log.gz", lambda _: step(16 * 8000, 0, 0) + step(0, 3, 3 + again), level="long")


def text_of(round: Round, page: str = "cliff/index.md") -> str:
    """What a reader sees of the page; the build recomputes every figure by the second path first."""
    text = audited.page(round, page)
    return " ".join(re.sub(r"<[^>]+>", "", text).split())


def value(figures: Figures, id: str) -> float:
    return figures.ledger[id].value


# ------------------------------------------------------------------------------------- the diagnosis


@pytest.mark.parametrize(
    ("ttft", "itl", "said"),
    [
        (20, 1, "runs out of room, not of speed"),
        (20, 2, "beside the queue, the decode itself is slower"),
        (1, 2, "the decode is slower, and no long queue is"),
        (1, 1, "reached no cliff"),
    ],
    ids=["capacity", "both", "decode", "none"],
)
def test_the_diagnosis_follows_from_ttft_and_itl(tmp_path, ttft, itl, said):
    sentences = ["runs out of room", "beside the queue", "and no long queue is", "reached no cliff", "cannot be told"]
    text = text_of(composed(tmp_path, alter=slowed(ttft, itl))).split("What was measured")[0]
    assert said in text
    assert [s for s in sentences if s in text] == [s for s in sentences if s in said]


def unstated(alter: Callable[[str, Request], Request]) -> Callable[[str, Request], Request]:
    """The same from a server that says nothing of its own times."""
    return lambda key, request: alter(key, request).model_copy(update={"server": {}})


def prefilling(ttft: float) -> Callable[[str, Request], Request]:
    """The long shape's first token later, and all of it prefill by the server's own account."""

    def alter(key: str, request: Request) -> Request:
        request = slowed(ttft)(key, request)
        metrics = request.server["metrics"] | {"time_to_first_token_ms": request.gaps_us[0] / 1000 - 1}
        return request.model_copy(update={"server": {"metrics": metrics}})

    return alter


def test_a_ttft_that_prefill_accounts_for_is_no_cliff(tmp_path):
    figures = compute(composed(tmp_path, alter=prefilling(20)))
    assert value(figures, f"{OVER}.ttft_p50") > 15
    assert value(figures, f"{OVER}.ttft_beyond_prefill") == pytest.approx(1, rel=0.05)
    assert "reached no cliff" in text_of(figures.round)


def test_a_wait_that_no_prefill_accounts_for_is_a_queue_however_long_the_prompt(tmp_path):
    """Three times the wait for twice the prompt, but prefill took no longer: the rest is queue."""
    figures = compute(composed(tmp_path, alter=slowed(3)))
    assert value(figures, f"{OVER}.ttft_beyond_prompt") < 2 < value(figures, f"{OVER}.ttft_beyond_prefill")
    assert "runs out of room" in text_of(figures.round)


def test_without_a_stated_prefill_the_prompts_growth_is_what_ttft_is_held_against(tmp_path):
    figures = compute(composed(tmp_path, alter=unstated(slowed(3))))
    assert figures.ledger[f"{OVER}.ttft_beyond_prefill"].missing
    assert value(figures, f"{OVER}.prompt") == 2
    assert value(figures, f"{OVER}.ttft_beyond_prompt") == pytest.approx(1.5, rel=0.05)
    assert "reached no cliff" in text_of(figures.round)


def test_a_full_pool_without_a_queue_is_said_to_be_near_the_edge(tmp_path):
    assert "so the edge is near" in text_of(composed(tmp_path, alter=slowed(1), preemptions=1))


def test_a_queue_beside_an_empty_pool_is_at_another_limit(tmp_path):
    loads = (Load("normal", 8, 40, 16, 16), Load("long", 8, 80, 16, 16))
    text = text_of(composed(tmp_path, tests=(shapes(*loads),)))
    assert "though not for KV" in text
    assert "though not for KV" not in text_of(composed(tmp_path / "full"))


def test_a_shape_in_which_all_failed_gives_no_diagnosis(tmp_path):
    dead = Failure(kind="http", status=503, message="<b>full</b>")
    text = text_of(composed(tmp_path, failures=lambda engine, level, *_: dead if level == "long" else None))
    assert "cannot be told: 0 requests completed and 32 failed there" in text
    assert "failed requests" in text


# ------------------------------------------------------------------------------------- the figures


def test_demand_over_pool_counts_tokens_at_full_length(tmp_path):
    figures = compute(composed(tmp_path))
    assert value(figures, f"{L}.cliff.oversubscription") == 8 * 8016 / 46592
    assert value(figures, f"{L}.cliff.expected_residents") == 46592 / 8008
    assert value(figures, f"{L}.cliff.max_num_seqs") == 5
    assert value(figures, f"{L}.cliff.residency_over_announced") == pytest.approx(
        value(figures, f"{L}.running.mean") / 22.75 - 1
    )
    overshoot = value(figures, f"{L}.running.max") - value(figures, f"{L}.running.mean")
    assert value(figures, f"{L}.cliff.overshoot") == overshoot


# ------------------------------------------------------------------------------------- what ran


def ran(held: tuple[int, int], ms: float, engine: int = 0) -> str:
    """An iteration that held so many requests in prefill and so many in decode."""
    context, generation = held
    return (
        f"INFO Engine {engine:03}: Iteration(7): {context} context requests, {context * 10} context tokens, {generation} "
        f"generation requests, {generation} generation tokens, iteration elapsed time: {ms:.2f} ms, "
        f"GPU KV cache usage: {2 * (context + generation)}.0%\n"
    )


def with_steps(round: Round, *steps: str) -> Round:
    return append(round, "engine.log.gz", lambda _: "".join(steps))


ANNOUNCED = (ran((1, 21), 1), ran((0, 23), 3))  # 22.75, as the composed start log announces
FEWER = (ran((4, 0), 900), ran((0, 8), 100))


def test_what_ran_is_the_mean_over_the_time_of_the_iterations_and_not_over_the_samples(tmp_path):
    figures = compute(with_steps(composed(tmp_path), *FEWER))
    assert value(figures, f"{L}.running.mean") == pytest.approx((4 * 900 + 8 * 100) / 1000)
    assert value(figures, f"{L}.running.max") == 8
    assert value(figures, f"{L}.kv_use.mean") == pytest.approx(0.02 * 4.4)
    assert "gauge_lags" in figures.ledger[f"{L}.r1.running.sampled.mean"].notes
    assert figures.ledger[f"{L}.over_time.running.value"].sources[0].file.endswith("samples.jsonl")
    assert not lagging(figures)


def lagging(figures: Figures) -> list[str]:
    """Figures of the long shape that rest on a gauge that lags."""
    names = ("running.mean", "running.max", "kv_use.mean", "cliff.residency_over_announced", "cliff.overshoot")
    return [name for name in names if "gauge_lags" in figures.ledger[f"{L}.{name}"].notes]


def test_a_recomputation_touches_at_most_as_many_sequences_as_ever_ran(tmp_path):
    figures = compute(with_steps(composed(tmp_path, preemptions=3), *FEWER))
    assert value(figures, f"{L}.cliff.touched_share") == 8 * value(figures, f"{L}.cliff.preemption_share")


def test_several_engines_in_one_log_do_not_add_up_so_the_gauge_stays(tmp_path):
    figures = compute(with_steps(composed(tmp_path), ran((1, 2), 5), ran((1, 2), 5, engine=1)))
    assert f"{L}.r1.running.sampled.mean" not in figures.ledger
    assert lagging(figures)


def test_a_load_that_pauses_keeps_the_gauge_for_rest_stands_in_no_line(tmp_path):
    load = Load("r4", 4, 64, 16, 8, rate=4)
    pauses = composed(tmp_path, tests=(Test("open", "open", (load,)),), alter=None)
    for file in pauses.path.glob("levels/open/*/*/r*/engine.log.gz"):
        file.write_bytes(gzip.compress(ran((1, 0), 5).encode(), mtime=0))
    figures = compute(Round(pauses.path))
    assert "gauge_lags" in figures.ledger["open.vllm-bf16.r4.running.mean"].notes


@pytest.mark.parametrize(
    ("steps", "said"),
    [
        (ANNOUNCED, "22.8 sequences of long running on average, as many as it announced"),
        (FEWER, "kept 4.40 sequences of long running on average, not the 22.8 it announced (−80.7 %)"),
        ((), "Whether vllm-bf16 kept the 22.8 sequences running that it announced cannot be told: its gauge says"),
    ],
    ids=["as announced", "below", "gauge only"],
)
def test_what_ran_is_held_against_the_announcement_only_where_the_log_tells(tmp_path, steps, said):
    text = text_of(with_steps(composed(tmp_path), *steps))
    told = ["as many as it announced", "not the 22.8 it announced", "cannot be told: its gauge", "kept at least"]
    assert said in text
    assert sum(sentence in text for sentence in told) == 1


def test_a_gauge_that_lags_still_tells_that_at_least_so_many_ran(tmp_path):
    round = composed(tmp_path, preemptions=2)
    for file in round.path.glob("levels/cliff/*/long/r*/samples.jsonl"):
        head, *rows = file.read_text("utf-8").splitlines()
        times = [row.split(",")[0] for row in rows]
        file.write_text("\n".join([head, *(f"{t}, 30, 0, 0.9]" for t in times)]) + "\n", "utf-8")
    text = text_of(Round(round.path))
    assert "kept at least 30 sequences of long running on average, 31.9 % above the 22.8 it announced" in text
    assert "It admitted up to 30 at once; as they grow the pool runs out" in text


def test_the_guide_says_how_far_off_the_announcement_was_only_where_the_log_tells(tmp_path):
    tests = (Test("concurrency", "concurrency", (Load("c1", 1), Load("c2", 2))), shapes())
    round = composed(tmp_path, tests=tests)
    said = "4.40 ran on average against 22.8 announced: off by −80.7 %"
    assert "was driven past it" not in text_of(round, "guide/index.md")
    assert said in text_of(with_steps(round, *FEWER), "guide/index.md")


def test_the_floor_of_what_ran_needs_more_than_a_gauge_that_lags(tmp_path):
    round = composed(tmp_path)
    assert f"{L}.floor_running_s" not in compute(round).ledger
    assert value(compute(with_steps(round, *FEWER)), f"{L}.floor_running_s") > 0


# ------------------------------------------------------------------------------------- shapes and blocks


def test_shapes_are_held_against_the_shortest_whatever_the_plan_calls_them(tmp_path):
    loads = (Load("b", 8, 8000, 16, 16), Load("a", 8, 4000, 16, 16), Load("c", 8, 2000, 16, 16))
    figures = compute(composed(tmp_path, tests=(shapes(*loads),), alter=None))
    assert value(figures, "cliff.vllm-bf16.b.over.c.prompt") == 4
    assert value(figures, "cliff.vllm-bf16.a.over.c.prompt") == 2
    assert "cliff.vllm-bf16.b.over.a.prompt" not in figures.ledger


def test_whole_blocks_hold_fewer_sequences_than_tokens_do():
    assert cliff_counts.in_blocks(3072, 128, 256, 256) == 5
    assert cliff_counts.in_blocks(1024, 128, 200, 100) == 2
    formula = "(pool / block - 1) // -(-(input + output) // block)"
    assert evaluate(formula, {"pool": 3072, "block": 128, "input": 256, "output": 256}) == 5


@pytest.mark.parametrize(
    "labels", ['block_size="128"', 'a="x",_block_size_resolved="True",block_size="128",mamba_block_size="None"']
)
def test_the_advice_is_in_whole_blocks_where_the_engine_states_their_size(tmp_path, labels):
    round = append(composed(tmp_path), "before.prom.gz", lambda _: f"vllm:cache_config_info{{{labels}}} 1.0\n")
    figures = compute(round)
    assert value(figures, f"{L}.cliff.block_tokens") == 128
    assert value(figures, f"{L}.cliff.max_num_seqs_in_blocks") == 363 // 63


def test_published_ratios_come_out_of_their_figures():
    assert round(cliff.oversubscription(64, 6144, 2048, 120064), 1) == 4.4


# ------------------------------------------------------------------------------------- preemptions


def test_without_preemptions_there_is_none_to_show(tmp_path):
    text = text_of(composed(tmp_path))
    assert "No preemption was counted on vllm-bf16 at long" in text
    assert "sent sequences back to the queue" not in text


@pytest.mark.parametrize(
    ("output", "preemptions", "said"),
    [
        (128, 1, "cannot see them, not even with every sequence that waits beside them"),
        (16, 1, "cannot see the preempted sequences; but while one is computed again"),
        (16, 3, "so ITL p99 can see them"),
    ],
    ids=["unseen", "beside", "seen"],
)
def test_whether_p99_sees_preemptions_depends_on_their_share_of_the_gaps(tmp_path, output, preemptions, said):
    loads = (Load("normal", 8, 4000, output, 16), Load("long", 8, 8000, output, 16))
    round = composed(tmp_path, tests=(shapes(*loads),), preemptions=preemptions)
    share = value(compute(round), f"{L}.cliff.preemption_share")
    assert share == 2 * preemptions / (32 * (output - 1))
    text = re.sub(r"ITL p99 \([^)]*\)", "ITL p99", text_of(round))
    assert said in text


# ------------------------------------------------------------------------------------- computed twice


def test_a_log_that_shows_more_prefill_than_the_counter_is_shown_beside_it(tmp_path):
    round = with_log(composed(tmp_path, preemptions=2), 5000)
    counter = 'vllm:request_prefill_kv_computed_tokens_sum{engine="0"} '
    append(round, "before.prom.gz", lambda _: f"{counter}500\n")
    append(round, "after.prom.gz", lambda file: f"{counter}{500 + 16 * (8000 if '/long/' in file else 4000)}\n")
    figures = compute(Round(round.path))
    assert value(figures, f"{L}.cliff.recomputed_by_log") == 2 * 5000
    assert value(figures, f"{L}.cliff.recomputed_by_counter") == 0
    assert value(figures, f"{L}.cliff.recomputed_by_iterations") == 0
    text = text_of(figures.round)
    assert "disagree: the iteration lines hold 10,000" in text


def test_a_log_and_a_counter_that_agree_are_said_to(tmp_path):
    round = with_log(composed(tmp_path), 0)
    counter = 'vllm:request_prefill_kv_computed_tokens_sum{engine="0"} '
    append(round, "before.prom.gz", lambda _: f"{counter}0\n")
    append(round, "after.prom.gz", lambda file: f"{counter}{16 * (8000 if '/long/' in file else 4000)}\n")
    assert "and its counter agree: 0" in text_of(Round(round.path))


def test_one_way_of_counting_alone_is_not_confirmed(tmp_path):
    assert "which nothing confirms" in text_of(with_log(composed(tmp_path), 700))


def test_failed_requests_leave_no_count_of_tokens_computed_twice(tmp_path):
    def some(engine: str, level: str, repeat: int, index: int) -> Failure | None:
        return Failure(kind="stall") if (level, index) == ("long", 5) else None

    figures = compute(with_log(composed(tmp_path, failures=some), 700))
    assert figures.ledger[f"{L}.cliff.recomputed_by_log"].reason == say("missing.failed_prompts")
    assert "runs out of room" in text_of(figures.round)


# ------------------------------------------------------------------------------------- the wait


@pytest.mark.parametrize(
    ("queue", "prefill", "said"),
    [(2.0, 0.25, "so hardware that prefills twice as fast saves 125 ms"), (0.25, 2.0, "the wait is prefill (2")],
    ids=["queue", "prefill"],
)
def test_the_wait_is_told_by_its_larger_part(tmp_path, queue, prefill, said):
    figures = compute(with_times(composed(tmp_path), queue, prefill))
    assert value(figures, f"{L}.queue.mean") == pytest.approx(queue)
    assert value(figures, f"{L}.front_end") == pytest.approx(value(figures, f"{L}.ttft.mean") - queue - prefill)
    assert said in text_of(figures.round).replace("\u202f", " ")


def test_llamacpp_queues_by_littles_law_and_states_its_prefill(tmp_path):
    figures = compute(composed(tmp_path, engines=(LLAMA,)))
    id = "cliff.llamacpp-q4.long"
    assert value(figures, f"{id}.prefill.mean") == value(figures, f"{id}.prefill_stated.mean")
    assert value(figures, f"{id}.queue.mean") == 0
    assert "by_little" in figures.ledger[f"{id}.queue.mean"].notes
    assert figures.ledger[f"{id}.cliff.recomputed_by_log"].missing
    assert "--parallel" in text_of(figures.round)


# ------------------------------------------------------------------------------------- over time


def test_the_curves_of_a_repeat_are_its_samples(tmp_path):
    figures = compute(composed(tmp_path, preemptions=2))
    running, t = (figures.ledger[f"{L}.over_time.running.{name}"] for name in ("value", "t"))
    assert len(running.value) == len(t.value) == figures.ledger[f"{L}.r1.running.mean"].n
    assert max(running.value) == value(figures, f"{L}.r1.running.max")
    assert t.value[0] == 0
    assert figures.ledger[f"{L}.over_time.preemptions.value"].missing  # the composed samples have no such series


def test_a_sampled_counter_of_preemptions_is_drawn_from_the_scrape_before(tmp_path):
    round = composed(tmp_path, preemptions=2)
    for file in round.path.glob("levels/cliff/*/*/r*/samples.jsonl"):
        head, *rows = file.read_text("utf-8").splitlines()
        rows = [row.replace("]", f", {2 if k > 3 else 0}.0]") for k, row in enumerate(rows)]
        head = head.replace('"vllm:kv_cache_usage_perc"', '"vllm:kv_cache_usage_perc", "vllm:num_preemptions_total"')
        file.write_text("\n".join([head, *rows]) + "\n", "utf-8")
    curve = compute(Round(round.path)).ledger[f"{L}.over_time.preemptions.value"].value
    assert (min(curve), max(curve)) == (0, 2)
    assert list(curve) == sorted(curve)
    text_of(Round(round.path))


def test_a_long_repeat_is_drawn_by_every_second_sample_or_fewer(tmp_path):
    loads = (Load("normal", 2, 40, 16, 2), Load("long", 2, 80, 200, 40))
    figures = compute(composed(tmp_path, tests=(shapes(*loads),), alter=None))
    curve = figures.ledger[f"{L}.over_time.running.value"]
    assert len(curve.value) <= 240 < curve.n
    assert curve.formula.startswith("sample[::")
    text_of(figures.round)


def point(series: str, k: int, value: float, unit: str = "1") -> dict[str, Any]:
    return {
        "series": series, "unit": unit, "t": float(k), "t_id": f"x.{series}.t[{k}]", "value": value,
        "value_id": f"x.{series}.value[{k}]", "shown": f"{value:g}", "after": f"{k} s", "href": "figures/x.html#y",
    }  # fmt: skip


def test_requests_and_kv_use_share_the_time_axis_and_have_their_own_scales():
    rows = [point("running", k, 3.0) for k in range(4)] + [point("KV use", k, 0.2 * k, "share") for k in range(4)]
    chart = drawings.over_time(rows, "vllm-bf16", "long")
    assert chart.spec["resolve"] == {"scale": {"y": "independent"}}
    assert "KV use: at most 0.6, after 3 s" in chart.alt
    assert "resolve" not in drawings.over_time(rows[:4], "vllm-bf16", "long").spec
    assert drawings.over_time([], "vllm-bf16", "long") is None


def test_a_ratio_of_zero_has_no_bar():
    rows = [
        {"engine": "e", "colour": "1", "metric": name, "value": value, "value_id": f"x.{name}", "shown": f"{value:g}×",
         "href": "figures/x.html#y"}
        for name, value in (("TTFT p50", 215.0), ("throughput", 0.38), ("running", 0.0))
    ]  # fmt: skip
    chart = drawings.ratios(rows, "e", "long", "normal")
    assert "TTFT p50: 215×" in chart.alt
    assert "running" not in chart.alt
    assert drawings.ratios(rows[2:], "e", "long", "normal") is None


# ------------------------------------------------------------------------------------- what is missing


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"counters": False, "samples": False, "logs": False}, "Nothing was sampled while it ran"),
        ({"models": False, "ceilings": False}, "runs out of room"),
        ({"engines": (Engine("plain", "openai"),), "counters": False, "samples": False}, "runs out of room"),
        ({"tests": (shapes(LONG),)}, "The test ran with one shape only (long on vllm-bf16)"),
        ({"tests": (shapes(NORMAL),), "engines": (VLLM, LLAMA)}, "one shape only"),
        ({"unfinished": ["cliff/vllm-bf16/long/r1", "cliff/vllm-bf16/long/r2"], "seal": False}, "one shape only"),
        ({"failures": lambda *_: Failure(kind="connect")}, "cannot be told: 0 requests completed and 32 failed"),
        ({"tests": (Test(),), "alter": None}, "Overload was not tested in this round"),
        ({"tests": (shapes(), Test("second", "cliff", (NORMAL, LONG)))}, "in test second"),
    ],
    ids=["no counters", "no models", "plain server", "one shape", "two engines", "unfinished", "all failed", "no cliff",
         "two tests"],
)  # fmt: skip
def test_a_poor_round_gives_a_page_that_says_what_it_lacks(tmp_path, what, said):
    round = composed(tmp_path, **what)
    text = text_of(round)
    assert said in text
    assert "None" not in text


@pytest.mark.parametrize("preemptions", [0, 2])
def test_every_number_of_the_page_has_its_provenance(tmp_path, preemptions):
    round = with_times(composed(tmp_path, engines=(VLLM, LLAMA), preemptions=preemptions), 2.0, 0.25)
    text = audited.page(round, "cliff/index.md").split("---", 2)[2]
    seen = read_page(f"<article>{text}</article>")
    assert seen.loose == []
    assert seen.numbers
    assert seen.drawings
