"""05 Head to head: which sentence each pair of engines earns, and what stands where figures are missing."""

from __future__ import annotations

import gzip
import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import altair as vega
import numpy as np
import pytest

import audited
from compose import LLAMA, VLLM, Engine, Test, compose_round, sweep
from genreport.figures import Figures, compute, effects, graphs, steady, waves
from genreport.figures.book import Absent
from genreport.pages import shared_context, write
from genreport.records import Failure, Request
from genreport.reports import head_to_head
from genreport.reports.page import Page
from genreport.rounds import Round, packed

BASE, OTHER = "vllm-bf16", "llamacpp-q4"
A, B = f"concurrency.{BASE}", f"concurrency.{OTHER}"
PAIR = f"pair.concurrency.{BASE}.{OTHER}"
# shares the precision with the baseline and the engine with the challenger
THIRD = Engine("llamacpp-bf16", "llamacpp", "bf16", itl_s=0.012, itl_per_c=0.0030, ttft_per_c=0.02)
Alter = Callable[[str, Request], Request]


def figures_of(tmp_path: Path, **what: Any) -> Figures:
    return compute(compose_round(tmp_path / "round", **({"tests": (sweep(1, 2, 4),)} | what)))


def pages_of(figures: Figures) -> list[Page]:
    """The pages, every figure recomputed by the second path first."""
    audited.recomputed(figures)
    return head_to_head.pages(figures)


def markdown(figures: Figures, other: str = OTHER) -> str:
    page = next(
        page for page in pages_of(figures) if page.path in (f"head-to-head-{other}/index.md", "head-to-head/index.md")
    )
    text = write(page, figures.ledger, shared_context(figures)).text
    assert audited.digits(figures.round.path, text) == []
    return text


def read(figures: Figures, other: str = OTHER) -> str:
    """What a reader sees of a page."""
    cells = re.sub(r"</t[dh]>", " ", markdown(figures, other))
    return " ".join(html.unescape(re.sub(r"<[^>]+>", "", cells)).split())


def section(text: str, name: str) -> str:
    """A page's text from one heading to the next."""
    return text.split(f"## {name}", 1)[1].split(" ## ", 1)[0]


def value(figures: Figures, id: str) -> Any:
    return figures.ledger[id].value


def flat(itl: dict[str, float], *, ttft: float = 0.05) -> Callable[[str, int, int], tuple[float, float]]:
    """Latencies that do not change with the load, so that throughput grows with it."""
    return lambda engine, c, repeat: (ttft, itl[engine])


# ------------------------------------------------------------------------------------- the answer


def test_curves_that_cross_have_a_winner_on_either_side(tmp_path):
    text = read(figures_of(tmp_path, tests=(sweep(1, 2, 4, 8),)))
    assert "At C = 1 llamacpp-q4 wins with" in text
    assert "at C = 8 vllm-bf16 wins with" in text
    assert "Their throughput crosses at C = " in text
    assert "meet at C = " in section(text, "Crossover")


@pytest.mark.parametrize("ahead", [BASE, OTHER])
def test_an_engine_ahead_throughout_is_named(tmp_path, ahead):
    itl = {BASE: 0.02, OTHER: 0.02} | {ahead: 0.01}
    text = read(figures_of(tmp_path, latency=flat(itl)))
    assert f"does not cross in the measured range (n/a): {ahead} is ahead throughout." in text
    assert f"throughput: {ahead} is ahead at every level that both ran." in text


def same(key: str, request: Request) -> Request:
    """Every answer by the same clock, so that two engines are equal to the microsecond."""
    gaps = [50_000, *([20_000] * (len(request.gaps_us) - 3)), 30, 0]
    return request.model_copy(update={"gaps_us": gaps, "due_us": 1000, "t0_us": 1020, "end_us": 1020 + sum(gaps)})


def test_equal_engines_are_said_to_be_equal(tmp_path):
    text = read(figures_of(tmp_path, alter=same))
    assert "both deliver" in text
    assert "Their throughput is the same at every level." in text
    assert "throughput: both are the same." in text
    assert "The lines lie on each other." in text
    assert "wins with" not in text


def test_one_common_level_says_nothing_of_a_crossing(tmp_path):
    text = read(figures_of(tmp_path, tests=(sweep(2),)))
    assert "Whether their throughput crosses cannot be told: fewer than two common levels." in text
    assert "Whether they cross cannot be told: fewer than two common levels." in text


def test_a_lead_smaller_than_the_spread_of_repeats_is_no_win(tmp_path):
    def latency(engine: str, c: int, repeat: int) -> tuple[float, float]:
        return 0.05, (0.02 if engine == BASE else 0.021) * (1 + 0.2 * repeat)

    text = read(figures_of(tmp_path, latency=latency))
    assert "At C = 1 it is undecided between vllm-bf16 with" in text
    assert "throughput: undecided at every level that both ran." in text
    assert "vllm-bf16's is the higher one throughout, but undecided at every level that both ran." in text
    assert "wins with" not in text


def test_one_repeat_each_is_not_tested(tmp_path):
    text = read(figures_of(tmp_path, repeats=1))
    assert "(not tested: fewer than two repeats of one of them have a result)" in text
    assert "wins with" not in text
    assert "so how much repeats would differ is not known" in text


def test_a_lead_at_some_loads_only_is_told_load_by_load(tmp_path):
    """At C = 1 the repeats leave it open, at the other loads they do not."""

    def latency(engine: str, c: int, repeat: int) -> tuple[float, float]:
        return 0.05, (0.02 if engine == BASE else 0.021) * (1 + (0.2 * repeat if c == 1 else 0))

    text = read(figures_of(tmp_path, latency=latency))
    assert "throughput: vllm-bf16 is ahead at C = 2 and 4; undecided at C = 1." in text
    assert "is the higher one throughout, but undecided at C = 1." in text


def test_engines_without_a_common_level_have_nothing_to_compare(tmp_path):
    lacking = [f"concurrency/{BASE}/c{c}/r{r}" for c in (1, 2) for r in (1, 2)]
    lacking += [f"concurrency/{OTHER}/c4/r{r}" for r in (1, 2)]
    text = read(figures_of(tmp_path, unfinished=lacking, seal=False))
    assert "The two engines share no level, so there is nothing to compare." in text
    assert "At no common level did both engines complete a request" in text


def failing(*engines: str) -> dict[str, Any]:
    return {"failures": lambda engine, *_: Failure(kind="connect", message="refused") if engine in engines else None}


def test_a_challenger_whose_requests_all_failed_is_said_to_have_failed(tmp_path):
    text = read(figures_of(tmp_path, **failing(OTHER)))
    assert "llamacpp-q4 completed no request at any level that both ran (16 failed at C = 1, 32 at C = 4)" in text
    assert "vllm-bf16 completed no request" not in text
    assert "throughput, TTFT p50, TTFT p99, ITL p50, E2EL p95, prefill as the server counts it: cannot be told" in text
    assert "llamacpp-q4 over vllm-bf16, C" not in text
    assert "failed requests (16, 0)" in section(text, "Anomalies")


def test_two_engines_that_failed_are_both_named(tmp_path):
    text = read(figures_of(tmp_path, **failing(BASE, OTHER)))
    assert "vllm-bf16 completed no request" in text
    assert "llamacpp-q4 completed no request" in text


def test_a_round_of_one_engine_shows_what_would_measure_a_pair(tmp_path):
    figures = figures_of(tmp_path, engines=(VLLM,))
    (page,) = pages_of(figures)
    assert (page.path, page.template) == ("head-to-head/index.md", "not-measured.md")
    assert "plan" in read(figures)


def test_every_challenger_has_a_page_of_its_own(tmp_path):
    figures = figures_of(tmp_path, engines=(VLLM, LLAMA, THIRD, Engine("d"), Engine("e", "openai")))
    paths = [page.path for page in pages_of(figures)]
    assert paths == [f"head-to-head-{engine}/index.md" for engine in (OTHER, "llamacpp-bf16", "d", "e")]
    assert all("None" not in read(figures, engine) for engine in (OTHER, "llamacpp-bf16", "d", "e"))


@pytest.mark.parametrize(
    "lacking", ["counters", "samples", "logs", "models", "ceilings"], ids=lambda name: f"without {name}"
)
def test_a_page_without_some_evidence_still_reads(tmp_path, lacking):
    text = read(figures_of(tmp_path, **{lacking: False}))
    assert "None" not in text
    assert "n/a" in text


def test_nothing_is_still_to_come(tmp_path):
    assert "Still to come" not in read(figures_of(tmp_path))


# ------------------------------------------------------------------------------------- variants


def test_variants_stand_side_by_side(tmp_path):
    slots = Engine(f"{OTHER}-np2", "llamacpp", "q4_1", itl_s=0.008, variant_of=OTHER)
    text = section(read(figures_of(tmp_path, engines=(VLLM, LLAMA, slots))), "Data")
    assert "variant its own flags" in text
    assert "llamacpp-q4-np2 --composed" in text


def test_a_round_without_variants_says_so(tmp_path):
    assert "This round measured no variant" in read(figures_of(tmp_path))


# ------------------------------------------------------------------------------------- engine or weights


def split(figures: Figures) -> str:
    return section(read(figures), "Engine or weights")


def test_a_third_engine_splits_the_ratio_into_engine_and_precision(tmp_path):
    figures = figures_of(tmp_path, engines=(VLLM, LLAMA, THIRD))
    via = f"{PAIR}.via_llamacpp-bf16"
    for level in ("c1", "c2", "c4"):
        parts = [value(figures, f"{via}.ratio_{part}_{level}") for part in effects.PARTS]
        assert np.prod(parts) == pytest.approx(value(figures, f"{PAIR}.ratio_{level}"))
    mean = [value(figures, f"{via}.ratio_engine_{level}") for level in ("c1", "c2", "c4")]
    assert value(figures, f"{via}.ratio_engine") == pytest.approx(np.prod(mean) ** (1 / 3))
    text = split(figures)
    assert "engine (llamacpp-bf16 over vllm-bf16) times precision (llamacpp-q4 over llamacpp-bf16)" in text
    assert "A fourth engine, the baseline's kind at the challenger's precision" in text


def test_the_bytes_are_held_against_the_precision_s_part_of_the_step(tmp_path):
    figures = figures_of(tmp_path, engines=(VLLM, LLAMA, THIRD))
    via = f"{PAIR}.via_llamacpp-bf16"
    engine, precision = (value(figures, f"{via}.step_{part}") for part in effects.PARTS)
    assert engine * precision == pytest.approx(value(figures, f"{PAIR}.measured_step_ratio"))
    weights = [value(figures, f"engine.{e}.weights_bytes") for e in ("llamacpp-bf16", OTHER)]
    assert value(figures, f"{via}.step_predicted") == weights[0] / weights[1]
    assert "llamacpp-bf16 takes them apart: with one request in flight the engine makes the step" in read(figures)


@pytest.mark.parametrize(
    ("itl", "width", "said"),
    [
        (0.006, 2, "here the bytes saved are not time saved"),
        (0.011, 2, "only part of the bytes saved becomes time saved"),
        (0.1, 2, "they save more than their bytes"),
        (0.011, 0.1, "the bytes added cost no time"),
        (0.006, 0.1, "the bytes added cost time"),
        (0.008, 1, "as bytes, so step, the same"),
        (0.02, 1, "the bytes do not explain the difference"),
    ],
)
def test_what_a_third_engine_says_of_the_bytes(tmp_path, monkeypatch, itl, width, said):
    """The third engine, at so many times the challenger's bytes, whose step takes 8 ms."""
    latency = flat({BASE: 0.02, OTHER: 0.008, "llamacpp-bf16": itl})
    figures = figures_of(tmp_path, engines=(VLLM, LLAMA, THIRD), latency=latency)
    ledger, via = figures.ledger, f"{PAIR}.via_llamacpp-bf16"
    monkeypatch.setitem(ledger._entries, f"{via}.step_predicted", replace(ledger[f"{via}.step_predicted"], value=width))
    page = next(page for page in head_to_head.pages(figures) if OTHER in page.path)
    assert said in " ".join(re.sub(r"<[^>]+>", "", write(page, ledger, shared_context(figures)).text).split())


def test_without_a_third_engine_no_conclusion_is_drawn_from_the_bytes(tmp_path):
    text = read(figures_of(tmp_path))
    assert "The two differ in the engine too, so how much of that the bytes did cannot be told." in text
    assert "bytes saved" not in text


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (0.03, "here the bytes saved are not time saved"),
        (0.018, "only part of the bytes saved"),
        (0.001, "more than the bytes"),
    ],
)
def test_engines_of_one_kind_are_held_against_their_bytes(tmp_path, step, said):
    engines = (replace(THIRD, baseline=True, weights="a"), LLAMA)
    figures = figures_of(tmp_path, engines=engines, latency=flat({"llamacpp-bf16": 0.02, OTHER: step}))
    scope = f"pair.concurrency.llamacpp-bf16.{OTHER}.predicted_step_ratio"
    figures.ledger._entries[scope] = replace(figures.ledger[scope], value=2.0)
    page = next(page for page in head_to_head.pages(figures) if OTHER in page.path)
    assert said in " ".join(re.sub(r"<[^>]+>", "", write(page, figures.ledger, shared_context(figures)).text).split())


def test_a_third_engine_on_the_other_side_takes_the_steps_in_the_other_order(tmp_path):
    figures = figures_of(tmp_path, engines=(VLLM, LLAMA, Engine("vllm-q4", "vllm", "q4_1")))
    text = split(figures)
    assert "precision (vllm-q4 over vllm-bf16) times engine (llamacpp-q4 over vllm-q4)" in text
    assert "the challenger's kind at the baseline's precision" in text


def test_four_engines_take_both_ways(tmp_path):
    figures = figures_of(tmp_path, engines=(VLLM, LLAMA, THIRD, Engine("vllm-q4", "vllm", "q4_1")))
    text = split(figures)
    assert text.count("so the way leads through it") == 2
    assert "where they disagree, engine and precision act on each other" in text


@pytest.mark.parametrize(
    ("kind", "precision", "said"),
    [
        (
            "llamacpp",
            "q4_1",
            "A third engine in this round would split them: llama.cpp on bf16 weights, or vLLM on q4_1",
        ),
        ("llamacpp", "bf16", "so the ratios above are the engine's"),
        ("vllm", "q4_1", "so the ratios above are those of the weights, q4_1 over bf16"),
        ("vllm", "bf16", "what differs between them are settings"),
        ("llamacpp", None, "The plan does not state the precision of both"),
    ],
    ids=["no third", "engine", "precision", "settings", "unknown"],
)
def test_without_a_third_engine_it_says_whose_the_ratios_are(tmp_path, kind, precision, said):
    figures = figures_of(tmp_path, engines=(VLLM, Engine(OTHER, kind, precision)))
    assert said in split(figures)
    assert not [q.id for q in figures.ledger if ".via_" in q.id]


def test_a_third_engine_that_failed_leaves_the_parts_untold(tmp_path):
    figures = figures_of(tmp_path, engines=(VLLM, LLAMA, THIRD), **failing(THIRD.id))
    assert "How much each does to throughput cannot be told (n/a, n/a)." in split(figures)


# ------------------------------------------------------------------------------------- waves


def stalling(*, lane: int, gap: int, level: str = "c2", engine: str = OTHER) -> Alter:
    """One request of a level with its last gap `gap` µs long."""

    def alter(key: str, request: Request) -> Request:
        if f"/{engine}/{level}/" not in key or request.warmup or request.index != lane:
            return request
        gaps = [*request.gaps_us]
        gaps[-3] = gap
        return request.model_copy(update={"gaps_us": gaps, "end_us": request.t0_us + sum(gaps) + 40})

    return alter


def test_lanes_are_drawn_where_an_engine_stalls_most(tmp_path):
    figures = figures_of(tmp_path, alter=stalling(lane=4, gap=900_000))
    text = section(read(figures), "Waves")
    assert "Drawn is C = 2, where llamacpp-q4 loses" in text
    assert "llamacpp-q4 loses most to stalls at C = 2" in text
    assert "vllm-bf16 has no gap longer than two medians" in text
    assert value(figures, f"{B}.c2.r1.lanes.stalls") == 1
    assert value(figures, f"{A}.c2.r1.lanes.stalls") == 0


def test_without_stalls_the_largest_common_load_is_drawn(tmp_path):
    text = section(read(figures_of(tmp_path)), "Waves")
    assert "Drawn is C = 4, the largest load that both ran; no level that both ran loses a hundredth" in text


def test_a_lane_holds_the_stamps_of_its_record(tmp_path):
    figures = figures_of(tmp_path)
    scope = f"{A}.c4.r1.lanes"
    level = next(level for level in figures.round.levels if level.path.endswith("concurrency/vllm-bf16/c4/r1"))
    records = [record for record in figures.round.requests(level) if not record.warmup]
    first = min(record.t0_us for record in records)
    for lane in range(1, int(value(figures, f"{scope}.count")) + 1):
        record = next(r for r in records if r.index == value(figures, f"{scope}.{lane}.request"))
        stamps = record.t0_us + np.cumsum(record.gaps_us)[:16] - first
        assert value(figures, f"{scope}.{lane}.start") == (record.t0_us - first) / 1e6
        assert value(figures, f"{scope}.{lane}.text") == tuple(stamps / 1e6)
    starts = [value(figures, f"{scope}.{lane}.start") for lane in range(1, 17)]
    assert starts == sorted(starts)


def test_lanes_are_cut_at_the_moment_that_uses_up_the_events(tmp_path, monkeypatch):
    monkeypatch.setattr(waves, "EVENTS", 20)
    figures = figures_of(tmp_path, tests=(sweep(1, 2),))
    audited.recomputed(figures)
    lanes = [value(figures, f"{A}.c2.r1.lanes.{lane}.text") for lane in (1, 2)]
    assert sum(map(len, lanes)) == 20
    assert value(figures, f"{A}.c2.r1.lanes.count") == 2
    assert figures.ledger[f"{A}.c2.r1.lanes.1.text"].formula.endswith("[:10] - origin")


def test_no_more_lanes_are_drawn_than_can_be_told_apart(tmp_path, monkeypatch):
    monkeypatch.setattr(waves, "LANES", 3)
    assert value(figures_of(tmp_path), f"{A}.c4.r1.lanes.count") == 3


def test_a_repeat_in_which_nothing_completed_is_not_drawn(tmp_path):
    def failures(engine: str, level: str, repeat: int, index: int) -> Failure | None:
        return Failure(kind="connect", message="refused") if repeat == 1 else None

    figures = figures_of(tmp_path, failures=failures)
    assert f"{A}.c4.r1.lanes.origin" not in figures.ledger
    assert value(figures, f"{A}.c4.r2.lanes.count") == 16


def test_answers_of_one_token_have_no_stalls_and_no_lanes_break(tmp_path):
    figures = figures_of(tmp_path, tests=(sweep(1, 2, output=1),))
    assert value(figures, f"{A}.c2.r1.lanes.1.stalls") is None
    assert "has no gap longer than two medians at any level, or none was observed" in read(figures)


@pytest.mark.parametrize(("gap", "stalls"), [(0.1, 1), (0.02, 0)], ids=["long", "short"])
def test_a_stall_is_a_gap_of_more_than_two_medians(gap, stalls):
    assert waves.stalls(np.cumsum([0, 0.01, 0.01, gap, 0.01]), 0.01) == stalls


# ------------------------------------------------------------------------------------- graph reuse


def block(reused: int, tokens: int = 16) -> str:
    """What llama-server writes when an answer ends."""
    head = "0.32.291.555 I slot print_timing: id 15 | task 1551 |"
    return (
        f"{head} prompt eval time =     351.89 ms /    64 tokens (    5.50 ms per token,   181.88 tokens per second)\n"
        f"{head}        eval time =    2769.07 ms /    {tokens} tokens (   29.15 ms per token,    34.31 tokens per second)\n"
        f"{head}       total time =    3120.96 ms /   {64 + tokens} tokens\n{head}    graphs reused =       {reused}\n"
    )


def with_log(figures: Figures, text: Callable[[str, int], str], engine: str = OTHER) -> Figures:
    """The round again with another log of an engine's repeats; `text` gets the level and the repeat."""
    for file in figures.round.path.glob(f"levels/concurrency/{engine}/*/r*/engine.log.gz"):
        file.write_bytes(packed(text(file.parts[-3], int(file.parts[-2][1:]))))
    return compute(Round(figures.round.path))


def test_graph_reuse_runs_from_the_first_answer_to_the_last(tmp_path):
    # composed: eight answers of 16 tokens one after the other are 128 decode calls
    figures = with_log(figures_of(tmp_path), lambda *_: block(1000) + block(1040) + block(1056))
    assert value(figures, f"{B}.c1.r1.graphs_reused") == 56
    assert value(figures, f"{B}.c1.r1.graph_steps") == 128 - 16
    assert value(figures, f"{B}.c1.graph_reuse") == pytest.approx(56 / 112)
    text = section(read(figures), "Graph reuse")
    assert "vLLM does not say which of its steps ran on a graph" in text
    assert "1 50 % 50 % 50 %" in text


def test_repeats_that_reuse_graphs_differently_are_an_anomaly(tmp_path):
    figures = with_log(figures_of(tmp_path), lambda level, repeat: block(0) + block(100 if repeat == 1 else 0))
    assert value(figures, f"{B}.c1.graph_reuse.min") == 0
    text = section(read(figures), "Anomalies")
    assert "repeats reuse graphs differently: from 0 % to 89.3 % of the steps" in text
    assert "LLAMA_GRAPH_REUSE_DISABLE=1" in text


@pytest.mark.parametrize(
    ("log", "reason"),
    [
        ("nothing\n", "counts no reused graphs"),
        (block(5), "at fewer than two answers"),
        (block(9) + block(3), "the counter fell"),
        (block(0, 100) + block(9), "too few steps after the first answer"),
        (block(0).replace("        eval time", "        time") + block(9), "at fewer than two answers"),
    ],
    ids=["silent", "one answer", "restarted", "too few steps", "no tokens"],
)
def test_a_log_that_cannot_tell_graph_reuse_says_why(tmp_path, log, reason):
    figures = with_log(figures_of(tmp_path), lambda *_: log)
    assert reason in figures.ledger[f"{B}.c1.graph_reuse"].reason
    text = section(read(figures), "Graph reuse")
    assert "Neither engine says how many of its steps" in text
    assert reason in text


def test_two_engines_that_never_tell_graph_reuse_are_not_asked_for_a_log(tmp_path):
    text = section(read(figures_of(tmp_path, engines=(VLLM, Engine(OTHER, "vllm", "q4_1")))), "Graph reuse")
    assert "llama.cpp" not in text
    assert "its log" not in text


def test_steps_after_the_first_answer_need_half_of_those_before_it():
    assert graphs.steps_after(24, 16) == 8
    with pytest.raises(Absent):
        graphs.steps_after(23, 16)


# ------------------------------------------------------------------------------------- anomalies


def anomalies(figures: Figures) -> str:
    return section(read(figures), "Anomalies")


def test_a_quiet_round_has_no_anomaly(tmp_path):
    assert anomalies(figures_of(tmp_path)).strip().startswith("There are none: no level of either engine is flagged")


def test_repeats_that_do_not_agree_are_an_anomaly_and_the_data_rules_causes_out(tmp_path):
    def latency(engine: str, c: int, repeat: int) -> tuple[float, float]:
        return 0.05, 0.02 * (1.5 if (engine, c, repeat) == (BASE, 2, 2) else 1)

    figures = figures_of(tmp_path, latency=latency)
    text = anomalies(figures)
    assert "vllm-bf16 C = 2: repeats do not agree: throughput from" in text
    assert "vllm-bf16 C = 2: measure more repeats on an otherwise idle machine" in text
    # lag, failed, short, prefix hits, between starts, in flight, preempted; clocks were not observed
    assert re.search(r"no, \S+ (ms|µs)† no, 0 no, 0 no, 0 % no, 0 s no, \S+ % no, 0 n/a", text)


def test_a_wait_that_outgrows_the_load_is_an_anomaly(tmp_path):
    def latency(engine: str, c: int, repeat: int) -> tuple[float, float]:
        return (0.2 if c == 4 and engine == OTHER else 0.02 * c), 0.02

    text = anomalies(figures_of(tmp_path, latency=latency))
    assert "llamacpp-q4 C = 4: TTFT p50 jumps from" in text
    assert "measure levels between it and the one before" in text
    assert "vllm-bf16 C = 4: TTFT" not in text


def test_a_step_that_shortens_under_load_is_an_anomaly(tmp_path):
    def latency(engine: str, c: int, repeat: int) -> tuple[float, float]:
        return 0.05, 0.03 if c == 1 else 0.01

    text = anomalies(figures_of(tmp_path, latency=latency))
    assert "vllm-bf16 C = 2: ITL p50 falls from" in text
    assert "measure it and the level before again in the other order" in text


def test_throughput_that_falls_is_an_anomaly(tmp_path):
    text = anomalies(figures_of(tmp_path, latency=lambda engine, c, repeat: (0.02 * c, 0.02 if c < 4 else 0.2)))
    assert "throughput below the level before" in text
    assert "a drop that returns is the engine's, one that wanders is the machine's" in text


def test_a_cause_that_the_data_does_not_rule_out_comes_first(tmp_path):
    figures = figures_of(tmp_path, **failing(OTHER), prefix_hits=0.5)
    text = anomalies(figures)
    assert "vllm-bf16 C = 1: prefix cache hits (50 %)" in text
    assert "vllm-bf16 C = 1, vllm-bf16 C = 2, vllm-bf16 C = 4: measure again with the prefix cache off" in text
    assert "yes, 50 %" in text
    assert "yes, 16" in text
    assert "the records of the failed requests" in text


def test_repeats_on_another_start_are_an_anomaly(tmp_path):
    figures = figures_of(tmp_path)
    launches = figures.round.path / "launches" / OTHER
    facts = json.loads((launches / "1" / "launch.json").read_text("utf-8"))
    (launches / "2").mkdir()
    again = facts | {"started_unix_us": facts["started_unix_us"] + 60_000_000}
    (launches / "2" / "launch.json").write_text(json.dumps(again, indent=1), "utf-8")
    for file in figures.round.path.glob(f"levels/concurrency/{OTHER}/c2/r2/facts.json"):
        file.write_text(file.read_text("utf-8").replace(f"{OTHER}/1", f"{OTHER}/2"), "utf-8")
    figures = compute(Round(figures.round.path))
    assert value(figures, f"{B}.c2.starts_apart") == 60
    text = anomalies(figures)
    assert "llamacpp-q4 C = 2: engine restarted." in text
    assert "llamacpp-q4 C = 2: measure all repeats again on one start" in text
    assert "yes, 60 s" in text


def test_one_repeat_has_no_spread(tmp_path):
    figures = figures_of(tmp_path, repeats=1)
    assert figures.ledger[f"{A}.c1.repeat_spread"].reason == "one repeat has no spread"
    assert "There are none: no level of either engine is flagged" in anomalies(figures)


def test_growth_in_proportion_to_the_load_is_one():
    assert steady.over_load(ttft=0.4, before=0.1, c=8, c_before=2) == pytest.approx(1)
    with pytest.raises(Absent):
        steady.spread(high=2, low=1, x=1, repeats=1)


# ------------------------------------------------------------------------------------- charts


def drawn(tmp_path: Path) -> tuple[Figures, list[Any]]:
    figures = figures_of(tmp_path, engines=(VLLM, LLAMA, THIRD), alter=stalling(lane=4, gap=900_000))
    figures = with_log(figures, lambda *_: block(0) + block(50))
    return figures, [chart for page in head_to_head.pages(figures) for chart in page.context["charts"].values()]


def test_every_drawn_number_is_its_figure_and_every_word_tells_one(tmp_path):
    figures, charts = drawn(tmp_path)
    report = audited.charts(figures, charts)
    assert report.failures == []
    assert {"gr_lanes", "gr_split", "gr_stall_share", "gr_wave_index", "gr_graph_reuse"} <= {
        c.spec["name"] for c in charts
    }


def test_every_chart_holds_against_the_schema_and_computes_nothing(tmp_path):
    for chart in drawn(tmp_path)[1]:
        assert vega.LayerChart.from_dict(chart.spec, validate=True)
        assert '"transform"' not in json.dumps(chart.spec)


def test_the_words_of_the_lanes_tell_their_numbers(tmp_path):
    charts = [chart for chart in drawn(tmp_path)[1] if chart.name == "lanes"]
    assert "llamacpp-q4 at C = 2: the first requests, token by token. Requests: 8, drawn until" in charts[1].alt
    assert "stalls: 1." in charts[1].alt


def test_both_lanes_of_a_page_have_the_same_seconds(tmp_path):
    first, second, *_ = (chart for chart in drawn(tmp_path)[1] if chart.name == "lanes")
    domains = [
        layer["encoding"]["x"]["scale"]["domain"] for chart in (first, second) for layer in chart.spec["layer"][:2]
    ]
    assert all(domain == domains[0] for domain in domains)


def test_a_page_stays_within_its_weight(tmp_path):
    figures = figures_of(tmp_path, tests=(Test(levels=sweep(1, 8, 32, output=120).levels),))
    assert len(markdown(figures)) < 400_000


def test_a_broken_log_is_no_error(tmp_path):
    figures = figures_of(tmp_path)
    for file in figures.round.path.glob(f"levels/concurrency/{OTHER}/*/r*/engine.log.gz"):
        file.write_bytes(gzip.compress(b"x" * 100)[:20])
    assert compute(Round(figures.round.path)).ledger[f"{B}.c1.graph_reuse"].missing


def test_more_anomalies_than_a_reader_takes_in_are_said_to_be_more(tmp_path):
    every = {"failures": lambda engine, level, repeat, index: Failure(kind="connect") if index == 3 else None}
    text = section(read(figures_of(tmp_path, tests=(sweep(1, 2, 3, 4, 5, 6, 7, 8),), repeats=1, **every)), "Anomalies")
    assert "There are more; these are the first by engine and load." in text
    assert "There are more" not in read(figures_of(tmp_path / "few", tests=(sweep(1, 2),), **every))
