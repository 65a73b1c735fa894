"""Pages on paper: no navigation, every chart although nobody scrolled, tables that fit, links without their targets."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from compose import Load, Test, compose_round, lengths, sweep
from genreport.publish import publish

pytestmark = pytest.mark.slow

FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
         "--disable-component-update", "--disable-sync", "--allow-file-access-from-files"]  # fmt: skip
A4_PX = 703  # 210 mm less the margins, at 96 px an inch
PAGES = ("index.html", "concurrency/index.html", "ttft/index.html", "kv/index.html", "cliff/index.html",
         "head-to-head-llamacpp-q4/index.html", "guide/index.html", "evidence/index.html")  # fmt: skip


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("paper")
    cliff = Test("cliff", "cliff", (Load("normal", 4), Load("long", 4, 512, 512)), engines=("vllm-bf16",))
    slo = {"id": "quick", "figure": "ttft", "percentile": "p99", "below_ms": 100}
    compose_round(folder / "composed", tests=(sweep(1, 2, 4, 8), lengths(64, 128), cliff), repeats=2, slos=[slo])
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        publish([folder / "composed"], folder / "site")
    return folder / "site" / "rounds" / "composed"


@pytest.fixture(scope="module")
def browser() -> Iterator:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield opened
        opened.close()


@pytest.fixture
def paper(browser) -> Iterator:
    """A tab that shows pages as they are printed, at the width of the paper."""
    tab = browser.new_context(viewport={"width": 1280, "height": 800}).new_page()
    yield tab
    tab.context.close()


def turn(tab, width: int = A4_PX) -> None:
    tab.emulate_media(media="print")
    tab.set_viewport_size({"width": width, "height": 1000})


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_its_article_and_fits_the_paper(site, paper, path):
    paper.goto((site / path).as_uri())
    turn(paper)
    around = [".md-header", ".md-tabs", ".md-sidebar", ".md-footer", ".headerlink", ".gr-tools"]
    assert (
        paper.evaluate(
            "found => found.filter(s => [...document.querySelectorAll(s)].some(e => e.checkVisibility()))", around
        )
        == []
    )
    wide = paper.evaluate(
        """edge => [...document.querySelectorAll("article *")].filter((e) => e.checkVisibility()
           && e.getBoundingClientRect().right > edge).map((e) => `${e.tagName}.${e.className}`)""",
        A4_PX + 1,
    )
    assert wide == []


def test_every_chart_is_drawn_although_nobody_scrolled(site, paper):
    paper.goto((site / "concurrency" / "index.html").as_uri())
    paper.wait_for_function(
        "[...document.querySelectorAll('.gr-chart')].every(e => e.querySelector('svg'))", timeout=30_000
    )
    turn(paper)
    assert paper.locator(".gr-chart svg").count() > 8
    assert paper.evaluate(
        "[...document.querySelectorAll('.gr-chart svg')].every(e => e.getBoundingClientRect().height > 100)"
    )


def test_a_link_prints_no_target_and_a_number_stays_in_one_piece(site, paper):
    paper.goto((site / "concurrency" / "index.html").as_uri())
    turn(paper)
    behind = "found => found.map(e => getComputedStyle(e, '::after').content)"
    assert set(paper.locator("article a").evaluate_all(behind)) == {"none"}
    lines = "found => Math.max(...found.map(e => e.getClientRects().length))"
    assert paper.locator("article td a.gr-num").evaluate_all(lines) == 1


def test_what_is_folded_on_the_screen_is_unfolded_on_paper(site, paper):
    paper.goto((site / "guide" / "index.html").as_uri())
    folded = paper.locator("article details li, article details pre").first
    assert not folded.is_visible()
    turn(paper)
    assert folded.evaluate("e => e.getBoundingClientRect().height > 0")


def test_a_dark_theme_prints_on_white(site, browser):
    tab = browser.new_context(color_scheme="dark").new_page()
    tab.goto((site / "index.html").as_uri())
    turn(tab)
    assert tab.evaluate("getComputedStyle(document.body).getPropertyValue('--gr-paper').trim()") == "#ffffff"
    tab.context.close()


def test_a_pdf_has_pages(site, paper):
    paper.goto((site / "guide" / "index.html").as_uri())
    assert len(re.findall(rb"/Type\s*/Page[^s]", paper.pdf(format="A4"))) > 3
