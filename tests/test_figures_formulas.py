"""Properties of the formulas: percentiles and their picks, crossings, the USL, gaps, pointers."""

import json

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from genreport.evaluate import evaluate
from genreport.figures import crossing, frames, latency, pointers, roofline, samples, scaling, throughput
from genreport.figures.capacity import group, read_per_step
from genreport.records import Request, Tensor, Usage

FINITE = st.floats(1e-6, 1e6)


def request(gaps: list[int], kinds: str, *, index: int = 0, tokens: list[int] | None = None, **more: object) -> Request:
    facts = {"seed": 1, "asked_input": 8, "asked_output": 4, "due_us": 90, "t0_us": 100, "end_us": 100 + sum(gaps)}
    return Request(**{"index": index, **facts, "gaps_us": gaps, "kinds": kinds, "tokens": tokens, **more})


def table(*requests: Request) -> frames.Table:
    return frames.table("levels/t/e/c1/r1/requests.jsonl", requests)


@given(st.lists(FINITE, min_size=1, max_size=60), st.floats(0, 100))
def test_a_percentile_lies_between_the_values_it_picks(values: list[float], q: float) -> None:
    array = np.array(values)
    picked = array[list(latency.interpolated(array, q))]
    value = np.percentile(array, q)
    assert picked.min() * (1 - 1e-12) <= value <= picked.max() * (1 + 1e-12)


@pytest.mark.parametrize(("q", "enough"), [(50, 6), (90, 36), (95, 72), (99, 368), (99.9, 3688)])
def test_too_few_samples_begin_where_no_interval_exists(q: float, enough: int) -> None:
    assert latency.few(enough - 1, q)
    assert not latency.few(enough, q)


@given(st.lists(st.integers(0, 10**7), min_size=1, max_size=40))
def test_gaps_of_text_events_sum_to_the_time_between_first_and_last(gaps: list[int]) -> None:
    rows = table(request(gaps, "t" * len(gaps), usage=Usage(completion_tokens=len(gaps)))).measured
    decode = rows.e2el_s.values[0] - rows.ttft_s.values[0]
    assert rows.gap_s.values.sum() == pytest.approx(decode, abs=1e-9)
    assert rows.ttft_s.values[0] == pytest.approx(gaps[0] / 1e6)


def test_a_role_event_is_a_choice_but_no_text() -> None:
    rows = table(request([10_000, 90_000, 20_000], "rtt", usage=Usage(completion_tokens=2))).measured
    assert rows.ttft_s.values[0] == pytest.approx(0.1)
    assert rows.first_choices_s.values[0] == pytest.approx(0.01)


def test_an_event_of_k_tokens_gives_k_equal_samples() -> None:
    rows = table(request([10_000, 60_000, 20_000], "ttt", tokens=[1, 3, 1])).measured
    assert rows.itl_s.values == pytest.approx([0.02, 0.02, 0.02, 0.02])
    assert rows.rows["n"].tolist() == [5]


def test_a_request_of_one_token_has_no_tpot() -> None:
    one, two = (request([1000] * k, "t" * k, index=k, usage=Usage(completion_tokens=k)) for k in (1, 2))
    rows = table(one, two).measured
    assert rows.tpot_s.row.tolist() == [1]
    assert len(rows.ttft_s) == 2


@pytest.mark.parametrize(
    "broken",
    [
        {"gaps": [5000, -1, 10]},
        {"gaps": [5000, 10, 10], "end_us": 200},
        {"gaps": [5000, 10**30, 10]},
        {"gaps": [5000, 10, 10], "t0_us": None},
    ],
    ids=["negative gap", "text after the end", "a gap of ages", "never sent"],
)
def test_a_record_with_impossible_stamps_is_not_ok(broken: dict) -> None:
    given = {"end_us": 20_000, **broken}
    rows = table(request(given.pop("gaps"), "ttt", **given))
    assert not rows.rows["ok"].any()
    assert len(rows.measured) == 0


def test_text_of_many_repeats_keeps_its_place() -> None:
    first = table(request([10, 20], "tt"), request([1], "t", index=1))
    second = table(request([30, 40, 50], "ttt"))
    both = frames.pooled([first, second])
    assert both.gap_s.row.tolist() == [0, 2, 2]
    assert both.place(2)[1] == 1
    assert both.only(np.array([False, False, True])).gap_s.row.tolist() == [0, 0]


CURVE = st.lists(st.floats(0.1, 1e5), min_size=4, max_size=4)


@given(CURVE, CURVE)
def test_at_a_crossing_both_curves_have_one_value(xa: list[float], xb: list[float]) -> None:
    c = [1, 2, 4, 8]
    for meeting in crossing.crossings(c, xa, xb):
        a, b = (crossing.loglog_at(min(max(meeting, 1), 8), c, x) for x in (xa, xb))
        assert a == pytest.approx(b, rel=1e-6)
    changes = sum((p > q) != (r > s) for p, q, r, s in zip(xa, xb, xa[1:], xb[1:], strict=False))
    assume(all(p != q for p, q in zip(xa, xb, strict=True)))
    assert len(crossing.crossings(c, xa, xb)) == changes


def test_curves_that_touch_at_a_level_meet_there_once() -> None:
    assert crossing.crossings([1, 2, 4], [10, 20, 50], [20, 20, 40]) == pytest.approx([2])


@given(st.floats(0.1, 1e3), st.floats(-2, 2), st.floats(1, 16))
def test_a_power_law_is_interpolated_exactly_and_never_extrapolated(a: float, slope: float, at: float) -> None:
    c = np.array([1, 3, 16])
    assert crossing.loglog_at(at, c, a * c**slope) == pytest.approx(a * at**slope, rel=1e-9)
    assert crossing.loglog_at(17, c, a * c**slope) is None


@given(st.floats(1, 1e4), st.floats(0, 0.5), st.floats(1e-5, 0.05))
def test_the_usl_fit_recovers_its_parameters(lam: float, sigma: float, kappa: float) -> None:
    c = np.array([1, 2, 4, 8, 16, 32.0])
    x = lam * c / (1 + sigma * (c - 1) + kappa * c * (c - 1))
    fit = scaling.usl(c, x)
    assert fit == pytest.approx((lam, sigma, kappa), rel=1e-4, abs=1e-6)


def test_the_knee_is_the_start_of_the_first_interval_that_buys_latency() -> None:
    c = np.array([1, 2, 4, 8])
    assert scaling.knee(c, np.array([10, 19, 36, 40])) == 4
    assert scaling.knee(c, np.array([10, 11, 22, 44])) == 1
    assert scaling.knee(c, np.array([10, 20, 40, 80])) is None


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.floats(0.1, 10))
def test_requests_that_start_in_step_have_a_wave_index_of_one(turns: list[float], period: float) -> None:
    whole = np.floor(np.array(turns)) * period
    assert throughput.rayleigh(whole, period) == pytest.approx(1, abs=1e-6)
    assert 0 <= throughput.rayleigh(np.array(turns), period) <= 1 + 1e-12


def test_a_gauge_is_weighed_by_time() -> None:
    assert samples.time_mean(np.array([0, 1, 11.0]), np.array([0, 2, 2.0])) == pytest.approx(21 / 11)
    assert samples.time_mean(np.array([5.0]), np.array([3.0])) == 3


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
TREES = st.recursive(
    LEAVES,
    lambda kids: st.lists(kids, max_size=4) | st.dictionaries(st.text(max_size=6), kids, max_size=4),
    max_leaves=12,
)


@given(TREES, st.sampled_from([None, 1]))
def test_every_pointer_finds_its_value_and_the_line_it_stands_on(tree: object, indent: int | None) -> None:
    text = json.dumps(tree, indent=indent, ensure_ascii=False)
    lines = text.split("\n")
    for pointer, line in pointers.lines_of(text).items():
        value = pointers.at(tree, pointer)
        if not isinstance(value, (dict, list)):
            assert json.dumps(value, ensure_ascii=False) in lines[line - 1]


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("token_embd.weight", "embedding"), ("model.embed_tokens.weight", "embedding"),
        ("output.weight", "output"), ("lm_head.weight", "output"),
        ("output_norm.weight", "norm"), ("blk.0.attn_norm.weight", "norm"),
        ("model.layers.0.input_layernorm.weight", "norm"),
        ("blk.3.attn_q.weight", "attention"), ("blk.3.attn_output.weight", "attention"),
        ("model.layers.0.self_attn.o_proj.weight", "attention"),
        ("blk.3.ffn_gate.weight", "mlp"), ("model.layers.0.mlp.down_proj.weight", "mlp"),
        ("rope_freqs.weight", "other"),
    ],
)  # fmt: skip
def test_one_rule_groups_the_tensors_of_both_formats(name: str, part: str) -> None:
    assert group(name) == part


def test_a_tied_table_is_read_once_and_an_untied_one_not_at_all() -> None:
    names = ("model.embed_tokens.weight", "model.norm.weight", "lm_head.weight")
    tensors = [Tensor(name=name, dtype="BF16", shape=[2], bytes=4) for name in names]
    assert read_per_step(tensors[:2], tied=True) == [0, 1]
    assert read_per_step(tensors, tied=False) == [1, 2]
    assert read_per_step(tensors, tied=True) == [1, 2]


def test_the_output_head_multiplies_generated_tokens_and_no_prompt() -> None:
    known = {
        "body": 100,
        "parameters": 130,
        "layers": 2,
        "hidden": 5,
        "prompt": 40,
        "tokens": 10,
        "input": 8,
        "output": 4,
    }
    linear, context = 2 * (100 * 50 + 30 * 10), 40 * 4 + 10 * 10
    assert roofline.model_flops(**known) == linear + 4 * 2 * 5 * context
    assert evaluate(roofline.FLOPS, known) == roofline.model_flops(**known)
