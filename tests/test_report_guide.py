"""The selection guide: which engine each case speaks for, what it says where nothing does, and what fits."""

from __future__ import annotations

import json
import math
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

import audited
from compose import LLAMA, VLLM, Engine, Load, Test, compose_round, lengths, sweep
from genreport import evaluate, reports
from genreport.display import shown
from genreport.errors import PlanError
from genreport.figures import Figures, Flag, compute, crossing
from genreport.figures.answers import fingerprint
from genreport.figures.choosing import FAILURES_END, RANGE_ENDS, compared, envelope, front, front_crossings
from genreport.figures.crossing import loglog_at
from genreport.figures.fitting import CONTEXT, USERS, decode, held, kv, needed, prefill, verdict
from genreport.figures.planned import line_of
from genreport.figures.pricing import hourly, hours, pays_from, per_million
from genreport.pages import shared_context, write
from genreport.plan import read_plan
from genreport.records import Failure
from genreport.reports.calculators import calculator, costs
from genreport.reports.cautions import pitfalls
from genreport.reports.choices import Cell, Chooser, Mark, bound
from genreport.reports.guide import _typed
from genreport.reports.properties import pools, properties
from genreport.rounds import Round

ASSETS = Path(__file__).parents[1] / "docs" / "assets"
THIRD = Engine("llamacpp-bf16", "llamacpp", "bf16", itl_s=0.03, itl_per_c=0.004, ttft_per_c=0.03)
CLIFF = Test("cliff", "cliff", (Load("normal", 4), Load("long", 4, 512, 512)), engines=("vllm-bf16",))


def slo(limit_ms: float, percentile: str = "p50", figure: str = "ttft") -> dict:
    return {"id": f"{figure}-{percentile}", "figure": figure, "percentile": percentile, "below_ms": limit_ms}


def curves(**engines: tuple[float, float, float, float]):
    """Latencies by engine: TTFT = a·C^b, ITL = c·C^d."""
    by_id = {name.replace("_", "-"): given for name, given in engines.items()}

    def latency(engine: str, c: int, repeat: int) -> tuple[float, float]:
        a, b, k, d = by_id[engine]
        return a * c**b, k * c**d

    return latency


# the same wait everywhere; the second engine is slower a token at every load
DOMINATED = curves(vllm_bf16=(0.1, 1, 0.01, 0.3), llamacpp_q4=(0.1, 1, 0.02, 0.3))
# the first is quick and low, the second slow and high
APART = curves(vllm_bf16=(0.001, 1, 0.05, 1), llamacpp_q4=(0.1, 1, 0.005, 0))


def figures_of(tmp_path: Path, **what: object) -> Figures:
    return compute(compose_round(tmp_path / "round", jitter=0, **what))


def planned(tmp_path: Path, more: dict, **what: object) -> Round:
    """A composed round whose plan says more than compose knows."""
    compose_round(tmp_path / "round", seal=False, jitter=0, **what)
    plan = tmp_path / "round" / "plan.yaml"
    plan.write_text(yaml.safe_dump(yaml.safe_load(plan.read_text("utf-8")) | more), "utf-8")
    return Round(tmp_path / "round")


def guide(round: Round) -> str:
    """The page alone; that a second path agrees with its figures is asked of the poor rounds below."""
    figures = compute(round)
    return write(reports.guide.page(figures), figures.ledger, shared_context(figures)).text


def words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", text).replace("\u202f", " ").split())


def page(tmp_path: Path, **what: object) -> str:
    return words(guide(compose_round(tmp_path / "round", **({"jitter": 0} | what))))


# ------------------------------------------------------------------------------------- service levels


def test_the_load_a_limit_allows_is_read_between_two_levels(tmp_path):
    figures = figures_of(tmp_path, latency=DOMINATED, slos=[slo(500)])
    load = figures.ledger["test.concurrency.slo.ttft-p50.vllm-bf16.load"]
    assert load.value == pytest.approx(5, rel=1e-3)  # TTFT is 0.1 s × C
    levels = [f"concurrency.vllm-bf16.c{c}.output_throughput" for c in (4, 8)]
    x4, x8 = (figures.ledger[i].value for i in levels)
    share = math.log(load.value / 4) / math.log(2)
    at_load = figures.ledger["test.concurrency.slo.ttft-p50.vllm-bf16.throughput"]
    assert at_load.value == pytest.approx(x4 ** (1 - share) * x8**share)
    assert RANGE_ENDS not in load.notes


def test_a_limit_below_the_first_level_allows_no_load(tmp_path):
    load = figures_of(tmp_path, slos=[slo(1)]).ledger["test.concurrency.slo.ttft-p50.vllm-bf16.load"]
    assert (load.value, load.reason) == (None, "not met at C = 1")


def test_a_limit_that_no_level_reaches_allows_at_least_the_largest_load(tmp_path):
    figures = figures_of(tmp_path, slos=[slo(1e6)])
    load = figures.ledger["test.concurrency.slo.ttft-p50.vllm-bf16.load"]
    assert (load.value, load.formula) == (16, "max(c)")
    assert RANGE_ENDS in load.notes
    at_load = figures.ledger["test.concurrency.slo.ttft-p50.vllm-bf16.throughput"]
    assert at_load.value == pytest.approx(figures.ledger["concurrency.vllm-bf16.c16.output_throughput"].value)


def failing(level: str, engine: str | None = "vllm-bf16", repeats: tuple[int, ...] = (1, 2)) -> Callable:
    """Fails every second request of a level."""
    return lambda e, name, repeat, index: (
        Failure(kind="http", status=503)
        if (e, name) == (engine or e, level) and repeat in repeats and index % 2
        else None
    )


LOAD = "test.concurrency.slo.ttft-p50.vllm-bf16.load"


def test_a_level_with_failed_requests_meets_no_limit_and_ends_what_one_allows(tmp_path):
    figures = figures_of(tmp_path, slos=[slo(1e6)], failures=failing("c8"))
    load = figures.ledger[LOAD]
    assert (load.value, load.formula, load.notes) == (4, "max(c * (failed == 0))", (FAILURES_END,))
    x4 = figures.ledger["concurrency.vllm-bf16.c4.output_throughput"].value
    assert figures.ledger["test.concurrency.slo.ttft-p50.vllm-bf16.throughput"].value == pytest.approx(x4)
    audited.recomputed(figures)
    other = figures.ledger["test.concurrency.slo.ttft-p50.llamacpp-q4.load"]
    assert (other.value, RANGE_ENDS in other.notes) == (16, True)


def test_a_limit_that_the_wait_reaches_before_requests_fail_is_read_off_the_wait(tmp_path):
    load = figures_of(tmp_path, latency=DOMINATED, slos=[slo(300)], failures=failing("c8")).ledger[LOAD]
    assert load.value == pytest.approx(3, rel=1e-3)
    assert load.notes == ()


def test_requests_that_fail_at_the_first_level_leave_no_load(tmp_path):
    figures = figures_of(tmp_path, slos=[slo(1e6)], failures=failing("c1"))
    assert (figures.ledger[LOAD].value, figures.ledger[LOAD].reason) == (
        None,
        "not met at C = 1: requests failed there",
    )
    assert figures.ledger["test.concurrency.slo.ttft-p50.vllm-bf16.throughput"].value is None


def test_a_repeat_without_failed_requests_keeps_its_limit(tmp_path):
    ledger = figures_of(tmp_path, slos=[slo(1e6)], failures=failing("c8", repeats=(2,))).ledger
    scope = "test.concurrency.slo.ttft-p50.vllm-bf16"
    assert [ledger[f"{scope}{part}.load"].value for part in ("", ".r1", ".r2")] == [4, 16, 4]


@pytest.mark.parametrize(
    ("level", "said"),
    [("c8", "C ≥ 4 (32 of 64 requests failed at C = 8)"), ("c1", "not met at C = 1, where 8 of 16 requests failed")],
)
def test_the_table_of_limits_names_the_requests_that_end_a_load(tmp_path, level, said):
    text = page(tmp_path, slos=[slo(1e6)], failures=failing(level))
    assert said in text
    assert "such a level meets no limit" in text


def test_a_limit_on_a_percentile_that_is_not_computed_says_so(tmp_path):
    load = figures_of(tmp_path, slos=[slo(100, "p42")]).ledger["test.concurrency.slo.ttft-p42.vllm-bf16.load"]
    assert load.reason == "no level has a p42 of ttft"


def test_entries_that_are_no_limits_are_passed_over(tmp_path):
    odd = [{"id": "a"}, {"figure": "ttft", "below_ms": True}, {"figure": "ttft", "below_ms": float("inf")},
           {"figure": "ttft", "percentile": "p50", "below_ms": 200}]  # fmt: skip
    figures = compute(planned(tmp_path, {"slos": odd}))
    assert [q.id for q in figures.ledger if q.id.endswith(".limit")] == ["test.concurrency.slo.slo4.limit"]


def test_a_limit_leads_to_its_line_of_the_plan(tmp_path):
    figures = figures_of(tmp_path, slos=[slo(500)])
    limit = figures.ledger["test.concurrency.slo.ttft-p50.limit"]
    assert limit.value == 0.5
    line = figures.round.text("plan.yaml").split("\n")[limit.sources[0].line - 1]
    assert "below_ms" in line or "500" in line


@pytest.mark.parametrize(
    ("pointer", "line"),
    [("/slos/1/below_ms", 4), ("/slos/0", 3), ("/prices/card", 6), ("/prices/none", 6), ("/x/9", 7)],
)
def test_the_line_of_a_value_is_found_in_any_style_of_yaml(pointer, line):
    text = "plan: 1\nslos:\n- {id: a, below_ms: 1}\n- {id: b, below_ms: 2}\nprices:\n  card: 5\nx: [1]\n"
    assert line_of(text, pointer) == line


# ------------------------------------------------------------------------------------- who is ahead at which load


@given(st.lists(st.lists(st.one_of(st.floats(1, 1000), st.none()), min_size=4, max_size=4), min_size=2, max_size=5))
def test_the_engine_named_at_a_load_is_the_highest_of_all_curves_there(given_curves):
    """Against a fine grid, on which each curve is interpolated by itself; a value may be missing."""
    c, engines = [1, 2, 4, 8], "abcde"[: len(given_curves)]
    curves = {e: [math.nan if x is None else x for x in xs] for e, xs in zip(engines, given_curves, strict=True)}
    stretches = envelope(c, curves)
    for at in np.linspace(0, math.log(8), 97):
        heights = {e: np.interp(at, np.log(c), np.log(xs)) for e, xs in curves.items()}
        ranked = sorted((e for e in engines if not np.isnan(heights[e])), key=lambda e: -heights[e])
        named = [e for e, low, high in stretches if math.log(low) - 1e-9 <= at <= math.log(high) + 1e-9]
        inside = [e for e, low, high in stretches if math.log(low) + 1e-9 < at < math.log(high) - 1e-9]
        clear = len(ranked) > 1 and heights[ranked[0]] - heights[ranked[1]] > 1e-6
        assert not clear or ranked[0] in named
        assert all(heights[e] >= heights[ranked[0]] - 1e-6 for e in inside)


def test_two_engines_alike_leave_nobody_ahead():
    assert envelope([1, 2], {"a": [5, 7], "b": [5, 7]}) == []
    assert envelope([3], {"a": [5], "b": [7]}) == [("b", pytest.approx(3), pytest.approx(3))]


def test_an_engine_that_is_ahead_between_two_loads_only_is_named_there(tmp_path):
    """Of three curves from C = 1 to 4 the first falls behind the second, which is flat, before the third overtakes it."""
    itl = {"vllm-bf16": (0.01, 1.5), "llamacpp-q4": (0.08, -0.5), "llamacpp-bf16": (0.02, 0.8)}

    def latency(engine: str, c: int, repeat: int) -> tuple[float, float]:
        first, power = itl[engine]
        return 0.001, first * c**power

    figures = figures_of(tmp_path, engines=[VLLM, LLAMA, THIRD], tests=(sweep(1, 4),), latency=latency)
    found = Chooser(figures, figures.tests[0]).stretches()
    assert [s.engine for s in found] == ["vllm-bf16", "llamacpp-bf16", "llamacpp-q4"]
    pairs = ("vllm-bf16.llamacpp-bf16", "llamacpp-q4.llamacpp-bf16")
    assert [s.end.id for s in found[:2]] == [f"pair.concurrency.{pair}.cross1" for pair in pairs]
    assert [s.start.id for s in found[1:]] == [s.end.id for s in found[:2]]
    text = words(guide(figures.round))
    assert re.search(r"llamacpp-bf16 delivers the most from C = 2\S* to 2", text)
    assert audited.digits(figures.round.path, guide(figures.round)) == []


# ------------------------------------------------------------------------------------- fronts

POINTS = st.lists(st.tuples(st.floats(0.01, 10), st.floats(1, 1000)), min_size=1, max_size=7)


@given(POINTS)
def test_a_front_keeps_what_no_other_level_beats(points):
    t, x = (np.array(side) for side in zip(*points, strict=True))
    kept = front(t, x)
    assert list(np.diff(t[kept]) > 0) == list(np.diff(x[kept]) > 0) == [True] * (len(kept) - 1)
    for k in set(range(len(t))) - set(kept):
        assert any(t[i] <= t[k] and x[i] >= x[k] for i in kept)


@given(POINTS, POINTS)
def test_both_paths_find_the_same_crossings_of_two_fronts(one, other):
    curves = [np.array(side) for points in (one, other) for side in zip(*points, strict=True)]
    assert front_crossings(*curves) == pytest.approx(evaluate.front_crossings(*curves), rel=1e-9)


def test_fronts_that_share_no_wait_do_not_cross(tmp_path):
    figures = figures_of(tmp_path, latency=APART)
    assert compared(figures.ledger, figures.tests[0], "vllm-bf16", "llamacpp-q4").case == "apart"
    reason = figures.ledger["pair.concurrency.vllm-bf16.llamacpp-q4.front1"].reason
    assert reason == "none: the fronts share no wait; vllm-bf16 is the faster, llamacpp-q4 the higher"


def test_a_front_that_is_ahead_everywhere_dominates(tmp_path):
    figures = figures_of(tmp_path, latency=DOMINATED)
    case = compared(figures.ledger, figures.tests[0], "vllm-bf16", "llamacpp-q4")
    assert (case.case, case.leaders) == ("ahead", ("vllm-bf16",))
    assert figures.ledger["pair.concurrency.vllm-bf16.llamacpp-q4.front1"].reason == "none, vllm-bf16 dominates"


def test_fronts_that_cross_say_who_is_ahead_on_either_side(tmp_path):
    figures = figures_of(tmp_path)
    case = compared(figures.ledger, figures.tests[0], "vllm-bf16", "llamacpp-q4")
    assert (case.case, case.leaders[-1]) == ("crossed", "vllm-bf16")
    wait, x = (figures.ledger[f"pair.concurrency.vllm-bf16.llamacpp-q4.front1{end}"] for end in ("", "_throughput"))
    assert 0.05 < wait.value < 0.2
    assert x.value > 0


# ------------------------------------------------------------------------------------- same answers


def other_words(share: float):
    """Changes the answers of llama.cpp to the first of each ten prompts."""

    def alter(key, request):
        changed = "llamacpp" in key and request.index % 10 < share * 10
        return request.model_copy(update={"text": "something else"}) if changed else request

    return alter


def test_answers_that_differ_are_counted_by_prompt(tmp_path):
    same = figures_of(tmp_path, alter=other_words(0.5)).ledger["pair.concurrency.vllm-bf16.llamacpp-q4.same_answers"]
    assert same.n == 16  # 8 requests × 2 repeats at C = 1
    assert 0 < same.value < 1
    assert len(same.sources[0].picks) == 2


def test_equal_answers_are_all_the_same(tmp_path):
    assert figures_of(tmp_path).ledger["pair.concurrency.vllm-bf16.llamacpp-q4.same_answers"].value == 1


def test_answers_to_prompts_of_another_form_are_not_compared(tmp_path):
    engines = [{"id": "vllm-bf16"}, {"id": "llamacpp-q4", "prompt": "text"}]
    same = compute(planned(tmp_path, {"engines": engines})).ledger[
        "pair.concurrency.vllm-bf16.llamacpp-q4.same_answers"
    ]
    assert same.reason == "the engines got their prompts in different forms"


@given(st.text())
def test_both_paths_stand_the_same_number_for_a_text(text):
    assert fingerprint(text) == evaluate._fingerprint(text)


def test_a_prompt_without_its_twin_is_left_out_by_both_paths():
    prompts, answers = np.array([1, 2, 1, 3, 3, 3, 4, 4]), np.array([7, 8, 7, 9, 9, 9, 5, 6])
    assert evaluate.agreement(prompts, answers) == 0.5  # of 1 and 4


# ------------------------------------------------------------------------------------- cost and room


def test_an_hour_costs_its_share_of_the_card_and_its_power():
    assert hourly(card=8760, years=2, watts=500, kwh=0.4) == pytest.approx(0.5 + 0.2)
    assert hourly(hour=0.79) == 0.79
    assert per_million(3.6, 1000, 0.5) == pytest.approx(2)
    assert pays_from(3.6, 1000, 2) == pytest.approx(0.5)


PRICES = {"currency": "EUR", "utilisation": 0.5, "card": 1800, "years": 3, "watts": 450, "kwh": 0.3, "api": 0.6}


def test_prices_of_the_plan_give_a_cost_at_each_limit_and_at_the_peak(tmp_path):
    round = planned(tmp_path, {"prices": PRICES, "slos": [slo(500)]}, latency=DOMINATED)
    ledger = compute(round).ledger
    cost = ledger["test.concurrency.slo.ttft-p50.vllm-bf16.cost"]
    x = ledger["test.concurrency.slo.ttft-p50.vllm-bf16.throughput"].value
    assert cost.unit == "EUR"
    assert cost.value == pytest.approx((1800 / (3 * 8760) + 0.45 * 0.3) / (x * 3600 * 0.5) * 1e6)
    text = words(audited.page(round, "guide/index.md"))  # every cost is computed twice
    assert "An hour of the machine costs" in text
    assert "never (" in text  # the slower engine costs more than that API even when it is always busy


@pytest.mark.parametrize("prices", [{"currency": "euro", "hour": 1}, {"currency": "EUR", "utilisation": 1}, "dear"])
def test_prices_that_say_too_little_give_no_cost(tmp_path, prices):
    text = words(guide(planned(tmp_path, {"prices": prices})))
    assert "An hour of the machine costs n/a" in text or "The plan gives no prices" in text


def test_without_prices_a_cost_is_told_in_hours_of_the_machine(tmp_path):
    figures = figures_of(tmp_path, latency=DOMINATED, slos=[slo(500), slo(1)])
    ledger = figures.ledger
    peak = ledger["concurrency.vllm-bf16.peak_throughput"].value
    assert ledger["test.concurrency.peak.vllm-bf16.machine_hours"].value == pytest.approx(1e6 / peak / 3600)
    assert hours(1000) * 3600 == 1000
    unmet = ledger["test.concurrency.slo.ttft-p50.vllm-bf16.machine_hours"]
    assert unmet.value == pytest.approx(1e6 / ledger["test.concurrency.slo.ttft-p50.vllm-bf16.throughput"].value / 3600)
    assert not [q for q in ledger if q.id.endswith(".cost")]


def test_the_example_asks_for_more_than_was_started_and_less_than_the_machine_has(tmp_path):
    figures = figures_of(tmp_path)
    k, weights = (figures.ledger[f"engine.vllm-bf16.{name}"].value for name in ("kv_bytes_per_token", "tensor_bytes"))
    left = figures.ledger["concurrency.vllm-bf16.example_left_bytes"]
    assert left.value == figures.ledger["machine.memory"].value - weights - USERS * CONTEXT * k
    text = words(guide(figures.round))
    assert "16 users with 8,192 tokens each, prompt and answer together:" in text
    assert re.search(r"as it was startedno, the model ends before", text)
    assert re.search(r"if it is started for itno, the model ends before", text)


def test_a_launch_that_limits_its_sequences_lets_the_others_wait():
    assert verdict(20, 160, slots=16, pool=46_592) == "slots"


def test_halving_the_length_doubles_the_residents(tmp_path):
    ledger = figures_of(tmp_path).ledger
    assert ledger["engine.vllm-bf16.half_residents"].value == 2 * ledger["engine.vllm-bf16.residents"].value
    full = ledger["engine.vllm-bf16.full_context_bytes"].value
    assert full == 2048 * ledger["engine.vllm-bf16.kv_bytes_per_token"].value


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"pool": 100_000}, "fits"),
        ({"pool": 1000}, "pool"),
        ({"pool": 100_000, "slots": 4}, "slots"),
        ({"pool": 100_000, "slots": 4, "length": 512}, "length"),
        ({"pool": 100_000, "length": 512, "model": 256}, "model"),
        ({}, "unknown"),
    ],
)
def test_the_first_limit_a_load_breaks_is_the_verdict(limits, said):
    assert verdict(16, 1024, **limits) == said


# ------------------------------------------------------------------------------------- what the page says


def test_a_limit_that_nobody_keeps_has_no_winner(tmp_path):
    text = page(tmp_path, slos=[slo(1)])
    assert "not met at C = 1" in text
    assert "no engine meets the limit, not even at its lowest load" in text
    assert "No engine of this round keeps any limit of the plan" in text


def test_a_limit_that_is_kept_everywhere_shows_the_range_as_open(tmp_path):
    text = page(tmp_path, slos=[slo(1e6)])
    assert "C ≥ 16" in text
    assert "not met at" not in text


def test_a_limit_that_one_engine_keeps_has_a_winner_without_a_lead(tmp_path):
    latency = curves(vllm_bf16=(0.1, 1, 0.01, 0.3), llamacpp_q4=(5, 1, 0.02, 0.3))
    text = page(tmp_path, latency=latency, slos=[slo(500)])
    assert "no other meets the limit" in text
    assert "not met at C = 1" in text


def test_one_engine_alone_wins_nothing(tmp_path):
    text = page(tmp_path, engines=[VLLM], slos=[slo(100)])
    assert "Only vllm-bf16 was measured" in text
    assert "Nothing was measured beside it" in text
    assert "dominates" not in text
    assert "no challenger was measured" in text


def test_one_engine_that_keeps_no_limit_says_so(tmp_path):
    assert "It meets none of the plan's limits" in page(tmp_path, engines=[VLLM], slos=[slo(1)])


def test_curves_that_do_not_cross_leave_one_engine_everywhere(tmp_path):
    text = page(tmp_path, latency=DOMINATED)
    assert "vllm-bf16 delivers the most at every load that was compared, C = 1 to 16" in text
    assert "vllm-bf16 gives more than llamacpp-q4 at every p99 TTFT that can be compared" in text
    assert "No load and no limit of this round speaks for it." not in text  # its weights are the smallest
    assert "none in the measured range" in text


def test_curves_that_cross_divide_the_loads(tmp_path):
    text = page(tmp_path)
    assert re.search(
        r"llamacpp-q4 delivers the most up to C = [\d.]+, vllm-bf16 delivers the most from C = [\d.]+ to 16,", text
    )
    assert re.search(r"under a p99 TTFT of [\d.]+ m?s†? llamacpp-q4 gives more, above it vllm-bf16", text)


def test_crossings_beyond_those_that_become_figures_are_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(crossing, "MOST", 1)

    def turning(engine: str, c: int, repeat: int) -> tuple[float, float]:
        return 0.1, 0.02 if engine == "vllm-bf16" else (0.01 if c in (1, 4, 16) else 0.04)

    text = page(tmp_path, latency=turning)
    assert re.search(r"throughput over load: C = [\d.]+ and further on, 4 times in all;", text)


def test_fronts_apart_are_said_to_have_nothing_in_common(tmp_path):
    text = page(tmp_path, latency=APART)
    assert "vllm-bf16 is the faster and llamacpp-q4 the one with more throughput: no p99 TTFT is common to both" in text


def test_a_plan_without_limits_shows_the_entry_that_adds_them(tmp_path):
    text = page(tmp_path)
    assert "The plan names no limit." in text
    assert "so this round cannot say what one would allow" in text


def test_a_plan_without_prices_shows_the_lines_that_give_a_cost(tmp_path):
    assert "The plan gives no prices" in page(tmp_path)


def test_a_sweep_in_which_all_failed_speaks_for_nobody(tmp_path):
    text = page(tmp_path, failures=lambda *_: Failure(kind="connect"), slos=[slo(100)])
    assert "No request of this sweep succeeded" in text


def test_a_round_without_a_sweep_says_which_entry_measures_one(tmp_path):
    assert "This round has no concurrency sweep" in page(tmp_path, tests=(lengths(64, 128),))


def test_engines_without_a_common_load_are_not_compared_by_load(tmp_path):
    tests = (Test(levels=(Load("c1", 1), Load("c2", 2))),)
    text = page(tmp_path, tests=tests, unfinished=[f"concurrency/{e}/{c}/r{k}" for e, c in (
        ("vllm-bf16", "c1"), ("llamacpp-q4", "c2")) for k in (1, 2)], seal=False)  # fmt: skip
    assert "The engines have no load in common." in text


def test_past_the_capacity_is_not_tested_unless_a_cliff_ran(tmp_path):
    text = page(tmp_path, tests=(sweep(1, 2, 4), CLIFF))
    assert "Behaviour past the capacity was not tested for llamacpp-q4." in text
    assert "The same number of requests in flight" in text


def test_a_third_engine_stands_beside_the_others(tmp_path):
    text = page(tmp_path, engines=[VLLM, LLAMA, THIRD], slos=[slo(100)])
    assert "llamacpp-q4 against llamacpp-bf16:" in text
    assert "No load and no limit of this round speaks for it." in text


def anomaly(engine: str, c: int, repeat: int) -> tuple[float, float]:
    """TTFT of 0.1 s × C on both; llama.cpp slower, and stuck at C = 8."""
    return 0.1 * c, 0.01 if engine == "vllm-bf16" else 0.5 if c == 8 else 0.012


def test_a_lead_over_an_anomalous_level_is_an_upper_bound(tmp_path):
    text = page(tmp_path, latency=anomaly, slos=[slo(600), slo(350, "p90")])
    assert "the lead is an upper bound: llamacpp-q4 rests on c8 (throughput below the level before)" in text
    assert "untouched" in text


def test_one_engine_on_flagged_levels_has_no_lead_that_may_be_off(tmp_path):
    text = page(tmp_path, engines=[VLLM], prefix_hits=0.5, slos=[slo(1e6)])
    assert "What the numbers rest on" in text
    assert "vllm-bf16 rests on c16 (prefix cache hits" in text
    assert "the lead may be" not in text
    assert "What the leads rest on" not in text


@pytest.mark.parametrize(
    ("winner", "second", "said"),
    [
        ((), (), ""),
        ((), ("drop",), "upper"),
        (("drop",), (), "lower"),
        (("drop",), ("drop",), "open"),
        (("prefix_cache",), ("client_lag",), "upper"),
        ((), ("failed",), "open"),
    ],
)
def test_flags_bend_a_lead_one_way_or_either(winner, second, said):
    def cell(kinds: tuple[str, ...]) -> Cell:
        return Cell("e", "met", None, None, "l", (Mark("e", "l", kinds),) if kinds else ())  # type: ignore[arg-type]

    assert bound(cell(winner), cell(second)) == said


def close_at(*loads: int):
    """Two engines five per cent apart, whose repeats differ by more at these loads."""

    def latency(engine: str, c: int, repeat: int) -> tuple[float, float]:
        return 0.1, (0.020 if engine == "vllm-bf16" else 0.021) * (1 + (0.1 * repeat if c in loads else 0))

    return latency


def test_a_lead_that_the_repeats_leave_open_is_too_close_to_call(tmp_path):
    text = page(tmp_path, latency=close_at(1, 2, 4, 8, 16), slos=[slo(1e6)])
    assert "For one user it is undecided between vllm-bf16 with" in text
    assert "vllm-bf16 delivers the most at every load that was compared, C = 1 to 16 (undecided)" in text
    assert "without any limit on the wait it is undecided between vllm-bf16 with" in text
    assert re.search(r"p50 TTFT under 1,000 s: undecided between vllm-bf16 with \S+ tok/s and", text)
    assert re.search(r"C = 1: undecided: with 95 % confidence llamacpp-q4 delivers 0\S+ to 1\S+ of vllm", text)
    assert "is the fastest" not in text


def test_a_lead_that_wins_at_one_load_is_named_with_the_loads_at_which_it_does_not(tmp_path):
    text = page(tmp_path, latency=close_at(1))
    assert "For one user it is undecided between" in text
    assert re.search(r"the highest throughput is vllm-bf16's, \S+ tok/s, 1\S+ the", text)
    assert "vllm-bf16 delivers the most at every load that was compared, C = 1 to 16;" in text


def test_engines_that_change_places_within_the_noise_are_told_by_their_curves_alone(tmp_path):
    def latency(engine: str, c: int, repeat: int) -> tuple[float, float]:
        return 0.1, (0.0200 if engine == "vllm-bf16" else 0.0206 - 0.0004 * c) * (1 + 0.1 * repeat)

    text = page(tmp_path, latency=latency, tests=(sweep(1, 2, 4),))
    assert "it is undecided at every load that was compared; by the curves alone vllm-bf16 delivers" in text


def test_one_repeat_is_said_to_be_no_test(tmp_path):
    text = page(tmp_path, latency=DOMINATED, repeats=1, slos=[slo(1e6)])
    assert text.count("(not tested: fewer than two repeats of one of them have a result)") > 2
    assert "C = 1 to 16 (not tested)" in text
    assert "vllm-bf16 is the fastest" in text


def test_a_third_engine_that_is_not_beaten_keeps_a_lead_open(tmp_path):
    """The second is clearly behind, the third has repeats so far apart that nothing is clear of it."""

    def latency(engine: str, c: int, repeat: int) -> tuple[float, float]:
        return 0.1, {"vllm-bf16": 0.020, "llamacpp-q4": 0.021}.get(engine, 0.022 * (1 + 0.3 * (repeat - 1)))

    figures = figures_of(tmp_path, engines=[VLLM, LLAMA, THIRD], tests=(sweep(1, 2),), latency=latency)
    choice = Chooser(figures, figures.tests[0]).by_load()[0]
    assert (choice.call, choice.winner.engine) == ("close", "vllm-bf16")
    assert [rival.cell.engine for rival in choice.rivals] == ["llamacpp-bf16"]


def test_a_figure_is_the_best_of_its_row_where_it_is_exact_or_wins(tmp_path):
    figures = figures_of(tmp_path, latency=close_at(1))
    rows = {row.name: row.winner for row in properties(figures, figures.tests[0], Chooser(figures, figures.tests[0]))}
    assert (rows["single"], rows["step"], rows["peak"]) == (None, None, "vllm-bf16")
    assert rows["weights"] == "llamacpp-q4"
    assert rows["marginal"] is None  # nothing tests it


def long_prompts(chat: float, prompt: float):
    """A challenger whose steps and whose first tokens take so many times as long, one repeat a hair longer than the other."""

    def latency(engine: str, c: int, repeat: int) -> tuple[float, float]:
        ttft, itl = (0.1, 0.02) if engine == "vllm-bf16" else (0.1 * prompt, 0.02 * chat)
        return ttft * (1 + repeat / 1000), itl * (1 + repeat / 1000)

    return latency


@pytest.mark.parametrize(
    ("chat", "prompt", "said"),
    [
        (0.5, 0.5, "Chat and retrieval both gain."),
        (2, 2, "Chat and retrieval both lose."),
        (0.5, 3, "Chat gains, retrieval loses."),
        (3, 0.5, "Retrieval gains, chat loses."),
    ],
)
def test_what_long_prompts_gain_is_told_where_both_were_measured_with_them(tmp_path, chat, prompt, said):
    both = Test("length", "length", lengths(256, 512).levels)
    text = page(tmp_path, latency=long_prompts(chat, prompt), tests=(sweep(1, 2), both))
    assert re.search(r"With 512 tokens in, at C = 4, it takes \S+ \((faster|slower)\)\. " + said, text)


def test_nothing_is_said_of_longer_prompts_than_were_measured(tmp_path):
    text = page(tmp_path, latency=long_prompts(0.5, 3))
    assert re.search(r"one request at a time with 64 tokens in: its answers come at 2\S* the speed \(faster\)", text)
    assert re.search(r"its first token takes 3\S* the TTFT \(slower\)\. Longer prompts were not measured on both", text)
    assert "Chat gains" not in text
    assert "retrieval loses" not in text


@pytest.mark.parametrize(("repeats", "said"), [(2, "undecided"), (1, "not tested")])
def test_a_phase_within_the_noise_is_neither_faster_nor_slower(tmp_path, repeats, said):
    text = page(tmp_path, latency=close_at(1), repeats=repeats)
    assert re.search(rf"its answers come at 0\.9\S+ the speed \({said}\)", text)


def test_only_figures_of_flagged_levels_are_marked_as_such(tmp_path):
    figures = figures_of(tmp_path, latency=anomaly)
    test = figures.tests[0]
    rows = {row.name: row.flagged for row in properties(figures, test, Chooser(figures, test))}
    assert rows["weights"] == rows["pool"] == rows["single"] == frozenset()
    flagged = {flag.scope for flag in figures.flags}
    assert ("llamacpp-q4" in rows["peak"]) == (f"concurrency.llamacpp-q4.c{_peak(figures)}" in flagged)


def _peak(figures: Figures) -> int:
    levels = figures.tests[0].levels_of("llamacpp-q4")
    return max(levels, key=lambda level: figures.ledger[f"{level.id}.output_throughput"].value).concurrency


def test_a_load_that_was_not_reached_is_a_pitfall_of_too_few_requests(tmp_path):
    figures = compute(compose_round(tmp_path / "round"))
    level = "concurrency.vllm-bf16.c4"
    flag = Flag(level, "in_flight", tuple(f"{level}.{n}" for n in ("in_flight_ratio", "mean_in_flight", "concurrency")))
    met = {pitfall.name: pitfall.flags for pitfall in pitfalls(replace(figures, flags=[flag])) if pitfall.met}
    assert met == {"few": (flag,)}


@pytest.mark.parametrize(
    ("flags", "fair"),
    [
        (((), ()), True),
        ((("--gpu-memory-utilization", "0.9"), ()), False),
        ((("--gpu-memory-utilization=0.9",), ("-c", "4096")), False),
        ((("--max-num-seqs", "4"), ("-np", "4")), True),
    ],
)
def test_pools_of_different_settings_speak_for_no_engine(tmp_path, flags, fair):
    engines = [replace(engine, flags=given) for engine, given in zip((VLLM, LLAMA), flags, strict=True)]
    figures = figures_of(tmp_path, engines=engines)
    assert pools(figures, figures.tests[0]).fair is fair
    rows = {row.name: row.winner for row in properties(figures, figures.tests[0], Chooser(figures, figures.tests[0]))}
    assert (rows["pool"] is not None) is fair
    text = words(guide(figures.round))
    assert ("If contexts are long: its KV pool is the largest" in text) is fair
    assert ("not given the same memory, so no property of the engines" in text) is not fair
    assert ("The KV pools got different memory at the start, " in text) is not fair
    assert audited.digits(figures.round.path, guide(figures.round)) == []


def test_pools_of_the_same_bytes_may_be_held_against_each_other_whatever_set_them(tmp_path):
    engines = (VLLM, replace(LLAMA, flags=("-c", "4096")))
    figures = figures_of(tmp_path, engines=engines)
    for engine in ("vllm-bf16", "llamacpp-q4"):
        id = f"engine.{engine}.pool_bytes"
        figures.ledger._entries[id] = replace(figures.ledger[id], value=1e9)
    assert pools(figures, figures.tests[0]).fair


def test_pitfalls_name_the_flags_that_show_them(tmp_path):
    text = page(tmp_path, prefix_hits=0.5)
    assert re.search(r"A prefix cache answers from memory: .*? Met here: concurrency/", text)
    assert "Reported by others, not met here." in text


def test_checks_are_ticked_by_what_was_measured_alone(tmp_path):
    text = page(tmp_path)
    assert "☑ One request at a time on every engine" in text
    assert "☑ No request dropped silently" in text
    assert "☐ A long run" in text
    assert "☐ Your own client's parameters" in text
    assert "☐ Licences" in text
    failed = page(tmp_path / "failed", failures=lambda e, level, r, k: Failure(kind="http") if k == 5 else None)
    assert "☐ No request dropped silently" in failed


HOUR = 3600.0
STEPS = (
    "☐ Requests that come by themselves, whether or not earlier ones have ended (an open loop).",
    "☐ Bursts: requests that come closer together at times than chance brings them.",
    "☐ Requests of different lengths, as a trace or a file of chats has them.",
    "☐ Prompts of users, from a file.",
    "☐ Conversations of several turns.",
    "☐ The server's memory over that long run, so that a drift would show.",
)
SOAK = Test("hours", "soak", (Load("steady", 2, requests=8, lasts_s=HOUR, grows=1000),))
TALK = Test("talk", "conversation", (Load("c2", 2, requests=8, turns=2),))
CHATS = Test("chats", "open", (Load("q4", 4, requests=8, rate=4, file="chats.jsonl"),))
BURSTS = Test("bursts", "open", (Load("q4", 4, requests=8, rate=4, process="burst", size=4),))


def test_a_sweep_alone_leaves_what_users_do_open(tmp_path):
    text = page(tmp_path)
    assert [step for step in STEPS if step not in text] == []
    assert "arrivals as users make them: the load is a closed loop" in text
    assert "☑ The client kept up" in text


def test_what_a_round_measured_beyond_a_sweep_is_ticked_with_the_page_that_shows_it(tmp_path):
    text = page(tmp_path, tests=(sweep(1, 4), SOAK, TALK, CHATS, BURSTS), repeats=1)
    assert "☑ Requests that come by themselves, whether or not earlier ones have ended (an open loop) (07, 07)." in text
    assert "☑ Bursts: requests that come closer together at times than chance brings them (07)." in text
    assert "☑ Requests of different lengths, as a trace or a file of chats has them (07)." in text
    assert "☑ Prompts of users, from a file (07)." in text
    assert "☑ Conversations of several turns (08)." in text
    assert re.search(r"☑ A long run, an hour at least: [^☐☑]* \(09\)\.", text)
    assert "☑ The server's memory over that long run, so that a drift would show (09)." in text
    assert "arrivals as users make them" not in text


def test_a_step_taken_on_one_engine_alone_stays_open_and_names_it(tmp_path):
    one = Test("talk", "conversation", TALK.levels, engines=("vllm-bf16",))
    text = page(tmp_path, tests=(sweep(1, 4), one), repeats=1)
    assert "☐ Conversations of several turns, here on vllm-bf16 alone (08)." in text


def test_a_soak_of_less_than_an_hour_or_of_an_unseen_memory_leaves_its_step_open(tmp_path):
    short = Test("minutes", "soak", (Load("steady", 2, requests=8, lasts_s=600, grows=1000),))
    text = page(tmp_path, tests=(sweep(1), short), repeats=1)
    assert "☐ A long run" in text
    assert "☐ The server's memory" in text
    unseen = Test("hours", "soak", (Load("steady", 2, requests=8, lasts_s=HOUR),))
    text = page(tmp_path / "unseen", tests=(sweep(1), unseen), repeats=1)
    assert "☑ A long run" in text
    assert "☐ The server's memory" in text


def test_what_no_round_can_measure_is_never_ticked(tmp_path):
    text = page(tmp_path, tests=(sweep(1, 4), SOAK, TALK, CHATS, BURSTS), repeats=1)
    below = text.split("What no measurement of this tool can tell, and it never ticks:")[1]
    assert "☑" not in below
    assert below.count("☐") == 10


def test_another_name_or_another_number_of_slots_is_told_from_what_was_started(tmp_path):
    """Engines call one model by different names, and a variant may differ in anything."""
    variant = Engine("vllm-eager", "vllm", "bf16", flags=("--enforce-eager",), variant_of="vllm-bf16")
    text = page(tmp_path, engines=(VLLM, variant), tests=(sweep(1),), repeats=1)
    assert "the same engine with more and fewer slots or sequences" in text
    assert "another model" in text


def test_a_command_is_written_as_one_types_it():
    words = ["${LAB}/bin/vllm", "serve", "a b", "--port", "1", "--seed", "-1", "-np", "4"]
    assert _typed(words) == "${LAB}/bin/vllm serve 'a b' \\\n  --port 1 \\\n  --seed -1 \\\n  -np 4"


HOSTILE = '<script>alert(1)</script> {{ 7 * 7 }} "quoted"'


def test_hostile_words_of_a_plan_stay_words(tmp_path):
    more = {"not_measured": [HOSTILE], "hypotheses": [{"id": HOSTILE, "text": HOSTILE}], "prices": {"currency": HOSTILE},
            "slos": [slo(100) | {"id": HOSTILE, "percentile": HOSTILE}]}  # fmt: skip
    text = guide(planned(tmp_path, more))
    assert "<script" not in text
    assert "{{ 7 * 7 }}" in text


# ------------------------------------------------------------------------------------- what the audit will ask

POOR = {
    "rich": {"slos": [slo(100), slo(1), slo(1e6, "p99")], "tests": (sweep(1, 2, 4), CLIFF)},
    "one level": {"tests": (sweep(2),)},
    "nothing but requests": {"counters": False, "samples": False, "logs": False, "models": False, "ceilings": False},
    "all failed": {"failures": lambda *_: Failure(kind="connect"), "slos": [slo(100)]},
    "one engine": {"engines": [LLAMA]},
    "three engines": {"engines": [VLLM, LLAMA, THIRD], "tests": (sweep(1, 2, 4),), "slos": [slo(90)]},
}


@pytest.mark.parametrize("what", POOR.values(), ids=POOR.keys())
def test_every_digit_of_the_page_is_a_figure_or_a_known_name(tmp_path, what):
    round = compose_round(tmp_path / "round", **what)
    text = audited.page(round, "guide/index.md").split("---", 2)[2]
    assert "None" not in words(text)
    assert audited.digits(round.path, guide(round)) == []


def test_every_coefficient_of_the_calculator_names_its_figure(tmp_path):
    figures = figures_of(tmp_path)
    data = json.loads(calculator(figures, figures.tests[0]))["datasets"]
    assert {row["engine"] for row in data["engines"]} == {"vllm-bf16", "llamacpp-q4"}
    for row in (row for rows in data.values() for row in rows):
        for name, value in row.items():
            if isinstance(value, (int, float)):
                assert figures.ledger[row[f"{name}_id"]].value == value


def test_every_throughput_of_the_cost_table_names_its_figure(tmp_path):
    round = planned(tmp_path, {"prices": PRICES, "slos": [slo(500)]}, latency=DOMINATED)
    figures = compute(round)
    chooser = Chooser(figures, figures.tests[0])
    data = json.loads(costs(figures, [*chooser.by_limit(), chooser.at_peak()]))["datasets"]
    assert {row["throughput_id"]: row["throughput"] for row in data["throughputs"]} == {
        q.id: q.value for c in (*chooser.by_limit(), chooser.at_peak()) for q in (cell.throughput for cell in c.cells)
    }
    assert data["prices"][0]["card"] == 1800


@pytest.fixture(scope="module")
def calculating():
    """The page's own functions, in a browser."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        tab = browser.new_page()
        tab.add_script_tag(path=str(ASSETS / "guide.js"))

        def call(function: str, *given: object) -> object:
            return tab.evaluate(f"given => genreportFit.{function}(...given)", list(given))

        call.browser = browser
        yield call
        browser.close()


@pytest.mark.slow
def test_the_calculator_computes_what_the_report_computes(calculating):
    for users, context, size in ((1, 128, 4096.0), (16, 8192, 57344.0), (3, 1000, 0.5)):
        assert calculating("kv", users, context, size) == kv(users, context, size)
        assert calculating("needed", 1e9, users, context, size) == needed(1e9, users, context, size)
        assert calculating("held", 120_064, context) == held(120_064, context)
        assert calculating("prefill", 0.1, 64, context) == prefill(0.1, 64, context)
        assert calculating("decode", 0.02, context) == decode(0.02, context)
    for limits in ({"pool": 1e5}, {"pool": 1e3}, {"pool": 1e5, "slots": 4}, {"length": 512}, {"model": 256}, {}):
        assert calculating("verdict", 16, 1024, limits) == verdict(16, 1024, **limits)
    levels, x = [1, 2, 4, 8, 16], [61.9, 100.5, 180.2, 250.0, 240.1]
    for load in (1, 1.5, 3, 8, 11, 16):
        assert calculating("at", load, levels, x) == pytest.approx(loglog_at(load, levels, x), rel=1e-12)
    assert calculating("at", 17, levels, x) is None


@pytest.mark.slow
def test_the_cost_calculator_computes_what_the_plan_would(calculating):
    prices = {key: PRICES[key] for key in ("card", "years", "watts", "kwh")}
    assert calculating("hourly", prices) == pytest.approx(hourly(**prices), rel=1e-12)
    assert calculating("hourly", {"hour": 0.79}) == hourly(hour=0.79)
    assert calculating("hourly", {"card": 1800}) is None
    assert calculating("perMillion", 0.2, 173.0, 0.3) == pytest.approx(per_million(0.2, 173, 0.3), rel=1e-12)
    assert calculating("paysFrom", 0.2, 173.0, 0.6) == pytest.approx(pays_from(0.2, 173, 0.6), rel=1e-12)


@pytest.mark.slow
def test_both_calculators_answer_in_the_page(calculating, tmp_path):
    round = compose_round(tmp_path / "round", jitter=0, latency=DOMINATED, slos=[slo(500)])
    figures = compute(round)
    tab = calculating.browser.new_page()
    tab.set_content(f"<article>{guide(round).split('---', 2)[2]}</article>")
    tab.add_script_tag(path=str(ASSETS / "guide.js"))

    def cells(row: str) -> list[str]:
        return tab.locator(f'.gr-fit tr[data-row="{row}"] td').all_inner_texts()[1:]

    k = figures.ledger["engine.vllm-bf16.kv_bytes_per_token"].value
    assert cells("kv")[0] == shown(kv(16, 8192, k), "bytes")
    assert cells("verdict")[0] == cells("memory")[0] == "refused: the model ends at 2,048 tokens"
    assert (cells("left")[0], cells("prefill")[0]) == ("n/a", "n/a")
    assert cells("wait")[0] == "n/a: measured with 64 tokens in and 16 out, nothing else"
    tab.fill(".gr-fit [name=input]", "66")
    tab.fill(".gr-fit [name=output]", "16")
    tab.fill(".gr-fit [name=users]", "20")
    assert cells("verdict")[1] == "some wait: it works on 16 at once"
    assert cells("throughput")[0] == "beyond the measured loads (C = 1 to 16)"
    tab.fill(".gr-cost [name=hour]", "0.79")
    tab.fill(".gr-cost [name=utilisation]", "0.5")
    peak = figures.ledger["concurrency.vllm-bf16.peak_throughput"]
    found = tab.locator(f'.gr-cost [data-cost="{peak.id}"]').inner_text()
    assert found == shown(per_million(0.79, peak.value, 0.5), "EUR")
    tab.close()


@pytest.mark.slow
def test_a_field_that_cannot_be_read_says_so_and_leaves_no_answer_to_the_question_before(calculating, tmp_path):
    round = compose_round(tmp_path / "round", jitter=0, latency=DOMINATED, slos=[slo(500)])
    tab = calculating.browser.new_page()
    tab.set_content(f"<article>{guide(round).split('---', 2)[2]}</article>")
    tab.add_script_tag(path=str(ASSETS / "guide.js"))

    def told(kind: str, cell: str, **typed: str) -> tuple[list[str], str]:
        for name, value in typed.items():
            tab.fill(f"{kind} [name={name}]", value)
        notes = [note for note in tab.locator(f"{kind} .gr-wrong").all() if note.get_attribute("hidden") is None]
        return [note.inner_text() for note in notes], tab.locator(f"{kind} {cell}").first.inner_text()

    whole = "a whole number, 1 or more"
    for wrong in ("0", "-4", "", "2.5"):
        assert told(".gr-users", "tbody td:nth-child(2)", users=wrong) == ([whole], "–")
        assert told(".gr-fit", "tr[data-row=kv] td:nth-child(2)", users=wrong) == ([whole], "–")
    assert told(".gr-fit", "tr[data-row=kv] td:nth-child(2)", users="4")[0] == []
    assert told(".gr-cost", "[data-cost]", utilisation="30") == (["a share: above 0, and 1 at most"], "–")
    assert told(".gr-cost", "[data-cost]", utilisation="1", api="2")[0] == [
        "needed, or the price of the machine and its years"
    ]
    assert told(".gr-cost", "[data-cost]", card="1800") == (["needed beside the price of the machine"], "–")
    notes, cost = told(".gr-cost", "[data-cost]", hour="0.79", watts="450")
    assert notes == ["not counted: the rent is", "missing: power is not counted"]
    assert cost.endswith("EUR")
    assert told(".gr-cost", "[data-cost]", hour="-1", card="")[1] == "–"
    tab.close()


@pytest.mark.slow
def test_any_number_of_users_is_answered_between_the_loads_and_never_beyond_them(calculating, tmp_path):
    round = compose_round(tmp_path / "round", jitter=0, latency=DOMINATED)
    figures = compute(round)
    tab = calculating.browser.new_page()
    tab.set_content(f"<article>{guide(round).split('---', 2)[2]}</article>")
    tab.add_script_tag(path=str(ASSETS / "guide.js"))

    def answer(users: int) -> tuple[str, list[str]]:
        tab.fill(".gr-users [name=users]", str(users))
        return tab.locator(".gr-users output").inner_text(), tab.locator(".gr-users tbody tr").nth(0).locator(
            "td"
        ).all_inner_texts()

    levels = [figures.ledger[f"concurrency.vllm-bf16.c{c}.output_throughput"].value for c in (1, 2, 4, 8, 16)]
    said, row = answer(3)
    between = shown(loglog_at(3, [1, 2, 4, 8, 16], levels), "tok/s")
    assert said == f"vllm-bf16 delivers the most there by the curves, which is not tested: {between}."
    assert row[1] == between
    said, row = answer(20)
    assert said.startswith(
        "Nothing was measured there. At the nearest load, C = 16, vllm-bf16 delivers the most, by its curve: "
    )
    assert row[1] == f"{shown(levels[-1], 'tok/s')} at C = 16"
    assert (
        tab.locator(".gr-users tbody tr").nth(1).locator("td").nth(3).inner_text() == "4 wait: it works on 16 at once"
    )
    tab.close()


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["s", "bytes", "tok/s", "share", "1"])
def test_the_calculator_writes_values_as_pages_do(calculating, unit):
    for value in (0, 1, 16, 0.0004567, 0.09996, 0.0123, 1.5, 61.87, 999.6, 1388, 46592.4, 2.5e9, 3.21e12, -1.25):
        assert calculating("shown", value, unit) == shown(value, unit)


PLAN = """plan: 1
engines: [{id: a, kind: openai, model: m, url: "http://127.0.0.1:1"}]
tests: [{id: t, kind: concurrency, input: 8, output: 8, levels: [1]}]
prices: """


@pytest.mark.parametrize(
    ("prices", "said"),
    [
        ("{currency: eur, utilisation: 0.5, hour: 1}", "three capital letters"),
        ("{currency: EUR, utilisation: 2, hour: 1}", "1 at most"),
        ("{currency: EUR, utilisation: 0.5}", "either `hour`, or `card`"),
        ("{currency: EUR, utilisation: 0.5, card: 5}", "`card` and `years` together"),
        ("{currency: EUR, utilisation: 0.5, hour: 1, watts: 5}", "`watts` and `kwh` together"),
        ("{utilisation: 0.5, hour: 1}", "`currency` is missing"),
    ],
)
def test_prices_that_are_not_whole_are_mistakes_of_the_plan(tmp_path, prices, said):
    (tmp_path / "plan.yaml").write_text(PLAN + prices, "utf-8")
    with pytest.raises(PlanError, match=re.escape(said)):
        read_plan(tmp_path / "plan.yaml", on_this_machine=False)


def test_whole_prices_are_read(tmp_path):
    (tmp_path / "plan.yaml").write_text(PLAN + json.dumps(PRICES), "utf-8")
    assert read_plan(tmp_path / "plan.yaml", on_this_machine=False).prices.card == 1800


@pytest.mark.slow
def test_the_answer_to_a_number_of_users_says_what_failed_at_the_loads_beside_it(calculating, tmp_path):
    round = compose_round(tmp_path / "round", jitter=0, latency=DOMINATED, failures=failing("c4"))
    tab = calculating.browser.new_page()
    tab.set_content(f"<article>{guide(round).split('---', 2)[2]}</article>")
    tab.add_script_tag(path=str(ASSETS / "guide.js"))
    said = {}
    for users in (1, 3, 4, 16):
        tab.fill(".gr-users [name=users]", str(users))
        said[users] = tab.locator(".gr-users output").inner_text()
    failed = " But 16 of 32 requests failed at C = 4."
    assert [users for users, text in said.items() if text.endswith(failed)] == [3, 4]
    assert [users for users, text in said.items() if "failed" in text] == [3, 4]
    tab.close()


def test_the_calculator_knows_which_loads_failed_requests(tmp_path):
    figures = figures_of(tmp_path, failures=failing("c4"))
    levels = json.loads(calculator(figures, figures.tests[0]))["datasets"]["levels"]
    assert [(row["engine"], row["failed"], row["all_id"]) for row in levels if "failed" in row] == [
        ("vllm-bf16", 16, "concurrency.vllm-bf16.c4.all_requests")
    ]
