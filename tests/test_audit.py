"""The audit passes a true site and fails on one changed digit wherever it stands, and on finding nothing."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

from compose import compose_round
from genreport.audit import audit
from genreport.cli import main
from genreport.errors import AuditError
from genreport.publish import publish

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def true_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("audit")
    compose_round(folder / "runs" / "composed")
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


def test_a_true_site_passes_and_says_how_much_was_checked(site):
    report = audit(site)
    assert report.failures == []
    assert report.counts["figures recomputed"] > 100
    assert report.counts["numbers in pages"] > 100
    assert report.counts["chart values"] > 100


def test_a_digit_changed_in_a_page_fails(site):
    edit(page(site), r'class="gr-num"[^>]*>([\d,.]+)')
    assert "is shown as" in failures(site)


def test_a_number_written_into_the_text_fails(site):
    path = page(site)
    text = path.read_text("utf-8")
    path.write_text(text.replace("<article", "<article>It is 42 ms.<i", 1), "utf-8")
    assert "a number without provenance" in failures(site)


def test_a_digit_changed_in_a_chart_fails(site):
    edit(page(site), r"&(?:#34|quot);value&(?:#34|quot);:\s*(\d+\.\d+)")
    assert "a chart draws" in failures(site)


def test_a_digit_changed_in_the_manifest_fails(site):
    path = site / "rounds" / "composed" / "provenance.json"
    manifest = json.loads(path.read_text("utf-8"))
    figure = next(f for f in manifest["figures"] if f["id"].endswith(".ttft.p50"))
    figure["value"] *= 1.1
    path.write_text(json.dumps(manifest), "utf-8")
    assert "in the manifest" in failures(site)


def test_a_digit_changed_in_a_raw_file_fails(site):
    edit(next((site / "rounds" / "composed" / "raw").rglob("requests.jsonl")), r'"warmup":false.*?"t0_us":(\d+)')
    found = failures(site)
    assert "is not the file whose hash the manifest holds" in found
    assert "in the manifest" in found


def test_a_digit_changed_in_a_listing_fails(site):
    edit(next((site / "rounds" / "composed" / "sources").rglob("requests.jsonl.html")), r'"t0_us"</b>:(\d+)')
    assert "shows another text than the file" in failures(site)


def test_a_digit_changed_in_a_derivation_fails(site):
    folder = site / "rounds" / "composed" / "figures"
    edit(next(p for p in sorted(folder.glob("concurrency.*.html"))), r'class="gr-num"[^>]*>([\d,.]+)')
    assert failures(site)


def test_a_removed_anchor_fails(site):
    path = next((site / "rounds" / "composed" / "sources").rglob("requests.jsonl.html"))
    path.write_text(path.read_text("utf-8").replace('id="L', 'id="M'), "utf-8")
    assert "a link to no anchor" in failures(site)


def test_a_site_without_rounds_fails(tmp_path):
    (tmp_path / "index.html").write_text("<p>nothing</p>")
    assert "nothing to check" in failures(tmp_path)
    result = CliRunner().invoke(main, ["audit", str(tmp_path)])
    assert result.exit_code == 1


def test_no_site_is_one_line(tmp_path):
    with pytest.raises(AuditError, match="no such folder"):
        audit(tmp_path / "none")
