"""Charts as pages hold them: smaller, and the same once opened."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genreport.audit.specs import read_spec
from genreport.charts.packing import columns, dumped, packed
from test_charts import every_chart

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
points = st.builds(lambda base, k: f"{base}[{k}]", texts, st.integers(0, 3))
cells = st.none() | points | texts | st.floats(allow_nan=False, allow_infinity=False) | st.integers(-9, 9)


def opened(spec: dict) -> dict:
    return read_spec(dumped(packed(spec)))


@pytest.mark.parametrize("chart", every_chart(), ids=lambda chart: chart.name)
def test_a_packed_chart_is_the_same_once_opened(chart):
    described = opened(chart.spec) | {"description": chart.spec["description"]}
    assert described == json.loads(json.dumps(chart.spec))


@pytest.mark.parametrize("chart", every_chart(), ids=lambda chart: chart.name)
def test_a_packed_chart_is_smaller(chart):
    assert len(dumped(packed(chart.spec))) < len(dumped(chart.spec))


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "c_id"]), cells, max_size=3), max_size=6))
def test_any_rows_come_out_of_their_columns(rows):
    known = [{name: value for name, value in row.items() if value is not None} for row in rows]
    spec = {"layer": [], "datasets": {"rows1": known, "rows2": known[1:], "rows3": []}}
    assert opened(spec)["datasets"] == spec["datasets"]


def test_texts_that_begin_alike_are_told_once():
    rows = [{"href": f"sources/levels/concurrency/vllm-bf16/c4/r1/requests.jsonl.html#L{k * k}"} for k in range(60)]
    assert len(dumped(columns(rows))) < 900


def test_the_points_of_a_curve_are_told_as_a_stretch():
    rows = [{"value_id": f"t.e.c{level}.itl_ecdf[{k}]"} for level in (1, 2) for k in range(60)]
    assert columns(rows)["columns"] == {"value_id": {"points": ["t.e.c1.itl_ecdf", 0, 60, "t.e.c2.itl_ecdf", 0, 60]}}


def test_equal_values_in_a_row_are_counted():
    rows = [{"request": place} for place in (0, 1, 2) for _ in range(40)]
    assert columns(rows)["columns"] == {"request": {"runs": [40, 0, 40, 1, 40, 2]}}


def test_rows_that_stand_in_a_larger_table_are_named_by_their_places():
    rows = [{"level": f"c{k}", "value": k / 3} for k in range(9)]
    spec = {"layer": [], "datasets": {"rows1": rows[4:5], "rows2": rows, "rows3": [rows[7], rows[2]]}}
    assert packed(spec)["tables"]["rows1"] == {"of": "rows2", "at": [4]}
    assert opened(spec)["datasets"] == spec["datasets"]


def test_a_text_that_a_browser_counts_otherwise_is_told_whole():
    rows = [{"label": "🦙 one"}, {"label": "🦙 two"}]
    assert columns(rows)["columns"]["label"] == ["🦙 one", "🦙 two"]


def test_what_is_no_packed_chart_is_read_as_it_stands():
    assert read_spec('{"datasets": {"costs": [{"value": 1}]}}') == {"datasets": {"costs": [{"value": 1}]}}
