"""Many rounds in time: what is compared with what, where a change is marked and why, and what is not joined by a line."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest
from click.testing import CliRunner

from compose import LLAMA, VLLM, bunched, lengths
from genreport.audit import audit
from genreport.cli import main
from genreport.comparing.lineage import in_time, predecessors
from genreport.figures import Figures, compute
from genreport.publish import _Remembering, history
from genreport.reports.history import History, letters, page
from genreport.rounds import Round
from test_against import noisy, recorded, words

FLAGGED = (replace(VLLM, flags=("--max-num-seqs", "2")), LLAMA)


@pytest.fixture(scope="module")
def rounds(tmp_path_factory) -> list[Round]:
    """Five nights: the second is the first again; a flag in the third; vLLM broke in the fourth; another machine."""
    folder = tmp_path_factory.mktemp("history") / "runs"
    slow = noisy(vllm=1.6, shift=2)
    return [
        recorded(folder / "n1"),
        recorded(folder / "n2", latency=noisy(shift=1), seed="again"),
        recorded(folder / "n3", latency=slow, engines=FLAGGED),
        recorded(folder / "n4", engines=(LLAMA,), seed="again"),
        recorded(folder / "n5", latency=slow, engines=FLAGGED, seed="again"),
        recorded(folder / "n6", machine={"cpu": "Another CPU"}),
    ]


@pytest.fixture(scope="module")
def nights(rounds: list[Round]):
    """The history of some of the rounds, by the numbers of their nights; each is told once."""
    return cache(lambda *numbers: _Remembering([rounds[k - 1] for k in numbers]))


@pytest.fixture(scope="module")
def story(nights) -> History:
    return nights(1, 2, 3, 4, 5)._told[1]


@pytest.fixture(scope="module")
def text(nights) -> str:
    return told(nights(1, 2, 3, 4, 5))


def told(remembering: _Remembering) -> str:
    """The page in the newest round's folder."""
    return dict(remembering.pages(remembering.rounds[-1]).pages)["history/index.md"]


def named(found: list[Figures]) -> list[str]:
    return [figures.round.name for figures in found]


# ------------------------------------------------------------------------------------------- who is compared with whom


def test_rounds_stand_in_the_order_of_their_start_then_of_their_names(rounds):
    figures = [compute(found) for found in (rounds[2], rounds[0], rounds[1])]
    assert named(in_time(figures)) == ["n1", "n2", "n3"]


def test_each_round_is_compared_with_the_nearest_earlier_one(story):
    assert {entry.name: [c.name for c in entry.comparisons] for entry in story.entries} == {
        "n1": [], "n2": ["n1"], "n3": ["n2"], "n4": ["n3"], "n5": ["n4", "n3"],
    }  # fmt: skip


def test_a_round_of_another_machine_has_no_predecessor(rounds):
    earlier = [compute(found) for found in rounds[:2]]
    assert predecessors(compute(rounds[5]), earlier) == []


def test_a_round_that_a_hypothesis_is_about_is_compared_too(tmp_path, rounds):
    claim = {"id": "x", "text": "x", "figure": "itl.p50", "test": "concurrency", "engine": "vllm-bf16",
             "against_round": "n1", "stays_within": 0.1}  # fmt: skip
    figures = compute(recorded(tmp_path / "n3", hypotheses=[claim]))
    assert named(predecessors(figures, [compute(found) for found in rounds[:2]])) == ["n2", "n1"]


# ------------------------------------------------------------------------------------------- what is marked


def test_a_change_is_marked_once_in_the_round_that_made_it(story):
    assert [found.entry.name for found in story.changed()] == ["n3"]
    (change,) = story.changed()
    assert {row.engine for row in change.rows} == {"vllm-bf16"}
    assert {row.figure.verdict for row in change.rows} == {"regressed"}


def test_a_change_that_several_comparisons_see_is_told_by_the_nearest_alone(tmp_path):
    """The newest round goes back beyond the one before it, which lacks vLLM; LLAMA changed against both."""
    made = [
        recorded(tmp_path / "n1"),
        recorded(tmp_path / "n2", engines=(LLAMA,), seed="again", latency=noisy(shift=1)),
        recorded(tmp_path / "n3", latency=noisy(llama=1.6, vllm=1.6, shift=2)),
    ]
    found = _Remembering(made)._told[1].changed()
    assert [(f.entry.name, f.comparison.name, {row.engine for row in f.rows}) for f in found] == [
        ("n3", "n2", {"llamacpp-q4"}), ("n3", "n1", {"vllm-bf16"}),
    ]  # fmt: skip


def test_what_was_changed_around_a_change_is_named(text):
    assert "Changed around it: vllm-bf16: --max-num-seqs added (2)." in words(text)
    assert 'href="../../n3/against-n2/index.html"' in text


def test_a_recording_of_the_same_marks_nothing(nights):
    assert nights(1, 2)._told[1].changed() == []
    said = words(told(nights(1, 2)))
    assert "No figure changed from one of these rounds to the next by more than the noise." in said


def test_one_round_alone_has_no_history_and_says_so(nights):
    assert "There is one round so far, so there is no history yet." in words(told(nights(1)))


def test_the_last_change_is_told_on_top_where_the_newest_round_made_none(text):
    assert "the last change was in n3" in words(text)


# ------------------------------------------------------------------------------------------- lines


def lines(story: History, engine: str) -> list[tuple[str, int]]:
    return [(p.entry.name, p.line) for p in story.at(1) if p.level.engine == engine]


def test_a_line_goes_on_over_a_round_that_lacks_the_level(story):
    found = lines(story, "vllm-bf16")
    assert [name for name, _ in found] == ["n1", "n2", "n3", "n5"]
    assert len({line for _, line in found}) == 1


def test_another_machine_begins_a_new_line(nights):
    found = nights(1, 2, 6)
    assert len({line for _, line in lines(found._told[1], "vllm-bf16")}) == 2
    assert "nothing: another machine (cpu Composed CPU → Another CPU)" in words(told(found))


def test_points_of_a_chart_carry_the_change_and_lead_to_their_round(story):
    chart = page(story).context["charts"]["output_throughput", 4]
    held = [row for some in chart.spec["datasets"].values() for row in some]
    changed = {row["round"] for row in held if row["verdict"] == "regressed"}
    assert changed == {"n3"}
    assert {row["href"].split("figures/")[0] for row in held if row["round"] == "n3"} == {"../n3/"}
    assert {row["href"].split("figures/")[0] for row in held if row["round"] == "n5"} == {""}
    assert "(regressed)" in chart.alt


def test_the_loads_followed_are_the_lowest_and_the_highest_of_the_newest_round(story):
    assert story.loads() == [1, 4]


def test_lines_are_called_by_letters():
    assert [letters(k) for k in (0, 25, 26, 27)] == ["a", "z", "ba", "bb"]


# ------------------------------------------------------------------------------------------- the command


@pytest.mark.slow
def test_the_site_of_a_history_passes_the_audit(rounds, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    history([found.path for found in rounds], tmp_path / "site")
    report = audit(tmp_path / "site")
    assert report.failures == []
    assert report.counts["rounds"] == 6
    assert report.counts["borrowed figures"] > 100
    text = (tmp_path / "site" / "rounds" / "n6" / "history" / "index.html").read_text("utf-8")
    assert text.count("gr-chart") >= 6
    front = (tmp_path / "site" / "rounds" / "n6" / "index.html").read_text("utf-8")
    assert 'href="history/index.html"' in front


@pytest.mark.slow
def test_the_command_takes_the_newest_rounds_when_asked(rounds, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["history", *(str(found.path) for found in rounds[:3]), "--last", "2", "--site", "site"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in (tmp_path / "site" / "rounds").iterdir() if path.is_dir()) == ["n2", "n3"]


def test_names_that_make_the_same_ids_are_refused_in_one_line(tmp_path):
    for name in ("2026.11.30", "2026_11_30"):
        recorded(tmp_path / name)
    result = CliRunner().invoke(main, ["history", str(tmp_path / "2026.11.30"), str(tmp_path / "2026_11_30")])
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert "or nearly so" in result.output


def test_an_unfinished_round_is_refused_in_one_line(tmp_path):
    recorded(tmp_path / "open", seal=False)
    result = CliRunner().invoke(main, ["history", str(tmp_path / "open")])
    assert (result.exit_code, result.output.count("\n")) == (1, 1)
    assert "not sealed" in result.output


def test_a_round_without_a_sweep_has_no_curve_and_says_so(tmp_path):
    made = [recorded(tmp_path / name, tests=(lengths(64),), seed=name) for name in ("a", "b")]
    text = told(_Remembering(made))
    assert "no curve is followed here" in words(text)
    assert "gr-chart" not in text


def test_rounds_in_which_the_itl_is_zero_have_all_their_pages(tmp_path):
    """Events that are read in bunches: on a log scale there is no place for their median gap."""
    made = [recorded(tmp_path / name, alter=bunched, seed=name) for name in ("a", "b")]
    assert compute(made[1]).ledger["concurrency.vllm-bf16.c1.itl.p50"].value == 0
    remembering = _Remembering(made)
    pages = dict(remembering.pages(made[1]).pages)
    assert {"concurrency/index.md", "history/index.md"} < set(pages)
