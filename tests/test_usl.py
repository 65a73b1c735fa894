"""The fit of the Universal Scalability Law: two optimisers, one curve, whatever the sweep looks like."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from genreport import evaluate
from genreport.audit.figures import check_figures
from genreport.audit.report import Report
from genreport.figures import scaling

LOADS = st.sampled_from(
    [(1, 2, 4, 8, 16), (1, 2, 4, 8, 16, 32, 64), (2, 4, 8, 16, 32), (1, 3, 5, 9, 11, 200), (4, 5, 6, 7, 8)]
)
# how X goes with C: as a power, from collapse (-2) over flat (0) to more than linear (1.2)
POWERS = st.floats(-2, 1.2) | st.sampled_from([-2.0, -1.0, 0.0, 1.0])
NOISE = st.lists(st.floats(-0.3, 0.3), min_size=7, max_size=7) | st.just([0.0] * 7)


def audited(c: np.ndarray, x: np.ndarray, fit: tuple[float, ...]) -> list[str]:
    """What the audit says of a fit as a manifest would hold it."""
    columns = (("c", c), ("x", x))
    known = {f"{name}{k}": {"value": float(v)} for name, values in columns for k, v in enumerate(values)}
    inputs = {name: [f"{name}{k}" for k in range(len(c))] for name in "cx"}
    figure = {"id": "fit", "value": list(fit), "unit": "1", "formula": "usl(c, x)", "inputs": inputs}
    report = Report()
    check_figures(known, {"fit": figure}, evaluate.Evidence(lambda file: b"", {}), report)
    return report.failures


@settings(max_examples=60)
@given(LOADS, POWERS, NOISE, st.floats(0.1, 1e4))
def test_both_paths_agree_on_noisy_flat_and_collapsing_sweeps(loads, power, noise, scale) -> None:
    c = np.array(loads, dtype=float)
    x = scale * c**power * np.exp(noise[: len(c)])
    fit = scaling.usl(c, x)
    assert all(0 <= p <= 1 for p in fit[1:])
    assert audited(c, x, fit) == []


@settings(max_examples=40)
@given(LOADS, st.floats(0, 1), st.floats(0, 1) | st.floats(0, 1e-3), NOISE)
def test_both_paths_agree_around_the_law_itself(loads, sigma, kappa, noise) -> None:
    c = np.array(loads, dtype=float)
    x = 100 * c / (1 + sigma * (c - 1) + kappa * c * (c - 1)) * np.exp(np.array(noise[: len(c)]) / 10)
    assert audited(c, x, scaling.usl(c, x)) == []


@pytest.mark.parametrize(
    "x",
    [
        (100, 100, 100, 100, 100),
        (100, 50, 25, 12.5, 6.25),
        (100, 10, 5, 3, 2),
        (10, 25, 60, 140, 300),
        (50, 90, 40, 95, 30),
    ],
    ids=["flat", "collapsing", "collapsing at once", "more than linear", "noisy"],
)
def test_a_fit_stays_inside_what_its_parameters_mean(x) -> None:
    c, x = np.array([1.0, 2, 4, 8, 16]), np.array(x, dtype=float)
    lam, sigma, kappa = scaling.usl(c, x)
    assert lam > 0
    assert 0 <= sigma <= 1
    assert 0 <= kappa <= 1
    assert audited(c, x, (lam, sigma, kappa)) == []


def test_a_changed_parameter_that_changes_the_curve_is_noticed() -> None:
    c = np.array([1.0, 2, 4, 8, 16])
    x = 60 * c / (1 + 0.05 * (c - 1) + 0.002 * c * (c - 1))
    lam, sigma, kappa = scaling.usl(c, x)
    for other in ((lam * 1.01, sigma, kappa), (lam, sigma + 0.01, kappa), (lam, sigma, kappa * 2)):
        assert audited(c, x, other)
