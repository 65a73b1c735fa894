"""Reading the site in a real Chromium: cards under numbers, citations, CSV, the page of a request, keyboard, contrast."""

from __future__ import annotations

import csv
import json
import math
import random
import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.sync_api import TimeoutError

from chromium import ROUND, draw_all, pages_of, serving
from compose import Load, Test, compose_round, sweep
from genreport.evaluate import evaluate, primitives
from genreport.provenance import COLUMNS
from genreport.records import Failure
from genreport.site.derivations import plain

pytestmark = pytest.mark.slow

HOSTILE = "<img src=x onerror=alert(1)><script>alert(1)</script>"
NUMBER = "article a.gr-num:not(.gr-na)"
OPEN = "[aria-describedby=gr-hover-says]"  # the number whose card is open
CONTRAST = (Path(__file__).parent / "contrast.js").read_text("utf-8")


@pytest.fixture(scope="module")
def manifest(served) -> dict:
    _, site = served
    return json.loads((site / "rounds" / "round2" / "provenance.json").read_text("utf-8"))


@pytest.fixture(scope="module")
def figures(manifest) -> dict[str, dict]:
    return {figure["id"]: figure for figure in manifest["figures"]}


@pytest.fixture(params=["http", "file"])
def at(request, served):
    """The address of a page of the site, from a server and from a disk."""
    url, site = served
    base = url if request.param == "http" else f"{site.as_uri()}/"
    return lambda path: base + path


@pytest.fixture(scope="module")
def composed(tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """A site of a round with long files, failures and hostile words."""
    folder = tmp_path_factory.mktemp("reading")

    def fail(engine: str, level: str, repeat: int, index: int) -> Failure | None:
        return Failure(kind="http", status=503, message=HOSTILE) if index == 3 else None

    load = Load("c2", 2, 64, 2000, requests=60)
    compose_round(folder / "runs" / "composed", tests=(sweep(1, 2), Test("long", "concurrency", (load,))), repeats=1,
                  failures=fail)  # fmt: skip
    with serving(folder / "site", folder / "runs" / "composed") as url:
        yield url, folder / "site"


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Iterator[tuple[str, Path]]:
    """A site of two rounds, the later one compared with the earlier."""
    folder = tmp_path_factory.mktemp("compared")
    for name, itl in (("then", 0.02), ("now", 0.03)):
        compose_round(folder / "runs" / name, tests=(sweep(1, 2),), repeats=3,
                      latency=lambda engine, c, repeat, itl=itl: (0.05, itl * (1 + repeat / 100)))  # fmt: skip
    with serving(folder / "site", folder / "runs" / "now", earlier=folder / "runs" / "then") as url:
        yield url, folder / "site"


def card(page):
    return page.locator("#gr-hover")


def opened_by_hover(page, number):
    """Its own card; a chart that is drawn above moves the number from under the pointer, which then comes again."""
    own = page.locator(OPEN).and_(number)
    for _ in range(10):
        number.scroll_into_view_if_needed()
        page.mouse.move(0, 0)
        number.hover()
        with suppress(TimeoutError):
            own.wait_for(timeout=1_000)
            return card(page)
    raise AssertionError(f"no card of {number.get_attribute('data-id')}")


# ------------------------------------------------------------------------------------- cards


def test_a_card_says_value_samples_formula_columns_and_the_deciding_lines(at, page):
    page.goto(at("rounds/round2/concurrency/index.html"))
    number = page.locator('a.gr-num[data-id="concurrency.vllm-bf16.c4.ttft.p50"]').first
    said = opened_by_hover(page, number).inner_text()
    assert "percentile(ttft_s, 50)" in said
    assert "text_s[0] - t0_s" in said
    assert "n = 48" in said
    assert "ok and not warmup" in said
    assert re.search(r"levels/concurrency/vllm-bf16/c4/r\d/requests\.jsonl:\d+ ?[0-9a-f]{8}", said)
    assert page.problems == []
    assert [u for u in page.requested if not u.startswith((at(""), "data:", "blob:"))] == []


def test_random_numbers_of_every_page_have_a_card_that_says_what_the_manifest_says(served, page, figures):
    _, site = served
    chosen = random.Random(7)
    seen = 0
    for path in pages_of(site):
        page.goto((site / path).as_uri())
        numbers = page.locator("article a.gr-num:visible")
        for place in chosen.sample(range(numbers.count()), min(6, numbers.count())):
            number = numbers.nth(place)
            figure = figures[number.get_attribute("data-id")]
            shown = opened_by_hover(page, number)
            assert shown.locator(".gr-hover-id code").inner_text() == figure["id"]
            assert shown.locator(".gr-hover-value").inner_text() == said_of(figure)
            assert shown.locator("dd").first.locator("code").first.inner_text() == figure["formula"]
            leads(page, shown, site)
            page.keyboard.press("Escape")
            seen += 1
    assert seen > 30
    assert page.problems == []


def said_of(figure: dict) -> str:
    if figure["value"] is None:
        return f"n/a: {figure['reason']}"
    unit = "" if figure["unit"] in ("1", "count", "ratio") else f" {figure['unit']}"
    if isinstance(figure["value"], list):
        return f"{len(figure['value'])} points{unit}"
    return plain(figure["value"]) + unit


def leads(page, shown, site: Path) -> None:
    """Every link of a card leads to a file and an anchor in it."""
    hrefs = shown.locator("a").evaluate_all("links => links.map((a) => a.href)")
    assert hrefs
    for href in hrefs:
        parts = urlsplit(href)
        target = Path(unquote(parts.path))
        assert target.is_file(), href
        anchor = unquote(parts.fragment).removeprefix("request-")
        assert not anchor or f'id="{anchor}"' in target.read_text("utf-8"), href


def test_no_number_carries_a_title_of_its_own(served):
    _, site = served
    for path in pages_of(site):
        assert not re.search(r'<a class="gr-num[^>]* title=', (site / path).read_text("utf-8"))


def test_the_card_opens_on_focus_is_entered_by_an_arrow_and_left_by_tab_and_escape(at, page):
    page.goto(at("rounds/round2/concurrency/index.html"))
    numbers = page.locator("table.gr-table a.gr-num:visible")
    focus(page, numbers.nth(4))
    card(page).wait_for()
    assert page.evaluate("document.activeElement.getAttribute('aria-describedby')") == "gr-hover-says"
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.closest('#gr-hover') !== null")
    page.keyboard.press("Escape")
    assert card(page).is_hidden()
    assert page.evaluate("document.activeElement.dataset.id") == numbers.nth(4).get_attribute("data-id")
    page.keyboard.press("Tab")
    card(page).wait_for()
    assert page.evaluate("document.activeElement.dataset.id") == numbers.nth(5).get_attribute("data-id")
    page.keyboard.press("ArrowDown")
    for _ in range(card(page).locator("a:visible, button:visible").count()):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.dataset.id") == numbers.nth(6).get_attribute("data-id")
    assert page.problems == []


def focus(page, number) -> None:
    """Focus as from the keyboard, which a focus by script after a key is."""
    page.keyboard.press("Tab")
    number.scroll_into_view_if_needed()
    number.focus()


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_card_hides_no_number_and_stays_inside_the_window(served, page, width, scheme):
    _, site = served
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 800})
    page.goto((site / "rounds/round2/concurrency/index.html").as_uri())
    page.evaluate("genreportDrawAll()")  # what is drawn above a number moves it
    page.wait_for_timeout(500)
    numbers = page.locator("article a.gr-num:visible")
    for place in random.Random(3).sample(range(numbers.count()), 12):
        number = numbers.nth(place)
        number.scroll_into_view_if_needed()
        shown, own = opened_by_hover(page, number).bounding_box(), number.bounding_box()
        above, below = shown["y"] + shown["height"] <= own["y"] + 1, shown["y"] >= own["y"] + own["height"] - 1
        assert above or below
        assert shown["x"] >= 0
        assert shown["x"] + shown["width"] <= width
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.keyboard.press("Escape")


def test_the_first_tap_opens_the_card_and_the_second_the_derivation(served, browser):
    url, _ = served
    context = browser.new_context(has_touch=True, is_mobile=True, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(url + "rounds/round2/concurrency/index.html")
    number = page.locator("article p a.gr-num:visible").first
    number.tap()
    card(page).wait_for()
    assert "/concurrency/" in page.url
    number.tap()
    page.wait_for_url(re.compile("/figures/"))
    context.close()


def test_a_click_still_opens_the_derivation_and_a_new_page_has_no_card(served, page):
    url, _ = served
    page.goto(url + "rounds/round2/concurrency/index.html")
    number = page.locator("article p a.gr-num:visible").first
    opened_by_hover(page, number)
    number.click()
    page.wait_for_url(re.compile("/figures/"))
    page.go_back()
    page.locator("article h1").wait_for()
    assert card(page).count() == 0 or card(page).is_hidden()
    opened_by_hover(page, page.locator("article p a.gr-num:visible").first)
    page.locator(".md-nav--primary a", has_text="TTFT anatomy").first.click()
    page.wait_for_url(re.compile("/ttft/"))
    assert card(page).is_hidden()
    opened_by_hover(page, page.locator("article a.gr-num:visible").first)
    assert page.problems == []


def test_words_of_servers_stay_words(served, page):
    url, site = served
    text = (site / "rounds/round2/figures.js").read_text("utf-8")
    data = json.loads(text.removeprefix("genreportFigures(").removesuffix(")\n"))
    data["texts"] = [HOSTILE for _ in data["texts"]]
    data["files"] = [[HOSTILE, *known] for _, *known in data["files"]]
    page.route("**/figures.js", lambda route: route.fulfill(
        body=f"genreportFigures({json.dumps(data)})", content_type="text/javascript"))  # fmt: skip
    page.on("dialog", lambda dialog: page.problems.append(dialog.message))
    page.goto(url + "rounds/round2/concurrency/index.html")
    shown = opened_by_hover(page, page.locator("table a.gr-num:visible").nth(3))
    assert HOSTILE in shown.inner_text()
    assert shown.locator("img, script").count() == 0
    assert page.problems == []


@pytest.mark.parametrize("scheme", ["http", "file"])
def test_a_number_of_another_round_has_the_card_of_that_round(compared, page, scheme):
    url, site = compared
    base = url if scheme == "http" else f"{site.as_uri()}/"
    page.goto(base + "rounds/now/against-then/index.html")
    number = page.locator('article a.gr-num[data-id^="other.then."]:visible').first
    id = number.get_attribute("data-id").removeprefix("other.then.")
    plain_figures = json.loads((site / "rounds/then/provenance.json").read_text("utf-8"))["figures"]
    figure = next(figure for figure in plain_figures if figure["id"] == id)
    shown = opened_by_hover(page, number)
    assert shown.locator(".gr-hover-id").inner_text() == f"{id} of then"
    assert shown.locator(".gr-hover-value").inner_text() == said_of(figure)
    assert figure["formula"] in shown.inner_text()
    hrefs = shown.locator("a").evaluate_all("links => links.map((a) => a.href)")
    assert all("/rounds/then/" in href for href in hrefs)
    assert page.problems == []


def test_where_the_other_round_shows_no_card_its_figure_is_named(compared, page):
    url, _ = compared
    page.route("**/then/figures.js", lambda route: route.abort())
    page.goto(url + "rounds/now/against-then/index.html")
    number = page.locator('article a.gr-num[data-id^="other.then."]:visible').first
    shown = opened_by_hover(page, number)
    assert f"as then has it: {number.get_attribute('data-id').removeprefix('other.then.')}" in shown.inner_text()
    assert "/rounds/then/figures/" in shown.locator("dd a").last.get_attribute("href")


def test_a_page_whose_figures_are_gone_still_leads_to_derivations(served, page):
    url, _ = served
    page.route("**/figures.js", lambda route: route.abort())
    page.goto(url + "rounds/round2/concurrency/index.html")
    number = page.locator("article p a.gr-num:visible").first
    number.hover()
    page.wait_for_timeout(400)
    assert card(page).count() == 0
    number.click()
    page.wait_for_url(re.compile("/figures/"))


def test_a_page_that_moves_under_a_resting_pointer_opens_no_card(served, page):
    url, _ = served
    page.goto(url + "rounds/round2/concurrency/index.html")
    page.evaluate("genreportDrawAll()")
    page.wait_for_timeout(500)
    number = page.locator("table a.gr-num:visible").nth(3)
    number.scroll_into_view_if_needed()
    box = number.bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2 + 300)
    page.evaluate("scrollBy(0, -300)")
    page.wait_for_timeout(600)
    assert number.evaluate("number => number.matches(':hover')")
    assert page.locator(OPEN).count() == 0
    page.mouse.move(box["x"] + box["width"] / 2 + 1, box["y"] + box["height"] / 2 + 300)
    page.locator(OPEN).and_(number).wait_for()


def test_a_number_that_was_left_before_its_figures_came_opens_no_card(served, page):
    url, _ = served
    asked = []
    page.route("**/figures.js", lambda route: asked.append(route))
    page.goto(url + "rounds/round2/concurrency/index.html")
    with page.expect_request("**/figures.js"):
        page.locator("article p a.gr-num:visible").first.hover()
    page.mouse.move(0, 0)
    asked[0].continue_()
    page.wait_for_timeout(600)
    assert card(page).count() == 0


def test_a_number_in_a_script_is_written_as_in_python(served, page):
    _, site = served
    page.goto((site / "rounds/round2/index.html").as_uri())
    rng = random.Random(11)
    values = [rng.uniform(-1, 1) * 10 ** rng.randint(-12, 25) for _ in range(500)]
    values += [0.0, 1e21, 1e-7, 5e-324, 1.7976931348623157e308, 123456789.25, -0.5, 1e22, 4.0]
    written = page.evaluate("values => values.map((value) => genreportReading.decimal(value, ','))", values)
    assert written == [plain(value) for value in values]


# ------------------------------------------------------------------------------------- citations and code


CITED = re.compile(r"(\S+) s \((\S+), round round2, (\S+):(\d+), sha256 ([0-9a-f]{64})\)")


def test_a_citation_is_one_line_that_finds_the_number_again(served, browser, manifest, figures):
    url, _ = served
    context = browser.new_context()
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=url.rstrip("/"))
    page = context.new_page()
    page.goto(url + "rounds/round2/concurrency/index.html")
    shown = opened_by_hover(page, page.locator('a.gr-num[data-id="concurrency.vllm-bf16.c4.ttft.p50"]').first)
    shown.get_by_role("button").click()
    shown.locator("[role=status]", has_text="Copied").wait_for()
    value, id, file, line, sha = CITED.fullmatch(page.evaluate("navigator.clipboard.readText()")).groups()
    assert float(value) == figures[id]["value"]
    assert [file, int(line)] in figures[id]["sources"][0]["picks"]
    assert manifest["files"][file]["sha256"] == sha
    context.close()


def test_a_citation_of_what_is_derived_says_through_which_figure_it_was_read(served, page):
    _, site = served
    page.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', { value: undefined }); Document.prototype.execCommand = () => false;"
    )
    page.goto((site / "rounds/round2/concurrency/index.html").as_uri())
    shown = opened_by_hover(page, page.locator('a.gr-num[data-id="concurrency.vllm-bf16.c4.output_throughput"]').first)
    shown.get_by_role("button").click()
    line = shown.locator("input.gr-line").input_value()
    assert re.fullmatch(
        r"[\d.]+ tok/s \(\S+, round round2, through \S+\.output_tokens: \S+\.jsonl:\d+, sha256 [0-9a-f]{64}\)", line
    )


def test_where_the_clipboard_is_closed_a_selection_is_copied(served, page):
    _, site = served
    page.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', { value: undefined });"
        "addEventListener('copy', () => (window.copied = document.activeElement.value));"
    )
    page.goto((site / "rounds/round2/concurrency/index.html").as_uri())
    shown = opened_by_hover(page, page.locator('a.gr-num[data-id="concurrency.vllm-bf16.c4.ttft.p50"]').first)
    shown.get_by_role("button").click()
    shown.locator("[role=status]", has_text="Copied").wait_for()
    assert CITED.fullmatch(page.evaluate("window.copied"))


def test_where_nothing_copies_the_line_is_shown_to_be_selected(served, page):
    _, site = served
    page.add_init_script(
        "Object.defineProperty(navigator, 'clipboard', { value: undefined }); Document.prototype.execCommand = () => false;"
    )
    page.goto((site / "rounds/round2/concurrency/index.html").as_uri())
    shown = opened_by_hover(page, page.locator('a.gr-num[data-id="concurrency.vllm-bf16.c4.ttft.p50"]').first)
    shown.get_by_role("button").click()
    shown.locator("input.gr-line").wait_for()
    assert CITED.fullmatch(shown.locator("input.gr-line").input_value())


@pytest.mark.parametrize("path", ["plan.html", "how-to/lab.html", "cli.html"])
def test_code_can_be_copied_from_a_server_and_from_a_disk(at, page, path):
    page.add_init_script(
        "addEventListener('copy', () => (window.copied = document.activeElement.value));"
        "if (navigator.clipboard) navigator.clipboard.writeText = async (text) => void (window.copied = text);"
    )
    page.goto(at(path))
    button = page.locator("pre .md-code__button[data-md-type=copy]").first
    button.wait_for()
    assert button.get_attribute("title")
    assert page.locator("pre .md-code__button[data-md-type=copy]").count() == page.locator("article pre > code").count()
    button.click()
    page.wait_for_function("window.copied")
    assert page.evaluate("window.copied").strip() == page.locator("article pre > code").first.inner_text().strip()
    assert page.problems == []


# ------------------------------------------------------------------------------------- CSV


def downloaded(page, button) -> list[dict[str, str]]:
    button.scroll_into_view_if_needed()
    with page.expect_download() as found:
        button.click()
    assert found.value.suggested_filename.endswith(".csv")
    with Path(found.value.path()).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_table_gives_what_it_shows_and_the_unrounded_numbers(at, page, figures):
    page.goto(at("rounds/round2/concurrency/index.html"))
    tables, compared = page.locator("article table.gr-table"), 0
    buttons = page.locator(".gr-tools:has(button)")
    assert buttons.count() == tables.count() + page.locator("article .gr-chart").count()
    for place in range(tables.count()):
        table = tables.nth(place)
        scroll = table.locator("xpath=ancestor::*[contains(@class, 'gr-scroll')]")
        frame = scroll if scroll.count() else table
        rows = downloaded(page, frame.locator("xpath=following-sibling::*[1]").locator("button"))
        assert len(rows) == table.locator("tbody tr").count()
        ids = table.locator("tbody a.gr-num").evaluate_all("list => list.map((a) => a.dataset.id)")
        told = [(row[k], row[k.replace(" (figure)", " (unrounded)")], row[k.replace(" (figure)", " (unit)")])
                for row in rows for k in row if k.endswith(" (figure)") and row[k]]  # fmt: skip
        assert sorted(i for cell, *_ in told for i in cell.split("; ")) == sorted(ids)
        for id, value, unit in told:
            if ";" not in id:
                known = figures[id]["value"]
                assert (float(value) if value else None) == known
                assert unit == figures[id]["unit"]
                compared += 1
    assert compared > 200
    assert page.problems == []


def test_every_chart_gives_what_it_draws(served, page, figures):
    _, site = served
    page.goto((site / "rounds/round2/concurrency/index.html").as_uri())
    charts, compared = page.locator("article .gr-chart"), 0
    for place in range(charts.count()):
        rows = downloaded(page, charts.nth(place).locator("xpath=following-sibling::*[1]").locator("button"))
        assert rows
        for row in rows:
            for name in [k.removesuffix(" (figure)") for k in row if k.endswith(" (figure)")]:
                id, index = re.fullmatch(r"(.*?)(?:\[(\d+)\])?", row[f"{name} (figure)"]).groups()
                if id and row[name]:
                    value = figures[id]["value"]
                    assert float(row[name]) == (value if index is None else value[int(index)])
                    compared += 1
    assert compared > 200


def test_every_page_offers_each_of_its_tables(served, page):
    _, site = served
    for path in pages_of(site):
        page.goto((site / path).as_uri())
        tables = page.locator(".md-content table.gr-table").count()
        charts = page.locator(".md-content .gr-chart[data-gr-spec]").count()
        assert page.locator(".gr-tools button").count() == tables + charts, path
        titles = page.locator(".gr-tools button").evaluate_all("list => list.map((b) => b.ariaLabel)")
        assert all(titles), path


def test_a_cell_that_a_spreadsheet_would_run_is_text(served, page):
    _, site = served
    page.goto((site / "rounds/round2/index.html").as_uri())
    text = page.evaluate('genreportReading.csv([["=1+1", "-x", "@a", -0.5, 1e-9, "a\\"b,c\\nd"]])')
    assert next(csv.reader([text], strict=True))[:5] == ["'=1+1", "'-x", "'@a", "-0.5", "0.000000001"]
    assert text.endswith('"a""b,c\nd"\r\n')


# ------------------------------------------------------------------------------------- the page of a request


def request_url(at, level: str, line: int) -> str:
    return at(f"rounds/round2/sources/levels/{level}/requests.jsonl.html#request-L{line}")


LEVELS = ["concurrency/vllm-bf16/c4/r1", "concurrency/llamacpp-q4/c16/r2", "cliff/vllm-bf16/long/r1"]
SHOWN = ["client_queue_s", "ttft_s", "first_choices_s", "tpot_s", "max_gap_s", "e2el_s", "n", "prompt_n", "server_queue_s",
         "server_prefill_s", "server_decode_s"]  # fmt: skip


def column(name: str, row: dict) -> float | None:
    """A column as the second path has it; none where what it names was not observed."""
    if name in row:
        return row[name]
    try:
        found = evaluate(COLUMNS[name], row)
    except (TypeError, IndexError):
        return None
    return None if found is None else float(found)


@pytest.mark.parametrize("level", LEVELS)
def test_a_requests_values_are_the_columns_of_genreport(served, page, level):
    _, site = served
    file = ROUND / "levels" / level / "requests.jsonl"
    records = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
    page.goto((site / f"rounds/round2/sources/levels/{level}/requests.jsonl.html").as_uri())
    found = page.evaluate("list => list.map(genreportRequest.columns)", records)
    for record, seen in zip(records, found, strict=True):
        row = primitives(record)
        for name in SHOWN:
            assert seen[name] == column(name, row), (name, record["index"])
        assert seen["sound"] == row["sound"]
        assert seen["text_s"] == row["text_s"].tolist()


ODD = [
    {},
    {
        "t0_us": None,
        "gaps_us": [],
        "kinds": "",
        "tokens": None,
        "usage": None,
        "failure": {"kind": "connect", "message": "x"},
    },
    {"gaps_us": [10, -5, 3], "kinds": "rtt", "tokens": None, "usage": None},
    {"gaps_us": [10, 5, 10**13], "kinds": "ttd", "tokens": [1, 1, 0]},
    {"gaps_us": [10, 5, 3], "kinds": "ttt", "tokens": [0, 3, 2], "usage": None},
    {"gaps_us": [10, 5, 3], "kinds": "eek", "tokens": [0, 0, 200_000]},
    {
        "gaps_us": [7],
        "kinds": "t",
        "tokens": [1],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1, "cached_tokens": None},
    },
    {
        "gaps_us": [7, 2],
        "kinds": "eu",
        "tokens": [0, 0],
        "server": {"timings": {"prompt_ms": "1", "predicted_ms": True}},
    },
    {"gaps_us": [7, 2], "kinds": "tt", "tokens": None, "server": {"metrics": {"queue_time_ms": 1.5}, "timings": []}},
    {"gaps_us": [7, 2], "kinds": "tt", "tokens": None, "usage": {"completion_tokens": -1}},
    {"gaps_us": [7, 90], "kinds": "tt", "tokens": None, "usage": None},
    {"gaps_us": [7, 9], "kinds": "tt", "tokens": None, "usage": None, "retokenized": 5},
    {"gaps_us": [7, 9], "kinds": "tt", "tokens": [1, 1], "usage": None, "retokenized": 5},
    {"gaps_us": [7, 9], "kinds": "tt", "tokens": None, "usage": None, "retokenized": 10**13},
]
PLAIN = {"index": 0, "warmup": False, "seed": 1, "asked_input": 3, "asked_output": 3, "due_us": 100, "t0_us": 120,
         "gaps_us": [10, 5, 3, 0], "kinds": "rttu", "tokens": [0, 1, 1, 0], "finish": "length", "server": {}, "text": "ab",
         "usage": {"prompt_tokens": 3, "completion_tokens": 2, "cached_tokens": 0}, "end_us": 150, "retries": 0,
         "failure": None}  # fmt: skip


def test_odd_records_give_the_same_values_or_none(served, page):
    _, site = served
    page.goto((site / f"rounds/round2/sources/levels/{LEVELS[0]}/requests.jsonl.html").as_uri())
    records = [PLAIN | odd for odd in ODD]
    found = page.evaluate("list => list.map(genreportRequest.columns)", records)
    for record, seen in zip(records, found, strict=True):
        row = primitives(record)
        assert seen["sound"] == row["sound"], record
        assert seen["text_s"] == row["text_s"].tolist(), record
        for name in SHOWN:
            if row["sound"] or not name.endswith("_s"):
                assert seen[name] == column(name, row), (name, record)


def test_a_request_is_a_page_with_a_title_a_timeline_and_its_events(at, page, figures):
    level, line = "concurrency/llamacpp-q4/c4/r1", 8
    record = json.loads((ROUND / "levels" / level / "requests.jsonl").read_text("utf-8").splitlines()[line - 1])
    page.goto(request_url(at, level, line))
    page.locator("section.request").wait_for()
    assert page.title().startswith(f"Request {record['index']}, line {line} · levels/{level}/requests.jsonl · round2")
    assert page.locator("main > div").first.is_hidden()
    row = primitives(record)
    for name in ("ttft_s", "tpot_s", "e2el_s", "max_gap_s"):
        tr = page.locator(f'tr[data-column="{name}"]')
        assert float(tr.get_attribute("data-value")) == column(name, row)
        assert tr.locator("td").first.inner_text() == f"{column(name, row) * 1e3:,.3f}\u202fms"
        assert tr.locator("code").inner_text() == COLUMNS[name]
    events = page.locator("table.events tbody tr")
    assert events.count() == len(record["kinds"])
    assert events.nth(2).locator("td").nth(3).inner_text() == f"{record['gaps_us'][2] / 1e3:,.3f}"
    gaps, median = (
        [b - a for a, b in zip(row["text_s"], row["text_s"][1:], strict=False)],
        figures["concurrency.llamacpp-q4.c4.gap.p50"]["value"],
    )
    assert page.locator("table.events tr.stall").count() == sum(gap > 2 * median for gap in gaps) > 0
    assert json.loads(page.locator("pre.record").inner_text()) == record
    assert page.locator("pre.answer").inner_text() == record["text"].strip("\n") or record["text"] in page.locator(
        "pre.answer"
    ).evaluate("e => e.textContent")
    assert page.problems == []


def test_requests_are_stepped_through_and_left_by_keyboard_and_history(at, page):
    page.goto(request_url(at, "concurrency/vllm-bf16/c4/r1", 3))
    page.locator("section.request").wait_for()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile("#request-L4$"))
    page.locator("section.request").get_by_role("link", name="next").click()
    page.wait_for_url(re.compile("#request-L5$"))
    assert page.evaluate("document.activeElement.tagName") == "H1"
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile("#request-L4$"))
    page.go_back()
    page.wait_for_url(re.compile("#request-L5$"))
    page.keyboard.press("Escape")
    page.wait_for_url(re.compile("#L5$"))
    assert page.locator("section.request").count() == 0
    line = page.locator(":target")
    assert line.get_attribute("id") == "L5"
    page.wait_for_function(
        "() => { const b = document.querySelector(':target').getBoundingClientRect(); return b.top >= 0 && b.top < innerHeight; }"
    )
    page.goto(request_url(at, "concurrency/vllm-bf16/c4/r1", 1))
    assert page.get_by_role("link", name="previous").count() == 0
    assert page.problems == []


def test_a_line_of_the_records_leads_to_its_page(at, page):
    page.goto(request_url(at, "concurrency/vllm-bf16/c4/r1", 3).replace("#request-", "#"))
    page.get_by_role("link", name="Line 3 as a timeline").click()
    page.wait_for_url(re.compile("#request-L3$"))
    page.locator("section.request").wait_for()


def test_the_deciding_requests_of_a_percentile_are_reached_from_its_card_and_its_derivation(served, page, figures):
    url, _ = served
    id = "concurrency.vllm-bf16.c4.ttft.p99"
    picks = {f"{file}.html#request-L{line}" for file, line in figures[id]["sources"][0]["picks"]}
    page.goto(url + "rounds/round2/concurrency/index.html")
    shown = opened_by_hover(page, page.locator(f'a.gr-num[data-id="{id}"]').first)
    hrefs = shown.get_by_role("link", name="timeline").evaluate_all("list => list.map((a) => a.href)")
    assert {unquote(href.partition("/sources/")[2]) for href in hrefs} == picks
    shown.get_by_role("link", name="Derivation").click()
    page.wait_for_url(re.compile("/figures/"))
    links = page.locator(":target").get_by_role("link", name="timeline")
    assert links.count() == len(picks)
    links.first.click()
    page.locator("section.request").wait_for()
    assert page.problems == []


def test_the_log_lines_of_a_llamacpp_request_are_shown_and_no_others(at, page):
    page.goto(request_url(at, "concurrency/llamacpp-q4/c4/r1", 8))
    record = json.loads(
        (ROUND / "levels/concurrency/llamacpp-q4/c4/r1/requests.jsonl").read_text("utf-8").splitlines()[7]
    )
    frame = page.frame_locator("section.request iframe")
    frame.locator("main.some").wait_for()
    lines = frame.locator(".c > span:visible").all_inner_texts()
    tasks = {re.search(r"\| task (\d+) \|", line)[1] for line in lines}
    assert len(tasks) == 1
    stated = next(
        re.search(r"prompt eval time =\s+([\d.]+) ms", line)[1] for line in lines if "prompt eval time" in line
    )
    assert math.isclose(float(stated), record["server"]["timings"]["prompt_ms"], abs_tol=0.0051)
    assert page.problems == []


def test_where_a_log_names_no_request_the_page_says_so_and_leads_to_it(at, page):
    page.goto(request_url(at, "concurrency/vllm-bf16/c4/r1", 8))
    text = page.locator('[data-if="log-unknown"]')
    assert "cannot be told" in text.inner_text()
    text.get_by_role("link").click()
    page.wait_for_url(re.compile(r"engine\.log\.gz\.html"))


def test_some_lines_of_a_listing_can_be_asked_for(at, page):
    page.goto(at("rounds/round2/sources/plan.yaml.html?lines=2-3,7#L2"))
    assert [
        re.sub("L", "", id) for id in page.locator(".c > span:visible").evaluate_all("l => l.map((e) => e.id)")
    ] == ["2", "3", "7"]
    page.get_by_role("link", name="Show all lines").click()
    page.wait_for_url(re.compile(r"plan\.yaml\.html#L2$"))
    assert page.locator(".c > span:visible").count() > 10


def test_steps_cross_the_pages_of_a_long_listing(composed, page):
    _, site = composed
    folder = next(site.glob("rounds/composed/sources/levels/long/vllm-bf16/*/r1"))
    starts = json.loads((site / "rounds/composed/provenance.json").read_text("utf-8"))["files"][
        f"levels/{folder.relative_to(site / 'rounds/composed/sources/levels').as_posix()}/requests.jsonl"
    ]["pages"]
    assert len(starts) > 1
    page.goto(f"{(folder / 'requests.jsonl.html').as_uri()}#request-L{starts[1] - 1}")
    page.locator("section.request").wait_for()
    page.keyboard.press("ArrowRight")
    page.wait_for_url(re.compile(rf"requests\.jsonl\.2\.html#request-L{starts[1]}$"))
    page.locator("section.request").wait_for()
    page.keyboard.press("ArrowLeft")
    page.wait_for_url(re.compile(rf"requests\.jsonl\.html#request-L{starts[1] - 1}$"))
    page.goto(f"{(folder / 'requests.jsonl.html').as_uri()}#request-L{starts[-1]}")
    page.wait_for_url(re.compile(rf"requests\.jsonl\.{len(starts)}\.html#request-L{starts[-1]}$"))
    page.locator("section.request").wait_for()
    assert page.problems == []


def test_a_failed_request_says_so_in_the_servers_words_as_text(composed, page):
    url, site = composed
    file = next(site.glob("rounds/composed/raw/levels/concurrency/*/c2/r1/requests.jsonl"))
    line = next(k for k, text in enumerate(file.read_text("utf-8").splitlines(), 1) if json.loads(text)["failure"])
    page.on("dialog", lambda dialog: page.problems.append(dialog.message))
    path = file.relative_to(site / "rounds/composed/raw").as_posix()
    page.goto(f"{url}rounds/composed/sources/{path}.html#request-L{line}")
    assert HOSTILE in page.locator('[data-if="failed"]').inner_text()
    assert page.locator("section.request :is(img, script)").count() == 0
    assert page.problems == []


@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_of_a_request_does_not_scroll_sideways(served, page, width):
    url, _ = served
    page.set_viewport_size({"width": width, "height": 800})
    for level in LEVELS:
        page.goto(f"{url}rounds/round2/sources/levels/{level}/requests.jsonl.html#request-L5")
        page.locator("section.request").wait_for()
        assert page.evaluate("document.documentElement.scrollWidth") <= width, level


# ------------------------------------------------------------------------------------- search, keyboard, contrast


def test_the_search_finds_a_report(at, page):
    page.goto(at("index.html"))
    page.locator("input.md-search__input").first.press_sequentially("amortisation")  # the theme listens to keys
    result = page.locator(".md-search-result__item a").first
    result.wait_for()
    assert page.problems == []
    assert [u for u in page.requested if not u.startswith((at(""), "data:", "blob:"))] == []


def test_back_and_forward_keep_the_place_and_the_tools(served, page):
    url, _ = served
    there = "Math.abs(document.getElementById('what-limits-it')?.getBoundingClientRect().top) < innerHeight"
    page.goto(url + "rounds/round2/concurrency/index.html")
    page.evaluate("window.neverReloaded = true")
    page.locator(".md-sidebar--secondary a", has_text="What limits it").click()
    page.wait_for_url(re.compile("#what-limits-it$"))
    page.wait_for_function(there)
    page.wait_for_timeout(500)  # the theme notes where a page stands when it has stood still for a moment
    page.locator(".md-nav--primary a", has_text="TTFT anatomy").first.click()
    page.wait_for_url(re.compile("/ttft/"))
    page.locator(".gr-tools button").first.wait_for()
    page.go_back()
    page.wait_for_url(re.compile("/concurrency/"))
    page.locator(".gr-tools button").first.wait_for()
    page.wait_for_function(there)
    page.go_forward()
    page.wait_for_url(re.compile("/ttft/"))
    assert page.evaluate("window.neverReloaded") is True
    # the page of before may still be on its way out
    page.wait_for_function(
        "document.querySelectorAll('.gr-tools button').length ==="
        " document.querySelectorAll('.md-content table.gr-table, .md-content .gr-chart').length"
    )
    assert page.problems == []


@pytest.mark.parametrize(
    "path", ["rounds/round2/index.html", "rounds/round2/sources/plan.yaml.html", "rounds/round2/figures/machine.html"]
)
def test_the_first_stop_of_the_keyboard_skips_to_the_content_and_can_be_seen(at, page, path):
    page.goto(at(path))
    page.evaluate("window.shown = document.querySelector('main')")
    page.keyboard.press("Tab")
    skip = page.locator(":focus")
    assert "#" in skip.get_attribute("href")
    page.wait_for_timeout(300)
    box = skip.bounding_box()
    assert box["y"] >= 0
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.closest('main, article, .md-content') !== null")
    page.wait_for_timeout(300)  # longer than a page takes that is fetched anew
    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    assert page.evaluate("window.shown.isConnected && window.shown.contains(document.activeElement)")


def test_nothing_moves_for_who_wants_no_motion(served, page):
    url, _ = served
    page.emulate_media(reduced_motion="reduce")
    for path in ("rounds/round2/concurrency/index.html", "rounds/round2/sources/plan.yaml.html"):
        page.goto(url + path)
        moving = page.evaluate(
            """[...document.querySelectorAll("*")].filter((e) => {
                 const s = getComputedStyle(e);
                 return s.transitionDuration.split(",").some((d) => parseFloat(d) > 0) || s.scrollBehavior === "smooth";
               }).length"""
        )
        assert moving == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_can_be_told_from_its_ground(served, page, scheme):
    _, site = served
    page.emulate_media(color_scheme=scheme)
    request = f"rounds/round2/sources/levels/{LEVELS[1]}/requests.jsonl.html#request-L5"
    others = ["index.html", "plan.html", "rounds/index.html", "rounds/round2/figures/machine.html",
              "rounds/round2/sources/plan.yaml.html", "rounds/round2/sources/index.html", request]  # fmt: skip
    weak: dict[str, list[str]] = {}
    for path in [*pages_of(site), *others]:
        file, _, anchor = path.partition("#")
        page.goto((site / file).as_uri() + (f"#{anchor}" if anchor else ""))
        draw_all(page)
        if page.locator(NUMBER).count():
            opened_by_hover(page, page.locator("article a.gr-num:visible").first)
        if found := page.evaluate(CONTRAST):
            weak[path] = found
    assert weak == {}
