"""The guide as one file: whole, silent, every number at home in it, its appendix held to the manifest."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from click.testing import CliRunner

from compose import Load, Test, compose_round, lengths, sweep
from genreport.audit import audit
from genreport.audit.pages import read_page
from genreport.cli import main
from genreport.errors import BuildError
from genreport.figures import compute
from genreport.figures.fitting import CONTEXT, USERS
from genreport.publish import guide_of, pages_of, publish
from genreport.rounds import Round, digest

COMPOSED = {"tests": (sweep(1, 2, 4), Test("cliff", "cliff", (Load("normal", 4), Load("long", 4, 512, 512))))}
SLO = {"id": "quick", "figure": "ttft", "percentile": "p99", "below_ms": 100}
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--allow-file-access-from-files"]  # fmt: skip


@pytest.fixture(scope="module")
def round(tmp_path_factory: pytest.TempPathFactory) -> Round:
    return compose_round(tmp_path_factory.mktemp("onefile") / "composed", repeats=1, slos=[SLO], **COMPOSED)


@pytest.fixture(scope="module")
def text(round: Round) -> str:
    return guide_of(round.path).text


def test_it_asks_for_nothing_outside_of_itself(text):
    assert re.findall(r'<(?:link|img|iframe|script|source|object|embed)\b[^>]*(?:src|href|data)="', text) == []
    assert re.findall(r"@import|url\((?!data:)", text) == []
    assert "default-src 'none'" in text
    assert re.findall(r"https?://(?!www\.w3\.org/|vega\.github\.io/schema/|127\.0\.0\.1)", text) == []


def test_every_link_leads_to_a_place_in_it(text):
    anchors = set(re.findall(r'\bid="([^"]+)"', text))
    links = re.findall(r'<a\b[^>]*\bhref="([^"]*)"', text)
    assert len(links) > 300
    assert [link for link in links if not link.startswith("#") or unquote(link[1:]) not in anchors] == []


def test_every_figure_it_shows_is_derived_down_to_its_files(round, text):
    shown = {number.id for number in read_page(text).numbers}
    derived = set(re.findall(r'<section class="d" id="([^"]+)"', text))
    ledger = compute(round).ledger
    assert len(shown) > 100
    assert shown <= derived
    assert {input for id in derived for input in ledger[id].input_ids()} <= derived
    cited = {file for id in derived for file in ledger[id].files()}
    hashes = dict(re.findall(r"<tr><td>([^<]+)</td><td>[\d,]+</td><td><code>([0-9a-f]{64})</code>", text))
    assert hashes == {file: digest(round.bytes(file)).sha256 for file in cited}


def test_a_chart_is_a_picture_with_its_words(text):
    chart = text[text.index('class="gr-chart"') :]
    assert re.search(r'role="img" aria-label="Output throughput', chart)
    assert "<svg" in chart[: chart.index("</svg>") + 6]
    assert "var(--" not in chart[chart.index("<svg") : chart.index("</svg>")]


def test_its_sections_are_those_of_the_page(round, text):
    page = dict(pages_of(round).pages)["guide/index.md"]
    headings = re.findall(r"^## (.*)$", page, re.M)
    found = re.findall(r'<h2 id="([^"]+)">([^<]+)</h2>', text)
    assert [heading for _, heading in found] == [*headings, "Where each number comes from"]
    # the anchors that links name are those that MkDocs makes of the headings
    slugs = [re.sub(r"[^\w\- ]", "", heading).lower().replace(" ", "-") for heading in headings]
    assert [anchor for anchor, _ in found][:-1] == slugs


def test_it_names_its_round_and_says_how_large_it_is(round, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(main, ["guide", str(round.path)])
    assert result.exit_code == 0, result.output
    size = Path("composed-guide.html").stat().st_size
    assert re.fullmatch(
        r"composed-guide\.html: [\d.]+ (kB|MB), [\d,]+ figures and the derivations of [\d,]+\n", result.output
    )
    assert float(result.output.split()[1]) == pytest.approx(size / (1e6 if "MB" in result.output else 1e3), rel=0.05)


def test_it_answers_another_limit(round, tmp_path):
    path = tmp_path / "guide.html"
    arguments = ["guide", str(round.path), "-o", str(path), "--slo", "itl_p95=21ms"]
    assert CliRunner().invoke(main, arguments).exit_code == 0
    text = path.read_text("utf-8")
    assert "test.concurrency.slo.given-itl-p95-21ms.limit" in text
    assert "--slo itl_p95=21ms" in text


def test_a_round_that_speaks_for_no_engine_has_no_guide_to_mail(tmp_path):
    lonely = compose_round(tmp_path / "lonely", tests=(lengths(64, 128),), repeats=1)
    with pytest.raises(BuildError, match="no concurrency sweep"):
        guide_of(lonely.path)
    assert pages_of(lonely).files == []


def test_the_page_leads_to_the_file(round):
    pages = pages_of(round)
    ((path, _),) = pages.files
    assert path == "guide/composed-guide.html"
    assert 'href="composed-guide.html"' in dict(pages.pages)["guide/index.md"]


def test_the_example_is_the_load_that_stands_in_the_form(text):
    form = text[text.index('<div class="gr-fit"') :]
    values = dict(re.findall(r'<input name="(\w+)" type="number" min="1" step="1" value="(\d+)"', form))
    assert int(values["input"]) + int(values["output"]) == CONTEXT
    assert int(values["users"]) == USERS


# ------------------------------------------------------------------------------------- what the audit makes of it


@pytest.fixture(scope="module")
def site(round: Round, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mailed")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        publish([round.path], folder / "site")
    return folder / "site"


@pytest.fixture
def mailed(site: Path) -> Iterator[Path]:
    path = site / "rounds" / "composed" / "guide" / "composed-guide.html"
    before = path.read_text("utf-8")
    yield path
    path.write_text(before, "utf-8")


@pytest.mark.slow
def test_the_audit_counts_its_derivations(site):
    report = audit(site)
    assert report.failures == []
    assert report.counts["derivations to mail"] > 300


@pytest.mark.slow
@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r'class="gr-num"[^>]*>([\d,.]+)', "is shown as"),
        (r'class="gr-num"[^>]* title="[^"]*?(\d+)', "the tooltip of"),
        (r'<div class="v">([\d,.]+)', ", the manifest"),
        (r'<section class="d" id="concurrency[^"]*">.*?<code>[^<]*?(\d+)\)', ", the manifest"),
        (r"requests\.jsonl</td><td>([\d,]+)", ", the manifest"),
        (r"<code>[a-f]*(\d)[0-9a-f]{50,}</code>", ", the manifest"),
    ],
    ids=["number", "tooltip", "value", "formula", "lines", "hash"],
)
def test_a_digit_changed_in_it_fails(site, mailed, pattern, said):
    text = mailed.read_text("utf-8")
    found = re.search(pattern, text, re.S)
    digit = re.sub(r"\d", lambda m: str((int(m[0]) + 1) % 10), found[1], count=1)
    mailed.write_text(text[: found.start(1)] + digit + text[found.end(1) :], "utf-8")
    assert any(said in failure and "composed-guide" in failure for failure in audit(site).failures)


@pytest.mark.slow
def test_a_derivation_left_out_or_made_up_fails(site, mailed):
    text = mailed.read_text("utf-8")
    entry = re.search(r'<section class="d" id="machine\.cores">.*?</section>', text, re.S)[0]
    mailed.write_text(text.replace(entry, ""), "utf-8")
    assert any("a link to no anchor" in failure for failure in audit(site).failures)
    mailed.write_text(text.replace(entry, entry.replace("machine.cores", "machine.legs")), "utf-8")
    assert any("derives the unknown figure 'machine.legs'" in failure for failure in audit(site).failures)


# ------------------------------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def opened(site: Path) -> Iterator:
    """The file in a browser that counts what it asks for."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        tab = browser.new_page()
        tab.asked, tab.problems = [], []
        tab.on("request", lambda request: tab.asked.append(request.url))
        tab.on("console", lambda message: tab.problems.append(message.text))
        tab.on("pageerror", lambda error: tab.problems.append(str(error)))
        tab.goto((site / "rounds" / "composed" / "guide" / "composed-guide.html").as_uri())
        yield tab
        browser.close()


@pytest.mark.slow
def test_opened_alone_it_makes_no_request_and_no_complaint(opened):
    assert len(opened.asked) == 1
    assert opened.problems == []


@pytest.mark.slow
def test_every_number_can_be_seen_and_opens_its_derivation(opened, text):
    visible = "a => a.checkVisibility() || a.closest('details:not([open])') !== null"
    numbers = opened.locator("article a.gr-num")
    assert numbers.count() == len(read_page(text).numbers)
    assert all(numbers.evaluate_all(f"found => found.map({visible})"))
    first = opened.locator("article a.gr-num:visible").first
    id = first.get_attribute("data-id")
    first.click()
    target = opened.locator(":target")
    assert target.get_attribute("id") == id
    assert target.evaluate("e => getComputedStyle(e).backgroundColor") != "rgba(0, 0, 0, 0)"


@pytest.mark.slow
def test_its_calculators_answer_without_a_site(opened):
    opened.fill(".gr-users [name=users]", "3")
    assert "delivers the most there" in opened.locator(".gr-users output").inner_text()
    opened.fill(".gr-users [name=users]", "20")
    assert "Nothing was measured there. At the nearest load, C = 4," in opened.locator(".gr-users output").inner_text()
    assert opened.locator('.gr-fit tr[data-row="kv"] td').nth(1).inner_text() != "–"


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_a_phone_and_a_desk(opened, width):
    opened.set_viewport_size({"width": width, "height": 844})
    assert opened.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.slow
def test_on_paper_it_is_the_guide_without_its_appendix(opened):
    opened.emulate_media(media="print")
    assert not opened.locator(".gr-origin").is_visible()
    assert opened.locator(".gr-printed").is_visible()
    assert opened.locator(".gr-chart svg").first.is_visible()
    opened.emulate_media(media="screen")
