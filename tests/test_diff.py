"""`genreport diff`: what it prints in each format, when it stops a pipeline, and what bad input gives."""

from __future__ import annotations

import csv
import json
import re
import shutil
import unicodedata
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner

from compose import LLAMA, VLLM, Engine, compose_round, lengths, sweep
from genreport.cli import main
from genreport.comparing.environment import Difference
from genreport.diff import markdown, summary
from genreport.diff.markdown import escaped
from genreport.diff.summary import change
from genreport.records import Failure
from genreport.rounds import Round
from genreport.words import say
from test_against import noisy, recorded

GOLDEN = Path(__file__).parent / "golden"
FLAGGED = (replace(VLLM, flags=("--max-num-seqs", "2")), LLAMA)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`old`, the `same` recorded again, `slow` with a flag changed, `once` with one repeat, `other` of another machine."""
    folder = tmp_path_factory.mktemp("diff") / "runs"
    tests = (sweep(1, 4, requests=8), lengths(64, concurrency=2))
    claim = {"id": "slower", "text": "two at a time are slower", "figure": "output_throughput", "test": "concurrency",
             "engine": "vllm-bf16", "against_round": "old", "falls_by_more_than": 0.1}  # fmt: skip
    recorded(folder / "old", tests=tests)
    recorded(folder / "same", tests=tests, latency=noisy(shift=1), seed="again")
    recorded(folder / "slow", tests=tests[:1], latency=noisy(vllm=1.6, shift=2), engines=FLAGGED, hypotheses=[claim])
    recorded(folder / "once", repeats=1, latency=noisy(vllm=3))
    recorded(folder / "other", machine={"cpu": "Another CPU"}, latency=noisy(vllm=3))
    return folder


@pytest.fixture(scope="module")
def call(runs: Path):
    """Runs `genreport diff` beside the rounds, each command once; the output if it ends with `code`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(runs.parent)
        invoked = cache(lambda *arguments: CliRunner().invoke(main, ["diff", *arguments]))

        def called(*arguments: str, code: int = 0) -> str:
            result = invoked(*arguments)
            assert result.exit_code == code, result.output
            return result.output

        yield called


def one_line(output: str) -> str:
    assert output.count("\n") == 1, output
    return output


# ------------------------------------------------------------------------------------------- formats


@pytest.mark.parametrize("format", ["text", "md", "csv", "json"])
def test_a_comparison_prints_as_its_golden_one(call, format):
    seen = call("runs/old", "runs/slow", "--format", format)
    golden = GOLDEN / f"diff.{format}"
    if not golden.is_file() or golden.read_text("utf-8") != seen:
        golden.with_suffix(f".{format}.new").write_text(seen, "utf-8")
        pytest.fail(f"{golden.name} reads differently; compare it with {golden.name}.new")


def test_the_first_line_after_the_names_is_the_sentence(call):
    lines = call("runs/old", "runs/slow").split("\n")
    assert lines[0] == "old → slow"
    assert lines[2] == "vllm-bf16 became slower; for llamacpp-q4 no change stands out from the noise."


def test_the_sentence_of_two_recordings_of_the_same_names_no_change(call):
    assert re.search(r"^(No change stands out|Nothing became)", call("runs/old", "runs/same"), re.M)


def test_json_and_csv_hold_the_same_unrounded_figures(call):
    found = json.loads(call("runs/old", "runs/slow", "--format", "json"))
    rows = list(csv.DictReader(call("runs/old", "runs/slow", "--format", "csv").splitlines()))
    assert found["format"] == "genreport-diff/1"
    assert [row["verdict"] for row in rows] == [row["verdict"] for row in found["figures"]]
    assert [float(row["new"]) for row in rows] == [row["new"] for row in found["figures"]]
    assert sum(found["counts"].values()) == len(rows)
    assert {(d["name"], d["old"], d["new"]) for d in found["environment"]} >= {("--max-num-seqs", None, "2")}
    assert found["case"] == "changes"


def test_then_now_and_change_agree_in_every_row(call):
    rows = list(csv.DictReader(call("runs/old", "runs/slow", "--format", "csv").splitlines()))
    for row in rows:
        assert float(row["new"]) / float(row["old"]) == pytest.approx(float(row["ratio"]))


def test_every_figure_of_the_table_stands_in_the_csv(call):
    rows = list(csv.DictReader(call("runs/old", "runs/slow", "--format", "csv").splitlines()))
    regressed = sum(row["verdict"] == "regressed" for row in rows)
    assert call("runs/old", "runs/slow").count(" regressed\n") == regressed
    assert call("runs/old", "runs/slow", "--format", "md").count("**regressed**") == regressed


def test_markdown_shows_text_of_a_round_as_text(tmp_path, runs):
    hostile = "<b>x</b> | @team `y` [z](javascript:1)\n# big"
    compose_round(tmp_path / "new", repeats=3, tests=(sweep(1, requests=8),), latency=noisy(),
                  engines=(replace(VLLM, version=hostile), LLAMA))  # fmt: skip
    result = CliRunner().invoke(main, ["diff", str(runs / "old"), str(tmp_path / "new"), "--format", "md"])
    assert result.exit_code == 0
    assert "<b>" not in result.output
    assert "@team" not in result.output
    assert "\n# big" not in result.output
    assert r"\<b\>x\</b\> \| " in result.output


def test_no_name_of_a_round_steers_the_terminal_and_each_stays_on_its_line(tmp_path, runs):
    new = tmp_path / "new\x1b]0;title\x07"
    compose_round(new, repeats=3, tests=(sweep(1, requests=8),), latency=noisy(),
                  machine={"packages": {"pack\x9b2J\nage": "1"}})  # fmt: skip
    result = CliRunner().invoke(main, ["diff", str(runs / "old"), str(new)], color=True)
    assert result.exit_code == 0
    assert result.output.startswith("old → new\ufffd]0;title\ufffd\n")
    assert "pack\ufffd2J\ufffdage" in result.output
    assert all(letter == "\n" or unicodedata.category(letter) != "Cc" for letter in result.output)


def test_a_comment_without_room_for_all_says_how_much_more_there_is(runs, monkeypatch):
    monkeypatch.chdir(runs.parent)
    monkeypatch.setattr(markdown, "MOST", 2)
    monkeypatch.setattr(markdown, "DIFFERENCES", 1)
    shown = CliRunner().invoke(main, ["diff", "runs/old", "runs/slow", "--format", "md"]).output
    told = [int(number) for number in re.findall(r"^(\d+) more lines: `--format csv` has all$", shown, re.M)]
    of_others = int(re.search(r"^(\d+) more lines of other figures", shown, re.M)[1])
    rows = shown.count("\n| ") - shown.count(f"| {say('diff.level')} |")
    found = json.loads(CliRunner().invoke(main, ["diff", "runs/old", "runs/slow", "--format", "json"]).output)
    assert rows == 4
    assert rows + sum(told) + of_others == sum(row["verdict"] != "outside" for row in found["figures"])
    assert f"- {len(found['environment']) - 1} more differences: `--format json` has all" in shown


def test_escaped_text_keeps_its_letters():
    assert escaped("vllm-bf16 c4") == "vllm-bf16 c4"
    assert escaped("a|b*c") == r"a\|b\*c"
    assert escaped("one\ntwo\x1b[31m") == "one�two�\\[31m"


@pytest.mark.parametrize(
    ("ratio", "text"), [(1.5, "+50 %"), (0.25, "−75 %"), (1.0, "0 %"), (1.0123, "+1.23 %"), (None, "n/a")]
)
def test_a_ratio_is_told_as_a_change_with_its_sign(ratio, text):
    assert change(ratio) == text


# ------------------------------------------------------------------------------------------- the gate


def test_a_regression_ends_with_three_and_is_named(call):
    output = call("runs/old", "runs/slow", "--fail-on-regression", code=3)
    assert "genreport: regressed: concurrency/vllm-bf16/c4: throughput −" in output
    assert output.startswith("old → slow"), "the comparison is printed all the same"


def test_without_the_gate_a_regression_ends_with_zero(call):
    call("runs/old", "runs/slow")


def test_an_improvement_and_no_change_pass(call):
    call("runs/slow", "runs/old", "--fail-on-regression")
    call("runs/old", "runs/same", "--fail-on-regression")


def test_the_gate_sees_only_the_chosen_family(tmp_path):
    """Tokens come faster, the wait is longer: which of both counts is for the pipeline to say."""
    recorded(tmp_path / "old")
    recorded(tmp_path / "new", latency=noisy(vllm=0.5, llama=0.5, wait=1.8, shift=2))
    for family, code in (("throughput", 0), ("latency", 3), ("ttft.p50", 3), ("itl.p50,output_throughput", 0)):
        arguments = ["diff", str(tmp_path / "old"), str(tmp_path / "new"), "--fail-on-regression", "--family", family]
        assert CliRunner().invoke(main, arguments).exit_code == code, family


def test_an_unknown_family_is_one_line_that_names_what_there_is(call):
    assert "throughput" in one_line(call("runs/old", "runs/slow", "--family", "speed", code=2))


def test_a_level_that_completes_nothing_any_more_is_a_regression(tmp_path):
    recorded(tmp_path / "old")
    recorded(tmp_path / "new", failures=lambda e, level, *_: Failure(kind="connect") if level == "c4" else None)
    result = CliRunner().invoke(main, ["diff", str(tmp_path / "old"), str(tmp_path / "new"), "--fail-on-regression"])
    assert result.exit_code == 3
    assert "regressed: concurrency/vllm-bf16/c4: completes no request any more" in result.output


def test_a_level_of_which_half_fails_is_a_regression_however_fast_the_rest_is(tmp_path):
    recorded(tmp_path / "old")
    recorded(tmp_path / "new", latency=noisy(vllm=0.6, shift=2),
             failures=lambda e, level, _, k: half_of(e, level, k))  # fmt: skip
    said = "concurrency/vllm-bf16/c4: 12 of 24 requests failed, 0 of 24 before"
    for format in ("text", "md"):
        result = diffed(tmp_path, "--format", format, "--fail-on-regression")
        assert result.exit_code == 3
        assert "vllm-bf16 became faster" in result.output
        assert "; and 12 of 24 requests of vllm-bf16 fail now, more than before." in result.output
        assert said in result.output
        assert f"genreport: regressed: {said}" in result.output
    found = json.loads(diffed(tmp_path, "--format", "json").output)
    sides = {"old": {"failed": 0, "sent": 24}, "new": {"failed": 12, "sent": 24}}
    assert found["failing"] == [{"test": "concurrency", "engine": "vllm-bf16", "level": "c4"} | sides]
    row = next(csv.DictReader(diffed(tmp_path, "--format", "csv").output.splitlines()))
    assert (row["figure"], row["old"], row["new"], row["verdict"]) == ("failed", "0.0", "12.0", "regressed")


def half_of(engine: str, level: str, index: int) -> Failure | None:
    return Failure(kind="http", status=500) if (engine, level, index % 2) == ("vllm-bf16", "c4", 1) else None


def diffed(folder: Path, *options: str):
    return CliRunner().invoke(main, ["diff", str(folder / "old"), str(folder / "new"), *options])


def test_as_many_failures_as_before_are_no_regression(tmp_path):
    recorded(tmp_path / "old", failures=lambda e, level, _, k: half_of(e, level, k))
    recorded(
        tmp_path / "new", failures=lambda e, level, _, k: half_of(e, level, k), seed="again", latency=noisy(shift=1)
    )
    assert diffed(tmp_path, "--fail-on-regression").exit_code == 0
    assert json.loads(diffed(tmp_path, "--format", "json").output)["failing"] == []


@pytest.mark.parametrize("new", ["once", "other"])
def test_a_gate_that_cannot_judge_does_not_open(call, new):
    output = call("runs/old", f"runs/{new}", "--fail-on-regression", code=1)
    assert f"{new}: no figure could be judged, so nothing can be passed; compare rounds of one machine" in output


def test_what_a_round_lacks_is_said_in_words(call):
    text = call("runs/old", "runs/slow")
    assert re.search(r"flags --max-num-seqs +not set → 2\n", text)
    assert re.search(r"plan length +length → none such\n", text)
    assert re.search(r"hypotheses slower +added\n", text)
    assert "- hypotheses slower: added\n" in call("runs/old", "runs/slow", "--format", "md")


def test_a_round_and_itself_have_no_interval(call):
    rows = list(csv.DictReader(call("runs/old", "runs/old", "--format", "csv").splitlines()))
    assert {row["verdict"] for row in rows} == {"equal"}
    assert {row["low"] for row in rows} == {""}
    assert " to " not in call("runs/old", "runs/old").split("family")[0]


def test_the_same_round_twice_passes_and_says_so(call):
    assert "These are the same recording twice" in call("runs/old", "runs/old", "--fail-on-regression")


def test_a_renamed_engine_is_compared_when_it_is_mapped(tmp_path):
    recorded(tmp_path / "old", engines=(VLLM,))
    recorded(tmp_path / "new", engines=(replace(VLLM, id="vllm-next", weights="vllm-bf16"), Engine("vllm-third")))
    arguments = [
        "diff",
        str(tmp_path / "old"),
        str(tmp_path / "new"),
        "--map",
        "vllm-bf16=vllm-next",
        "--format",
        "json",
    ]
    found = json.loads(CliRunner().invoke(main, arguments).output)
    assert {"old": "vllm-bf16", "new": "vllm-next", "how": "map"} in found["engines"]


# ------------------------------------------------------------------------------------------- bad input


def test_a_round_that_is_not_there_is_one_line(call):
    assert "runs/none: no such round" in one_line(call("runs/old", "runs/none", code=1))


def test_another_format_is_one_line(call, runs, tmp_path):
    shutil.copytree(runs / "old", tmp_path / "next")
    head = tmp_path / "next" / "round.json"
    head.write_text(head.read_text("utf-8").replace("genreport-round/1", "genreport-round/2"), "utf-8")
    assert "genreport-round/2" in one_line(call("runs/old", str(tmp_path / "next"), code=1))


def test_a_changed_file_is_one_line_that_names_it(call, runs, tmp_path):
    shutil.copytree(runs / "old", tmp_path / "changed")
    file = Round(tmp_path / "changed").levels[0].requests_file
    with (tmp_path / "changed" / file).open("a") as text:
        text.write("\n")
    assert file in one_line(call("runs/old", str(tmp_path / "changed"), code=1))


def test_an_unfinished_round_is_one_line(call, tmp_path):
    recorded(tmp_path / "open", seal=False)
    assert "not sealed" in one_line(call("runs/old", str(tmp_path / "open"), code=1))


def test_a_round_without_a_repeat_is_said(call, tmp_path):
    keys = [f"concurrency/{engine}/c{c}/r1" for engine in ("vllm-bf16", "llamacpp-q4") for c in (1, 4)]
    recorded(tmp_path / "empty", repeats=1, unfinished=keys)
    assert "no level in common" in call("runs/old", str(tmp_path / "empty"))


@pytest.mark.parametrize(("name", "said"), [("bandwidth", "MBU and attainment are"), ("flops", "MFU is")])
def test_a_ceiling_that_differs_says_what_is_not_comparable(name, said):
    differs = Difference("ceiling", "vllm", name, "17 GB/s", "13.9 GB/s")
    assert summary.means(differs) == f"{said} not comparable"
    assert summary.means(Difference("system", "", "kernel", "6.1", "6.2")) == ""
