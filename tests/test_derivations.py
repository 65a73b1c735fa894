"""Derivations: every figure's way down to the lines, in markup that nothing in it can break."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genreport.provenance import Ledger, Line, Lines, Pointer, Quantity, Rows, Samples
from genreport.site.derivations import Links, entry, plain, write_derivations
from genreport.site.listings import Listed

TEMPLATES = Path(__file__).parents[1] / "templates"
FILE = "levels/t/e/c1/r1/requests.jsonl"


LISTED = {
    FILE: Listed(FILE, "ab" * 32, 1, 30),
    "start.log.gz": Listed("start.log.gz", "cd" * 32, 1, 30_000, (1, 20_001)),
}


def ledger(*quantities: Quantity) -> Ledger:
    filled = Ledger()
    for q in quantities:
        filled.add(q)
    return filled


def quantity(id="t.e.c1.ttft.p50", value=0.0141234567890123, **more) -> Quantity:
    given = {"sources": (Rows((FILE,), "ok and not warmup", 24, ((FILE, 7),)),)} | more
    return Quantity(id, value, "s", "percentile(ttft_s, 50)", n=24, **given)


def markup(q: Quantity, *others: Quantity) -> str:
    return entry(q, ledger(*others, q), Links(LISTED))


def test_a_value_is_shown_unrounded():
    assert ">0.0141234567890123 s</a>" in markup(quantity())


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_the_decimal_text_is_the_very_value(value):
    text = plain(value)
    assert float(text.replace(",", "").replace("−", "-")) == value
    assert "e" not in text


def test_an_entry_can_be_linked_and_names_its_formula_selection_and_count():
    text = markup(quantity())
    assert 'id="t.e.c1.ttft.p50"' in text
    assert "percentile(ttft_s, 50)" in text
    assert "24 rows where" in text
    assert "ok and not warmup" in text


def test_a_column_of_the_formula_is_defined_beside_it():
    assert "text_s[0] - t0_s" in markup(quantity())


def test_the_deciding_record_is_a_link_to_its_line():
    assert f'href="../sources/{FILE}.html#L7"' in markup(quantity())


def test_inputs_lead_to_their_own_entries_with_their_values():
    base = quantity()
    ratio = Quantity("pair.t.a.b.ratio", 2.0, "ratio", "a / b", inputs={"a": base.id, "b": (base.id, base.id)})
    text = markup(ratio, base)
    assert text.count('href="../figures/t.e.c1.html#t.e.c1.ttft.p50"') == 3
    assert "0.0141234567890123" in text


def test_a_missing_figure_says_why():
    text = markup(Quantity("x.y.z", None, "s", "f", reason="none in the measured range"))
    assert ">n/a</a>" in text
    assert "none in the measured range" in text


@pytest.mark.parametrize(
    ("source", "link"),
    [
        (Line("start.log.gz", 25000, r"(\d+) tokens"), "sources/start.log.gz.2.html#L25000"),
        (Lines("engine.log.gz", 3, 9, "x", 4), "sources/engine.log.gz.html#L9"),
        (Pointer("machine.json", "/cores", 5), "sources/machine.json.html#L5"),
        (Samples("samples.jsonl", "vllm:num_requests_running", (2, 40)), "sources/samples.jsonl.html#L40"),
    ],
    ids=["line", "lines", "pointer", "samples"],
)
def test_every_kind_of_source_is_a_link_to_its_place(source, link):
    assert f'href="../{link}"' in markup(quantity(sources=(source,)))


def test_a_curve_lists_its_points_without_drowning_the_page():
    text = markup(quantity(value=(0.25, 0.5, 0.75)))
    assert "<details>" in text
    assert "[2] 0.75" in text


def test_a_long_curve_and_a_long_list_of_inputs_end_where_the_rest_of_them_is_told():
    curve = quantity("t.e.c1.over_time.t", value=tuple(k / 8 for k in range(4000)))
    many = [Quantity(f"t.e.c{k}.x", float(k), "1", "x", sources=(Line("f", 1, "x"),)) for k in range(3000)]
    total = Quantity("t.e.total", 1.0, "1", "sum(x)", inputs={"x": tuple(q.id for q in many)})
    for text, left in ((markup(curve), "3,936"), (markup(total, *many), "2,984")):
        assert len(text) < 60_000
        assert f'<a href="../provenance.json">{left} more: in provenance.json</a>' in text


def test_hostile_text_is_shown_as_text():
    evil = "<script>alert(1)</script>\"'{{x}}"
    q = quantity(sources=(Line(evil, 1, evil),), notes=(evil,))
    assert "<script" not in markup(q)
    assert "<script" not in markup(Quantity("a.b.c", None, "s", evil, reason=evil))


def test_all_that_is_no_value_is_marked_as_the_manifests_words():
    without = re.sub(r'<(h2|table|small|span) class="gr-def.*?</\1>', "", markup(quantity()), flags=re.S)
    assert re.sub(r"<[^>]+>", "", without).strip() == "0.0141234567890123 s"


def test_pages_are_written_one_a_level_with_an_index(tmp_path):
    figures = ledger(quantity(), quantity("t.e.c2.ttft.p50"), quantity("t.e.knee"))
    write_derivations("round2", figures, [Listed(FILE, "ab" * 32, 1, 1)], tmp_path, TEMPLATES)
    assert {page.name for page in (tmp_path / "figures").iterdir()} == {
        "t.e.c1.html", "t.e.c2.html", "t.e.html", "index.html",
    }  # fmt: skip
    assert 'href="t.e.c2.html"' in (tmp_path / "figures" / "index.html").read_text("utf-8")
