"""The audit passes a true site and fails on one changed digit wherever it stands, on damage, and on finding nothing."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from compose import compose_round, sweep
from genreport.audit import audit
from genreport.cli import main
from genreport.errors import AuditError
from genreport.publish import publish

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def true_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    compose_round(folder / "runs" / "composed", tests=(sweep(1, 2, 4, 8, 16, requests=8),), repeats=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        publish([Path("runs/composed")], Path("site"))
    return folder / "site"


@pytest.fixture
def site(true_site: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(true_site, tmp_path / "site"))


def failures(site: Path) -> str:
    report = audit(site)
    assert not report.ok
    assert all("\n" not in failure for failure in report.failures)
    return "\n".join(report.failures)


def changed(text: str) -> str:
    """The text with its first digit replaced by another one."""
    return re.sub(r"\d", lambda m: str((int(m[0]) + 1) % 10), text, count=1)


def edit(path: Path, pattern: str) -> None:
    """Changes a digit in the first match of a pattern's group."""
    text = path.read_text("utf-8")
    found = re.search(pattern, text)
    assert found, pattern
    new = text[: found.start(1)] + changed(found[1]) + text[found.end(1) :]
    assert new != text
    path.write_text(new, "utf-8")


def page(site: Path) -> Path:
    return site / "rounds" / "composed" / "concurrency" / "index.html"


def manifest(site: Path) -> Path:
    return site / "rounds" / "composed" / "provenance.json"


def one(site: Path, folder: str, pattern: str) -> Path:
    return next(iter(sorted((site / "rounds" / "composed" / folder).rglob(pattern))))


def test_a_true_site_passes_and_says_how_much_was_checked(site):
    report = audit(site)
    assert report.failures == []
    assert report.counts["figures recomputed"] > 100
    assert report.counts["numbers in pages"] > 100
    assert report.counts["chart values"] > 100
    assert report.counts["derivations"] > 100
    assert 0 < report.counts["distinct figures shown"] == report.counts["distinct figures linked"]
    assert report.counts["distinct figures shown"] < report.counts["numbers in pages"]


def test_the_command_prints_what_it_counted(site):
    result = CliRunner().invoke(main, ["audit", str(site)])
    assert result.exit_code == 0
    assert re.search(r"[\d,]+ distinct figures shown, [\d,]+ distinct figures linked", result.output)


# where a digit changes, and what the audit says of it
IN_A_PAGE = {
    "a number": (r'class="gr-num"[^>]*>([\d,.]+)', "is shown as"),
    "a unit": (r'class="gr-num"[^>]*>[\d,.]+\u202f(m)s', "is shown as"),
    "a number's link": (r'class="gr-num" href="[^"#]*#[^"]*\.c(\d)', "which is not its derivation"),
    "a chart's value": (r'"value":\[(\d+\.\d+)', "a chart draws"),
    "a chart's shown text": (r'"shown":\["([\d.,]+)', "a chart says shown"),
    "a chart's label": (r'"label":\{"is":"crossing\\nC = ([\d.]+)', "(label)"),
    "a chart's words": (r'aria-label="[^"]*: ([\d.,]+)', "(words)"),
    "a percentile's share": (r'"share":\["(0\.\d+)', "a chart says share"),
    "a percentile's place": (r'"place":\{"front":\[0,"-?0\.0+",0,"(0\.\d+)', "a chart says place"),
    "a name": (r'class="gr-lit">v?(\d\.\d)<', "the round knows no"),
}


@pytest.mark.parametrize("what", IN_A_PAGE)
def test_a_digit_changed_in_a_page_fails(site, what):
    pattern, said = IN_A_PAGE[what]
    places = [page(site), site / "rounds" / "composed" / "head-to-head-llamacpp-q4" / "index.html"]
    place = next(path for path in places if re.search(pattern, path.read_text("utf-8")))
    if what == "a unit":
        place.write_text(re.sub(pattern, lambda m: m[0][:-2] + "µs", place.read_text("utf-8"), count=1), "utf-8")
    else:
        edit(place, pattern)
    assert said in failures(site)


IN_THE_CARDS = {
    "a value": (r'"value":(\d+\.\d+),"unit":\d+,"group":\d+,"n"', "says value ="),
    "an input's value": (r'"value":(\d+\.\d+),"unit":\d+,"group":\d+\}', "says value ="),
    "a count": (r'"n":(\d+)', "says n ="),
    "a formula": (r'"percentile\(ttft_s, (\d+)', "says formula ="),
    "a line": (r'"places":\[\[\d+,(\d+)', "says places ="),
    "a number of rows": (r'"rows":\[(\d+)', "says rows ="),
    "a hash": (r'"files":\[\["[^"]*","[a-f]*(\d)', "another hash"),
    "a column": (r'"ttft_s":"text_s\[(\d)', "defines ttft_s"),
}


@pytest.mark.parametrize("what", IN_THE_CARDS)
def test_a_digit_changed_in_the_cards_fails(site, what):
    pattern, said = IN_THE_CARDS[what]
    edit(site / "rounds" / "composed" / "figures.js", pattern)
    assert said in failures(site)


def test_a_shown_figure_without_a_card_fails(site):
    path = site / "rounds" / "composed" / "figures.js"
    plain = json.loads(path.read_text("utf-8").removeprefix("genreportFigures(").removesuffix(")\n"))
    id = next(id for id in plain["figures"] if id.endswith(".c4.ttft.p50"))
    del plain["figures"][id]["formula"]
    path.write_text(f"genreportFigures({json.dumps(plain)})\n", "utf-8")
    assert f"has no card for {id}" in failures(site)


def test_a_script_that_does_more_than_tell_figures_fails(site):
    path = site / "rounds" / "composed" / "figures.js"
    path.write_text(path.read_text("utf-8") + "alert(1)\n", "utf-8")
    assert "not one call with an object" in failures(site)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r'data-lines="(\d+)"', "says lines"),
        (r'data-gap="(\d[\d.]*)"', "for the median gap"),
        (r'data-id="[^"]*\.gap\.p50" href="[^"]*">([\d.]+)', "shows"),
        (r'data-column="tpot_s".*?\(n - (\d)\)', "defines tpot_s"),
    ],
    ids=["lines", "median gap", "shown gap", "definition"],
)
def test_a_digit_changed_beside_the_records_fails(site, pattern, said):
    edit(one(site, "sources", "requests.jsonl.html"), pattern)
    assert said in failures(site)


def test_a_number_written_into_the_text_fails(site):
    path = page(site)
    text = path.read_text("utf-8")
    path.write_text(text.replace("<article", "<article>It is 42 ms.<i", 1), "utf-8")
    assert "a number without provenance" in failures(site)


@pytest.mark.parametrize(
    "pattern",
    [
        r'class="gr-num"[^>]*>([\d,.]+)', r"n = (\d+)", r"<li>\[0\] ([\d.]+)", r'class="n">([\d.]+) s<', r">line (\d+)<",
        r'title="sha256 [a-f]*(\d)', r"#L(\d+)", r'class="lead gr-def">(\d+)',
    ],
    ids=["value", "count", "point", "input", "line", "hash", "link", "number of figures"],
)  # fmt: skip
def test_a_digit_changed_in_a_derivation_fails(site, pattern):
    pages = sorted((site / "rounds" / "composed" / "figures").glob("concurrency.*.html"))
    edit(next(path for path in pages if re.search(pattern, path.read_text("utf-8"))), pattern)
    assert ", the manifest" in failures(site)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"as recorded: (\d+) files", "does not say"),
        (r"files, ([\d,]+) bytes", "does not say"),
        (r"<small>(\d+)</small>", "counts lines differently"),
    ],
    ids=["files", "bytes", "lines"],
)
def test_a_digit_changed_in_the_index_of_sources_fails(site, pattern, said):
    edit(site / "rounds" / "composed" / "sources" / "index.html", pattern)
    assert said in failures(site)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r'"t0_us"</b>:(\d+)', "shows another text than the file"),
        (r"([\d,]+) bytes", "says other facts"),
        (r"<code title=[^>]*>[a-f]*(\d)", "says other facts"),
    ],
    ids=["line", "size", "hash"],
)
def test_a_digit_changed_in_a_listing_fails(site, pattern, said):
    edit(one(site, "sources", "requests.jsonl.html"), pattern)
    assert said in failures(site)


def figure(id: str) -> Callable[[dict], dict]:
    return lambda plain: next(figure for figure in plain["figures"] if figure["id"].endswith(id))


@pytest.mark.parametrize("id", [".ttft.p50", ".usl_fit", ".usl_sigma"])
def test_a_value_changed_in_the_manifest_fails(site, id):
    plain = json.loads(manifest(site).read_text("utf-8"))
    found = figure(id)(plain)
    found["value"] = [v + 0.5 for v in found["value"]] if isinstance(found["value"], list) else found["value"] + 0.5
    manifest(site).write_text(json.dumps(plain), "utf-8")
    assert "in the manifest" in failures(site)


def test_a_digit_changed_in_a_raw_file_fails(site):
    edit(one(site, "raw", "requests.jsonl"), r'"warmup":false.*?"t0_us":(\d+)')
    found = failures(site)
    assert "is not the file whose hash the manifest holds" in found
    assert "in the manifest" in found


def test_a_removed_anchor_fails(site):
    path = one(site, "sources", "requests.jsonl.html")
    path.write_text(path.read_text("utf-8").replace('id="L', 'id="M'), "utf-8")
    assert "a link to no anchor" in failures(site)


# ------------------------------------------------------------------------------------- damage


def half(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])


def scrambled(path: Path) -> None:
    path.write_bytes(b"\xff\x00\x1f\x8b" + path.read_bytes()[4:])


def of_manifest(change: Callable[[dict], None]) -> Callable[[Path], None]:
    def damage(path: Path) -> None:
        plain = json.loads(path.read_text("utf-8"))
        change(plain)
        path.write_text(json.dumps(plain), "utf-8")

    return damage


DAMAGE: dict[str, tuple[str, str, Callable[[Path], None], str]] = {
    "a raw file is gone": ("raw", "requests.jsonl", Path.unlink, "missing"),
    "the round's head is gone": ("raw", "round.json", Path.unlink, "missing"),
    "a raw file is new": ("raw", "plan.yaml", lambda p: p.with_name("x.yaml").write_text("1"), "no file of the manifest"),
    "a gzip is cut": ("raw", "before.prom.gz", half, "EOFError"),
    "a gzip is none": ("raw", "before.prom.gz", scrambled, "BadGzipFile"),
    "records are no text": ("raw", "requests.jsonl", scrambled, "cannot be recomputed"),
    "the machine is no JSON": ("raw", "machine.json", half, "cannot be recomputed"),
    "a listing is gone": ("sources", "requests.jsonl.html", Path.unlink, "no listing of this file"),
    "the index of sources is gone": ("sources", "index.html", Path.unlink, "FileNotFoundError"),
    "a page of derivations is gone": ("figures", "machine.html", Path.unlink, "FileNotFoundError"),
    "a page of derivations is new": ("figures", "machine.html", lambda p: shutil.copy(
        p, p.with_name("x.html")), "derives no"),
    "a page is cut": ("concurrency", "index.html", half, "has no article, or not all of it"),
    "the manifest is gone": (".", "provenance.json", Path.unlink, "unreadable"),
    "the cards are gone": (".", "figures.js", Path.unlink, "FileNotFoundError"),
    "the cards are cut": (".", "figures.js", half, "not one call with an object"),
    "a card's group is out of range": (".", "figures.js", lambda p: p.write_text(
        re.sub(r'"group":\d+', '"group":9999', p.read_text("utf-8"), count=1), "utf-8"), "cannot be checked"),
    "the manifest is cut": (".", "provenance.json", half, "unreadable"),
    "the manifest is a list": (".", "provenance.json", lambda p: p.write_text("[]"), "malformed: no object"),
    "a source is unknown": (".", "provenance.json", of_manifest(
        lambda m: figure(".ttft.p50")(m)["sources"][0].update(type="guess")), "cannot be recomputed"),
    "a source has no line": (".", "provenance.json", of_manifest(
        lambda m: figure(".pool_tokens")(m)["sources"][0].update(line=10**9)), "cannot be recomputed"),
    "an input is unknown": (".", "provenance.json", of_manifest(
        lambda m: figure(".elasticity")(m).update(value=1.0, inputs={"x": "nothing"})), "cannot be recomputed"),
    "a formula is none": (".", "provenance.json", of_manifest(
        lambda m: figure(".ttft.p50")(m).update(formula="1 +")), "cannot be recomputed"),
    "a chart's point is out of range": ("concurrency", "index.html", lambda p: p.write_text(
        re.sub(r'itl_ecdf",0,', 'itl_ecdf",300,', p.read_text("utf-8")), "utf-8"), "a chart draws"),
    "a chart's point is no number": ("concurrency", "index.html", lambda p: p.write_text(
        re.sub(r'itl_ecdf",0,', 'itl_ecdf","x",', p.read_text("utf-8")), "utf-8"), "a chart cannot be checked"),
    "a chart is no JSON": ("concurrency", "index.html", lambda p: p.write_text(
        re.sub(r"data-gr-spec='", "data-gr-spec='}", p.read_text("utf-8")), "utf-8"), "a chart cannot be checked"),
    "a link cannot be read": ("concurrency", "index.html", lambda p: p.write_text(
        re.sub(r'class="gr-num" href="[^"]*"', 'class="gr-num" href="//[a%00"', p.read_text("utf-8"), count=1), "utf-8"),
        "cannot be"),
}  # fmt: skip


@pytest.mark.parametrize("what", DAMAGE)
def test_damage_is_named_and_ends_no_audit(site, what):
    folder, pattern, damage, said = DAMAGE[what]
    damage(one(site, folder, pattern))
    assert said in failures(site)


def test_a_site_without_rounds_fails(tmp_path):
    (tmp_path / "index.html").write_text("<p>nothing</p>")
    assert "nothing to check" in failures(tmp_path)
    result = CliRunner().invoke(main, ["audit", str(tmp_path)])
    assert result.exit_code == 1


def test_no_site_is_one_line(tmp_path):
    with pytest.raises(AuditError, match="no such folder"):
        audit(tmp_path / "none")
