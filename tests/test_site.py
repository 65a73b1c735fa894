"""The site: all of it or the old one, built once, the same in and outside a checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from compose import compose_round, sweep
from genreport import site
from genreport.errors import BuildError
from genreport.provenance import Ledger, Pointer, Quantity
from genreport.rounds import Round
from genreport.site import SitePages, bundle, stamp

HERE = Path(__file__).parents[1]
build = partial(site.build, index=lambda entries: "# Rounds\n")


def pages(found: Round, text: str = "# Concurrency\n\nSee [the round](../index.md).\n") -> SitePages:
    ledger = Ledger()
    ledger.add(Quantity("machine.cores", 4, "count", "field", sources=(Pointer("machine.json", "/cores", 3),)))
    return SitePages(ledger, [("index.md", f"# Round {found.name}\n"), ("concurrency/index.md", text)])


def keep_a_library() -> None:
    """A chart library in the user's cache that is none, since making one takes seconds."""
    bundle._kept().parent.mkdir(parents=True, exist_ok=True)
    bundle._kept().write_text(f"{bundle._heading()}\n", "utf-8")


@pytest.fixture(scope="module")
def rounds(tmp_path_factory) -> list[Round]:
    folder = tmp_path_factory.mktemp("rounds")
    return [compose_round(folder / name, tests=[sweep(1)], repeats=1) for name in ("one", "two")]


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """No test writes into the checkout or waits for the chart library."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    keep_a_library()
    monkeypatch.delenv("SITE_URL", raising=False)


@pytest.fixture(scope="module")
def built(rounds, tmp_path_factory) -> Path:
    """One real build of two rounds."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("built")
        patch.chdir(folder)
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        keep_a_library()
        return build(rounds, pages, folder / "site").path


def fake_mkdocs(stage: Path, rounds) -> None:
    shutil.copytree(stage / "docs", stage / "site")


@pytest.fixture
def quick(monkeypatch):
    """MkDocs replaced by a copy, where a test is about what stands around it."""
    monkeypatch.setattr(site, "_mkdocs_build", fake_mkdocs)


# ------------------------------------------------------------------------------------- a real build


def test_every_round_of_the_call_and_no_other_is_in_the_site(built):
    assert {p.name for p in (built / "rounds").iterdir() if p.is_dir()} == {"one", "two"}


@pytest.mark.parametrize(
    "place",
    [
        "index.html", "concurrency/index.html", "sources/index.html", "sources/machine.json.html", "raw/machine.json",
        "figures/machine.html", "figures/index.html", "figures.js", "provenance.json",
    ],
)  # fmt: skip
def test_a_round_has_its_pages_sources_and_manifest(built, place):
    assert (built / "rounds" / "one" / place).is_file()


def test_no_page_asks_another_host_for_anything(built):
    loads = re.compile(r'<(?:script|link|img|iframe|source)\b[^>]*?(?:src|href)="?(https?:)?//', re.I)
    found = [page for page in built.rglob("*.html") if loads.search(page.read_text("utf-8"))]
    styles = [
        s for s in built.glob("assets/*.css") if "url(" in s.read_text("utf-8") or "@import" in s.read_text("utf-8")
    ]
    assert found == styles == []


def test_links_end_in_a_file_so_that_the_site_opens_without_a_server(built):
    page = (built / "rounds" / "one" / "concurrency" / "index.html").read_text("utf-8")
    links = [link for link in re.findall(r'<a [^>]*href="([^"#]+)', page) if not link.startswith(("#", "mailto:"))]
    assert links
    assert [link for link in links if link.endswith("/")] == []


def test_reports_stand_in_reading_order_in_the_navigation(rounds, tmp_path):
    def many(found):
        names = ("evidence", "kv", "guide", "head-to-head-x", "cliff", "ttft", "concurrency")
        return SitePages(pages(found).ledger, [("index.md", "# R\n"), *((f"{n}/index.md", f"# {n}\n") for n in names)])

    place = build(rounds[:1], many, tmp_path / "site").path / "rounds" / "one" / "index.html"
    sidebar = place.read_text("utf-8").split('data-md-component="sidebar"')[1]
    seen = re.findall(r'href="([a-z-]+)/index\.html"', sidebar)
    order = ["concurrency", "ttft", "kv", "cliff", "head-to-head-x", "guide", "sources", "evidence"]
    assert list(dict.fromkeys(seen)) == order


def test_home_leads_into_the_rounds_and_the_navigation_has_them_in_the_order_of_their_list(rounds, tmp_path):
    def newest_first(entries):
        return "# Rounds\n\n" + "".join(f'<section data-round="{name}"></section>\n' for name in ("two", "one"))

    home = (build(rounds, pages, tmp_path / "site", index=newest_first).path / "index.html").read_text("utf-8")
    before, article = home.split('<article class="md-content__inner')
    assert re.findall(r'href="rounds/(\w+)/index\.html"', article) == ["two", "one", "two"]
    assert '<a href="rounds/two/concurrency/index.html">01 Concurrency curve</a>' in article
    assert "<td>02 TTFT anatomy</td>" in article
    assert before.rindex("rounds/two/index.html") < before.rindex("rounds/one/index.html")


def test_with_many_rounds_only_the_one_that_is_read_shows_its_pages_in_the_navigation(tmp_path):
    rounds = [compose_round(tmp_path / f"night{k}", tests=[sweep(1)], repeats=1) for k in range(6)]
    place = build(rounds, pages, tmp_path / "site").path / "rounds" / "night3" / "index.html"
    sidebar = place.read_text("utf-8").split('data-md-component="sidebar"')[1]
    assert 'href="concurrency/index.html"' in sidebar
    assert 'href="../night4/index.html"' in sidebar
    assert "night4/concurrency" not in sidebar


def test_a_link_to_nothing_fails_the_build_and_the_old_site_stays(rounds, tmp_path):
    place = tmp_path / "site"
    build(rounds[:1], pages, place)
    before = stamp.content(place)
    with pytest.raises(BuildError, match=r"nowhere\.md"):
        build(rounds[:1], lambda r: pages(r, "# X\n\n[a](nowhere.md)\n"), place, options={"new": 1})
    assert stamp.content(place) == before
    assert [p for p in tmp_path.iterdir() if p.name.startswith(".genreport")] == []


def test_a_link_to_no_anchor_fails_the_build(rounds, tmp_path):
    with pytest.raises(BuildError, match="no-such"):
        build(rounds[:1], lambda r: pages(r, "# X\n\n[a](#no-such)\n"), tmp_path / "site")


def test_the_same_round_gives_the_same_bytes(rounds, tmp_path):
    first, second = (build(rounds[:1], pages, tmp_path / name).path for name in ("a", "b"))
    assert stamp.content(first) == stamp.content(second)


def test_in_a_checkout_plain_mkdocs_builds_what_was_generated_and_also_nothing(rounds, tmp_path):
    home = tmp_path / "checkout"
    for name in ("docs", "templates"):
        shutil.copytree(HERE / name, home / name, ignore=shutil.ignore_patterns("rounds", "vega.js"))
    shutil.copy(HERE / "mkdocs.yml", home)
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    quietly = {"cwd": home, "check": True, "capture_output": True, "env": os.environ | {"NO_MKDOCS_2_WARNING": "1"}}
    subprocess.run(command, **quietly)
    assert not (home / "site" / "rounds").exists()
    shutil.rmtree(home / "site")
    build(rounds, pages, home / "site", home=home)
    build(rounds[:1], pages, home / "site", home=home)
    subprocess.run([*command, "--site-dir", "again"], **quietly)
    assert [p.name for p in (home / "docs" / "rounds").iterdir() if p.is_dir()] == ["one"]
    assert (home / "again" / "rounds" / "one" / "figures" / "machine.html").is_file()


# ------------------------------------------------------------------------------------- around it


def test_nothing_is_computed_again_when_nothing_changed(rounds, tmp_path, quick):
    place = tmp_path / "site"
    assert build(rounds, pages, place).fresh
    assert not build(rounds, lambda found: pytest.fail("pages computed again"), place).fresh


@pytest.mark.usefixtures("quick")
class TestASiteIsBuiltAgain:
    def test_when_its_files_were_changed(self, rounds, tmp_path):
        place = build(rounds, pages, tmp_path / "site").path
        (place / "rounds" / "one" / "index.md").write_text("# tampered\n")
        assert build(rounds, pages, place).fresh

    def test_for_other_rounds(self, rounds, tmp_path):
        place = build(rounds, pages, tmp_path / "site").path
        assert build(rounds[:1], pages, place).fresh
        assert not (place / "rounds" / "two").exists()

    def test_for_other_options(self, rounds, tmp_path):
        place = build(rounds, pages, tmp_path / "site").path
        assert build(rounds, pages, place, options={"slo": 1}).fresh

    def test_when_evidence_changed(self, tmp_path):
        found = compose_round(tmp_path / "r", tests=[sweep(1)], repeats=1, seal=False)
        place = build([found], pages, tmp_path / "site").path
        (found.path / "plan.yaml").write_text("{}\n")
        assert build([Round(found.path)], pages, place).fresh


def test_a_failing_page_leaves_the_old_site(rounds, tmp_path, quick):
    place = build(rounds, pages, tmp_path / "site").path
    before = stamp.content(place)

    def failing(found):
        raise BuildError("no")

    with pytest.raises(BuildError):
        build(rounds, failing, place, options={"new": 1})
    assert stamp.content(place) == before


def test_a_folder_that_is_no_site_is_never_replaced(rounds, tmp_path):
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("years")
    with pytest.raises(BuildError, match="not a site"):
        build(rounds, pages, tmp_path / "precious")
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "years"


def test_two_rounds_of_one_name_are_refused(rounds, tmp_path):
    with pytest.raises(BuildError, match="two rounds"):
        build([rounds[0], rounds[0]], pages, tmp_path / "site")


def test_a_call_without_rounds_is_refused(tmp_path):
    with pytest.raises(BuildError, match="no round"):
        build([], pages, tmp_path / "site")


def test_the_manifest_lists_every_file_with_its_hash(rounds, tmp_path, quick):
    place = build(rounds[:1], pages, tmp_path / "site").path
    manifest = json.loads((place / "rounds" / "one" / "provenance.json").read_text("utf-8"))
    assert set(manifest["files"]) == set(rounds[0].evidence())
    assert manifest["files"]["machine.json"]["lines"] > 10
    assert [figure["id"] for figure in manifest["figures"]] == ["machine.cores"]


def test_a_writeable_cache_spares_the_chart_library_its_second_build(tmp_path, monkeypatch):
    bundle._kept().unlink()
    made = []
    monkeypatch.setattr(bundle, "_made", lambda: made.append(1) or f"{bundle._heading()}\nx")
    bundle.write_bundle(tmp_path / "a.js")
    bundle.write_bundle(tmp_path / "b.js")
    assert made == [1]


@pytest.mark.slow
def test_the_chart_library_is_made_by_another_process_meanwhile(tmp_path):
    bundle._kept().unlink()
    with bundle.written_meanwhile(tmp_path / "assets" / "vega.js"):
        pass
    assert "genreportEmbed" in (tmp_path / "assets" / "vega.js").read_text("utf-8")[-2000:]
    assert bundle._is_current(bundle._kept())


def test_the_stylesheets_and_scripts_named_in_the_configuration_exist():
    text = (HERE / "mkdocs.yml").read_text("utf-8")
    for name in re.findall(r"^\s+- (assets/\S+)$", text, re.M):
        assert (HERE / "docs" / name).is_file()


def test_outside_a_checkout_nothing_is_written_beside_the_site(rounds, tmp_path, quick):
    build(rounds, pages, tmp_path / "site")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["cache", "site"]
