"""The list of rounds: what each was and what came out, in numbers of its own round, audited like any page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from compose import LLAMA, VLLM, compose_round, lengths, sweep
from genreport.audit import audit
from genreport.audit.rounds import read_list
from genreport.figures import compute
from genreport.pages import list_entry, round_list, shared_context
from genreport.publish import publish
from genreport.records import Failure
from genreport.rounds import Round


def entry(round: Round) -> str:
    figures = compute(round)
    return list_entry(figures, shared_context(figures))


def words(text: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", "", text).replace("\u202f", " ").split())


def listed(tmp_path: Path, **what: object) -> str:
    return words(entry(compose_round(tmp_path / "round", **({"tests": (sweep(1, 2, 4),), "repeats": 1} | what))))


def test_an_entry_says_when_on_what_how_much_and_what_came_out(tmp_path):
    text = listed(tmp_path)
    assert "2026-09-21 14:13 UTC · sealed" in text
    assert "At C = 1 llamacpp-q4 is the fastest with" in text
    assert "Machine Composed CPU, 2 cores, 24 GiB, no accelerator" in text
    assert re.search(r"vllm-bf16 vLLM 0\.0, composed, bf16", text)
    assert re.search(r"concurrency 6 levels × 1 repeat, \d+ requests completed, 0 failed", text)


def test_a_preview_is_told_from_a_sealed_round(tmp_path):
    assert "preview: its recording is unfinished, or broke off" in listed(tmp_path, seal=False)


def test_what_was_not_measured_to_the_end_is_told(tmp_path):
    text = listed(tmp_path, unfinished=["concurrency/vllm-bf16/c4/r1"])
    assert "parts of its plan were not measured to the end" in text


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ({"engines": [VLLM]}, r"vllm-bf16 delivers [\d.]+ tok/s at C = 1 and [\d.,]+ tok/s at C = 4\."),
        ({"tests": (sweep(2),)}, r"At C = 2, the only common load with results, \S+ is the fastest with \S+ tok/s \(against"),
        ({"engines": [LLAMA], "tests": (sweep(2),)}, r"At C = 2, the only load with results, llamacpp-q4 delivers \S+ tok/s"),
        ({"tests": (lengths(64, 128),)}, "This round has no concurrency sweep."),
        ({"failures": lambda *_: Failure(kind="connect")}, "No request of the concurrency sweep succeeded."),
        ({"latency": lambda engine, c, repeat: (0.1, 0.01 if engine == "vllm-bf16" else 0.02)},
         r"vllm-bf16 is the fastest at both ends of the range: "),
    ],
    ids=["one engine", "one level", "one engine, one level", "no sweep", "all failed", "one leads"],
)  # fmt: skip
def test_the_verdict_fits_what_was_measured(tmp_path, what, said):
    assert re.search(said, listed(tmp_path, **what))


def test_hostile_names_stay_words(tmp_path):
    path = tmp_path / "a <b>round"
    text = entry(compose_round(path, tests=(sweep(1),), repeats=1))
    assert "<b>round" not in text
    assert 'href="a%20%3Cb%3Eround/index.html"' in text
    assert 'data-round="a &lt;b&gt;round"' in text


def test_many_entries_are_one_page_each_under_its_own_heading():
    page = round_list([f'## r{k}\n\n<section data-round="r{k}"></section>\n' for k in range(30)])
    assert len(re.findall(r"^## ", page, re.M)) == 30


def test_what_stands_in_an_entry_is_told_from_what_stands_around_it():
    whole, entries = read_list(
        '<article>1<section data-round="a">2<span class="gr-lit">x</span></section>'
        '<section data-round="b">3</section>4</article>'
    )
    assert (whole.loose, entries["a"].loose, entries["b"].loose) == (["1", "4"], ["2"], ["3"])
    assert entries["a"].literals == ["x"]


# ------------------------------------------------------------------------------------- a site of several


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("list")
    rounds = [folder / "runs" / name for name in ("one", "two")]
    for k, path in enumerate(rounds):
        compose_round(path, tests=(sweep(1, 2, requests=8 + k),), repeats=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        publish(rounds, folder / "site")
    return folder / "site"


@pytest.fixture
def page(site: Path):
    path = site / "rounds" / "index.html"
    before = path.read_text("utf-8")
    yield path
    path.write_text(before, "utf-8")


@pytest.mark.slow
def test_the_audit_counts_the_rounds_that_are_listed(site):
    report = audit(site)
    assert report.failures == []
    assert report.counts["rounds listed"] == 2


@pytest.mark.slow
def test_its_numbers_lead_to_the_derivations_of_their_own_round(page):
    _, entries = read_list(page.read_text("utf-8"))
    for name, seen in entries.items():
        assert seen.numbers
        assert all(number.href.startswith(f"{name}/figures/") for number in seen.numbers)


def tampered(text: str, old: str, new: str) -> str:
    assert old in text, old
    return text.replace(old, new, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda t: re.sub(r'(data-id="machine\.cores"[^>]*>)2<', r"\g<1>3<", t, count=1), "is shown as '3'"),
        (lambda t: tampered(t, "one/figures/", "two/figures/"), "another round"),
        (lambda t: "vLLM 4.2".join(t.rsplit("vLLM", 1)), "a number without provenance"),
        (lambda t: re.sub(r'gr-lit">0\.0<', 'gr-lit">0.9<', t, count=1), "the round knows no '0.9'"),
        (lambda t: tampered(t, 'data-round="one"', 'data-round="three"'), "lists no round: 'three'"),
        (lambda t: tampered(t, "<h1", "<p>7 rounds</p><h1"), "a number without provenance"),
        (lambda t: "none/index.html".join(t.rsplit("two/index.html", 1)), "a link to nothing"),
    ],
    ids=["number", "link", "loose", "name", "round", "around", "way"],
)
def test_a_change_in_the_list_fails(site, page, change, said):
    page.write_text(change(page.read_text("utf-8")), "utf-8")
    assert any(said in failure for failure in audit(site).failures), audit(site).failures


@pytest.mark.slow
def test_a_round_that_is_not_listed_fails(site, page):
    text = page.read_text("utf-8")
    page.write_text(re.sub(r'<section class="gr-round" data-round="two">.*?</section>', "", text, flags=re.S), "utf-8")
    assert any("has no entry of the round 'two'" in failure for failure in audit(site).failures)
