"""How values are written, and that the audit reads them back within the digits shown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genreport.audit.numbers import shows
from genreport.display import NARROW, shown


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.01409, "s", "14.1 ms"),
        (169.0, "s", "169 s"),
        (6.6e-5, "s", "66.0 µs"),
        (0, "s", "0 s"),
        (1387.8, "tok/s", "1,388 tok/s"),
        (2.7106, "ratio", "2.71×"),
        (0.8898, "share", "89.0 %"),
        (0.000145, "share", "0.0145 %"),
        (469762048, "bytes", "448 MiB"),
        (1008e9, "bytes/s", "1.01 TB/s"),
        (120064, "tokens", "120,064 tokens"),
        (14.65625, "1", "14.7"),
        (-0.05, "share", "−5 %"),
        (0.99996, "s", "1.00 s"),
        (12, "req/s", "12 req/s"),
        (0.317, "s/s", "317 ms/s"),
        (-2.05e-7, "s/s", "−0.205 µs/s"),
        (39 / 3.250002, "req/s", "12 req/s"),
        (11.9999, "req/s", "12.0 req/s"),
        (0.5000001, "req/s", "0.500 req/s"),
    ],
)
def test_a_value_is_rounded_once_to_three_digits(value, unit, text):
    assert shown(value, unit).replace(NARROW, " ") == text


UNITS = (
    "s",
    "s/s",
    "tok/s",
    "req/s",
    "share",
    "ratio",
    "bytes",
    "1",
    "count",
    "tokens",
    "FLOP",
    "FLOP/s",
    "bytes/s",
    "W",
    "J/tok",
)


@given(st.floats(1e-7, 1e12), st.sampled_from(UNITS))
def test_the_audit_reads_back_what_a_page_shows(value, unit):
    assert shows(shown(value, unit), value, unit)


@given(st.floats(1e-4, 1e9), st.sampled_from(["s", "tok/s", "share", "ratio"]))
def test_a_changed_digit_is_noticed(value, unit):
    text = shown(value, unit)
    digit = next(c for c in text if c.isdigit())
    changed = text.replace(digit, str((int(digit) + 3) % 10), 1)
    assert not shows(changed, value, unit)


@pytest.mark.parametrize(
    ("text", "value", "unit"),
    [
        ("14.1 s", 14.1, "count"),
        ("14.1", 14.1, "s"),
        ("14.1 ms", 14.1, "s"),
        ("14.1 MiB", 14.1, "bytes"),
        ("14.1 furlongs", 14.1, "tok/s"),
        ("14.1 %", 14.1, "ratio"),
        ("14.1 ms", [0.0141], "s"),
        ("fourteen", 14, "count"),
    ],
)
def test_a_unit_that_such_a_value_does_not_have_is_noticed(text, value, unit):
    assert not shows(text, value, unit)
