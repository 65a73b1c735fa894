"""figures.js: what a card says of a figure, and that nothing in it can break the script."""

from __future__ import annotations

import json

import pytest

from genreport.audit.cards import card_problem, head_problems, read_cards
from genreport.audit.manifest import Manifest
from genreport.provenance import Foreign, Ledger, Line, Lines, Pointer, Quantity, Rows, Samples, Tally
from genreport.site.cards import MOST, places_of, script
from genreport.site.listings import Listed
from genreport.site.requests import beside

FILE = "levels/t/e/c1/r1/requests.jsonl"
SHA = "ab" * 32


def quantity(id: str = "t.e.c1.ttft.p50", value: object = 0.0141234567890123, **more: object) -> Quantity:
    given = {"sources": (Rows((FILE,), "ok and not warmup", 24, ((FILE, 7), (FILE, 9))),), "n": 24} | more
    return Quantity(id, value, "s", given.pop("formula", "percentile(ttft_s, 50)"), **given)


def ledger(*quantities: Quantity) -> Ledger:
    filled = Ledger()
    for q in quantities:
        filled.add(q)
    return filled


def cards(*quantities: Quantity, shown: list[str] | None = None) -> dict:
    known = ledger(*quantities)
    return read_cards(script("r", known, [Listed(FILE, SHA, 9, 9)], [q.id for q in known] if shown is None else shown))


def audited(*quantities: Quantity, shown: list[str] | None = None) -> list[str]:
    """What the audit finds wrong with the script of these figures."""
    from pathlib import Path

    known = ledger(*quantities)
    plain = json.loads(json.dumps(known.manifest("r", {FILE: {"sha256": SHA, "bytes": 9, "lines": 9}})))
    manifest = Manifest(Path("r"), plain["files"], plain["columns"], {f["id"]: f for f in plain["figures"]})
    found = cards(*quantities, shown=shown)
    problems = [card_problem(id, entry, manifest) for id, entry in found["figures"].items()]
    return [*filter(None, problems), *head_problems(found, manifest)]


RATIO = Quantity("t.e.ratio", 2.0, "ratio", "a / sum(b)", inputs={"a": "t.e.c1.ttft.p50", "b": ("t.e.c1.ttft.p50",)})
MISSING = Quantity("t.e.none", None, "s", "percentile(ttft_s, 50)", reason="no request completed")
CURVE = quantity("t.e.c1.itl_ecdf", (0.1, 0.2))
ZERO = quantity("t.e.c1.failed", 0, n=0, sources=(Rows((FILE,), "not ok", 0, ()),))
BORROWED = quantity("other.r1.t.e.c1.ttft.p50", formula="foreign", sources=(Foreign("r1", "t.e.c1.ttft.p50", SHA),))
COUNTED = Quantity("evidence.figures", 4, "count", "tally", sources=(Tally("figures"),))


def test_a_card_holds_value_formula_rows_and_the_deciding_lines():
    found = cards(quantity())
    entry = found["figures"]["t.e.c1.ttft.p50"]
    assert entry["value"] == 0.0141234567890123
    assert entry["rows"] == [24, 1, "ok and not warmup"]
    assert entry["places"] == [[FILE, 7], [FILE, 9]]
    assert found["files"] == [[FILE, SHA, [1]]]
    assert found["columns"] == {"ttft_s": "text_s[0] - t0_s"}


def test_what_is_derived_shows_the_nearest_lines_it_rests_on_and_its_inputs_values():
    found = cards(quantity(), RATIO, shown=[RATIO.id])
    entry = found["figures"][RATIO.id]
    assert entry["through"] == "t.e.c1.ttft.p50"
    assert entry["places"] == [[FILE, 7], [FILE, 9]]
    assert entry["inputs"] == {"a": "t.e.c1.ttft.p50", "b": [1, "t.e.c1.ttft.p50"]}
    assert found["figures"]["t.e.c1.ttft.p50"] == {"value": 0.0141234567890123, "unit": "s", "group": "t.e.c1"}


def test_a_card_of_what_is_missing_says_why():
    assert cards(MISSING)["figures"][MISSING.id]["reason"] == "no request completed"


def test_a_borrowed_figure_names_the_round_it_is_of():
    assert cards(BORROWED)["figures"][BORROWED.id]["foreign"] == ["r1", "t.e.c1.ttft.p50", SHA]


def test_a_zero_and_no_samples_are_said():
    entry = cards(ZERO)["figures"][ZERO.id]
    assert (entry["value"], entry["n"]) == (0, 0)


def test_more_places_than_a_card_shows_are_counted():
    many = quantity(sources=(Rows((FILE,), "ok", 24, tuple((FILE, k) for k in range(1, MOST + 4))),))
    entry = cards(many)["figures"][many.id]
    assert (len(entry["places"]), entry["more"]) == (MOST, 3)


def test_of_many_inputs_the_first_are_named_and_all_are_counted():
    values = tuple(quantity(f"t.e.c1.x{k}") for k in range(MOST + 2))
    total = Quantity("t.e.total", 1.0, "s", "sum(x)", inputs={"x": tuple(q.id for q in values)})
    several = Quantity("t.e.several", 1.0, "s", "x0 + x1", inputs={f"x{k}": q.id for k, q in enumerate(values)})
    found = cards(*values, total, several, shown=[total.id, several.id])["figures"]
    assert found[total.id]["inputs"]["x"] == [MOST + 2, *(q.id for q in values[:MOST])]
    assert (len(found[several.id]["inputs"]), found[several.id]["left"]) == (MOST, 2)
    assert audited(*values, total, several, shown=[total.id, several.id]) == []


@pytest.mark.parametrize(
    ("source", "places"),
    [
        (Rows((FILE, "b"), "ok", 0, ()), [(FILE,), ("b",)]),
        (Line("start.log.gz", 25, "x"), [("start.log.gz", 25)]),
        (Lines("engine.log.gz", 3, 9, "x", 4), [("engine.log.gz", 3, 9)]),
        (Pointer("machine.json", "/cores", 5), [("machine.json", 5)]),
        (Samples("samples.jsonl", "x", (2, 40)), [("samples.jsonl", 2, 40)]),
        (Tally("figures"), []),
    ],
    ids=["rows", "line", "lines", "pointer", "samples", "tally"],
)
def test_every_kind_of_source_has_its_places(source, places):
    assert [tuple(place) for place in places_of(source)] == places


def test_the_audit_agrees_with_every_kind_of_card():
    assert audited(quantity(), RATIO, MISSING, CURVE, ZERO, COUNTED, BORROWED) == []
    assert audited(quantity(), RATIO, MISSING, CURVE, ZERO, COUNTED, shown=[RATIO.id, ZERO.id]) == []


def test_hostile_text_stays_text():
    evil = '</script><img src=x onerror=alert(1)>"\\\u2028`${1}'
    q = quantity(sources=(Line(FILE, 1, evil),), notes=("by_model",), formula=evil)
    found = cards(q)
    assert found["figures"][q.id]["formula"] == evil
    assert audited(q) == []


def test_a_note_without_words_is_an_error_and_no_text_made_up():
    with pytest.raises(KeyError, match="odd_note"):
        cards(quantity(notes=("odd_note",)))


def test_the_same_figures_give_the_same_bytes():
    given = (ledger(quantity(), RATIO, MISSING), [Listed(FILE, SHA, 9, 9)])
    assert script("r", *given, {RATIO.id, MISSING.id}) == script("r", *given, [MISSING.id, RATIO.id])


# ------------------------------------------------------------------------------------- beside the records


def test_the_page_of_a_request_knows_its_level_and_the_median_gap():
    gap = quantity("t.e.c1.gap.p50", 0.03)
    found = beside(FILE, ["{}"] * 12, (1, 9), b"a\nb\n", ledger(gap)).context(9, 12)
    assert (found["where"], found["lines"], found["starts"], found["log_starts"]) == (
        "t · e · c1 · r1",
        12,
        "[1,9]",
        "[1]",
    )
    assert found["gap"] == "0.03"
    assert 'data-id="t.e.c1.gap.p50"' in found["gap_number"]


def test_without_a_log_or_a_median_gap_the_page_says_so():
    found = beside(FILE, ["{}"], (1,), None, None).context(1, 1)
    assert (found["log"], found["log_starts"], found["gap"], found["gap_number"]) == ("", "[]", "", None)
