"""Source listings: the text as it is, an address a line, nothing a file can break."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from compose import compose_round, sweep
from genreport.places import PAGE_BYTES, Listings, derivation_href, listing_file, listing_href, page_starts, raw_file
from genreport.site.listings import Listed, body, split, write_listings
from genreport.site.sources import further_pages, sources_index

TEMPLATES = Path(__file__).parents[1] / "templates"
LINE = re.compile(r'<span id="L(\d+)"><a href="#L\d+" data-n="\d+"></a>(.*?)</span>(?=\n|$)', re.S)


def shown(markup: str) -> list[str]:
    """The lines a browser would hold as text."""
    return [html.unescape(re.sub(r"<[^>]+>", "", text)) for _, text in LINE.findall(markup)]


def written(tmp_path: Path, name: str = "round", **files: bytes):
    found = compose_round(tmp_path / name, tests=[sweep(1)], repeats=1, seal=False)
    for file, data in files.items():
        (found.path / file.replace("__", "/")).parent.mkdir(parents=True, exist_ok=True)
        (found.path / file.replace("__", "/")).write_bytes(data)
    out = tmp_path / "out"
    return found, out, write_listings(found, out, TEMPLATES)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\x00")), min_size=1))
def test_a_listing_holds_the_very_text_of_its_lines(lines):
    assert shown(body(lines, 1, json=False)) == lines
    assert shown(body(lines, 1, json=True)) == lines


def test_every_line_has_its_number_as_its_address():
    markup = body([f"line {k}" for k in range(1, 1203)], 1, json=False)
    assert [int(n) for n, _ in LINE.findall(markup)] == list(range(1, 1203))
    assert markup.count('class="c"') == 3


def test_only_a_line_feed_ends_a_line():
    assert split("a\u2028b\x0cc\x85d\r\ne\n") == ["a\u2028b\x0cc\x85d\r", "e"]
    assert split("") == []


def test_markup_in_a_file_is_shown_as_text():
    markup = body(['<script>alert(1)</script> {{ x }} <img src=x onerror=y>"&amp;'], 1, json=True)
    assert "<script" not in markup
    assert "<img" not in markup


def test_control_characters_can_be_seen():
    markup = body(["a\x1b[31m\u202eb\x7f"], 1, json=False)
    assert 'data-c="ESC"' in markup
    assert 'data-c="U+202E"' in markup
    assert 'data-c="DEL"' in markup


def test_keys_of_json_stand_out_but_not_those_inside_a_string():
    markup = body([r'{"text":"say \"no\": 1","n":2}'], 1, json=True)
    assert markup.count("<b>") == 2


def test_a_line_of_megabytes_survives():
    line = "x<" * 1_000_000
    assert shown(body([line], 1, json=True)) == [line]


def long_log(lines: int, width: int) -> bytes:
    return b"".join(b"line %d %s\n" % (k, b"x" * width) for k in range(1, lines + 1))


def test_a_long_file_is_split_and_every_link_finds_its_line(tmp_path):
    data = long_log(2000, 400)
    _, out, listed = written(tmp_path, **{"long.log": data})
    entry = next(entry for entry in listed if entry.file == "long.log")
    listings = Listings({"long.log": data}.__getitem__)
    assert len(entry.pages) > 2
    assert entry.pages == listings.starts("long.log") == tuple(entry.fact()["pages"])
    for line in (1, entry.pages[1] - 1, entry.pages[1], entry.pages[-1], 2000):
        path, anchor = listings.href("long.log", line).split("#")
        assert f'<span id="{anchor}"><a href="#L{line}" data-n="{line}"></a>line {line} ' in (out / path).read_text()
    assert not (out / listing_file("long.log", len(entry.pages) + 1)).exists()


def test_no_page_of_a_listing_is_heavy(tmp_path):
    _, out, _ = written(tmp_path, **{"long.log": long_log(20_000, 20), "wide.jsonl": long_log(300, 4000)})
    pages = list(out.glob("sources/*.html"))
    assert len(pages) > 6
    assert max(page.stat().st_size for page in pages) < 400_000


def test_a_line_longer_than_a_page_stands_alone():
    wide = b"x" * (2 * PAGE_BYTES)
    assert page_starts(b"a\n" + wide + b"\nb\n") == (1, 2, 3)
    assert page_starts(wide) == (1,)
    assert page_starts(b"") == (1,)


def test_a_page_in_the_middle_leads_to_its_neighbours_and_to_both_ends(tmp_path):
    _, out, listed = written(tmp_path, **{"long.log": long_log(40_000, 20)})
    count = len(next(entry for entry in listed if entry.file == "long.log").pages)
    assert count > 10
    shown = re.search(r"<nav class=\"pages\".*?</nav>", (out / listing_file("long.log", 6)).read_text(), re.S)[0]
    linked = [int(found) for found in re.findall(r"long\.log\.(\d+)\.html", shown)]
    assert linked == [3, 4, 5, 7, 8, 9, count]
    assert 'href="../sources/long.log.html"' in shown
    assert shown.count("…") == 2


def test_the_raw_copy_is_the_stored_file(tmp_path):
    found, out, listed = written(tmp_path)
    assert {entry.file for entry in listed} == set(found.evidence())
    for entry in listed:
        assert (out / raw_file(entry.file)).read_bytes() == found.bytes(entry.file)


def test_a_packed_file_is_listed_unpacked(tmp_path):
    found, out, listed = written(tmp_path)
    entry = next(entry for entry in listed if entry.file.endswith("before.prom.gz"))
    page = (out / listing_file(entry.file)).read_text("utf-8")
    assert shown(page) == split(found.text(entry.file))
    assert entry.sha256 in page


@pytest.mark.parametrize("name", ["evil.html", "notes.md", "x.svg"])
def test_what_a_browser_would_run_or_mkdocs_would_render_is_published_as_text(name):
    assert raw_file(name) == f"raw/{name}.txt"


def test_a_hidden_file_gets_a_name_that_is_published():
    assert listing_file(".hidden/x.json") == "sources/_.hidden/x.json.html"


def test_links_survive_odd_names():
    assert listing_href("a b#c?.log", 3) == "sources/a%20b%23c%3F.log.html#L3"


@pytest.mark.parametrize(
    ("id", "page"),
    [
        ("concurrency.vllm.c4.ttft.p50", "concurrency.vllm.c4"),
        ("concurrency.vllm.c4.r1.completed", "concurrency.vllm.c4.r1"),
        ("engine.vllm.tensor.7", "engine.vllm.tensor"),
        ("engine.vllm.tensor.271.elements", "engine.vllm.tensor.200"),
        ("concurrency.vllm.knee", "concurrency.vllm"),
        ("engine.vllm.weights_bytes", "engine.vllm"),
        ("pair.concurrency.a.b.cross1", "pair.concurrency.a.b"),
        ("pair.concurrency.a.b.ttft_p50_ratio_c16", "pair.concurrency.a.b"),
        ("pair.concurrency.a.b.ttft_p50_ratio_c1024", "pair.concurrency.a.b.1020"),
        ("pair.concurrency.a.b-16.via_c-16.ratio_c4.low", "pair.concurrency.a.b-16"),
        ("pair.concurrency.a.b-16.via_c-16.ratio_c64", "pair.concurrency.a.b-16.60"),
        ("test.concurrency.at.c512.lead", "test.concurrency.at.500"),
        ("machine", "machine"),
    ],
)
def test_a_figure_has_one_place(id, page):
    assert derivation_href(id) == f"figures/{page}.html#{id}"


def test_a_point_of_a_curve_leads_to_the_curve():
    assert derivation_href("c.e.c1.itl_ecdf[17]") == derivation_href("c.e.c1.itl_ecdf")


def test_the_index_links_every_file_and_counts_them(tmp_path):
    _, _, listed = written(tmp_path)
    index = sources_index("round", listed)
    for entry in listed:
        assert f'href="../{listing_href(entry.file)}"' in index
    assert f"{len(listed)} files" in index


def test_the_index_shows_a_hostile_round_name_as_text():
    assert "<script>" not in sources_index("<script>", [])


def test_a_test_and_an_engine_whose_names_join_to_the_same_words_keep_a_page_and_an_anchor_each():
    folders = ("levels/a-b/c", "levels/a/b-c", "levels/a_b/c")
    files = [f"{folder}/c1/r{k}/requests.jsonl" for folder in folders for k in range(600)]
    listed = [Listed(file, "ab" * 32, 1, 1) for file in files]
    index, further = sources_index("round", listed), [name for name, _ in further_pages("round", listed, TEMPLATES)]
    assert len(set(further)) == len(further) == len(folders)
    assert re.findall(r'href="(index[^"]+)"', index) == further
    anchors = re.findall(r"^## .* \{#(\S+)\}$", index, re.M)
    assert len(set(anchors)) == len(anchors) == len(folders)
