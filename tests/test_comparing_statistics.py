"""The statistics of a comparison against known results, and both paths to each against one another."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import nct, ttest_ind

from genreport import evaluate as second
from genreport.comparing.verdicts import VERDICTS, decide, decision
from genreport.figures import statistics as first
from genreport.figures.repeats import bootstrap_error

OLD, NEW = [100.0, 104.0, 97.0], [110.0, 115.0, 108.0, 111.0]
positive = st.lists(st.floats(0.01, 1e4), min_size=3, max_size=6, unique=True)
freedoms = st.floats(2, 60)


def welch(old, new) -> first.Spread:
    """Both rounds' repeats compared, as `verdicts` does it figure by figure."""
    ratio, error = first.geometric_ratio(old, new), first.standard_error(old, new)
    return first.Spread(math.log(ratio), error, first.freedom(old, new))


def test_the_p_and_the_freedom_are_welch_s_of_the_logarithms():
    known = ttest_ind(np.log(NEW), np.log(OLD), equal_var=False)
    found = welch(OLD, NEW)
    assert found.p == pytest.approx(known.pvalue, rel=1e-9)
    assert found.freedom == pytest.approx(known.df, rel=1e-9)


def test_the_interval_is_welch_s_of_the_logarithms():
    known = ttest_ind(np.log(NEW), np.log(OLD), equal_var=False).confidence_interval(0.95)
    assert welch(OLD, NEW).interval() == pytest.approx((math.exp(known.low), math.exp(known.high)), rel=1e-9)


@given(positive, positive)
def test_both_paths_make_the_same_interval_of_two_engines_ratio(over, under):
    found = first.ratio_interval(over, under)
    assert second.ratio_interval(np.array(over), np.array(under)) == pytest.approx(found, rel=1e-6)
    assert found[0] <= first.geometric_ratio(under, over) <= found[1]
    assert first.ratio_interval(under, over) == pytest.approx((1 / found[1], 1 / found[0]), rel=1e-9)


def test_repeats_that_are_all_equal_leave_no_doubt_about_their_ratio():
    for path in (first, second):
        assert path.ratio_interval(np.array([6.0, 6.0]), np.array([3.0, 3.0])) == pytest.approx((2, 2))


def test_two_engines_without_a_difference_are_told_apart_in_one_of_twenty_cases():
    """The rule's false alarms, with three repeats of each: about 5 %, where ranges without a common value are 10 %."""
    draw = np.random.default_rng(7)
    repeats = np.exp(draw.normal(0, 0.03, (4000, 2, 3)))
    ends = [first.ratio_interval(over, under) for over, under in repeats]
    assert np.mean([low > 1 or high < 1 for low, high in ends]) == pytest.approx(0.045, abs=0.015)


def test_the_ratio_is_one_of_geometric_means():
    assert first.geometric_ratio([1, 4], [8, 8]) == pytest.approx(4)


def test_benjamini_and_hochberg_on_a_list_worked_by_hand():
    # 0.01·5/1, 0.02·5/2, 0.03·5/3, 0.2·5/4, 0.9·5/5, then the least of each and those above it
    assert first.adjusted([0.03, 0.9, 0.01, 0.2, 0.02]) == pytest.approx([0.05, 0.9, 0.05, 0.25, 0.05])


def test_the_threshold_is_what_one_more_figure_would_have_needed():
    assert first.threshold([0.001, 0.5, 0.6, 0.7]) == pytest.approx(0.05 * 2 / 4)
    assert first.threshold([0.9, 0.5, 0.6, 0.7]) == pytest.approx(0.05 / 4)
    assert first.threshold([0.001]) == pytest.approx(0.05)


@pytest.mark.parametrize("freedom", [3, 4, 8, 18])
@pytest.mark.parametrize("alpha", [0.05, 0.01, 0.001])
def test_the_detectable_difference_is_found_in_four_of_five_cases(freedom, alpha):
    size = math.log(1 + first.detectable(0.01, freedom, alpha, 0.0)) / 0.01
    found = nct.sf(-first.t_quantile(alpha / 2, freedom), freedom, size)
    assert found == pytest.approx(0.8, abs=0.03)


def test_a_difference_must_also_be_larger_than_the_margin_to_be_detected():
    assert first.detectable(0.0001, 20, 0.05, 0.10) > 0.10


def test_levels_as_blocks_decide_two_per_cent_with_five_levels_and_three_repeats():
    level = first.Spread(0.0, 0.02 * math.sqrt(2 / 3), 4)
    low, high = first.blocks([level] * 5).interval()
    assert (high - low) / 2 == pytest.approx(0.0152, abs=0.0002)


def test_the_floor_is_what_most_differences_stay_below():
    assert first.noise_floor([0.01, -0.03]) == pytest.approx(math.exp(0.029) - 1)


def test_more_repeats_are_needed_the_closer_the_difference_lies_to_the_claim():
    spread = first.Spread(0.0, 0.01, 20)
    assert first.repeats_needed(3, spread, 0.02) < first.repeats_needed(3, spread, 0.005)
    assert first.repeats_needed(3, spread, 10) == first.FEWEST


# ------------------------------------------------------------------------------------------- properties


@given(positive, positive)
def test_swapping_the_rounds_inverts_the_ratio_and_its_interval(old, new):
    there, back = welch(old, new), welch(new, old)
    assert there.log_ratio == pytest.approx(-back.log_ratio, abs=1e-9)
    assert there.p == pytest.approx(back.p, rel=1e-9)
    assert np.log(there.interval()) == pytest.approx(
        [-x for x in reversed(np.log(back.interval()))], rel=1e-9, abs=1e-9
    )


@given(positive, positive, st.floats(0.001, 1000))
def test_other_units_change_nothing(old, new, scale):
    here, there = welch(old, new), welch(np.array(old) * scale, np.array(new) * scale)
    assert here.log_ratio == pytest.approx(there.log_ratio, abs=1e-9)
    assert here.error == pytest.approx(there.error, rel=1e-6)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_a_corrected_p_is_never_smaller_and_keeps_the_order(p):
    q = first.adjusted(p)
    assert np.all(q >= np.array(p) - 1e-15)
    assert np.all(q <= 1)
    assert np.all(np.diff(q[np.argsort(p, kind="stable")]) >= 0)


@given(st.floats(0.2, 5), st.floats(1, 2), st.floats(0, 1), st.floats(0, 0.5))
def test_a_verdict_turns_with_the_direction_and_with_the_rounds(ratio, wide, q, margin):
    low, high = ratio / wide, ratio * wide
    there = decide("higher", ratio, low, high, q, margin)
    assert decide("lower", ratio, low, high, q, margin) == (-there if abs(there) == 1 else there)
    if abs(math.log(ratio)) > math.log(1 + margin) + 1e-9:
        back = decide("higher", 1 / ratio, 1 / high, 1 / low, q, margin)
        assert back == (-there if abs(there) == 1 else there)


# ------------------------------------------------------------------------------------------- the second path


@given(st.floats(-30, 30), freedoms)
def test_both_paths_agree_on_the_tail_of_t(t, freedom):
    assert second.t_tail(t, freedom) == pytest.approx(first.t_tail(t, freedom), rel=1e-9, abs=1e-14)


@settings(max_examples=30)
@given(st.floats(1e-7, 1 - 1e-7), freedoms)
def test_both_paths_agree_on_the_quantile_of_t(p, freedom):
    assert second.t_quantile(p, freedom) == pytest.approx(first.t_quantile(p, freedom), rel=1e-9, abs=1e-9)


@given(positive)
def test_both_paths_agree_on_a_variance(x):
    assert second.variance(np.array(x)) == pytest.approx(first.variance(x), rel=1e-9)


@given(st.lists(st.floats(1e-9, 1), min_size=1, max_size=30))
def test_both_paths_agree_on_a_correction(p):
    assert second.adjusted(np.array(p), np.array(p)) == pytest.approx(first.adjusted(p), rel=1e-12)
    assert second.adjusted(p[0], np.array(p)) == pytest.approx(first.adjusted(p)[0], rel=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.lists(positive, min_size=2, max_size=4), st.sampled_from([50.0, 99.0]))
def test_both_paths_agree_on_the_bootstrap(repeats, q):
    arrays = [np.array(part) for part in repeats]
    again = second.bootstrap_error(np.concatenate(arrays), np.array([len(a) for a in arrays]), q, 20, 7)
    assert again == pytest.approx(bootstrap_error(arrays, q, 20, 7), rel=1e-9)


@given(st.floats(0.2, 5), st.floats(1, 2), st.floats(0, 1), st.floats(0, 0.5), st.sampled_from(["higher", "lower"]))
def test_both_paths_agree_on_a_verdict(ratio, wide, q, margin, better):
    names = {"ratio": ratio, "low": ratio / wide, "high": ratio * wide, "q": q, "margin": margin}
    assert second.evaluate(decision(better), names) == decide(better, **names)


def test_every_verdict_has_a_code_of_its_own_and_the_audit_knows_the_same():
    from genreport.audit.verdicts import STATES as audited_states
    from genreport.audit.verdicts import VERDICTS as audited
    from genreport.comparing.verdicts import STATES

    assert audited == VERDICTS
    assert audited_states == STATES


# ------------------------------------------------------------------------------------------- simulated truth


def test_a_handful_of_simulated_rounds_without_a_change_raise_no_alarm():
    from benchmarks.simulated_truth import World, false_alarms

    pairs, figures, raw = false_alarms(World(), 40, 1)
    assert pairs <= 0.05
    assert figures <= 0.01
    assert 0.01 < raw < 0.08


def test_a_large_simulated_change_is_found_where_it_is_and_nowhere_else():
    from benchmarks.simulated_truth import World, power, trials

    def which(level: int, figure: str) -> bool:
        return level < 2

    world = World(repeats=5)
    assert power(world, 20, 2, 1.5, which) > 0.9
    found = [c for verdicts, _ in trials(world, 20, 2, 1.5, which) for c in verdicts if int(c.scope[13]) >= 2]
    assert sum(c.verdict in ("improved", "regressed") for c in found) <= 0.05 * len(found)


@pytest.mark.slow
def test_a_simulated_change_as_large_as_is_printed_as_detectable_is_found_about_four_times_in_five():
    """Eighty figures: a share of 80 % is told to within 13 % (three standard errors)."""
    from benchmarks.simulated_truth import World, power, printed

    world = World(repeats=5)
    size = printed(world, "detectable", 20, 2)
    found = {part: power(world, 40, 3, 1 + part * size, lambda level, _: level < 2) for part in (0.5, 1)}
    assert found[1] == pytest.approx(0.8, abs=0.13)
    assert found[0.5] < 0.5
