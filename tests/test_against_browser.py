"""The page of a comparison in a real Chromium: its filter, with and without a script, from file://, on a phone, in both themes."""

from __future__ import annotations

from pathlib import Path

import pytest

import chromium
from genreport.publish import Against, publish
from test_against import noisy, recorded

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("filter")
    recorded(folder / "runs" / "old")
    recorded(folder / "runs" / "new", latency=noisy(vllm=0.7, shift=2), seed="again")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        publish([Path("runs/new")], Path("site"), compared=Against(((Path("runs/new"), Path("runs/old")),)))
    return (folder / "site" / "rounds" / "new" / "against-old" / "index.html").as_uri()


@pytest.fixture
def visit(browser, url):
    """Opens the page in a context of its own; what it reports is looked at when the test ends."""
    contexts = []

    def visited(**how):
        context = browser.new_context(**how)
        contexts.append(context)
        page = chromium.watched(context)
        page.goto(url)
        return page

    yield visited
    for context in contexts:
        assert all(page.problems == [] for page in context.pages if hasattr(page, "problems"))
        context.close()


def shown(page) -> list[dict]:
    """The visible rows of the table."""
    return page.evaluate(
        "[...document.querySelectorAll('#diff tbody tr')].filter(r => r.offsetParent).map(r => ({...r.dataset}))"
    )


def test_every_row_is_visible_without_a_script(visit):
    page = visit(java_script_enabled=False)
    assert page.locator("form.gr-filter").is_hidden()
    assert page.locator("#diff tbody tr").count() == page.locator("#diff tbody tr:visible").count() > 10


def test_each_field_of_the_form_leaves_only_its_rows_and_says_how_many(visit):
    page = visit()
    every = shown(page)
    form = page.locator("form.gr-filter")
    for field, value in (("verdict", "improved"), ("engine", "llamacpp-q4"), ("figure", "output_throughput")):
        form.locator(f"select[name={field}]").select_option(value)
        left = shown(page)
        assert left == [row for row in every if row[field] == value]
        assert form.locator("output").inner_text() == f"{len(left)} of {len(every)} rows"
        form.locator("button").click()
        page.wait_for_function(
            f"document.querySelector('form.gr-filter output').textContent.startsWith('{len(every)} ')"
        )


def test_fields_together_leave_what_fits_all_of_them_and_nothing_is_said_plainly(visit):
    page = visit()
    page.locator("select[name=engine]").select_option("llamacpp-q4")
    page.locator("select[name=verdict]").select_option("improved")
    assert shown(page) == []
    assert "No row is left" in page.locator("form.gr-filter output").inner_text()


def test_a_count_of_a_verdict_leads_to_its_rows(visit):
    page = visit()
    page.locator('.gr-counts a[data-verdict="improved"]').click()
    page.wait_for_function("document.querySelector('select[name=verdict]').value === 'improved'")
    assert {row["verdict"] for row in shown(page)} == {"improved"}
    assert page.url.endswith("#figures")


def test_the_form_is_worked_by_keyboard(visit):
    page = visit()
    page.locator("select[name=verdict]").focus()
    page.keyboard.press("ArrowDown")
    assert len({row["verdict"] for row in shown(page)}) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_charts_are_drawn_in_both_themes(visit, scheme):
    page = visit(color_scheme=scheme)
    assert chromium.draw_all(page) == 4


def test_on_a_phone_nothing_is_wider_than_the_window(visit):
    page = visit(viewport={"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_page_is_lighter_than_400_kilobytes(url):
    assert Path(url.removeprefix("file://")).stat().st_size < 400_000
