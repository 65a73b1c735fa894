"""What a user sees: one line that says what, where and what to do, an exit code, and nothing lost."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from compose import compose_round
from genreport.cli import main
from genreport.display import shown
from genreport.places import STAMP


@pytest.fixture
def round_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    compose_round(tmp_path / "runs" / "composed")
    return tmp_path / "runs" / "composed"


def call(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(arguments))
    assert result.exit_code == code, result.output
    return result.output


def one_line(*arguments: str, code: int = 1) -> str:
    output = call(*arguments, code=code)
    assert output.count("\n") == 1, output
    return output


def test_help_names_the_commands_in_the_order_of_a_first_use():
    output = call("--help")
    commands = ["run", "check", "build", "serve", "explain", "audit", "demo"]
    places = [output.index(f"\n  {command} ") for command in commands]
    assert places == sorted(places)


def test_help_imports_nothing_heavy():
    heavy = "('pandas', 'altair', 'httpx', 'jinja2')"
    code = f"import sys; import genreport.cli; print([m for m in {heavy} if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("command", ["check", "build", "explain"])
def test_no_such_round_is_one_line(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "runs/none: no such round; name the folder" in one_line(command, "runs/none")


def test_a_folder_that_is_no_round_says_so(tmp_path):
    assert "not a round: it has no round.json" in one_line("check", str(tmp_path))


def test_another_format_is_named(round_path):
    head = round_path / "round.json"
    head.write_text(head.read_text().replace("genreport-round/1", "genreport-round/9"))
    assert "'genreport-round/9'; this version reads genreport-round/1" in one_line("check", str(round_path))


def test_a_sound_round_is_counted(round_path):
    assert "files and 20 levels hold" in call("check", str(round_path))


def test_one_changed_byte_is_named_by_its_file(round_path):
    file = round_path / "levels/concurrency/vllm-bf16/c4/r1/requests.jsonl"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    output = call("check", str(round_path), code=1)
    assert "c4/r1/requests.jsonl: changed since it was sealed" in output


def test_a_round_changed_after_sealing_is_not_built_and_the_old_site_stays(round_path):
    site = Path("site")
    site.mkdir()
    (site / "index.html").write_text("old")
    (round_path / "plan.yaml").write_text("plan: 1\n")
    assert "plan.yaml: changed since it was sealed" in one_line("build", str(round_path))
    assert (site / "index.html").read_text() == "old"


@pytest.mark.parametrize("command", ["build", "serve"])
def test_a_round_named_twice_is_one_clear_line(round_path, command):
    again = str(round_path / ".." / round_path.name)
    said = one_line(command, str(round_path), again, "--against", "runs/other", code=2)
    assert "composed is named twice; name each round once" in said


def test_an_absent_round_to_compare_with_is_one_clear_line(round_path):
    assert "runs/other: no such round" in one_line("build", str(round_path), "--against", "runs/other")


def test_a_plan_with_mistakes_exits_with_2_and_writes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text("plan: 1\nengines: []\ntests:\n  - id: x\n    kind: concurency\n")
    output = call("run", "plan.yaml", "--out", "runs/new", code=2)
    assert output.count("plan.yaml:") >= 2
    assert not Path("runs").exists()


def test_no_such_plan_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    output = call("run", "none.yaml", "--out", "runs/new", code=2)
    assert "none.yaml" in output
    assert not Path("runs").exists()


def test_explain_goes_down_to_file_and_line(round_path):
    output = call("explain", str(round_path), "concurrency.vllm-bf16.c4.output_throughput")
    assert "sum(tokens) / sum(windows)" in output
    assert "levels/concurrency/vllm-bf16/c4/r1/requests.jsonl:" in output
    assert '"t0_us":' in output


def test_explain_without_a_figure_lists_them(round_path):
    assert "concurrency.vllm-bf16.c4.ttft.p50" in call("explain", str(round_path)).split("\n")


def test_the_counts_of_the_evidence_page_are_listed_and_explained_too(round_path):
    assert "evidence.recomputed" in call("explain", str(round_path)).split("\n")
    output = call("explain", str(round_path), "evidence.failures")
    assert output.startswith("evidence.failures = 0 count")
    assert "count    of failures in the manifest" in output


def test_an_unknown_figure_suggests_near_ones(round_path):
    output = one_line("explain", str(round_path), "concurrency.vllm-bf16.c4.ttft.p55")
    assert "did you mean" in output
    assert "ttft.p50" in output


def test_a_figure_of_a_comparison_asks_for_the_earlier_round(round_path):
    output = one_line("explain", str(round_path), "against.old.concurrency.vllm-bf16.c4.output_throughput.change")
    assert output.endswith("it is of a comparison: name the earlier round too, with --against\n")


def test_a_reader_that_has_had_enough_of_the_figures_is_no_failure(round_path):
    code = "from genreport.cli import main; main()"
    command = f'set -o pipefail; "{sys.executable}" -c "{code}" figures "{round_path}" | head -1'
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert (found.returncode, found.stderr, found.stdout.count("\n")) == (0, "", 1)


def test_a_build_of_an_unsealed_round_says_that_it_is_a_preview(round_path, monkeypatch):
    (round_path / "seal.json").unlink()
    built = SimpleNamespace(path=Path("site"), seconds=1, fresh=True)
    monkeypatch.setattr("genreport.publish.publish", lambda *_: built)
    told = call("build", str(round_path)).splitlines()
    assert told[1].startswith(f"{round_path}: not sealed, so its pages are marked as a preview; ")


def test_a_round_without_a_level_says_so_plainly(tmp_path):
    compose_round(tmp_path / "composed", tests=())
    assert call("check", str(tmp_path / "composed")).endswith("hold; no level was measured to the end\n")


def test_what_explain_says_is_what_the_ledger_holds(round_path):
    from genreport.figures import compute
    from genreport.rounds import Round

    q = compute(Round(round_path)).ledger["concurrency.vllm-bf16.c1.ttft.p50"]
    assert f"{q.value!r} s  ({shown(q.value, 's')})" in call("explain", str(round_path), q.id)


def test_a_half_written_round_says_how_to_go_on(round_path):
    (round_path / "seal.json").unlink()
    assert "not sealed" in call("check", str(round_path), code=1)


def test_a_sealed_file_that_is_no_record_is_named(round_path):
    (round_path / "machine.json").write_text(json.dumps({"format": "genreport-machine/1"}))
    output = call("check", str(round_path), code=1)
    assert "machine.json: changed since it was sealed" in output


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "runs/x/a.json"),
         "genreport: runs/x/a.json: No space left on device; make room on the disk; `run --resume` goes on with a round"),
        (PermissionError(errno.EACCES, "Permission denied", "out"),
         "genreport: out: Permission denied; choose a folder that you may read and write"),
        (OSError(errno.EIO, "Input/output error"), "genreport: Input/output error"),
        (OSError("odd"), "genreport: odd"),
    ],
)  # fmt: skip
def test_what_the_system_refuses_is_one_line(error, told, monkeypatch):
    def refused(*_, **__):
        raise error

    monkeypatch.setattr("genreport.runner.run", refused)
    assert one_line("run", "plan.yaml", "--out", "runs/new") == told + "\n"


def test_a_round_below_a_file_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("plan.yaml").write_text(
        "plan: 1\nengines: [{id: a, kind: openai, model: m, url: 'http://127.0.0.1:9'}]\n"
        "tests: [{id: t, kind: concurrency, input: 1, output: 1, levels: [1]}]\n"
    )
    assert "Not a directory" in one_line("run", "plan.yaml", "--out", "plan.yaml/round")


@pytest.mark.parametrize(
    "writes",
    [
        ("guide", "{round}", "-o"),
        ("figures", "{round}", "-o"),
        ("noise", "{round}", "{round}", "--out"),
        ("plan", "init"),
    ],
    ids=lambda writes: writes[0],
)
@pytest.mark.parametrize(
    ("target", "told"),
    [
        ("{round}/plan.yaml", "is inside a round, which stays as it is; name a file elsewhere"),
        ("{round}/levels/new", "is inside a round, which stays as it is; name a file elsewhere"),
        ("site/rounds/new", "is inside a built site, which stays as it is; name a file elsewhere"),
        ("none/new", "there is no folder none; make it, or name another file"),
    ],
)
def test_no_command_writes_into_a_round_or_a_site_or_a_folder_that_is_not_there(writes, target, told, round_path):
    Path("site/rounds").mkdir(parents=True)
    Path("site", STAMP).touch()
    before = {file: file.read_bytes() for file in round_path.rglob("*") if file.is_file()}
    arguments = [each.format(round=round_path) for each in (*writes, target)]
    assert one_line(*arguments, code=2) == f"{arguments[-1]}: {told}\n"
    assert {file: file.read_bytes() for file in round_path.rglob("*") if file.is_file()} == before
    assert not list(Path("site").rglob("new"))


def test_a_reader_that_has_gone_is_no_error(monkeypatch):
    def gone(*_, **__):
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")

    monkeypatch.setattr("genreport.runner.run", gone)
    assert call("run", "plan.yaml", "--out", "runs/new", code=1) == ""
