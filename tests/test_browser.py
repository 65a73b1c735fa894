"""The built site in a real Chromium: charts of every page, both themes, instant navigation, file://, and where numbers lead."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from urllib.parse import unquote, urljoin

import numpy as np
import pytest

from chromium import draw_all, pages_of
from genreport.evaluate import evaluate

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_chart_of_every_page_is_drawn_without_a_console_error(served, page, scheme):
    url, site = served
    page.emulate_media(color_scheme=scheme)
    drawn = 0
    for path in pages_of(site):
        page.goto(url + path)
        drawn += draw_all(page)
    assert drawn > 10
    assert page.problems == []
    assert [u for u in page.requested if not u.startswith((url, "data:", "blob:"))] == []


def test_charts_of_every_report_are_drawn_after_instant_navigation(served, page):
    url, _ = served
    page.goto(url + "rounds/round2/index.html")
    page.evaluate("window.neverReloaded = true")
    reports = page.locator("article table").first.locator("td:first-child a")
    hrefs = [reports.nth(k).get_attribute("href") for k in range(reports.count())]
    drawn = 0
    for href in hrefs:
        page.locator(f'article table a[href="{href}"]').first.click()
        page.wait_for_url(re.compile(re.escape(href.rpartition("../")[2])))
        page.locator("article h1").wait_for()
        drawn += draw_all(page)
        page.go_back()
        page.wait_for_url(re.compile(r"rounds/round2/(index\.html)?(#.*)?$"))
        page.locator(f'article table a[href="{href}"]').first.wait_for()
    assert page.evaluate("window.neverReloaded") is True
    assert drawn > 10
    assert page.problems == []


def test_charts_are_drawn_again_in_the_other_theme(served, page):
    url, _ = served
    page.goto(url + "rounds/round2/concurrency/index.html")
    before = page.evaluate("document.body.getAttribute('data-md-color-scheme')")
    for _ in range(3):
        page.locator("form[data-md-component=palette] label:visible").first.click()
        if page.evaluate("document.body.getAttribute('data-md-color-scheme')") != before:
            break
    assert page.evaluate("document.body.getAttribute('data-md-color-scheme')") != before
    assert draw_all(page) > 3
    assert page.problems == []


def test_the_site_works_from_file(served, page):
    _, site = served
    drawn = 0
    for path in pages_of(site):
        page.goto((site / path).as_uri())
        drawn += draw_all(page)
    assert drawn > 10
    assert page.problems == []
    assert [u for u in page.requested if not u.startswith(("file:", "data:", "blob:"))] == []


def test_the_search_finds_a_report_without_a_network(served, page):
    _, site = served
    page.goto((site / "index.html").as_uri())
    page.locator("input.md-search__input").first.press_sequentially("amortisation")  # the theme listens to keys
    page.locator(".md-search-result__item a").first.wait_for()
    assert page.problems == []


def test_fifty_random_numbers_end_at_a_highlighted_line_that_holds_their_value_or_inputs(served, page):
    url, site = served
    known = _manifest(site)
    numbers = []
    for path in pages_of(site):
        page.goto(url + path)
        numbers += [(path, href) for href in _numbers(page)]
    chosen = random.Random(20261129).sample(numbers, 50)
    for path, href in chosen:
        page.goto(url + path)
        page.locator(f'a.gr-num[href="{href}"]').first.click()
        page.wait_for_url(re.compile("/figures/"))
        id = _follow_to_a_line(page)
        if id is None:  # a count of zero rests on rows of which none decides: it opens their file
            assert page.locator("span#L1").count() == 1
            continue
        leaf = known[id]
        line = page.locator(":target")
        assert line.count() == 1, href
        assert _holds(line.inner_text(), leaf, page.url), (href, leaf["id"], line.inner_text()[:200])
        assert line.evaluate("e => getComputedStyle(e).backgroundColor") != "rgba(0, 0, 0, 0)"
    assert page.problems == []


def _manifest(site: Path) -> dict[str, dict]:
    manifest = json.loads((site / "rounds" / "round2" / "provenance.json").read_text("utf-8"))
    return {figure["id"]: figure for figure in manifest["figures"]}


def _numbers(page) -> list[str]:
    """Links of the visible numbers that have a value, but for the counts over the manifest, which end there."""
    return page.evaluate(
        """[...document.querySelectorAll("article a.gr-num:not(.gr-na)")]
           .filter((a) => a.checkVisibility() && !a.hash.startsWith("#evidence.")).map((a) => a.getAttribute("href"))"""
    )


def _follow_to_a_line(page) -> str | None:
    """From a derivation through its first inputs to a source line; returns the figure that names the line."""
    for _ in range(12):
        entry = page.locator(":target")
        id = entry.get_attribute("id")
        sources = entry.locator('a[href*="sources/"][href*="#L"]')
        if sources.count():
            href = sources.first.get_attribute("href")
            page.goto(urljoin(page.url, href))
            return id
        inputs = entry.locator('a[href*="figures/"]')
        files = entry.locator('a[href*="sources/"]')
        if not inputs.count() and files.count():
            assert re.search(r"^0\b|\b0 rows where", entry.inner_text(), re.M), id
            page.goto(urljoin(page.url, files.first.get_attribute("href")))
            return None
        assert inputs.count(), f"{id} leads nowhere"
        page.goto(urljoin(page.url, inputs.first.get_attribute("href")))
    raise AssertionError("no source line within twelve steps")


def _holds(text: str, figure: dict, url: str) -> bool:
    """Whether a listed line is the one the figure names, and gives its value where one line does."""
    source, line = figure["sources"][0], int(url.rpartition("#L")[2])
    file = unquote(url.partition("/sources/")[2].partition(".html")[0])
    if source["type"] == "rows":
        return [file, line] in source["picks"] and json.loads(text)["t0_us"] is not None
    if source["type"] == "samples":
        return file == source["file"] and line in source["lines"] and isinstance(json.loads(text), list)
    if source["type"] == "lines":
        return file == source["file"] and source["first"] <= line <= source["last"]
    if source["type"] == "line":
        names = {"line": re.search(source["pattern"], text)[1]}
    else:
        names = {"field": np.array(json.loads(text.partition(":")[2].strip().rstrip(",")))}
    return bool(np.isclose(evaluate(figure["formula"], names), figure["value"], rtol=1e-9))


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_scrolls_sideways(served, page, width):
    url, site = served
    page.set_viewport_size({"width": width, "height": 844})
    for path in pages_of(site):
        page.goto(url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path
