"""A site of two rounds: borrowed figures and verdicts hold under the audit, and one changed word or number fails it."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from genreport.audit import audit
from genreport.cli import main
from genreport.errors import OptionError
from genreport.publish import Against, pairs_of, publish
from test_comparing import SLOW, noisy, recorded

CLAIM = {"id": "slower", "text": "it is slower", "figure": "itl.p50", "test": "concurrency", "engine": "vllm",
         "against_round": "old", "rises_by_more_than": 0.1}  # fmt: skip


def made(folder: Path) -> None:
    recorded(folder / "runs" / "old")
    recorded(folder / "runs" / "new", latency=noisy(factor=SLOW, shift=2), hypotheses=[CLAIM])


def call(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == code, result.output
    return result.output


@pytest.fixture(scope="module")
def true_site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("compared")
    made(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        publish([Path("runs/new")], Path("site"), compared=Against(((Path("runs/new"), Path("runs/old")),)))
    return folder / "site"


@pytest.fixture
def site(true_site, tmp_path) -> Path:
    return Path(shutil.copytree(true_site, tmp_path / "site"))


def failures(site: Path) -> str:
    return "\n".join(audit(site).failures)


def edited(site: Path, round: str, change: Callable[[dict], None]) -> None:
    path = site / "rounds" / round / "provenance.json"
    manifest = json.loads(path.read_text("utf-8"))
    change({figure["id"]: figure for figure in manifest["figures"]} | {"": manifest})
    path.write_text(json.dumps(manifest), "utf-8")


@pytest.mark.slow
def test_a_true_comparison_passes_and_is_counted(site):
    report = audit(site)
    assert report.failures == []
    assert report.counts["rounds"] == 2
    assert report.counts["borrowed figures"] > 50
    assert report.counts["verdicts"] > 10


@pytest.mark.slow
def test_hypothesis_and_reproducibility_stand_on_their_pages(site):
    front = (site / "rounds" / "new" / "index.html").read_text("utf-8")
    assert 'data-verdict="held" data-of="hypothesis.slower.verdict"' in front
    assert 'href="against-old/index.html"' in front
    again = (site / "rounds" / "new" / "ttft" / "index.html").read_text("utf-8")
    assert "Did it come out again?" in again
    assert 'data-of="against.old.concurrency.vllm.c4.ttft.p50.verdict"' in again
    alone = (site / "rounds" / "old" / "ttft" / "index.html").read_text("utf-8")
    assert "No earlier round was given" in alone


@pytest.mark.slow
def test_a_borrowed_number_leads_to_the_derivation_in_its_own_round(site):
    page = (site / "rounds" / "new" / "against-old" / "index.html").read_text("utf-8")
    (href,) = re.findall(r'href="([^"]+)" data-id="other.old.concurrency.vllm.c4.itl.p50"', page)
    assert href == "../../old/figures/concurrency.vllm.c4.html#concurrency.vllm.c4.itl.p50"


@pytest.mark.slow
def test_a_figure_that_changed_in_the_other_round_fails(site):
    def change(figures):
        figures["concurrency.vllm.c4.ttft.p50"]["value"] *= 1.01

    edited(site, "old", change)
    assert (
        "other.old.concurrency.vllm.c4.ttft.p50: differs in value from concurrency.vllm.c4.ttft.p50 of old"
        in failures(site)
    )


@pytest.mark.slow
def test_a_figure_that_the_other_round_lacks_fails(site):
    def change(figures):
        figures[""]["figures"].remove(figures["concurrency.vllm.c4.r1.ttft.p50"])

    edited(site, "old", change)
    assert "that round has no such figure" in failures(site)


@pytest.mark.slow
def test_another_round_in_the_place_of_the_one_compared_with_fails(site):
    def change(figures):
        figures[""]["files"]["seal.json"]["sha256"] = "0" * 64

    edited(site, "old", change)
    assert "another seal than the one compared with" in failures(site)


@pytest.mark.slow
def test_a_round_that_is_no_longer_there_fails(site):
    shutil.rmtree(site / "rounds" / "old")
    assert "the site holds no such round" in failures(site)


@pytest.mark.slow
def test_a_source_that_leads_out_of_the_site_fails(site):
    def change(figures):
        figures["other.old.concurrency.vllm.c4.ttft.p50"]["sources"][0]["round"] = "../../elsewhere"

    edited(site, "new", change)
    assert "the site holds no such round" in failures(site)


@pytest.mark.slow
def test_a_verdict_in_another_word_fails(site):
    page = site / "rounds" / "new" / "ttft" / "index.html"
    text = page.read_text("utf-8")
    page.write_text(text.replace('data-verdict="regressed"', 'data-verdict="equivalent"', 1), "utf-8")
    assert "says 'equivalent' of against.old." in failures(site)


@pytest.mark.slow
def test_a_verdict_whose_code_was_changed_fails(site):
    def change(figures):
        figures["against.old.concurrency.vllm.c4.ttft.p50.verdict"]["value"] = 0.0

    edited(site, "new", change)
    assert "against.old.concurrency.vllm.c4.ttft.p50.verdict: 0.0 in the manifest" in failures(site)


@pytest.mark.slow
def test_the_same_comparison_is_not_built_twice_and_another_one_is(true_site, monkeypatch):
    monkeypatch.chdir(true_site.parent)
    call("build", "runs/new", "--against", "runs/old")
    assert "up to date" in call("build", "runs/new", "--against", "runs/old")
    assert "built in" in call("build", "runs/new", "--against", "runs/old", "--family", "throughput")
    assert "built in" in call("build", "runs/new", "--against", "runs/old")


@pytest.mark.slow
def test_a_figure_of_a_comparison_can_be_explained(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    made(tmp_path)
    told = call("explain", "runs/new", "against.old.concurrency.vllm.c4.itl.p50.ratio", "--against", "runs/old")
    assert "exp(mean(log(new)) - mean(log(old)))" in told
    assert "from     old: `genreport explain old concurrency.vllm.c4.r1.itl.p50` goes on there" in told


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--against", "runs/new"], "--against: new is the earlier round of itself: all is equal; name another round"),
        (["--against", "runs/nowhere"], "runs/nowhere: no such round"),
        (["--against", "runs/old", "--map", "x"], "--map x: not an engine's old and new name"),
        (["--against", "runs/old", "--map", "x=vllm"], "--map x=vllm: the earlier round has no engine 'x'"),
        (["--against", "runs/old", "--family", "x"], "--family: no family or figure 'x'"),
        (["--against", "else=runs/old"], "else is not among the rounds being built; those are new"),
        (["--map", "x=vllm"], "--map: says how rounds are compared, and none is; name an earlier one: --against"),
        (["--family", "main"], "--family: says how rounds are compared"),
        (["--noise", "runs/noise.json"], "--noise: says how rounds are compared"),
        (["--against", "runs/old", "--noise", "runs/new/round.json"], "runs/new/round.json: no floors of noise"),
    ],
)
def test_a_comparison_that_cannot_be_made_is_one_line(tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    made(tmp_path)
    code = OptionError.exit_code if arguments[-1] not in ("runs/nowhere",) else 1
    output = call("build", "runs/new", *arguments, code=code)
    assert said in output
    assert output.count("\n") == 1


def test_an_earlier_round_is_for_all_or_for_one():
    a, b, old = Path("runs/a"), Path("runs/b"), Path("runs/old")
    assert pairs_of([a, b], ["runs/old"]) == ((a, old), (b, old))
    assert pairs_of([a, b], ["b=runs/old"]) == ((b, old),)
    assert pairs_of([a, b], ["runs/a"]) == ((b, Path("runs/a")),)
    assert pairs_of([a], ["runs/a"]) == ((a, Path("runs/a")),)
