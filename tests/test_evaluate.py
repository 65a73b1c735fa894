"""The formula language of the audit: what it computes, and what it refuses."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genreport.evaluate import (
    Evidence,
    bin_count,
    bin_middle,
    bin_percentile,
    crossings,
    evaluate,
    loglog_at,
    percentile,
    primitives,
    recompute,
    since,
    usl,
)  # fmt: skip

RECORD = {
    "index": 0, "warmup": False, "seed": 1, "asked_input": 4, "asked_output": 3, "due_us": 0, "t0_us": 1_000,
    "gaps_us": [9_000, 190_000, 50_000, 0, 10], "kinds": "rttud", "tokens": [0, 1, 2, 0, 0],
    "usage": {"prompt_tokens": 4, "completion_tokens": 3}, "end_us": 250_010, "failure": None,
}  # fmt: skip


def test_primitives_of_a_record_are_seconds_since_the_origin():
    row = primitives(RECORD)
    assert row["t0_s"] == 0.001
    assert list(row["text_s"]) == pytest.approx([0.2, 0.25])
    assert list(row["text_tokens"]) == [1, 2]
    assert list(row["choices_s"]) == pytest.approx([0.01, 0.2, 0.25])
    assert row["ok"]
    assert row["n"] == 3


def test_an_event_of_two_tokens_gives_two_equal_itl_samples():
    row = primitives(RECORD)
    assert list(evaluate("repeat(diff(text_s) / text_tokens[1:], text_tokens[1:])", row)) == pytest.approx(
        [0.025, 0.025]
    )


def test_a_request_that_never_started_has_no_stamps():
    row = primitives(
        RECORD | {"t0_us": None, "gaps_us": [], "kinds": "", "tokens": None, "failure": {"kind": "connect"}}
    )
    assert len(row["text_s"]) == 0
    assert not row["ok"]


@pytest.mark.parametrize("text", ["__import__('os')", "x.real", "open(1)", "[y for y in x]", "'text'", "lambda: 1"])
def test_a_formula_can_only_do_arithmetic(text):
    with pytest.raises((SyntaxError, KeyError)):
        evaluate(text, {"x": 1})


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0, 100))
def test_percentiles_agree_with_numpy(values, q):
    assert percentile(values, q) == pytest.approx(np.percentile(values, q), abs=1e-6)


@settings(max_examples=12)
@given(st.floats(10, 1000), st.floats(0, 0.5), st.floats(0, 0.05))
def test_the_usl_fit_recovers_its_parameters(lam, sigma, kappa):
    c = np.array([1, 2, 4, 8, 16, 32.0])
    found = usl(c, lam * c / (1 + sigma * (c - 1) + kappa * c * (c - 1)))
    assert found == pytest.approx((lam, sigma, kappa), rel=2e-3, abs=1e-4)


def test_curves_cross_where_their_logs_meet():
    c = [1, 2, 4]
    assert crossings(c, [10, 20, 40], [20, 20, 20]) == pytest.approx([2])
    assert crossings(c, [10, 10, 40], [20, 20, 20]) == pytest.approx([2 * math.sqrt(2)])
    assert crossings(c, [1, 2, 3], [2, 3, 4]) == []


def test_interpolation_is_straight_on_log_axes():
    assert loglog_at(2, [1, 4], [10, 40]) == pytest.approx(20)


def test_a_counter_is_read_from_its_line_and_a_delta_from_its_inputs():
    evidence = Evidence(lambda file: b'# HELP x\nx_total{a="1"} 1,204.0\n', {})
    line = {"id": "x", "formula": "number(line)", "sources": [
        {"type": "line", "file": "f", "line": 2, "pattern": r"^x_total\{.*\} (\S+)$"}]}  # fmt: skip
    assert recompute(line, evidence, {}) == 1204
    delta = {"id": "d", "formula": "after - before", "inputs": {"after": "a", "before": "b"}}
    assert recompute(delta, evidence, {"a": {"value": 5}, "b": {"value": 3}}) == 2


def test_a_column_of_selected_rows_is_flattened():
    import json

    other = RECORD | {"warmup": True}
    data = (json.dumps(RECORD) + "\n" + json.dumps(other) + "\n").encode()
    evidence = Evidence(lambda file: data, {"gap_s": "diff(text_s)", "ttft_s": "text_s[0] - t0_s"})
    rows = {"type": "rows", "files": ["f", "f"], "where": "ok and not warmup", "count": 2}
    assert recompute({"id": "g", "formula": "sum(gap_s)", "sources": [rows]}, evidence, {}) == pytest.approx(0.1)
    assert recompute({"id": "t", "formula": "count(ttft_s)", "sources": [rows]}, evidence, {}) == 2


def test_times_of_repeats_count_from_their_own_start():
    t = np.array([100.0, 103.0, 7.0, 9.0, 10.0])
    assert since(t, np.array([100.0, 50.0, 7.0]), np.array([2.0, 0.0, 3.0])).tolist() == [0, 3, 0, 2, 3]


def test_stretches_of_a_span_hold_its_end_and_none_is_empty():
    t, x = np.array([0.0, 1.0, 9.9, 10.0]), np.array([1.0, 3.0, 5.0, 7.0])
    assert bin_middle(t, 10, 5).tolist() == [1, 9]
    assert bin_count(t, 10, 5).tolist() == [2, 2]
    assert bin_percentile(t, x, 10, 5, 50).tolist() == [2, 6]
