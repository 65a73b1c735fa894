"""What the audit reads out of a page, a chart and a derivation, and what it finds wrong there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from genreport import charts
from genreport.audit.case import Case
from genreport.audit.charts import Drawing, check_chart
from genreport.audit.derivations import decimal, difference, entry, read
from genreport.audit.links import Links
from genreport.audit.manifest import Manifest, read_manifest
from genreport.audit.pages import check_seen, read_page, tooltip
from genreport.audit.report import Report
from genreport.display import shown
from genreport.provenance import Ledger, Line, Lines, Pointer, Quantity, Rows, Samples, Tally
from genreport.site import derivations
from genreport.site.listings import Listed

FILE = "levels/t/e/c1/r1/requests.jsonl"
OTHER = "levels/t/e/c1/r2/requests.jsonl"
LISTED = {file: Listed(file, sha, 1000, 30) for file, sha in ((FILE, "ab" * 32), (OTHER, "cd" * 32))}
GRID = (0, 50, 90, 99, 99.9, 100)
VOCABULARY = "vllm-bf16 llamacpp-q4 c1 c2 c4 c8 c16"


# ------------------------------------------------------------------------------------- derivations


def ledger() -> Ledger:
    filled = Ledger()
    rows = Rows((FILE,), "ok and not warmup", 24, ((FILE, 7),))
    both = Rows((FILE, OTHER), "ok and not warmup", 1204, ((FILE, 7), (OTHER, 21_000)))
    for q in (
        Quantity("t.e.c1.ttft.p50", 0.0141234567890123, "s", "percentile(ttft_s, 50)", n=24, sources=(rows,)),
        Quantity("t.e.c1.itl_ecdf", (0.25, 0.5, 1e-7), "s", "percentile(itl_s, [0, 50])", n=1204, sources=(both,)),
        Quantity("t.e.c1.elasticity", None, "1", "log(x / x0)", n=3, reason="no level before it: <b>&amp;</b>"),
        Quantity("t.e.c1.r1.pool", 120064.0, "tokens", "number(line)", sources=(Line("a b.log", 25_000, r"<(\d+)>"),)),
        Quantity("t.e.c1.r1.sum", -3.5, "count", "sum(matches)", sources=(Lines(FILE, 2, 9, r"x{1} (\S+)", 2),)),
        Quantity("machine.cores", 4.0, "count", "field", sources=(Pointer("machine.json", "/cores", 5),)),
        Quantity("t.e.c1.running.mean", 1.5, "1", "time_mean(t_s, sample)", sources=(Samples(FILE, "run", (2, 40)),)),
        Quantity("evidence.files", 12, "count", "tally", sources=(Tally("files"),)),
        Quantity("t.e.one", 1.0, "share", "a / b", inputs={"a": "machine.cores", "b": ("machine.cores",)},
                 notes=("by_model", "n_too_small")),
        Quantity("t.e.many", 1e22, "FLOP", "sum(x)", inputs={
            "x": ("t.e.c1.ttft.p50", "t.e.c1.itl_ecdf", "t.e.c1.elasticity", *["machine.cores"] * 9)}),
    ):  # fmt: skip
        filled.add(q)
    return filled


def manifest(filled: Ledger, folder: Path = Path()) -> Manifest:
    plain = json.loads(json.dumps(filled.manifest("round", {file: entry.fact() for file, entry in LISTED.items()})))
    return Manifest(folder, plain["files"], plain["columns"], {figure["id"]: figure for figure in plain["figures"]})


@pytest.mark.parametrize("id", [q.id for q in ledger()])
def test_an_entry_says_what_the_manifest_says(id):
    filled = ledger()
    known = manifest(filled)
    markup = f"<main>{derivations.entry(filled[id], filled, derivations.Links(LISTED))}</main>"
    assert difference(read(markup).words, entry(known.figures[id], known)) is None


@pytest.mark.parametrize(
    ("id", "old", "new"),
    [
        ("t.e.c1.ttft.p50", "0.0141234567890123", "0.0141234567890124"),
        ("t.e.c1.ttft.p50", "n = 24", "n = 25"),
        ("t.e.c1.ttft.p50", "24 rows", "25 rows"),
        ("t.e.c1.ttft.p50", "line 7", "line 8"),
        ("t.e.c1.ttft.p50", "#L7", "#L8"),
        ("t.e.c1.ttft.p50", ">abababab<", ">abababac<"),
        ("t.e.c1.ttft.p50", "sha256 ab", "sha256 ac"),
        ("t.e.c1.ttft.p50", "text_s[0]", "text_s[1]"),
        ("t.e.c1.itl_ecdf", "[1] 0.5", "[1] 0.6"),
        ("t.e.c1.r1.pool", ":25000", ":25001"),
        ("t.e.one", "n\">4 ", "n\">5 "),
        ("t.e.many", "0.0141234567890123", "0.0141234567890124"),
        ("t.e.many", "12 entries", "13 entries"),
    ],
)  # fmt: skip
def test_a_digit_changed_anywhere_in_an_entry_is_noticed(id, old, new):
    filled = ledger()
    known = manifest(filled)
    markup = derivations.entry(filled[id], filled, derivations.Links(LISTED))
    assert old in markup
    markup = f"<main>{markup.replace(old, new, 1)}</main>"
    assert difference(read(markup).words, entry(known.figures[id], known)) is not None


@given(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**15), 10**15))
def test_both_ways_to_write_a_value_agree(value):
    assert decimal(value) == derivations.plain(value)


# ------------------------------------------------------------------------------------- charts


def figure(id: str, value: Any, unit: str, formula: str = "x") -> dict[str, Any]:
    return {"id": id, "value": value, "unit": unit, "formula": formula}


def case(tmp_path: Path, *figures: dict[str, Any]) -> Case:
    (tmp_path / "index.html").write_text("<article></article>")
    known = Manifest(tmp_path, {}, {}, {each["id"]: each for each in figures})
    return Case(known, VOCABULARY, Links(tmp_path), Report())


def load(engine: str, *values: float) -> tuple[list[dict], list[dict]]:
    """Rows of a chart over load, and the figures they name."""
    rows, figures = [], []
    for k, value in enumerate(values):
        c, scope = 2**k, f"t.{engine}.c{2**k}"
        figures += [figure(f"{scope}.concurrency", float(c), "count"), figure(f"{scope}.x", value, "tok/s")]
        rows.append({
            "engine": engine, "colour": "1", "level": f"c{c}", "flag": "", "href": "index.html", "concurrency": c,
            "concurrency_id": f"{scope}.concurrency", "value": value, "value_id": f"{scope}.x",
            "shown": shown(value, "tok/s"),
        })  # fmt: skip
    return rows, figures


def throughput(tmp_path: Path) -> tuple[Case, charts.Chart]:
    (a, of_a), (b, of_b) = load("vllm-bf16", 30.0, 61.7, 110.0), load("llamacpp-q4", 60.0, 80.0, 95.123)
    cross = Quantity("pair.t.a.b.cross1", 2.62, "1", "x", sources=(Line("f", 1, "x"),))
    (tmp_path / "figures").mkdir()
    (tmp_path / "figures" / "pair.t.a.b.html").write_text('<p id="pair.t.a.b.cross1">')
    return case(tmp_path, *of_a, *of_b, figure(cross.id, 2.62, "1")), charts.throughput([*a, *b], crossings=[cross])


def ecdf(tmp_path: Path) -> tuple[Case, charts.Chart]:
    formula = f"percentile(itl_s, [{', '.join(f'{q:g}' for q in GRID)}])"
    curves = {level: [0.01 * k * (place + 1) for k in range(len(GRID))] for place, level in enumerate(("c1", "c2"))}
    rows = [
        {
            "engine": "vllm-bf16", "colour": "1", "level": level, "value": value, "shown": shown(value, "s"),
            "value_id": f"t.vllm-bf16.{level}.itl_ecdf[{k}]", "share": f"{GRID[k] / 100:.10g}", "href": "index.html",
        }
        for level, values in curves.items() for k, value in enumerate(values)
    ]  # fmt: skip
    figures = (figure(f"t.vllm-bf16.{level}.itl_ecdf", values, "s", formula) for level, values in curves.items())
    return case(tmp_path, *figures), charts.ecdf(rows)


DRAWN = {"throughput": throughput, "ecdf": ecdf}


def problems(at: Case, spec: str, words: str) -> list[str]:
    check_chart(at, at.folder / "index.html", Drawing(spec, words))
    return at.report.failures


@pytest.mark.parametrize("name", DRAWN)
def test_a_true_chart_has_nothing_wrong_with_it(tmp_path, name):
    at, chart = DRAWN[name](tmp_path)
    assert problems(at, json.dumps(chart.spec), chart.alt) == []
    assert at.report.counts["chart values"] > 10
    assert at.report.counts["distinct figures drawn"] >= 2


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("throughput", '"value": 61.7', '"value": 61.8'),
        ("throughput", '"shown": "61.7', '"shown": "62.7'),
        ("throughput", '\u202ftok/s"', '\u202fms"'),
        ("throughput", "C = 2.62", "C = 2.63"),
        ("throughput", ".c2.x", ".c3.x"),
        ("throughput", '"engine": "vllm-bf16"', '"engine": "vllm-bf17"'),
        ("throughput", '"href": "index.html"', '"href": "index2.html"'),
        ("ecdf", '"share": "0.99"', '"share": "0.98"'),
        ("ecdf", '"place": "0.301030"', '"place": "0.401030"'),
        ("ecdf", '"place": "3.55', '"place": "4.55'),
        ("ecdf", '"percentile": "p99"', '"percentile": "p98"'),
        ("ecdf", "itl_ecdf[3]", "itl_ecdf[4]"),
        ("ecdf", "itl_ecdf[3]", "itl_ecdf[99]"),
        ("ecdf", "itl_ecdf[3]", "itl_ecdf[x]"),
    ],
)
def test_a_digit_changed_anywhere_in_a_chart_is_noticed(tmp_path, name, old, new):
    at, chart = DRAWN[name](tmp_path)
    spec = json.dumps(chart.spec, ensure_ascii=False)
    assert old in spec
    assert problems(at, spec.replace(old, new, 1), chart.alt)


@pytest.mark.parametrize(
    ("old", "new"),
    [("61.7", "62.7"), ("C = 1", "C = 2"), ("tok/s at", "ms at"), ("vllm-bf16", "vllm-bf17"), ("80", "60")],
)
def test_a_digit_changed_in_the_words_of_a_chart_is_noticed(tmp_path, old, new):
    at, chart = throughput(tmp_path)
    assert old in chart.alt
    words = chart.alt.replace(old, new, 1)
    assert problems(at, json.dumps(chart.spec | {"description": words}), words)


def test_words_that_differ_from_the_description_are_noticed(tmp_path):
    at, chart = throughput(tmp_path)
    assert "other words" in problems(at, json.dumps(chart.spec), f"{chart.alt} So.")[0]


# ------------------------------------------------------------------------------------- pages and manifests


def test_the_tooltip_of_a_number_is_its_formula_and_count():
    assert tooltip(figure("x", 1.0, "s", "mean(a)") | {"n": 1204}) == "mean(a) · n = 1,204"
    assert tooltip(figure("x", None, "s") | {"reason": "none"}) == "n/a: none"


def test_a_page_is_read_as_a_browser_shows_it():
    seen = read_page(
        '<nav>7</nav><article><a class="gr-num" data-id="x" href="f.html#x" title="t &amp; u">14.1&#8239;ms</a> p50, E2EL, '
        'loose 5<span class="gr-lit">v0.27</span><code class="gr-example">8</code><br>'
        '<div class="gr-chart" data-gr-spec="{}" aria-label="said 6"></div></article>9'
    )
    (number,) = seen.numbers
    assert (number.id, number.text, number.title, number.href) == ("x", "14.1\u202fms", "t & u", "f.html#x")
    assert seen.loose == [" p50, E2EL, loose 5"]
    assert seen.literals == ["v0.27"]
    assert [(drawing.spec, drawing.words) for drawing in seen.drawings] == [("{}", "said 6")]


GOOD = {"format": "genreport-provenance/1", "files": {}, "columns": {}, "figures": []}


@pytest.mark.parametrize(
    "text",
    [
        '{"format": "genrep', "[]", "7", "null", "{}", '"\\ud800"', "[" * 100_000, '{"x": "\xff',
        *(json.dumps(GOOD | change) for change in (
            {"format": "genreport-provenance/9"}, {"files": []}, {"figures": {}}, {"columns": None}, {"figures": [7]},
            {"files": {"a": {"sha256": 1}}}, {"figures": [{"id": "x", "unit": "s", "formula": "1"}]},
            {"figures": [{"id": "x", "unit": "s", "formula": "1", "value": "1"}]},
            {"figures": [{"id": "x", "unit": "s", "formula": "1", "value": 1, "sources": ["a"]}]},
            {"figures": [{"id": "x", "unit": "s", "formula": "1", "value": 1}] * 2},
        )),
    ],
)  # fmt: skip
def test_a_manifest_that_makes_no_sense_is_one_line(tmp_path, text):
    (tmp_path / "provenance.json").write_bytes(text.encode("latin-1"))
    report = Report()
    read_manifest(tmp_path, report)
    (failure,) = report.failures
    assert "\n" not in failure


# ------------------------------------------------------------------------------------- pages


@pytest.mark.parametrize(
    ("reason", "wrong"),
    [("above C = 16", []), ("above C = 17", ["says of t.a.knee that 'above C = 17', its reason is 'above C = 16'"])],
    ids=["true", "changed"],
)
def test_a_reason_in_a_sentence_is_that_of_its_figure(tmp_path, reason, wrong):
    at = case(tmp_path, figure("t.a.knee", None, "1") | {"reason": "above C = 16"})
    page = f'<article>no knee (<span class="gr-why" data-because="t.a.knee">{reason}</span>)</article>'
    check_seen(at, tmp_path / "index.html", read_page(page))
    assert [failure.split(": ", 1)[1] for failure in at.report.failures] == wrong
